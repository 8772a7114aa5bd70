"""Accuracy on the page: measures beside the best constant, base rates, thresholds with costs, transformed targets."""

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import confusion_matrix, r2_score, root_mean_squared_error

from neuralbasis import NeuralBasisRegressor
from tests.report.pages import both_looks, make_model, needs_browser, read_page, rows_of, write_page


@pytest.fixture(scope="module")
def binary():
    """A model, rows, and classes that follow the predicted probabilities."""
    model = make_model("logit")
    _, table = rows_of(model, 400)
    probability = model.predict_proba(table)[:, 1]
    codes = (np.random.default_rng(0).random(400) < probability).astype(int)
    return model, table, codes, probability


def read_accuracy(folder, *arguments, **options):
    return read_page(write_page(folder, *arguments, **options))[1]["accuracy"]


def test_measures_beside_the_best_constant(binary, fitted, tmp_path):
    model, table, codes, _ = binary
    found = read_accuracy(tmp_path, model, table, model.classes[codes])
    rate = codes.mean()
    assert found["rates"] == pytest.approx([1 - rate, rate])
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert found["constants"] == pytest.approx({"accuracy": max(rate, 1 - rate), "log loss": entropy})
    regression, frame, y = fitted
    found = read_accuracy(tmp_path, regression, frame, y)
    assert found["constants"] == pytest.approx(
        {"RMSE": y.std(ddof=0), "mean absolute error": (y - y.median()).abs().mean()}
    )


def test_the_loss_of_held_out_rows_has_a_name_and_the_unit_of_the_target(fitted, tmp_path):
    model, _, y = fitted
    found = read_page(write_page(tmp_path, model))[1]["loss"]
    assert found["name"] == "RMSE"
    assert found["constant"] == pytest.approx(y.std(), rel=0.1)
    assert 0 < found["value"] < found["constant"]
    assert read_page(write_page(tmp_path, make_model("identity")))[1]["loss"] is None


def test_cells_of_each_threshold(binary, tmp_path):
    model, table, codes, probability = binary
    cells = read_accuracy(tmp_path, model, table, model.classes[codes])["cells"]
    assert (cells["thresholds"][0], cells["thresholds"][-1]) == (0, 1)
    assert (np.diff(cells["thresholds"]) > 0).all()
    for place in range(0, len(cells["thresholds"]), 7):
        is_above = probability > cells["thresholds"][place]
        assert [above[place] for above in cells["above"]] == [(is_above & (codes == code)).sum() for code in (0, 1)]
    half = cells["thresholds"].index(0.5)
    expected = confusion_matrix(model.classes[codes], model.predict(table))
    assert [above[half] for above in cells["above"]] == expected[:, 1].tolist()
    model = make_model("mlogit")
    _, table = rows_of(model, 20)
    assert read_accuracy(tmp_path, model, table, model.predict(table))["cells"] is None


CELLS = "#cells td data"


@needs_browser
@both_looks
def test_threshold_and_costs(look, binary, open_page, tmp_path):
    model, table, codes, probability = binary
    page = open_page(model, table, model.classes[codes], **look)
    thresholds = np.array(read_accuracy(tmp_path, model, table, model.classes[codes])["cells"]["thresholds"])

    def check(threshold, costs):
        is_above = probability > threshold
        hits, misses = (is_above & (codes == 1)).sum(), (~is_above & (codes == 1)).sum()
        alarms, rest = (is_above & (codes == 0)).sum(), (~is_above & (codes == 0)).sum()
        assert page.figures(CELLS) == [hits, misses, alarms, rest]
        sensitivity, specificity, value, cost = page.read("#rates dd:not(.soft)")
        for text, share in ((sensitivity, hits / (hits + misses)), (specificity, rest / (rest + alarms))):
            assert float(text.removesuffix(" %")) == pytest.approx(100 * share, abs=0.051)
        assert float(value.removesuffix(" %")) == pytest.approx(100 * hits / (hits + alarms), abs=0.051)
        assert float(cost) == pytest.approx((alarms * costs[0] + misses * costs[1]) / 400, rel=5e-3)

    check(0.5, (1, 1))
    page.set("#cost-positive", 2, "input")
    page.set("#cost-negative", 9, "input")
    check(0.5, (2, 9))
    page.set("#threshold", int(np.argmin(np.abs(thresholds - 0.3))), "input")
    assert page.read("#threshold-value") == ["30 %"]
    check(0.3, (2, 9))
    page.click("#best")
    costs = [
        (2 * ((probability > t) & (codes == 0)).sum() + 9 * ((probability <= t) & (codes == 1)).sum()) / 400
        for t in thresholds
    ]
    best = thresholds[int(page.run("document.getElementById('threshold').value"))]
    assert costs[int(np.flatnonzero(thresholds == best)[0])] == pytest.approx(min(costs))
    assert "For calibrated probabilities and these costs it is 18.18 %." in page.read("#best-note")[0]
    page.set("#cost-negative", -3, "input")
    assert page.run("document.getElementById('cost-negative').getAttribute('aria-invalid')") == "true"
    check(best, (2, 9))
    page.show("#costs")
    assert page.count("#costs .curve") == 1


