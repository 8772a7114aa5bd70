"""Main effects: ours, EBM's and the paper's figures; accuracy, seconds and memory of a fit.

    python -m benchmarks run main_effects --only ca,heloc

Every split is 80/20 and stratified by class. Published figures are of the paper's own splits. EBM on CoverType takes
very long and runs only with `--ebm-covertype`; an existing record is shown without it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from .studies import Line, Study, add_choices, make_parser, run_studies
from .targets import at_least, at_least_ebm, at_most, at_most_part_of_ebm

PUBLISHED = ("paper NBM", "paper EBM")
MAINS = {"interactions": 0}
STUDIES = {
    "ca": Study("CA Housing", (0,), (0, 1, 2), (
        Line("rmse", at_most(0.5480), (0.5638, 0.5586)), Line("fit seconds", at_most_part_of_ebm(4)), Line("peak MB"),
    ), MAINS),
    "covertype": Study("CoverType", (0,), (0,), (
        Line("accuracy", at_least(0.740), (0.7369, 0.7392)), Line("fit seconds", at_most(240)),
        Line("peak MB", at_most(2500)),
    ), MAINS, looked_up=("ebm",)),
    "heloc": Study("FICO HELOC", range(5), (0,), (
        Line("auroc", at_least_ebm(), (0.8048, 0.7985)), Line("log_loss"), Line("fit seconds"), Line("peak MB"),
    ), MAINS),
    "fraud": Study("Credit fraud", (0,), (0,), (
        Line("auroc", at_least_ebm(), (0.9829,)), Line("average_precision", at_least_ebm()), Line("fit seconds"),
        Line("peak MB"),
    ), MAINS),
    "cancer": Study("Breast cancer", range(5), (0,), (
        Line("auroc", at_least_ebm(0.002)), Line("log_loss"), Line("fit seconds", at_most(3)), Line("peak MB"),
    ), MAINS),
}  # fmt: skip


def adapt_studies(given: argparse.Namespace) -> dict[str, Study]:
    """The studies with the options for credit fraud and CoverType applied."""
    studies = {**STUDIES, "fraud": replace(STUDIES["fraud"], splits=range(given.fraud_splits))}
    if given.ebm_covertype:
        studies["covertype"] = replace(studies["covertype"], looked_up=())
    return studies


def main() -> None:
    parser = make_parser(__doc__)
    add_choices(parser, list(STUDIES))
    parser.add_argument("--fraud-splits", type=int, default=1, help="number of splits of credit fraud")
    parser.add_argument("--ebm-covertype", action="store_true", help="also fit EBM on CoverType (very slow)")
    given = parser.parse_args()
    run_studies(adapt_studies(given), given, PUBLISHED)


if __name__ == "__main__":
    main()
