"""plot: what is drawn is the numbers of the records, and a file is whole or absent."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, plot
from neuralbasis.encoding.axis import continuous_axis, level_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.explain import explain_global, explain_local
from neuralbasis.explain import stability as measure_stability
from neuralbasis.losses.links import inverse_link
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
from neuralbasis.plot import canvas, curves, maps, pairs, scale
from tests.models import build_model, tie_model

N_ROWS = 300
CITIES = ["Bern", "Lima", "Oslo"]
ABC = np.array(["a", "b", "c"])


def shape(term, axes, scores, spread=0.0, weights=1.0, members=None):
    """A table given at the knots; the missing and the unseen cell are 0 and weigh nothing."""
    scores = np.asarray(scores, dtype=float)
    scores = scores[..., None] if scores.ndim == len(axes) else scores
    full = np.zeros((*(axis.n_cells for axis in axes), scores.shape[-1]))
    inner = (slice(1, -1),) * len(axes)
    full[inner] = scores
    weight = np.zeros(full.shape[:-1])
    weight[inner] = weights
    return Shape(term, tuple(axes), full, np.full_like(full, spread), weight, members)


def additive(axes, shapes, link="identity", classes=None, intercept=0.0):
    n_outputs = shapes[0].scores.shape[-1]
    return AdditiveModel(Encoder(tuple(axes)), np.full(n_outputs, intercept), tuple(shapes), link, classes)


def knots(name, values):
    return continuous_axis(name, np.asarray(values, dtype=float), scaling="minmax")


def ramp(n_outputs=1, name="age", link="identity", classes=None, intercept=0.0, **kwargs):
    """A model of one continuous column with 50 knots, 0.5, 1.5, …"""
    axis = knots(name, np.arange(50) + 0.5)
    scores = np.linspace(-1, 1, 50)[:, None] * np.arange(1, n_outputs + 1)
    return additive([axis], [shape((0,), [axis], scores, **kwargs)], link, classes, intercept)


def table(seed=0):
    """A frame with a number, a long tail, a text column and gaps in all of them, and a score."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, N_ROWS),
            "income": np.exp(rng.normal(8, 2, N_ROWS)),
            "city": rng.choice(CITIES, N_ROWS),
        }
    )
    score = frame["age"] / 20 + frame["city"].map({"Bern": -1.0, "Lima": 0.0, "Oslo": 1.0})
    for column in frame:
        frame.loc[rng.random(N_ROWS) < 0.1, column] = None
    return frame, score.to_numpy()


def fit(kind, y, **parameters):
    frame, _ = table()
    return kind(max_steps=15, outer_bags=2, n_jobs=1, **parameters).fit(frame, y)


@pytest.fixture(scope="module")
def regressor():
    return fit(NeuralBasisRegressor, table()[1], interactions=0)


@pytest.fixture(scope="module")
def classifier():
    return fit(NeuralBasisClassifier, np.where(table()[1] > 2.5, "yes", "no"), interactions=[("age", "income")])


@pytest.fixture(scope="module")
def multiclass():
    return fit(NeuralBasisClassifier, np.digitize(table()[1], [2, 3]), interactions=[("age", "city")])


def panel(figure, name):
    return next(axes for axes in figure.axes if axes.get_title().startswith(f"{name} ("))


def lines_of(axes):
    """The lines through knots: neither the zero line nor the missing value's."""
    return [line for line in axes.lines if len(line.get_xdata()) > 2]


def member_lines_of(axes):
    """Members, which unlike error bars are faint."""
    return [c for c in axes.collections if isinstance(c, LineCollection) and c.get_alpha() is not None]


def bars_of(axes):
    """Heights of the bars of levels, one array a class."""
    containers = [c for c in axes.containers if type(c).__name__ == "BarContainer"]
    return [np.array([bar.get_height() for bar in container]) for container in containers]


def background_of(axes):
    """Middle and grey of the shaded bars behind a curve."""
    bars = axes.collections[0]
    middles = [path.vertices[:, 0].min() / 2 + path.vertices[:, 0].max() / 2 for path in bars.get_paths()]
    return np.array(middles), 1 - bars.get_facecolor()[:, 0]


def view_of(estimator, name):
    return explain_global(estimator).find(name)


def tick_texts(line):
    return [text.get_text() for text in line.get_ticklabels()]


def legend_texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


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
    np.testing.assert_array_equal(bars_of(axes), expected.scores[1:-1].T)
    assert tick_texts(axes.xaxis) == [f"{c}\n{w:.0f}" for c, w in zip(CITIES, expected.weights[1:-1], strict=True)]


