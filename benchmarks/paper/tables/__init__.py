"""The tables and figures of the paper as data: what each row runs, the published figures, how long a cell may take.

Each TOML file is one of them, named by its LaTeX label. A cell is a place in a table: data × model × variant × seed,
plus the options of its row. `find_job` gives what it computes, from `models.toml` (learner and options of a model and
its variant) and `optimal_hyper.toml` (the paper's settings). Cells of several tables may share a job.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
TABLES = (
    "comparison", "comparison_sota", "num_bases", "num_subnets", "shape_functions", "params_and_throughput", "params",
    "params_multi_class",
)  # fmt: skip
LOWER_IS_BETTER = ("rmse", "mse", "error")
GIVEN_ALL_ROWS = ("ours", "ebm", "node_gam")  # learners that hold out rows themselves and read raw columns


@dataclass(frozen=True)
class Data:
    """A data set of the paper: its name, metric and decimals there; `differs` describes how ours differs."""

    name: str
    metric: str
    places: int
    n_columns: int
    n_outputs: int
    differs: str = ""

    @property
    def lower_is_better(self) -> bool:
        return self.metric in LOWER_IS_BETTER


@dataclass(frozen=True)
class Job:
    """What a cell computes. A job of shapes fits `together` models with consecutive seeds."""

    kind: str
    data: str
    learner: str
    options: dict[str, Any]
    seed: int = 0
    quick: bool = False
    together: int = 1

    @property
    def reads_data(self) -> bool:
        """Other jobs need only the numbers of columns and outputs."""
        return self.kind in ("fit", "shapes")

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be available: the learner's package and the data set."""
        return (self.data, self.learner) if self.reads_data else (self.learner,)

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def seedless(self) -> str:
        return replace(self, seed=0).key


@dataclass(frozen=True)
class Cell:
    """A place in a table.

    epochs : replaces the table's number; value : its priority; minutes : an estimate for two cores
    """

    table: str
    data: str
    model: str
    variant: str
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    quick: bool = False
    epochs: int | None = None
    value: float = 0.0
    minutes: float = 1.0

    @property
    def title(self) -> str:
        return f"{self.table}: {self.model}, {self.variant}, {self.data}{self.format_options(', ')}, seed {self.seed}"

    @property
    def command(self) -> str:
        """The command that runs this cell again."""
        names = ["--data", self.data, "--model", format_model(self.model), "--variant", self.variant]
        given = shlex.join(
            ["python", "-m", "benchmarks", "run", f"paper.{self.table}", *names, "--seed", str(self.seed)]
        )
        epochs = "" if self.epochs is None else f" --epochs {self.epochs}"
        return f"{given}{' --set' if self.options else ''}{self.format_options(' ')}{epochs} --again"

    def format_options(self, before: str) -> str:
        return "".join(f"{before}{name}={value}" for name, value in self.options.items())


@dataclass(frozen=True)
class Row:
    """A model of a table.

    published, parameters, throughput : published figures by data set; means may have deviations
    value : priority of the cells by variant, or by variant and data set with "other"
    seeds, together : by variant, where they differ from the table's
    minutes : by variant and data set
    """

    model: str
    options: dict[str, Any] = field(default_factory=dict)
    published: Mapping[str, Sequence[float]] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    throughput: Mapping[str, str] = field(default_factory=dict)
    curve: Mapping[str, float] = field(default_factory=dict)
    value: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    together: Mapping[str, int] = field(default_factory=dict)
    minutes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def find_value(self, variant: str, data: str) -> float:
        value = self.value[variant]
        return value.get(data, value["other"]) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Table:
    """A table of the paper. Its cells are of one kind: fit, throughput, shapes or ratios.

    caption : how it was measured; note : what a reader of the table must know
    """

    name: str
    label: str
    title: str
    caption: str
    kind: str
    seeds: int
    rows: Sequence[Row]
    data: Sequence[str] = ()
    n_columns: Sequence[int] = ()
    note: str = ""

    def list_cells(self, quick: bool = False) -> Iterator[Cell]:
        """All cells that have minutes; a quick run has two seeds."""
        for row in self.rows:
            for variant, minutes in row.minutes.items():
                n_seeds = row.seeds.get(variant, self.seeds)
                for data, guess in minutes.items():
                    for seed in range(min(n_seeds, 2) if quick else n_seeds):
                        place = self.name, data, row.model, variant, seed
                        yield Cell(*place, row.options, quick, None, row.find_value(variant, data), guess)

    def find_row(self, cell: Cell) -> Row:
        return next(row for row in self.rows if (row.model, row.options) == (cell.model, cell.options))


def format_model(name: str) -> str:
    """A model's name in ASCII.

    >>> format_model("NB²M"), read_model("NB2M")
    ('NB2M', 'NB²M')
    """
    return name.replace("²", "2").replace("³", "3")


def read_model(name: str) -> str:
    return name.replace("2M", "²M").replace("3M", "³M")


@lru_cache
def read_file(name: str) -> dict[str, Any]:
    import tomllib  # Python 3.11 or later

    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@lru_cache
def read_table(name: str) -> Table:
    """A table by its name: one of `TABLES`."""
    fields = dict(read_file(name))
    rows = [Row(**row) for row in fields.pop("row")]
    return Table(name=name, rows=rows, **fields)


@lru_cache
def read_data() -> dict[str, Data]:
    return {key: Data(**fields) for key, fields in read_file("data").items()}


def find_job(cell: Cell) -> Job:
    """The computation of a cell.

    DIFF: the paper trains on eight GPUs, each with a batch of the printed size; a step here has one such batch. With
    eight, 1,000 epochs of CA Housing are only 1,764 steps, too few for NBM to converge.
    """
    table = read_table(cell.table)
    recipe = read_file("models")[cell.model][cell.variant]
    options = dict(recipe.get("options", {}))
    if "settings" in recipe:
        options |= read_file("optimal_hyper")[recipe["settings"]][cell.data]
    if table.kind == "ratios":
        options |= {"models": cell.model.split(" / "), "n_columns": table.n_columns}
    if cell.epochs is not None:
        options["epochs"] = cell.epochs
    together = table.find_row(cell).together.get(cell.variant, 1)
    return Job(
        table.kind, cell.data, recipe["learner"], options | cell.options, cell.seed, cell.quick,
        min(together, 2) if cell.quick else together,
    )  # fmt: skip
