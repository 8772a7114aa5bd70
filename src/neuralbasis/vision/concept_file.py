"""Learned concepts and the file that stores them.

The file is an archive of `concepts.json` and plain arrays, without pickle and without the backbone's weights; it
records the backbone's digest instead. The reader treats a file as untrusted: it returns `LearnedConcepts` or raises
`DocumentError`.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..serialization.archive import DocumentError, read_archive, write_archive
from ..serialization.json_checks import MAX_DOCUMENT, MAX_VALUES

FORMAT = 1  # a reader of a later format must still read earlier ones
DOCUMENT = "concepts.json"
ARRAYS = ("coefficients", "intercepts", "calibration")
MAX_SIDE = 4096  # pixels; the first layers of a network need a few hundred bytes per pixel
# Header of a .npy file. numpy's reader would evaluate it and allocate any shape that it states.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0..\{'descr': '(<f[48])', 'fortran_order': (False|True), "
    rb"'shape': \((\d{1,9}),(?: (\d{1,9}))?\), \} *\n",
    re.DOTALL,
)


class Trust(NamedTuple):
    """Quality of one concept, measured on pictures that its classifier was not trained on.

    `n_train` and `n_held` count pictures with the concept, `n_held_absent` pictures without it. `auroc` and `ap`
    (average precision) are NaN if they are not measured. `share` is the `ap` of random scores, `ridge` the selected λ.
    """

    concept: str
    n_train: int
    n_held: int
    n_held_absent: int
    auroc: float
    ap: float
    share: float
    ridge: float

    @property
    def is_measured(self) -> bool:
        """Whether held-out pictures with and without the concept exist; otherwise scores are only shifted."""
        return self.n_held > 0 and self.n_held_absent > 0


class BackboneSource(NamedTuple):
    """The backbone that computed the features: its name or folder, side in pixels, digest, and commit on the hub."""

    name: str
    side: int
    digest: str
    revision: str | None = None


@dataclass(frozen=True, eq=False)
class LearnedConcepts:
    """Content of a concept file: K concepts on C features."""

    names: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]  # at which each concept is visible
    coefficients: np.ndarray  # (K, C) float32
    intercepts: np.ndarray  # (K,) float32
    calibration: np.ndarray  # (K, 2) slope and shift that turn a picture's largest logit into that of a probability
    trust: tuple[Trust, ...]
    source: BackboneSource
    left_out: tuple[str, ...] = ()  # concepts without usable training data
    broken: tuple[str, ...] = ()  # reasons why training pictures could not be read


def write_concept_file(path: str | os.PathLike[str], learned: LearnedConcepts) -> None:
    _check(learned)
    document = {
        "format": FORMAT,
        "neuralbasis": __version__,
        "names": learned.names,
        "parts": learned.parts,
        "trust": [row[1:] for row in learned.trust],
        "source": learned.source._asdict(),
        "left_out": learned.left_out,
        "broken": learned.broken,
    }
    # `broken` contains file names, which need not be UTF-8.
    entries = {DOCUMENT: json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")}
    write_archive(path, {**entries, **{f"{name}.npy": encode_array(getattr(learned, name)) for name in ARRAYS}})


def encode_array(array: np.ndarray) -> bytes:
    """The bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def read_concept_file(path: str | os.PathLike[str]) -> LearnedConcepts:
    try:
        with open(path, "rb") as file:
            entries = read_archive(file)
        return _check(_parse(entries))
    except DocumentError as error:
        reason = str(error)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = f"it has another format or is damaged ({type(error).__name__}: {error!s:.200})"
    raise DocumentError(f"{os.fspath(path)} cannot be read as a concept file: {reason}")


def _parse(entries: dict[str, bytes]) -> LearnedConcepts:
    data = entries[DOCUMENT]
    if len(data) > MAX_DOCUMENT or sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise DocumentError(f"its {DOCUMENT} exceeds the size limit of a concept file")
    document = json.loads(data)
    if document["format"] != FORMAT:
        raise DocumentError(f"it has format {document['format']!r:.20}; this version of neuralbasis reads {FORMAT}")
    names, source = _parse_texts(document["names"]), document["source"]
    trust = [
        Trust(name, *map(int, row[:3]), *map(float, row[3:]))
        for name, row in zip(names, document["trust"], strict=True)
    ]
    parts = tuple(map(_parse_texts, document["parts"]))
    arrays = {key: _parse_array(entries[f"{key}.npy"], key) for key in ARRAYS}
    folder, digest = _parse_texts([source["name"], source["digest"]])
    revision = source.get("revision")  # absent from older files
    if revision is not None and not re.fullmatch("[0-9a-f]{40}", revision):
        raise ValueError("expected the revision of the backbone as a commit of 40 hexadecimal digits")
    return LearnedConcepts(
        names,
        parts,
        **arrays,
        trust=tuple(trust),
        source=BackboneSource(folder, int(source["side"]), digest, revision),
        left_out=_parse_texts(document["left_out"]),
        broken=_parse_texts(document["broken"]),
    )


def _parse_texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
        raise TypeError("expected a list of strings")
    return tuple(values)


def _parse_array(data: bytes, key: str) -> np.ndarray:
    """An array whose header states exactly the numbers that follow it."""
    header = _HEADER.match(data)
    if header is None:
        raise DocumentError(f"its array {key!r} was not written by neuralbasis")
    kind, is_transposed = header[1].decode(), header[2] == b"True"
    shape = tuple(int(count) for count in header.groups()[2:] if count is not None)
    if len(data) - header.end() != math.prod(shape) * np.dtype(kind).itemsize:
        raise DocumentError(f"its array {key!r} does not hold the {shape} numbers that its header states")
    return np.frombuffer(data, kind, offset=header.end()).reshape(shape, order="F" if is_transposed else "C")


def _check(learned: LearnedConcepts) -> LearnedConcepts:
    """Return the concepts if their arrays and names are consistent."""
    n_concepts = len(learned.names)
    n_features = learned.coefficients.shape[-1] if learned.coefficients.ndim else 0
    shapes = ((n_concepts, n_features), (n_concepts,), (n_concepts, 2))
    for key, shape in zip(ARRAYS, shapes, strict=True):
        array = getattr(learned, key)
        if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise DocumentError(f"its array {key!r} must hold {shape} finite numbers")
    if len(learned.parts) != n_concepts or not n_concepts:
        raise DocumentError("its names and parts do not match")
    if len(set(learned.names)) < n_concepts:
        raise DocumentError("two of its concepts have the same name")
    if not 1 <= learned.source.side <= MAX_SIDE:
        raise DocumentError(f"its pictures have a side of {learned.source.side} pixels; expected 1 to {MAX_SIDE:,}")
    return learned