def test_members_are_faint_lines(regressor):
    axes, expected = panel(plot.shapes(regressor), "age"), view_of(regressor, "age")
    (fan,) = member_lines_of(axes)
    segments = np.array(fan.get_segments())
    np.testing.assert_array_equal(segments[:, :, 1], expected.members[1:-1, :, 0].T)
    np.testing.assert_array_equal(segments[0, :, 0], expected.axes[0].knots)
    (line,) = lines_of(axes)
    assert fan.get_alpha() < 0.5
    assert fan.get_linewidths()[0] < line.get_linewidth()


def test_a_band_of_one_standard_deviation_stands_for_members_that_are_not_kept():
    model = ramp(spread=0.25)
    corners = plot.shapes(model).axes[0].collections[1].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (-1.25, 1.25)


def test_many_classes_have_bands_instead_of_members():
    rng = np.random.default_rng(0)
    model = build_model(rng, ("continuous",), (1,), 4, "mlogit", np.arange(4))
    axes = plot.shapes(model).axes[0]
    assert not member_lines_of(axes)
    assert sum(collection.get_alpha() == 0.2 for collection in axes.collections) == 4
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
    for name in ("age", "city"):
        axes, expected = panel(plot.shapes(regressor), name), view_of(regressor, name)
        (marker,) = [line for line in axes.lines if line.get_marker() == "D"]
        assert marker.get_ydata() == expected.scores[0, 0]
        assert axes.get_xlim()[0] < marker.get_xdata()[0] < expected.axes[0].knots[0]
        share = 100 * expected.weights[0] / expected.weights.sum()
        assert [text.get_text() for text in axes.texts] == [f"missing {share:.3g}%"]


def test_y_scale_holds_the_missing_value():
    model = ramp()
    scores, weights = model.shapes[0].scores.copy(), model.shapes[0].weights.copy()
    scores[0], weights[0] = 7.0, 1.0
    model = replace(model, shapes=(replace(model.shapes[0], scores=scores, weights=weights), *model.shapes[1:]))
    assert plot.shapes(model).axes[0].get_ylim() == pytest.approx((-1.4, 7.4))


def test_no_marker_without_missing_values():
    axes = plot.shapes(ramp()).axes[0]
    assert not axes.texts
    assert [line.get_marker() for line in axes.lines] == ["None", "None"]


def test_titles_hold_names_and_importances_strongest_first(regressor):
    strengths = regressor.term_importances()
    order = np.argsort(-strengths)
    expected = [f"{regressor.term_names_[i]} (importance {strengths[i]:#.3g})" for i in order]
    assert [axes.get_title() for axes in plot.shapes(regressor).axes] == expected


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (2, 2), (3, 3), (6, 3)])
def test_number_of_panels(regressor, n, expected):
    assert len(plot.shapes(regressor, n=n).axes) == expected


def test_named_terms_are_drawn_in_their_order(regressor):
    titles = [axes.get_title() for axes in plot.shapes(regressor, terms=["city", 0]).axes]
    assert [title.split(" (")[0] for title in titles] == ["city", "age"]


def test_no_terms_are_refused(regressor):
    with pytest.raises(ValueError, match="no term to draw"):
        plot.shapes(regressor, terms=[])


def test_panels_share_the_y_scale_which_holds_every_member(regressor):
    figure = plot.shapes(regressor)
    limits = {axes.get_ylim() for axes in figure.axes}
    assert len(limits) == 1
    low, high = limits.pop()
    expected = view_of(regressor, "age")
    assert low < expected.members[:-1].min()
    assert high > expected.members[:-1].max()
    assert [axes.get_ylabel() for axes in figure.axes] == ["contribution to score", "", ""]


def test_free_scales(regressor):
    figure = plot.shapes(regressor, free_y=True)
    assert len({axes.get_ylim() for axes in figure.axes}) == 3
    assert all(tick_texts(axes.yaxis) for axes in figure.axes)


@pytest.mark.parametrize(
    ("link", "classes", "expected"),
    [
        ("identity", None, "contribution to score"),
        ("logit", ["no", "yes"], "contribution to log odds of yes"),
        ("logit", None, "contribution to log odds"),
    ],
)
def test_y_label(link, classes, expected):
    model = ramp(link=link, classes=None if classes is None else np.array(classes))
    assert plot.shapes(model).axes[0].get_ylabel() == expected


def test_zero_line(regressor):
    for axes in plot.shapes(regressor).axes:
        assert any(np.array_equal(line.get_ydata(), [0, 0]) for line in axes.lines)


