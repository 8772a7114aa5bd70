"""CoverType with all 1,431 pairs, or also with triples, next to the paper's NB²M and NB³M.

    python -m benchmarks run covertype.pairs --set outer_bags=2 max_steps=3000

`--set` gives parameters of the estimator, which are printed; all others have their defaults. The strongest 300 of the
24,804 triples are used unless `--set triples=…` is given. The paper splits 70/10/20; here a stratified fifth is the
test set, and each member holds out validation rows from the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..harness import read_option
from .studies import Line, Study, make_parser, run_studies
from .targets import at_least, at_most

PAIRS: dict[str, Any] = {"interactions": "all"}
TRIPLES: dict[str, Any] = {"interactions": "all", "triples": 300}
# terms -> study, name of the paper's model
STUDIES = {
    "pairs": (Study("CoverType, pairs", (0,), (0,), (
        Line("accuracy", at_least(0.8908), (0.8908, 0.8860)), Line("log_loss"), Line("fit seconds", at_most(40 * 60)),
        Line("peak MB", at_most(8000)), Line("terms"),
    ), PAIRS), "paper NB²M"),
    "triples": (Study("CoverType, triples", (0,), (0,), (
        Line("accuracy", at_least(0.9634), (0.9634, 0.8860)), Line("log_loss"), Line("fit seconds"), Line("peak MB"),
        Line("terms"),
    ), TRIPLES), "paper NB³M"),
}  # fmt: skip


def find_unknown(options: Mapping[str, Any]) -> list[str]:
    """Names that are not parameters of the estimator."""
    from neuralbasis import NeuralBasisClassifier
    from neuralbasis.settings import flatten

    return sorted({*options} - {*flatten(NeuralBasisClassifier().get_params(deep=False)), "triples"})


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--terms", choices=list(STUDIES), default="pairs", help="the largest terms")
    parser.add_argument("--set", nargs="+", type=read_option, default=[], metavar="NAME=VALUE", help="parameters")
    parser.set_defaults(only=["covertype"], learners=["ours"])
    given = parser.parse_args()
    study, paper_model = STUDIES[given.terms]
    study = replace(study, options={**study.options, **dict(given.set)})
    if unknown := find_unknown(study.options):
        parser.error(f"the estimator has no parameter {', '.join(unknown)}")
    print(", ".join(f"{name}={value!r}" for name, value in study.options.items()) + "; all others at their defaults\n")
    run_studies({"covertype": study}, given, (paper_model, "paper XGBoost"))


if __name__ == "__main__":
    main()
