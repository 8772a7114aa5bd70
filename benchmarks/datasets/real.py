"""Loaders of the real data sets from the data folder.

sklearn_home/                         scikit-learn's cache: California Housing, CoverType; or scikit-learn's own cache
fico_heloc/heloc_dataset_v1.csv       FICO HELOC; the special codes -7, -8, -9 stay as values
credit/creditcard.parquet             credit card fraud
more/magic_telescope.csv              MAGIC gamma telescope
more/bike_hourly.csv                  bike sharing, hourly
more/telco_churn.csv                  Telco churn; its text columns are levels
more/german_credit.csv                German credit; its codes A11, A12, … are levels
more/abalone.csv                      abalone; the sex is a column of levels

Breast cancer, diabetes, digits, iris and wine come with scikit-learn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .dataset import Dataset

DEFAULT_FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"
FILES = {
    "ca": "sklearn_home/cal_housing_py3.pkz",
    "covertype": "sklearn_home/covertype/samples_py3",
    "heloc": "fico_heloc/heloc_dataset_v1.csv",
    "fraud": "credit/creditcard.parquet",
    "magic": "more/magic_telescope.csv",
    "bike": "more/bike_hourly.csv",
    "telco": "more/telco_churn.csv",
    "german": "more/german_credit.csv",
    "abalone": "more/abalone.csv",
    "covertype_part": "sklearn_home/covertype/samples_py3",
}
CACHE = "sklearn_home/"
PART = 20_000  # rows of covertype_part


def data_folder() -> Path:
    """The folder that NEURALBASIS_DATA names, or shared/data next to the repository."""
    return Path(os.environ.get("NEURALBASIS_DATA") or DEFAULT_FOLDER)


def find_file(path: str) -> Path | None:
    """Path of a file of the data folder, or None; files of sklearn_home may also be in scikit-learn's own cache."""
    places = [data_folder() / path]
    if path.startswith(CACHE):
        own = Path(os.environ.get("SCIKIT_LEARN_DATA") or "~/scikit_learn_data").expanduser()
        places.append(own / path.removeprefix(CACHE))
    return next((place for place in places if place.exists()), None)


def find_missing_file(key: str) -> str | None:
    """Why a data set is not available; None if it is."""
    if key not in FILES or find_file(FILES[key]):
        return None
    return f"{FILES[key]} not found: set NEURALBASIS_DATA to the folder that contains it"


def find_home(key: str) -> Path:
    """The cache of scikit-learn that contains this data set."""
    found = find_file(FILES[key]) or data_folder() / FILES[key]
    return found.parents[FILES[key].count("/") - 1]


def ca_housing() -> Dataset:
    """20,640 × 8, median house value in 100,000 dollars."""
    from sklearn.datasets import fetch_california_housing

    data = fetch_california_housing(data_home=find_home("ca"), download_if_missing=False)
    return Dataset("CA Housing", data.data.astype(float), data.target.astype(float), "regression")


def covertype() -> Dataset:
    """581,012 × 54, seven classes."""
    from sklearn.datasets import fetch_covtype

    data = fetch_covtype(data_home=find_home("covertype"), download_if_missing=False)
    return Dataset("CoverType", data.data.astype(float), data.target.astype(int), "classification")


def read_heloc() -> Dataset:
    """10,459 × 23, a frame of whole numbers, 1 is a bad risk."""
    import pandas as pd

    table = pd.read_csv(data_folder() / FILES["heloc"])
    bad = table.pop("RiskPerformance") == "Bad"
    return Dataset("FICO HELOC", table, bad.to_numpy(dtype=int), "classification")


def heloc() -> Dataset:
    """The same as numbers."""
    data = read_heloc()
    return replace(data, X=data.X.to_numpy(dtype=float))


def credit_fraud() -> Dataset:
    """284,807 × 30, 492 frauds."""
    return read_fraud(data_folder() / FILES["fraud"])


