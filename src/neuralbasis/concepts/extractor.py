"""ConceptExtractor: a backbone and one linear classifier a concept.

    score_k(picture) = σ(α_k · max over cells (a_k · features(cell) + b_k) + β_k)

PAPER §4.1: classifiers learn at the annotated parts of the training pictures and are applied to every cell of any
picture; the maximum is the picture's score. Some pictures are held out: they choose how strongly each classifier is
regularised, make its score a probability (α, β), and tell how far it can be trusted.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.metrics import average_precision_score, roc_auc_score

from .. import __version__
from ..archive import DocumentError, read_archive, write_archive
from .annotations import Annotations
from .cells import Cells, choose_cells, weigh
from .classifiers import RIDGES, calibrate, fit_classifiers
from .grids import Plan, open_grids, stream_grids
from .pictures import list_pictures, picture_size
from .shelf import Shelf, picture_key

if TYPE_CHECKING:
    from .backbone import Backbone

FORMAT = 1  # of the file; a reader of a new format keeps reading the old ones
DOCUMENT = "concepts.json"
MAX_HELD = 1000  # pictures whose grids are kept in memory while fitting: 0.8 GB of ResNet-50's
RECALLED = 1024  # pictures whose scores are read from a cache at once
ARRAYS = ("coefficients", "intercepts", "calibration")
Pictures = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Trust(NamedTuple):
    """How far a concept can be trusted, by pictures that its classifier has not seen.

    n_train, n_held : pictures with the concept, to fit on and held out; n_held_absent : held out without it
    auroc, ap : of the score of a picture, NaN where there is no picture with it, or none without
    share : of the pictures held out that have it (an ap of that size is chance)
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