def test_flat_model_is_drawn():
    axis = knots("constant", [3.0])
    figure = plot.shapes(additive([axis], [shape((0,), [axis], [0.0])]))
    assert figure.axes[0].get_xlim() == (2.5, 3.5)
    assert figure.axes[0].get_ylim() == (-1.0, 1.0)
    assert figure.axes[0].get_xticks().tolist() == [3.0]


def test_long_tail_is_cut_and_said():
    axis = knots("income", [*range(100), 1e6])
    weights = np.r_[np.full(100, 10.0), 1.0]
    scores = np.r_[np.linspace(-1, 1, 100), 50.0]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], scores, weights=weights)])).axes[0]
    np.testing.assert_allclose(axes.get_xlim(), (0 - 0.03 * 99, 99 + 0.03 * 99))
    assert axes.get_ylim()[1] < 2  # what the tail hides does not stretch the scale
    assert axes.get_xlabel() == "central 99% of rows"
    assert axes.lines[-1].get_xdata()[-1] == 1e6


def test_range_that_hides_little_is_whole():
    axes = plot.shapes(ramp()).axes[0]
    np.testing.assert_allclose(axes.get_xlim(), (0.5 - 0.03 * 49, 49.5 + 0.03 * 49))
    assert axes.get_xlabel() == ""


def test_the_ground_is_the_darker_the_more_rows():
    weights = np.r_[np.full(25, 1.0), np.full(25, 4.0)]
    at, grey = background_of(plot.shapes(ramp(weights=weights)).axes[0])
    assert grey.max() == pytest.approx(curves.DARKEST)
    assert grey[at > 30].mean() / grey[at < 20].mean() == pytest.approx(2)  # the square root of 4
    axis = knots("count", [0, 1, 5])
    few = additive([axis], [shape((0,), [axis], [0, 1, 2], weights=[4, 1, 0])])
    at, grey = background_of(plot.shapes(few).axes[0])
    assert at.tolist() == [0, 1, 5]
    np.testing.assert_allclose(grey / curves.DARKEST, [1, 0.5, 0])


def test_two_values_are_the_ticks():
    axis = knots("flag", [0, 1])
    assert plot.shapes(additive([axis], [shape((0,), [axis], [-1, 1])])).axes[0].get_xticks().tolist() == [0, 1]


def test_many_levels_keep_the_most_frequent_in_order():
    axis = level_axis("city", "nominal", [f"level {index}" for index in range(20)])
    scores, weights = np.arange(20.0) - 9.5, np.r_[1.0, np.arange(19.0, 0, -1)]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], scores, weights=weights)])).axes[0]
    assert tick_texts(axes.xaxis) == [
        *(f"level {i}: {w:.0f}" for i, w in enumerate(weights) if 1 <= i <= 12),
        "… 8 more",
    ]
    np.testing.assert_array_equal(bars_of(axes), [scores[1:13]])


def test_legend_names_the_classes(multiclass):
    figure = plot.shapes(multiclass)
    assert legend_texts(figure) == ["0", "1", "2"]
    assert figure.legends[0].get_title().get_text() == "class"


def test_at_most_ten_classes_that_can_be_told_apart():
    figure = plot.shapes(ramp(12, link="mlogit", classes=np.arange(12)))
    assert len(lines_of(figure.axes[0])) == 10
    assert figure.legends[0].get_title().get_text() == "class (10 of 12)"
    looks = [tuple(canvas.line_style(order).values()) for order in range(10)]
    assert len(set(looks)) == 10
    assert len({dashes for _, dashes in looks[:7]}) == 7  # in grey
    assert len({canvas.bar_style(order)["hatch"] for order in range(7)}) == 7


def test_chosen_classes():
    model = ramp(12, link="mlogit", classes=np.array([f"c{index}" for index in range(12)]))
    figure = plot.shapes(model, classes=["c11", "c0"])
    assert legend_texts(figure) == ["c11", "c0"]
    np.testing.assert_array_equal(lines_of(figure.axes[0])[0].get_ydata(), model.shapes[0].scores[1:-1, 11])


def test_wrong_classes_are_refused():
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
    assert figure.axes[0].get_ylabel() == "probability, other terms at 0"


def test_probability_of_a_pair_is_a_change(classifier):
    axes, expected = panel(plot.shapes(classifier, scale="probability"), "age & income"), view_of(classifier, (0, 1))
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


def test_wrong_scales_are_refused():
    with pytest.raises(ValueError, match="needs a classifier"):
        plot.shapes(ramp(), scale="probability")
    with pytest.raises(ValueError, match=r"one of .*'probability'.*; got 'odds'"):
        plot.shapes(ramp(), scale="odds")
    with pytest.raises(ValueError, match="reference compares scores"):
        plot.shapes(ramp(3, link="mlogit", classes=ABC), scale="probability", reference="a")
    with pytest.raises(ValueError, match="reference contains 'd'"):
        plot.shapes(ramp(3, link="mlogit", classes=ABC), reference="d")


