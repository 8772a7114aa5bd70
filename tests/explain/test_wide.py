"""Wide models: explanations, figures, exports and pages list the strongest terms of the model, a class or a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from neuralbasis import AdditiveModel, NeuralBasisClassifier, export, load, plot, report
from neuralbasis.cli import main
from neuralbasis.encoding import Axis, CodeFinder, Encoder
from neuralbasis.explain import explain_global, explain_local
from neuralbasis.export import plain
from neuralbasis.model.factors import Factors
from neuralbasis.model.shapes import Shape, make_shapes
from neuralbasis.report import page_model
from tests.models import build_model
from tests.report.pages import read_page
from tests.sparse_tables import build_models, build_wide, draw_table, rows_of_every_kind

WORDS = ("goal", "engine", "the", "goalkeeper", "Own goal", "rare")
CLASSES = np.array(["cars", "none", "sport"])
# Contribution of a word to each class in texts that contain it, and the number of such texts among 100.
EFFECTS = np.array([[-1, 0, 3], [2, 0, -1], [0, 0.5, 0], [0, 0, 1], [0, 0, 0.5], [8, 0, 0]], dtype=np.float32)
COUNTS = np.array([20, 10, 96, 8, 4, 0])


def build_words(link="mlogit", classes=CLASSES, n_outputs=3):
    """A word is present (1) or absent (0): one basis, which is 1 if it is present."""
    axis = Axis("", "continuous", np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    finder = CodeFinder(axis, 0.0, np.arange(6)[:, None], 6)
    bases = np.array([[0], [0], [1], [0]], dtype=np.float32)  # missing, absent, present, unseen
    seen = COUNTS > 0
    effects = EFFECTS[:, None, -n_outputs:]
    counted = np.full(seen.sum(), 2), COUNTS[seen].astype(float), np.r_[0, np.cumsum(seen)]
    factors = Factors(finder, bases, effects, np.zeros_like(effects), *counted, 100.0)
    encoder = Encoder(tuple(replace(axis, name=name) for name in WORDS))
    intercept = np.arange(n_outputs, dtype=float)
    return AdditiveModel(encoder, intercept, make_shapes([factors], encoder), link, classes, n_jobs=1)


def lean(word, output):
    share = COUNTS[WORDS.index(word)] / 100
    return pytest.approx(share * (1 - share) * EFFECTS[WORDS.index(word), output])


def test_the_strongest_terms():
    explanation = explain_global(build_words())
    assert [term.name for term in explanation.top(3)] == ["goal", "engine", "goalkeeper"]
    # For a word in a share p of the texts, both groups of texts add p (1 - p) |effect| to the importance.
    assert explanation.top(1)[0].importance == pytest.approx(2 * 0.2 * 0.8 * 4 / 3)
    assert [explanation.names[t] for t in explanation.order] == [term.name for term in explanation.top(6)]
    assert explanation.top(99)[-1].name == "rare"


def test_terms_that_raise_or_lower_the_score_of_a_class():
    found = explain_global(build_words()).by_class(2)
    assert list(found) == ["cars", "none", "sport"]
    sport = found["sport"]
    assert [term.name for term in sport.raised_by] == ["goal", "goalkeeper"]
    assert [term.size for term in sport.raised_by] == [lean("goal", 2), lean("goalkeeper", 2)]
    assert [(term.name, term.size) for term in sport.lowered_by] == [("engine", lean("engine", 2))]
    assert [term.name for term in found["none"].raised_by] == ["the"]  # 96 of 100 texts contain it: a weak signal
    assert found["none"].raised_by[0].size == lean("the", 1)
    assert found["none"].lowered_by == ()
    assert str(sport) == "for sport: goal +0.48, goalkeeper +0.074\nagainst sport: engine −0.09"


def test_the_strongest_terms_of_a_class_have_their_signs():
    found = explain_global(build_words()).top(3, class_="sport")
    assert [(term.name, term.leanings[2]) for term in found] == [
        ("goal", lean("goal", 2)),
        ("engine", lean("engine", 2)),
        ("goalkeeper", lean("goalkeeper", 2)),
    ]
    with pytest.raises(ValueError, match=r"no class 'news'; its classes are \['cars', 'none', 'sport'\]"):
        explain_global(build_words()).top(3, class_="news")


def test_two_classes_have_opposite_leanings():
    found = explain_global(build_words("logit", np.array(["other", "sport"]), 1)).by_class(1)
    assert (found["sport"].raised_by[0].name, found["sport"].raised_by[0].size) == ("goal", lean("goal", 2))
    assert found["other"].lowered_by[0].size == pytest.approx(-found["sport"].raised_by[0].size)
    assert found["other"].raised_by[0].name == found["sport"].lowered_by[0].name == "engine"


def test_leanings_of_a_regression():
    found = explain_global(build_words("identity", None, 1)).by_class(1)
    assert list(found) == ["score"]
    assert (found["score"].raised_by[0].name, found["score"].lowered_by[0].name) == ("goal", "engine")


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000))
def test_leanings_of_a_low_rank_model_are_those_of_its_tables(seed):
    factored, tables = build_models(draw_table(seed, n_rows=80, share=0.2))  # the absent value is the most frequent
    np.testing.assert_allclose(factored.leanings(), tables.leanings(), atol=1e-6)
    views, expected = explain_global(factored).terms, explain_global(tables).terms
    for one, other in zip(views, expected, strict=True):
        np.testing.assert_allclose(one.leanings, other.leanings, atol=1e-6)
        inner = other.scores - np.average(other.scores, axis=tuple(range(other.weights.ndim)), weights=other.weights)
        far = np.average(np.abs(inner), axis=tuple(range(other.weights.ndim)), weights=other.weights)
        np.testing.assert_allclose(one.importances, far, rtol=1e-5)
        assert one.low == pytest.approx(other.low)


def test_leanings_compare_rows_with_the_most_frequent_value():
    model = build_model(np.random.default_rng(0), ("nominal",), (1,))
    shape = model.shapes[0]
    usual = shape.weights.argmax()
    off = np.arange(len(shape.weights)) != usual
    share = shape.weights[off].sum() / shape.weights.sum()
    difference = np.average(shape.scores[off, 0], weights=shape.weights[off]) - shape.scores[usual, 0]
    np.testing.assert_allclose(model.leanings(), [[share * (1 - share) * difference]])


def test_search_lists_exact_matches_then_prefixes():
    explanation = explain_global(build_words())
    assert [term.name for term in explanation.search("goal")] == ["goal", "goalkeeper", "Own goal"]
    assert [term.name for term in explanation.search("GOAL", n=2)] == ["goal", "goalkeeper"]
    assert [term.name for term in explanation.search("e")] == ["engine", "goalkeeper", "the", "rare"]
    assert explanation.search("xyz") == []
    assert explanation.find("goal") is explanation.terms[0]


def test_a_row_lists_the_terms_of_its_values():
    model, rows = build_words(), np.zeros((3, 6))
    rows[0, [0, 2]], rows[2, 5] = 1.0, np.nan
    found = explain_local(model, rows, ["sport", "cars", "none"])
    first = found.row(0)
    assert first.names == ("goal", "the")
    assert first.values == ((1.0,), (1.0,))
    np.testing.assert_allclose(first.contributions, EFFECTS[[0, 2]])
    np.testing.assert_allclose(first.contributions.sum(axis=0) + first.intercept, first.scores)
    assert found.row(1).names == ()
    assert found.row(1).prediction == "sport"  # the largest intercept
    assert found.row(2).names == ("rare",)
    assert found.row(2).values == ((None,),)
    assert found.data(0)["names"] == ["goal", "the"]
    assert found.data(0)["values"] == [1.0, 1.0]
    assert (found.values[0][0], found.values[0][1], dict(found.values[0])) == (1.0, 0.0, {0: 1.0, 2: 1.0})
    frame = found.to_pandas()
    assert len(frame) == 3 * 3  # three terms, three classes
    assert frame["contribution"].sum() == pytest.approx(EFFECTS[[0, 2]].sum())


def test_sparse_and_dense_rows_have_the_same_explanation():
    factored = build_models(draw_table(0))[0]
    rows = rows_of_every_kind()[:40]
    found, expected = factored.list_contributions(rows), factored.contributions(rows)
    filled = np.zeros_like(expected)
    filled[found.row, found.term] = found.value
    np.testing.assert_allclose(filled, expected, atol=1e-6)
    sparse = explain_local(factored, csr_array(np.nan_to_num(rows)))
    dense = explain_local(factored, np.nan_to_num(rows))
    for index in range(len(rows)):
        assert sparse.row(index).names == dense.row(index).names
        np.testing.assert_array_equal(sparse.row(index).contributions, dense.row(index).contributions)
    np.testing.assert_array_equal(sparse.scores, dense.scores)


def test_list_contributions_of_a_dense_model_has_all_terms():
    model = build_model(np.random.default_rng(0))
    rows = np.zeros((2, 5))
    found = model.list_contributions({axis.name: rows[:, i] for i, axis in enumerate(model.encoder.axes)})
    terms, values = found.of_row(1)
    assert terms.tolist() == list(range(len(model.shapes)))
    assert values.shape == (len(model.shapes), 1)


def test_infinite_values_and_too_many_contributions_are_errors(wide):
    model = build_words()
    with pytest.raises(ValueError, match="column 'the' holds an infinite value"):
        explain_local(model, [[0, 0, np.inf, 0, 0, 0]])
    with pytest.raises(ValueError, match=r"of 4,000 rows to 50,000 terms .* or use list_contributions"):
        wide.contributions(csr_array((4000, 50_000)))


@pytest.fixture(scope="module")
def wide():
    return build_wide(50_000)


def test_fifty_thousand_terms(wide):
    text = str(wide)
    assert text.count("\n") < 40
    assert "… and 49,980 more" in text
    explanation = explain_global(wide)
    strongest = wide.importances().argmax()
    assert explanation.top(1)[0].name == wide.term_names[strongest] == f"word_{strongest:06d}"
    assert explanation.find("word_012345").index == 12_345
    assert [term.name for term in explanation.search("_01234", n=2)] == sorted(
        (f"word_01234{k}" for k in range(10)), key=lambda name: -explanation.find(name).importance
    )[:2]
    assert len(explanation.data()["scores"]) == 50_000
    card = wide.scorecard("word_000007")
    np.testing.assert_allclose(card.tables[0].scores[0], wide.shapes[7].scores[0])
    with pytest.raises(ValueError, match=r"has 50,000 terms, too many .* scorecard\(term='word_000000'\)"):
        wide.scorecard()
    assert len(build_wide(2000).scorecard().tables) == 2000
    with pytest.raises(ValueError, match="has 2,001 terms, too many"):
        build_wide(2001).scorecard()


def test_a_row_of_fifty_thousand_columns(wide):
    row = csr_array(([0.3, 0.7], ([0, 0], [49_999, 17])), shape=(1, 50_000))
    view = explain_local(wide, row).row(0)
    assert sorted(view.terms) == [17, 49_999]
    total = wide.shapes[17].factors.bases  # linear between the knots of 1 / 32
    at = {17: 0.7 * 32 + 1, 49_999: 0.3 * 32 + 1}
    for place, term in enumerate(view.terms):
        low, part_up = int(at[term]), at[term] % 1
        blend = (1 - part_up) * total[low] + part_up * total[low + 1]
        expected = blend @ wide.shapes[term].factors.coefficients[term]
        np.testing.assert_allclose(view.contributions[place], expected, rtol=1e-4)


def test_few_terms_of_very_many_columns(tmp_path):
    unused = Axis("", "continuous", np.zeros(1), np.full(1, 0.5))
    axes = [replace(unused, name=f"x{k}") for k in range(60_000)]
    for k in (5, 59_999):
        axes[k] = Axis(f"x{k}", "continuous", np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    tables = np.array([[0.0], [-1.0], [2.0], [0.0]])
    shapes = [Shape((k,), (axes[k],), tables * k, tables * 0, np.ones(4)) for k in (5, 59_999)]
    model = AdditiveModel(Encoder(tuple(axes)), np.zeros(1), tuple(shapes), "identity", n_jobs=1)
    model.save(tmp_path / "model.nbm")
    loaded, rows = load(tmp_path / "model.nbm"), np.zeros((2, 60_000))
    rows[0, [5, 6]] = 1.0, 0.5
    np.testing.assert_array_equal(loaded.scores(rows), model.scores(rows))
    assert loaded.scores(rows)[:, 0].tolist() == [10 - 59_999, -5 - 59_999]
    view = explain_local(loaded, rows).row(0)
    assert (view.names, view.values) == (("x59999", "x5"), ((0.0,), (1.0,)))


def test_lists_of_the_estimator_are_lazy(wide):
    fitted = NeuralBasisClassifier()
    fitted.model_ = wide
    assert len(fitted.term_scores_) == len(fitted.bins_) == len(fitted.term_names_) == 50_000
    for name, expected in (("term_scores_", "scores"), ("standard_deviations_", "spread"), ("bin_weights_", "weights")):
        found = getattr(fitted, name)
        assert isinstance(found, Sequence)
        assert not isinstance(found, list | tuple)  # computed on access
        np.testing.assert_array_equal(found[-1], getattr(wide.shapes[-1], expected))
    assert len(fitted.term_scores_[3:5]) == 2
    with pytest.raises(IndexError):
        fitted.term_scores_[50_000]


def test_figures_of_the_strongest(wide, tmp_path):
    names = [label.get_text() for label in plot.importances(wide, 3).axes[0].get_yticklabels()]
    assert names == [term.name for term in explain_global(wide).top(3)]
    assert "49,997 weaker terms not shown" in plot.importances(wide, 3).axes[0].get_xlabel()
    assert [axes.get_title().split()[0] for axes in plot.shapes(wide, terms=["word_000005"]).axes] == ["word_000005"]


def test_figure_of_leanings(tmp_path):
    figure = plot.leanings(build_words(), 2, tmp_path / "words.png", against=True)
    assert (tmp_path / "words.png").stat().st_size > 0
    axes = figure.axes[2]
    assert axes.get_title() == "sport"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["goal", "goalkeeper", "engine"]
    assert [bar.get_width() for bar in axes.patches] == [lean("goal", 2), lean("goalkeeper", 2), lean("engine", 2)]
    assert [axes.get_title() for axes in plot.leanings(build_words(), classes=["sport"]).axes] == ["sport"]
    with pytest.raises(ValueError, match=r"classes must be some of \['cars', .*\]; got \['news'\]"):
        plot.leanings(build_words(), classes=["news"])


@pytest.mark.parametrize("name", ["to_json", "to_python", "to_c", "to_sql", "to_onnx", "to_excel"])
def test_exports_reject_models_that_are_too_large(name, wide, tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "MAX_NUMBERS", 5_000_000)
    with pytest.raises(ValueError, match=r"50,000 terms hold 5,250,000 numbers, and .* use save, .*max_terms=1000"):
        getattr(export, name)(wide, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_small_low_rank_model_is_exported():
    found = json.loads(export.to_json(build_words()))
    assert found["columns"] == list(WORDS)
    np.testing.assert_allclose(np.array(found["terms"][0]["table"])[2], EFFECTS[0])


def test_the_page_has_the_strongest_terms_and_those_of_its_rows(wide, tmp_path, monkeypatch):
    monkeypatch.setattr(page_model, "MAX_TERMS", 5)
    row = csr_array(([0.3, 0.7], ([0, 0], [49_999, 17])), shape=(1, 50_000))
    report.write(tmp_path / "page.html", wide, row)
    _, data, _ = read_page(tmp_path / "page.html")
    strongest = [term.name for term in explain_global(wide).top(5)]
    names = [term["name"] for term in data["terms"]]
    assert set(names) == {*strongest, "word_000017", "word_049999"}
    assert (data["hidden"], data["allColumns"], data["wide"]) == (50_000 - len(names), 50_000, True)
    np.testing.assert_allclose(data["rows"][0]["rest"], 0.0, atol=1e-5)
    values = dict(zip([column["name"] for column in data["columns"]], data["rows"][0]["values"], strict=True))
    assert (values["word_000017"], values["word_049999"]) == (0.7, 0.3)
    monkeypatch.setattr(page_model, "MAX_ROW_TERMS", 1)
    report.write(tmp_path / "page.html", wide, row)
    _, data, _ = read_page(tmp_path / "page.html")
    view = explain_local(wide, row).row(0)
    (hidden,) = {"word_000017", "word_049999"} - {term["name"] for term in data["terms"]}
    np.testing.assert_allclose(data["rows"][0]["rest"], view.contributions[view.names.index(hidden)], atol=1e-5)


def test_commands_list_few_terms(wide, tmp_path):
    build_words().save(tmp_path / "words.nbm")
    wide.save(tmp_path / "wide.nbm")
    run = CliRunner().invoke(main, ["show", str(tmp_path / "wide.nbm"), "--json"])
    found = json.loads(run.output)
    assert found["n_terms"] == 50_000
    assert [term["name"] for term in found["terms"]] == [term.name for term in explain_global(wide).top(5000)]
    given = ["goal=1", "engine=0", "the=0", "goalkeeper=1", "Own goal=0", "rare=0"]
    run = CliRunner().invoke(main, ["explain", str(tmp_path / "words.nbm"), *given, "--values", "--json"])
    assert [part["term"] for part in json.loads(run.output)["contributions"]] == ["goal", "goalkeeper"]
