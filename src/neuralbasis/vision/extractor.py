"""ConceptExtractor: pictures -> a table of named concepts, by a backbone and one linear classifier per concept.

    score_k(picture) = σ(α_k · max over patches (a_k · features(patch) + b_k) + β_k)

PAPER §4.1: classifiers are trained at the annotated parts of the training pictures and applied to all patches of a
picture; the maximum is the picture's score. Held-out pictures select the regularisation of each classifier, calibrate
its score to a probability (α, β) and measure its quality.
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
from .concept_file import ARRAYS, LearnedConcepts, Trust, encode_array, read_concept_file, write_concept_file
from .feature_grids import BatchOptions, compute_logits, compute_max_logits, open_grid_store, stream_grids
from .feature_store import SUFFIX, FeatureStore, picture_key
from .learning import LearningOptions, learn
from .pictures import PictureError, list_pictures

if TYPE_CHECKING:
    from .annotations import Annotations
    from .backbone import Backbone

ROWS_PER_READ = 1024  # pictures whose scores are read from a cache at once
Pictures = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, eq=False)
class Concepts:
    """A table of concept scores: one row per picture, one column per concept.

    Parameters
    ----------
    images : N paths
    names : K concepts
    scores : (N, K) float32, probability that a picture shows the concept; NaN in rows of unreadable pictures
    broken : row -> reason, for unreadable pictures

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
        """A summary with one line per unreadable picture."""
        if not self.broken:
            return f"all {len(self.images):,} pictures were read"
        lines = [f"{len(self.broken):,} of {len(self.images):,} pictures could not be read:"]
        return "\n".join([*lines, *(f"  {escape(reason)}" for reason in self.broken.values())])


class ScoreBatch(NamedTuple):
    """Scores of a batch: (b,) rows of the list of pictures, (b, K) probabilities."""

    rows: np.ndarray
    scores: np.ndarray


