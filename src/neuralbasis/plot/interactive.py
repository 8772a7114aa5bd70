"""Interactive figures of explanations, drawn with plotly: `visualize` of an explanation returns them.

Numbers, colours and the words of the legends are those of the matplotlib figures. In: an explanation and a key as in
InterpretML. Out: a `plotly.graph_objects.Figure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np

from ..explain import GlobalExplanation, LocalExplanation, TermView, explain_global
from ..explain.bands import (
    MEMBER_LINES,
    NO_EFFECT,
    NO_ROWS,
    ROW_SHADES,
    WHOLE_CURVE,
    describe_effect,
    measure_importance_errors,
)
from .bars import describe_prediction, find_format, list_steps
from .canvas import COLOURS, GREY, LOWERS, RAISES
from .curves import MAX_BANDS, Curve, make_curve, shade_rows
from .pair_curves import find_side, make_pair_curves
from .plot_axis import PlotAxis
from .scale import Band, Scale, add_mains, choose_scale

N_TERMS, N_CURVES, N_STEPS = 20, 5, 10
ROOM = 60  # characters of a label
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")


def visualize_global(explanation: GlobalExplanation, key: Any = None) -> Any:
    """The importances of the terms, or one term: the key is its name, its index or a tuple of columns."""
    explanation = explain_global(explanation)
    if key is None:
        return _draw_importances(explanation)
    term, scale = explanation.find(key), choose_scale(explanation)
    title = f"{term.name} (importance {term.importance:.3g})"
    title = ", ".join(filter(None, [title, describe_effect(term)]))
    if len(term.columns) == 1:
        return _draw_main(scale, make_curve(scale.apply(term), scale.colour_indices), title)
    if len(term.columns) == 2:
        return _draw_pair(scale, term, title)
    raise ValueError(f"visualize draws main effects and pairs; got {term.name!r}. Use plot.shape(model, {term.name!r})")


def visualize_local(explanation: LocalExplanation, row: int) -> Any:
    """How a row gets its prediction: from the intercept to the score, the largest contributions on top."""
    view = explanation.row(row)
    names, steps = list_steps(view, view.output, N_STEPS, ROOM)
    start, show = float(explanation.intercept[view.output]), find_format(steps)
    sizes = [start, *steps.tolist(), start + float(steps.sum())]
    go = _import_plotly()
    bars = go.Waterfall(
        orientation="h", measure=["absolute", *["relative"] * len(steps), "total"], x=sizes,
        y=_unique([_plain(name) for name in ("intercept", *names, "score")]),
        text=[show(size) for size in sizes], textposition="outside", cliponaxis=False,
        increasing={"marker": {"color": RAISES}}, decreasing={"marker": {"color": LOWERS}},
        totals={"marker": {"color": GREY}}, connector={"line": {"color": GREY, "width": 0.6}}, showlegend=False,
    )  # fmt: skip
    figure = _make_figure(_plain(describe_prediction(explanation, view, view.output, steps)), "contribution", "")
    figure.add_trace(bars)
    path = np.r_[0.0, start + np.cumsum(np.r_[0.0, steps])]
    room = 0.12 * np.ptp(path)  # for the numbers beside the bars
    figure.update_xaxes(range=[path.min() - room, path.max() + room])
    figure.update_yaxes(autorange="reversed")
    return figure


def _draw_importances(explanation: GlobalExplanation) -> Any:
    go, terms = _import_plotly(), explanation.top(N_TERMS)
    errors, name = measure_importance_errors(terms)
    effects = [describe_effect(term) for term in terms]
    has_errors = bool(np.isfinite(errors).any())
    bars = go.Bar(
        orientation="h", x=[term.importance for term in terms], y=[_plain(term.name) for term in terms],
        marker={"color": [GREY if effect else COLOURS[0] for effect in effects]},
        error_x={"array": np.nan_to_num(errors), "visible": has_errors, "symmetric": False,
                 "arrayminus": np.minimum(np.nan_to_num(errors), [term.importance for term in terms])},
        hovertext=effects, showlegend=False,
    )  # fmt: skip
    unit = f"mean |{_plain(choose_scale(explanation).unit)}|" + (f"; error bars: {name}" if has_errors else "")
    unit += f"; grey: {NO_EFFECT}" if any(effects) else ""
    figure = _make_figure("Importance of the terms", unit, "")
    figure.add_trace(bars)
    figure.update_yaxes(autorange="reversed")
    return figure


def _draw_main(scale: Scale, curve: Curve, title: str) -> Any:
    """A curve with its bands, or bars with error bars, for each class."""
    go, scaled, axis = _import_plotly(), curve.scaled, curve.plot_axis
    name, unit = _plain(scaled.term.name), _plain(scale.unit)
    bars = f"{unit}; error bars: {scaled.inner_name if scaled.outer is None else WHOLE_CURVE}"
    labels = (bars if curve.has_inner else unit, "") if curve.is_flipped else (_with_note(name, axis), unit)
    figure = _make_figure(_plain(title), *labels)
    if curve.is_flipped:
        figure.update_yaxes(autorange="reversed")
    else:
        _shade(figure, axis, scaled.term.weights, is_coarse=False)
    classes = [_plain(label) for label in scale.labels] if scale.is_multiclass else [name]
    for k, (order, label) in enumerate(zip(curve.colour_indices, classes, strict=True)):
        colour = GREY if scaled.effect else COLOURS[order % len(COLOURS)]
        values, inner, outer = scaled.mean[:, k], _take(scaled.inner, k), _take(scaled.outer, k)
        if curve.is_flipped:
            errors = inner if outer is None else outer
            ends = _measure_ends(errors, values, axis.cells)
            x, y = values[axis.cells] - scaled.base[k], _name_levels(axis)
            look = {"base": scaled.base[k], "marker": {"color": colour}, "error_x": ends}
            figure.add_trace(go.Bar(orientation="h", x=x, y=y, name=label, **look))
            continue
        if scaled.members is not None:
            _add_members(figure, axis, scaled.members[axis.cells, :, k], colour)
        for band, text, shade in ((outer, WHOLE_CURVE, 0.16), (inner, scaled.inner_name, 0.3)):
            if band is not None and curve.has_inner and len(classes) <= MAX_BANDS:
                _add_band(figure, axis, Band(band.low[axis.cells], band.high[axis.cells]), colour, text, shade, k == 0)
        at, line = axis.polyline(values[axis.cells])
        look = {"color": colour, "width": 2.5, "dash": DASHES[order % len(DASHES)]}
        figure.add_trace(go.Scatter(x=at, y=line, mode="lines", name=label, line=look))
        for (cell, name), slot in zip(axis.apart, axis.slots, strict=True):
            _add_apart(figure, axis, slot, [float(values[cell])], [colour], f"{name}: {label}")
        if loose := list(axis.loose):
            dots = go.Scatter(x=axis.positions[loose], y=values[axis.cells[loose]], mode="markers", showlegend=False)
            figure.add_trace(dots.update(marker={"color": colour, "size": 7}, name=label))
    figure.update_layout(showlegend=not curve.is_flipped or scale.is_multiclass)
    return figure


def _draw_pair(scale: Scale, term: TermView, title: str) -> Any:
    """The total effect of both columns, as curves of one column or as markers with error bars."""
    if len(scale.outputs) > 1:
        scale = scale.select(max(scale.outputs, key=lambda output: float(term.importances[output])))
        title += f", for {scale.labels[0]}"
    total = scale.apply(add_mains(scale.explanation.model, term))
    curves = make_pair_curves(total, find_side(term, None), N_CURVES, scale)
    go, axis, (along, across) = _import_plotly(), curves.plot_axis, curves.names_of_columns
    unit, column = _plain(scale.unit), _with_note(_plain(along), axis)
    figure = _make_figure(_plain(title), *((unit, column) if curves.is_flipped else (column, unit)))
    figure.update_layout(legend_title_text=_wrap(_plain(across), 30))
    if curves.is_flipped:
        figure.update_yaxes(autorange="reversed")
        figure.update_layout(scattermode="group")
    else:
        _shade(figure, axis, curves.weights, is_coarse=True)
    for j, name in enumerate(curves.names):
        colour, values, near = _to_css(curves.looks[j]["color"]), curves.values[:, j], curves.is_near[:, j]
        label = _plain(name)
        if curves.is_flipped:
            ends = _measure_ends(Band(curves.band.low[:, j], curves.band.high[:, j]), values, np.arange(len(values)))
            y = _name_levels(axis)
            symbols = ["circle" if is_near else "circle-open" for is_near in near]
            look = {"color": colour, "symbol": symbols, "size": 8}
            figure.add_trace(go.Scatter(x=values, y=y, mode="markers", name=label, marker=look, error_x=ends))
            continue
        at, line = axis.polyline(values)
        thick = np.where(axis.polyline(near)[1], line, np.nan)
        figure.add_trace(go.Scatter(x=at, y=line, mode="lines", line={"color": colour, "width": 0.6}, showlegend=False))
        figure.add_trace(go.Scatter(x=at, y=thick, mode="lines", name=label, line={"color": colour, "width": 2.5}))
    colours = [_to_css(look["color"]) for look in curves.looks]
    for (_, name), slot, values in zip(axis.apart, axis.slots, curves.apart, strict=True):
        _add_apart(figure, axis, slot, values.tolist(), colours, name)
    notes = [f"error bars: {total.inner_name}"] if curves.has_bars else []
    if not curves.is_near.all():
        notes.append(f"{'hollow markers' if curves.is_flipped else 'thin lines'}: {NO_ROWS}")
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": 1.0, "yanchor": "bottom", "showarrow": False}
    figure.add_annotation(text="; ".join([*notes, "the effect of both columns together"]), font={"size": 11}, **place)
    return figure


def _name_levels(axis: PlotAxis) -> list[str]:
    return [_plain(text) for text in (axis.labels or [])[: len(axis.cells)]]


def _import_plotly() -> Any:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError(
            'visualize needs plotly: pip install "neuralbasis[plotly]"; neuralbasis.plot draws the same with matplotlib'
        ) from error
    return go


def _make_figure(title: str, x: str, y: str) -> Any:
    figure = _import_plotly().Figure()
    axis = {"zeroline": True, "zerolinecolor": GREY, "zerolinewidth": 0.6, "showgrid": False, "automargin": True}
    figure.update_layout(
        template="none", title={"text": _wrap(title, 90), "font": {"size": 15}}, width=860, height=440,
        hovermode="closest", legend={"x": 1.02, "y": 1, "font": {"size": 11}}, margin={"t": 80},
        xaxis={"title": {"text": x}, **axis}, yaxis={"title": {"text": y}, **axis},
    )  # fmt: skip
    return figure


def _shade(figure: Any, axis: PlotAxis, weights: np.ndarray, is_coarse: bool) -> None:
    """The background: grey where training rows are; sets the range of the x axis."""
    go = _import_plotly()
    low, high, grey = shade_rows(axis, weights, is_coarse)
    rows = [f"rgb({round(255 * (1 - share))},{round(255 * (1 - share))},{round(255 * (1 - share))})" for share in grey]
    bars = go.Bar(
        x=(low + high) / 2, y=np.ones(len(low)), width=high - low, marker={"color": rows, "line": {"width": 0}},
        name=_wrap(ROW_SHADES, 30), yaxis="y2", hoverinfo="skip",
    )  # fmt: skip
    figure.add_trace(bars)
    figure.add_hline(y=0, line={"color": GREY, "width": 0.6})  # the line of the axis is below the background
    figure.update_layout(
        xaxis_range=[axis.start, axis.high], bargap=0, yaxis={"overlaying": "y2", "tickmode": "auto"},
        yaxis2={"range": [0, 1], "visible": False, "fixedrange": True},
    )  # fmt: skip


def _add_band(figure: Any, axis: PlotAxis, band: Band, colour: str, text: str, shade: float, is_named: bool) -> None:
    go = _import_plotly()
    at, low = axis.polyline(band.low)
    _, high = axis.polyline(band.high)
    red, green, blue = (int(_to_css(colour)[i : i + 2], 16) for i in (1, 3, 5))
    look = {"fillcolor": f"rgba({red},{green},{blue},{shade})", "line": {"width": 0}, "hoverinfo": "skip"}
    x, y = np.r_[at, at[::-1]], np.r_[low, high[::-1]]
    figure.add_trace(go.Scatter(x=x, y=y, fill="toself", mode="lines", name=text, showlegend=is_named, **look))


def _add_members(figure: Any, axis: PlotAxis, members: np.ndarray, colour: str) -> None:
    go = _import_plotly()
    at, lines = axis.polyline(members)
    for m in range(lines.shape[1]):
        look = {"color": colour, "width": 0.6}
        named = {"name": MEMBER_LINES, "showlegend": m == 0}
        figure.add_trace(go.Scatter(x=at, y=lines[:, m], mode="lines", opacity=0.45, line=look, **named))


def _add_apart(
    figure: Any, axis: PlotAxis, slot: tuple[float, float], values: Sequence[float], colours: Sequence[str], name: str
) -> None:
    look = {"color": list(colours), "symbol": "diamond", "size": 8}
    x = [sum(slot) / 2] * len(values)
    figure.add_trace(_import_plotly().Scatter(x=x, y=list(values), mode="markers", marker=look, name=name))
    figure.add_vline(x=axis.low, line={"color": GREY, "width": 0.6})


def _measure_ends(band: Band | None, values: np.ndarray, cells: np.ndarray) -> dict[str, Any]:
    """Error bars from a band."""
    if band is None or not (band.low[cells] < band.high[cells]).any():
        return {"visible": False}
    high, low = band.high[cells] - values[cells], values[cells] - band.low[cells]
    return {"array": high, "arrayminus": low, "symmetric": False, "thickness": 1.2, "width": 4}


def _take(band: Band | None, k: int) -> Band | None:
    return None if band is None else Band(band.low[..., k], band.high[..., k])


def _with_note(name: str, axis: PlotAxis) -> str:
    return f"{name} ({axis.note})" if axis.note else name


def _to_css(colour: Any) -> str:
    if isinstance(colour, str):
        return colour
    return "#" + "".join(f"{round(255 * part):02X}" for part in colour[:3])


def _plain(text: str) -> str:
    """A label without the escapes of matplotlib and without HTML, which plotly would interpret."""
    return escape(text.replace(r"\$", "$"), quote=False)


def _wrap(text: str, room: int) -> str:
    return "<br>".join(wrap(text, room))


def _unique(names: Sequence[str]) -> list[str]:
    """Names that differ: plotly draws equal ones at the same place."""
    return [name + "\u200b" * names[:k].count(name) for k, name in enumerate(names)]
