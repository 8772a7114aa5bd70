"""The profile of a source has the axes of the same table in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from neuralbasis.data import NumberSketch, open_source, read_columns
from neuralbasis.distributed.process_group import ProcessGroup
from neuralbasis.encoding import Encoder, ProfileOptions, choose_roles, make_cache, make_profile, settle_texts
from tests.stream_tables import FEATURES, make_table, run_group, write_files


def profile_of(X: Any, target: str = "amount", weight: str | None = None, is_classifier: bool = False, size: int = 1,
               features: tuple[str, ...] | None = FEATURES, **given: Any) -> Any:  # fmt: skip
    source = open_source(X)
    assert source is not None
    roles = choose_roles(source, target, weight, features)
    found = run_group(size, lambda group: make_profile(source, roles, is_classifier, ProfileOptions(**given), group, 2))
    assert all(same_axes(found[0].encoder, other.encoder) for other in found)
    return found[0]


def same_axes(one: Encoder, other: Encoder) -> bool:
    return len(one.axes) == len(other.axes) and all(
        (a.name, a.kind, a.levels) == (b.name, b.kind, b.levels)
        and np.array_equal(a.knots, b.knots)
        and np.array_equal(a.places, b.places)
        and (np.array_equal(a.mass, b.mass) if a.mass is not None and b.mass is not None else a.mass is b.mass)
        for a, b in zip(one.axes, other.axes, strict=True)
    )


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_few_rows_give_the_axes_of_the_table_in_memory(tmp_path: Path, scaling: str, weight: str | None) -> None:
    table = make_table(4000)
    profile = profile_of(write_files(table, tmp_path), weight=weight, scaling=scaling)
    weights = None if weight is None else table["weight"].to_numpy()
    known = Encoder.fit(read_columns(table.select(FEATURES)), weights, None, scaling)
    assert same_axes(profile.encoder, known)
    assert profile.error.tolist() == [0.0] * len(FEATURES)
    assert profile.types == ("float32", "float64", "int16", "float64", "int8", "int8", "int8")
    assert profile.n_rows == (4000 if weights is None else (weights > 0).sum())
    assert profile.weight_sum == (4000 if weights is None else weights.sum())
    assert profile.whole_weights
    assert (profile.classes, profile.target_type) == (None, "float64")


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_number_of_processes_does_not_change_the_profile(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NumberSketch.__init__, "__defaults__", (256,))  # most columns are thinned
    files = write_files(make_table(20_000), tmp_path)
    one, many = profile_of(files, weight="weight"), profile_of(files, weight="weight", size=size)
    assert one.error.max() > 0
    assert same_axes(one.encoder, many.encoder)
    assert (one.n_rows, one.weight_sum, one.types) == (many.n_rows, many.weight_sum, many.types)


def test_many_rows_give_approximately_the_axes_of_the_table_in_memory() -> None:
    table = make_table(120_000)
    profile = profile_of([*table.to_batches(max_chunksize=30_000)])
    known = Encoder.fit(read_columns(table.select(FEATURES)))
    assert 0 < profile.error[0] < 0.001
    for axis, other in zip(profile.encoder.axes, known.axes, strict=True):
        assert abs(len(axis.knots) - len(other.knots)) <= 0.02 * len(other.knots)
        assert np.abs(np.interp(axis.knots, other.knots, other.places) - axis.places).max() <= 2 / 192
    assert same_axes(profile.encoder.take([2, 3, 4, 5, 6]), known.take([2, 3, 4, 5, 6]))


def test_given_knots_are_the_same_in_memory_and_out_of_core() -> None:
    table = make_table(60_000)
    knots = {"single": np.linspace(-3, 3, 40), "double": [0.1, 0.5, 2.0], "count": [0, 10], "large": [1e12]}
    profile = profile_of([*table.to_batches(max_chunksize=30_000)], feature_types=knots)
    known = Encoder.fit(read_columns(table.select(FEATURES)), feature_types=knots)
    assert profile.error[0] > 0
    assert same_axes(profile.encoder, known)
    assert known.axes[1].knots.tolist() == [0.1, 0.5, 2.0]


def test_feature_types_are_applied() -> None:
    table = pa.table({
        "year": [2001, 2003, None, 2001], "size": ["1.5", "2", None, "3"], "grade": ["b", "a", "c", "a"],
        "y": [1.0, 2.0, 3.0, 4.0],
    })  # fmt: skip
    feature_types = ["nominal", "continuous", ["a", "b", "c"]]
    profile = profile_of([table, table], "y", features=None, feature_types=feature_types)
    known = Encoder.fit(
        read_columns(pa.concat_tables([table, table]).select(["year", "size", "grade"])), None, feature_types
    )
    assert same_axes(profile.encoder, known)
    assert profile.encoder.axes[0].levels == ("2001", "2003")
    assert profile.encoder.axes[2].kind == "ordinal"


def test_dictionaries_of_several_batches_are_unified_in_their_order() -> None:
    def batch(codes: list[int | None], levels: list[str]) -> pa.Table:
        column = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(levels))
        return pa.table({"x": column, "y": np.arange(float(len(codes)))})

    parts = [batch([0, None, 0], ["z", "late"]), batch([1, 0, 1], ["a", "late"])]
    profile = profile_of(parts, "y", features=None)
    known = Encoder.fit(read_columns(pa.concat_tables(parts).unify_dictionaries().select(["x"])))
    assert profile.encoder.axes[0].levels == ("z", "late", "a")
    assert same_axes(profile.encoder, known)


def read_targets(profile: Any, y: pa.Array, folder: Path) -> list[float]:
    """The targets of a cache of rows with x = 1, 2, …, in this order."""
    source = open_source([pa.record_batch({"x": np.arange(1.0, len(y) + 1), "y": y})])
    block = make_cache(source, profile, folder, 1, 0, ProcessGroup(), 1).read(0)
    return block.y[np.argsort(block.numbers[:, 0])].tolist()


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["yes", "no", "yes"], "O"), ([3, 1, 3], "i"), ([True, False, True], "b"), ([2.0, 1.0, 2.0], "f")],
    ids=["texts", "integers", "flags", "floats"],
)
def test_classes_are_those_of_the_fit_in_memory(labels: list[Any], kind: str, tmp_path: Path) -> None:
    batch = pa.record_batch({"x": [1.0, 2.0, 3.0], "y": labels})
    profile = profile_of([batch], "y", is_classifier=True, features=None)
    assert profile.classes is not None
    known = np.unique(batch["y"].to_numpy(zero_copy_only=False))
    assert profile.classes.tolist() == known.tolist()
    assert profile.classes.dtype == known.dtype
    assert profile.classes.dtype.kind == kind
    for y in (batch["y"], batch["y"].dictionary_encode()):
        assert read_targets(profile, y, tmp_path) == [1, 0, 1]


def test_classes_of_weight_zero_are_ignored() -> None:
    batch = pa.record_batch({"x": [1.0, 2.0, 3.0], "y": ["a", "b", "c"], "w": [1.0, 2.0, 0.0]})
    profile = profile_of([batch], "y", "w", True, features=None)
    assert profile.classes is not None
    assert profile.classes.tolist() == ["a", "b"]
    assert (profile.n_rows, profile.weight_sum) == (2, 3.0)


INVALID = {
    "missing target": ({"y": [1.0, None]}, {}, "target 'y' has missing values"),
    "infinite target": ({"y": [1.0, np.inf]}, {}, "target 'y' holds NaN or infinite values"),
    "target of texts": ({"y": ["a", "b"]}, {}, "target 'y' holds string, but a regression needs numbers"),
    "huge target": ({"y": [1.0, 1e200]}, {}, "whose squares overflow"),
    "one class": ({"y": ["a", "a"]}, {"is_classifier": True}, "one class only, 'a'"),
    "continuous classes": ({"y": [0.5, 1.0]}, {"is_classifier": True}, "'y' is continuous, but a classifier needs"),
    "missing class": ({"y": ["a", None]}, {"is_classifier": True}, "target 'y' has missing values"),
    "NaN class": ({"y": [1.0, np.nan]}, {"is_classifier": True}, "target 'y' has missing or infinite values"),
    "infinite value": ({"x": [1.0, np.inf]}, {}, "column 'x' holds infinite values"),
    "infinite value of weight 0": (
        {"x": [1.0, np.inf, 2.0], "y": [1.0, 2.0, 3.0], "w": [1.0, 0.0, 1.0]}, {"weight": "w"}, "column 'x' holds inf",
    ),
    "negative weight": ({"w": [1.0, -1.0]}, {"weight": "w"}, "the weights 'w' hold negative values"),
    "missing weight": ({"w": [1.0, None]}, {"weight": "w"}, "the weights 'w' hold NaN or infinite"),
    "no weight": ({"w": [0.0, 0.0]}, {"weight": "w"}, "0 row\\(s\\) of positive weight"),
    "one row": ({"w": [1.0, 0.0]}, {"weight": "w"}, "1 row\\(s\\) of positive weight"),
    "no value": ({"x": pa.array([None, None], pa.float64())}, {}, "column 'x' has only missing values"),
    "no text": ({"x": pa.array([None, None], pa.string())}, {}, "column 'x' has only missing values"),
    "dates": ({"x": pa.array([0, 1], pa.timestamp("s"))}, {}, "'x': expected numbers or labels, got dates"),
    "text among numbers": ({"x": ["1", "b"]}, {"feature_types": ["continuous"]}, "'x': expected numbers, got 'b'"),
    "unknown type": ({}, {"feature_types": ["round"]}, "feature_types of column 'x' must be 'auto'"),
    "too many types": ({}, {"feature_types": ["auto", "auto"]}, "feature_types has 2 entries, but the table has 1"),
    "knots of no column": ({}, {"feature_types": {"X": [1.0]}}, "names the column 'X', which the table does not have"),
    "knots of levels": ({"x": ["a", "b"]}, {"feature_types": {"x": [1.0]}}, "Column 'x': expected numbers, got 'a'"),
    "falling knots": ({}, {"feature_types": {"x": [2.0, 1.0]}}, "lists numbers, which are cut points"),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_columns_are_named(name: str) -> None:
    columns, given, words = INVALID[name]
    batch = pa.record_batch({"x": [1.0, 2.0], "y": [1.0, 2.0], **columns})
    with pytest.raises((ValueError, TypeError), match=words):
        profile_of([batch], "y", **{"features": ("x",), **given})


def test_an_error_in_one_process_reaches_all(tmp_path: Path) -> None:
    late = pa.table({"x": np.arange(4000.0), "y": [*np.arange(3999.0), np.inf]})
    source = open_source(write_files(late, tmp_path))
    assert source is not None
    roles = choose_roles(source, "y")

    def work(group: Any) -> str:
        try:
            make_profile(source, roles, False, ProfileOptions(), group, 1)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    first, second = run_group(2, work)
    assert second.startswith("ValueError: target 'y' holds NaN or infinite values")
    assert first == f"RuntimeError: process 1 stopped with {second}"


def test_types_hold_their_numbers_exactly() -> None:
    rows = {
        "int8": [-127.0, 127.0], "int16": [-128.0, 3.0], "int32": [0.0, 40_000.0], "float32": [2.0**33, 0.5],
        "float64": [0.1, 2.0],
    }  # fmt: skip
    for kind, values in rows.items():
        batch = pa.record_batch({"x": values, "y": [0.5, 0.25]})
        profile = profile_of([batch], "y", features=None)
        assert (profile.types, profile.target_type) == ((kind,), "float32")
    whole = profile_of([pa.record_batch({"x": [2.0**40, 0.0], "y": [0.1, 2.0]})], "y", features=None)
    assert (whole.types, whole.target_type) == (("float32",), "float64")
    many = pa.record_batch({"x": [f"id {i}" for i in range(200)], "y": np.arange(200.0)})
    profile = profile_of([many], "y", features=None)
    assert profile.types == ("int16",)


def test_all_batches_together_decide_whether_texts_are_numbers(tmp_path: Path) -> None:
    texts = [f"{i:,}" for i in range(900, 1900)] + ["low"] * 40 + ["NA"] * 60
    table = pa.table({"x": texts, "zip": ["02134", *["94105"] * 1099], "y": np.arange(1100.0)})
    with pytest.warns(UserWarning, match="'1,000' is read as 1000; 40 of 1,040 values are not numbers, such as 'low'"):
        known = Encoder.fit(settle_texts(read_columns(table.select(["x", "zip"])), None, None))
    source, folder = open_source([*table.to_batches(max_chunksize=100)]), tmp_path / "cache"
    assert source is not None
    with pytest.warns(UserWarning, match="'1,000' is read as 1000; 40 of 1,040 values are not numbers, such as 'low'"):
        profile = make_profile(source, choose_roles(source, "y"), False, ProfileOptions(), ProcessGroup(), 1, folder)
    assert same_axes(profile.encoder, known)
    assert [axis.kind for axis in known.axes] == ["continuous", "nominal"]
    assert profile.types == ("int16", "int8")
    cache = make_cache(source, profile, folder, 1, 0, ProcessGroup(), 1)  # its last batches hold no number
    found = cache.read(0).numbers[:, 0]
    assert np.isnan(found).sum() == 100
    assert sorted(found[~np.isnan(found)]) == list(range(900, 1900))


def test_stored_counts_are_used_again(tmp_path: Path) -> None:
    """Stored counts serve other knots, bins and scalings; changed files are read again."""
    table, folder = make_table(30_000), tmp_path / "cache"
    files = write_files(table, tmp_path / "table")

    def profile(**given: Any) -> Any:
        source = open_source(files)
        assert source is not None
        roles = choose_roles(source, "label", "weight", FEATURES)
        return run_group(1, lambda group: make_profile(source, roles, True, ProfileOptions(**given), group, 1, folder))[
            0
        ]

    first = profile()
    stored = folder / "profile.rank-0.bin"
    written = stored.stat().st_mtime_ns
    again = profile()
    assert same_axes(first.encoder, again.encoder)
    assert again.classes is not None
    assert again.classes.tolist() == ["no", "perhaps", "yes"]
    for given in ({"max_bins": 17}, {"scaling": "minmax"}):
        known = profile_of(files, "label", "weight", True, **given)
        assert same_axes(profile(**given).encoder, known.encoder)
    assert stored.stat().st_mtime_ns == written
    stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    assert same_axes(profile().encoder, first.encoder)  # damaged: counted again
    assert stored.stat().st_mtime_ns != written
    write_files(make_table(30_000, seed=1), tmp_path / "table")
    assert not same_axes(profile().encoder, first.encoder)


def test_every_kind_of_sketch_is_stored(tmp_path: Path) -> None:
    table = make_table(20_000).append_column("price", pa.array([f"{i:,}" for i in range(20_000)]))
    source = open_source(write_files(table, tmp_path / "table"))
    assert source is not None
    roles, options = (
        choose_roles(source, "label", features=[*FEATURES, "price"]),
        ProfileOptions({"price": "continuous"}),
    )
    first, again = (make_profile(source, roles, True, options, ProcessGroup(), 1, tmp_path) for _ in range(2))
    assert (tmp_path / "profile.rank-0.bin").exists()
    assert same_axes(first.encoder, again.encoder)
    assert first.error.tolist() == again.error.tolist()
    assert (first.error > 0).tolist() == [name in ("single", "double", "price") for name in roles.features]
    assert (first.types, first.closed, first.n_rows) == (again.types, again.closed, again.n_rows)


@pytest.mark.parametrize("y", [pa.array([True, False]), pa.array([1, 2], pa.int8())], ids=["flags", "integers"])
def test_targets_are_read_as_numbers(y: pa.Array, tmp_path: Path) -> None:
    profile = profile_of([pa.record_batch({"x": [1.0, 2.0], "y": y})], "y", features=None)
    assert read_targets(profile, y, tmp_path) == [float(value) for value in y.to_pylist()]


def test_verbose_shows_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile_of(write_files(make_table(2000), tmp_path), verbose=True)
    shown = capsys.readouterr().err
    assert "profile" in shown
    assert "2000/2000" in shown.replace(",", "") or "2.00k/2.00k" in shown


def test_roles_name_the_nearest_column() -> None:
    source = open_source([pa.record_batch({"age": [31, 45], "city": ["a", "b"], "income": [1.0, 2.0]})])
    assert source is not None
    roles = choose_roles(source, "income")
    assert (roles.features, roles.names) == (("age", "city"), ["age", "city", "income"])
    with pytest.raises(ValueError, match="the table has no column 'incme'; did you mean 'income'"):
        choose_roles(source, "incme")
    with pytest.raises(ValueError, match="the table has no column 'w'; it has 'age', 'city', 'income'"):
        choose_roles(source, "income", "w")
    with pytest.raises(ValueError, match="'income' is target or weight"):
        choose_roles(source, "income", features=["age", "income"])
    target_only = open_source([pa.record_batch({"age": [31, 45]})])
    assert target_only is not None
    with pytest.raises(ValueError, match="no column besides 'age'"):
        choose_roles(target_only, "age")
