"""ONNX: an AdditiveModel as one graph from raw columns, texts included, to predictions. The only file that knows onnx.

In: an AdditiveModel, or an estimator that holds one as `model_`. Out: an `onnx.ModelProto`, also written to a file if
a path is given. The graph does what the kernels do: find the knot below each value (a binary search), look up the cells
around it, interpolate, sum, link. It does so for all axes and for all terms of a kind at once, so that only columns of
levels, one node each, add to its nodes. All arithmetic is in double precision.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralbasis import __version__

from ..encoding.axis import Axis
from ..encoding.layout import Layout
from ..model.additive_model import AdditiveModel
from ..serialization.temporary_file import replace_when_done
from .plain import find_small

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

OPSETS = {"": 17, "ai.onnx.ml": 3}  # read by onnxruntime 1.13 and later
IR_VERSION = 8
OUTPUTS = ("prediction", "label", "probabilities", "scores")
MAX_LISTED = 20  # levels named in the description of an input


def to_onnx(model: Any, path: str | os.PathLike | None = None, *, missing: str = "") -> ModelProto:
    """Translate a model to ONNX.

    Every column is an input of its own name and of shape (N, 1): float64 for a continuous column, text for a column of
    levels, written as the model writes them (the number 3.0 is "3"). NaN is a missing number, the text `missing` a
    missing level; any other text that is no level of the column is an unseen one. An infinite value, an error in
    `predict`, is read as the outermost knot. Where a column is named like an output, or not at all, underscores follow.

    Outputs: `prediction` (N,) of a regression; `label` (N,), `probabilities` (N, classes) and `scores` (N, K) of a
    classification. Labels are bool, int64, float64 or text, the others float64.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the file; None writes nothing
    missing : the text that stands for a missing level; ONNX knows no missing text

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": np.linspace(0, 1, 60), "colour": np.array(["red", "blue", "green"] * 20, dtype=object)}
    >>> model = NeuralBasisRegressor(max_steps=20, outer_bags=2).fit(table, table["size"])
    >>> proto = to_onnx(model)
    >>> [value.name for value in proto.graph.input], [value.name for value in proto.graph.output]
    (['size', 'colour'], ['prediction'])

    >>> from onnxruntime import InferenceSession
    >>> session = InferenceSession(proto.SerializeToString())
    >>> (prediction,) = session.run(None, {name: values[:, None] for name, values in table.items()})
    >>> np.allclose(prediction, model.predict(table), rtol=0, atol=1e-12)
    True
    """
    found = find_small(model)
    inputs = _name_inputs(found.encoder.names)
    graph = _Graph({*inputs, *OUTPUTS})
    scores = _add_scores(graph, found, inputs, missing)
    outputs = _add_link(graph, found, scores)
    proto = _make_proto(graph, found, inputs, outputs, missing)
    if path is not None:
        with replace_when_done(path) as file:
            file.write(proto.SerializeToString())
    return proto


@dataclass(frozen=True)
class _Node:
    """One operator: its name, the names of what goes in and of what comes out."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]


