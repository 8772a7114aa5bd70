"""A model as one interactive HTML file that opens from disk, without a network or a server.

    write("model.html", model, X, y)

In: an AdditiveModel or a fitted estimator, and optional rows. Out: a page with every shape, importances, accuracy on
the rows, explanations of single rows, and a what-if panel. The page stores the model's own tables and predicts as
`predict` does. With residuals of one output, it also has the 90 % interval of `predict_interval`. For a wide model, the
page stores the strongest terms, and the contribution of all others to a row as one number per score.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..explain import explain_global
from ..explain.explanation import read_table
from ..model.additive_model import find_model
from ..serialization.temporary_file import replace_when_done
from .accuracy import describe_accuracy, describe_loss
from .outcomes import describe_outcomes
from .page import assemble
from .page_model import choose_page_model
from .pictures import describe_pictures
from .row_choice import choose_rows
from .rows import add_margins, describe_rows, take_rows
from .tables import Pack, describe_model
from .transforms import find_transform

__all__ = ["write"]


def write(
    path: str | os.PathLike[str],
    model: Any,
    X: Any = None,
    y: Any = None,
    rows: Sequence[int] | None = None,
    title: str | None = None,
    pictures: Sequence[Any] = (),
    transform: str | None = None,
) -> Path:
    """Write the page of a model, and return its path.

    Parameters
    ----------
    path : file to write; an existing file is replaced completely or not at all
    model : AdditiveModel or fitted estimator, or scikit-learn's TransformedTargetRegressor of one
    X : rows to explain, any table that `predict` accepts; None omits rows and accuracy
    y : actual classes or values of these rows; adds the accuracy of the model to the page
    rows : indices of the rows of X to explain, starting at 0; None takes eight: the most wrong, the most uncertain, and
        those with the lowest, the middle and the highest predictions
    title : heading of the page; None uses the name of the target
    pictures : results of `explain.explain_class` (classes with examples and their strongest terms) and of
        `explain.explain_picture` (pictures with the places of their concepts)
    transform : what was applied to the target before the fit: "log", "log1p", "log2", "log10" or "sqrt"; the page then
        shows predictions in the unit of the target, and y is the target itself

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from neuralbasis import NeuralBasisRegressor, report
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20).fit(table, table["size"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = report.write(f"{folder}/model.html", model, table, table["size"], rows=[0, 5], title="Sizes")
    ...     page = path.read_text()
    >>> "<title>Sizes</title>" in page
    True
    """
    model, transform = find_transform(model, transform)
    found = find_model(model)
    if transform is not None and (found.classes is not None or found.n_outputs > 1):
        raise ValueError("transform is for regressions with one target")
    if X is None and (y is not None or rows is not None):
        raise ValueError(f"{'y' if y is not None else 'rows'} needs the rows themselves: pass X as well")
    pack = Pack()
    table = None if X is None else read_table(found, X)
    accuracy = None if table is None or y is None else describe_accuracy(found, table, y, transform)
    chosen = [] if table is None else choose_rows(found, table, y, rows, transform)
    page_model = choose_page_model(found, None if table is None else take_rows(table, [row for row, _ in chosen]))
    data = describe_model(page_model, explain_global(page_model.model), pack, title)
    data |= {"transform": transform, "accuracy": accuracy, "loss": describe_loss(found)}
    add_margins(data["columns"], page_model.model)
    if table is not None:
        data["rows"] = describe_rows(found, page_model, table, y, chosen)
        data["outcomes"] = None if y is None else describe_outcomes(page_model, found, table, y, pack)
    if pictures:
        data["evidence"] = describe_pictures(pictures, found, page_model.model.term_names, pack)
    page = assemble(data, pack)
    with replace_when_done(path) as file:
        file.write(page)
    return Path(path)
