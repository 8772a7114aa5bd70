"""Bar charts and comparisons of models show the numbers of the explanations."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from neuralbasis import NeuralBasisRegressor, plot
from neuralbasis.encoding import level_axis
from neuralbasis.explain import explain_global, explain_local
from neuralbasis.explain import stability as measure_stability
from tests.models import build_model
from tests.plot.figures import (
    additive,
    bars_of,
    drop_evidence,
    fit,
    knots,
    legend_texts,
    lines_of,
    pair_legend,
    pair_model,
    shape,
    table,
    tick_texts,
    triple_model,
    view_of,
)


def test_importances_are_bars_strongest_on_top(regressor):
    axes = plot.importances(regressor).axes[0]
    explanation = explain_global(regressor)
    strongest = [explanation.terms[index] for index in explanation.order]
    is_clear = [term.evidence.p_values[0] <= 0.05 or term.evidence.concurvity >= 0.5 for term in strongest]
    names = [
        term.name + ("" if clear else ", no clear effect") for term, clear in zip(strongest, is_clear, strict=True)
    ]
    assert [bar.get_width() for bar in axes.patches] == [term.importance for term in strongest]
    assert [bar.get_facecolor()[:3] == to_rgb(plot.COLOURS[0]) for bar in axes.patches] == is_clear
    assert tick_texts(axes.yaxis) == names
    assert axes.yaxis_inverted()
    assert axes.get_xlabel() == "mean |contribution to prediction|\nerror bars: 95 % intervals"
    upper, lower = np.array([term.importance for term in strongest]) + 1.959964 * np.outer(
        [1, -1], [term.evidence.importance_errors[0] for term in strongest]
    )
    np.testing.assert_allclose(error_bars_of(axes), np.transpose([np.maximum(lower, 0), upper]), atol=1e-6)


def error_bars_of(axes):
    """Lower and upper end of each error bar."""
    (errors,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    return [segment[:, 0] for segment in errors.get_segments()]


def test_importances_without_evidence_have_the_deviation_over_the_members(regressor):
    model = drop_evidence(regressor)
    axes, explanation = plot.importances(model).axes[0], explain_global(model)
    spreads = [explanation.terms[index].importance_spread for index in explanation.order]
    np.testing.assert_allclose([high - low for low, high in error_bars_of(axes)], np.multiply(2, spreads))
    assert axes.get_xlabel().endswith("error bars: ± 1 standard deviation over the members")


def test_importances_without_known_spread_have_no_error_bars():
    axes = plot.importances(pair_model()).axes[0]
    assert not axes.collections
    assert len(axes.patches) == 3


def test_importances_count_the_hidden_terms(regressor):
    axes = plot.importances(regressor, n=2).axes[0]
    assert len(axes.patches) == 2
    assert axes.get_xlabel().endswith("\n1 weaker term not shown")
    assert plot.importances(regressor, n=1).axes[0].get_xlabel().endswith("\n2 weaker terms not shown")


def test_waterfall_runs_from_the_intercept_to_the_score(regressor):
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
    assert (
        axes.figure.get_suptitle() == f"prediction {row.prediction:.2f}, actual {y[3]:.2f}"
    )  # the digits of the steps


def test_numbers_of_a_waterfall_have_the_digits_of_its_steps():
    axis = knots("size", [0.0, 1.0])
    model = additive([axis], [shape((0,), [axis], [0.0, 0.2])], intercept=12.0)
    axes = plot.waterfall(model, {"size": 1.0}).axes[0]
    assert [text.get_text() for text in axes.texts] == ["12.000", "+0.200", "12.200"]
    assert axes.figure.get_suptitle() == "prediction 12.200"


def test_two_classes_have_one_panel_of_leanings(classifier):
    axes = plot.leanings(classifier).axes
    assert [each.get_title() for each in axes] == ["yes"]
    found = explain_global(classifier).by_class(8)["yes"]
    assert [bar.get_width() for bar in axes[0].patches] == [
        bar.size for bar in (*found.raised_by, *found.lowered_by[::-1])
    ]
    assert axes[0].figure.get_supxlabel() == "raises the score of the class (right) or lowers it (left)"
    assert [each.get_title() for each in plot.leanings(classifier, classes=["no"]).axes] == ["no"]


def test_waterfall_of_a_row_and_a_model(classifier):
    row = {"age": 33.0, "income": None, "city": "Oslo"}
    axes = plot.waterfall(classifier, row).axes[0]
    assert {"age = 33", "income = missing", "city = Oslo", "age & income = 33, missing"} <= set(tick_texts(axes.yaxis))
    chance = classifier.predict_proba(pd.DataFrame([row]))[0, 1]
    assert axes.figure.get_suptitle().startswith(f"probability of yes {chance:.3f}, predicted ")
    assert axes.get_xlabel() == "log odds of yes"
    colours = {bar.get_width() > 0: bar.get_facecolor() for bar in axes.patches if bar.get_width()}
    lowers, raises = (to_rgb(colour) for colour in plot.COLOURS[:2])
    assert colours.get(True, raises)[:3] == raises
    assert colours.get(False, lowers)[:3] == lowers


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


def test_wrong_rows_are_errors(regressor):
    with pytest.raises(ValueError, match="a model has no row 0; pass the row itself"):
        plot.waterfall(regressor)
    with pytest.raises(ValueError, match="expected one row; got 2"):
        plot.waterfall(regressor, table()[0].iloc[:2])
    with pytest.raises(ValueError, match="no row 9"):
        plot.waterfall(explain_local(regressor, table()[0].iloc[:2]), 9)
    with pytest.raises(ValueError, match="three or more classes"):
        plot.waterfall(regressor, table()[0].iloc[:1], label=1)


def test_compared_curves_share_a_panel(regressor):
    other = fit(NeuralBasisRegressor, table()[1] * 2, interactions=0, random_state=1)
    figure = plot.compare({"one": regressor, "twice": other}, "age")
    drawn = lines_of(figure.axes[0])
    for line, model in zip(drawn, (regressor, other), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), view_of(model, "age").scores[1:-1, 0])
    assert legend_texts(figure) == ["one", "twice"]
    assert len([line for line in figure.axes[0].lines if line.get_marker() == "D"]) == 2
    bars = bars_of(plot.compare([regressor, other], "city").axes[0])
    order = [*(1 + np.argsort(-view_of(regressor, "city").weights[1:-1], kind="stable")), 0]  # by rows, then missing
    expected = [view_of(model, "city").scores[order, 0] for model in (regressor, other)]
    np.testing.assert_array_equal(bars, expected)


def test_compared_levels_are_found_by_name():
    axes = [level_axis("city", "nominal", levels) for levels in (["a", "b", "c"], ["c", "a"])]
    first = additive(axes[:1], [shape((0,), axes[:1], [1.0, 2.0, 3.0])])
    second = additive(axes[1:], [shape((0,), axes[1:], [30.0, 10.0])])
    np.testing.assert_array_equal(bars_of(plot.compare([first, second], 0).axes[0]), [[1, 2, 3], [10, 0, 30]])


def test_compared_pairs_are_side_by_side():
    figure = plot.compare([pair_model(), pair_model()], "age & city")
    assert [axes.get_title() for axes in figure.axes] == ["model 1", "model 2"]
    assert [pair_legend(axes) for axes in figure.axes] == [("city", ["Bern", "Lima", "Oslo"])] * 2
    figure = plot.compare([pair_model()] * 3, "age & city", pairs="map", names=["old", "new", "newest"])
    assert [axes.get_title() for axes in figure.axes[:3]] == ["old", "new", "newest"]
    assert {axes.collections[0].get_clim() for axes in figure.axes[:3]} == {(-5.5, 5.5)}


def test_compared_classes(multiclass):
    figure = plot.compare([multiclass, multiclass], "age", label=2)
    np.testing.assert_array_equal(lines_of(figure.axes[0])[1].get_ydata(), view_of(multiclass, "age").scores[1:-1, 2])
    assert figure.axes[0].get_title() == "age\nfor 2"


def test_wrong_comparisons_are_errors(regressor):
    with pytest.raises(ValueError, match="2 to 10 models; got 1"):
        plot.compare([regressor], "age")
    with pytest.raises(ValueError, match="names must be 2 different names, one for each model; got 'ab'"):
        plot.compare([regressor, regressor], "age", names="ab")
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


def test_stability_is_a_bar_per_column(regressor):
    found = measure_stability(regressor)
    axes = plot.stability(regressor).axes[0]
    assert [bar.get_width() for bar in axes.patches] == sorted(found.by_column.tolist(), reverse=True)
    assert axes.lines[0].get_xdata()[0] == found.overall
    assert "over 2 models" in axes.get_xlabel()
    few = plot.stability(found, n=1).axes[0]
    assert few.get_xlabel().endswith("2 weaker columns not shown")
