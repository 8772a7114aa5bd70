"""All benchmarks by name: the module behind each, its arguments, and one line on what it measures."""

from __future__ import annotations

from dataclasses import dataclass

from .paper.tables import TABLES


@dataclass(frozen=True)
class Benchmark:
    """A module with fixed arguments. With `keeps_records` it writes its own records; otherwise the driver records what
    it prints."""

    module: str
    summary: str
    arguments: str = ""
    keeps_records: bool = False

    @property
    def command(self) -> list[str]:
        return ["-m", f"benchmarks.{self.module}", *self.arguments.split()]


COVERTYPE_PAIRS = (
    "--terms pairs --set outer_bags=2 max_steps=3000 max_interaction_bins=49 hidden=(128,128,64) n_interaction_bases=64"
)
BENCHMARKS: dict[str, Benchmark] = {
    "paper": Benchmark("paper.run", "all tables of the paper, within --budget", keeps_records=True),
    **{
        f"paper.{table}": Benchmark("paper.run", f"the paper's table or figure {table}", table, True)
        for table in TABLES
    },
    "paper.search": Benchmark("paper.search", "random search over the paper's ranges", keeps_records=True),
    "paper.fico_splits": Benchmark("paper.fico_splits", "FICO over ten splits, ours and EBM"),
    "paper.throughput": Benchmark("paper.throughput", "rows per second by the paper's rule"),
    "laboratory": Benchmark("accuracy.laboratory", "learners on many real and generated problems", keeps_records=True),
    "readme_table": Benchmark("accuracy.readme_table", "the table of the README", keeps_records=True),
    "measure": Benchmark("accuracy.measure", "one learner on one split of a data set", keeps_records=True),
    "tuning": Benchmark("accuracy.tuning", "gain of `neuralbasis.tune` on test rows", keeps_records=True),
    "main_effects": Benchmark("accuracy.main_effects", "main effects against EBM and published figures"),
    "main_effects.fresh": Benchmark(
        "accuracy.main_effects", "main effects on splits that no default was chosen by",
        "--only ca,heloc,fraud,cancer --first-split 100 --fraud-splits 1",
    ),
    "interactions": Benchmark("accuracy.interactions", "pairs against EBM and published figures"),
    "covertype.pairs": Benchmark("accuracy.covertype", "all 1,431 pairs of CoverType", COVERTYPE_PAIRS),
    "covertype.triples": Benchmark("accuracy.covertype", "triples of CoverType", "--terms triples"),
    "newsgroups": Benchmark("accuracy.newsgroups", "20 Newsgroups, 146,016 sparse columns"),
    "planted": Benchmark("accuracy.planted", "rank of planted pairs", "--ebm-mains"),
    "stability": Benchmark("accuracy.stability", "standard deviation of shapes over seeds"),
    "bands": Benchmark("accuracy.bands", "bands of main effects: coverage of the true effects"),
    "no_effect": Benchmark("accuracy.no_effect", "test of no effect: rejections and power, next to splines and pyGAM"),
    "readability": Benchmark("accuracy.readability", "turning points and variation of shapes, next to EBM"),
    "readability.census": Benchmark("accuracy.census", "variation of shapes on census tables, next to EBM"),
    "intervals": Benchmark("accuracy.intervals", "prediction intervals: coverage, next to CV+; calibration"),
    "speed.epoch": Benchmark("speed.epoch", "one training epoch, batches of 8,192 rows", "--batch 8192"),
    "speed.epoch.small": Benchmark("speed.epoch", "one training epoch, batches of 1,024 rows"),
    "speed.predict": Benchmark("speed.predict", "prediction: throughput, latency, first call"),
    "speed.predict.pairs": Benchmark("speed.predict", "prediction with ten pairs", "--pairs 10"),
    "speed.predict.mixed": Benchmark("speed.predict", "prediction from a pandas frame with text", "--mixed"),
    "speed.import_time": Benchmark("speed.import_time", "import in a fresh process"),
    "speed.serve": Benchmark("speed.serve", "serving: file size, first row, one row, many threads"),
    "speed.formats": Benchmark("speed.formats", "exports: size and rows per second"),
    "speed.html_report": Benchmark("speed.html_report", "HTML report: write, open, respond"),
    "speed.plots": Benchmark("speed.plots", "plots written as PNG"),
    "speed.cli": Benchmark("speed.cli", "`neuralbasis predict` on a CSV file of 2 GB"),
    "speed.screening": Benchmark("speed.screening", "screening of all pairs"),
    "speed.growth": Benchmark("speed.growth", "growth with rows and columns"),
    "speed.sparse_growth": Benchmark("speed.sparse_growth", "growth with sparse entries and columns"),
    "speed.paper_sparse": Benchmark("speed.paper_sparse", "the paper's sparse network at 146,016 columns"),
    "speed.wide": Benchmark("speed.wide", "900 rows × 860,000 columns"),
    "speed.sparse_pairs": Benchmark("speed.sparse_pairs", "a sparse table with 100,000 pairs"),
    "speed.disk_passes": Benchmark("speed.disk_passes", "profile and cache of a table on disk"),
    "speed.out_of_core": Benchmark("speed.out_of_core", "8.4 million rows from disk and in memory", "--in-memory"),
    "speed.out_of_core.large": Benchmark("speed.out_of_core", "50 million rows from disk", "--rows 50_000_000"),
    "speed.processes": Benchmark("speed.out_of_core", "1, 2 and 4 processes", "--rows 2_000_000 --processes 1 2 4"),
    "speed.scaling": Benchmark("speed.scaling", "cost model of a fit from disk, with projections"),
    "speed.update": Benchmark("speed.update", "update against a new fit"),
    "speed.concepts": Benchmark("speed.concepts", "278 concepts, 200 classes (size of CUB)", "cub"),
    "speed.concepts.pairs": Benchmark("speed.concepts", "the same with all pairs", "pairs"),
    "speed.concepts.birds": Benchmark("speed.concepts", "278 concepts, 1,486 classes (size of iNaturalist)", "birds"),
    "speed.concept_extraction": Benchmark("speed.concept_extraction", "concepts from images"),
    "speed.detection": Benchmark("speed.detection", "object detection with 100,000 pairs, and mAP"),
    "robustness.killed_fits": Benchmark("robustness.killed_fits", "fits that are killed and resumed", "--kills 30"),
    "robustness.disk_faults": Benchmark("robustness.disk_faults", "full disks, missing and damaged files"),
    "robustness.model_files": Benchmark("robustness.model_files", "30,000 mutated model files", "--cases 30000"),
    "robustness.checkpoints": Benchmark("robustness.checkpoints", "1,000 altered checkpoints", "--cases 1000"),
}  # fmt: skip
RECORDED = [name for name, benchmark in BENCHMARKS.items() if not benchmark.keeps_records]
