"""Text from untrusted files: a terminal gets escaped control characters, files and pipes get the exact text."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralbasis
from neuralbasis import AdditiveModel
from neuralbasis.cli import main
from neuralbasis.encoding import Axis, Encoder
from neuralbasis.explain import explain_class, explain_global
from neuralbasis.model.summary import Summary
from neuralbasis.vision.detection import Detection
from tests.models import build_model

CONTROLS = [*map(chr, [*range(32), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F])]
CONTROLS += [*map(chr, [*range(0x2028, 0x202F), *range(0x2066, 0x206A)])]
COLOURS = re.compile("\x1b\\[(3[123]|0)m")
BAR = re.compile(
    "\r(?=\x1b\\[\\?25[lh]|\x1b\\[K|\\S+: +\\d+%)|\x1b\\[(\\?25[lh]|K)"
)  # cursor movements of a progress bar
# Window title, clipboard, clear screen, an 8-bit sequence, an extra line, a reversed name.
NASTY = "\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\nerror: fake\r\u202egnp.exe\u2066"


def draw_texts(characters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.text(st.one_of(st.sampled_from(CONTROLS), st.sampled_from("ab \\\"'[]"), characters), max_size=12)


texts, file_texts = draw_texts(st.characters()), draw_texts(st.characters(codec="utf-8"))  # files hold no surrogates


def holds_controls(text: str, allowed: str = "\n") -> list[str]:
    found = set(CONTROLS) - set(allowed)
    return [letter for letter in text if letter in found or "\ud800" <= letter <= "\udfff"]


def rename(model: AdditiveModel, name: str, level: str, label: str) -> AdditiveModel:
    """The model with these texts in its columns, levels, classes and summary."""

    def renamed(axis: Axis) -> Axis:
        levels = None if axis.levels is None else tuple(f"{level}{text}" for text in axis.levels)
        return replace(axis, name=f"{axis.name}{name}", levels=levels)

    return replace(
        model,
        encoder=Encoder(tuple(map(renamed, model.encoder.axes))),
        shapes=tuple(replace(shape, axes=tuple(map(renamed, shape.axes))) for shape in model.shapes),
        classes=None if model.classes is None else np.array([f"{text}{label}" for text in model.classes]),
        summary=Summary(label, {}, 9, 5, label, 0.0, 1.0, None, {}, label, {"neuralbasis": label}),
    )


def build_nasty(name: str = NASTY, level: str = NASTY, label: str = NASTY) -> AdditiveModel:
    rng = np.random.default_rng(3)
    model = build_model(rng, orders=(1, 2), link="mlogit", n_outputs=3, classes=np.array(["a", "b", "c"]))
    return rename(model, name, level, label)


@settings(max_examples=50, deadline=None)
@given(texts)
def test_only_control_characters_are_escaped(text: str) -> None:
    plain = "".join(letter for letter in text if letter not in holds_controls(text, ""))
    for label in (text, plain):
        shown = str(explain_class(build_nasty("", "", label), f"a{label}")).splitlines()[0]
        assert holds_controls(shown, allowed="") == []
        assert (f"a{label}" in shown) == (label == plain)


def test_letters_and_joiners_are_not_escaped() -> None:
    text = "\u0645\u06cc\u200c\u062e \U0001f468\u200d\U0001f33e 日本 é\u00a0²"
    assert f"x0{text}" in str(build_nasty(text, "", ""))


@settings(max_examples=25, deadline=None)
@given(texts, texts, texts)
def test_every_text_of_a_model_is_printable(name: str, level: str, label: str) -> None:
    model = build_nasty(name, level, label)
    shown = [str(model), str(model.scorecard())]
    shown += [str(explain_class(model, model.classes[0])), *map(str, explain_global(model).by_class().values())]
    ones = np.ones((1, 1))
    shown.append(str(Detection((name,), np.array([0.5]), ones, ones, np.array([1]), 1, 1)))
    for text in shown:
        assert holds_controls(COLOURS.sub("", text)) == []
    lines = str(model).splitlines()
    assert sum(line.startswith("x") for line in lines) == len(model.shapes)  # one line per term


@settings(max_examples=25, deadline=None)
@given(file_texts, file_texts, file_texts)
def test_commands_print_every_text_of_a_model(tmp_path_factory, name: str, level: str, label: str) -> None:
    model, folder = build_nasty(name, level, label), tmp_path_factory.mktemp("commands")
    model.save(folder / "m.nbm")
    row = {axis.name: [axis.levels[0] if axis.levels else 0.0] for axis in model.encoder.axes}
    pyarrow.parquet.write_table(pa.table(row), folder / "row.parquet")
    shown, shown_json, explained = (
        CliRunner().invoke(main, [command, str(folder / "m.nbm"), *others], catch_exceptions=False).output
        for command, others in (("show", []), ("show", ["--json"]), ("explain", [str(folder / "row.parquet")]))
    )
    for text in (shown, shown_json, explained):
        assert holds_controls(text) == []
    found = json.loads(shown_json)
    assert [column["name"] for column in found["columns"]] == list(model.encoder.names)
    assert found["classes"] == model.classes.tolist()


def test_a_newline_in_a_cell_does_not_break_the_layout(nasty_files) -> None:
    folder, model, _ = nasty_files
    command = ["explain", f"{folder}/m.nbm", f"{folder}/rows.csv", "--delimiter", ","]
    lines = CliRunner().invoke(main, command).output.splitlines()
    assert len(lines) == len(model.shapes) + 4  # the intercept, the score, the probability and the prediction
    assert len({line.index("█") for line in lines if "█" in line}) == 1
    coloured = CliRunner().invoke(main, command, color=True).output
    assert "\x1b[31m█" in coloured
    assert "█\x1b[0m\n" in coloured


PROBE = """
import json, sys
from neuralbasis.cli import main
for command in json.loads(sys.argv[1]):
    try:
        main(command)
    except SystemExit as end:
        print("exit", end.code or 0, flush=True)
