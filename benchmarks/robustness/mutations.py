"""Mutated model files: a small file of every kind of model, and changes of its bytes, JSON values and arrays.

`make_file("pairs/17")` returns the bytes of case 17 of the kind "pairs". Checksums are valid except for raw bytes.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.serialization.arrays import ARRAYS
from neuralbasis.serialization.model_file import write_entries
from tests.formats.make import make_model
from tests.models import MIXED, NUMERIC, build_model, tie_model
from tests.sparse_tables import build_models, build_wide, draw_table

MUTATIONS = {"file": 2, "text": 1, "values": 3, "numbers": 3, "allowed": 7}  # kind -> relative frequency
FREE = (
    "mass",
    "weights",
    "tables",
    "spread",
    "members",
    "mix",
    "sizes",
    "bases",
    "coefficients",
    "deviations",
)  # no order

Parts = tuple[Any, dict[str, bytes]]  # the JSON document, and the arrays by name


@cache
def build_kinds() -> dict[str, Parts]:
    """Small files of every kind of model."""
    rng = np.random.default_rng(1)
    many = {"link": "mlogit", "classes": np.array([f"class {k}" for k in range(12)]), "n_outputs": 12}
    binary = {"link": "logit", "classes": np.array([0, 1])}
    three = build_model(rng, MIXED, (1, 2), 3, "mlogit", np.array([2.5, 3.5, 4.5]))
    models = {
        "regression": build_model(rng, ("continuous",), (1,)),
        "dense": build_model(rng, NUMERIC, (1,), **binary),
        "nominal": build_model(rng, ("nominal", "ordinal"), (1, 2), **binary),
        "pairs": build_model(rng, ("continuous", "nominal", "continuous"), (1, 2)),
        "triples": build_model(rng, ("continuous", "ordinal", "continuous"), (1, 2, 3)),
        "two outputs": build_model(rng, ("continuous", "continuous"), (1, 2), n_outputs=2),
        "many classes": build_model(rng, ("continuous", "nominal"), (1,), **many),
        "tied classes": tie_model(rng, three, range(len(three.shapes))),
        "some tied": tie_model(rng, three, [0, 3, 7]),
        "factors": build_models(draw_table(0))[0],
        "regression by factors": build_models(draw_table(3), n_outputs=1)[0],
        "wide": build_wide(60),
        "all of it": make_model(),
    }
    return {name: write_parts(model) for name, model in models.items()}


def write_parts(model: AdditiveModel) -> Parts:
    entries = write_entries(model)
    return json.loads(entries.pop("document.json")), entries


def pack(entries: dict[str, bytes]) -> bytes:
    """A zip archive of these entries with valid checksums."""
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in entries.items()).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {**entries, "SHA256SUMS": sums}.items():
            archive.writestr(name, data)
    return file.getvalue()


ODD: list[Any] = [None, True, False, 0, 1, -1, 2, 3, 5, 255, 10**9, 2**63, 10**25, 0.5, -1e300, 1e308, "", "x0"]
ODD += ["level 1", "<f8", "<f4", "|O", "logit", "identity", "mlogit", "nominal", "continuous", "\ud800", "\0"]
ODD += ["a" * 999, [], [0], [0, 1], [[]], {}, {"a": 1}]
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 1e-320, 1e37, 1e99, 1e154, 1e199, -1e199, 1.7e308]


def mutate_bytes(draw: random.Random, data: bytes) -> bytes:
    """Flip a bit, change a byte, truncate, or remove, repeat, move or randomize a piece."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at, to = draw.randrange(len(changed) + 1), draw.randrange(len(changed) + 1)
        size = draw.choice([1, 2, 4, 8, 30, 200])
        how = draw.randrange(7)
        if how == 0 and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif how == 1 and at < len(changed):
            changed[at] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
        elif how == 2:
            del changed[at:]
        elif how == 3:
            del changed[at : at + size]
        elif how == 4:
            changed[to:to] = changed[at : at + size]
        elif how == 5:
            changed[to : to + size] = changed[at : at + size]
        else:
            changed[at : at + size] = draw.randbytes(size)
        if not changed:
            break
    return bytes(changed)


def mutate_json(draw: random.Random, parts: Any) -> Any:
    """Replace, add, remove or repeat values, or copy them from elsewhere in the document."""
    parts = copy.deepcopy(parts)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        places = list(walk(parts))
        where, key = draw.choice(places)
        how = draw.randrange(6)
        if how <= 1:
            where[key] = draw.choice(ODD)
        elif how == 2:
            other, name = draw.choice(places)
            where[key] = copy.deepcopy(other[name])
        elif how == 3:
            del where[key]
        elif how == 4 and isinstance(where, list):
            where.insert(key, copy.deepcopy(draw.choice(where)))
        elif isinstance(where[key], int) and not isinstance(where[key], bool):
            where[key] += draw.choice([-1, 1])
        elif isinstance(where, dict):
            where[draw.choice(["extra", "", *where])] = draw.choice(ODD)
    return parts


