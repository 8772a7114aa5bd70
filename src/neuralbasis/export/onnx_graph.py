"""Graph of a model for ONNX.

The graph follows the kernels: find the knot below each value (binary search), look up the cells around it, interpolate,
sum, link. Each step handles all axes, or all terms with the same kinds of axes, at once; only columns of levels need
one node each. All arithmetic is in double precision.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from neuralbasis import __version__

from ..encoding.axis import Axis
from ..encoding.layout import Layout
from ..model.additive_model import AdditiveModel
from .plain import BOUNDS, PlainInterval

OPSETS = {"": 17, "ai.onnx.ml": 3}  # supported by onnxruntime 1.13 and later
IR_VERSION = 8
OUTPUTS = ("prediction", "label", "probabilities", "scores")
MAX_LISTED = 20  # levels listed in the description of an input


def make_proto(model: AdditiveModel, missing: str, interval: PlainInterval | None = None) -> ModelProto:
    """The model as an `onnx.ModelProto`; `missing` is the text for a missing level."""
    reserved = {*OUTPUTS, *(BOUNDS if interval else ())}
    inputs = _name_inputs(model.encoder.names, reserved)
    graph = _Graph({*inputs, *reserved})
    scores = _add_scores(graph, model, inputs, missing)
    outputs = _add_link(graph, model, scores)
    if interval:
        outputs += _add_bounds(graph, interval, scores)
    described = [_describe_input(axis, name, missing) for axis, name in zip(model.encoder.axes, inputs, strict=True)]
    whole = helper.make_graph(graph.nodes, "neuralbasis", described, outputs, graph.constants)
    proto = helper.make_model(
        whole,
        producer_name="neuralbasis",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS.items()],
        doc_string="score = intercept + one number from each term's table; prediction = inverse link of the score",
    )
    columns = dict(zip(inputs, model.encoder.names, strict=True))
    properties = {
        "columns": json.dumps(columns, ensure_ascii=False),
        "terms": json.dumps(model.term_names, ensure_ascii=False),
        "link": model.link,
        "missing": missing,
    } | ({"coverage": str(interval.coverage)} if interval else {})
    helper.set_model_props(proto, properties)
    return proto


@dataclass
class _Graph:
    """Nodes and constants. No tensor may have a name of `taken`."""

    taken: set[str]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str | np.ndarray, name: str | None = None, **attributes: Any) -> str:
        """Append a node and return the name of its output. Arrays among its inputs become constants."""
        tensors = [tensor if isinstance(tensor, str) else self.add_constant("constant", tensor) for tensor in inputs]
        output = self._find_name(operator.lower()) if name is None else name
        domain = "ai.onnx.ml" if operator == "LabelEncoder" else None
        self.nodes.append(helper.make_node(operator, tensors, [output], output, domain=domain, **attributes))
        return output

    def add_constant(self, name: str, values: np.ndarray) -> str:
        """Add a constant, with numbers as int64 or float64, and return its name."""
        name, kind = self._find_name(name), {"i": np.int64, "f": np.float64}.get(values.dtype.kind, values.dtype)
        self.constants.append(numpy_helper.from_array(values.astype(kind), name))
        return name

    def _find_name(self, stem: str) -> str:
        number = len(self.nodes) + len(self.constants)
        while (name := f"{stem}_{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return name


def _name_inputs(names: Sequence[str], reserved: set[str]) -> list[str]:
    """The names of the columns, changed where they are empty or equal the name of an output."""
    taken, inputs = {*reserved, *names, ""}, []
    for name in names:
        if name in reserved or not name:
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


def _add_scores(graph: _Graph, model: AdditiveModel, inputs: Sequence[str], missing: str) -> str:
    """Scores (N, K): the intercept plus all terms."""
    parts = [graph.add("Expand", model.intercept[None], graph.add("Shape", inputs[0]))]
    if model.shapes:
        layout = model.layout
        tables = [shape.scores.reshape(-1, model.n_outputs) for shape in model.shapes]
        table = graph.add_constant("table", np.concatenate(tables))
        positions = _add_positions(graph, layout, model.encoder.axes, inputs, missing)
        parts += [_look_up(graph, table, positions, layout, terms) for terms in _group_terms(layout)]
    return graph.add("Sum", *parts, name=None if model.classes is None else "scores")


def _add_positions(
    graph: _Graph, layout: Layout, columns: Sequence[Axis], inputs: Sequence[str], missing: str
) -> _Positions:
    """Positions on the axes of all terms, each axis once."""
    used = np.unique(layout.term_axis)
    is_level = layout.axis_level[used]
    rank = np.zeros(len(layout.axes), dtype=np.int64)
    rank[used] = np.where(is_level, np.cumsum(is_level), np.cumsum(~is_level)) - 1
    numbers, levels = (
        [(int(layout.axis_column[a]), layout.axes[a]) for a in used[own]] for own in (~is_level, is_level)
    )
    lower, share, cell = "", "", ""
    if numbers:
        knots = [axis.knots for _, axis in numbers]
        lower, share = _locate_numbers(graph, knots, [inputs[column] for column, _ in numbers])
    if levels:
        used_columns = dict.fromkeys(column for column, _ in levels)
        codes = {column: _encode_levels(graph, columns[column], inputs[column], missing) for column in used_columns}
        maps = [_map_levels(columns[column], axis) for column, axis in levels]
        sizes = np.array([len(cells) for cells in maps])
        joined = graph.add("Concat", *[codes[column] for column, _ in levels], axis=1)
        cell = graph.add("Gather", np.concatenate(maps), graph.add("Add", joined, np.cumsum(sizes) - sizes))
    return _Positions(lower, share, cell, rank)


def _locate_numbers(graph: _Graph, axes: Sequence[np.ndarray], inputs: Sequence[str]) -> tuple[str, str]:
    """Cells below (N, A) and shares of the cells above (N, A) on axes with these knots, computed as in the kernels."""
    counts = np.array([len(knots) for knots in axes])
    starts = np.cumsum(counts) - counts
    first, last = (np.array([knots[end] for knots in axes]) for end in (0, -1))
    values = graph.add("Concat", *inputs, axis=1)
    is_missing = graph.add("IsNaN", values)
    inside = graph.add("Max", graph.add("Where", is_missing, first, values), first)
    inside = graph.add("Min", inside, last)
    left = _search(graph, inside, np.concatenate(axes), starts, np.maximum(counts - 1, 1))
    low, width, unit = np.concatenate([_measure_gaps(knots) for knots in axes], axis=1)
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
    texts = [missing, *levels]
    cells = list(range(len(texts)))
    return graph.add("LabelEncoder", name, keys_strings=texts, values_int64s=cells, default_int64=len(texts))


def _map_levels(own: Axis, axis: Axis) -> np.ndarray:
    """The cell of an axis for every cell of the column's own axis. Levels that a coarser axis drops are unseen."""
    cells = np.full(own.n_cells, axis.n_cells - 1)
    cells[0] = 0
    cells[1 + axis.knots.astype(np.int64)] = 1 + np.arange(len(axis.knots))
    return cells