@dataclass(frozen=True, eq=False)
class Concepts:
    """The table that a model reads: one row a picture, one column a concept.

    Parameters
    ----------
    images : N paths
    names : K concepts
    scores : (N, K) float32, the probability that a picture shows the concept; NaN in the rows of broken pictures
    broken : what was wrong with pictures that cannot be read, by their row
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
        return "\n".join([*lines, *(f"  {reason}" for reason in self.broken.values())])


class ConceptExtractor:
    """Pictures -> scores of named concepts. Made by `fit` or `load`.

    Attributes
    ----------
    names : K concepts
    parts : parts at which each is seen
    coefficients, intercepts : (K, C) and (K,) float32
    calibration : (K, 2), slope and shift of the score's logit
    backbone : loaded from where it was when the extractor was fitted, unless one is given
    left_out : concepts that no picture has, or that all have: there is nothing to learn
    broken : pictures that could not be read while fitting
    """

    def __init__(
        self,
        names: Sequence[str],
        parts: Sequence[Sequence[str]],
        coefficients: np.ndarray,
        intercepts: np.ndarray,
        calibration: np.ndarray,
        trust: Sequence[Trust],
        source: dict[str, Any],
        backbone: Backbone | None = None,
        left_out: Sequence[str] = (),
        broken: Sequence[str] = (),
    ):
        self.names, self.parts = tuple(names), tuple(map(tuple, parts))
        self.coefficients, self.intercepts, self.calibration = coefficients, intercepts, calibration
        self.left_out, self.broken = tuple(left_out), tuple(broken)
        self._trust, self._source = tuple(trust), source
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
        chosen = annotations.select(annotations.is_train)
        _check(chosen, held_out)
        rng = np.random.default_rng(random_state)
        sizes = np.array([picture_size(path) for path in chosen.images], dtype=float).reshape(-1, 2)
        cells = choose_cells(chosen, sizes, backbone.shape[1:], n_background, rng)
        is_held = _hold_out(len(chosen.images), held_out, rng)
        plan = Plan(batch_size, n_threads, verbose)
        features, grids, broken = _collect(chosen, backbone, cells, is_held, plan, cache)
        is_fit = ~is_held[cells.image] & np.isfinite(features[:, 0])
        is_choice = is_held[cells.image] & np.isfinite(features[:, 0])
        weights = weigh(*cells.select(is_fit)[2:])
        is_taught = np.abs(weights).sum(axis=0) > 0
        found = fit_classifiers(
            features[is_fit],
            weights[:, is_taught],
            features[is_choice],
            weigh(*cells.select(is_choice)[2:])[:, is_taught],
            ridges,
            max_axes,
        )
        truth = chosen.truth()[:, is_taught]
        rows = np.array(sorted(grids), dtype=int)
        peaks = (
            np.concatenate([_peaks(grids[row][None], *found[:2]) for row in rows]) if len(rows) else np.zeros((0, 0))
        )
        names = np.array(chosen.concepts)[is_taught]
        n_train = (truth[~is_held] == 1).sum(axis=0)
        return cls(
            names.tolist(),
            [[part for part, shown in zip(chosen.parts, row, strict=True) if shown] for row in chosen.shows[is_taught]],
            found.coefficients,
            found.intercepts,
            calibrate(peaks, truth[rows]),
            [_judge(*told) for told in zip(names, n_train, truth[rows].T, peaks.T, found.ridges, strict=True)],
            _describe_source(backbone),
            backbone,
            np.array(chosen.concepts)[~is_taught].tolist(),
            list(broken.values()),
        )

    @property
    def backbone(self) -> Backbone:
        if self._backbone is None:
            from .backbone import Backbone

            self.backbone = Backbone.load(self._source["name"], side=self._source["side"])
        assert self._backbone is not None
        return self._backbone

    @backbone.setter
    def backbone(self, backbone: Backbone) -> None:
        if backbone.digest != self._source["digest"]:
            raise ValueError(
                f"the backbone {backbone.name!r} at {backbone.side} pixels is not the one that the concepts were "
                f"fitted with ({self._source['name']!r} at {self._source['side']}): weights or preparation differ"
            )
        self._backbone = backbone

    @property
    def side(self) -> int:
        """Pixels to which pictures are resized."""
        return self._source["side"]

    def trust(self) -> list[Trust]:
        """How far each concept can be trusted, in the order of `names`; `pandas.DataFrame` makes a table of it."""
        return list(self._trust)

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
        paths = _list_paths(pictures)
        broken: dict[int, str] = {}
        scores = np.full((len(paths), len(self.names)), np.nan, dtype=np.float32)
        for part in self.stream(
            paths, broken, batch_size=batch_size, n_threads=n_threads, cache=cache, verbose=verbose
        ):
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
        paths = _list_paths(pictures)
        plan = Plan(batch_size, n_threads, verbose)
        if cache is None:
            yield from self._score(paths, np.arange(len(paths)), plan, broken, None)
            return
        with self._open_scores(cache) as shelf, open_grids(cache, self.backbone, is_new=False) as grids:
            keys = [picture_key(path) for path in paths]
            left = np.array([row for row, key in enumerate(keys) if shelf.get(key) is None], dtype=int)
            done = 0
            for part in self._score(paths, left, plan, broken, grids):
                for row, scores in zip(part.rows, part.scores, strict=True):
                    shelf.put(keys[row], scores)
                yield from _recall(shelf, keys, range(done, part.rows[-1] + 1))
                done = part.rows[-1] + 1
            yield from _recall(shelf, keys, range(done, len(paths)))

    def locate(self, picture: str | os.PathLike[str], concepts: str | Sequence[str] | None = None) -> np.ndarray:
        """Heat maps, (concepts, h, w): the probability of each at each cell; its maximum is the picture's score.

        Parameters
        ----------
        picture : a path
        concepts : a name or several; all by default
        """
        chosen = self._find([concepts] if isinstance(concepts, str) else concepts)
        broken: dict[int, str] = {}
        for _, features in stream_grids([picture], self.backbone, Plan(1, 1), broken):
            logits = _logits(features, self.coefficients[chosen], self.intercepts[chosen])[0]
            slope, shift = self.calibration[chosen].T[:, :, None]
            return expit(slope * logits + shift).astype(np.float32).reshape(len(chosen), *features.shape[2:])
        raise ValueError(broken[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `load` reads: an archive of JSON and plain arrays, without the backbone's weights."""
        document = {
            "format": FORMAT,
            "neuralbasis": __version__,
            "names": self.names,
            "parts": self.parts,
            "trust": [row[1:] for row in self._trust],
            "backbone": {**self._source, "n_features": self.coefficients.shape[1]},
            "left_out": self.left_out,
            "broken": self.broken,
        }
        entries = {DOCUMENT: json.dumps(document, ensure_ascii=False, indent=1).encode()}
        write_archive(path, {**entries, **{f"{name}.npy": _pack(getattr(self, name)) for name in ARRAYS}})

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: Backbone | None = None) -> ConceptExtractor:
        """Read a file that `save` wrote. The backbone, if none is given, is loaded when it is first needed."""
        try:
            with open(path, "rb") as file:
                return cls(**_read(read_archive(file)), backbone=backbone)
        except DocumentError as error:
            raise DocumentError(f"{os.fspath(path)} cannot be read as concepts: {error}") from None

    def _score(
        self, paths: Sequence[Path], rows: np.ndarray, plan: Plan, broken: dict[int, str], shelf: Shelf | None
    ) -> Iterator[Scored]:
        unread: dict[int, str] = {}
        for found in stream_grids([paths[row] for row in rows], self.backbone, plan, unread, shelf):
            peaks = _peaks(found.features, self.coefficients, self.intercepts)
            slope, shift = self.calibration.T
            yield Scored(rows[found.rows], expit(slope * peaks + shift).astype(np.float32))
        broken.update({int(rows[k]): reason for k, reason in unread.items()})

    def _open_scores(self, cache: str | os.PathLike[str]) -> Shelf:
        made = hashlib.sha256(self._source["digest"].encode())
        for name in ARRAYS:
            made.update(_pack(getattr(self, name)))
        return Shelf(Path(cache) / f"scores-{made.hexdigest()[:16]}.shelf", (len(self.names),), "f4")

    def _find(self, names: Sequence[str] | None) -> np.ndarray:
        place = {name: k for k, name in enumerate(self.names)}
        names = self.names if names is None else names
        if absent := [name for name in names if name not in place]:
            raise ValueError(f"there is no concept {absent[0]!r}; the extractor's `names` lists all {len(place)}")
        return np.array([place[name] for name in names], dtype=int)

    def __repr__(self) -> str:
        return f"<ConceptExtractor: {len(self.names)} concepts on {self._source['name'] or 'a backbone'}>"