"""


def run_on_terminal(commands: list[list[str]], folder: Path) -> str:
    """Everything that these commands, run in turn, write to a terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", PROBE, json.dumps(commands)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=environment):
        os.close(follower)
        raw = b""
        try:
            while part := os.read(leader, 65536):
                raw += part
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    return raw.decode()


@pytest.fixture(scope="module")
def nasty_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nasty")
    model = build_nasty()
    model.save(folder / "m.nbm")
    target, nasty = "target" + NASTY, list(model.encoder.names)
    with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*nasty, target, "keep" + NASTY])
        for k in range(15):
            values = [axis.levels[k % 3] if axis.levels else k / 2 for axis in model.encoder.axes]
            writer.writerow([*values, str(model.classes[k % 3]), NASTY])
    return folder, model, target


def test_a_terminal_gets_no_control_characters_except_colours(nasty_files) -> None:
    folder, model, target = nasty_files
    name, term = model.encoder.names[0], model.term_names[0]
    comma, quick = ["--delimiter", ","], ["--set", "max_steps=5", "--set", "outer_bags=2", "--interactions", "0"]
    commands = {
        0: [
            ["show", "m.nbm"],
            ["show", "m.nbm", "--json"],
            ["show", "m.nbm", "--term", term],
            ["explain", "m.nbm", "rows.csv", *comma],
            ["explain", "m.nbm", "--values", f"{name}=1"],
            ["explain", "m.nbm", "rows.csv", "--json", *comma],
            ["evaluate", "m.nbm", "rows.csv", "--target", target, *comma],
            ["predict", "m.nbm", "rows.csv", "--contributions", "--keep", "keep" + NASTY, *comma],
            ["predict", "m.nbm", "rows.csv", "-o", "out.csv", "--keep", "keep" + NASTY, *comma],
            *(["export", "m.nbm", "--to", kind] for kind in ("json", "python", "c")),
            ["export", "m.nbm", "--to", "sql", "--table", NASTY],
            ["fit", "rows.csv", "--target", target, "--model", "new.nbm", *comma, *quick],
        ],
        1: [
            ["show", "m.nbm", "--term", "no" + NASTY],
            ["evaluate", "m.nbm", "rows.csv", "--target", "no" + NASTY, *comma],
            ["fit", "rows.csv", "--target", name, "--task", "regression", "--exclude", "none" + NASTY, *comma],
            ["--debug", "plot", "m.nbm", "-o", "plot.png", "--term", "no" + NASTY],
        ],
    }
    every = [command for listed in commands.values() for command in listed]
    shown = run_on_terminal(every, folder)
    codes = [int(code) for code in re.findall("^exit (\\d)\r$", shown, re.MULTILINE)]
    assert codes == [code for code, listed in commands.items() for _ in listed], shown
    assert holds_controls(BAR.sub("", COLOURS.sub("", shown).replace("\r\n", "\n")), allowed="\n\t") == []
    assert "\\x1b]52;c;ZXZpbA==\\x07" in shown
    assert "\x1b[31merror:\x1b[0m the model has no term" in shown
    for command, text in zip(every, re.split("^exit \\d\r$", shown, flags=re.MULTILINE), strict=False):
        is_data = command[0] in ("predict", "export")  # line breaks within cells stay
        assert is_data or not re.search("^error: fake", text, re.MULTILINE)


def test_files_and_pipes_get_the_exact_text(nasty_files) -> None:
    folder, model, _ = nasty_files
    keep = "keep" + NASTY
    found = CliRunner().invoke(
        main, ["predict", f"{folder}/m.nbm", f"{folder}/rows.csv", "--keep", keep, "--delimiter", ","]
    )
    header, first, *_ = csv.reader(found.stdout_bytes.decode().splitlines(keepends=True))
    assert (header[0], first[0]) == (keep, NASTY)
    found = CliRunner().invoke(main, ["show", f"{folder}/m.nbm", "--json"])
    assert [column["name"] for column in json.loads(found.stdout)["columns"]] == list(model.encoder.names)
    found = CliRunner().invoke(main, ["export", f"{folder}/m.nbm", "--to", "sql"])
    assert found.stdout_bytes.decode() == neuralbasis.export.to_sql(model)
