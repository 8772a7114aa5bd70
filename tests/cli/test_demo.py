"""`neuralbasis demo`: the found curves are near the true ones, the comparison is fair, and the page opens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss

import neuralbasis
from neuralbasis.cli.demo import EFFECTS, N_TEST, simulate
from tests.browser import Browser, find_browser
from tests.cli.running import fails, read_csv, run


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> tuple[Path, str]:
    """The folder and the printed text of one demonstration."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "demo"
    return folder, run("demo", "-o", folder).stdout


def test_the_model_finds_the_true_curves_and_beats_what_has_no_curves(shown) -> None:
    folder, printed = shown
    found = {line[0]: float(line[1]) for line in re.findall(r"^(\S.*?)  +(0\.\d+)  +0\.\d+", printed, re.MULTILINE)}
    assert next(iter(found)) == "the true risks"
    assert found["neuralbasis"] < found["boosted trees"] < found["logistic regression"]
    test = simulate(N_TEST, seed=1)
    model = neuralbasis.load(folder / "patients.nbm")
    assert found["neuralbasis"] == round(log_loss(test.y == "yes", model.predict_proba(test.columns)[:, 1]), 4)
    assert found["the true risks"] == round(log_loss(test.y == "yes", test.truth), 4)
    contributions = dict(zip(model.term_names, model.contributions(test.columns)[:, :, 0].T, strict=True))
    for name, effect in EFFECTS.items():
        truth = effect(test.columns[name])
        known = ~np.isnan(truth)
        wrong = np.abs(contributions[name] - truth + np.nanmean(truth))[known].mean()
        assert wrong < 0.15, name
    assert "age & temperature" in contributions


def test_the_tables_serve_the_printed_commands(shown, tmp_path, monkeypatch) -> None:
    folder, printed = shown
    assert printed.endswith("neuralbasis report your_table.nbm\n")
    assert f"Open {folder / 'index.html'}" in printed
    monkeypatch.chdir(tmp_path)
    out = read_csv(run("predict", folder / "patients.nbm", folder / "new_patients.csv", "--keep", "died").stdout)
    assert len(out["prediction"]) == 200
    assert np.mean(np.array(out["prediction"]) == out["died"]) > 0.75
    assert "--force replaces it" in fails("demo", "-o", folder)


@pytest.mark.skipif(find_browser() is None, reason="no Chromium")
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_opens_without_errors_and_without_a_network(shown, width) -> None:
    folder, _ = shown
    with Browser() as browser:
        page = browser.open(folder / "index.html", width=width)
        assert page.errors == []
        assert [url for url in page.requests if not url.startswith("file:")] == []
        assert page.run("document.documentElement.scrollWidth") == width
        assert page.run("document.querySelectorAll('svg').length") == 8
        assert page.run("[...document.querySelectorAll('svg path.truth')].length") == 5 + 3 + 2 + 2
        oxygen = "[...document.querySelectorAll('figure')].find((f) => f.textContent.includes('Oxygen'))"
        assert page.run(f"{oxygen}.querySelectorAll('rect.count').length") in range(15, 26)  # one bar for each percent
        assert page.run("document.querySelector('a').getAttribute('href')") == "model.html"
        assert (folder / "model.html").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="xdg-open is Linux's")
@pytest.mark.parametrize(("screen", "opened"), [({"DISPLAY": ":0"}, ["page.html"]), ({}, [])])
def test_the_page_opens_for_a_person_at_a_screen_only(screen: dict, opened: list, tmp_path) -> None:
    """A terminal of its own, and a browser that writes down what it should open."""
    (tmp_path / "xdg-open").write_text('#!/bin/sh\necho "$1" >> opened\n', encoding="utf-8")
    (tmp_path / "xdg-open").chmod(0o755)
    hidden = {"DISPLAY", "WAYLAND_DISPLAY"}
    env = {name: value for name, value in os.environ.items() if name not in hidden} | screen
    env["PATH"] = f"{tmp_path}{os.pathsep}{env['PATH']}"
    code = "from pathlib import Path; from neuralbasis.cli.terminal import open_page; open_page(Path('page.html'))"
    import pty

    child, terminal = pty.openpty()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=terminal, check=True)
    os.close(terminal)
    os.close(child)
    deadline = time.monotonic() + (5 if opened else 0.2)
    while time.monotonic() < deadline and not (tmp_path / "opened").exists():
        time.sleep(0.02)
    assert [line for path in tmp_path.glob("opened") for line in path.read_text().splitlines()] == opened
