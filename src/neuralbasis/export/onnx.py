"""ONNX: a model as one graph from raw columns, text included, to predictions.

In: an AdditiveModel, or an estimator with one as `model_`. Out: an `onnx.ModelProto`, also written to a file if a path
is given. The graph follows the kernels: find the knot below each value (binary search), look up the cells around it,
interpolate, sum, link. Each step handles all axes, or all terms with the same kinds of axes, at once; only columns of
levels need one node each. All arithmetic is in double precision.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralbasis import __version__

from ..encoding.axis import Axis
from ..encoding.layout import Layout
from ..model.additive_model import AdditiveModel
from ..serialization.temporary_file import replace_when_done
from .plain import find_exportable

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

OPSETS = {"": 17, "ai.onnx.ml": 3}  # supported by onnxruntime 1.13 and later
IR_VERSION = 8
OUTPUTS = ("prediction", "label", "probabilities", "scores")
MAX_LISTED = 20  # levels listed in the description of an input


def to_onnx(model: Any, path: str | os.PathLike | None = None, *, missing: str = "") -> ModelProto:
    """Convert a model to ONNX.

    Every column is an input of its own name and of shape (N, 1): float64 for a continuous column, text for a column of
    levels (the number 3.0 is "3"). NaN is a missing number, and the text `missing` a missing level. Any other text that
    is no level of the column is an unseen level. An infinite value is read as the outermost knot, while `predict`
    raises an error. Underscores are appended to the name of a column that is empty or equals the name of an output.

    A regression has the output `prediction` (N,). A classification has `label` (N,), `probabilities` (N, classes) and
    `scores` (N, K). Labels are bool, int64, float64 or text; the other outputs are float64.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the file; None writes nothing
    missing : the text for a missing level; ONNX has no missing text

    Returns
    -------
    The `onnx.ModelProto`.

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
    found = find_exportable(model)
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
    """One operator: its name, the names of its inputs and of its output."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]


class _Output(NamedTuple):
    """An output of the graph. "N" in its shape is the number of rows."""

    name: str
    dtype: np.dtype
    shape: list[str | int]


@dataclass
class _Graph:
    """Nodes and constants. No tensor may have a name of `taken`."""

    taken: set[str]
    nodes: list[_Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, operator: str, *inputs: str | np.ndarray, name: str | None = None, **attributes: Any) -> str:
        """Append a node and return the name of its output. Arrays among its inputs become constants."""
        tensors = tuple(
            tensor if isinstance(tensor, str) else self.add_constant("constant", tensor) for tensor in inputs
        )
        output = self._find_name(operator.lower()) if name is None else name
        self.nodes.append(_Node(operator, tensors, output, attributes))
        return output

    def add_constant(self, name: str, values: np.ndarray) -> str:
        """Add a constant, with numbers as int64 or float64, and return its name."""
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
    """The names of the columns, changed where they are empty or equal the name of an output."""
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
    """Names of the tensors with the positions of rows on all axes of a kind.

    lower, share : (N, A) cell at or below a value of a continuous axis, and the weight of the next cell
    cell : (N, A) cell of a level
    rank : index of each axis of the layout among those of its kind
    """

    lower: str
    share: str
    cell: str
    rank: np.ndarray


@dataclass(frozen=True)
class _TermGroup:
    """Terms with the same number of continuous axes and of axes of levels.

    axes, strides : (T, o) axes of the layout and their strides in the flat table, continuous axes first
    offset : (T,) first cell of each term
    n_continuous : how many of the o axes are continuous
    """

    axes: np.ndarray
    strides: np.ndarray
    offset: np.ndarray
    n_continuous: int


def _add_scores(graph: _Graph, model: AdditiveModel, inputs: Sequence[str], missing: str) -> str:
    """Scores (N, K): the intercept plus all terms."""
    parts = [graph.add("Expand", model.intercept[None], graph.add("Shape", inputs[0]))]
    if model.shapes:
        layout = model.layout
        tables = [shape.scores.reshape(-1, model.n_outputs) for shape in model.shapes]
        table = graph.add_constant("table", np.concatenate(tables))
        positions = _add_positions(graph, layout, model.encoder.axes, inputs, missing)
        parts += [_look_up(graph, table, positions, group) for group in _group_terms(layout)]
    return graph.add("Sum", *parts, name=None if model.classes is None else "scores")


def _add_positions(
    graph: _Graph, layout: Layout, columns: Sequence[Axis], inputs: Sequence[str], missing: str
) -> _Positions:
    """Positions on the axes of all terms, each axis once."""
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
    """Cells below (N, A) and shares of the cells above (N, A) on all continuous axes, computed as in the kernels."""
    counts = np.array([len(axis.knots) for axis in axes])
    starts = np.cumsum(counts) - counts
    first, last = (np.array([axis.knots[end] for axis in axes]) for end in (0, -1))
    values = graph.add("Concat", *inputs, axis=1)
    is_missing = graph.add("IsNaN", values)
    inside = graph.add("Max", graph.add("Where", is_missing, first, values), first)
    inside = graph.add("Min", inside, last)
    left = _search(graph, inside, np.concatenate([axis.knots for axis in axes]), starts, np.maximum(counts - 1, 1))
    low, width, unit = np.concatenate([_measure_gaps(axis.knots) for axis in axes], axis=1)
    distance = graph.add("Mul", inside, graph.add("Gather", unit, left))
    distance = graph.add("Sub", distance, graph.add("Gather", low, left))
    share = graph.add("Div", distance, graph.add("Gather", width, left))
    lower = graph.add("Where", is_missing, np.array(0), graph.add("Sub", left, starts - 1))
    return lower, share


def _search(graph: _Graph, values: str, knots: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> str | np.ndarray:
    """(N, A) index among all knots of the last knot at or below a value, of the `sizes` knots from `starts` on.

    A binary search without branches: every step halves the rest of every axis. Once one knot is left, its half is 0 and
    the index stays.
    """
    constant = graph.add_constant("knots", knots)
    left: str | np.ndarray = starts
    while sizes.max() > 1:
        half = sizes // 2
        middle = graph.add("Add", left, half)
        is_reached = graph.add("LessOrEqual", graph.add("Gather", constant, middle), values)
        left = graph.add("Where", is_reached, middle, left)
        sizes = sizes - half
    return left


def _measure_gaps(knots: np.ndarray) -> np.ndarray:
    """(3, G) for the gap after each knot: its start, its width, and the unit of both."""
    right = np.append(knots[1:], knots[-1])
    unit = np.where(np.maximum(-knots, right) > 1, 0.5, 1.0)  # halved: the difference of huge knots would overflow
    width = right * unit - knots * unit
    width[-1] = 1.0  # there is no gap after the last knot
    return np.stack([knots * unit, width, unit])


def _encode_levels(graph: _Graph, axis: Axis, name: str, missing: str) -> str:
    """Cells (N, 1) of a column of levels on its own axis."""
    levels = axis.levels or ()
    if missing in levels:
        raise ValueError(
            f"column {axis.name!r} has a level {missing!r}, which is also the text for a missing value; "
            "choose another, for example missing='<missing>'"
        )
    cells = list(range(len(levels) + 1))
    texts = [missing, *levels]
    return graph.add("LabelEncoder", name, keys_strings=texts, values_int64s=cells, default_int64=len(texts))


def _map_levels(own: Axis, axis: Axis) -> np.ndarray:
    """The cell of an axis for every cell of the column's own axis. Levels that a coarser axis drops are unseen."""
    cells = np.full(own.n_cells, axis.n_cells - 1)
    cells[0] = 0
    cells[1 + axis.knots.astype(np.int64)] = 1 + np.arange(len(axis.knots))
    return cells