class ConceptExtractor:
    """Scores of named concepts in pictures. Create it with `fit` or `load`.

    Parameters
    ----------
    learned : names, parts, classifiers and their measured quality
    backbone : the backbone that the concepts were fitted with; by default it is loaded from its recorded location
        when it is first needed
    """

    def __init__(self, learned: LearnedConcepts, backbone: Backbone | None = None):
        self.learned = learned
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
        """Learn all concepts of the training pictures (`annotations.is_train`).

        Parameters
        ----------
        annotations : pictures with located parts and attributes
        backbone : network that computes the features
        held_out : share of the training pictures that no classifier is trained on, at most 1,000 pictures
        n_background : background patches per picture
        ridges : regularisation strengths; the best is selected for each concept
        max_axes : number of principal axes of the features that classifiers use
        batch_size : pictures per call of the network
        n_threads : threads that decode pictures
        cache : folder for features (0.8 MB per picture with ResNet-50), used by later calls of `fit` and `apply`
        random_state : seed for the choice of held-out pictures and background patches
        verbose : show progress
        """
        options = LearningOptions(held_out, n_background, tuple(ridges), max_axes, random_state)
        batches = BatchOptions(batch_size, n_threads, verbose)
        return cls(learn(annotations, backbone, options, batches, cache), backbone)

    @property
    def names(self) -> tuple[str, ...]:
        """K concepts."""
        return self.learned.names

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """The parts at which each concept is visible."""
        return self.learned.parts

    @property
    def backbone(self) -> Backbone:
        """The backbone, loaded when it is first needed."""
        if self._backbone is None:
            self.load_backbone()
        assert self._backbone is not None
        return self._backbone

    @backbone.setter
    def backbone(self, backbone: Backbone) -> None:
        source = self.learned.source
        if backbone.digest != source.digest:
            raise ValueError(
                f"the backbone {backbone.name!r} at {backbone.side} pixels is not the one that the concepts were "
                f"fitted with ({source.name!r} at {source.side}): its weights or its preprocessing differ"
            )
        self._backbone = backbone

    def load_backbone(
        self, name: str | os.PathLike[str] | None = None, device: str = "cpu", *, allow_download: bool = False
    ) -> None:
        """Load the backbone. Its digest must be that of the backbone that the concepts were fitted with.

        Parameters
        ----------
        name : folder or name on the hub; by default the recorded location
        device : device of the network
        allow_download : allow a download from the hub. A concept file may name any hub model; the download uses the
            commit that the file records.
        """
        from .backbone import Backbone

        source = self.learned.source
        revision = source.revision if name is None else None
        try:
            self.backbone = Backbone.load(
                name or source.name, source.side, device, allow_download=allow_download, revision=revision
            )
        except FileNotFoundError as error:
            hint = "or give the folder of the backbone that the concepts were fitted with (backbone=, --backbone)"
            raise FileNotFoundError(f"{error}; {hint}") from error

    def trust(self) -> list[Trust]:
        """Measured quality of each concept, in the order of `names`. `pandas.DataFrame` converts it to a table."""
        return list(self.learned.trust)

    def apply(
        self,
        pictures: Pictures,
        *,
        batch_size: int = 16,
        n_threads: int = 2,
        cache: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> Concepts:
        """Compute the scores of all concepts.

        Parameters
        ----------
        pictures : a folder, a path, or a list of paths, whose order is kept
        batch_size : pictures per call of the network
        n_threads : threads that decode pictures
        cache : folder for scores, written as they are computed; the same call resumes an interrupted one
        verbose : show progress
        """
        paths = list_paths(pictures)
        broken: dict[int, str] = {}
        scores = np.full((len(paths), len(self.names)), np.nan, dtype=np.float32)
        batches = self.stream(paths, broken, batch_size=batch_size, n_threads=n_threads, cache=cache, verbose=verbose)
        for batch in batches:
            scores[batch.rows] = batch.scores
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
    ) -> Iterator[ScoreBatch]:
        """The scores of `apply` in batches, in constant memory; reasons for unreadable pictures go to `broken`."""
        paths = list_paths(pictures)
        options = BatchOptions(batch_size, n_threads, verbose)
        if cache is None:
            yield from self._compute_scores(paths, np.arange(len(paths)), options, broken, None)
            return
        with self._open_scores(cache) as store, open_grid_store(cache, self.backbone, is_writer=False) as grids:
            keys = [picture_key(path) for path in paths]
            missing = np.array([row for row, key in enumerate(keys) if store.get(key) is None], dtype=int)
            cached = _CachedScores(store, paths, keys, broken)
            done = 0
            for batch in self._compute_scores(paths, missing, options, broken, grids):
                computed = dict(zip(batch.rows.tolist(), batch.scores, strict=True))
                for row, scores in computed.items():
                    store.put(keys[row], scores)
                yield from cached.read(range(done, max(computed) + 1), computed)
                done = max(computed) + 1
            yield from cached.read(range(done, len(paths)), {})

    def locate(self, picture: str | os.PathLike[str], concepts: str | Sequence[str] | None = None) -> np.ndarray:
        """Heat maps of concepts: (concepts, h, w) probabilities per patch. The maximum is the picture's score.

        Parameters
        ----------
        picture : path
        concepts : one or several names; all by default
        """
        learned, chosen = self.learned, self._find([concepts] if isinstance(concepts, str) else concepts)
        broken: dict[int, str] = {}
        for _, features in stream_grids([picture], self.backbone, BatchOptions(1, 1), broken):
            logits = compute_logits(features, learned.coefficients[chosen], learned.intercepts[chosen])[0]
            slope, shift = learned.calibration[chosen].T[:, :, None]
            return expit(slope * logits + shift).astype(np.float32).reshape(len(chosen), *features.shape[2:])
        raise PictureError(broken[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a concept file for `load`: an archive of JSON and plain arrays, without the backbone's weights."""
        write_concept_file(path, self.learned)

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: Backbone | None = None) -> ConceptExtractor:
        """Read a concept file. Without `backbone`, the backbone is loaded when it is first needed."""
        return cls(read_concept_file(path), backbone)

    def _compute_scores(
        self,
        paths: Sequence[Path],
        rows: np.ndarray,
        options: BatchOptions,
        broken: dict[int, str],
        store: FeatureStore | None,
    ) -> Iterator[ScoreBatch]:
        """Scores of the pictures in these rows, from the network or from stored features."""
        learned, unread = self.learned, dict[int, str]()
        for found in stream_grids([paths[row] for row in rows], self.backbone, options, unread, store):
            slope, shift = learned.calibration.T
            logits = compute_max_logits(found.features, learned.coefficients, learned.intercepts)
            broken.update({int(rows[k]): reason for k, reason in unread.items()})
            yield ScoreBatch(rows[found.rows], expit(slope * logits + shift).astype(np.float32))
        broken.update({int(rows[k]): reason for k, reason in unread.items()})

    def _open_scores(self, cache: str | os.PathLike[str]) -> FeatureStore:
        """The store of these concepts' scores in a cache folder."""
        digest = hashlib.sha256(self.learned.source.digest.encode())
        for name in ARRAYS:
            digest.update(encode_array(getattr(self.learned, name)))
        return FeatureStore(Path(cache) / f"scores-{digest.hexdigest()[:16]}{SUFFIX}", (len(self.names),), "f4")

    def _find(self, names: Sequence[str] | None) -> np.ndarray:
        index = {name: k for k, name in enumerate(self.names)}
        names = self.names if names is None else names
        if absent := [name for name in names if name not in index]:
            raise ValueError(f"there is no concept {absent[0]!r}; `names` lists all {len(index)} concepts")
        return np.array([index[name] for name in names], dtype=int)

    def __repr__(self) -> str:
        return f"<ConceptExtractor: {len(self.names)} concepts on {escape(self.learned.source.name) or 'a backbone'}>"


def load(path: str | os.PathLike[str], backbone: Backbone | None = None) -> ConceptExtractor:
    """Read a concept file that `ConceptExtractor.save` wrote.

    Parameters
    ----------
    path : concept file
    backbone : the backbone that the concepts were fitted with; by default it is loaded when it is first needed
    """
    return ConceptExtractor.load(path, backbone)


def list_paths(pictures: Pictures) -> list[Path]:
    """The pictures of a folder, one picture, or a list."""
    if isinstance(pictures, str | os.PathLike):
        return list_pictures(pictures) if os.path.isdir(pictures) else [Path(pictures)]
    return [Path(picture) for picture in pictures]


class _CachedScores(NamedTuple):
    """Scores of earlier runs, by the rows of a list of pictures."""

    store: FeatureStore
    paths: Sequence[Path]
    keys: Sequence[bytes | None]
    broken: dict[int, str]

    def read(self, rows: range, computed: dict[int, np.ndarray]) -> Iterator[ScoreBatch]:
        """Scores of these rows, just computed or stored; rows without scores are added to `broken`."""
        for start in range(rows.start, rows.stop, ROWS_PER_READ):
            found = {}
            for row in range(start, min(start + ROWS_PER_READ, rows.stop)):
                scores = computed[row] if row in computed else self.store.get(self.keys[row])
                if scores is not None:
                    found[row] = scores
                elif row not in self.broken:
                    self.broken[row] = (
                        f"{self.paths[row]}: its scores were lost from the cache during the run; repeat it"
                    )
            if found:
                yield ScoreBatch(np.array(list(found)), np.stack(list(found.values())))
