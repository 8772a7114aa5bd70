"""ConceptExtractor: pictures -> a table of named concepts, by a backbone and one linear classifier a concept.

    score_k(picture) = σ(α_k · max over cells (a_k · features(cell) + b_k) + β_k)

PAPER §4.1: classifiers learn at the annotated parts of the training pictures and are applied to every cell of any
picture; the maximum is the picture's score. Some pictures are held out: they choose how strongly each classifier is
regularised, make its score a probability (α, β), and tell how far it can be trusted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from ..printable import escape
from .classifiers import RIDGES
from .concept_file import ARRAYS, Knowledge, Trust, pack, read_knowledge, write_knowledge
from .feature_grids import Plan, find_logits, find_peaks, open_grids, stream_grids
from .feature_store import Shelf, picture_key
from .learning import Wishes, learn
from .pictures import PictureError, list_pictures

if TYPE_CHECKING:
    from .annotations import Annotations
    from .backbone import Backbone

RECALLED = 1024  # pictures whose scores are read from a cache at once
Pictures = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, eq=False)
class Concepts:
    """The table that a model reads: one row a picture, one column a concept.

    Parameters
    ----------
    images : N paths
    names : K concepts
    scores : (N, K) float32, the probability that a picture shows the concept; NaN in the rows of broken pictures
    broken : what was wrong with pictures that cannot be read, by their row

    Examples
    --------
    >>> table = Concepts((Path("a.jpg"), Path("b.jpg")), ("red wing",), np.array([[0.9], [np.nan]]), {1: "b.jpg: no"})
    >>> table.is_read.tolist()
    [True, False]
    >>> print(table.report())
    1 of 2 pictures could not be read:
      b.jpg: no
    """

    images: tuple[Path, ...]
    names: tuple[str, ...]
    scores: np.ndarray
    broken: dict[int, str]

    @property
    def is_read(self) -> np.ndarray:
        """(N,) bool, pictures that have scores."""
        found = np.ones(len(self.images), dtype=bool)
        found[list(self.broken)] = False
        return found

    def report(self) -> str:
        """A line on every picture that could not be read, or on all being well."""
        if not self.broken:
            return f"all {len(self.images):,} pictures were read"
        lines = [f"{len(self.broken):,} of {len(self.images):,} pictures could not be read:"]
        return "\n".join([*lines, *(f"  {escape(reason)}" for reason in self.broken.values())])


class Scored(NamedTuple):
    """rows : (b,) places of the pictures in the list; scores : (b, K)"""

    rows: np.ndarray
    scores: np.ndarray


class ConceptExtractor:
    """Pictures -> scores of named concepts. Made by `fit` or `load`.

    Parameters
    ----------
    knowledge : what was learned: names, parts, classifiers, trust
    backbone : the one that it was learned with; by default it is loaded from where it was, when it is first needed
    """

    def __init__(self, knowledge: Knowledge, backbone: Backbone | None = None):
        self.knowledge = knowledge
        self._backbone: Backbone | None = None
        if backbone is not None:
            self.backbone = backbone

    @classmethod
    def fit(
        cls,
        annotations: Annotations,
        backbone: Backbone,
        *,
        held_out: float = 0.2,
        n_background: int = 2,
        ridges: tuple[float, ...] = RIDGES,
        max_axes: int = 512,
        batch_size: int = 16,
        n_threads: int = 2,
        cache: str | os.PathLike[str] | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> ConceptExtractor:
        """Learn all concepts from the training pictures (`annotations.is_train`).

        Parameters
        ----------
        held_out : share of these pictures that no classifier learns from, at most 1,000 pictures
        n_background : cells beside the bird that each picture adds
        ridges : strengths of regularisation to choose from, for each concept
        max_axes : principal axes of the features that classifiers use
        batch_size, n_threads : pictures that the network sees at once; threads that decode them
        cache : a folder that keeps the features (0.8 MB a picture with ResNet-50), for another fit and for `apply`
        random_state : which pictures are held out, and which cells are background
        verbose : show progress
        """
        wishes = Wishes(held_out, n_background, tuple(ridges), max_axes, random_state)
        return cls(learn(annotations, backbone, wishes, Plan(batch_size, n_threads, verbose), cache), backbone)

    @property
    def names(self) -> tuple[str, ...]:
        """K concepts."""
        return self.knowledge.names

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """The parts at which each concept is seen."""
        return self.knowledge.parts

    @property
    def backbone(self) -> Backbone:
        if self._backbone is None:
            self.load_backbone()
        assert self._backbone is not None
        return self._backbone

    @backbone.setter
    def backbone(self, backbone: Backbone) -> None:
        source = self.knowledge.source
        if backbone.digest != source.digest:
            raise ValueError(
                f"the backbone {backbone.name!r} at {backbone.side} pixels is not the one that the concepts were "
                f"fitted with ({source.name!r} at {source.side}): weights or preparation differ"
            )
        self._backbone = backbone

    def load_backbone(
        self, name: str | os.PathLike[str] | None = None, device: str = "cpu", *, allow_download: bool = False
    ) -> None:
        """Load the backbone, which must have the digest of the one that the concepts were fitted with.

        Parameters
        ----------
        name : a folder, or a name on the hub; by default where the backbone was
        device : where it runs
        allow_download : allow the hub. A concept file may name any model of the hub, at a commit that it records.
        """
        from .backbone import Backbone

        source = self.knowledge.source
        revision = source.revision if name is None else None
        try:
            self.backbone = Backbone.load(
                name or source.name, source.side, device, allow_download=allow_download, revision=revision
            )
        except FileNotFoundError as error:
            hint = "or give a folder with the backbone that the concepts were fitted with (backbone=, --backbone)"
            raise FileNotFoundError(f"{error}; {hint}") from error

    def trust(self) -> list[Trust]:
        """How far each concept can be trusted, in the order of `names`; `pandas.DataFrame` makes a table of it."""
        return list(self.knowledge.trust)

    def apply(
        self,
        pictures: Pictures,
        *,
        batch_size: int = 16,
        n_threads: int = 2,
        cache: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> Concepts:
        """Scores of all concepts in pictures: a folder, or a list of paths, whose order is kept.

        With `cache`, a folder, scores are kept there as they come: the same call goes on where a stopped one was.
        """
        paths = list_paths(pictures)
        broken: dict[int, str] = {}
        scores = np.full((len(paths), len(self.names)), np.nan, dtype=np.float32)
        parts = self.stream(paths, broken, batch_size=batch_size, n_threads=n_threads, cache=cache, verbose=verbose)
        for part in parts:
            scores[part.rows] = part.scores
        return Concepts(tuple(paths), self.names, scores, dict(sorted(broken.items())))

    def stream(
        self,
        pictures: Pictures,
        broken: dict[int, str],
        *,
        batch_size: int = 16,
        n_threads: int = 2,
        cache: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> Iterator[Scored]:
        """The scores of `apply`, a batch at a time, in memory that does not grow; `broken` is filled on the way."""
        paths = list_paths(pictures)
        plan = Plan(batch_size, n_threads, verbose)
        if cache is None:
            yield from self._score(paths, np.arange(len(paths)), plan, broken, None)
            return
        with self._open_scores(cache) as shelf, open_grids(cache, self.backbone, is_new=False) as grids:
            keys = [picture_key(path) for path in paths]
            left = np.array([row for row, key in enumerate(keys) if shelf.get(key) is None], dtype=int)
            memory = _Memory(shelf, paths, keys, broken)
            done = 0
            for part in self._score(paths, left, plan, broken, grids):
                fresh = dict(zip(part.rows.tolist(), part.scores, strict=True))
                for row, scores in fresh.items():
                    shelf.put(keys[row], scores)
                yield from memory.recall(range(done, max(fresh) + 1), fresh)
                done = max(fresh) + 1
            yield from memory.recall(range(done, len(paths)), {})

    def locate(self, picture: str | os.PathLike[str], concepts: str | Sequence[str] | None = None) -> np.ndarray:
        """Heat maps, (concepts, h, w): the probability of each at each cell; its maximum is the picture's score.

        Parameters
        ----------
        picture : a path
        concepts : a name or several; all by default
        """
        known, chosen = self.knowledge, self._find([concepts] if isinstance(concepts, str) else concepts)
        broken: dict[int, str] = {}
        for _, features in stream_grids([picture], self.backbone, Plan(1, 1), broken):
            logits = find_logits(features, known.coefficients[chosen], known.intercepts[chosen])[0]
            slope, shift = known.calibration[chosen].T[:, :, None]
            return expit(slope * logits + shift).astype(np.float32).reshape(len(chosen), *features.shape[2:])
        raise PictureError(broken[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `load` reads: an archive of JSON and plain arrays, without the backbone's weights."""
        write_knowledge(path, self.knowledge)

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: Backbone | None = None) -> ConceptExtractor:
        """Read a file that `save` wrote. The backbone, if none is given, is loaded when it is first needed."""
        return cls(read_knowledge(path), backbone)

    def _score(
        self, paths: Sequence[Path], rows: np.ndarray, plan: Plan, broken: dict[int, str], shelf: Shelf | None
    ) -> Iterator[Scored]:
        """Scores of some of the pictures, by the network."""
        known, unread = self.knowledge, dict[int, str]()
        for found in stream_grids([paths[row] for row in rows], self.backbone, plan, unread, shelf):
            slope, shift = known.calibration.T
            peaks = find_peaks(found.features, known.coefficients, known.intercepts)
            broken.update({int(rows[k]): reason for k, reason in unread.items()})
            yield Scored(rows[found.rows], expit(slope * peaks + shift).astype(np.float32))
        broken.update({int(rows[k]): reason for k, reason in unread.items()})

    def _open_scores(self, cache: str | os.PathLike[str]) -> Shelf:
        made = hashlib.sha256(self.knowledge.source.digest.encode())
        for name in ARRAYS:
            made.update(pack(getattr(self.knowledge, name)))
        return Shelf(Path(cache) / f"scores-{made.hexdigest()[:16]}.shelf", (len(self.names),), "f4")

    def _find(self, names: Sequence[str] | None) -> np.ndarray:
        place = {name: k for k, name in enumerate(self.names)}
        names = self.names if names is None else names
        if absent := [name for name in names if name not in place]:
            raise ValueError(f"there is no concept {absent[0]!r}; the extractor's `names` lists all {len(place)}")
        return np.array([place[name] for name in names], dtype=int)

    def __repr__(self) -> str:
        return f"<ConceptExtractor: {len(self.names)} concepts on {escape(self.knowledge.source.name) or 'a backbone'}>"


