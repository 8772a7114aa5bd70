"""Figures of main effects: lines, bars, markers and labels show the tables of the model."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from neuralbasis import plot
from neuralbasis.encoding import level_axis
from neuralbasis.losses import inverse_link
from neuralbasis.plot import canvas
from tests.models import build_model
from tests.plot.figures import (
    ABC,
    CITIES,
    additive,
    background_of,
    bands_of,
    bars_of,
    drop_evidence,
    evidence,
    knots,
    legend_texts,
    legend_title,
    lines_of,
    member_lines_of,
    panel,
    ramp,
    shape,
    strip_texts,
    tick_texts,
    view_of,
)

SHADES = "background: darker where there are more training rows"


@pytest.mark.parametrize("estimator", ["regressor", "classifier", "multiclass"])
def test_lines_are_the_tables(estimator, request):
    estimator = request.getfixturevalue(estimator)
    figure = plot.shapes(estimator)
    for name in ("age", "income"):
        drawn, expected = lines_of(panel(figure, name)), view_of(estimator, name)
        assert len(drawn) == expected.scores.shape[-1]
        for output, line in enumerate(drawn):
            np.testing.assert_array_equal(line.get_xdata(), expected.axes[0].knots)
            np.testing.assert_array_equal(line.get_ydata(), expected.scores[1:-1, output])


@pytest.mark.parametrize("estimator", ["regressor", "classifier", "multiclass"])
def test_bars_of_levels_are_the_table_and_count_their_rows(estimator, request):
    estimator = request.getfixturevalue(estimator)
    axes, expected = panel(plot.shapes(estimator), "city"), view_of(estimator, "city")
    weights = expected.weights[1:-1]
    order = np.argsort(-(expected.scores[1:-1, 0] if len(expected.importances) == 1 else weights), kind="stable")
    cells = np.r_[1 + order, 0]  # by effect, or with several classes by rows; then the missing value
    np.testing.assert_array_equal(bars_of(axes), expected.scores[cells].T)
    names = [*(CITIES[index] for index in order), "missing"]
    assert tick_texts(axes.yaxis) == [f"{c} ({expected.weights[i]:.0f})" for c, i in zip(names, cells, strict=True)]
    assert axes.yaxis_inverted()


def test_members_are_faint_lines_without_evidence(regressor):
    figure, expected = plot.shapes(drop_evidence(regressor)), view_of(regressor, "age")
    axes = panel(figure, "age")
    assert legend_texts(figure) == [
        "faint lines: members of the model",
        "± 1 standard deviation over the members",
        "background: darker where there are more training rows",
        "every panel has its own scale",
    ]
    (fan,) = member_lines_of(axes)
    segments = np.array(fan.get_segments())
    np.testing.assert_array_equal(segments[:, :, 1], expected.members[1:-1, :, 0].T)
    np.testing.assert_array_equal(segments[0, :, 0], expected.axes[0].knots)
    (line,) = lines_of(axes)
    assert fan.get_alpha() < 0.5
    assert fan.get_linewidths()[0] < line.get_linewidth()


def test_a_band_of_one_standard_deviation_replaces_members_that_are_not_stored():
    figure = plot.shapes(ramp(spread=0.25))
    assert list(bands_of(figure.axes[0]).values()) == [(-1.25, -0.75)]
    assert legend_texts(figure) == ["± 1 standard deviation over the members", SHADES]


def test_bands_for_each_value_and_for_the_whole_curve():
    figure = plot.shapes(ramp(spread=0.1, evidence=evidence(multiplier=3.0)))
    (light, dark), (outer, inner) = zip(*bands_of(figure.axes[0]).items(), strict=True)
    assert light < dark
    assert outer == pytest.approx((-1.3, -0.7))
    assert inner == pytest.approx((-1 - 1.959964 * 0.1, -1 + 1.959964 * 0.1))
    assert legend_texts(figure) == ["95 % band for each value", "95 % band for the whole curve", SHADES]
    assert figure.axes[0].get_ylim() == pytest.approx((-1.43, 1.43))


def test_bands_of_a_fitted_model(regressor):
    figure, term = plot.shapes(regressor), view_of(regressor, "age")
    axes, score, error = panel(figure, "age"), term.scores[1, 0], term.spread[1, 0]
    outer, inner = bands_of(axes).values()
    assert inner == pytest.approx((score - 1.959964 * error, score + 1.959964 * error))
    assert outer == pytest.approx((score - term.evidence.multipliers[0] * error, outer[1]))
    assert not member_lines_of(axes)
    assert legend_texts(figure)[:2] == [
        "95 % band for each value (bars: thick line)",
        "95 % band for the whole curve (bars: thin line)",
    ]


def test_bands_of_probabilities():
    model = ramp(link="logit", classes=np.array(["no", "yes"]), spread=0.1, evidence=evidence())
    outer, inner = bands_of(plot.shapes(model, scale="probability").axes[0]).values()
    assert outer == pytest.approx([1 / (1 + np.exp(1.3)), 1 / (1 + np.exp(0.7))])
    assert outer[0] < inner[0] < inner[1] < outer[1]


def three_classes(**kwargs):
    """A model of three classes with standard errors 0.1, 0.2 and 0.4 and multipliers 2.5, 3.5 and 3."""
    found = replace(evidence(n_outputs=3), multipliers=np.array([2.5, 3.5, 3.0]))
    return ramp(3, link="mlogit", classes=ABC, spread=[0.1, 0.2, 0.4], evidence=found, **kwargs)


def test_bands_of_differences_from_a_reference_class():
    figure = plot.by_class(three_classes(), "age", reference="b")
    assert legend_texts(figure) == ["95 % band for each value", "95 % band for the whole curve", SHADES]
    for axes, score, error in zip(figure.axes, (1.0, -1.0), np.hypot([0.1, 0.4], 0.2), strict=True):
        outer, inner = bands_of(axes).values()
        assert inner == pytest.approx((score - 1.959964 * error, score + 1.959964 * error))
        assert outer == pytest.approx((score - 3.5 * error, score + 3.5 * error))  # the larger multiplier
    figure = plot.shapes(three_classes(), reference="b")
    assert legend_title(figure) == f"class; shaded: 95 % band for each value; {SHADES}"


def test_the_reference_class_does_not_differ_from_itself():
    assert not bands_of(plot.shapes(three_classes(), classes=["b"], reference="b").axes[0])


def test_bands_of_the_probabilities_of_many_classes():
    """The delta method for the log odds p / (1 - p), whose slopes are 1 and -p_j / (1 - p_k)."""
    figure = plot.by_class(three_classes(intercept=1.0), "age", scale="probability")
    chances = inverse_link("mlogit", np.array([[-1.0, -2.0, -3.0]]))[0]
    for k, axes in enumerate(figure.axes):
        shares = np.delete(chances, k) / (1 - chances[k])
        error = np.sqrt(np.r_[0.1, 0.2, 0.4][k] ** 2 + (shares**2 * np.delete([0.1, 0.2, 0.4], k) ** 2).sum())
        odds = np.log(chances[k] / (1 - chances[k]))
        for band, factor in zip(bands_of(axes).values(), (3.5, 1.959964), strict=True):
            expected = [1 / (1 + np.exp(-(odds + sign * factor * error))) for sign in (-1, 1)]
            assert band == pytest.approx(expected)


def test_narrow_bands_of_probabilities_are_those_of_the_delta_method():
    """p_k (1 - p_k) e_k and p_k p_j e_j, added in squares."""
    small = 1e-4 * np.array([1.0, 2.0, 4.0])
    model = ramp(3, link="mlogit", classes=ABC, spread=small, evidence=evidence(n_outputs=3))
    chances = inverse_link("mlogit", np.array([[-1.0, -2.0, -3.0]]))[0]
    slopes = np.diag(chances) - np.outer(chances, chances)
    for axes, own in zip(plot.by_class(model, "age", scale="probability").axes, slopes, strict=True):
        low, high = list(bands_of(axes).values())[-1]
        assert (high - low) / 2 == pytest.approx(1.959964 * np.sqrt(((own * small) ** 2).sum()), rel=1e-4)


@pytest.mark.parametrize("option", [{"reference": 0}, {"scale": "probability"}])
def test_differences_and_probabilities_without_evidence_have_the_deviation_over_members(multiclass, option):
    figure, expected = plot.shapes(drop_evidence(multiclass), **option), view_of(multiclass, "age").members
    assert legend_title(figure).startswith("class; faint lines: members of the model; shaded: ± 1")
    assert len(member_lines_of(panel(figure, "age"))[0].get_segments()) == expected.shape[-2]


def test_error_bars_of_levels_for_each_value_and_for_all():
    axis = level_axis("city", "nominal", CITIES)
    model = additive([axis], [shape((0,), [axis], [1.0, 2.0, 3.0], 0.1, evidence=evidence(multiplier=2.5))])
    figure = plot.shapes(model)
    thin, thick = (c for c in figure.axes[0].collections if isinstance(c, LineCollection))
    assert thin.get_linewidths()[0] < thick.get_linewidths()[0]
    np.testing.assert_allclose(thin.get_segments()[1][:, 0], [1.75, 2.25])
    np.testing.assert_allclose(thick.get_segments()[1][:, 0], [2 - 0.1959964, 2 + 0.1959964])
    assert legend_texts(figure) == ["95 % band for each value", "95 % band for the whole curve"]


@pytest.mark.parametrize(("p_value", "expected"), [(0.049, ""), (0.0503, "p = 0.0503"), (0.614, "p = 0.61")])
def test_a_term_without_a_clear_effect_is_grey(p_value, expected):
    figure = plot.shapes(ramp(spread=0.1, evidence=evidence(p_value)))
    (line,) = lines_of(figure.axes[0])
    assert line.get_color() == (canvas.GREY if expected else plot.COLOURS[0])
    title = figure.axes[0].get_title()
    assert title.endswith(f"\nno clear effect ({expected})") if expected else "effect" not in title
    assert ("grey: no clear effect" in legend_texts(figure)) == bool(expected)


def test_classes_keep_their_colours_and_one_band():
    found = replace(evidence(n_outputs=3), p_values=np.array([0.02, 0.5, 0.9]))
    model = ramp(3, link="mlogit", classes=ABC, spread=0.1, evidence=found)
    figure = plot.shapes(model)
    assert [line.get_color() for line in lines_of(figure.axes[0])] == list(plot.COLOURS[:3])
    assert len(bands_of(figure.axes[0])) == 1
    assert legend_title(figure) == f"class; shaded: 95 % band for each value; {SHADES}"
    assert figure.axes[0].get_title().endswith("\nno clear effect (p = 0.06)")  # the smallest of three, times 3
    titles = [axes.get_title() for axes in plot.by_class(model, "age").axes]
    assert titles == ["a", "b\nno clear effect (p = 0.5)", "c\nno clear effect (p = 0.9)"]


def test_a_few_missing_values_do_not_flatten_the_curves():
    model = ramp(spread=0.1)
    own = model.shapes[0]
    spread, limits = own.spread.copy(), []
    spread[0] = 50.0
    for weight in (0.5, 5.0):  # of 50 other rows
        weights = own.weights.copy()
        weights[0] = weight
        changed = replace(own, spread=spread, weights=weights)
        limits.append(plot.shapes(replace(model, shapes=(changed,))).axes[0].get_ylim()[1])
    assert limits == pytest.approx([1.21, 55.0])


def test_more_than_three_curves_have_no_bands():
    rng = np.random.default_rng(0)
    model = build_model(rng, ("continuous",), (1,), 4, "mlogit", np.arange(4))
    figure = plot.shapes(model)
    assert len(lines_of(figure.axes[0])) == 4
    assert not member_lines_of(figure.axes[0])
    assert not bands_of(figure.axes[0])
    assert legend_title(figure) == f"class; {SHADES}"
    assert len(member_lines_of(plot.shapes(model, classes=[1, 2]).axes[0])) == 2


def test_whole_numbers_are_steps():
    axis = knots("rooms", [1, 2, 3, 6])
    axes = plot.shapes(additive([axis], [shape((0,), [axis], [4.0, 3.0, 2.0, 1.0])])).axes[0]
    (line,) = lines_of(axes)
    assert line.get_xdata().tolist() == [0.5, 1.5, 1.5, 2.5, 2.5, 3.5, 5.5, 6.5]
    assert line.get_ydata().tolist() == [4, 4, 3, 3, 2, 2, 1, 1]
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_few_values_that_are_not_whole_have_dots():
    axis = knots("dose", [0.5, 1.0, 2.5])
    (line,) = lines_of(plot.shapes(additive([axis], [shape((0,), [axis], [1.0, 0.0, 2.0])])).axes[0])
    assert (line.get_marker(), line.get_xdata().tolist()) == (".", [0.5, 1.0, 2.5])


def test_missing_value_has_its_marker_left_of_the_range(regressor):
    axes, expected = panel(plot.shapes(regressor), "age"), view_of(regressor, "age")
    (marker,) = [line for line in axes.lines if line.get_marker() == "D"]
    assert marker.get_ydata() == expected.scores[0, 0]
    assert axes.get_xlim()[0] < marker.get_xdata()[0] < expected.axes[0].knots[0]
    share = 100 * expected.weights[0] / expected.weights.sum()
    assert strip_texts(axes.xaxis) == [f"missing: {share:.0f} %"]


def test_a_curve_in_a_cut_tail_does_not_run_into_the_strip_of_missing_values():
    axis = knots("income", [-1e6, *range(100), 1e6])
    weights = np.r_[1.0, np.full(100, 10.0), 1.0]
    own = shape((0,), [axis], np.linspace(-1, 1, 102), weights=weights, spread=0.1, evidence=evidence())
    weights = own.weights.copy()
    weights[0] = 50.0
    axes = plot.shapes(additive([axis], [replace(own, weights=weights)])).axes[0]
    left, right = axes.get_xlim()
    strip = next(line for line in axes.lines if len(set(line.get_xdata())) == 1).get_xdata()[0]
    assert left < strip < right
    axes.figure.canvas.draw()
    for drawn in (*lines_of(axes), *(c for c in axes.collections if c.get_alpha())):
        box = drawn.get_clip_box()
        assert axes.transData.inverted().transform((box.x0, box.y0))[0] == pytest.approx(strip)


def test_special_codes_have_markers_in_the_strip_and_no_line_leads_to_them():
    axis = knots("months", [-9.0, -8.0, *range(100), 99_999.0])
    scores = np.r_[3.0, 2.5, np.linspace(1, -1, 100), 4.0]
    weights = np.r_[60.0, 20.0, np.full(100, 4.0), 20.0]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], scores, weights=weights)])).axes[0]
    markers = [line for line in axes.lines if line.get_marker() == "D"]
    assert [float(line.get_ydata()[0]) for line in markers] == [3.0, 2.5, 4.0]
    assert strip_texts(axes.xaxis) == ["−9: 12 %", "−8: 4 %", "99,999: 4 %"]
    (line,) = lines_of(axes)
    assert (line.get_xdata().min(), line.get_xdata().max()) == (0.0, 99.0)
    assert axes.get_xlim()[0] < markers[0].get_xdata()[0] < markers[2].get_xdata()[0] < 0
    assert axes.get_xlim()[1] < 105


def test_a_value_without_rows_beside_it_is_not_joined_to_the_curve():
    axis = knots("dose", [*np.linspace(0.0, 9.7, 40), 50.0, *np.linspace(90.3, 100, 40)])
    weights = np.r_[np.full(40, 10.0), 200.0, np.full(40, 10.0)]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], np.r_[np.zeros(40), 2.0, np.ones(40)], weights=weights)]))
    (line,) = lines_of(axes.axes[0])
    assert np.flatnonzero(np.isnan(line.get_xdata())).tolist() == [40, 42]
    (dot,) = [line for line in axes.axes[0].lines if line.get_marker() == "o"]
    assert (dot.get_xdata().tolist(), dot.get_ydata().tolist()) == ([50.0], [2.0])


@pytest.mark.parametrize("width", [None, 3.3])
def test_names_in_the_strip_do_not_overlap(width):
    axis = knots("months since the last inquiry", [-9.0, -8.0, -7.0, *range(100), 99_999.0])
    own = shape((0,), [axis], np.zeros(104), weights=np.r_[50.0, 50.0, 50.0, np.full(100, 5.0), 20.0])
    weights = own.weights.copy()
    weights[0] = 80.0
    figure = plot.shapes(additive([axis], [replace(own, weights=weights)] * 1), width=width)
    figure.canvas.draw()
    line = figure.axes[0].xaxis
    assert strip_texts(line) == ["missing: 11 %", "−9: 7 %", "−8: 7 %", "−7: 7 %", "99,999: 3 %"]
    names = line.get_ticklabels(minor=True)
    assert {text.get_rotation() for text in names} == {45.0}  # slanted: there is no room side by side
    gaps = np.diff([figure.axes[0].transData.transform((text.get_position()[0], 0))[0] for text in names])
    assert gaps.min() > names[0].get_fontsize() * figure.dpi / 72  # more than a line apart
    assert line.label.get_window_extent().y1 <= min(text.get_window_extent().y0 for text in names)


def test_y_range_includes_the_missing_value():
    model = ramp()
    scores, weights = model.shapes[0].scores.copy(), model.shapes[0].weights.copy()
    scores[0], weights[0] = 7.0, 1.0
    model = replace(model, shapes=(replace(model.shapes[0], scores=scores, weights=weights), *model.shapes[1:]))
    assert plot.shapes(model).axes[0].get_ylim() == pytest.approx((-1.4, 7.4))


def test_no_marker_without_missing_values():
    axes = plot.shapes(ramp()).axes[0]
    assert strip_texts(axes.xaxis) == []
    assert [line.get_marker() for line in axes.lines] == ["None", "None"]


def test_titles_are_names_and_importances_strongest_first(regressor):
    strengths = regressor.term_importances()
    order = np.argsort(-strengths)
    expected = [f"{regressor.term_names_[i]} (importance {strengths[i]:#.3g})" for i in order]
    titles = [axes.get_title() for axes in plot.shapes(regressor).axes]
    assert [title.split("\n")[0] for title in titles] == expected
    found = [view_of(regressor, int(i)).evidence for i in order]
    expected = [each.p_values[0] > 0.05 and each.concurvity < 0.5 for each in found]
    assert ["no clear effect" in title for title in titles] == expected


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (2, 2), (3, 3), (6, 3)])
def test_number_of_panels(regressor, n, expected):
    assert len(plot.shapes(regressor, n=n).axes) == expected


def test_named_terms_are_drawn_in_their_order(regressor):
    titles = [axes.get_title() for axes in plot.shapes(regressor, terms=["city", 0]).axes]
    assert [title.split(" (")[0] for title in titles] == ["city", "age"]


def test_an_empty_list_of_terms_is_an_error(regressor):
    with pytest.raises(ValueError, match="no term to draw"):
        plot.shapes(regressor, terms=[])


def test_panels_share_a_range_that_includes_every_member_on_request(regressor):
    figure = plot.shapes(regressor, share_y=True)
    city = panel(figure, "city")
    limits = {city.get_xlim() if axes is city else axes.get_ylim() for axes in figure.axes}
    assert len(limits) == 1
    low, high = limits.pop()
    expected = view_of(regressor, "age")
    assert low < expected.members[:-1].min()
    assert high > expected.members[:-1].max()
    assert city.get_xlabel() == "contribution to prediction"
    assert sorted(axes.get_ylabel() for axes in figure.axes) == ["", "", "contribution to prediction"]
    assert "every panel has its own scale" not in legend_texts(figure)


def test_every_panel_has_its_own_scale(regressor):
    figure = plot.shapes(regressor)
    assert len({axes.get_ylim() for axes in figure.axes}) == 3
    assert legend_texts(figure)[-1] == "every panel has its own scale"
    assert all(tick_texts(axes.yaxis) for axes in figure.axes)


@pytest.mark.parametrize(
    ("link", "classes", "expected"),
    [
        ("identity", None, "contribution to prediction"),
        ("logit", ["no", "yes"], "contribution to log odds of yes"),
        ("logit", None, "contribution to log odds"),
    ],
)
def test_y_label(link, classes, expected):
    model = ramp(link=link, classes=None if classes is None else np.array(classes))
    assert plot.shapes(model).axes[0].get_ylabel() == expected


def test_zero_line(regressor):
    figure = plot.shapes(regressor)
    city = panel(figure, "city")
    for axes in figure.axes:
        ends = [line.get_xdata() if axes is city else line.get_ydata() for line in axes.lines]
        assert any(np.array_equal(both, [0, 0]) for both in ends)


def test_flat_model_is_drawn():
    axis = knots("constant", [3.0])
    figure = plot.shapes(additive([axis], [shape((0,), [axis], [0.0])]))
    assert figure.axes[0].get_xlim() == (2.5, 3.5)
    assert figure.axes[0].get_ylim() == (-1.0, 1.0)
    assert figure.axes[0].get_xticks().tolist() == [3.0]


def test_a_cut_tail_is_noted_below_the_axis():
    axis = knots("income", [*range(100), 1e6])
    weights = np.r_[np.full(100, 10.0), 1.0]
    scores = np.r_[np.linspace(-1, 1, 100), 50.0]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], scores, weights=weights)])).axes[0]
    np.testing.assert_allclose(axes.get_xlim(), (0 - 0.03 * 99, 99 + 0.03 * 99))
    assert axes.get_ylim()[1] < 2  # values in the tail do not change the range
    assert axes.get_xlabel() == "central 99 % of rows"
    assert axes.lines[-1].get_xdata()[-1] == 1e6


def test_short_tails_are_not_cut():
    axes = plot.shapes(ramp()).axes[0]
    np.testing.assert_allclose(axes.get_xlim(), (0.5 - 0.03 * 49, 49.5 + 0.03 * 49))
    assert axes.get_xlabel() == ""


def test_the_background_is_darker_where_there_are_more_rows():
    weights = np.r_[np.full(25, 1.0), np.full(25, 4.0)]
    at, grey = background_of(plot.shapes(ramp(weights=weights)).axes[0])
    assert grey.max() < 0.25
    assert grey[at > 30].mean() / grey[at < 20].mean() == pytest.approx(2)  # the square root of 4
    axis = knots("count", [0, 1, 5])
    few = additive([axis], [shape((0,), [axis], [0, 1, 2], weights=[75, 5, 20])])
    at, grey = background_of(plot.shapes(few).axes[0])
    assert at.tolist() == pytest.approx([0, 1, 5], abs=0.1)
    np.testing.assert_allclose(grey, [0.25, 0.125, 0.25])  # darkest from a fifth of the rows on


def test_the_background_has_the_same_scale_in_every_panel():
    """A tenth of the rows has the same grey, whatever the other values of the column are."""
    found = []
    for counts in ([10, 90], [10, 10, 80]):
        axis = knots("dose", np.arange(len(counts)) + 0.5)
        weights = np.array(counts, dtype=float)
        model = additive([axis], [shape((0,), [axis], np.arange(len(counts)), weights=weights)])
        found.append(background_of(plot.shapes(model).axes[0])[1][0])
    assert found == pytest.approx([0.25 * np.sqrt(0.5)] * 2)


def test_the_background_shows_no_rows_between_a_code_and_the_other_values():
    axis = knots("score", [-9.0, *np.arange(300, 400)])
    weights = np.r_[50.0, np.full(100, 5.0)]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], np.zeros(101), weights=weights)])).axes[0]
    at, grey = background_of(axes)
    assert at.min() == pytest.approx(300, abs=2)
    assert grey.min() > 0.09
    assert strip_texts(axes.xaxis) == ["−9: 9 %"]


def test_two_values_are_the_ticks():
    axis = knots("flag", [0, 1])
    assert plot.shapes(additive([axis], [shape((0,), [axis], [-1, 1])])).axes[0].get_xticks().tolist() == [0, 1]


def test_many_levels_keep_the_strongest_sorted_by_effect():
    axis = level_axis("city", "nominal", [f"level {index}" for index in range(20)])
    scores, weights = np.arange(20.0) - 9.5, np.r_[1.0, np.arange(19.0, 0, -1)]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], scores, weights=weights)])).axes[0]
    kept = [19, 18, 17, 16, 15, 14, 5, 4, 3, 2, 1, 0]
    assert tick_texts(axes.yaxis) == [*(f"level {i} ({weights[i]:.0f})" for i in kept), "… 8 more"]
    np.testing.assert_array_equal(bars_of(axes), [scores[kept]])


def test_levels_with_an_order_keep_it():
    axis = level_axis("size", "ordinal", ["small", "medium", "large"])
    axes = plot.shapes(additive([axis], [shape((0,), [axis], [1.0, -2.0, 3.0])])).axes[0]
    assert tick_texts(axes.yaxis) == ["small (1)", "medium (1)", "large (1)"]


def test_legend_names_the_classes(multiclass):
    figure = plot.shapes(drop_evidence(multiclass))
    assert legend_texts(figure) == ["0", "1", "2"]
    assert legend_title(figure).startswith("class; faint lines: members of the model; shaded: ± 1")


def test_at_most_ten_classes_with_distinct_styles():
    figure = plot.shapes(ramp(12, link="mlogit", classes=np.arange(12)))
    assert len(lines_of(figure.axes[0])) == 10
    assert legend_title(figure) == f"class (10 of 12); {SHADES}"
    looks = [tuple(canvas.line_style(order).values()) for order in range(10)]
    assert len(set(looks)) == 10
    assert len({dashes for _, dashes in looks[:7]}) == 7  # distinct in a grey print
    assert len({canvas.bar_style(order)["hatch"] for order in range(7)}) == 7


def test_chosen_classes():
    model = ramp(12, link="mlogit", classes=np.array([f"c{index}" for index in range(12)]))
    figure = plot.shapes(model, classes=["c11", "c0"])
    assert legend_texts(figure) == ["c11", "c0"]
    np.testing.assert_array_equal(lines_of(figure.axes[0])[0].get_ydata(), model.shapes[0].scores[1:-1, 11])


def test_wrong_classes_are_errors():
    model = ramp(12, link="mlogit", classes=np.arange(12))
    with pytest.raises(ValueError, match=r"contains 'x'; the model's classes are \[0, 1"):
        plot.shapes(model, classes=["x"])
    with pytest.raises(ValueError, match="1 to 10 classes; got 11"):
        plot.shapes(model, classes=list(range(11)))
    with pytest.raises(ValueError, match="three or more classes"):
        plot.shapes(ramp(), classes=[1])


def test_probability_scale_of_two_classes():
    model = ramp(link="logit", classes=np.array(["no", "yes"]), intercept=1.0)
    axes = plot.shapes(model, scale="probability").axes[0]
    expected = inverse_link("logit", 1.0 + model.shapes[0].scores[1:-1])[:, 1]
    np.testing.assert_array_equal(lines_of(axes)[0].get_ydata(), expected)
    assert axes.lines[0].get_ydata()[0] == pytest.approx(1 / (1 + np.exp(-1)))
    assert axes.get_ylabel() == "probability of yes, other terms at 0"


def test_probability_scale_of_many_classes(multiclass):
    figure, expected = plot.shapes(multiclass, scale="probability"), view_of(multiclass, "age")
    chances = inverse_link("mlogit", multiclass.model_.intercept + expected.scores[1:-1])
    np.testing.assert_allclose(np.transpose([line.get_ydata() for line in lines_of(panel(figure, "age"))]), chances)
    assert "probability, other terms at 0" in [axes.get_ylabel() for axes in figure.axes]
    for axes in figure.axes:
        low, high = axes.get_xlim() if panel(figure, "city") is axes else axes.get_ylim()
        assert 0 <= low < high <= 1


def test_probability_of_a_pair_is_a_change(classifier):
    figure, expected = plot.shapes(classifier, scale="probability", pairs="map"), view_of(classifier, (0, 1))
    axes = panel(figure, "age & income")
    start = classifier.model_.intercept[0]
    chances = 1 / (1 + np.exp(-(start + expected.scores[..., 0]))) - 1 / (1 + np.exp(-start))
    drawn = axes.collections[0].get_array()
    np.testing.assert_allclose(drawn[2:, 2:].T, chances[1:-1, 1:-1])
    np.testing.assert_allclose(drawn[0, 2:], chances[1:-1, 0])


def test_reference_class():
    model = ramp(3, link="mlogit", classes=ABC)
    figure = plot.shapes(model, reference="b")
    assert legend_texts(figure) == ["a", "c"]
    scores = model.shapes[0].scores[1:-1]
    for line, output in zip(lines_of(figure.axes[0]), (0, 2), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), scores[:, output] - scores[:, 1])
    assert figure.axes[0].get_ylabel() == "contribution to log odds versus b"
    colours = [line.get_color() for line in lines_of(figure.axes[0])]
    assert colours == [plot.COLOURS[0], plot.COLOURS[2]]  # as without a reference


def test_wrong_scales_are_errors():
    with pytest.raises(ValueError, match="needs a classifier"):
        plot.shapes(ramp(), scale="probability")
    with pytest.raises(ValueError, match=r"one of .*'probability'.*; got 'odds'"):
        plot.shapes(ramp(), scale="odds")
    with pytest.raises(ValueError, match="reference compares scores"):
        plot.shapes(ramp(3, link="mlogit", classes=ABC), scale="probability", reference="a")
    with pytest.raises(ValueError, match="reference contains 'd'"):
        plot.shapes(ramp(3, link="mlogit", classes=ABC), reference="d")
