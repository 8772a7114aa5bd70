"""Files of the paper's data sets: found, downloaded, or named in an error with the folder to place them in."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from benchmarks.datasets import paper
from benchmarks.datasets.paper import SETS, File
from benchmarks.datasets.paper.download import download, fetch

ROOT = Path(__file__).resolve().parents[2]
OTHER = "0" * 64  # no file's checksum


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder."""
    monkeypatch.setenv("NEURALBASIS_DATA", str(tmp_path))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    return tmp_path


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; the file "short" promises more bytes than it has."""

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path != "/short":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)
        return None


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server that has the file "numbers"."""
    served = tmp_path_factory.mktemp("served")
    (served / "numbers").write_bytes(b"1 2 3\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(served))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_download(folder: Path, address: str) -> None:
    download(f"{address}/numbers", folder / "set/numbers.txt")
    assert (folder / "set/numbers.txt").read_bytes() == b"1 2 3\n"
    assert [path.name for path in (folder / "set").iterdir()] == ["numbers.txt"]


@pytest.mark.parametrize(
    ("name", "sha256", "message"),
    [
        ("short", None, "1,000 bytes, got 10"),
        ("absent", None, "404"),
        ("numbers", OTHER, f"sha256 {OTHER}"),
    ],
)
def test_a_failed_download_leaves_nothing(folder: Path, address: str, name: str, sha256: str, message: str) -> None:
    with pytest.raises(OSError, match=rf"{message}.*place the file as .*numbers\.txt"):
        download(f"{address}/{name}", folder / "set/numbers.txt", sha256)
    assert list((folder / "set").iterdir()) == []


def test_without_a_network_the_file_to_place_is_named(folder: Path) -> None:
    with pytest.raises(OSError, match=r"could not be fetched: .*; place the file as .*numbers\.txt"):
        download("http://127.0.0.1:9/numbers", folder / "numbers.txt")
    assert list(folder.iterdir()) == []


def test_fetching_a_set(folder: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = (File(("set/numbers",), f"{address}/numbers"), File(("set/more",), f"{address}/more", optional=True))
    source = replace(SETS["higgs"], files=files)
    assert "set/numbers not in" in source.find_missing()
    fetch(source)
    assert source.find_missing() is None
    assert "Higgs can be read without this: " in capsys.readouterr().out
    assert [path.name for path in (folder / "set").iterdir()] == ["numbers"]


def test_what_scikit_learn_cannot_fetch_is_named(folder: Path) -> None:
    source = replace(SETS["ca_housing"], fetch=lambda home: urlopen("http://127.0.0.1:9/cal_housing.tgz"))
    with pytest.raises(
        OSError, match=r"could not fetch it: .* sklearn_home/cal_housing_py3\.pkz not in .*SCIKIT_LEARN_DATA"
    ):
        fetch(source)


def test_sets_without_a_download_name_the_file_to_place(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"mimic2/mimic2\.data not in .*PhysioNet"):
        paper.load("mimic2", fetch=True)


@pytest.mark.parametrize("key", SETS)
def test_missing_files_are_named_with_their_folder(folder: Path, key: str) -> None:
    problem = paper.find_missing(key)
    if key == "common_objects":
        assert problem is None
        return
    assert problem is not None
    assert all(file.paths[0] in problem for file in SETS[key].files if not file.optional)
    assert str(folder) in problem
    with pytest.raises(FileNotFoundError, match="NEURALBASIS_DATA"):
        paper.load(key)
    assert list(folder.iterdir()) == []  # nothing is downloaded without a request


def test_caches_of_scikit_learn_are_found(folder: Path) -> None:
    write(folder / "cache/cal_housing_py3.pkz", b"")
    write(folder / "cache/covertype/samples_py3", b"")
    write(folder / "cache/covertype/targets_py3", b"")
    assert [paper.find_missing(key) for key in ("ca_housing", "covertype")] == [None, None]


def test_the_command_lists_all_sets(folder: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.datasets.paper"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    states = {row.split("|")[2].strip(): row.split("|")[5].strip() for row in done.stdout.splitlines() if "|" in row}
    assert {key: states[key] for key in SETS} == dict.fromkeys(SETS, "missing") | {"common_objects": "drawn"}
    assert "FICO: fico_heloc/heloc_dataset_v1.csv not in" in done.stdout
    refused = subprocess.run([*command, "--fetch", "yahoo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "Yahoo: yahoo/set1.train.txt" in refused.stdout