def load(path: str | os.PathLike[str], backbone: Backbone | None = None) -> ConceptExtractor:
    """Read the extractor in a file that `ConceptExtractor.save` wrote."""
    return ConceptExtractor.load(path, backbone)


def list_paths(pictures: Pictures) -> list[Path]:
    """Pictures of a folder, one picture, or a list."""
    if isinstance(pictures, str | os.PathLike):
        return list_pictures(pictures) if os.path.isdir(pictures) else [Path(pictures)]
    return [Path(picture) for picture in pictures]


class _Memory(NamedTuple):
    """Scores of earlier runs, by the rows of a list of pictures."""

    shelf: Shelf
    paths: Sequence[Path]
    keys: Sequence[bytes | None]
    broken: dict[int, str]

    def recall(self, rows: range, fresh: dict[int, np.ndarray]) -> Iterator[Scored]:
        """The scores of these rows, fresh or of the shelf, some at a time. A broken picture has none, and whatever else
        has none is one: nothing is left out without a word."""
        for start in range(rows.start, rows.stop, RECALLED):
            found = {}
            for row in range(start, min(start + RECALLED, rows.stop)):
                scores = fresh[row] if row in fresh else self.shelf.get(self.keys[row])
                if scores is not None:
                    found[row] = scores
                elif row not in self.broken:
                    self.broken[row] = f"{self.paths[row]}: its scores were lost from the cache meanwhile; run it again"
            if found:
                yield Scored(np.array(list(found)), np.stack(list(found.values())))
