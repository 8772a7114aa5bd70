"""Scorecards: the printed text suffices to predict by hand, and the listed cells are those of the model."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import AdditiveModel, NeuralBasisRegressor
from neuralbasis.encoding import Axis, Encoder, continuous_axis, level_axis
from neuralbasis.model.shapes import Shape
from tests.models import build_model, draw_numbers, name_columns, tie_model

KINDS = ("continuous", "nominal", "continuous")
TASKS = {
    "regression": {"link": "identity"},
    "binary": {"link": "logit", "classes": np.array(["no", "yes"])},
}


class ManualPredictor:
    """Computes predictions from the text of a scorecard and nothing else."""

    def __init__(self, text: str):
        heading, *tables = text.split("\n\n")
        self.intercept = float(re.search(r" = (\S+) \+ one number", heading)[1])
        self.is_binary = "1 / (1 + exp(-log odds))" in heading
        self.tables = [(table.split(":")[0], [self.split(line) for line in table.splitlines()[1:]]) for table in tables]

    @staticmethod
    def split(line: str) -> list[str]:
        return re.split(r"\s{2,}", line)

    def predict(self, row: dict) -> float:
        score = self.intercept
        for name, lines in self.tables:
            columns = name.split(" & ")
            if len(columns) == 2:
                score += self.read_grid(lines[1:], row[columns[0]], row[columns[1]])
            elif lines[0][0] == "level":
                scores = {line[0]: float(line[1]) for line in lines[1:]}
                score += scores["missing"] if row[name] is None else scores.get(row[name], scores["any other"])
            else:
                score += self.read_range(lines[1:], row[name])
        return 1 / (1 + np.exp(-score)) if self.is_binary else score

    @staticmethod
    def read_range(lines: list[list[str]], value: float) -> float:
        for start, stop, *rest in lines:
            if start == "missing":
                if np.isnan(value):
                    return float(stop)
            elif start == "below":
                if value <= float(stop):
                    return float(rest[0])
            elif stop == "above":
                return float(rest[0])
            elif value <= float(stop):
                left, right = map(float, rest[0].split(" to "))
                return left + (value - float(start)) / (float(stop) - float(start)) * (right - left)
        raise AssertionError("no line of the table holds the value")

    def read_grid(self, lines: list[list[str]], down: float | str | None, across: float | str | None) -> float:
        header, *rows = [line for line in lines if len(line) > 1]
        rows_at = self.find_shares([row[0] for row in rows], down)
        columns_at = self.find_shares(header[1:], across)
        return sum(a * b * float(rows[i][1 + j]) for i, a in rows_at.items() for j, b in columns_at.items())

    @staticmethod
    def find_shares(ticks: list[str], value: float | str | None) -> dict[int, float]:
        if value is None or value != value:
            return {ticks.index("missing"): 1.0}
        if isinstance(value, str):
            return {ticks.index(value if value in ticks else "any other"): 1.0}
        knots = [float(tick) for tick in ticks[1:]]
        at = float(np.interp(value, knots, np.arange(len(knots))))
        low = min(int(at), len(knots) - 2)
        return {low + 1: 1 - (at - low), low + 2: at - low}


@pytest.mark.parametrize("task", TASKS)
def test_the_printed_text_suffices_to_predict(task: str) -> None:
    rng = np.random.default_rng(1)
    model = build_model(rng, KINDS, (1, 2), **TASKS[task])
    text = str(model.scorecard())
    rows = name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, 200))
    expected = model.predict(rows) if task == "regression" else model.predict_proba(rows)[:, 1]
    manual = ManualPredictor(text)
    found = [manual.predict({name: values[i] for name, values in rows.items()}) for i in range(200)]
    # A score is the sum of 7 printed numbers of 4 decimals; each is off by at most 0.6 of the last decimal.
    np.testing.assert_allclose(found, expected, rtol=0, atol=7 * 0.6e-4)


def test_errors_of_a_fit_are_standard_errors() -> None:
    X = np.random.default_rng(0).random((100, 1))
    model = NeuralBasisRegressor(max_steps=20, outer_bags=2).fit(X, X[:, 0]).model_
    legend = "± is the standard error of the score; rows and share are those of the training table"
    assert legend in str(model.scorecard()).splitlines()


def test_the_text_of_a_small_model() -> None:
    age = Axis("age", "continuous", np.array([20.0, 30.0, 60.0]), np.array([0.0, 0.5, 1.0]))
    job = level_axis("job", "nominal", ["clerk", "missing"])
    scores = np.array([0.0, -1.0, 0.5, 2.0, 0.0])[:, None], np.array([0.25, -0.5, 0.125, 0.0])[:, None]
    weights = np.array([0.0, 1.0, 2.0, 1.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.0])
    shapes = (
        Shape((0,), (age,), scores[0], 0.1 * np.abs(scores[0]), weights[0]),
        Shape((1,), (job,), scores[1], 0.0 * scores[1], weights[1]),
    )
    model = AdditiveModel(Encoder((age, job)), np.array([0.75]), shapes, "logit", np.array(["no", "yes"]))
    assert str(model.scorecard()).splitlines() == [
        'log odds of "yes" = 0.7500 + one number from each of the 2 tables below',
        'probability of "yes" = 1 / (1 + exp(-log odds))',
        "± is the spread over the members; rows and share are those of the training table",
        "",
        "age: continuous",
        "from     to                 score       ±  rows  share",
        "missing                    0.0000  0.0000     0   0.0%",
        "below    20               -1.0000  0.1000",
        "20       30     -1.0000 to 0.5000  0.1000     1  25.0%",
        "30       60      0.5000 to 2.0000  0.2000     2  50.0%",
        "60       above             2.0000  0.2000     1  25.0%",
        "between two ends: score = left + (value - from) / (to - from) × (right - left)",
        "",
        "job: nominal",
        "level        score       ±  rows  share",
        "missing     0.2500  0.0000     1  25.0%",
        "clerk      -0.5000  0.0000     2  50.0%",
        "'missing'   0.1250  0.0000     1  25.0%",
        "any other   0.0000  0.0000     0   0.0%",
    ]
    assert str(model).splitlines() == [
        'log odds of "yes" = 0.750 + f(age) + f(job)',
        'probability of "yes" = 1 / (1 + exp(-log odds))',
        "",
        "term  kind        lowest  highest  importance",
        "age   continuous  -1.000    2.000       1.000  ####################",
        "job   nominal     -0.500    0.250       0.344  #######",
    ]


def interpolate_card(card_rows: list[dict], value: float) -> float:
    knots = [(row["value"], row["score"]) for row in card_rows if row["kind"] == "knot"]
    return float(np.interp(value, *zip(*knots, strict=True)))


def test_to_rows_lists_the_cells_of_the_table() -> None:
    model = build_model(np.random.default_rng(2), KINDS, (1, 2))
    pair = model.scorecard("x0 & x1").to_rows()
    shape = model.shapes[model.term_names.index("x0 & x1")]
    cells = [(row["value"], row["value_2"]) for row in pair if row["kind"] == "knot" and row["kind_2"] == "level"]
    assert cells == [(knot, level) for knot in shape.axes[0].knots for level in shape.axes[1].levels]
    assert [row["score"] for row in pair] == shape.scores[:-1].ravel().tolist()
    assert [row["spread"] for row in pair] == shape.spread[:-1].ravel().tolist()
    assert {row["kind_2"] for row in pair} == {"missing", "level", "unseen"}
    assert sum(row["share"] for row in pair) == pytest.approx(1.0)


def test_to_rows_labels_the_classes() -> None:
    classes = np.array([10, 20, 30])
    model = build_model(np.random.default_rng(3), KINDS, (1,), 3, "mlogit", classes)
    rows = tie_model(np.random.default_rng(4), model, [1]).scorecard("x1").to_rows()
    assert [row["class"] for row in rows[:4]] == [10, 20, 30, 10]
    tied = tie_model(np.random.default_rng(4), model, [1]).shapes[1]
    np.testing.assert_array_equal([row["score"] for row in rows], tied.scores.ravel())


def straight_model(scores: np.ndarray) -> AdditiveModel:
    axis = continuous_axis("x", np.arange(len(scores), dtype=float), scaling="minmax")
    table = np.r_[0.0, scores, 0.0][:, None]
    shape = Shape((0,), (axis,), table, np.zeros_like(table), np.r_[0.0, np.ones(len(scores)), 0.0])
    return AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity")


def test_knots_on_a_straight_line_are_dropped() -> None:
    card = straight_model(np.r_[np.arange(10) / 7, 5.0, 5.0, 5.0]).scorecard(0)
    rows = card.to_rows()
    assert [row["value"] for row in rows] == [None, 0.0, 9.0, 10.0, 12.0]
    assert [row["weight"] for row in rows] == [0.0, 9.0, 1.0, 2.0, 1.0]
    assert "thinned" not in str(card)


@given(st.lists(st.floats(-100, 100), min_size=3, max_size=40), st.integers(2, 12))
@settings(deadline=None, max_examples=60)
def test_a_thinned_table_states_its_error(scores: list[float], max_rows: int) -> None:
    model = straight_model(np.array(scores))
    card = model.scorecard(0, max_rows=max_rows)
    assert len(card.to_rows()) <= max_rows + 1
    values = np.linspace(-1, len(scores), 101)
    found = [interpolate_card(card.to_rows(), value) for value in values]
    error = np.abs(found - model.predict(values[:, None])).max()
    assert error <= card.tables[0].error + 1e-9
    if card.tables[0].error > 1e-9:
        assert f"up to {card.tables[0].error:.2g} from" in str(card)


def heavy_tailed_model() -> AdditiveModel:
    """Nine of ten rows are 0; a jump at 5,000; 60 small bends that hardly any row sees."""
    knots = np.r_[0.0, 100.0, np.linspace(1000, 4900, 20), 5000.0, 5100.0, np.linspace(6000, 99_999, 40)]
    curve = np.where(knots > 5000, 3.0, -1.0) * (knots > 0) + 0.01 * np.sin(np.arange(len(knots)))
    axis = continuous_axis("capital_gain", knots)
    table = np.r_[0.0, curve, 0.0][:, None]
    weights = np.r_[0.0, 900.0, np.full(len(knots) - 1, 100.0 / (len(knots) - 1)), 0.0]
    return AdditiveModel(
        Encoder((axis,)), np.zeros(1), (Shape((0,), (axis,), table, np.zeros_like(table), weights),), "identity"
    )


def test_few_knots_follow_a_heavy_tail() -> None:
    card = heavy_tailed_model().scorecard("capital_gain", max_rows=6)
    (table,) = card.tables
    assert [row["value"] for row in card.to_rows()][:5] == [None, 0.0, 100.0, 5000.0, 5100.0]
    assert len(card.to_rows()) == 7
    assert table.mean_error < 0.001
    assert table.error < 0.02
    assert "too coarse" not in str(card)
    assert f"{table.mean_error:.2g} on average over the training rows" in str(card)


def test_a_long_table_and_a_coarse_one_name_a_better_number_of_knots() -> None:
    model = heavy_tailed_model()
    long, coarse = str(model.scorecard("capital_gain")), str(model.scorecard("capital_gain", max_rows=2))
    assert len(long.splitlines()) > 60
    found = re.search(r"\na long table: max_rows=(\d+) has a mean error of at most 5 % of the mean \|score\|$", long)
    assert found
    assert f"too coarse to predict with: max_rows={found[1]} has" in coarse
    better = model.scorecard("capital_gain", max_rows=int(found[1])).tables[0]
    assert better.mean_error <= 0.05 * better.size
    assert "max_rows=" not in str(model.scorecard())  # of all terms: no search for a better number


def test_a_thinned_pair_states_its_error_and_the_omitted_levels() -> None:
    rng = np.random.default_rng(5)
    model = build_model(rng, KINDS, (2,))
    card = model.scorecard(("x1", "x2"), max_rows=3)
    assert "left out: the 2 rarest levels of x1" in str(card)
    (table,) = card.tables
    assert table.scores.shape == (5, 4, 1)
    pair = model.shapes[model.term_names.index("x1 & x2")]
    kept = pair.axes[1].knots[table.cells[1][1:] - 1]
    read = [np.interp(pair.axes[1].knots, kept, line) for line in table.scores[:, 1:, 0]]
    assert table.error == pytest.approx(np.abs(read - pair.scores[table.cells[0], 1:-1, 0]).max())


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30, unique=True), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_printed_knots_are_distinct_and_close(values: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    axis = continuous_axis("x", np.array(values))
    table = rng.normal(size=(axis.n_cells, 1))
    shape = Shape((0,), (axis,), table, np.zeros_like(table), np.ones(axis.n_cells))
    text = str(AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity").scorecard(0))
    lines = [re.split(r"\s{2,}", line) for line in text.splitlines()[3:]]
    printed = [float(line[1]) for line in lines if line[0] == "below" or (len(line) == 6 and line[1] != "above")]
    np.testing.assert_allclose(printed, axis.knots, rtol=0.5)
    assert (np.diff(printed) > 0).all()


def test_terms_are_found_by_name_index_and_columns() -> None:
    model = build_model(np.random.default_rng(6), KINDS, (1, 2, 3))
    for term in ("x1 & x2", "x2 & x1", ("x2", "x1"), (1, 2), [2, "x1"], 5, np.int64(5), -2):
        assert [table.name for table in model.scorecard(term).tables] == ["x1 & x2"]
    assert len(model.scorecard().tables) == 7


@pytest.mark.parametrize("term", ["x9", ("x0", "x9"), (0, 9), 7, -8])
def test_an_unknown_term_is_refused(term: object) -> None:
    model = build_model(np.random.default_rng(6), KINDS, (1, 2, 3))
    with pytest.raises(ValueError, match=r"has no term .*'x0', 'x1', 'x2', 'x0 & x1'"):
        model.scorecard(term)


def test_max_rows_is_at_least_two() -> None:
    with pytest.raises(ValueError, match="max_rows must be at least 2"):
        build_model(np.random.default_rng(6), KINDS, (1,)).scorecard(max_rows=1)


def long_named(model: AdditiveModel) -> AdditiveModel:
    """The same model with names and levels of 60 characters."""
    axes = [replace(axis, name=f"{axis.name} {'very ' * 12}long") for axis in model.encoder.axes]
    axes = [
        a if a.levels is None else replace(a, levels=tuple(f"{x} {'and so on ' * 6}" for x in a.levels)) for a in axes
    ]
    return replace(model, encoder=Encoder(tuple(axes)))


@pytest.mark.parametrize("n_outputs", [1, 3, 12])
def test_lines_are_short(n_outputs: int) -> None:
    link, classes = (
        ("identity", None) if n_outputs == 1 else ("mlogit", np.array([f"class {k}" for k in range(n_outputs)]))
    )
    model = long_named(build_model(np.random.default_rng(7), KINDS, (1, 2, 3), n_outputs, link, classes))
    for text in (str(model), str(model.scorecard())):
        assert max(map(len, text.splitlines())) <= 100
    for name in [] if classes is None else classes:
        assert name in str(model.scorecard(0))


def test_describe_truncates_many_terms() -> None:
    model = build_model(np.random.default_rng(8), orders=(1, 2, 3))
    lines = str(model).splitlines()
    assert lines[-1] == "… and 5 more"
    assert "(5 more)" in str(model).split("\n\n")[0]
    importances = [float(line.split()[-2]) for line in lines if line.endswith("#")]
    assert importances == sorted(importances, reverse=True)
    assert len(importances) == 20


@pytest.mark.parametrize("seed", range(5))
def test_contributions_lie_in_the_described_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = build_model(rng, KINDS, (1, 2))
    table = [re.split(r"\s{2,}", line) for line in str(model).split("\n\n")[1].splitlines()[1:]]
    rows = name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, 500))
    contributions = model.contributions(rows)[..., 0]
    for name, _, low, high, *_ in table:
        found = contributions[:, model.term_names.index(name)]
        assert float(low) - 0.5e-3 <= found.min() <= found.max() <= float(high) + 0.5e-3


def test_classes_are_described_in_words() -> None:
    model = build_model(np.random.default_rng(9), KINDS, (1,), 3, "mlogit", np.array(["a", "b", "c"]))
    formula = str(model).split("\n\n")[0].splitlines()
    assert formula[0].startswith("score of a class = intercept of the class + f(x")
    assert formula[1] == "probability of a class = exp(its score) / sum of exp(score) over the 3 classes"
    intercepts = "; ".join(f"{name}: {start:.4f}" for name, start in zip("abc", model.intercept, strict=True))
    assert f"intercepts: {intercepts}" in str(model.scorecard())


def test_a_flat_term_and_no_term_at_all() -> None:
    flat = straight_model(np.zeros(3))
    assert str(flat).splitlines()[0] == "prediction = 0.000 + f(x)"
    assert str(flat.scorecard(0)).splitlines()[4].split()[:5] == ["0", "2", "0.0000", "to", "0.0000"]
    bare = replace(flat, shapes=(), intercept=np.array([2.5]))
    assert str(bare).splitlines()[0] == "prediction = 2.500"
    assert bare.scorecard().to_rows() == []


def test_repr_is_the_printed_text() -> None:
    card = build_model(np.random.default_rng(10), KINDS, (1,)).scorecard(0)
    assert repr(card) == str(card)


@pytest.mark.parametrize(("size", "text"), [(2e5, "200000"), (3.0, "3.0000"), (1e-5, "0.000010000"), (2e-9, "2e-09")])
def test_numbers_have_five_digits(size: float, text: str) -> None:
    scores = np.array([[0.0], [size], [-size], [0.0]])
    axis = level_axis("x", "nominal", ["a", "b"])
    shape = Shape((0,), (axis,), scores, np.zeros_like(scores), np.ones(4))
    model = AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity")
    assert text in str(model.scorecard(0)).split()