def read_fraud(path: Path) -> Dataset:
    """The same from this file, parquet or csv."""
    import pandas as pd

    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    fraud = table.pop("Class").to_numpy(dtype=int)
    return Dataset("Credit fraud", table.to_numpy(dtype=float), fraud, "classification")


def covertype_part() -> Dataset:
    """20,000 rows of CoverType, for slow learners."""
    from sklearn.model_selection import train_test_split

    whole = covertype()
    X, _, y, _ = train_test_split(whole.X, whole.y, train_size=PART, random_state=0, stratify=whole.y)
    return Dataset("CoverType, 20,000 rows", X, y, whole.task)


def magic() -> Dataset:
    """19,020 × 10, 1 is a gamma ray."""
    import pandas as pd

    table = pd.read_csv(data_folder() / FILES["magic"])
    gamma = table.pop("Class") == "g"
    return Dataset("MAGIC", table.to_numpy(dtype=float), gamma.to_numpy(dtype=int), "classification")


def bike() -> Dataset:
    """17,379 × 12, bikes rented in an hour; without the two parts of the count, the date and the row number."""
    import pandas as pd

    table = pd.read_csv(data_folder() / FILES["bike"])
    table = table.drop(columns=["instant", "dteday", "casual", "registered"])
    count = table.pop("cnt").to_numpy(dtype=float)
    return Dataset("Bike sharing", table.to_numpy(dtype=float), count, "regression")


def telco() -> Dataset:
    """7,043 × 19, a frame: 15 columns of levels; 11 blanks of TotalCharges are missing values; 1 is a lost customer."""
    import pandas as pd

    table = pd.read_csv(data_folder() / FILES["telco"]).drop(columns="customerID")
    churn = table.pop("Churn") == "Yes"
    table["TotalCharges"] = pd.to_numeric(table["TotalCharges"], errors="coerce")
    return Dataset("Telco churn", mark_levels(table), churn.to_numpy(dtype=int), "classification")


def german() -> Dataset:
    """1,000 × 20, a frame: 13 columns of levels; 1 is a bad risk."""
    import pandas as pd

    table = pd.read_csv(data_folder() / FILES["german"], header=None)
    bad = table.pop(table.columns[-1]) == 2
    return Dataset("German credit", mark_levels(name_columns(table)), bad.to_numpy(dtype=int), "classification")


def abalone() -> Dataset:
    """4,177 × 8, a frame: the sex has three levels; rings of the shell."""
    import pandas as pd

    table = pd.read_csv(data_folder() / FILES["abalone"], header=None)
    rings = table.pop(table.columns[-1]).to_numpy(dtype=float)
    return Dataset("Abalone", mark_levels(name_columns(table)), rings, "regression")


def name_columns(table: Any) -> Any:
    """Names for the columns of a file that has none."""
    return table.set_axis([f"x{column}" for column in range(table.shape[1])], axis=1)


def mark_levels(table: Any) -> Any:
    """Columns of text as dtype "category"."""
    import pandas as pd

    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(texts, "category"))


def bundled(name: str, task: str) -> Callable[[], Dataset]:
    """A loader of a set that comes with scikit-learn."""

    def load() -> Dataset:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return Dataset(name.replace("_", " ").capitalize(), X, y, task)

    return load


LOADERS: dict[str, Callable[[], Dataset]] = {
    "ca": ca_housing,
    "covertype": covertype,
    "heloc": heloc,
    "fraud": credit_fraud,
    "magic": magic,
    "bike": bike,
    "telco": telco,
    "german": german,
    "abalone": abalone,
    "covertype_part": covertype_part,
    "cancer": bundled("breast_cancer", "classification"),
    "diabetes": bundled("diabetes", "regression"),
    "digits": bundled("digits", "classification"),
    "iris": bundled("iris", "classification"),
    "wine": bundled("wine", "classification"),
}