def pair_model(n_outputs=1, weights=1.0, **kwargs):
    """Two weak main effects and a strong pair of a continuous and a nominal column."""
    axes = [knots("age", [0.5, 1.5, 2.5, 4.5]), level_axis("city", "nominal", CITIES)]
    scores = (np.arange(12.0).reshape(4, 3, 1) - 5.5) * np.arange(1, n_outputs + 1)
    weak = [0.1, 0.09]  # age before city
    mains = [shape((d,), [axis], np.full((len(axis.knots), n_outputs), weak[d])) for d, axis in enumerate(axes)]
    return additive(axes, [*mains, shape((0, 1), axes, scores, weights=weights)], **kwargs)


def test_pair_is_a_heat_map_centred_at_zero():
    model = pair_model()
    figure = plot.shapes(model, n=1)
    axes, bar = figure.axes
    mesh = axes.collections[0]
    np.testing.assert_array_equal(mesh.get_array(), model.shapes[2].scores[1:-1, 1:-1, 0].T)
    np.testing.assert_array_equal(mesh.get_coordinates()[0, :, 0], [0, 1, 2, 3.5, 5.5])
    assert mesh.get_clim() == (-5.5, 5.5)
    assert axes.get_title() == "age & city (importance 3.00)"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "city")
    assert tick_texts(axes.yaxis) == CITIES
    assert bar.get_ylabel() == "contribution to score"


def test_the_sign_of_a_map_is_drawn_in_dashes():
    axes = plot.shapes(pair_model(), n=1).axes[0]
    outline = axes.collections[1]
    assert outline.levels.tolist() == [-5.5 / 3, 5.5 / 3]
    (_, dashed), (_, solid) = outline.get_linestyle()
    assert dashed is not None
    assert solid is None


def test_cells_without_rows_are_veiled_and_do_not_stretch_the_colours():
    weights = np.ones((4, 3))
    weights[[0, 3]] = 0.0
    axes = plot.shapes(pair_model(weights=weights), terms=[2]).axes[0]
    (veil,) = axes.patches
    assert veil.get_hatch()
    corners = veil.get_path().vertices
    assert set(corners[:, 0]) == {0, 1, 3.5, 5.5}
    assert set(corners[:, 1]) == {-0.5, 0.5, 1.5, 2.5}
    assert axes.collections[0].get_clim() == (-2.5, 2.5)
    assert not plot.shapes(pair_model(), n=1).axes[0].patches


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
    axes = plot.shapes(model, n=1).axes[0]
    drawn = axes.collections[0].get_array()
    assert drawn.shape == (3, 6)
    assert drawn[:, 0].tolist() == [7, 8, 9]
    assert drawn.mask[:, 1].all()
    np.testing.assert_array_equal(drawn[:, 2:], pair.scores[1:-1, 1:-1, 0].T)
    assert [text.get_text() for text in axes.texts] == ["missing"]
    assert axes.collections[0].get_clim() == (-9, 9)


def test_pairs_do_not_join_the_y_scale_of_curves():
    figure = plot.shapes(pair_model())
    assert len(figure.axes) == 4
    assert panel(figure, "age").get_ylim() == panel(figure, "city").get_ylim()
    assert panel(figure, "age").get_ylim()[1] < 0.2
    assert figure.axes[-1].get_ylabel() == "contribution to score"
    assert panel(figure, "city").get_ylabel() == ""


def test_maps_begin_a_row_where_the_last_one_has_no_room():
    model = pair_model()
    assert len(plot.shapes(model).subfigs) == 0  # two curves and a map in one row
    figure = plot.shapes(model, terms=[0, 1, 2, 2])
    assert [len(part.axes) for part in figure.subfigs] == [2, 3]  # two curves; two maps and their bar


def test_pair_of_many_classes_shows_the_strongest():
    model = pair_model(3, link="mlogit", classes=ABC)
    axes = plot.shapes(model, n=1).axes[0]
    assert axes.get_title().splitlines()[1] == "for c"
    np.testing.assert_array_equal(axes.collections[0].get_array(), model.shapes[2].scores[1:-1, 1:-1, 2].T)
    assert plot.shapes(model, n=1, classes=["b", "a"]).axes[0].get_title().endswith("for b")


