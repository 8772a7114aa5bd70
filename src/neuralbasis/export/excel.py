"""Excel: a model as a workbook that computes predictions by formulas; see `excel_book`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..serialization.temporary_file import replace_when_done
from .plain import find_exportable, find_interval


def to_excel(model: Any, path: str | os.PathLike, rows: Any = None, *, coverage: float | None = None) -> Path:
    """Write a workbook that predicts.

    Every line of the sheet "Predict" is a row. An empty cell is a missing value, and a text that is no level of its
    column is an unseen level. Case matters. A number outside the range of its column is read as the nearest end of the
    range. A line without values stays empty. A text in place of a number gives #N/A. Spreadsheets compare numbers with
    a precision of about 15 digits.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write, ending in .xlsx
    rows : a table of rows to fill in, with formulas beside each; None gives an example and empty lines
    coverage : adds the columns `lower` and `upper` of a regression or of two classes, as `predict_interval` computes
        them, and the sheet "Interval"; such as 0.9

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from openpyxl import load_workbook
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["time"], max_steps=20).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_workbook(to_excel(model, f"{folder}/model.xlsx")).sheetnames
    ['Predict', 'Terms', 'time', 'Positions', 'Axes']
    """
    try:
        from .excel_book import make_book
    except ImportError as error:
        raise ImportError("to_excel needs the package openpyxl: pip install 'neuralbasis[excel]'") from error
    found, target = find_exportable(model), Path(path)
    if target.suffix.lower() != ".xlsx":
        raise ValueError(f"to_excel writes .xlsx files, but the path is {str(target)!r}; end it in .xlsx")
    book = make_book(found, rows, find_interval(found, coverage))
    with replace_when_done(target) as file:
        book.save(file)
    return target
