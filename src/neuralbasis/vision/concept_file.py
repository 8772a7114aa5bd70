"""Knowledge: what was learned about K concepts, and the file that holds it.

The file is an archive of `concepts.json` and of plain arrays, without pickle and without the backbone's weights: their
digest tells whether a backbone is the one that it was. Reading trusts nothing: a file gives a `Knowledge` or a
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
from ..serialization.limits import MAX_DOCUMENT, MAX_VALUES

FORMAT = 1  # a reader of a new format keeps reading the old ones
DOCUMENT = "concepts.json"
ARRAYS = ("coefficients", "intercepts", "calibration")
MAX_SIDE = 4096  # pixels: a network's first layers hold a few hundred times side² bytes
# What begins a .npy file. numpy's own reader evaluates the header, and allocates whatever shape it states.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0..\{'descr': '(<f[48])', 'fortran_order': (False|True), "
    rb"'shape': \((\d{1,9}),(?: (\d{1,9}))?\), \} *\n",
    re.DOTALL,
)


class Trust(NamedTuple):
    """How far a concept can be trusted, by pictures that its classifier has not learned from.

    n_train, n_held : pictures with the concept, to learn from and held out; n_held_absent : held out without it
    auroc, ap : of the score of a picture, NaN where no picture held out has it, or all have
    share : of the pictures held out that have it, which is what `ap` is by chance
    ridge : λ that was chosen
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
        """Whether pictures held out have it and lack it. If not, there is no `auroc`, and scores are made
        probabilities by nothing but the share of the pictures to learn from that have it."""
        return self.n_held > 0 and self.n_held_absent > 0


class Source(NamedTuple):
    """The backbone that features came from: where it was, the side of its pictures, its digest, its commit."""

    name: str
    side: int
    digest: str
    revision: str | None = None


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Everything that a file holds.

    names : K concepts        parts : at which each is seen        trust : K rows
    coefficients : (K, C) float32        intercepts : (K,) float32
    calibration : (K, 2), slope and shift that make the largest logit of a picture that of a probability
    left_out : concepts that could not be learned        broken : what was wrong with pictures to learn from
    """

    names: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    coefficients: np.ndarray
    intercepts: np.ndarray
    calibration: np.ndarray
    trust: tuple[Trust, ...]
    source: Source
    left_out: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def write_knowledge(path: str | os.PathLike[str], knowledge: Knowledge) -> None:
    _check(knowledge)
    document = {
        "format": FORMAT,
        "neuralbasis": __version__,
        "names": knowledge.names,
        "parts": knowledge.parts,
        "trust": [row[1:] for row in knowledge.trust],
        "source": knowledge.source._asdict(),
        "left_out": knowledge.left_out,
        "broken": knowledge.broken,
    }
    # Names of files need not be UTF-8.
    entries = {DOCUMENT: json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")}
    write_archive(path, {**entries, **{f"{name}.npy": pack(getattr(knowledge, name)) for name in ARRAYS}})


def read_knowledge(path: str | os.PathLike[str]) -> Knowledge:
    try:
        with open(path, "rb") as file:
            entries = read_archive(file)
        return _check(_parse(entries))
    except DocumentError as error:
        raise DocumentError(f"{os.fspath(path)} cannot be read as concepts: {error}") from None


def pack(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _parse(entries: dict[str, bytes]) -> Knowledge:
    try:
        document = _parse_json(entries[DOCUMENT])
        if document["format"] != FORMAT:
            raise DocumentError(f"it has format {document['format']!r:.20}; this version of neuralbasis reads {FORMAT}")
        names = _read_texts(document["names"])
        trust = [
            Trust(name, *map(int, row[:3]), *map(float, row[3:]))
            for name, row in zip(names, document["trust"], strict=True)
        ]
        return Knowledge(
            names,
            tuple(map(_read_texts, document["parts"])),
            **{key: _read_array(entries[f"{key}.npy"], key) for key in ARRAYS},
            trust=tuple(trust),
            source=_read_source(document["source"]),
            left_out=_read_texts(document["left_out"]),
            broken=_read_texts(document["broken"]),
        )
    except DocumentError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DocumentError(f"it is of another kind, or damaged ({type(error).__name__}: {error!s:.200})") from None


def _parse_json(data: bytes) -> Any:
    if len(data) > MAX_DOCUMENT or sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise DocumentError(f"its {DOCUMENT} is larger than that of any concepts")
    return json.loads(data)


def _read_array(data: bytes, key: str) -> np.ndarray:
    """An array whose header states exactly the numbers that follow it."""
    header = _HEADER.match(data)
    if header is None:
        raise DocumentError(f"its array {key!r} is not one that neuralbasis writes")
    kind, is_transposed = header[1].decode(), header[2] == b"True"
    shape = tuple(int(count) for count in header.groups()[2:] if count is not None)
    if len(data) - header.end() != math.prod(shape) * np.dtype(kind).itemsize:
        raise DocumentError(f"its array {key!r} does not hold the {shape} numbers that its header states")
    return np.frombuffer(data, kind, offset=header.end()).reshape(shape, order="F" if is_transposed else "C")


def _check(knowledge: Knowledge) -> Knowledge:
    n_concepts = len(knowledge.names)
    n_features = knowledge.coefficients.shape[-1] if knowledge.coefficients.ndim else 0
    shapes = ((n_concepts, n_features), (n_concepts,), (n_concepts, 2))
    for key, shape in zip(ARRAYS, shapes, strict=True):
        array = getattr(knowledge, key)
        if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise DocumentError(f"its array {key!r} should hold {shape} finite numbers")
    if len(knowledge.parts) != n_concepts or not n_concepts:
        raise DocumentError("its names and parts do not agree")
    if len(set(knowledge.names)) < n_concepts:
        raise DocumentError("two of its concepts have the same name")
    if not 1 <= knowledge.source.side <= MAX_SIDE:
        raise DocumentError(f"its pictures have {knowledge.source.side} pixels a side; expected 1 to {MAX_SIDE:,}")
    return knowledge


def _read_source(found: Any) -> Source:
    name, digest = _read_texts([found["name"], found["digest"]])
    revision = found.get("revision")  # absent from older files
    if revision is not None and not re.fullmatch("[0-9a-f]{40}", revision):
        raise ValueError("expected the revision of the backbone as a commit of 40 hexadecimal digits")
    return Source(name, int(found["side"]), digest, revision)


def _read_texts(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise TypeError("expected a list of texts")
    return tuple(found)