def triple_model(**kwargs):
    axes = [knots("x", [0, 1, 2]), level_axis("city", "nominal", CITIES), knots("z", [0.5, 1.5])]
    triple = shape((0, 1, 2), axes, np.arange(18.0).reshape(3, 3, 2) - 8.5)
    mains = [shape((d,), [axis], np.linspace(-1, 1, len(axis.knots))) for d, axis in enumerate(axes)]
    return additive(axes, [*mains, triple], **kwargs)


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
    figure = plot.by_class(model, "city & age")
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
    figure = plot.slices(model, ("age", "city"))
    drawn = [line for line in lines_of(figure.axes[0]) if line.get_linewidth() > 1]
    scores = model.shapes[2].scores[1:-1, 1:-1, 0]
    np.testing.assert_array_equal([line.get_ydata() for line in drawn], scores.T)
    assert drawn[0].get_xdata().tolist() == [0.5, 1.5, 2.5, 4.5]
    assert legend_texts(figure) == CITIES
    assert figure.legends[0].get_title().get_text() == "city"
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("age", "contribution to score")


def test_slices_along_the_other_column_at_chosen_values():
    model = pair_model()
    figure = plot.slices(model, "age & city", along="city", levels=[4.6, 0.5])
    drawn = [line for line in lines_of(figure.axes[0]) if line.get_linewidth() > 1]
    scores = model.shapes[2].scores[1:-1, 1:-1, 0]
    np.testing.assert_array_equal([line.get_ydata()[::2] for line in drawn], scores[[3, 0]])
    assert legend_texts(figure) == ["4.5", "0.5"]
    assert legend_texts(plot.slices(model, "age & city", levels=["Oslo"])) == ["Oslo"]


def test_slices_with_the_main_effects():
    rng = np.random.default_rng(1)
    model = build_model(rng, ("continuous", "nominal"), (1, 2))
    first, second, pair = model.shapes
    total = scale.add_mains(explain_global(model), explain_global(model).find(2))
    fine, coarse = first.axes[0].knots, pair.axes[0].knots
    for i, knot in enumerate(coarse):
        for j, level in enumerate(pair.axes[1].levels):
            parts = first.scores[1 + fine.tolist().index(knot)], second.scores[1 + second.axes[0].levels.index(level)]
            np.testing.assert_allclose(total[i + 1, j + 1], pair.scores[i + 1, j + 1] + sum(parts))
    np.testing.assert_allclose(total[0, 0], pair.scores[0, 0] + first.scores[0] + second.scores[0])
    figure = plot.slices(model, 2, levels=list(pair.axes[1].levels[:2]), total=True)
    drawn = lines_of(figure.axes[0])[0]
    np.testing.assert_array_equal(drawn.get_ydata(), total[1:-1, 1, 0])
    assert figure.axes[0].get_title() == "x0 & x1 and their main effects"


def test_slices_are_thin_where_no_row_is_near():
    weights = np.ones((4, 3))
    weights[2:, 0] = 0.0
    drawn = [line for line in lines_of(plot.slices(pair_model(weights=weights), 2).axes[0]) if line.get_linewidth() > 1]
    assert np.isnan(drawn[0].get_ydata()).tolist() == [False, False, True, True]
    assert not np.isnan(drawn[1].get_ydata()).any()


def test_wrong_slices_are_refused():
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


