"""BlockLoader: pools hold all rows outside the sample once, with its weights and the scores of earlier stages."""

from __future__ import annotations

import numpy as np
import pytest

from neuralbasis.training import block_loader
from tests.training.test_tables import FEATURES, make, make_table, small_memory, write_files  # noqa: F401

LIMIT = 500_000


@pytest.fixture
def pools(monkeypatch):
    """(room, bucket, pool) of every pool that is filled; arrays are copied, since the next pool overwrites them."""
    found, fill = [], block_loader._Buffer.fill

    def watch(room, bucket):
        pool = fill(room, bucket)
        found.append((room, bucket, {
            "target": pool.target.numpy().copy(), "shares": pool.shares.numpy().copy(), "copies": pool.copies,
            "init": None if pool.init is None else pool.init.numpy().copy(),
            "positions": pool.engine.positions.copy(),
        }))  # fmt: skip
        return pool

    monkeypatch.setattr(block_loader._Buffer, "fill", watch)
    return found


@pytest.mark.usefixtures("small_memory")
def test_a_pass_has_every_row_outside_the_sample_once(pools, tmp_path):
    table = make_table("regression", 8000)
    model = make("regression", max_steps=150, storage__memory_limit=400_000, feature_names=FEATURES)
    model.fit(write_files(table, tmp_path), "target")
    room = pools[0][0]
    n_pools, (n_sample, *sizes) = room.loader.cache.counts.shape[1] - 1, room.loader.cache.counts[0]
    assert n_pools > 1
    first_pass = [pool for _, _, pool in pools[:n_pools]]
    buckets = [bucket for _, bucket, _ in pools]
    assert sorted(buckets[:n_pools]) == list(range(1, n_pools + 1))
    assert buckets[:n_pools] != buckets[n_pools : 2 * n_pools]  # another order in every pass
    assert sorted(len(pool["target"]) for pool in first_pass) == sorted(sizes)
    drawn = np.concatenate([pool["target"] for pool in first_pass]).astype(float) * room.loss.unit
    drawn, y = np.sort(drawn + room.loss.shift), table["target"].to_numpy()
    assert len(drawn) == 8000 - n_sample
    y = np.sort(y)
    above = np.searchsorted(y, drawn).clip(1, len(y) - 1)
    nearest = np.minimum(np.abs(y[above] - drawn), np.abs(y[above - 1] - drawn))
    assert nearest.max() < 1e-5  # rows of the table, none twice
    assert len(np.unique(drawn.round(9))) == len(drawn)
    for pool in first_pass:
        np.testing.assert_array_equal(pool["shares"], 1.0)
        assert (pool["copies"] == 1).all()
        assert pool["positions"].shape == (len(pool["target"]), 5)


@pytest.mark.usefixtures("small_memory")
def test_weights_do_not_depend_on_how_often_rows_are_drawn(pools, tmp_path):
    table = make_table("binary", 6000)
    model = make("binary", storage__memory_limit=LIMIT, feature_names=FEATURES)
    model.fit(write_files(table, tmp_path), "target", "weight")
    weights = table["weight"].to_numpy()
    mean = weights[weights > 0].mean()
    room, _, pool = pools[0]
    is_rare = pool["target"] == 1
    assert is_rare.mean() < 0.05
    assert set(pool["copies"][is_rare]) == {room.copies[1]}
    assert room.copies[1] > 1 == room.copies[0]
    shown = pool["shares"] * pool["copies"][:, None] / room.mean_copies * mean
    assert np.abs(shown - shown.round()).max() < 1e-6
    assert set(shown.round().ravel()) == {1.0, 2.0}
    drawn = (pool["shares"] * pool["copies"][:, None]).sum() / pool["copies"].sum() / pool["shares"].shape[1]
    assert drawn == pytest.approx(1, abs=0.1)  # the mean over what is drawn


@pytest.mark.usefixtures("small_memory")
def test_a_later_stage_starts_from_the_scores_of_the_first(pools, tmp_path):
    table, given = make_table("regression", 6000), {"storage__memory_limit": LIMIT, "feature_names": FEATURES}
    files = write_files(table, tmp_path)
    first = make("regression", **given).fit(files, "target")
    pools.clear()
    numbers: dict[int, np.ndarray] = {}
    read = block_loader.Cache.read

    def keep(cache, bucket, *ends):
        block = read(cache, bucket, *ends)
        numbers.setdefault(bucket, block.numbers)
        return block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_loader.Cache, "read", keep)
        make("regression", **given, interactions=[("x0", "x1")]).fit(files, "target")
    later = [(bucket, pool) for _, bucket, pool in pools if pool["init"] is not None]
    assert len({bucket for bucket, _ in later}) > 1
    for bucket, pool in later:
        X = {name: numbers[bucket][:, index] for index, name in enumerate(FEATURES[:4])}
        levels = np.array(first.model_.encoder.axes[4].levels)
        expected = first.predict(X | {"level": levels[numbers[bucket][:, 4].astype(int)]})
        assert np.corrcoef(pool["init"].mean(axis=1)[:, 0], expected)[0, 1] > 1 - 1e-8
