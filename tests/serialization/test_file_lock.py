"""Folder lock: exclusive or shared, and released when its process ends."""

from __future__ import annotations

import signal
import subprocess
import sys

from neuralbasis.serialization import FolderLock

HOLD = """
import sys, time
from neuralbasis.serialization.file_lock import FolderLock
lock = FolderLock(sys.argv[1])
print(lock.take_alone(), flush=True)
time.sleep(60)
"""


def test_exclusive_or_shared(tmp_path):
    one, other, third = (FolderLock(tmp_path / "new") for _ in range(3))
    assert one.take_alone()
    assert not other.take_alone()
    one.share()
    other.share()
    assert not third.take_alone()
    assert not one.is_last()
    one.release()
    assert other.is_last()
    assert not third.take_alone()
    other.release()
    assert list((tmp_path / "new").iterdir()) == []
    assert third.take_alone()
    third.release()
    third.release()


def test_a_folder_removed_with_its_lock_is_created_again(tmp_path):
    one, other = FolderLock(tmp_path / "new"), FolderLock(tmp_path / "new")
    assert one.take_alone()
    assert not other.take_alone()  # has the file open
    one.release()
    (tmp_path / "new").rmdir()
    assert other.take_alone()
    assert (tmp_path / "new" / ".lock").exists()
    other.release()


def test_a_killed_process_releases_its_lock(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "True\n"
    lock = FolderLock(tmp_path)
    assert not lock.take_alone()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert (tmp_path / ".lock").exists()
    assert lock.take_alone()
    lock.release()