def test_importances_are_bars_strongest_on_top(regressor):
    axes = plot.importances(regressor).axes[0]
    explanation = explain_global(regressor)
    strongest = [explanation.terms[index] for index in explanation.order]
    assert [bar.get_width() for bar in axes.patches] == [term.importance for term in strongest]
    assert tick_texts(axes.yaxis) == [term.name for term in strongest]
    assert axes.yaxis_inverted()
    assert axes.get_xlabel() == "mean |contribution to score|"
    (errors,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    widths = [np.ptp(segment[:, 0]) / 2 for segment in errors.get_segments()]
    np.testing.assert_allclose(widths, [term.importance_spread for term in strongest])


def test_importances_without_known_spread_have_no_error_bars():
    axes = plot.importances(pair_model()).axes[0]
    assert not axes.collections
    assert len(axes.patches) == 3


def test_importances_say_what_is_hidden(regressor):
    axes = plot.importances(regressor, n=2).axes[0]
    assert len(axes.patches) == 2
    assert axes.get_xlabel().endswith("\n1 weaker term not shown")
    assert plot.importances(regressor, n=1).axes[0].get_xlabel().endswith("\n2 weaker terms not shown")


def test_waterfall_leads_from_the_intercept_to_the_score(regressor):
    frame, y = table()
    local = explain_local(regressor, frame.iloc[:5], y[:5])
    axes = plot.waterfall(local, 3).axes[0]
    row = local.row(3)
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(row.contributions[:, 0])
    assert axes.patches[0].get_x() == row.intercept[0]
    assert axes.patches[-1].get_x() + axes.patches[-1].get_width() == pytest.approx(row.prediction)
    labels = tick_texts(axes.yaxis)
    assert (labels[0], labels[-1]) == ("intercept", "score")
    assert [label.split(" = ")[0] for label in labels[1:-1]] == list(row.names)
    assert axes.figure.get_suptitle() == f"prediction {row.prediction:#.3g}, actual {y[3]:#.3g}"


def test_waterfall_of_a_row_and_a_model(classifier):
    row = {"age": 33.0, "income": None, "city": "Oslo"}
    axes = plot.waterfall(classifier, row).axes[0]
    assert {"age = 33", "income = missing", "city = Oslo", "age & income = 33, missing"} <= set(tick_texts(axes.yaxis))
    chance = classifier.predict_proba(pd.DataFrame([row]))[0, 1]
    assert axes.figure.get_suptitle().startswith(f"probability of yes {chance:.3f}, predicted ")
    assert axes.get_xlabel() == "log odds of yes"
    colours = {bar.get_width() > 0: bar.get_facecolor() for bar in axes.patches if bar.get_width()}
    assert colours.get(True, to_rgb(canvas.RAISES))[:3] == to_rgb(canvas.RAISES)
    assert colours.get(False, to_rgb(canvas.LOWERS))[:3] == to_rgb(canvas.LOWERS)


def test_waterfall_of_the_predicted_class_or_another(multiclass):
    local = explain_local(multiclass, table()[0].iloc[:2])
    row = local.row(1)
    axes = plot.waterfall(local, 1).axes[0]
    assert axes.get_xlabel() == f"score of {row.prediction}"
    other = (row.prediction + 1) % 3
    axes = plot.waterfall(local, 1, label=other).axes[0]
    total = sum(bar.get_width() for bar in axes.patches)
    assert total + row.intercept[other] == pytest.approx(row.scores[other])
    with pytest.raises(ValueError, match="label contains 7"):
        plot.waterfall(local, 1, label=7)


def test_waterfall_sums_up_small_terms():
    rng = np.random.default_rng(0)
    model = build_model(rng, orders=(1, 2))
    row = {f"x{d}": 1.0 if d % 2 == 0 else "level 1" for d in range(5)}
    axes = plot.waterfall(model, row, n=4).axes[0]
    assert tick_texts(axes.yaxis)[-2] == "11 others"
    found = np.sort(np.abs(model.contributions(row)[0, :, 0]))[::-1]
    np.testing.assert_allclose(np.abs([bar.get_width() for bar in axes.patches[:4]]), found[:4])
    assert axes.patches[-1].get_x() + axes.patches[-1].get_width() == pytest.approx(model.predict(row)[0])


def test_wrong_rows_are_refused(regressor):
    with pytest.raises(ValueError, match="a model has no row 0; pass the row itself"):
        plot.waterfall(regressor)
    with pytest.raises(ValueError, match="expected one row; got 2"):
        plot.waterfall(regressor, table()[0].iloc[:2])
    with pytest.raises(ValueError, match="no row 9"):
        plot.waterfall(explain_local(regressor, table()[0].iloc[:2]), 9)
    with pytest.raises(ValueError, match="three or more classes"):
        plot.waterfall(regressor, table()[0].iloc[:1], label=1)


def test_compared_curves_lie_over_each_other(regressor):
    other = fit(NeuralBasisRegressor, table()[1] * 2, interactions=0, random_state=1)
    figure = plot.compare({"one": regressor, "twice": other}, "age")
    drawn = lines_of(figure.axes[0])
    for line, model in zip(drawn, (regressor, other), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), view_of(model, "age").scores[1:-1, 0])
    assert legend_texts(figure) == ["one", "twice"]
    assert len([line for line in figure.axes[0].lines if line.get_marker() == "D"]) == 2
    bars = bars_of(plot.compare([regressor, other], "city").axes[0])
    expected = [view_of(model, "city").scores[1:-1, 0] for model in (regressor, other)]
    np.testing.assert_array_equal(bars, expected)


def test_compared_levels_are_found_by_name():
    axes = [level_axis("city", "nominal", levels) for levels in (["a", "b", "c"], ["c", "a"])]
    first = additive(axes[:1], [shape((0,), axes[:1], [1.0, 2.0, 3.0])])
    second = additive(axes[1:], [shape((0,), axes[1:], [30.0, 10.0])])
    np.testing.assert_array_equal(bars_of(plot.compare([first, second], 0).axes[0]), [[1, 2, 3], [10, 0, 30]])