def _locate_levels(graph: _Graph, maps: Sequence[np.ndarray], codes: Sequence[str]) -> str:
    """Cells (N, A) on all axes of levels."""
    sizes = np.array([len(cells) for cells in maps])
    code = graph.add("Add", graph.add("Concat", *codes, axis=1), np.cumsum(sizes) - sizes)
    return graph.add("Gather", np.concatenate(maps), code)


def _group_terms(layout: Layout) -> list[_TermGroup]:
    by_kinds: dict[tuple[int, int], list[int]] = {}
    for index in range(len(layout.terms)):
        axes = layout.term_axis[layout.term_start[index] : layout.term_start[index + 1]]
        by_kinds.setdefault((len(axes), int(layout.axis_level[axes].sum())), []).append(index)
    return [_join_terms(layout, np.array(terms), *kinds) for kinds, terms in by_kinds.items()]


def _join_terms(layout: Layout, terms: np.ndarray, order: int, n_levels: int) -> _TermGroup:
    at = layout.term_start[terms][:, None] + np.arange(order)  # (T, o) indices into term_axis
    levels_last = np.argsort(layout.axis_level[layout.term_axis[at]], axis=1, kind="stable")
    at = np.take_along_axis(at, levels_last, axis=1)
    return _TermGroup(layout.term_axis[at], layout.term_stride[at], layout.term_offset[terms], order - n_levels)


