"""Figures of pairs and triples: heat maps, slices and favoured classes show the tables of the model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import PathPatch

from neuralbasis import plot
from neuralbasis.encoding import level_axis
from neuralbasis.explain import explain_global
from neuralbasis.plot import maps, pairs, scale
from tests.models import build_model
from tests.plot.figures import (
    ABC,
    CITIES,
    additive,
    evidence,
    knots,
    legend_texts,
    lines_of,
    pair_legend,
    pair_model,
    panel,
    shape,
    strip_texts,
    tick_texts,
    triple_model,
)


def test_pair_is_a_heat_map_centred_at_zero():
    model = pair_model()
    figure = plot.shapes(model, n=1, pairs="map")
    axes, bar = figure.axes
    mesh = axes.collections[0]
    np.testing.assert_array_equal(mesh.get_array(), model.shapes[2].scores[1:-1, 1:-1, 0].T)
    np.testing.assert_array_equal(mesh.get_coordinates()[0, :, 0], [0, 1, 2, 3.5, 5.5])
    assert mesh.get_clim() == (-5.5, 5.5)
    assert axes.get_title() == "age & city (importance 3.00)"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "city")
    assert tick_texts(axes.yaxis) == CITIES
    assert bar.get_ylabel() == "contribution to prediction"


def test_the_sign_of_a_map_is_drawn_in_dashes():
    axes = plot.shapes(pair_model(), n=1, pairs="map").axes[0]
    outline = axes.collections[1]
    assert outline.levels.tolist() == [-5.5 / 3, 5.5 / 3]
    (_, dashed), (_, solid) = outline.get_linestyle()
    assert dashed is not None
    assert solid is None


def test_cells_without_rows_are_hatched_and_do_not_change_the_colour_scale():
    weights = np.ones((4, 3))
    weights[[0, 3]] = 0.0
    axes = plot.shapes(pair_model(weights=weights), terms=[2], pairs="map").axes[0]
    (veil,) = axes.patches
    assert veil.get_hatch()
    corners = veil.get_path().vertices
    assert set(corners[:, 0]) == {0, 1, 3.5, 5.5}
    assert set(corners[:, 1]) == {-0.5, 0.5, 1.5, 2.5}
    assert axes.collections[0].get_clim() == (-2.5, 2.5)
    assert not plot.shapes(pair_model(), n=1, pairs="map").axes[0].patches


def test_cells_near_rows_are_not_empty():
    axes = [knots("a", np.arange(40)), level_axis("b", "nominal", CITIES)]
    weights = np.zeros((42, 5))
    weights[10, 1] = weights[0, 2] = 1
    near = ~maps.find_empty(axes, weights)
    assert np.flatnonzero(near[:, 1]).tolist() == [8, 9, 10, 11, 12]  # a twentieth of 40 knots away
    assert np.flatnonzero(near[:, 2]).tolist() == [0]  # nothing is near a missing value
    assert not near[:, 3].any()


def test_missing_values_of_a_pair_have_strips():
    model = pair_model()
    pair = model.shapes[2]
    scores, weights = pair.scores.copy(), pair.weights.copy()
    weights[0, 1:-1], scores[0, 1:-1, 0] = 2.0, [7, 8, 9]
    model = replace(model, shapes=(*model.shapes[:2], replace(pair, scores=scores, weights=weights)))
    axes = plot.shapes(model, n=1, pairs="map").axes[0]
    drawn = axes.collections[0].get_array()
    assert drawn.shape == (3, 6)
    assert drawn[:, 0].tolist() == [7, 8, 9]
    assert drawn.mask[:, 1].all()
    np.testing.assert_array_equal(drawn[:, 2:], pair.scores[1:-1, 1:-1, 0].T)
    assert strip_texts(axes.xaxis) == ["missing: 33 %"]
    assert axes.collections[0].get_clim() == (-9, 9)


def coded_pair():
    """Months with the code −9 and doses; the pair has fewer knots than the main effect."""
    months, dose = knots("months", [-9.0, *range(100)]), knots("dose", [0.5, 1.5, 2.5])
    coarse = knots("months", [-9.0, 0.0, 50.0, 99.0])
    main = shape((0,), [months], np.r_[2.0, np.linspace(0, 1, 100)], weights=np.r_[50.0, np.full(100, 2.0)])
    values = np.arange(12.0).reshape(4, 3)
    return additive([months, dose], [main, shape((0, 1), [coarse, dose], values, weights=[[50.0]] * 4)]), values


def test_special_codes_of_a_pair_have_markers_and_no_line_leads_to_them():
    model, values = coded_pair()
    axes = plot.slices(model, 1, levels=[0.5, 2.5], total=False).axes[0]
    assert strip_texts(axes.xaxis) == ["−9: 25 %"]
    assert [line.get_ydata()[0] for line in axes.lines if line.get_marker() == "D"] == [0.0, 2.0]
    for line, column in zip([line for line in lines_of(axes) if line.get_linewidth() > 1], (0, 2), strict=True):
        assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0, 50, 99], values[1:, column].tolist())


def test_special_codes_of_a_map_have_strips():
    model, values = coded_pair()
    axes = plot.shape(model, 1, pairs="map").axes[0]
    drawn = axes.collections[0].get_array()
    assert drawn.mask[:, 1].all()
    np.testing.assert_array_equal(drawn[:, [0, 2, 3, 4]], values.T)
    assert strip_texts(axes.xaxis) == ["−9: 25 %"]
    assert axes.get_xlim()[0] < -9


def test_curves_of_a_pair_run_along_the_column_with_more_values():
    few, many = knots("flag", [0.0, 1.0]), knots("hour", np.arange(24.0))
    for axes in ((few, many), (many, few)):
        model = additive(axes, [shape((0, 1), axes, np.zeros([len(axis.knots) for axis in axes]))])
        assert plot.slices(model, 0, total=False).axes[0].get_xlabel() == "hour"


def test_pairs_do_not_change_the_y_range_of_curves():
    figure = plot.shapes(pair_model(), pairs="map", share_y=True)
    assert len(figure.axes) == 4
    assert panel(figure, "age").get_ylim() == panel(figure, "city").get_xlim()
    assert panel(figure, "age").get_ylim()[1] < 0.2
    assert figure.axes[-1].get_ylabel() == "contribution to prediction"
    assert panel(figure, "city").get_ylabel() == ""


def test_maps_start_a_row_if_they_do_not_fit_beside_the_curves():
    model = pair_model()
    assert len(plot.shapes(model, pairs="map").subfigs) == 0  # two curves and a map in one row
    figure = plot.shapes(model, terms=[0, 1, 2, 2], pairs="map")
    assert [len(part.axes) for part in figure.subfigs] == [2, 3]  # two curves; two maps and their bar


def test_pair_of_many_classes_shows_the_strongest():
    model = pair_model(3, link="mlogit", classes=ABC)
    axes = plot.shapes(model, n=1, pairs="map").axes[0]
    assert axes.get_title().splitlines()[1] == "for c"
    np.testing.assert_array_equal(axes.collections[0].get_array(), model.shapes[2].scores[1:-1, 1:-1, 2].T)
    assert plot.shapes(model, n=1, classes=["b", "a"], pairs="map").axes[0].get_title().endswith("for b")


def test_triple_is_a_row_of_maps_at_levels_of_one_column():
    model = triple_model()
    figure = plot.shape(model, "x & city & z")
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert [title.splitlines()[-1] for title in titles] == [f"city = {city}" for city in CITIES]
    for level, axes in enumerate(figure.axes[:3]):
        np.testing.assert_array_equal(
            axes.collections[0].get_array(), model.shapes[3].scores[1:-1, level + 1, 1:-1, 0].T
        )
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "z")
        assert axes.collections[0].get_clim() == (-8.5, 8.5)


def test_whole_model_in_one_grid():
    model = triple_model(intercept=2.0)
    figure = plot.grid(model)
    assert len(figure.axes) == 3 + 3 + 1  # a triple of three levels, three curves, a colour bar
    assert figure.get_suptitle() == "score = 2.00 + sum of these 4 terms"
    titles = [axes.get_title().splitlines()[-1] for axes in figure.axes[:-1]]
    assert titles[3:] == [f"city = {city}" for city in CITIES]
    assert {axes.figure for axes in figure.axes[:3]} != {axes.figure for axes in figure.axes[3:]}  # rows of their own
    few = plot.grid(model, n=2)
    assert few.get_suptitle().endswith("these 2 terms and 2 weaker terms not shown")


def test_each_class_has_a_panel():
    model = pair_model(3, link="mlogit", classes=ABC)
    figure = plot.by_class(model, "city & age", pairs="map")
    assert [axes.get_title() for axes in figure.axes[:3]] == ["a", "b", "c"]
    assert figure.get_suptitle() == "age & city"
    for k, axes in enumerate(figure.axes[:3]):
        np.testing.assert_array_equal(axes.collections[0].get_array(), model.shapes[2].scores[1:-1, 1:-1, k].T)
    against = plot.by_class(model, "age", reference="a")
    assert [axes.get_title() for axes in against.axes] == ["b", "c"]
    assert [lines_of(axes)[0].get_ydata()[0] for axes in against.axes] == [0.0, 0.0]
    with pytest.raises(ValueError, match="got 'x & city & z'"):
        plot.by_class(triple_model(), 3)


def test_slices_are_rows_of_the_table():
    model = pair_model()
    figure = plot.slices(model, ("age", "city"), total=False)
    drawn = [line for line in lines_of(figure.axes[0]) if line.get_linewidth() > 1]
    scores = model.shapes[2].scores[1:-1, 1:-1, 0]
    np.testing.assert_array_equal([line.get_ydata() for line in drawn], scores.T)
    assert drawn[0].get_xdata().tolist() == [0.5, 1.5, 2.5, 4.5]
    assert pair_legend(figure.axes[0]) == ("city", CITIES)
    assert legend_texts(figure) == ["background: darker where there are more training rows"]
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("age", "contribution to prediction")


def test_slices_along_the_other_column_at_chosen_values():
    model = pair_model()
    figure = plot.slices(model, "age & city", along="city", levels=[4.6, 0.5], total=False)
    drawn = markers_of(figure.axes[0])
    scores = model.shapes[2].scores[1:-1, 1:-1, 0]
    np.testing.assert_array_equal([line.get_xdata() for line in drawn], scores[[3, 0], ::-1])  # sorted by effect
    assert tick_texts(figure.axes[0].yaxis) == ["Oslo (4)", "Lima (4)", "Bern (4)"]
    assert pair_legend(figure.axes[0]) == ("age", ["4.5", "0.5"])
    assert pair_legend(plot.slices(model, "age & city", levels=["Oslo"]).axes[0]) == ("city", ["Oslo"])


def markers_of(axes):
    """The markers of levels near training rows, one line for each curve of a pair."""
    return [
        line for line in axes.lines if line.get_marker() not in ("None", "|") and line.get_markerfacecolor() != "white"
    ]


def test_pairs_of_levels_have_error_bars():
    axes = [level_axis("city", "nominal", CITIES), level_axis("job", "nominal", ["cook", "driver"])]
    weights = np.array([[5.0, 5.0], [5.0, 0.0], [5.0, 5.0]])
    mains = [shape((d,), [axis], np.zeros(len(axis.knots)), spread=0.3) for d, axis in enumerate(axes)]
    table = [[3.0, 1.0], [0.5, -1.0], [-2.0, -3.0]]
    pair = shape((0, 1), axes, table, spread=0.4, weights=weights, evidence=evidence())
    figure = plot.shape(additive(axes, [*mains, pair]), "city & job")
    panel = figure.axes[0]
    near = [line.get_xdata().tolist() for line in markers_of(panel)]
    assert near == [[3.0, 0.5, -2.0], [1.0, -3.0]]
    (hollow,) = [line for line in panel.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert hollow.get_xdata().tolist() == [-1.0]
    half = 1.959964 * np.sqrt(0.4**2 + 2 * 0.3**2)  # of the pair and both main effects, as if independent
    bars = [segment[:, 0] for c in panel.collections if isinstance(c, LineCollection) for segment in c.get_segments()]
    np.testing.assert_allclose(bars[0], [3 - half, 3 + half], rtol=1e-6)
    assert legend_texts(figure) == ["error bars: 95 % band for each value", "hollow markers: no training row near"]


def test_pairs_are_curves_of_the_total_effect_by_default():
    model = pair_model()
    figure = plot.shapes(model, n=3)
    pair = panel(figure, "age & city")
    drawn = [line for line in lines_of(pair) if line.get_linewidth() > 1]
    np.testing.assert_allclose([line.get_ydata() for line in drawn], model.shapes[2].scores[1:-1, 1:-1, 0].T + 0.19)
    assert pair_legend(pair) == ("city", CITIES)
    assert "pairs: the effect of both columns together" in legend_texts(figure)
    with pytest.raises(ValueError, match=r"pairs must be one of \('curves', 'map'\); got 'heat'"):
        plot.shapes(model, pairs="heat")


def test_curves_of_a_pair_differ_where_most_rows_share_a_value():
    """Nine of ten rows are 0; the other curves are at quantiles of the other rows."""
    axis = knots("gain", np.arange(11.0))
    weights = np.r_[0.0, 90.0, np.ones(10), 0.0]
    assert maps.choose_knots(axis, weights, 4) == [0, 1, 4, 9]
    weights = np.r_[0.0, 1.0, 100.0, 1.0, np.zeros(8), 0.0]
    assert maps.choose_knots(axis, weights, 4) == [0, 1, 2]  # there are no more values with rows


def test_slices_with_the_main_effects():
    rng = np.random.default_rng(1)
    model = build_model(rng, ("continuous", "nominal"), (1, 2))
    first, second, pair = model.shapes
    total = scale.find_pair(explain_global(model), 2, total=True).scores
    fine, coarse = first.axes[0].knots, pair.axes[0].knots
    for i, knot in enumerate(coarse):
        for j, level in enumerate(pair.axes[1].levels):
            parts = first.scores[1 + fine.tolist().index(knot)], second.scores[1 + second.axes[0].levels.index(level)]
            np.testing.assert_allclose(total[i + 1, j + 1], pair.scores[i + 1, j + 1] + sum(parts))
    np.testing.assert_allclose(total[0, 0], pair.scores[0, 0] + first.scores[0] + second.scores[0])
    figure = plot.slices(model, 2, levels=list(pair.axes[1].levels[:2]), total=True)
    drawn = lines_of(figure.axes[0])[0]
    np.testing.assert_array_equal(drawn.get_ydata(), total[1:-1, 1, 0])
    assert figure.axes[0].get_title() == "x0 & x1\nwith the main effects of both columns"


def test_slices_are_thin_where_no_row_is_near():
    weights = np.ones((4, 3))
    weights[2:, 0] = 0.0
    drawn = [line for line in lines_of(plot.slices(pair_model(weights=weights), 2).axes[0]) if line.get_linewidth() > 1]
    assert np.isnan(drawn[0].get_ydata()).tolist() == [False, False, True, True]
    assert not np.isnan(drawn[1].get_ydata()).any()


def test_wrong_slices_are_errors():
    with pytest.raises(ValueError, match=r"expected a pair; got 'age'\. The model's pairs are: 'age & city'"):
        plot.slices(pair_model(), "age")
    with pytest.raises(ValueError, match="'age' or 'city'; got 'town'"):
        plot.slices(pair_model(), 2, along="town")
    with pytest.raises(ValueError, match="column 'city' has no level 'Rome'"):
        plot.slices(pair_model(), 2, levels=["Rome"])
    with pytest.raises(ValueError, match="1 to 10 curves"):
        plot.slices(pair_model(), 2, levels=0)


def push_model():
    axes = [knots("x", [0.5, 1.5]), level_axis("city", "nominal", CITIES)]
    scores = np.zeros((2, 3, 3))
    scores[0, 0] = [6, 0, 0]
    scores[0, 1] = [0, 3, 0]
    scores[1, 2] = [-3, -3, 0]  # only differences count
    return additive(axes, [shape((0, 1), axes, scores)], "mlogit", ABC)


def test_push_colours_a_cell_by_the_class_it_raises_most():
    figure = plot.push(push_model(), 0)
    colours = figure.axes[0].collections[0].get_array()
    assert colours.shape == (3, 2, 3)
    names = legend_texts(figure)
    assert names == ["a", "b", "c"]
    hue = {name: np.array(to_rgb(plot.COLOURS[names.index(name)])) for name in names}
    np.testing.assert_allclose(colours[0, 0], hue["a"])  # 4 above the mean, the most
    np.testing.assert_allclose(colours[1, 0], (1 + hue["b"]) / 2)  # 2 above the mean
    np.testing.assert_allclose(colours[2, 1], (1 + hue["c"]) / 2)
    np.testing.assert_allclose(colours[0, 1], [1, 1, 1])
    places = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert places == {"a": (0.5, 0.0), "b": (0.5, 1.0), "c": (1.5, 2.0)}


def test_push_of_two_classes():
    axes = [knots("x", [0.5, 1.5]), knots("y", [0.5, 1.5])]
    pair = shape((0, 1), axes, [[2.0, -1.0], [0.0, -2.0]])
    figure = plot.push(additive(axes, [pair], "logit", np.array(["no", "yes"])), 0)
    assert legend_texts(figure) == ["no", "yes"]
    np.testing.assert_allclose(figure.axes[0].collections[0].get_array()[0, 0], to_rgb(plot.COLOURS[1]))
    with pytest.raises(ValueError, match="needs a classifier"):
        plot.push(additive(axes, [pair]), 0)


@given(st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=1, max_size=5), st.floats(-9, 9))
def test_push_does_not_depend_on_what_all_classes_share(scores, shared):
    scores = np.array(scores)
    np.testing.assert_allclose(pairs.push_strength(scores + shared), pairs.push_strength(scores), atol=1e-12)


def test_cells_whose_band_contains_zero_are_pale():
    axes = [knots("age", [0.5, 1.5, 2.5]), knots("dose", [0.5, 1.5])]
    scores = np.array([[-3.0, -1.0], [0.5, 1.0], [2.9, 3.1]])
    pair = shape((0, 1), axes, scores, spread=1.0, evidence=evidence(multiplier=3.0))
    figure = plot.shapes(additive(axes, [pair]), pairs="map")
    (veil,) = [patch for patch in figure.axes[0].patches if isinstance(patch, PathPatch)]
    assert not veil.get_hatch()
    assert len(veil.get_path().vertices) == 5 * 5  # all six cells but the last
    assert legend_texts(figure) == ["pale: no clear effect there"]
    bare = plot.shapes(additive(axes, [shape((0, 1), axes, scores, spread=1.0)]), pairs="map")
    assert not bare.legends
    assert not bare.axes[0].patches
