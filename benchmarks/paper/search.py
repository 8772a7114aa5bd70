"""The paper's random search: settings drawn from its ranges, compared on the validation part of a data set.

    python -m benchmarks run paper.search --data fico --model NBM --trials 20 --budget 30m
    python -m benchmarks run paper.search --data ca_housing --model NAM --trials 50 --set epochs=100

Every trial is recorded, and a run continues an earlier one with the same settings. The test part is never read. The
best settings are printed last, in the format of tables/optimal_hyper.toml. `--set` fixes options of the learner,
`--variant` names another row of tables/models.toml, such as `grid`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuralbasis.tuning.search import DROPOUTS, PAPER_RANGES, SAMPLERS, Trial, best_trial, search

from .. import baselines
from ..datasets.paper import SETS, Splits, find_missing, load, prepare
from ..harness import RESULTS, hide_folders, read_option, read_seconds
from ..results.jsonl import append_line
from ..results.markdown import format_number, print_table
from ..results.provenance import describe_origin
from .jobs import find_metrics
from .tables import GIVEN_ALL_ROWS, read_data, read_file, read_model

RECORDS = RESULTS / "search.jsonl"
N_LISTED = 10

# PAPER appendix, "Hyper-parameters"; restricted to options that our learners have.
NAM_RANGES = {name: PAPER_RANGES[name] for name in ("learning_rate", "weight_decay", "output_penalty", "dropout")}
NAM_RANGES["feature_dropout"] = DROPOUTS
LEAVES = [1, 2, 4, 8, 10, 15, 20, 25, 50]
BAGS = [1, 2, 4, 8, 16, 32, 64, 128]
# DIFF: EBM no longer has the parameter `binning`.
EBM_RANGES: dict[str, Any] = {
    "max_bins": [8, 16, 32, 64, 128, 256, 512],
    "learning_rate": (1e-6, 100.0, "log"),
    "max_rounds": [1000, 2000, 4000, 8000, 16000],
    "min_samples_leaf": LEAVES,
    "max_leaves": LEAVES,
    "inner_bags": BAGS,
    "outer_bags": BAGS,
}
RANGES: dict[str, dict[str, Any]] = {
    # DIFF: solved in closed form without a learning rate; the learner chooses its penalty on the validation rows.
    "Linear": {},
    "MLP": {
        "shape": [0, 1, 2],
        "learning_rate": PAPER_RANGES["learning_rate"],
        "weight_decay": PAPER_RANGES["weight_decay"],
        "dropout": DROPOUTS,
    },
    "NAM": NAM_RANGES,
    "NA²M": NAM_RANGES,
    "NBM": PAPER_RANGES,
    "NB²M": PAPER_RANGES,
    "EBM": EBM_RANGES,
    "EB²M": {"interactions": [0, 2, 4, 8, 16, 32, 64, 128, 256, 512], **EBM_RANGES},
    "XGBoost": {
        "n_estimators": [1, 2, 4, 8, 10, 20, 50, 100, 200, 250, 500, 1000],
        "max_depth": [0, 2, 5, 10, 20, 25, 50, 100, 2000],  # 0 is no limit
        "learning_rate": (0.0, 1.0),
        "subsample": (0.0, 1.0),
        "colsample_bytree": (0.0, 1.0),
    },
}


@dataclass(frozen=True, eq=False)
class Search:
    """A learner with its fixed options and rows, and the file of its trials."""

    data: str
    model: str
    variant: str
    learner: str
    options: dict[str, Any]
    splits: Splits
    seed: int
    quick: bool
    out: Path | None

    def measure(self, settings: Mapping[str, Any]) -> float:
        """The loss of a trial; it is recorded also if it fails."""
        data, started = read_data()[self.data], time.monotonic()
        line = {**self.identify(), "settings": dict(settings), "metric": data.metric}
        try:
            line["value"] = find_metrics(self.fit(settings), self.splits.valid, self.splits.task)[data.metric]
        except Exception as error:
            line["error"] = hide_folders(f"{type(error).__name__}: {error}")
            raise
        finally:
            line |= {"seconds": time.monotonic() - started, **describe_origin()}
            if self.out is not None:
                append_line(self.out, line)
        return line["value"] if data.lower_is_better else -line["value"]

    def fit(self, settings: Mapping[str, Any]) -> Any:
        """Fit on the training part; networks may stop early by the validation part."""
        train, valid = self.splits.train, self.splits.valid
        validation = None if self.learner in (*GIVEN_ALL_ROWS, "xgboost") else (valid.X, valid.y)
        options = {"quick": self.quick, "validation": validation, **self.options, **settings}
        return baselines.get(self.learner).fit(train.X, train.y, self.splits.task, self.seed, **options)

    def identify(self) -> dict[str, Any]:
        """Fields that identify a search."""
        place = {"data": self.data, "model": self.model, "variant": self.variant, "learner": self.learner}
        return {**place, "options": self.options, "seed": self.seed, "quick": self.quick}

    @property
    def storage(self) -> Path | None:
        name = f"{self.data} {self.model} {self.variant}.trials"
        return None if self.out is None else self.out.with_suffix(".trials") / name


def make_search(
    data: str, model: str, variant: str | None, options: Mapping[str, Any], seed: int, quick: bool, out: Path | None
) -> Search:
    """Options are those of the model's row, its published epochs and batch size, and the given ones."""
    models = read_file("models")
    variant = variant or ("paper" if "paper" in models[model] else "default")
    recipe = models[model][variant]
    published = read_file("optimal_hyper").get(recipe.get("settings"), {}).get(data, {})
    length = {name: published[name] for name in ("epochs", "batch_size") if name in published}
    splits = load(data, quick)
    splits = splits if recipe["learner"] in GIVEN_ALL_ROWS else prepare(splits)
    fixed = {**recipe.get("options", {}), **length, **options}
    return Search(data, model, variant, recipe["learner"], fixed, splits, seed, quick, out)