def _look_up(graph: _Graph, table: str, positions: _Positions, group: _TermGroup) -> str:
    """(N, K) sum of the contributions of a group."""
    ranks, strides = positions.rank[group.axes].T, group.strides.T
    cell: str | np.ndarray = group.offset
    for d in range(len(ranks)):
        source = positions.lower if d < group.n_continuous else positions.cell
        step = graph.add("Mul", graph.add("Gather", source, ranks[d], axis=1), strides[d])  # (N, T)
        cell = graph.add("Add", cell, step)
    shares = [
        graph.add("Gather", positions.share, ranks[d][:, None], axis=1)  # (N, T, 1)
        for d in range(group.n_continuous)
    ]

    def interpolate(cell: str | np.ndarray, d: int) -> str:
        """(N, T, K) values interpolated along the continuous axes d, d + 1, …"""
        if d == len(shares):
            return graph.add("Gather", table, cell)
        low = interpolate(cell, d + 1)
        high = interpolate(graph.add("Add", cell, strides[d]), d + 1)
        return graph.add("Add", low, graph.add("Mul", shares[d], graph.add("Sub", high, low)))

    return graph.add("ReduceSum", interpolate(cell, 0), np.array([1]), keepdims=0)


def _add_link(graph: _Graph, model: AdditiveModel, scores: str) -> list[_Output]:
    number = np.dtype(np.float64)
    if model.link == "identity":
        if model.n_outputs > 1:
            return [_Output(graph.add("Identity", scores, name="prediction"), number, ["N", model.n_outputs])]
        return [_Output(graph.add("Squeeze", scores, np.array([1]), name="prediction"), number, ["N"])]
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
        raise ValueError(f"to_onnx supports the links 'identity', 'logit' and 'mlogit', not {model.link!r}")
    labels = _read_classes(model)
    graph.add("Gather", labels, winner, name="label")
    return [
        _Output("label", labels.dtype, ["N"]),
        _Output("probabilities", number, ["N", len(labels)]),
        _Output(scores, number, ["N", model.n_outputs]),
    ]


def _read_classes(model: AdditiveModel) -> np.ndarray:
    """The labels in a type of ONNX: bool, int64, float64 or text."""
    assert model.classes is not None
    labels = np.array(model.classes.tolist())
    if labels.dtype.kind in "bif":
        return labels
    return np.array([str(label) for label in model.classes], dtype=object)


def _make_proto(
    graph: _Graph,
    model: AdditiveModel,
    inputs: Sequence[str],
    outputs: Sequence[_Output],
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
            helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(output.dtype), output.shape)
            for output in outputs
        ],
        [numpy_helper.from_array(values, name) for name, values in graph.constants.items()],
    )
    proto = helper.make_model(
        whole,
        producer_name="neuralbasis",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS.items()],
        doc_string="score = intercept + one number from each term's table; prediction = inverse link of the score",
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
    """Metadata of the file. The first two values are JSON."""
    columns = dict(zip(inputs, model.encoder.names, strict=True))
    return {
        "columns": json.dumps(columns, ensure_ascii=False),
        "terms": json.dumps(model.term_names, ensure_ascii=False),
        "link": model.link,
        "missing": missing,
    }
