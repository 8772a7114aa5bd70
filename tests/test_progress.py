"""Progress bars appear in a terminal after three seconds, and nowhere else unless requested."""

import os
import struct
import subprocess
import sys

import pytest

from neuralbasis import progress

CODE = """
import sys, time
from neuralbasis import progress
progress.DELAY /= 5  # of three seconds
with progress.open_bar(100, "stage", "step", shown=False) as bar:
    for _ in range(int(sys.argv[1])):
        time.sleep(0.02)
        bar.update(1)
        bar.set_postfix_str("loss=0.5")
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
    assert progress.DELAY == 3
    assert "stage" in run_in_terminal(36)
    assert run_in_terminal(5) == ""
    assert run_in_terminal(34, RANK="1") == ""


def test_a_notebook_without_widgets_has_no_warning_and_no_bar_of_a_short_fit() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    code = CODE.replace("int(sys.argv[1])", "COUNT")
    cells = [nbformat.v4.new_code_cell(code.replace("COUNT", str(count))) for count in (5, 36)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    assert cells[0].outputs == notebook.cells[0].outputs == []
    assert "stage" in str(notebook.cells[1].outputs)


def test_no_bar_without_a_terminal() -> None:
    run = subprocess.run([sys.executable, "-c", CODE, "34"], capture_output=True, text=True, check=True)
    assert run.stderr == ""