def choose_space(search_run: Search) -> dict[str, Any]:
    """The model's ranges without fixed options."""
    return {name: values for name, values in RANGES[search_run.model].items() if name not in search_run.options}


def run_search(search_run: Search, n_trials: int, budget: float | None = None, sampler: str = "random") -> list[Trial]:
    """Earlier trials and those that start within the budget."""
    space = choose_space(search_run)
    if search_run.storage is not None:
        search_run.storage.parent.mkdir(parents=True, exist_ok=True)
    return search(
        search_run.measure, space, n_trials=n_trials if space else 1, time_limit=budget, sampler=sampler,
        storage=search_run.storage, random_state=search_run.seed, verbose=True,
        identity={name: repr(value) for name, value in search_run.identify().items()},
    )  # fmt: skip


def write_settings(search_run: Search, best: Trial) -> str:
    """The best settings in the format of `tables/optimal_hyper.toml`."""
    length = {name: search_run.options[name] for name in ("epochs", "batch_size") if name in search_run.options}
    fields = ", ".join(f"{name} = {write_value(value)}" for name, value in {**length, **best.settings}.items())
    name = search_run.model if search_run.model.isascii() else f'"{search_run.model}"'
    return f"[{name}]\n{search_run.data} = {{ {fields} }}"


def write_value(value: Any) -> str:
    """
    >>> write_value(0.0213456), write_value(1.23456e-7), write_value(64), write_value(0.0)
    ('0.02135', '1.235e-07', '64', '0.0')
    """
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.4g}"
    return text if "." in text or "e" in text else f"{text}.0"


def list_best(search_run: Search, trials: Sequence[Trial]) -> list[list[str]]:
    """One row per trial, the best first."""
    sign = 1 if read_data()[search_run.data].lower_is_better else -1
    lines = []
    for trial in sorted(trials, key=lambda trial: (trial.error is not None, trial.loss))[:N_LISTED]:
        value = None if trial.error else sign * trial.loss
        settings = ", ".join(f"{name}={write_value(value)}" for name, value in trial.settings.items())
        lines.append(
            [str(trial.number), format_number(value, 4), format_number(trial.seconds), trial.error or settings]
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, choices=list(SETS), help="data set of the paper")
    known = f"one of {', '.join(RANGES)}; NB2M is NB²M"
    parser.add_argument("--model", required=True, type=read_model, choices=list(RANGES), metavar="NAME", help=known)
    parser.add_argument("--variant", help="row of tables/models.toml; paper or default if omitted")
    parser.add_argument("--trials", type=int, default=20, help="number of trials, including those of earlier runs")
    parser.add_argument("--budget", type=read_seconds, help="duration such as 30m after which no trial starts")
    parser.add_argument("--sampler", choices=SAMPLERS, default="random")
    parser.add_argument("--set", nargs="+", type=read_option, default=[], metavar="NAME=VALUE", help="fixed options")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws and of the fits")
    parser.add_argument("--out", type=Path, default=RECORDS, help="file of records")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table, few steps, nothing recorded")
    given = parser.parse_args(arguments)
    variants = read_file("models")[given.model]
    if given.variant not in (None, *variants):
        parser.error(f"{given.model} has no variant {given.variant!r}; it has {', '.join(variants)}")
    if not given.quick and (reason := find_missing(given.data)):
        parser.error(reason)
    out = None if given.quick else given.out
    search_run = make_search(given.data, given.model, given.variant, dict(given.set), given.seed, given.quick, out)
    trials = run_search(search_run, given.trials, given.budget, given.sampler)
    metric = read_data()[given.data].metric
    print_table(["trial", f"{metric}, validation rows", "seconds", "settings"], list_best(search_run, trials))
    print(f"\n{write_settings(search_run, best_trial(trials))}")


if __name__ == "__main__":
    main()