class Scored(NamedTuple):
    """rows : (b,) places of the pictures in the list; scores : (b, K)"""

    rows: np.ndarray
    scores: np.ndarray


def load(path: str | os.PathLike[str], backbone: Backbone | None = None) -> ConceptExtractor:
    """Read the extractor in a file that `ConceptExtractor.save` wrote."""
    return ConceptExtractor.load(path, backbone)


def _recall(shelf: Shelf, keys: Sequence[bytes | None], rows: range) -> Iterator[Scored]:
    """Scores on the shelf, some rows at a time; a broken picture has none."""
    for start in range(rows.start, rows.stop, RECALLED):
        some = range(start, min(start + RECALLED, rows.stop))
        found = {row: scores for row in some if (scores := shelf.get(keys[row])) is not None}
        if found:
            yield Scored(np.array(list(found)), np.stack(list(found.values())))


def _logits(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(b, C, h, w) -> (b, K, h · w)"""
    flat = features.reshape(*features.shape[:2], -1).astype(np.float32)
    return coefficients @ flat + intercepts[:, None]


def _peaks(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(b, C, h, w) -> (b, K): the largest logit over the cells."""
    return _logits(features, coefficients, intercepts).max(axis=2)


def _check(annotations: Annotations, held_out: float) -> None:
    if not 0 < held_out < 1:
        raise ValueError(f"held_out is a share of the pictures between 0 and 1, got {held_out}")
    if not annotations.concepts or not len(annotations.locations.x):
        raise ValueError(
            "there is nothing to learn: expected annotations with parts, their places and attributes, for "
            f"pictures to fit on; got {annotations!r}"
        )


def _hold_out(n_images: int, share: float, rng: np.random.Generator) -> np.ndarray:
    found = np.zeros(n_images, dtype=bool)
    found[rng.permutation(n_images)[: min(max(round(share * n_images), 1), MAX_HELD)]] = True
    return found


def _collect(
    annotations: Annotations,
    backbone: Backbone,
    cells: Cells,
    is_held: np.ndarray,
    plan: Plan,
    cache: str | os.PathLike[str] | None,
) -> tuple[np.ndarray, dict[int, np.ndarray], dict[int, str]]:
    """Features of the cells (R, C), NaN where a picture is broken; grids of pictures held out; what is broken."""
    features = np.full((len(cells.image), backbone.shape[0]), np.nan, dtype=np.float16)
    order = np.argsort(cells.image, kind="stable")
    bounds = np.searchsorted(cells.image[order], np.arange(len(annotations.images) + 1))
    grids: dict[int, np.ndarray] = {}
    broken: dict[int, str] = {}
    with open_grids(cache, backbone, is_new=True) as shelf:
        for found in stream_grids(annotations.images, backbone, plan, broken, shelf, is_kept=True):
            for row, grid in zip(found.rows, found.features, strict=True):
                rows = order[bounds[row] : bounds[row + 1]]
                features[rows] = grid.reshape(len(grid), -1)[:, cells.cell[rows]].T
                if is_held[row]:
                    grids[int(row)] = grid
    return features, grids, broken


def _judge(name: str, n_train: int, truth: np.ndarray, peaks: np.ndarray, ridge: float) -> Trust:
    is_known = truth >= 0
    n_yes, n_no = int((truth == 1).sum()), int((truth == 0).sum())
    auroc = ap = float("nan")
    if n_yes and n_no:
        auroc = float(roc_auc_score(truth[is_known], peaks[is_known]))
        ap = float(average_precision_score(truth[is_known], peaks[is_known]))
    share = n_yes / max(n_yes + n_no, 1)
    return Trust(str(name), int(n_train), n_yes, n_no, auroc, ap, share, float(ridge))


def _describe_source(backbone: Backbone) -> dict[str, Any]:
    return {"name": backbone.name, "side": backbone.side, "digest": backbone.digest}


def _list_paths(pictures: Pictures) -> list[Path]:
    if isinstance(pictures, str | os.PathLike):
        return list_pictures(pictures) if os.path.isdir(pictures) else [Path(pictures)]
    return [Path(picture) for picture in pictures]


def _pack(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _read(entries: dict[str, bytes]) -> dict[str, Any]:
    """The parameters of an extractor; nothing in the file is trusted."""
    try:
        document = json.loads(entries[DOCUMENT])
        if document["format"] != FORMAT:
            raise DocumentError(f"it has format {document['format']!r:.20}; this version of neuralbasis reads {FORMAT}")
        names = [str(name) for name in document["names"]]
        told = document["backbone"]
        source = {"name": str(told["name"]), "side": int(told["side"]), "digest": str(told["digest"])}
        n_features = int(told["n_features"])
        arrays = {key: np.load(io.BytesIO(entries[f"{key}.npy"]), allow_pickle=False) for key in ARRAYS}
        trust = [Trust(name, *row) for name, row in zip(names, document["trust"], strict=True)]
        parts = [[str(part) for part in row] for row in document["parts"]]
        lists = {key: [str(text) for text in document[key]] for key in ("left_out", "broken")}
    except DocumentError:
        raise
    except (KeyError, TypeError, ValueError, EOFError) as error:
        raise DocumentError(
            f"it is not a file of concepts, or a damaged one ({type(error).__name__}: {error})"
        ) from None
    shapes = ((len(names), n_features), (len(names),), (len(names), 2))
    for (key, array), shape in zip(arrays.items(), shapes, strict=True):
        if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise DocumentError(f"its array {key!r} should hold {shape} finite numbers")
    if len(parts) != len(names) or len(set(names)) < len(names):
        raise DocumentError("its names and parts do not agree")
    return {"names": names, "parts": parts, **arrays, "trust": trust, "source": source, **lists}