@dataclass
class _Graph:
    """Nodes and constants in the making; `taken` are names that no tensor may have."""

    taken: set[str]
    nodes: list[_Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, operator: str, *inputs: str | np.ndarray, name: str | None = None, **attributes: Any) -> str:
        """Append a node and return the name of its output; arrays among its inputs become constants."""
        tensors = tuple(tensor if isinstance(tensor, str) else self.hold("constant", tensor) for tensor in inputs)
        output = self._find_name(operator.lower()) if name is None else name
        self.nodes.append(_Node(operator, tensors, output, attributes))
        return output

    def hold(self, name: str, values: np.ndarray) -> str:
        """Keep a constant, its numbers in the types that the graph computes with, and return its name."""
        name = self._find_name(name)
        self.constants[name] = values.astype({"i": np.int64, "f": np.float64}.get(values.dtype.kind, values.dtype))
        return name

    def _find_name(self, stem: str) -> str:
        number = len(self.nodes) + len(self.constants)
        while (name := f"{stem}_{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return name


def _name_inputs(names: Sequence[str]) -> list[str]:
    """The columns' own names, but for an output's name and the empty one, which is no name in ONNX."""
    reserved = {*OUTPUTS, ""}
    taken, inputs = reserved.union(names), []
    for name in names:
        if name in reserved:
            while name in taken:
                name += "_"
            taken.add(name)
        inputs.append(name)
    return inputs


@dataclass(frozen=True)
class _Positions:
    """Names of the tensors that say where rows stand on all axes of a kind at once.

    lower, share : (N, A) cell at or below a value of a continuous axis, and the way from there to the next
    cell : (N, A) cell of a level
    rank : place of each axis of the layout among those of its kind
    """

    lower: str
    share: str
    cell: str
    rank: np.ndarray


@dataclass(frozen=True)
class _Group:
    """Terms with the same number of continuous axes and of axes of levels, which are looked up at once.

    axes, strides : (T, o) axes of the layout and their steps in the flat table, continuous axes first
    offset : (T,) first cells
    n_continuous : how many of the o axes are continuous
    """

    axes: np.ndarray
    strides: np.ndarray
    offset: np.ndarray
    n_continuous: int


def _add_scores(graph: _Graph, model: AdditiveModel, inputs: Sequence[str], missing: str) -> str:
    """Scores (N, K): the intercept in every row, and all terms."""
    parts = [graph.add("Expand", model.intercept[None], graph.add("Shape", inputs[0]))]
    if model.shapes:
        layout = model.layout
        tables = [shape.scores.reshape(-1, model.n_outputs) for shape in model.shapes]
        table = graph.hold("table", np.concatenate(tables))
        positions = _add_positions(graph, layout, model.encoder.axes, inputs, missing)
        parts += [_look_up(graph, table, positions, group) for group in _group_terms(layout)]
    return graph.add("Sum", *parts, name=None if model.classes is None else "scores")


def _add_positions(
    graph: _Graph, layout: Layout, columns: Sequence[Axis], inputs: Sequence[str], missing: str
) -> _Positions:
    """Positions on the axes that terms read, each axis once."""
    used = np.unique(layout.term_axis)
    kinds = used[~layout.axis_level[used]], used[layout.axis_level[used]]
    rank = np.zeros(len(layout.axes), dtype=np.int64)
    for kind in kinds:
        rank[kind] = np.arange(len(kind))
    numbers, levels = ([(int(layout.axis_column[a]), layout.axes[a]) for a in kind] for kind in kinds)
    lower, share, cell = "", "", ""
    if numbers:
        lower, share = _locate_numbers(graph, [axis for _, axis in numbers], [inputs[column] for column, _ in numbers])
    if levels:
        codes = {
            column: _encode_levels(graph, columns[column], inputs[column], missing)
            for column in dict.fromkeys(column for column, _ in levels)
        }
        maps = [_map_levels(columns[column], axis) for column, axis in levels]
        cell = _locate_levels(graph, maps, [codes[column] for column, _ in levels])
    return _Positions(lower, share, cell, rank)


def _locate_numbers(graph: _Graph, axes: Sequence[Axis], inputs: Sequence[str]) -> tuple[str, str]:
    """`kernels._locate_column` for all continuous axes: cells below (N, A) and shares of the cells above (N, A)."""
    counts = np.array([len(axis.knots) for axis in axes])
    starts = np.cumsum(counts) - counts
    first, last = (np.array([axis.knots[end] for axis in axes]) for end in (0, -1))
    values = graph.add("Concat", *inputs, axis=1)
    is_missing = graph.add("IsNaN", values)
    inside = graph.add("Max", graph.add("Where", is_missing, first, values), first)
    inside = graph.add("Min", inside, last)
    left = _search(graph, inside, np.concatenate([axis.knots for axis in axes]), starts, np.maximum(counts - 1, 1))
    low, width, unit = np.concatenate([_measure_gaps(axis.knots) for axis in axes], axis=1)
    way = graph.add("Mul", inside, graph.add("Gather", unit, left))
    way = graph.add("Sub", way, graph.add("Gather", low, left))
    share = graph.add("Div", way, graph.add("Gather", width, left))
    lower = graph.add("Where", is_missing, np.array(0), graph.add("Sub", left, starts - 1))
    return lower, share


def _search(graph: _Graph, values: str, knots: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> str | np.ndarray:
    """The last of the `sizes` knots from `starts` on that is not above a value: (N, A) places among all knots.

    A binary search without branches: every step halves what is left of every axis. An axis that is done stays where
    it is, as its next half has no knots.
    """
    held = graph.hold("knots", knots)
    left: str | np.ndarray = starts
    while sizes.max() > 1:
        half = sizes // 2
        middle = graph.add("Add", left, half)
        is_reached = graph.add("LessOrEqual", graph.add("Gather", held, middle), values)
        left = graph.add("Where", is_reached, middle, left)
        sizes = sizes - half
    return left


def _measure_gaps(knots: np.ndarray) -> np.ndarray:
    """(3, G) of the gap behind each knot: where it begins, its width, and the unit in which both are measured."""
    right = np.append(knots[1:], knots[-1])
    unit = np.where(np.maximum(-knots, right) > 1, 0.5, 1.0)  # halves: the range of huge knots must not overflow
    width = right * unit - knots * unit
    width[-1] = 1.0  # behind the last knot there is nothing to divide
    return np.stack([knots * unit, width, unit])


def _encode_levels(graph: _Graph, axis: Axis, name: str, missing: str) -> str:
    """Cells (N, 1) of a column's texts on its own axis."""
    levels = axis.levels or ()
    if missing in levels:
        raise ValueError(
            f"column {axis.name!r} has a level {missing!r}, the text that is to stand for a missing value; "
            "choose another, for example missing='<missing>'"
        )
    cells = list(range(len(levels) + 1))
    texts = [missing, *levels]
    return graph.add("LabelEncoder", name, keys_strings=texts, values_int64s=cells, default_int64=len(texts))


def _map_levels(own: Axis, axis: Axis) -> np.ndarray:
    """Cell of the axis for every cell of the column's own; a level that a coarser axis does not keep is unseen."""
    cells = np.full(own.n_cells, axis.n_cells - 1)
    cells[0] = 0
    cells[1 + axis.knots.astype(np.int64)] = 1 + np.arange(len(axis.knots))
    return cells


def _locate_levels(graph: _Graph, maps: Sequence[np.ndarray], codes: Sequence[str]) -> str:
    """Cells (N, A) of all axes of levels."""
    sizes = np.array([len(cells) for cells in maps])
    code = graph.add("Add", graph.add("Concat", *codes, axis=1), np.cumsum(sizes) - sizes)
    return graph.add("Gather", np.concatenate(maps), code)


def _group_terms(layout: Layout) -> list[_Group]:
    alike: dict[tuple[int, int], list[int]] = {}
    for index in range(len(layout.terms)):
        axes = layout.term_axis[layout.term_start[index] : layout.term_start[index + 1]]
        alike.setdefault((len(axes), int(layout.axis_level[axes].sum())), []).append(index)
    return [_join_terms(layout, np.array(terms), *kind) for kind, terms in alike.items()]


def _join_terms(layout: Layout, terms: np.ndarray, order: int, n_levels: int) -> _Group:
    pieces = layout.term_start[terms][:, None] + np.arange(order)
    sorting = np.argsort(layout.axis_level[layout.term_axis[pieces]], axis=1, kind="stable")
    pieces = np.take_along_axis(pieces, sorting, axis=1)
    return _Group(layout.term_axis[pieces], layout.term_stride[pieces], layout.term_offset[terms], order - n_levels)


def _look_up(graph: _Graph, table: str, positions: _Positions, group: _Group) -> str:
    """Sum (N, K) of a group's contributions."""
    ranks, strides = positions.rank[group.axes].T, group.strides.T
    cell: str | np.ndarray = group.offset
    for d in range(len(ranks)):
        source = positions.lower if d < group.n_continuous else positions.cell
        way = graph.add("Mul", graph.add("Gather", source, ranks[d], axis=1), strides[d])  # (N, T)
        cell = graph.add("Add", cell, way)
    shares = [
        graph.add("Gather", positions.share, ranks[d][:, None], axis=1)  # (N, T, 1)
        for d in range(group.n_continuous)
    ]

    def interpolate(cell: str | np.ndarray, d: int) -> str:
        """Values (N, T, K) between the cells along the axes d … that are continuous."""
        if d == len(shares):
            return graph.add("Gather", table, cell)
        low = interpolate(cell, d + 1)
        high = interpolate(graph.add("Add", cell, strides[d]), d + 1)
        return graph.add("Add", low, graph.add("Mul", shares[d], graph.add("Sub", high, low)))

    return graph.add("ReduceSum", interpolate(cell, 0), np.array([1]), keepdims=0)


def _add_link(graph: _Graph, model: AdditiveModel, scores: str) -> list[tuple[str, np.dtype, list[str | int]]]:
    """Name, type and shape of each output."""
    number = np.dtype(np.float64)
    if model.link == "identity":
        if model.n_outputs > 1:
            return [(graph.add("Identity", scores, name="prediction"), number, ["N", model.n_outputs])]
        return [(graph.add("Squeeze", scores, np.array([1]), name="prediction"), number, ["N"])]
    if model.link == "logit":
        positive = graph.add("Sigmoid", scores)
        negative = graph.add("Sub", np.array(1.0), positive)
        graph.add("Concat", negative, positive, axis=1, name="probabilities")
        is_positive = graph.add("Squeeze", graph.add("Greater", scores, np.array(0.0)), np.array([1]))
        winner = graph.add("Where", is_positive, np.array(1), np.array(0))
    elif model.link == "mlogit":
        graph.add("Softmax", scores, axis=1, name="probabilities")
        winner = graph.add("ArgMax", scores, axis=1, keepdims=0)
    else:
        raise ValueError(f"to_onnx knows the links 'identity', 'logit' and 'mlogit', not {model.link!r}")
    labels = _read_classes(model)
    graph.add("Gather", labels, winner, name="label")
    shape: list[str | int] = ["N", len(labels)]
    return [("label", labels.dtype, ["N"]), ("probabilities", number, shape), (scores, number, ["N", model.n_outputs])]


def _read_classes(model: AdditiveModel) -> np.ndarray:
    """The labels in a type that ONNX has: bool, int64, float64, or text."""
    assert model.classes is not None
    labels = np.array(model.classes.tolist())
    if labels.dtype.kind in "bif":
        return labels
    return np.array([str(label) for label in model.classes], dtype=object)


def _make_proto(
    graph: _Graph,
    model: AdditiveModel,
    inputs: Sequence[str],
    outputs: Iterable[tuple[str, np.dtype, list[str | int]]],
    missing: str,
) -> ModelProto:
    try:
        from onnx import helper, numpy_helper
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'neuralbasis[onnx]'") from error
    nodes = [
        helper.make_node(
            node.operator,
            node.inputs,
            [node.output],
            node.output,
            domain="ai.onnx.ml" if node.operator == "LabelEncoder" else None,
            **node.attributes,
        )
        for node in graph.nodes
    ]
    whole = helper.make_graph(
        nodes,
        "neuralbasis",
        [_describe_input(axis, name, missing) for axis, name in zip(model.encoder.axes, inputs, strict=True)],
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
            for name, dtype, shape in outputs
        ],
        [numpy_helper.from_array(values, name) for name, values in graph.constants.items()],
    )
    proto = helper.make_model(
        whole,
        producer_name="neuralbasis",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS.items()],
        doc_string="score = intercept + the sum of one table a term; prediction = inverse link of the score",
    )
    helper.set_model_props(proto, _describe_model(model, inputs, missing))
    return proto


def _describe_input(axis: Axis, name: str, missing: str) -> ValueInfoProto:
    from onnx import TensorProto, helper

    if axis.levels is None:
        text = f"column {axis.name!r}: numbers from {axis.knots[0]:g} to {axis.knots[-1]:g}; NaN is missing"
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["N", 1], text)
    listed = ", ".join(map(repr, axis.levels[:MAX_LISTED]))
    more = len(axis.levels) - MAX_LISTED
    listed += f" and {more} more" if more > 0 else ""
    text = f"column {axis.name!r}: levels {listed}; {missing!r} is missing"
    return helper.make_tensor_value_info(name, TensorProto.STRING, ["N", 1], text)


def _describe_model(model: AdditiveModel, inputs: Sequence[str], missing: str) -> dict[str, str]:
    """Properties for whoever reads the file; the first two are JSON."""
    columns = dict(zip(inputs, model.encoder.names, strict=True))
    return {
        "columns": json.dumps(columns, ensure_ascii=False),
        "terms": json.dumps(model.term_names, ensure_ascii=False),
        "link": model.link,
        "missing": missing,
    }
