"""All figures: any name can be drawn, a file is complete or absent, global state does not change."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neuralbasis import NeuralBasisRegressor, plot
from neuralbasis.encoding import level_axis
from neuralbasis.explain import explain_global
from neuralbasis.plot import canvas
from tests.models import build_model, tie_model
from tests.plot.figures import (
    ABC,
    additive,
    knots,
    lines_of,
    ramp,
    shape,
    triple_model,
)

NASTY = ["price in $ of a_{b$\n" + 9999 * "x", "😀 emoji", "\x00\ud800", "日本", "$$", "_hidden", " ", "%d {x} \\alpha"]


def nasty_model(link="identity", classes=None):
    """Continuous and nominal columns with these names, levels and classes, a pair and a triple."""
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
def test_any_name_is_drawn_without_a_warning(kind, tmp_path):
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
def test_text_is_one_short_line_of_known_characters(text, max_length):
    found = canvas.plain(text, max_length)
    assert len(found.replace(r"\$", "$")) <= max_length
    assert found.count("$") == found.count(r"\$")
    assert {ord(letter) for letter in found} <= canvas._find_glyphs() | {ord("\\")}


def test_long_names_keep_their_ends():
    assert canvas.plain("total of outstanding debts in thousands", 20) == "total of outs…usands"
    assert canvas.plain("a\n b\t$", 20) == r"a b \$"


@given(st.text("$\\\\ab {}", max_size=60), st.sampled_from([0.5, 1.0, 1.5, 2.0]))
@example("$" * 40, 2.0)
def test_wrapped_names_are_not_formulas(name, inches):
    """The joined lines are a prefix of the name."""
    lines = canvas.wrap_name(name, inches)
    assert lines.count("$") == lines.count(r"\$")
    line, one = (text.replace("\n", "").replace(" ", "") for text in (lines, canvas.wrap_name(name, 100.0)))
    assert "…" in line or one.startswith(line)


def test_a_wrong_width_is_an_error():
    with pytest.raises(ValueError, match="width must be 2 to 100 inches, not 1"):
        plot.shapes(ramp(), width=1)


@pytest.mark.parametrize("kind", ["push", "importances", "compare"])
def test_a_file_is_complete_in_each_format(kind, tmp_path):
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


def test_tied_terms_are_drawn():
    rng = np.random.default_rng(0)
    model = tie_model(rng, build_model(rng, ("continuous", "nominal"), (1, 2), 3, "mlogit", ABC), [0, 1, 2])
    figure = plot.shapes(model, terms=[0, 2])
    drawn = np.transpose([line.get_ydata() for line in lines_of(figure.axes[0])])
    np.testing.assert_array_equal(drawn, model.shapes[0].scores[1:-1])


def test_a_notebook_displays_the_figure():
    assert plot.shapes(ramp())._repr_png_().startswith(b"\x89PNG")


def test_a_path_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        plot.shapes(ramp(), path=tmp_path / "absent" / "a.png")
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.svg, \.pdf; got '.*a\.gif'"):
        plot.shapes(ramp(), path=tmp_path / "a.gif")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
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


def test_rc_parameters_of_the_user_do_not_change():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot.grid(triple_model())
    assert dict(matplotlib.rcParams) == before


def test_wrong_arguments_are_errors():
    with pytest.raises(TypeError, match="not NeuralBasisRegressor; call fit first"):
        plot.shapes(NeuralBasisRegressor())
    for draw in (plot.shapes, plot.importances, plot.grid):
        with pytest.raises(ValueError, match="n must be 1 or more; got 0"):
            draw(ramp(), n=0)


@pytest.mark.parametrize("draw", [plot.shapes, plot.importances])
def test_missing_matplotlib_is_an_error_that_names_the_extra(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "neuralbasis.plot.figure", raising=False)
    with pytest.raises(ImportError, match=r'pip install "neuralbasis\[plot\]"'):
        draw(ramp())


PROBE = """
import sys
import numpy as np
from neuralbasis import plot
assert not {"matplotlib", "torch", "sklearn"} & set(sys.modules)
from neuralbasis.encoding import continuous_axis
from neuralbasis.encoding import Encoder
from neuralbasis import AdditiveModel
from neuralbasis.model.shapes import Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
plot.shapes(AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"), path=sys.argv[1])
assert not {"matplotlib.pyplot", "torch", "sklearn"} & set(sys.modules)
"""


def test_drawing_needs_neither_pyplot_nor_torch(tmp_path):
    run = subprocess.run([sys.executable, "-c", PROBE, tmp_path / "a.png"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
