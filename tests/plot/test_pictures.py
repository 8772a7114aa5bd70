"""Figures of one class and one picture: panels show the explanations, and heat maps cover the right part."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from neuralbasis import AdditiveModel, plot
from neuralbasis.encoding import Encoder, continuous_axis
from neuralbasis.explain import explain_class, explain_picture
from neuralbasis.model.shapes import Shape
from neuralbasis.plot.pictures import overlay_heat
from tests.models import build_model, draw_numbers, name_columns

NAMES = ["has_wing_pattern::striped", "has_beak_shape::needle", "has_leg_colour::orange", "has_" + 40 * "long_" + "end"]
GREY = np.full((28, 56, 3), 128, np.uint8)
LOWERS, RAISES = plot.COLOURS[:2]


def birds(n_classes=3, n_members=3, names=NAMES):
    """Curves of 20 knots that rise or fall, more steeply for later classes; most rows are at the low end."""
    rng = np.random.default_rng(0)
    axes = [continuous_axis(name, np.linspace(0, 1, 20), scaling="minmax") for name in names]
    shapes = []
    for i, axis in enumerate(axes):
        rise = np.exp(3 * axis.knots) * (-1) ** i * (i + 1) / 10
        weights = np.exp(-4 * axis.knots)
        curve = rise - np.average(rise, weights=weights)
        table = np.zeros((22, n_classes))
        table[1:-1] = curve[:, None] * np.linspace(0.5, 1, n_classes)
        members = table[:, None] + 0.1 * rng.normal(size=(22, n_members, 1))
        scores = members.mean(axis=1)
        weight = np.pad(weights, 1)
        shapes.append(Shape((i,), (axis,), scores, members.std(axis=1, ddof=1), weight, members))
    classes = np.array([f"{k:03d}.Bird" for k in range(n_classes)])
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(n_classes), tuple(shapes), "mlogit", classes)


def rows(n_rows=9, names=NAMES):
    values = np.random.default_rng(1).random((n_rows, len(names)))
    return {name: values[:, k] for k, name in enumerate(names)}


def signed(size):
    """Three significant digits with the sign."""
    return f"{size:+#.3g}".replace("-", "−")


def panels(figure):
    """Axes with a curve."""
    return [axes for axes in figure.axes if axes.lines]


def test_panels_are_the_shapes_of_the_class_strongest_first():
    model = birds()
    found = explain_class(model, "001.Bird", rows(), pictures=[GREY, GREY[:, :28]])
    figure = plot.class_shapes(found)
    terms = (*found.terms_for, *found.terms_against)
    assert [term.name for term in found.terms_for] == [NAMES[2], NAMES[0]]
    assert found.terms_against[0].name == NAMES[3]
    for axes, term in zip(panels(figure), terms, strict=True):
        curve = max((line for line in axes.lines), key=lambda line: line.get_linewidth())
        np.testing.assert_array_equal(curve.get_ydata(), term.scores[1:-1, 0])
        fans = [one for one in axes.collections if isinstance(one, LineCollection)]
        np.testing.assert_array_equal([path.vertices[:, 1] for path in fans[0].get_paths()], term.members[1:-1, :, 0].T)
    sizes = [one.size for one in (*found.raised_by, *found.lowered_by)]
    assert [axes.get_title().split("\n")[-1] for axes in panels(figure)] == [signed(size) for size in sizes]
    colours = [axes.title.get_color() for axes in panels(figure)]
    assert colours == [RAISES if size > 0 else LOWERS for size in sizes]


def test_ticks_are_the_rows_of_the_class():
    table = rows()
    figure = plot.class_shapes(birds(), "000.Bird", table, n=1)
    ticks = next(line for line in panels(figure)[0].lines if line.get_marker() == "|")
    np.testing.assert_allclose(sorted(ticks.get_xdata()), sorted(table[NAMES[2]]))
    assert "over the 9 rows of the class (ticks)" in " ".join(figure.get_supxlabel().split())
    bare = plot.class_shapes(birds(), "000.Bird", n=1)
    assert not [line for line in panels(bare)[0].lines if line.get_marker() == "|" and len(line.get_xdata())]
    assert "rows that the term makes more likely to be of the class" in " ".join(bare.get_supxlabel().split())


def test_pictures_are_on_top_with_one_height():
    figure = plot.class_shapes(birds(), "000.Bird", pictures=[GREY, GREY[:, :28], GREY[:14]])
    figure.canvas.draw()
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.images[0].get_array().shape[:2] for axes in shown] == [(28, 56), (28, 28), (14, 56)]
    tops = [axes.get_window_extent().y1 for axes in panels(figure)]
    assert min(axes.get_window_extent().y0 for axes in shown) > max(tops)
    assert figure.get_suptitle() == "000.Bird"


def test_the_shared_y_range_includes_every_member():
    model = birds()
    drawn = panels(plot.class_shapes(model, "002.Bird"))
    low, high = drawn[0].get_ylim()
    assert {axes.get_ylim() for axes in drawn} == {(low, high)}
    members = np.concatenate([shape.members[1:-1, :, 2].ravel() for shape in model.shapes])
    assert low < members.min() < members.max() < high


def test_two_hundred_classes_and_long_names():
    figure = plot.class_shapes(birds(200), "137.Bird", n=2, width=6.9)
    figure.canvas.draw()
    assert figure.get_figwidth() == pytest.approx(6.9)
    for axes in panels(figure):
        box = axes.title.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert len(axes.get_title().split("\n")) <= 3


@pytest.mark.parametrize("width", [3.3, 6.9])
def test_levels_pairs_and_triples_are_drawn(width, tmp_path):
    model = build_model(np.random.default_rng(0), n_outputs=3, link="mlogit", classes=np.array(["a", "b", "c"]))
    numbers = draw_numbers(np.random.default_rng(1), model.encoder.axes, 9)
    found = explain_class(model, "b", name_columns(model.encoder.axes, numbers), n_terms=8)
    assert {len(term.columns) for term in (*found.terms_for, *found.terms_against)} == {1, 2, 3}
    plot.class_shapes(found, path=tmp_path / "class.png", width=width)
    assert os.path.getsize(tmp_path / "class.png") > 10_000


def test_a_class_without_effects_is_an_error():
    model = birds()
    flat = [Shape(s.term, s.axes, 0 * s.scores, 0 * s.spread, s.weights) for s in model.shapes]
    without_effects = AdditiveModel(model.encoder, model.intercept, tuple(flat), model.link, model.classes)
    with pytest.raises(ValueError, match=r"no term raises or lowers the score of '000\.Bird'"):
        plot.class_shapes(without_effects, "000.Bird")


def find_opacity(strength, height, width):
    """(height, width): the share of black over a picture of one colour, relative to the largest share, 0.8."""
    drawn = overlay_heat(np.zeros((height, width, 3), np.uint8), strength, "black")[..., 0]
    return (1 - drawn / 0.25) / 0.8  # a picture of one colour is drawn with brightness 0.25


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_peak_covers_its_part_of_the_picture(data):
    h, w = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 14))
    height, width = h * data.draw(st.integers(1, 20)), w * data.draw(st.integers(1, 20))
    r, c = data.draw(st.integers(0, h - 1)), data.draw(st.integers(0, w - 1))
    grid = np.zeros((h, w))
    grid[r, c] = 1.0
    found = find_opacity(grid, height, width)
    assert found.shape == (height, width)
    y, x = np.unravel_index(found.argmax(), found.shape)
    assert (y * h // height, x * w // width) == (r, c)
    assert -1e-12 <= found.min() <= found.max() <= 1.0 + 1e-12
    middle = found[(2 * r + 1) * height // (2 * h), (2 * c + 1) * width // (2 * w)]
    assert middle >= 0.25


def test_upsampling_keeps_values_at_centres_and_is_linear_between():
    grid = np.array([[0.0, 1.0, 3.0], [2.0, 4.0, 8.0]])
    found = find_opacity(grid, 6, 9)  # odd parts have a pixel in their middle
    np.testing.assert_allclose(found[1::3, 1::3], grid, atol=1e-12)
    np.testing.assert_allclose(found[1, 1:5], [0, 1 / 3, 2 / 3, 1], atol=1e-12)
    np.testing.assert_allclose(found[0], found[1])  # outside the middles it is constant


def test_colour_follows_heat_and_dark_pictures_are_stretched():
    dark = np.zeros((20, 20, 3), np.uint8)
    dark[:10] = 12
    strength = np.array([[0.0, 1.0], [0.0, 0.0]])
    found = overlay_heat(dark, strength, RAISES)
    np.testing.assert_allclose(found[0, 0], 1.0)  # the brighter half is white, and not coloured here
    np.testing.assert_allclose(found[-1, 0], 0.25)
    np.testing.assert_allclose(found[0, -1], 1 - 0.8 * (1 - np.array(to_rgb(RAISES))))


def test_figure_of_a_picture():
    model, table = birds(), rows(1)
    heat = {name: np.zeros((2, 4)) for name in NAMES[:3]}
    heat[NAMES[0]][1, 2] = 1.0
    found = explain_picture(model, table, GREY, heat, actual="001.Bird")
    figure = plot.picture(found)
    figure.canvas.draw()
    photo, bars, *maps = figure.axes
    np.testing.assert_array_equal(photo.images[0].get_array(), GREY)
    seen = [term for term in found.terms if term.heat is not None]
    assert [axes.get_title().split("\n")[-1].split(" → ")[1] for axes in maps] == [
        signed(term.contribution) for term in seen
    ]
    for axes, term in zip(maps, seen, strict=True):
        drawn = axes.images[0].get_array()
        assert drawn.shape == GREY.shape
        is_coloured = np.ptp(drawn, axis=2) > 0.2
        assert is_coloured.any() == (term.name == NAMES[0])
        if term.name == NAMES[0]:
            assert not is_coloured[:7].any()
            assert is_coloured[21, 35]
            assert np.unravel_index(np.ptp(drawn, axis=2).argmax(), (28, 56)) == (21, 34)
    assert len(bars.get_yticklabels()) == len(NAMES) + 2
    assert "actual 001.Bird" in figure.get_suptitle()


def test_a_picture_without_heat_has_its_bars():
    figure = plot.picture(birds(), rows(1), GREY, n=2, label="002.Bird", width=3.3)
    figure.canvas.draw()
    assert len(figure.axes) == 2
    assert figure.axes[1].get_xlabel() == "score of 002.Bird"
    assert figure.get_figwidth() == pytest.approx(3.3)


@pytest.mark.parametrize("width", [2.5, 3.3, 7.2])
def test_titles_of_heat_maps_fit_into_the_figure(width, tmp_path):
    heat = {name: np.random.default_rng(0).random((7, 7)) for name in NAMES}
    figure = plot.picture(birds(200), rows(1), GREY, heat, width=width, path=tmp_path / "a.png")
    figure.canvas.draw()
    for axes in figure.axes[2:]:
        box = axes.title.get_window_extent()
        assert box.x0 >= -2
        assert box.x1 <= figure.bbox.width + 2