def walk(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: its list or object, and its index or name."""
    keys: Sequence[Any] = list(value) if isinstance(value, dict) else range(len(value)) if type(value) is list else ()
    for key in keys:
        yield value, key
        yield from walk(value[key])


def mutate_arrays(draw: random.Random, parts: Any, arrays: dict[str, bytes]) -> Parts:
    """Change numbers, their order, the header or the dtype of an array, or replace the array by another."""
    parts, arrays = copy.deepcopy(parts), dict(arrays)
    name = draw.choice(sorted(arrays))
    kind = parts["arrays"][name.removesuffix(".npy")]
    header, data, how = arrays[name][:128], arrays[name][128:], draw.randrange(7)
    values = np.frombuffer(data, kind).copy()
    if how <= 2:
        for _ in range(draw.choice([1, 1, 3, 20])):
            odd = draw.choice([*NUMBERS, draw.gauss(0, 1), draw.gauss(0, 1e9), float(draw.randrange(8))])
            low, high = (0, 255) if kind == "|u1" else (0, 65535) if kind == "<u2" else (0, 2**32 - 1)
            whole = int(np.clip(np.nan_to_num(odd), low, high))
            with np.errstate(over="ignore"):
                values[draw.randrange(len(values))] = odd if "f" in kind else whole
        arrays[name] = header + values.tobytes()
    elif how == 3:  # valid numbers in wrong places
        at, to = draw.randrange(len(values)), draw.randrange(len(values))
        values[at], values[to] = values[to], values[at]
        arrays[name] = header + (values if draw.randrange(2) else np.sort(values)).tobytes()
    elif how == 4:
        arrays[name] = mutate_bytes(draw, header) + data
    elif how == 5:
        arrays[name] = arrays[draw.choice(sorted(arrays))]
    else:
        parts["arrays"][name.removesuffix(".npy")] = draw.choice(["<f4", "<f8", "|u1", "<u2", "<u4"])
    return parts, arrays


def mutate_allowed(draw: random.Random, parts: Any, arrays: dict[str, bytes]) -> Parts:
    """Changes that most readers accept: numbers within the range of their array, and other texts."""
    parts, arrays = copy.deepcopy(parts), dict(arrays)
    for name in draw.choices([name for name in FREE if f"{name}.npy" in arrays], k=draw.choice([1, 2, 5])):
        kind, (_, low, high, _) = parts["arrays"][name], ARRAYS[name]
        values = np.frombuffer(arrays[f"{name}.npy"][128:], kind).copy()
        numbers = [low, high, 0.0, 1.0, draw.gauss(0, 1), 10 ** draw.uniform(-300, 99), float(draw.choice(values))]
        place = draw.choice(np.flatnonzero(values) if values.any() else range(len(values)))  # zeros of bases must stay
        with np.errstate(over="ignore"):
            values[place] = min(max(draw.choice(numbers), low), high) if "f" in kind else draw.choice(values)
        arrays[f"{name}.npy"] = arrays[f"{name}.npy"][:128] + values.tobytes()
    if draw.randrange(2) and parts["arrays"]["knots"] == "<f8" and not any(run["levels"] for run in parts["columns"]):
        knots = np.frombuffer(arrays["knots.npy"][128:], "<f8") * 10 ** draw.uniform(-290, 290)
        arrays["knots.npy"] = arrays["knots.npy"][:128] + knots.tobytes()
    texts = [(where, key) for where, key in walk(parts) if isinstance(where[key], str) and isinstance(where, list)]
    for where, key in draw.sample(texts, min(len(texts), draw.randrange(3))):
        where[key] = "".join(draw.choices("aZ0 \n\"'%\\,;é🙂\0\ud800", k=draw.choice([0, 1, 5, 50])))
    parts["intercept"][0] = draw.choice([0, -0.0, 5e-324, draw.gauss(0, 1), 1e199])
    return parts, arrays


def make_file(seed: str) -> bytes:
    """The bytes of a case; its seed is "kind of model/number"."""
    draw = random.Random(seed)
    parts, arrays = build_kinds()[seed.rpartition("/")[0]]
    (how,) = draw.choices(list(MUTATIONS), list(MUTATIONS.values()))
    if how == "numbers":
        parts, arrays = mutate_arrays(draw, parts, arrays)
    if how == "values":
        parts = mutate_json(draw, parts)
    if how == "allowed":
        parts, arrays = mutate_allowed(draw, parts, arrays)
    text = json.dumps(parts).encode()
    data = pack({"document.json": mutate_bytes(draw, text) if how == "text" else text, **arrays})
    return mutate_bytes(draw, data) if how == "file" else data
