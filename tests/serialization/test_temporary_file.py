"""Temporary file: a target is replaced whole and keeps its permissions; files of killed processes are removed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from neuralbasis.serialization import replace_when_done

needs_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may change an owner")

WRITE = """
import sys, time
from neuralbasis.serialization.temporary_file import replace_when_done
with replace_when_done(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""

WRITE_AS_OTHER = """
import os, sys
from neuralbasis.serialization.temporary_file import replace_when_done
os.setgroups([])
os.setgid(1000)
os.setuid(1000)
with replace_when_done(sys.argv[1]) as file:
    file.write(b"new")
"""


def write(path: Path, data: bytes = b"new") -> None:
    with replace_when_done(path) as file:
        file.write(data)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def start_writer(path: Path) -> subprocess.Popen:
    """A process that is writing to a target and does not finish."""
    writer = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    return writer


def stop(writer: subprocess.Popen, how: signal.Signals) -> None:
    writer.send_signal(how)
    writer.communicate()
    assert writer.returncode == -how


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_file_of_a_killed_process_is_removed_by_the_next_write(tmp_path, how):
    target = tmp_path / "model.nbm"
    target.write_bytes(b"old")
    stop(start_writer(target), how)
    assert len(os.listdir(tmp_path)) == 2
    assert target.read_bytes() == b"old"
    write(target)
    assert os.listdir(tmp_path) == ["model.nbm"]
    assert target.read_bytes() == b"new"


def test_files_of_running_processes_and_of_other_targets_stay(tmp_path):
    target, other = tmp_path / "model.nbm", tmp_path / "model.nbm.old"
    running = start_writer(target)
    try:
        stop(start_writer(other), signal.SIGKILL)
        kept = set(os.listdir(tmp_path))
        assert len(kept) == 2
        write(target)
        assert set(os.listdir(tmp_path)) == kept | {"model.nbm"}
    finally:
        stop(running, signal.SIGKILL)
    write(target)
    write(other)
    assert sorted(os.listdir(tmp_path)) == ["model.nbm", "model.nbm.old"]


def test_threads_may_write_to_one_target(tmp_path):
    target, errors = tmp_path / "model.nbm", []

    def work(letter: bytes) -> None:
        try:
            for _ in range(30):
                write(target, 10_000 * letter)
                assert len(set(target.read_bytes())) == 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["model.nbm"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664, 0o400])
def test_a_replaced_file_keeps_its_mode(tmp_path, mode):
    target = tmp_path / "model.nbm"
    target.write_bytes(b"old")
    target.chmod(mode)
    with replace_when_done(target) as file:
        file.write(b"new")
        (temporary,) = (path for path in tmp_path.iterdir() if path.name.endswith(".part"))
        assert mode_of(temporary) == 0o600
    assert mode_of(target) == mode
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o027])
def test_a_new_file_and_its_temporary_file_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        with replace_when_done(tmp_path / "model.nbm") as file:
            file.write(b"new")
            (temporary,) = tmp_path.iterdir()
            assert mode_of(temporary) == 0o666 & ~mask
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "model.nbm") == 0o666 & ~mask


@needs_root
def test_a_replaced_file_keeps_its_owner(tmp_path):
    target = tmp_path / "model.nbm"
    target.write_bytes(b"old")
    target.chmod(0o640)
    os.chown(target, 12345, 23456)
    write(target)
    found = target.stat()
    assert (found.st_uid, found.st_gid, mode_of(target)) == (12345, 23456, 0o640)


@needs_root
def test_if_the_group_cannot_be_kept_its_rights_are_dropped(tmp_path):
    target = tmp_path / "folder" / "model.nbm"
    target.parent.mkdir()
    target.write_bytes(b"old")
    target.chmod(0o664)
    os.chown(target, 12345, 23456)
    os.chown(target.parent, 1000, 1000)
    for folder in target.parents:  # pytest's folders are not readable for others
        if "pytest" in str(folder):
            folder.chmod(0o755)
    subprocess.run([sys.executable, "-c", WRITE_AS_OTHER, str(target)], check=True)
    found = target.stat()
    assert (found.st_uid, found.st_gid, mode_of(target)) == (1000, 1000, 0o604)


@pytest.mark.parametrize("name", ["x" * 255, "模" * 85, "a b*[c]?.nbm"])
def test_any_name_that_the_file_system_allows_is_written(tmp_path, name):
    write(tmp_path / name)
    write(tmp_path / name, b"newer")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"newer"}


def test_a_failing_block_keeps_the_target_without_leftovers(tmp_path):
    target = tmp_path / "model.nbm"
    target.write_bytes(b"old")
    with pytest.raises(TypeError), replace_when_done(target) as file:
        file.write("text instead of bytes")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"model.nbm": b"old"}