@needs_browser
def test_measures_are_named_and_compared(binary, open_page):
    model, table, codes, _ = binary
    page = open_page(model, table, model.classes[codes])
    rate = 100 * codes.mean()
    assert f"Base rate: {rate:.1f}".removesuffix(".0") in page.read("#check-note")[0]
    assert page.read("#measures dt") == ["accuracy", "log loss", "AUROC"]
    accuracy, loss = page.read("#measures dd.soft")
    assert accuracy.endswith("for the most frequent class")
    assert "% lower than" in loss
    assert loss.endswith("for the base rate")
    shuffled = np.random.default_rng(1).permutation(codes)
    page = open_page(model, table, model.classes[shuffled])
    assert page.read("#measures dd.soft")[1].startswith("no better than")


@needs_browser
def test_the_overview_names_the_loss(fitted, open_page):
    model, frame, y = fitted
    page = open_page(model, frame, y)
    names = page.read("#facts dt")
    assert "RMSE on held-out rows" in names
    assert not any("loss" in name for name in names)


INVERSES = {"log": np.exp, "log1p": np.expm1, "log2": np.exp2, "log10": lambda z: 10**z, "sqrt": np.square}


@pytest.mark.parametrize("name", INVERSES)
def test_each_transformation_is_inverted(name, fitted, tmp_path):
    model, frame, y = fitted
    found = dict(read_accuracy(tmp_path, model, frame, INVERSES[name](y), transform=name)["measures"])
    assert found["R²"] == pytest.approx(r2_score(INVERSES[name](y), INVERSES[name](model.predict(frame))))


def test_accuracy_in_the_unit_of_the_target(fitted, tmp_path):
    model, frame, y = fitted
    dollars = np.exp(y)
    check = read_page(write_page(tmp_path, model, frame, dollars, transform="log"))[1]["accuracy"]
    predicted = np.exp(model.predict(frame))
    measures = dict(check["measures"])
    assert measures["R²"] == pytest.approx(r2_score(dollars, predicted))
    assert measures["RMSE"] == pytest.approx(root_mean_squared_error(dollars, predicted))


def test_a_transformed_target_regressor_is_read(fitted, tmp_path):
    _, frame, y = fitted
    whole = TransformedTargetRegressor(
        NeuralBasisRegressor(max_steps=5, outer_bags=1), func=np.log, inverse_func=np.exp
    )
    whole.fit(frame, np.exp(y))
    data = read_page(write_page(tmp_path, whole, frame, np.exp(y)))[1]
    assert data["transform"] == "log"
    assert dict(data["accuracy"]["measures"])["R²"] == pytest.approx(r2_score(np.exp(y), whole.predict(frame)))
    whole.set_params(func=np.cbrt, inverse_func=lambda scores: scores**3).fit(frame, y)
    with pytest.raises(ValueError, match="transform must be one of log, log1p, log2, log10, sqrt, got 'cbrt'"):
        write_page(tmp_path, whole)


def test_wrong_transformations_are_errors(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"transform must be one of log, .*, got 'ln'"):
        write_page(tmp_path, fitted[0], transform="ln")
    with pytest.raises(ValueError, match="transform is for regressions with one target"):
        write_page(tmp_path, make_model("logit"), transform="log")
