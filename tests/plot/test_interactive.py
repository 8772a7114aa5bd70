"""Interactive figures show the numbers, the colours and the words of the matplotlib figures."""

import subprocess
import sys

import numpy as np
import pytest

from neuralbasis import plot
from neuralbasis.explain import explain_global, explain_local
from tests.plot.figures import CITIES, evidence, knots, pair_model, ramp, shape, table, triple_model, view_of


def traces(figure, kind):
    return [trace for trace in figure.data if trace.type == kind]


def test_a_curve_with_its_bands(regressor):
    figure = regressor.explain_global().visualize("age")
    term = view_of(regressor, "age")
    line = next(trace for trace in figure.data if trace.name == "age")
    np.testing.assert_array_equal(line.x, term.axes[0].knots)
    np.testing.assert_array_equal(line.y, term.scores[1:-1, 0])
    names = [trace.name.replace("<br>", " ") for trace in figure.data]
    assert names[:3] == [
        "background: darker where there are more training rows",
        "95 % band for the whole curve",
        "95 % band for each value",
    ]
    band = figure.data[2]
    half = len(band.y) // 2
    np.testing.assert_allclose(band.y[:half], term.scores[1:-1, 0] - 1.959964 * term.spread[1:-1, 0], rtol=1e-5)
    (missing,) = [trace for trace in figure.data if trace.name == "missing: age"]
    assert missing.y == (term.scores[0, 0],)
    assert figure.layout.yaxis.title.text == "contribution to prediction"
    assert line.line.color in (plot.COLOURS[0], "#666666")


def test_levels_are_bars_sorted_by_effect(regressor):
    (bars,) = traces(regressor.model_.visualize("city"), "bar")
    term = view_of(regressor, "city")
    order = np.argsort(-term.scores[1:-1, 0])
    np.testing.assert_array_equal(bars.x, term.scores[[*(1 + order), 0], 0])
    assert [label.split(" (")[0] for label in bars.y] == [*(CITIES[index] for index in order), "missing"]


def test_importances_and_rows(classifier):
    explanation = explain_global(classifier)
    (bars,) = traces(explanation.visualize(), "bar")
    np.testing.assert_array_equal(bars.x, [term.importance for term in explanation.top(20)])
    assert (np.array(bars.error_x.arrayminus) <= bars.x).all()  # no importance is negative
    local = explain_local(classifier, table()[0].iloc[:3])
    (steps,) = traces(local.visualize(1), "waterfall")
    row = local.row(1)
    np.testing.assert_allclose(steps.x[1:-1], row.contributions[:, 0])
    assert steps.x[0] == row.intercept[0]
    assert steps.x[-1] == pytest.approx(row.scores[0])
    path = [0.0, *np.cumsum(steps.x[:-1])]
    low, high = local.visualize(1).layout.xaxis.range
    assert low < min(path) - 0.1 * np.ptp(path)  # room for the numbers beside the bars
    assert high > max(path) + 0.1 * np.ptp(path)
    assert (steps.increasing.marker.color, steps.decreasing.marker.color) == (plot.COLOURS[1], plot.COLOURS[0])
    with pytest.raises(ValueError, match=r"pass a key from 0 … 2"):
        local.visualize()


def test_a_pair_is_drawn_as_the_effect_of_both_columns():
    model = pair_model()
    figure = explain_global(model).visualize("age & city")
    lines = [trace for trace in figure.data if trace.name in CITIES]
    np.testing.assert_allclose([line.y for line in lines], model.shapes[2].scores[1:-1, 1:-1, 0].T + 0.19)
    assert figure.layout.legend.title.text == "city"


def test_classes_have_their_colours(multiclass):
    figure = multiclass.explain_global().visualize("age")
    lines = [trace for trace in figure.data if trace.name in ("0", "1", "2")]
    assert [line.line.color for line in lines] == list(plot.COLOURS[:3])


def test_names_are_not_read_as_html():
    axis = knots("<b>price</b> in $", [0.5, 1.5, 2.5])
    from tests.plot.figures import additive

    model = additive([axis], [shape((0,), [axis], [1.0, 0.0, 2.0], spread=0.1, evidence=evidence())])
    figure = explain_global(model).visualize(0)
    assert figure.layout.title.text.startswith("&lt;b&gt;price&lt;/b&gt; in $ (importance")


def test_what_cannot_be_drawn_is_an_error():
    with pytest.raises(ValueError, match=r"main effects and pairs; got 'x & city & z'\. Use plot\.shape"):
        explain_global(triple_model()).visualize(3)


def test_without_plotly_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r'visualize needs plotly: pip install "neuralbasis\[plotly\]"'):
        explain_global(ramp()).visualize(0)


def test_without_matplotlib_the_figure_is_drawn():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from neuralbasis import NeuralBasisRegressor\n"
        "table = {'size': [1.0, 2.0, 3.0, 4.0] * 9, 'colour': ['red', 'blue'] * 18}\n"
        "model = NeuralBasisRegressor(max_steps=5, outer_bags=2, interactions=0).fit(table, table['size'])\n"
        "print(len(model.visualize('size').data), len(model.explain_local(table).visualize(0).data))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[1] == "1"
