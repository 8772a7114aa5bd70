"""Progress bars appear in a terminal after three seconds, and nowhere else unless requested."""

import os
import struct
import subprocess
import sys

import pytest

CODE = """
import sys, time
from neuralbasis.progress import open_bar
with open_bar(100, "stage", "step", shown=False) as bar:
    for _ in range(int(sys.argv[1])):
        time.sleep(0.1)
        bar.update(1)
"""


def run_in_terminal(n_steps: int, **variables: str) -> str:
    """What a process with a terminal as its stderr writes there."""
    pty = pytest.importorskip("pty")
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))  # lines and columns
    environment = {**os.environ, **variables}
    process = subprocess.Popen([sys.executable, "-c", CODE, str(n_steps)], stderr=writer, env=environment)
    os.close(writer)
    parts = []
    while True:
        try:
            part = os.read(reader, 4096)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(reader)
    assert process.wait() == 0
    return b"".join(parts).decode()


def test_a_bar_appears_in_a_terminal_after_three_seconds() -> None:
    assert "stage" in run_in_terminal(36)
    assert run_in_terminal(5) == ""
    assert run_in_terminal(34, RANK="1") == ""


def test_no_bar_without_a_terminal() -> None:
    run = subprocess.run([sys.executable, "-c", CODE, "34"], capture_output=True, text=True, check=True)
    assert run.stderr == ""