def test_compared_pairs_stand_side_by_side():
    figure = plot.compare([pair_model(), pair_model(), pair_model()], "age & city")
    assert [axes.get_title() for axes in figure.axes[:3]] == ["model 1", "model 2", "model 3"]
    assert {axes.collections[0].get_clim() for axes in figure.axes[:3]} == {(-5.5, 5.5)}


def test_compared_classes(multiclass):
    figure = plot.compare([multiclass, multiclass], "age", label=2)
    np.testing.assert_array_equal(lines_of(figure.axes[0])[1].get_ydata(), view_of(multiclass, "age").scores[1:-1, 2])
    assert figure.axes[0].get_title() == "age\nfor 2"


def test_wrong_comparisons_are_refused(regressor):
    with pytest.raises(ValueError, match="2 to 10 models; got 1"):
        plot.compare([regressor], "age")
    with pytest.raises(TypeError, match="a list or a dict of models"):
        plot.compare(regressor, "age")
    axis = knots("city", [0, 1])
    numbers = additive([axis], [shape((0,), [axis], [1, 2])])
    with pytest.raises(ValueError, match="'city' has levels in one model and numbers in another"):
        plot.compare([regressor, numbers], "city")
    with pytest.raises(ValueError, match="no term 'age & city'"):
        plot.compare([pair_model(), regressor], "age & city")
    with pytest.raises(ValueError, match="got 'x & city & z'"):
        plot.compare([triple_model(), triple_model()], 3)


def test_stability_is_a_bar_a_column(regressor):
    found = measure_stability(regressor)
    axes = plot.stability(regressor).axes[0]
    assert [bar.get_width() for bar in axes.patches] == sorted(found.by_column.tolist(), reverse=True)
    assert axes.lines[0].get_xdata()[0] == found.overall
    assert "over 2 models" in axes.get_xlabel()
    few = plot.stability(found, n=1).axes[0]
    assert few.get_xlabel().endswith("2 weaker columns not shown")


NASTY = ["price in $ of a_{b$\n" + 9999 * "x", "😀 emoji", "\x00\ud800", "日本", "$$", "_hidden", " ", "%d {x} \\alpha"]


def nasty_model(link="identity", classes=None):
    """Continuous and nominal columns with such names, levels and classes, a pair and a triple."""
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    axes = [knots(NASTY[0], np.arange(5.0)), level_axis(NASTY[1], "nominal", NASTY), knots(NASTY[2], np.arange(5) / 2)]
    rng = np.random.default_rng(0)
    shapes = []
    for term in [(0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2)]:
        own = [axes[feature] for feature in term]
        found = shape(term, own, rng.normal(size=(*(len(axis.knots) for axis in own), n_outputs)))
        weights = found.weights.copy()
        weights[:-1] = 1.0
        shapes.append(replace(found, weights=weights))
    return additive(axes, shapes, link, classes)


KINDS = {
    "shapes": lambda m, **o: plot.shapes(m, **o),
    "shape": lambda m, **o: plot.shape(m, 5, **o),
    "grid": lambda m, **o: plot.grid(m, **o),
    "by_class": lambda m, **o: plot.by_class(m, 3, **o),
    "slices": lambda m, **o: plot.slices(m, 3, **o),
    "push": lambda m, **o: plot.push(m, 4, **o),
    "importances": lambda m, **o: plot.importances(m, **o),
    "waterfall": lambda m, **o: plot.waterfall(m, {NASTY[0]: 1.0, NASTY[1]: "new 日本 $", NASTY[2]: None}, **o),
    "compare": lambda m, **o: plot.compare({NASTY[0]: m, NASTY[1]: m}, 1, **o),
    "stability": lambda m, **o: plot.stability([m, m], **o),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nasty_names_are_drawn_without_a_word(kind, tmp_path):
    model = nasty_model("mlogit", np.array([NASTY[0][:50], NASTY[1], "$"]))
    KINDS[kind](model, path=tmp_path / "a.png")
    assert os.path.getsize(tmp_path / "a.png") > 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [2.5, 6.9])
def test_width_in_inches(kind, width):
    figure = KINDS[kind](nasty_model("mlogit", np.array(["one", "two", "three"])), width=width)
    figure.canvas.draw()
    assert figure.get_figwidth() == pytest.approx(width)


@given(st.text(max_size=200), st.integers(4, 60))
def test_texts_are_one_short_line_of_known_letters(text, max_length):
    found = canvas.plain(text, max_length)
    assert len(found.replace(r"\$", "$")) <= max_length
    assert found.count("$") == found.count(r"\$")
    assert {ord(letter) for letter in found} <= canvas._find_glyphs() | {ord("\\")}


