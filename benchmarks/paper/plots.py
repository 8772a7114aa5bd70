"""Figures of the paper from the records: shapes of many models, ratios of parameters, accuracy by number of bases.

Figures without records are not drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..accuracy.stability import COLUMNS
from .results import Results, evaluate_curve
from .stability import Spread, measure_stability
from .tables import Row, Table, read_data, read_table

BLUE, GREY = "#1f5f99", "#8a8a8a"
SIZES = np.unique(np.logspace(0, 5, 200).round())  # numbers of columns at which ratios are drawn
ROWS = (("NAM", "default"), ("NBM", "paper"), ("NBM", "grid"), ("NBM", "default"))


def draw_figures(results: Results, folder: Path) -> None:
    """Draw all figures with records."""
    try:
        import matplotlib
    except ImportError:  # the extra "plot"
        return
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "shape_functions": draw_shapes(results),
        "num_bases": draw_bases(results),
        "params": draw_ratios("params", results),
        "params_multi_class": draw_ratios("params_multi_class", results),
    }
    from matplotlib import pyplot

    for name, figure in figures.items():
        if figure is not None:
            figure.savefig(folder / f"{name}.png", dpi=110)
            pyplot.close(figure)


def find_spreads(results: Results) -> dict[str, Spread]:
    """Kind of model -> its shapes."""
    table = read_table("shape_functions")
    found = {}
    for model, variant in ROWS:
        cell = next(cell for cell in table.list_cells() if (cell.model, cell.variant) == (model, variant))
        spread = measure_stability(results.find(cell))
        if spread is not None:
            found[f"{model}, {variant}"] = spread
    return found


def draw_shapes(results: Results) -> Any:
    """One row of panels per kind of model: single models thin, their mean thick, shaded by density of rows."""
    from matplotlib import pyplot

    spreads = find_spreads(results)
    if not spreads:
        return None
    n_columns = len(COLUMNS)
    figure, axes = pyplot.subplots(
        len(spreads), n_columns, figsize=(2.2 * n_columns, 2.2 * len(spreads)), squeeze=False, layout="constrained"
    )
    for panels, (kind, spread) in zip(axes, spreads.items(), strict=True):
        panels[0].set_ylabel(f"{kind}\n{spread.n_models} models")
        for column, panel in enumerate(panels):
            draw_panel(panel, spread, column)
            panel.set_title(COLUMNS[column], fontsize=9)
    for column in range(n_columns):  # one scale per column; outliers are cut off
        shapes = [spread.shapes[:, spread_reading(spread), column].ravel() for spread in spreads.values()]
        low, high = np.percentile(np.concatenate(shapes), [0.5, 99.5])
        for panel in axes[:, column]:
            panel.set_ylim(low - 0.1 * (high - low) - 1e-9, high + 0.1 * (high - low) + 1e-9)
    return figure


def draw_panel(panel: Any, spread: Spread, column: int) -> None:
    points, shapes = spread.points[column], spread.shapes[:, spread_reading(spread), column]
    edges = np.linspace(points[0], points[-1], len(spread.density[column]) + 1)
    for left, right, share in zip(edges, edges[1:], spread.density[column], strict=False):
        panel.axvspan(left, right, color="#d9a441", alpha=0.6 * share**0.5, linewidth=0)
    panel.plot(points, shapes.T, color=BLUE, alpha=max(0.05, min(0.4, 4 / len(shapes))), linewidth=0.6)
    panel.plot(points, shapes.mean(axis=0), color=BLUE, linewidth=2)
    panel.tick_params(labelsize=7)


def spread_reading(spread: Spread) -> int:
    """Index of the reading at even steps, which is drawn."""
    return list(spread.overall).index("even steps")


def draw_ratios(name: str, results: Results) -> Any:
    """The paper's curves as lines, counted networks as points."""
    from matplotlib import pyplot

    table = read_table(name)
    models = list(dict.fromkeys(row.model for row in table.rows))
    figure, axes = pyplot.subplots(
        1, len(models), figsize=(4.5 * len(models), 3.4), squeeze=False, layout="constrained"
    )
    for model, panel in zip(models, axes[0], strict=True):
        rows = [row for row in table.rows if row.model == model]
        for shade, row in zip(np.linspace(0.9, 0.35, len(rows)), rows, strict=True):
            draw_ratio(panel, table, row, results, pyplot.get_cmap("Blues")(shade))
        panel.set(xscale="log", xlabel="columns D", ylabel=model, ylim=(0, 70), xlim=(1, 1e5))
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    return figure


def draw_ratio(panel: Any, table: Table, row: Row, results: Results, colour: Any) -> None:
    sizes = SIZES[SIZES > 1] if "²" in row.model else SIZES
    label = f"C = {row.options['n_outputs']:,}"
    panel.plot(sizes, [evaluate_curve(row, size) for size in sizes], color=colour, label=label)
    cell = next(c for c in table.list_cells() if (c.model, c.options) == (row.model, row.options))
    found = results.find(cell)
    if found:
        counted = {int(size): ratio for size, ratio in found[-1]["ratios"].items()}
        panel.plot(list(counted), list(counted.values()), "o", color=colour, markersize=4)


def draw_bases(results: Results) -> Any:
    """One panel per data set: published figures in grey with error bars, ours on top."""
    from matplotlib import pyplot

    table = read_table("num_bases")
    if not any(results.find(cell) for cell in table.list_cells()):
        return None
    figure, axes = pyplot.subplots(1, len(table.data), figsize=(4 * len(table.data), 3.4), layout="constrained")
    for data, panel in zip(table.data, axes, strict=True):
        for model, style in (("NBM", "-"), ("NB²M", "--")):
            draw_published_bases(panel, table, data, model, style)
            for variant, mark in (("grid", "o"), ("default", "s")):
                draw_measured_bases(panel, results, table, data, (model, variant), mark + style)
        panel.set(xscale="log", xlabel="bases B", ylabel=read_data()[data].metric, title=read_data()[data].name)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    return figure


def draw_published_bases(panel: Any, table: Table, data: str, model: str, style: str) -> None:
    rows = [row for row in table.rows if row.model == model and data in row.published]
    if rows:
        means, deviations = zip(*(row.published[data] for row in rows), strict=True)
        sizes = [row.options["n_bases"] for row in rows]
        panel.errorbar(sizes, means, deviations, color=GREY, linestyle=style, capsize=2, label=f"{model}, published")


def draw_measured_bases(
    panel: Any, results: Results, table: Table, data: str, kind: tuple[str, str], style: str
) -> None:
    found = {}
    for cell in table.list_cells():
        if (cell.model, cell.variant) == kind and (cell.data, cell.seed) == (data, 0):
            values = results.find_values(cell)
            if values:
                found[cell.options["n_bases"]] = float(np.mean(values))
    if found:
        panel.plot(list(found), list(found.values()), style, color=BLUE, label=", ".join(kind), markersize=4)
