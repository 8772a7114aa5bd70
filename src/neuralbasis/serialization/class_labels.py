"""Class labels <-> JSON, with their NumPy type: text, booleans, integers, floats, or objects of these."""

from __future__ import annotations

from reprlib import repr as shorten
from typing import Any, NamedTuple

import numpy as np

from ..losses.links import LINKS
from .archive import DocumentError
from .json_checks import check_list, read_record
from .limits import MAX_LABELS

LABEL_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "object": (str, bool, int, float)}
LABEL_TYPES |= {f"{sign}int{bits}": (int,) for sign in ("", "u") for bits in (8, 16, 32, 64)}
LABEL_TYPES |= {f"float{bits}": (float,) for bits in (16, 32, 64)}


class ClassesRecord(NamedTuple):
    """Class labels in JSON."""

    dtype: str
    labels: list[Any]


def describe_classes(classes: np.ndarray) -> dict[str, Any]:
    """Labels as JSON values."""
    kind = "str" if classes.dtype.kind == "U" else classes.dtype.name
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes.tolist()]
    odd = [label for label in labels if type(label) not in LABEL_TYPES.get(kind, ())]
    if odd or kind not in LABEL_TYPES:
        raise DocumentError(f"classes must be text, numbers or booleans, not {odd[:1]} ({classes.dtype})")
    return ClassesRecord(kind, labels)._asdict()


def read_classes(link: str, n_outputs: int, classes: Any) -> np.ndarray | None:
    """Labels in their own type. Their number must match the link."""
    if link not in LINKS or (link == "logit" and n_outputs != 1):
        raise DocumentError(f"link {shorten(link)} does not go with {n_outputs} outputs; links are {', '.join(LINKS)}")
    if classes is None:
        return None
    kind, labels = read_record(ClassesRecord, classes, "the classes")
    check_list(labels, "labels of classes", LABEL_TYPES.get(kind, ()), unique=True)
    if len(labels) != {"logit": 2, "mlogit": n_outputs}.get(link):
        raise DocumentError(f"link {shorten(link)} with {n_outputs} outputs does not go with {len(labels)} classes")
    if kind == "str" and len(labels) * max(map(len, labels)) > MAX_LABELS:  # NumPy pads text to the longest label
        raise DocumentError(f"labels of classes are too long: more than {MAX_LABELS:,} characters")
    try:
        with np.errstate(over="raise"):
            found = np.array(labels, dtype=kind)
    except (OverflowError, FloatingPointError):
        found = np.empty(0)
    if found.tolist() != labels:  # out of range, rounded, or text that ends in NUL, which NumPy drops
        raise DocumentError(f"labels of classes do not fit into {kind}: {shorten(labels)}")
    return found
