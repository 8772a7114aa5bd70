"""The feature store: damaged records, one writer, a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")


from neuralbasis.vision.features import FeatureStore


def test_damaged_records_are_absent(tmp_path: Path) -> None:
    keys = [bytes([k]) * 16 for k in range(3)]
    with FeatureStore(tmp_path / "a.store", (4,), "f4") as store:
        for k, key in enumerate(keys):
            store.put(key, np.full(4, k))
    data = bytearray((tmp_path / "a.store").read_bytes())
    data[-36 - 10] ^= 1  # within the second record
    (tmp_path / "a.store").write_bytes(data[:-1])  # the last record is truncated
    with FeatureStore(tmp_path / "a.store", (4,), "f4") as store:
        assert store.get(keys[0]).tolist() == [0] * 4
        assert store.get(keys[1]) is None
        assert store.get(keys[2]) is None
        store.put(keys[2], np.arange(4))
        assert store.get(keys[2]).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="not a feature store of arrays of shape"):
        FeatureStore(tmp_path / "a.store", (5,), "f4")


def test_a_store_has_one_writer_and_any_number_of_readers(tmp_path: Path) -> None:
    path, key = tmp_path / "a.store", b"k" * 16
    with FeatureStore(path, (4,), "f4") as store:
        store.put(key, np.arange(4))
        with pytest.raises(ValueError, match=r"a\.store is in use by another run"):
            FeatureStore(path, (4,), "f4")
        with open(path, "ab") as file:
            file.write(b"part of a record")
        before = path.read_bytes()
        with FeatureStore(path, (4,), "f4", is_read_only=True) as reader:
            assert reader.get(key).tolist() == [0, 1, 2, 3]
        assert path.read_bytes() == before
    with FeatureStore(path, (4,), "f4") as store:
        assert store.get(key).tolist() == [0, 1, 2, 3]
    assert path.read_bytes() == before[:-16]


FULL_DISK = """
import resource, signal, sys
import numpy as np
from neuralbasis.vision.features import FeatureStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with FeatureStore(sys.argv[1], (1000,), "f4") as store:
    store.put(b"a" * 16, np.ones(1000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))  # the next record does not fit
    try:
        store.put(b"b" * 16, np.ones(1000))
    except OSError as error:
        print(error.strerror)
    print(len(store), store.get(b"b" * 16), store.get(b"a" * 16).sum())
"""


def test_a_record_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    found = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path / "a.store"], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["File too large", "1 None 1000.0"]
    assert (tmp_path / "a.store").stat().st_size < 6000 - 1000
