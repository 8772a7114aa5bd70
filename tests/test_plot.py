"""plot: what is drawn is the model's tables, and a file is whole or absent."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, plot
from neuralbasis.axis import continuous_axis, level_axis
from neuralbasis.encoder import Encoder
from neuralbasis.model import AdditiveModel, Shape

N_ROWS = 300
CITIES = ["Bern", "Lima", "Oslo"]


def shape(term, axes, scores, spread=0.0, weights=1.0):
    """A table given at the knots; the missing and the unseen cell are 0 and weigh nothing."""
    scores = np.asarray(scores, dtype=float)
    scores = scores[..., None] if scores.ndim == len(axes) else scores
    full = np.zeros((*(axis.n_cells for axis in axes), scores.shape[-1]))
    inner = (slice(1, -1),) * len(axes)
    full[inner] = scores
    weight = np.zeros(full.shape[:-1])
    weight[inner] = weights
    return Shape(term, tuple(axes), full, np.full_like(full, spread), weight)


def additive(axes, shapes, link="identity", classes=None):
    n_outputs = shapes[0].scores.shape[-1]
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(n_outputs), tuple(shapes), link, classes)


def knots(name, values):
    return continuous_axis(name, np.asarray(values, dtype=float), scaling="minmax")


def ramp(n_outputs=1, name="age", link="identity", classes=None, **kwargs):
    """A model of one continuous column with 50 knots."""
    axis = knots(name, np.arange(50))
    scores = np.linspace(-1, 1, 50)[:, None] * np.arange(1, n_outputs + 1)
    return additive([axis], [shape((0,), [axis], scores, **kwargs)], link, classes)


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
    return fit(NeuralBasisClassifier, np.where(table()[1] > 2.5, "yes", "no"), interactions=0)


@pytest.fixture(scope="module")
def multiclass():
    return fit(NeuralBasisClassifier, np.digitize(table()[1], [2, 3]), interactions=[("age", "city")])


def panel(figure, name):
    return next(axes for axes in figure.axes if axes.get_title().startswith(f"{name} ("))


def curves(axes):
    """The lines through knots: neither the zero line nor the missing value's."""
    return [line for line in axes.lines if len(line.get_xdata()) > 2]


def bars(axes):
    """Heights of the bars of levels, one array a class; the first container is the density."""
    containers = [c for c in axes.containers if type(c).__name__ == "BarContainer"]
    return [np.array([bar.get_height() for bar in container]) for container in containers[1:]]


def density(axes):
    return axes.containers[0].patches


def shape_of(estimator, name):
    return estimator.model_.shapes[estimator.term_names_.index(name)]


def tick_texts(line):
    return [text.get_text() for text in line.get_ticklabels()]


@pytest.mark.parametrize("estimator", ["regressor", "classifier", "multiclass"])
def test_lines_are_the_tables(estimator, request):
    estimator = request.getfixturevalue(estimator)
    figure = plot.shapes(estimator)
    for name in ("age", "income"):
        drawn, expected = curves(panel(figure, name)), shape_of(estimator, name)
        assert len(drawn) == expected.scores.shape[-1]
        for output, line in enumerate(drawn):
            np.testing.assert_array_equal(line.get_xdata(), expected.axes[0].knots)
            np.testing.assert_array_equal(line.get_ydata(), expected.scores[1:-1, output])


@pytest.mark.parametrize("estimator", ["regressor", "classifier", "multiclass"])
def test_bars_of_levels_are_the_table(estimator, request):
    estimator = request.getfixturevalue(estimator)
    axes = panel(plot.shapes(estimator), "city")
    np.testing.assert_array_equal(bars(axes), shape_of(estimator, "city").scores[1:-1].T)
    assert tick_texts(axes.xaxis) == CITIES


def test_band_is_one_standard_deviation(regressor):
    axes, expected = panel(plot.shapes(regressor), "age"), shape_of(regressor, "age")
    low, high = (expected.scores + sign * expected.spread for sign in (-1, 1))
    corners = axes.collections[0].get_paths()[0].vertices
    assert expected.spread.max() > 0
    assert corners[:, 1].min() == low[1:-1].min()
    assert corners[:, 1].max() == high[1:-1].max()


def test_missing_value_has_its_marker_left_of_the_range(regressor):
    for name in ("age", "city"):
        axes, expected = panel(plot.shapes(regressor), name), shape_of(regressor, name)
        (marker,) = [line for line in axes.lines if line.get_marker() == "D"]
        assert marker.get_ydata() == expected.scores[0, 0]
        assert axes.get_xlim()[0] < marker.get_xdata()[0] < expected.axes[0].knots[0]
        share = 100 * expected.weights[0] / expected.weights.sum()
        assert [text.get_text() for text in axes.texts] == [f"missing {share:.3g}%"]


def test_y_scale_holds_the_missing_value():
    model = ramp()
    model.shapes[0].scores[0], model.shapes[0].weights[0] = 7.0, 1.0
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


