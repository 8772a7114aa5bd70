"""Report: a model as one HTML file that opens from disk, without a network and without a server.

    write("model.html", model, X, y)

In: an AdditiveModel or a fitted estimator, and rows to look at if there are any. Out: a page with every shape, what
drives the prediction, how well it meets the rows, why single rows have their predictions, and a what-if panel. The
page holds the model's own tables and computes by the model's own rule, so it cannot disagree with `predict`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..draft import replace_when_done
from ..explain import explain_global
from ..model import find_model
from .check import describe_check
from .page import assemble
from .rows import describe_rows, read_table
from .tables import Pack, describe_model

__all__ = ["write"]


def write(
    path: str | os.PathLike[str],
    model: Any,
    X: Any = None,
    y: Any = None,
    rows: Sequence[int] | None = None,
    title: str | None = None,
) -> None:
    """Write the page of a model.

    Parameters
    ----------
    path : where to write it; a file that is there already is replaced at once or not at all
    model : AdditiveModel or fitted estimator
    X : rows to look at, any table that `predict` reads; None leaves rows and accuracy out
    y : what came for these rows: the page then also says how well the model meets them
    rows : which rows of X to explain one by one, counted from 0; None takes the first eight
    title : heading of the page; None makes one of the target's name

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from neuralbasis import NeuralBasisRegressor, report
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20).fit(table, table["size"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write(f"{folder}/model.html", model, table, table["size"], rows=[0, 5], title="Sizes")
    ...     page = pathlib.Path(folder, "model.html").read_text()
    >>> "<title>Sizes</title>" in page
    True
    """
    found = find_model(model)
    if X is None and (y is not None or rows is not None):
        raise ValueError(f"{'y' if y is not None else 'rows'} needs the rows themselves: give X as well")
    pack = Pack()
    data = describe_model(found, explain_global(found), pack, title)
    if X is not None:
        table = read_table(found, X)
        data["check"] = None if y is None else describe_check(found, table, y)
        data["rows"] = describe_rows(found, table, y, rows)
    page = assemble(data, pack)
    with replace_when_done(path) as file:
        file.write(page)
