"""evidence: the stored evidence of every term in order of importance, and why a model has none."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import neuralbasis
from neuralbasis import NeuralBasisRegressor, explain, merge, update
from tests.explain.models import make_model
from tests.sparse_tables import build_models, draw_table

QUICK = {"max_steps": 50, "outer_bags": 2, "interactions": 0}


def add_evidence(model, **entries):
    """The model with evidence of its term t: p-values (t + 1) / 100, … and partners x1."""
    shapes = []
    for t, shape in enumerate(model.shapes):
        classes = np.arange(model.n_outputs)
        given = {
            "p_values": (t + 1 + classes) / 100,
            "multipliers": 2.0 + t + classes,
            "importance_errors": 0.1 + t + classes,
            "concurvity": t / 100,
            "partner": (1,) if t else None,
            "partner_concurvity": t / 200,
        }
        shapes.append(replace(shape, evidence=explain.Evidence(**given | entries)))
    return replace(model, shapes=tuple(shapes))


@pytest.fixture(scope="module")
def copies():
    """Columns "size" and "copy", which nearly agree, beside "noise"; the target follows the size."""
    rng = np.random.default_rng(0)
    size, noise, other = rng.random((3, 400))
    copy = size + rng.normal(0, 0.07, 400)
    return {"other": other, "size": size, "noise": noise, "copy": copy}, size + rng.normal(0, 0.1, 400)


@pytest.mark.parametrize("link", ["identity", "logit", "mlogit"])
def test_lines_are_the_stored_evidence_by_importance(link):
    model = add_evidence(make_model(link=link, orders=(1, 2)))
    found, order = explain.evidence(model), np.argsort(-model.importances(), kind="stable")
    assert [line.term for line in found.lines] == [model.term_names[t] for t in order]
    assert [line.importance for line in found.lines] == model.importances()[order].tolist()
    n_outputs = model.n_outputs
    for line, t in zip(found.lines, order, strict=True):
        assert line.importance_error == pytest.approx(0.1 + t + (n_outputs - 1) / 2)
        assert line.p_value == pytest.approx(n_outputs * (t + 1) / 100)
        assert (line.concurvity, line.partner_concurvity) == (t / 100, t / 200)
        assert line.partner == ("x1" if t else None)
    with pytest.raises(FrozenInstanceError):
        found.lines[0].p_value = 0.0


def test_a_p_value_is_at_most_one():
    model = add_evidence(make_model(link="mlogit", orders=(1,)), p_values=np.array([0.9, 0.4, 0.5]))
    assert [line.p_value for line in explain.evidence(model).lines] == [1.0] * 5


def test_data_and_frame():
    model = add_evidence(make_model(link="mlogit", orders=(1, 2)))
    found = explain.evidence(model)
    columns = found.data()
    assert columns["term"] == [line.term for line in found.lines]
    assert columns["p_value"] == [line.p_value for line in found.lines]
    frame = found.to_pandas()
    assert list(frame.columns) == list(columns)
    assert frame["importance_error"].tolist() == columns["importance_error"]
    data = found.data("x3")
    assert data["term"] == "x3"
    assert data["p_values"] == [0.04, 0.05, 0.06]
    assert data["multipliers"] == [5.0, 6.0, 7.0]
    np.testing.assert_allclose(data["importance_errors"], [3.1, 4.1, 5.1])
    assert data["meta"] == {"label_names": ["a", "b", "c"]}
    assert found.data(("x3",)) == found.data(3) == data
    with pytest.raises(ValueError, match="no term 'x9'"):
        found.data("x9")


def test_the_table_is_aligned():
    model = add_evidence(make_model(orders=(1,)), p_values=np.array([0.0004]))
    found = explain.evidence(model)
    *lines, legend = str(found).splitlines()
    assert lines[0].split() == ["term", "importance", "±", "p-value", "concurvity", "partner"]
    assert [line.split()[0] for line in lines[1:]] == [line.term for line in found.lines]
    assert all(line[lines[0].index("p-value") :].startswith(" <0.001 ") for line in lines[1:])
    by_term = {line.split()[0]: line.split() for line in lines[1:]}
    assert by_term["x0"][-1] == "0.00"  # no partner
    assert by_term["x4"][2:] == ["4.100", "<0.001", "0.04", "x1", "(0.02)"]
    assert legend.startswith("± standard error; p-value of no effect; concurvity: ")
    assert repr(found) == "ModelEvidence(5 terms)"


def test_only_the_most_important_terms_are_printed():
    model = add_evidence(make_model(orders=(1, 2, 3)))
    lines = str(explain.evidence(model)).splitlines()
    assert len(lines) == 1 + 20 + 1 + 1
    assert lines[-2] == "… and 5 more"


def test_a_fit_finds_the_effect_and_the_copy(copies, tmp_path):
    fitted = NeuralBasisRegressor(**QUICK).fit(*copies)
    lines = {line.term: line for line in fitted.evidence().lines}
    assert lines["size"].p_value < 1e-6 < 0.01 < lines["other"].p_value
    assert (lines["size"].partner, lines["copy"].partner) == ("copy", "size")
    assert lines["size"].concurvity > 0.8 > 0.2 > lines["other"].concurvity
    fitted.save(tmp_path / "model.nbm")
    assert explain.evidence(neuralbasis.load(tmp_path / "model.nbm")).data() == fitted.evidence().data()
    assert explain.evidence(fitted.evidence()).lines == fitted.evidence().lines


def test_partners_are_named_if_columns_were_selected(copies):
    """The model of the selected columns numbers them anew."""
    X, y = copies
    X = X | {"copy": X["size"] + 0.1 * X["noise"]}
    fitted = NeuralBasisRegressor(**QUICK, max_terms=2).fit(X, y)
    assert fitted.term_names_ == ["size", "copy"]
    assert [(line.term, line.partner) for line in fitted.evidence().lines] in (
        [("size", "copy"), ("copy", "size")],
        [("copy", "size"), ("size", "copy")],
    )


def test_a_model_of_few_of_its_columns_keeps_its_partners():
    model = add_evidence(make_model(orders=(1,)))
    few = replace(model, shapes=(model.shapes[4],))  # its partner has no term any more
    assert explain.evidence(few).lines[0].partner == "x1"


def test_models_without_evidence_say_why(copies):
    table, y = copies
    fitted = NeuralBasisRegressor(**QUICK).fit(table, y)
    models = {
        "merged, .* fit one model to all rows": merge([fitted, fitted]),
        "updated, .* fit a new model to all rows": update(fitted, table, y),
        "built by hand; fit it": make_model(),
        "its classes share their shapes; fit it with tied_classes=False": make_model(link="mlogit", tied=[0]),
        "wide and sparse; fit a model of fewer columns": build_models(draw_table(1))[0],
        "an older version fitted it": replace(
            fitted.model_, shapes=tuple(replace(shape, evidence=None) for shape in fitted.model_.shapes)
        ),
        "it has no terms": replace(fitted.model_, shapes=()),
    }
    for reason, model in models.items():
        with pytest.raises(ValueError, match=f"this model has no evidence of its terms: .*{reason}"):
            explain.evidence(model)
    with pytest.raises(ValueError, match="is not fitted yet"):
        NeuralBasisRegressor().evidence()