def test_panels_share_the_y_scale_which_holds_every_band(regressor):
    figure = plot.shapes(regressor)
    limits = {axes.get_ylim() for axes in figure.axes}
    assert len(limits) == 1
    low, high = limits.pop()
    for name in ("age", "city"):
        expected = shape_of(regressor, name)
        cells = expected.weights > 0
        assert (expected.scores - expected.spread)[cells].min() > low
        assert (expected.scores + expected.spread)[cells].max() < high
    assert [axes.get_ylabel() for axes in figure.axes] == ["contribution to score", "", ""]


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
    np.testing.assert_allclose(axes.get_xlim(), (-0.03 * 49, 49 + 0.03 * 49))
    assert axes.get_xlabel() == ""


def test_density_is_the_weight():
    weights = np.r_[np.full(25, 1.0), np.full(25, 3.0)]
    heights = np.array([bar.get_height() for bar in density(plot.shapes(ramp(weights=weights)).axes[0])])
    assert heights.max() == plot.DENSITY_HEIGHT
    assert heights[30] / heights[5] == pytest.approx(3)
    axis = knots("count", [0, 1, 5])
    few = density(plot.shapes(additive([axis], [shape((0,), [axis], [0, 1, 2], weights=[4, 2, 1])])).axes[0])
    assert [bar.get_x() + bar.get_width() / 2 for bar in few] == pytest.approx([0, 1, 5])
    assert [bar.get_height() / plot.DENSITY_HEIGHT for bar in few] == [1, 0.5, 0.25]


def test_two_values_are_the_ticks():
    axis = knots("flag", [0, 1])
    assert plot.shapes(additive([axis], [shape((0,), [axis], [-1, 1])])).axes[0].get_xticks().tolist() == [0, 1]


def test_many_levels_keep_the_most_frequent_in_order():
    axis = level_axis("city", "nominal", [f"level {index}" for index in range(20)])
    scores, weights = np.arange(20.0) - 9.5, np.r_[1.0, np.arange(19.0, 0, -1)]
    axes = plot.shapes(additive([axis], [shape((0,), [axis], scores, weights=weights)])).axes[0]
    assert tick_texts(axes.xaxis) == [*(f"level {index}" for index in range(1, 13)), "… 8 more"]
    np.testing.assert_array_equal(bars(axes), [scores[1:13]])


def test_legend_names_the_classes(multiclass):
    (legend,) = plot.shapes(multiclass).legends
    assert [text.get_text() for text in legend.get_texts()] == ["0", "1", "2"]
    assert legend.get_title().get_text() == "class"


def test_at_most_ten_classes_that_can_be_told_apart():
    figure = plot.shapes(ramp(12, link="mlogit", classes=np.arange(12)))
    lines = curves(figure.axes[0])
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(lines) == 10
    assert figure.legends[0].get_title().get_text() == "class (10 of 12)"


def test_chosen_classes():
    model = ramp(12, link="mlogit", classes=np.array([f"c{index}" for index in range(12)]))
    for labels in (["c11"], ["c11", "c0"]):
        figure = plot.shapes(model, classes=labels)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == labels
        np.testing.assert_array_equal(curves(figure.axes[0])[0].get_ydata(), model.shapes[0].scores[1:-1, 11])


def test_wrong_classes_are_refused():
    model = ramp(12, link="mlogit", classes=np.arange(12))
    with pytest.raises(ValueError, match=r"holds 'x'; the model's classes are \[0, 1"):
        plot.shapes(model, classes=["x"])
    with pytest.raises(ValueError, match="1 to 10 classes, not 11"):
        plot.shapes(model, classes=list(range(11)))
    with pytest.raises(ValueError, match="three classes or more"):
        plot.shapes(ramp(), classes=[1])


def pair_model(n_outputs=1, **kwargs):
    """Two weak main effects and a strong pair of a continuous and a nominal column."""
    axes = [knots("age", [0, 1, 2, 4]), level_axis("city", "nominal", CITIES)]
    scores = (np.arange(12.0).reshape(4, 3, 1) - 5.5) * np.arange(1, n_outputs + 1)
    weak = [0.1, 0.09]  # age before city
    mains = [shape((d,), [axis], np.full((len(axis.knots), n_outputs), weak[d])) for d, axis in enumerate(axes)]
    return additive(axes, [*mains, shape((0, 1), axes, scores)], **kwargs)


def test_pair_is_a_heat_map_centred_at_zero():
    model = pair_model()
    figure = plot.shapes(model, n=1)
    axes, bar = figure.axes
    (mesh,) = axes.collections
    np.testing.assert_array_equal(mesh.get_array(), model.shapes[2].scores[1:-1, 1:-1, 0].T)
    np.testing.assert_array_equal(mesh.get_coordinates()[0, :, 0], [-0.5, 0.5, 1.5, 3, 5])
    assert mesh.get_clim() == (-5.5, 5.5)
    assert axes.get_title() == "age & city (importance 3.00)"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "city")
    assert tick_texts(axes.yaxis) == CITIES
    assert bar.get_ylabel() == "contribution to score (pairs)"


