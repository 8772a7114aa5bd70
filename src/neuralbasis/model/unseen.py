"""A warning at prediction: a column with mostly unseen levels is probably written in another way than at the fit.

In: the axes of a model, and the numbers of a table. Out: a warning that counts the rows and names the nearest levels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from ..data.columns import Column, find_level, list_names, weigh_codes
from ..encoding.axis import Axis
from ..suggestions import find_nearest

MIN_ROWS = 20  # fewer rows may have mostly unseen levels by chance
N_EXAMPLES = 3


def warn_if_unseen(
    axes: Sequence[Axis], numbers: np.ndarray, read_column: Callable[[int], Column], features: Sequence[int] | None
) -> None:
    """Warn of columns with mostly unseen levels; `numbers` (N, D) are those of all columns, or of `features`.

    Few rows are reported only if their levels differ from known ones by case or spaces.
    """
    for position, index in enumerate(range(len(axes)) if features is None else features):
        if not (axis := axes[index]).is_level:
            continue
        found = numbers[:, position]
        is_mostly_new = np.count_nonzero(found == -1) > np.count_nonzero(found >= 0)
        if is_mostly_new and (message := _describe(axis, read_column(index), len(numbers))):
            warnings.warn(message, stacklevel=6)


def _describe(axis: Axis, column: Column, n_rows: int) -> str:
    codes, levels = column.to_labels()
    counts = weigh_codes(codes, len(levels), None)
    is_new = np.array([find_level(level, axis.places_of_levels) == -1 for level in levels], dtype=bool)
    new, total = counts * is_new, counts.sum()
    if not new.any():
        return ""
    order = [int(place) for place in np.argsort(-new, kind="stable")[:N_EXAMPLES] if new[place] > 0]
    known = axis.levels or ()
    nearest = {place: find_nearest(levels[place].strip(), known) for place in order}
    is_spelling = [found is not None and _fold(found) == _fold(levels[place]) for place, found in nearest.items()]
    if n_rows < MIN_ROWS and not any(is_spelling):
        return ""
    hints = ["" if found is None else f"; the nearest known level is {found!r}" for found in nearest.values()]
    examples = [f"{levels[place]!r} ({new[place]:,.0f} rows{hint})" for place, hint in zip(order, hints, strict=True)]
    return (
        f"column {axis.name!r}: {new.sum():,.0f} of {total:,.0f} values are levels that the model does not know, such "
        f"as {', '.join(examples)}; it knows {list_names(known)}. Predictions ignore what it learned about this "
        "column: check how the table writes it"
    )


def _fold(text: str) -> str:
    return "".join(text.split()).casefold()
