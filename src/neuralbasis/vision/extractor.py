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
from .features import SUFFIX, BatchOptions, FeatureStore, compute_logits, open_grid_store, picture_key, stream_grids
from .learning import learn
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
        return ~np.isin(np.arange(len(self.images)), list(self.broken))

    def report(self) -> str:
        """A summary with one line per unreadable picture."""
        if not self.broken:
            return f"all {len(self.images):,} pictures were read"
        title = f"{len(self.broken):,} of {len(self.images):,} pictures could not be read:"
        return "\n".join([title, *(f"  {escape(reason)}" for reason in self.broken.values())])


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

    Examples
    --------
    >>> from neuralbasis.vision import Backbone, ConceptExtractor, read_cub
    >>> birds = read_cub("CUB_200_2011")  # doctest: +SKIP
    >>> extractor = ConceptExtractor.fit(birds, Backbone.load("resnet-50"))  # doctest: +SKIP
    >>> extractor.apply("pictures").names[:2]  # doctest: +SKIP
    ('black back', 'black belly')
    """

    def __init__(self, learned: LearnedConcepts, backbone: Backbone | None = None):
        self.learned = learned
        self._backbone: Backbone | None = None
        if backbone is not None:
            self.backbone = backbone

    @classmethod
    def fit(
        cls, annotations: Annotations, backbone: Backbone, *, held_out: float = 0.2, n_background: int = 2,
        ridges: tuple[float, ...] = RIDGES, max_axes: int = 512, batch_size: int = 16, n_threads: int = 2,
        cache: str | os.PathLike[str] | None = None, random_state: int = 0, verbose: bool = False,
    ) -> ConceptExtractor:  # fmt: skip
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
        batches = BatchOptions(batch_size, n_threads, verbose)
        settings = held_out, n_background, tuple(ridges), max_axes, random_state
        return cls(learn(annotations, backbone, cache, batches, *settings), backbone)

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
        self, pictures: Pictures, *, batch_size: int = 16, n_threads: int = 2,
        cache: str | os.PathLike[str] | None = None, verbose: bool = False,
    ) -> Concepts:  # fmt: skip
        """Compute the scores of all concepts.

        Parameters
        ----------
        pictures : a folder, a path, or a list of paths, whose order is kept
        batch_size : pictures per call of the network
        n_threads : threads that decode pictures
        cache : folder for scores, written as they are computed; the same call resumes an interrupted one
        verbose : show progress
        """
        paths = _list_paths(pictures)
        broken: dict[int, str] = {}
        scores = np.full((len(paths), len(self.names)), np.nan, dtype=np.float32)
        batches = self.stream(paths, broken, batch_size=batch_size, n_threads=n_threads, cache=cache, verbose=verbose)
        for batch in batches:
            scores[batch.rows] = batch.scores
        return Concepts(tuple(paths), self.names, scores, dict(sorted(broken.items())))

    def stream(
        self, pictures: Pictures, broken: dict[int, str], *, batch_size: int = 16, n_threads: int = 2,
        cache: str | os.PathLike[str] | None = None, verbose: bool = False,
    ) -> Iterator[ScoreBatch]:  # fmt: skip
        """The scores of `apply` in batches, in constant memory; reasons for unreadable pictures go to `broken`."""
        paths, options = _list_paths(pictures), BatchOptions(batch_size, n_threads, verbose)
        if cache is None:
            yield from self._compute_scores(paths, range(len(paths)), options, broken, None)
            return
        digest = hashlib.sha256(self.learned.source.digest.encode())
        for name in ARRAYS:
            digest.update(encode_array(getattr(self.learned, name)))
        path = Path(cache) / f"scores-{digest.hexdigest()[:16]}{SUFFIX}"
        with (
            FeatureStore(path, (len(self.names),), "f4") as store,
            open_grid_store(cache, self.backbone, is_writer=False) as grids,
        ):
            keys = [picture_key(path) for path in paths]
            missing = [row for row, key in enumerate(keys) if store.get(key) is None]

            def read_scores(start: int, stop: int, computed: dict[int, np.ndarray]) -> Iterator[ScoreBatch]:
                for first in range(start, stop, ROWS_PER_READ):
                    found = {}
                    for row in range(first, min(first + ROWS_PER_READ, stop)):
                        scores = computed[row] if row in computed else store.get(keys[row])
                        if scores is not None:
                            found[row] = scores
                        elif row not in broken:
                            reason = "its scores were lost from the cache during the run; repeat it"
                            broken[row] = f"{paths[row]}: {reason}"
                    if found:
                        yield ScoreBatch(np.array(list(found)), np.stack(list(found.values())))

            done = 0
            for batch in self._compute_scores(paths, missing, options, broken, grids):
                computed = dict(zip(batch.rows.tolist(), batch.scores, strict=True))
                for row, scores in computed.items():
                    store.put(keys[row], scores)
                yield from read_scores(done, max(computed) + 1, computed)
                done = max(computed) + 1
            yield from read_scores(done, len(paths), {})

    def locate(self, picture: str | os.PathLike[str], concepts: str | Sequence[str] | None = None) -> np.ndarray:
        """Heat maps of concepts: (concepts, h, w) probabilities per patch. The maximum is the picture's score.

        Parameters
        ----------
        picture : path
        concepts : one or several names; all by default
        """
        learned, index = self.learned, {name: k for k, name in enumerate(self.names)}
        names = self.names if concepts is None else [concepts] if isinstance(concepts, str) else concepts
        if absent := [name for name in names if name not in index]:
            raise ValueError(f"there is no concept {absent[0]!r}; `names` lists all {len(index)} concepts")
        chosen = np.array([index[name] for name in names], dtype=int)
        broken: dict[int, str] = {}
        for _, features in stream_grids([picture], [0], self.backbone, BatchOptions(1, 1), broken):
            logits = compute_logits(features, learned.coefficients[chosen], learned.intercepts[chosen])[0]
            slope, shift = learned.calibration[chosen].T[:, :, None]
            return expit(slope * logits + shift).astype(np.float32).reshape(len(chosen), *features.shape[2:])
        raise PictureError(broken[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a concept file for `load`: an archive of JSON and plain arrays, without the backbone's weights."""
        write_concept_file(path, self.learned)

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: Backbone | None = None) -> ConceptExtractor:
        """Read a concept file that `save` wrote.

        Parameters
        ----------
        path : concept file
        backbone : the backbone that the concepts were fitted with; by default it is loaded when it is first needed

        Returns
        -------
        ConceptExtractor

        Examples
        --------
        >>> from neuralbasis import vision
        >>> vision.load("birds.nbc").apply("pictures").scores.shape  # doctest: +SKIP
        (120, 278)
        """
        return cls(read_concept_file(path), backbone)

    def _compute_scores(
        self, paths: Sequence[Path], rows: Sequence[int], options: BatchOptions, broken: dict[int, str],
        store: FeatureStore | None,
    ) -> Iterator[ScoreBatch]:  # fmt: skip
        """Scores of the pictures in these rows, from the network or from stored features."""
        slope, shift = self.learned.calibration.T
        for found, features in stream_grids(paths, rows, self.backbone, options, broken, store):
            logits = compute_logits(features, self.learned.coefficients, self.learned.intercepts).max(axis=2)
            yield ScoreBatch(found, expit(slope * logits + shift).astype(np.float32))

    def __repr__(self) -> str:
        return f"<ConceptExtractor: {len(self.names)} concepts on {escape(self.learned.source.name) or 'a backbone'}>"


load = ConceptExtractor.load


def _list_paths(pictures: Pictures) -> list[Path]:
    """The pictures of a folder, one picture, or a list."""
    if isinstance(pictures, str | os.PathLike):
        return list_pictures(pictures) if os.path.isdir(pictures) else [Path(pictures)]
    return [Path(picture) for picture in pictures]