def test_long_names_keep_their_ends():
    assert canvas.plain("total of outstanding debts in thousands", 20) == "total of outs…usands"
    assert canvas.plain("a\n b\t$", 20) == r"a b \$"


@given(st.text("$\\\\ab {}", max_size=60), st.sampled_from([0.5, 1.0, 1.5, 2.0]))
@example("$" * 40, 2.0)
def test_wrapped_names_are_no_formulas(name, inches):
    """The lines, joined, begin the name."""
    lines = canvas.wrap_name(name, inches)
    assert lines.count("$") == lines.count(r"\$")
    line, one = (text.replace("\n", "").replace(" ", "") for text in (lines, canvas.wrap_name(name, 100.0)))
    assert "…" in line or one.startswith(line)


def test_wrong_width_is_refused():
    with pytest.raises(ValueError, match="width must be 2 to 100 inches, not 1"):
        plot.shapes(ramp(), width=1)


@pytest.mark.parametrize("kind", ["push", "importances", "compare"])
def test_file_is_a_whole_picture(kind, tmp_path):
    from matplotlib.image import imread

    model = nasty_model("mlogit", np.array(["one", "two", "three"]))
    figure = KINDS[kind](model, path=tmp_path / "figure.png")
    height, width, _ = imread(tmp_path / "figure.png").shape
    np.testing.assert_allclose([width, height], figure.get_size_inches() * 200, atol=1)
    KINDS[kind](model, path=str(tmp_path / "figure.SVG"))
    assert ElementTree.parse(tmp_path / "figure.SVG").getroot().tag.endswith("svg")
    KINDS[kind](model, path=tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert sorted(os.listdir(tmp_path)) == ["figure.SVG", "figure.pdf", "figure.png"]


def test_explanations_are_drawn_as_their_models(multiclass):
    model, explanation = plot.shapes(multiclass), plot.shapes(explain_global(multiclass))
    assert [axes.get_title() for axes in model.axes] == [axes.get_title() for axes in explanation.axes]
    assert explanation.axes[0].get_ylim() == model.axes[0].get_ylim()


def test_terms_in_factors_are_drawn():
    rng = np.random.default_rng(0)
    model = tie_model(rng, build_model(rng, ("continuous", "nominal"), (1, 2), 3, "mlogit", ABC), [0, 1, 2])
    figure = plot.shapes(model, terms=[0, 2])
    drawn = np.transpose([line.get_ydata() for line in lines_of(figure.axes[0])])
    np.testing.assert_array_equal(drawn, model.shapes[0].scores[1:-1])


def test_a_notebook_shows_the_picture():
    assert plot.shapes(ramp())._repr_png_().startswith(b"\x89PNG")


def test_path_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        plot.shapes(ramp(), path=tmp_path / "absent" / "a.png")
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.svg, \.pdf; got '.*a\.gif'"):
        plot.shapes(ramp(), path=tmp_path / "a.gif")
    assert os.listdir(tmp_path) == []


def test_failed_writing_keeps_the_old_file_and_leaves_no_part(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def fail(self, file, **kwargs):
        file.write(b"half")
        raise OSError("disk full")

    target = tmp_path / "a.png"
    target.write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plot.shapes(ramp(), path=target)
    assert os.listdir(tmp_path) == ["a.png"]
    assert target.read_bytes() == b"old"


def test_the_style_of_the_user_stays():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot.grid(triple_model())
    assert dict(matplotlib.rcParams) == before


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="not NeuralBasisRegressor; call fit first"):
        plot.shapes(NeuralBasisRegressor())
    for draw in (plot.shapes, plot.importances, plot.grid):
        with pytest.raises(ValueError, match="n must be 1 or more; got 0"):
            draw(ramp(), n=0)


@pytest.mark.parametrize("draw", [plot.shapes, plot.importances])
def test_absent_matplotlib_is_named(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "neuralbasis.plot.figure", raising=False)
    with pytest.raises(ImportError, match=r'pip install "neuralbasis\[plot\]"'):
        draw(ramp())


PROBE = """
import sys
import numpy as np
from neuralbasis import plot
assert not {"matplotlib", "torch", "sklearn"} & set(sys.modules)
from neuralbasis.encoding.axis import continuous_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
plot.shapes(AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"), path=sys.argv[1])
assert not {"matplotlib.pyplot", "torch", "sklearn"} & set(sys.modules)
"""


def test_drawing_needs_neither_pyplot_nor_torch(tmp_path):
    run = subprocess.run([sys.executable, "-c", PROBE, tmp_path / "a.png"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
