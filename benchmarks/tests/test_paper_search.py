"""The paper's search: published ranges, trials on the validation part, records, and resumption."""

from __future__ import annotations

import json

import pytest
import tomllib

from benchmarks import baselines
from benchmarks.accuracy import tuning
from benchmarks.accuracy.measure import score
from benchmarks.datasets.paper import load, prepare
from benchmarks.paper.search import RANGES, choose_space, main, make_search, run_search, write_settings
from benchmarks.paper.tables import read_file
from neuralbasis.tuning.search import best_trial

DROPOUTS = [0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


def test_ranges_are_the_paper_s():
    assert RANGES["NBM"] == RANGES["NB²M"] == {
        "learning_rate": (1e-5, 1.0, "log"),
        "weight_decay": (1e-10, 1.0, "log"),
        "output_penalty": (1e-7, 100.0, "log"),
        "dropout": DROPOUTS,
        "basis_dropout": DROPOUTS,
    }  # fmt: skip
    assert set(RANGES["NAM"]) == {"learning_rate", "weight_decay", "output_penalty", "dropout", "feature_dropout"}
    assert set(RANGES["MLP"]) == {"shape", "learning_rate", "weight_decay", "dropout"}
    assert set(RANGES["EB²M"]) - set(RANGES["EBM"]) == {"interactions"}
    assert max(RANGES["XGBoost"]["n_estimators"]) == 1000
    published = read_file("optimal_hyper")
    for model in ("NBM", "NB²M"):
        for settings in published[model].values():
            for name in ("learning_rate", "weight_decay"):
                low, high, _ = RANGES[model][name]
                assert low <= settings[name] < high
            assert {settings["dropout"], settings["basis_dropout"]} <= set(DROPOUTS)


def test_a_trial_is_measured_on_the_validation_part():
    search = make_search("ca_housing", "XGBoost", None, {"n_jobs": 1}, 0, True, None)
    trial = run_search(search, 2)[1]
    splits = prepare(load("ca_housing", quick=True))
    model = baselines.get("xgboost").fit(
        splits.train.X, splits.train.y, splits.task, 0, quick=True, n_jobs=1, **trial.settings
    )
    assert trial.loss == pytest.approx(score(model, splits.valid.X, splits.valid.y, splits.task)["rmse"])


def test_a_higher_auroc_is_a_lower_loss():
    search = make_search("fico", "XGBoost", None, {"n_jobs": 1, "max_depth": 2}, 0, True, None)
    assert set(choose_space(search)) == {"n_estimators", "learning_rate", "subsample", "colsample_bytree"}
    assert all(-1 <= trial.loss <= 0 for trial in run_search(search, 2))


def test_trials_are_recorded_and_a_run_continues(tmp_path):
    out = tmp_path / "search.jsonl"
    search = make_search("fico", "XGBoost", None, {"n_jobs": 1}, 0, True, out)
    run_search(search, 2)
    trials = run_search(search, 3)
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["settings"] for line in lines] == [dict(trial.settings) for trial in trials]
    assert [-line["value"] for line in lines] == [trial.loss for trial in trials]
    assert {(line["data"], line["model"], line["metric"]) for line in lines} == {("fico", "XGBoost", "auroc")}
    assert all("commit" in line and "versions" in line for line in lines)


def test_a_failed_trial_is_recorded(tmp_path):
    out = tmp_path / "search.jsonl"
    search = make_search("fico", "XGBoost", None, {"n_jobs": 1, "tree_method": "none"}, 0, True, out)
    with pytest.warns(UserWarning, match="failed with"):
        trials = run_search(search, 2)
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 2
    assert all(trial.error is not None for trial in trials)
    assert all("error" in line and "value" not in line for line in lines)


def test_settings_are_written_as_the_table_has_them():
    search = make_search("fico", "NB²M", "grid", {}, 0, True, None)
    assert search.options["batch_size"] == 1024
    trials = run_search(search, 1)
    found = tomllib.loads(write_settings(search, best_trial(trials)))["NB²M"]["fico"]
    assert found.keys() == read_file("optimal_hyper")["NB²M"]["fico"].keys()
    assert (found["epochs"], found["batch_size"]) == (1000, 1024)
    for name, value in trials[0].settings.items():
        assert found[name] == pytest.approx(value, rel=1e-3)


def test_the_command(capsys):
    main(["--quick", "--data", "fico", "--model", "Linear", "--trials", "5"])
    said = capsys.readouterr().out
    assert "auroc, validation rows" in said
    assert "[Linear]\nfico = {" in said
    with pytest.raises(SystemExit):
        main(["--data", "fico", "--model", "tree"])
    assert "invalid choice: 'tree'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--data", "fico", "--model", "NB2M", "--variant", "tree"])
    assert "NB²M has no variant 'tree'; it has paper, grid" in capsys.readouterr().err


def test_what_tuning_gains_is_measured_on_test_rows(capsys, tmp_path):
    cell = tuning.measure_gain("diabetes", 3, n_trials=2, quick=True)
    assert cell["loss"] == "rmse"
    assert cell["validation"]["tuned"] == min(trial["loss"] for trial in cell["trials"])
    assert cell["validation"]["defaults"] == cell["trials"][0]["loss"]
    if not cell["settings"]:
        assert cell["test"]["tuned"] == cell["test"]["defaults"]
    line = {**cell, "data": "a", "validation": {"defaults": 2.0, "tuned": 1.0}, "test": {"defaults": 2.0, "tuned": 3.0}}
    assert tuning.write_gains([line])[0][:5] == ["a", "1", "0.5000", "1.500", "1.500 … 1.500"]
    (tmp_path / "cells").write_text(json.dumps({**line, "split": 7, "n_trials": 4}) + "\n")
    tuning.main(
        ["--problems", "a", "--splits", "1", "--first-split", "7", "--trials", "4", "--out", str(tmp_path / "cells")]
    )
    assert "| a " in capsys.readouterr().out
