"""Pairs: our defaults, EBM's defaults and the paper's figures; accuracy, seconds and memory.

    python -m benchmarks run interactions --only ca,heloc

Every split is 80/20 and stratified by class. Published figures are of the paper's own splits; its XGBoost is tuned.
MAGIC, bike sharing and Telco churn have no published figures and no targets.
"""

from __future__ import annotations

from .studies import Line, Study, add_choices, make_parser, run_studies
from .targets import at_least_ebm, at_most, at_most_part_of_ebm

PUBLISHED = ("paper NB²M", "paper EB²M", "paper XGBoost")
SIZE = (Line("fit seconds"), Line("peak MB"), Line("terms"))
CLASSES = (Line("auroc"), Line("log_loss"), *SIZE)
STUDIES = {
    "ca": Study("CA Housing", (0,), (0, 1, 2), (
        Line("rmse", at_most(0.4440), (0.4779, 0.4919, 0.4428)), Line("fit seconds", at_most_part_of_ebm(4)), *SIZE[1:],
    )),
    "heloc": Study("FICO HELOC", range(5), (0,), (
        Line("auroc", at_least_ebm(), (0.8029, 0.7998, 0.7925)), Line("log_loss"), *SIZE,
    )),
    "magic": Study("MAGIC", range(5), (0,), CLASSES),
    "bike": Study("Bike sharing", range(5), (0,), (Line("rmse"), *SIZE)),
    "telco": Study("Telco churn", range(5), (0,), CLASSES),
}  # fmt: skip


def main() -> None:
    parser = make_parser(__doc__)
    add_choices(parser, list(STUDIES))
    run_studies(STUDIES, parser.parse_args(), PUBLISHED)


if __name__ == "__main__":
    main()
