"""MIMIC-II: whether a patient of intensive care dies in hospital, from 17 columns of the SAPS II score.

mimic2/mimic2.data has one patient per line, 18 whole or decimal numbers separated by blanks, without a header, in the
order of `COLUMNS`, the outcome last. Seven columns hold codes.

DIFF: NODE-GAM's folds come packed with its own copy of the file, and the paper does not state which it uses; ours are
drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .source import File, Source
from .splits import Part, Sizes, split_shares
from .text import naming

COLUMNS = (
    "Age", "GCS", "SBP", "HR", "Temperature", "PFratio", "Renal", "Urea", "WBC", "CO2", "Na", "K", "Bilirubin",
    "AdmissionType", "AIDS", "MetastaticCancer", "Lymphoma", "HospitalMortality",
)  # fmt: skip
CODES = ("GCS", "Temperature", "Renal", "AdmissionType", "AIDS", "MetastaticCancer", "Lymphoma")


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    import pandas as pd

    (path,) = paths
    with naming(path, f"lines of {len(COLUMNS)} numbers separated by blanks"):
        table = pd.read_csv(path, sep=" ", header=None)
        if table.shape[1] != len(COLUMNS) or table.isna().any(axis=None):
            raise ValueError(f"lines have up to {table.shape[1]} values, {int(table.isna().sum().sum())} are missing")
        table = table.set_axis(COLUMNS, axis=1).astype(float)
    died = table.pop("HospitalMortality").to_numpy(dtype=int)
    return split_shares(table.astype(dict.fromkeys(CODES, "category")), died, "classification")


MIMIC2 = Source(
    "mimic2", "MIMIC-II", "classification", "gaussian", Sizes(17_155, 2_451, 4_902, 17, 2), read,
    page="https://archive.physionet.org/mimic2/",
    files=(File(("mimic2/mimic2.data",)),),
    advice="ask PhysioNet for access (credentialed), write the table of 24,508 patients as mimic2.data",
    n_columns=17,
    levels=dict.fromkeys(CODES, 4),
)  # fmt: skip
