"""JSON with checks: bytes -> values -> records whose fields have the types of their annotations.

The input is not trusted. Every problem is a `DocumentError`, and no error text grows with the input.
"""

from __future__ import annotations

import json
import math
from functools import cache
from reprlib import repr as shorten
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .archive import DocumentError

MAX_DOCUMENT = 1 << 27  # bytes of a JSON entry
MAX_VALUES = 8_000_000  # approximate number of values in it

Record = TypeVar("Record")


def parse_json(data: bytes, name: str) -> Any:
    """Values of an entry of an archive. Numbers are finite and short, names within an object differ."""
    if len(data) > MAX_DOCUMENT or sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise DocumentError(f"its {name} is larger than {MAX_DOCUMENT:,} bytes or about {MAX_VALUES:,} values")
    try:
        return json.loads(
            data, parse_int=parse_int, parse_float=_parse_float, parse_constant=_parse_float,
            object_pairs_hook=_make_object,
        )  # fmt: skip
    except RecursionError:
        raise DocumentError(f"its {name} is nested too deeply") from None
    except ValueError as error:
        raise DocumentError(f"its {name} cannot be read ({error})") from None


def parse_int(text: str) -> int:
    """An integer of at most 20 digits."""
    if len(text) > 20:
        raise ValueError(f"an integer of {len(text)} digits; the limit is 20")
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is not finite")
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has two equal names")
    return found


def read_record(record: type[Record], value: Any, what: str) -> Record:
    """A NamedTuple or dataclass from a JSON object with exactly its fields; `what` names the object in errors."""
    plain: type = record  # mypy: type[Record] is not Hashable
    types = _field_types(plain)
    if type(value) is not dict or value.keys() != types.keys():
        raise DocumentError(f"{what} must have the entries {', '.join(types)}, not {shorten(value)}")
    for name, kinds in types.items():
        if type(value[name]) not in kinds:  # not isinstance: True is no integer
            raise DocumentError(f"{name!r} of {what} has the wrong type: {shorten(value[name])}")
    return record(**value)


@cache
def _field_types(record: type) -> dict[str, tuple[type, ...]]:
    """JSON types of each field. JSON may write a float as an integer."""
    found = {}
    for name, hint in get_type_hints(record).items():
        options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        kinds = tuple(get_origin(option) or option for option in options)
        found[name] = (*kinds, int) if float in kinds else kinds
    return found


def check_list(values: list[Any], what: str, kinds: tuple[type, ...], unique: bool = False) -> list[Any]:
    """The list, which must not be empty and hold only values of these types."""
    if not values or any(type(value) not in kinds for value in values):
        raise DocumentError(f"{what} must be a list of {' or '.join(k.__name__ for k in kinds)}, not {shorten(values)}")
    if unique and len(set(values)) < len(values):
        raise DocumentError(f"{what} must differ from one another: {shorten(values)}")
    return values


def is_shallow(value: Any, depth: int) -> bool:
    """Whether lists and objects are nested at most so deep."""
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return depth > 0 and all(is_shallow(item, depth - 1) for item in inner)