def _group_terms(layout: Layout) -> list[list[int]]:
    """Terms with the same number of continuous axes and of axes of levels."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index in range(len(layout.terms)):
        is_level = layout.axis_level[layout.term_axis[layout.term_start[index] : layout.term_start[index + 1]]]
        groups.setdefault((len(is_level), int(is_level.sum())), []).append(index)
    return list(groups.values())


def _look_up(graph: _Graph, table: str, positions: _Positions, layout: Layout, terms: Sequence[int]) -> str:
    """(N, K) sum of the contributions of a group of T terms."""
    at = layout.term_start[terms][:, None] + np.arange(len(layout.terms[terms[0]]))  # (T, o) indices into term_axis
    levels_last = np.argsort(layout.axis_level[layout.term_axis[at]], axis=1, kind="stable")
    at = np.take_along_axis(at, levels_last, axis=1)
    axes, strides = layout.term_axis[at].T, layout.term_stride[at].T
    is_level, ranks = layout.axis_level[axes[:, 0]], positions.rank[axes]
    cell: str | np.ndarray = layout.term_offset[terms]
    for d in range(len(ranks)):
        source = positions.cell if is_level[d] else positions.lower
        step = graph.add("Mul", graph.add("Gather", source, ranks[d], axis=1), strides[d])  # (N, T)
        cell = graph.add("Add", cell, step)
    shares = [graph.add("Gather", positions.share, rank[:, None], axis=1) for rank in ranks[~is_level]]  # (N, T, 1)

    def interpolate(cell: str | np.ndarray, d: int) -> str:
        """(N, T, K) values interpolated along the continuous axes d, d + 1, …"""
        if d == len(shares):
            return graph.add("Gather", table, cell)
        low = interpolate(cell, d + 1)
        high = interpolate(graph.add("Add", cell, strides[d]), d + 1)
        return graph.add("Add", low, graph.add("Mul", shares[d], graph.add("Sub", high, low)))

    return graph.add("ReduceSum", interpolate(cell, 0), np.array([1]), keepdims=0)


def _add_link(graph: _Graph, model: AdditiveModel, scores: str) -> list[ValueInfoProto]:
    """Add the nodes from the scores to the outputs, and describe the outputs. "N" is the number of rows."""
    describe, number = helper.make_tensor_value_info, TensorProto.DOUBLE
    if model.link == "identity" and model.n_outputs > 1:
        return [describe(graph.add("Identity", scores, name="prediction"), number, ["N", model.n_outputs])]
    if model.link == "identity":
        return [describe(graph.add("Squeeze", scores, np.array([1]), name="prediction"), number, ["N"])]
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
        describe("label", helper.np_dtype_to_tensor_dtype(labels.dtype), ["N"]),
        describe("probabilities", number, ["N", len(labels)]),
        describe(scores, number, ["N", model.n_outputs]),
    ]


def _add_bounds(graph: _Graph, interval: PlainInterval, scores: str) -> list[ValueInfoProto]:
    """Add the nodes from the scores (N, 1) to the bounds: a quantile is linear between the centres of the regions."""
    cell, share = _locate_numbers(graph, [np.array(interval.centres)], [scores])
    after = graph.add("Add", cell, np.array(1))
    outputs = []
    for name, quantiles in zip(BOUNDS, interval.quantiles, strict=True):
        table = graph.add_constant("quantiles", np.array([np.nan, *quantiles, quantiles[-1]]))  # NaN: a score of NaN
        low, high = graph.add("Gather", table, cell), graph.add("Gather", table, after)
        found = graph.add("Add", low, graph.add("Mul", share, graph.add("Sub", high, low)))
        bound = graph.add("Add", scores, found)
        bound = graph.add("Sigmoid", bound) if interval.is_probability else bound
        graph.add("Squeeze", bound, np.array([1]), name=name)
        outputs.append(helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["N"]))
    return outputs


def _read_classes(model: AdditiveModel) -> np.ndarray:
    """The labels in a type of ONNX: bool, int64, float64 or text."""
    assert model.classes is not None
    labels = np.array(model.classes.tolist())
    if labels.dtype.kind in "bif":
        return labels
    return np.array([str(label) for label in model.classes], dtype=object)


def _describe_input(axis: Axis, name: str, missing: str) -> ValueInfoProto:
    if axis.levels is None:
        text = f"column {axis.name!r}: numbers from {axis.knots[0]:g} to {axis.knots[-1]:g}; NaN is missing"
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["N", 1], text)
    listed = ", ".join(map(repr, axis.levels[:MAX_LISTED]))
    more = len(axis.levels) - MAX_LISTED
    listed += f" and {more} more" if more > 0 else ""
    text = f"column {axis.name!r}: levels {listed}; {missing!r} is missing"
    return helper.make_tensor_value_info(name, TensorProto.STRING, ["N", 1], text)