def test_pairs_do_not_join_the_y_scale_of_curves():
    figure = plot.shapes(pair_model())
    assert len(figure.axes) == 4
    assert panel(figure, "age").get_ylim() == panel(figure, "city").get_ylim()
    assert panel(figure, "age").get_ylim()[1] < 0.2
    assert panel(figure, "city").get_ylabel() == ""


def test_pair_of_many_classes_shows_the_strongest():
    model = pair_model(3, link="mlogit", classes=np.array(["a", "b", "c"]))
    axes = plot.shapes(model, n=1).axes[0]
    assert axes.get_title().splitlines()[1] == "score of c"
    np.testing.assert_array_equal(axes.collections[0].get_array(), model.shapes[2].scores[1:-1, 1:-1, 2].T)
    assert plot.shapes(model, n=1, classes=["b", "a"]).axes[0].get_title().endswith("score of b")


def test_fitted_pair_is_drawn(multiclass):
    titles = [axes.get_title() for axes in plot.shapes(multiclass).axes]
    assert sum(title.startswith("age & city (") for title in titles) == 1


def test_triples_are_passed_over():
    axes = [knots(name, [0, 1]) for name in "abc"]
    triple = shape((0, 1, 2), axes, np.full((2, 2, 2), 9.0))
    model = additive(axes, [*(shape((d,), [axis], [-1, 1]) for d, axis in enumerate(axes)), triple])
    assert len(plot.shapes(model, n=4).axes) == 3
    assert tick_texts(plot.importances(model).axes[0].yaxis)[0] == "a & b & c"


def test_importances_are_bars_strongest_on_top(regressor):
    axes = plot.importances(regressor).axes[0]
    strengths = regressor.term_importances()
    order = np.argsort(-strengths)
    assert [bar.get_width() for bar in axes.patches] == strengths[order].tolist()
    assert tick_texts(axes.yaxis) == [regressor.term_names_[index] for index in order]
    assert axes.yaxis_inverted()
    assert axes.get_xlabel() == "mean |contribution to score|"


def test_importances_say_what_is_hidden(regressor):
    axes = plot.importances(regressor, n=2).axes[0]
    assert len(axes.patches) == 2
    assert axes.get_xlabel().endswith("\n1 weaker term not shown")
    assert plot.importances(regressor, n=1).axes[0].get_xlabel().endswith("\n2 weaker terms not shown")


def test_names_are_text_not_formulas_and_stay_short(tmp_path):
    name = "price in $ of a_{b$\n" + 40 * "long "
    figure = plot.shapes(
        ramp(3, name=name, link="mlogit", classes=np.array(["$x", "_y", "z" * 99])), path=tmp_path / "a.png"
    )
    title = figure.axes[0].get_title()
    assert title.startswith(r"price in \$ of a_{b\$ long")
    assert max(map(len, title.splitlines())) <= 50
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [r"\$x", "_y", "z" * 19 + "…"]


@pytest.mark.parametrize("draw", [plot.shapes, plot.importances])
def test_file_is_a_whole_picture(draw, regressor, tmp_path):
    figure = draw(regressor, path=tmp_path / "figure.png")
    from matplotlib.image import imread

    width, height = figure.get_size_inches() * 200
    assert imread(tmp_path / "figure.png").shape == (int(height), int(width), 4)
    draw(regressor, path=str(tmp_path / "figure.SVG"))
    assert ElementTree.parse(tmp_path / "figure.SVG").getroot().tag.endswith("svg")
    assert sorted(os.listdir(tmp_path)) == ["figure.SVG", "figure.png"]


def test_path_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        plot.shapes(ramp(), path=tmp_path / "absent" / "a.png")
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.svg, \.pdf; it is '.*a\.gif'"):
        plot.shapes(ramp(), path=tmp_path / "a.gif")
    assert os.listdir(tmp_path) == []


def test_failed_writing_keeps_the_old_file_and_leaves_no_part(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def fail(self, name, **kwargs):
        name.write_bytes(b"half")
        raise OSError("disk full")

    target = tmp_path / "a.png"
    target.write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plot.shapes(ramp(), path=target)
    assert os.listdir(tmp_path) == ["a.png"]
    assert target.read_bytes() == b"old"


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="not NeuralBasisRegressor; call fit first"):
        plot.shapes(NeuralBasisRegressor())
    for draw in (plot.shapes, plot.importances):
        with pytest.raises(ValueError, match="n must be 1 or more, not 0"):
            draw(ramp(), n=0)


@pytest.mark.parametrize("draw", [plot.shapes, plot.importances])
def test_absent_matplotlib_is_named(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "neuralbasis\[plot\]"'):
        draw(ramp())


PROBE = """
import sys
import numpy as np
from neuralbasis import plot
assert not {"matplotlib", "torch", "sklearn"} & set(sys.modules)
from neuralbasis.axis import continuous_axis
from neuralbasis.encoder import Encoder
from neuralbasis.model import AdditiveModel, Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
plot.shapes(AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"), path=sys.argv[1])
assert not {"matplotlib.pyplot", "torch", "sklearn"} & set(sys.modules)
"""


def test_drawing_needs_neither_pyplot_nor_torch(tmp_path):
    run = subprocess.run([sys.executable, "-c", PROBE, tmp_path / "a.png"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
