"""Numbers written as text: parsing them, and deciding whether a text column holds numbers.

In: texts and their weights. Out: float64 numbers (NaN for missing and for other texts) and a `TextFacts` record, which
counts the texts of each kind and writes the warnings and errors about them. A fit reads a text column as numbers if at
least 90 % of its texts are numbers (see `encoder.settle_texts`).
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MISSING_TEXTS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "-nan", "-NaN", "null", "NULL")  # in CSV files
_MISSING_NUMBERS = {text.lower() for text in MISSING_TEXTS} | {"none", "?", "-", "."}  # in a column of numbers
_CURRENCY = re.compile(r"^([+-]?)\s*[$€£¥]\s*(?=[0-9.])|(?<=[0-9.])\s*[$€£¥]$")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?(?:[0-9]+|[1-9][0-9]{0,2}(?:\.[0-9]{3})+),[0-9]+\s*")  # 0,5 or 1.200,50
LEADING_ZERO = re.compile(r"\s*[+-]?0[0-9]+\s*")  # an identifier such as a ZIP code


@dataclass(frozen=True)
class TextFacts:
    """What the texts of a column are."""

    n_numbers: float = 0.0  # weight of the texts that are numbers
    n_others: float = 0.0  # weight of those that are neither numbers nor missing
    is_padded: bool = False  # whether some text is an integer with a leading zero, which marks identifiers
    formatted: str | None = None  # example of a number with separators or a percent sign
    other: str | None = None  # example of a text that is not a number
    n_commas: float = 0.0  # weight of those of the others that are numbers with a decimal comma
    comma: str | None = None  # example of one

    def __add__(self, more: TextFacts) -> TextFacts:
        return TextFacts(
            self.n_numbers + more.n_numbers,
            self.n_others + more.n_others,
            self.is_padded or more.is_padded,
            self.formatted if self.formatted is not None else more.formatted,
            self.other if self.other is not None else more.other,
            self.n_commas + more.n_commas,
            self.comma if self.comma is not None else more.comma,
        )

    @property
    def are_numbers(self) -> bool:
        """Whether nearly all non-missing texts are numbers."""
        return self.n_numbers >= 0.9 * (self.n_numbers + self.n_others)

    @property
    def have_decimal_commas(self) -> bool:
        """Whether nearly all non-missing texts are numbers, some of them with a decimal comma."""
        return self.n_commas > 0 and self.n_numbers + self.n_commas >= 0.9 * (self.n_numbers + self.n_others)

    @property
    def look_like_numbers(self) -> bool:
        """Whether a column without a requested type is read as numbers: some texts are numbers, none an identifier."""
        return self.are_numbers and self.n_numbers > 0 and not self.is_padded

    def settle(self, name: str, is_requested: bool) -> bool:
        """Whether a fit reads a column without declared levels as numbers, which may be requested."""
        if is_requested:
            self.require_numbers(name)
        elif self.look_like_numbers:
            warnings.warn(
                f"{self.describe(name)}; to keep the texts as labels, set its feature_types to 'nominal'", stacklevel=2
            )
        elif self.have_decimal_commas:
            warnings.warn(
                f"column {name!r} holds numbers with a decimal comma, such as {self.comma!r}, and is read as labels; "
                "write them with a point to use them as numbers",
                stacklevel=2,
            )
        return is_requested or self.look_like_numbers

    def require_numbers(self, name: str, place: str = "") -> None:
        """Raise if many texts are not numbers, warn if some are not; `place` is that of the example."""
        if not self.are_numbers and self.have_decimal_commas:
            raise ValueError(
                f"Column {name!r}: expected numbers, got {self.comma!r}, which has a decimal comma. Write numbers with "
                "a point, or declare the column categorical in feature_types."
            )
        if not self.are_numbers:
            raise ValueError(
                f"Column {name!r}: expected numbers, got {self.other!r}{place}. Correct or remove such values, "
                "or declare the column categorical in feature_types."
            )
        if self.n_others > 0:
            warnings.warn(f"column {name!r} holds numbers, but {self._describe_others(place)}", stacklevel=2)

    def describe(self, name: str, place: str = "") -> str:
        """What a column of numbers written as text is read as; `place` is that of the example of another text."""
        parts = [f"column {name!r} holds numbers as text and is read as numbers"]
        if self.formatted is not None:
            parts.append(f"{self.formatted!r} is read as {parse_number(self.formatted):.12g}")
        if self.n_others > 0:
            parts.append(self._describe_others(place))
        return "; ".join(parts)

    def _describe_others(self, place: str) -> str:
        total = self.n_numbers + self.n_others
        is_count = self.n_others.is_integer() and total.is_integer()
        share = f"{self.n_others:,.0f} of {total:,.0f}" if is_count else f"{self.n_others / total:.2%} of the"
        if self.n_others == 1:
            return f"{share} values is not a number, {self.other!r}{place}, and is read as missing"
        return f"{share} values are not numbers, such as {self.other!r}{place}, and are read as missing"


def parse_number(text: str) -> float | None:
    """Parse a number; NaN for a text that means "missing", None for any other text.

    Commas may separate thousands; percent signs and the signs of currencies are left out.

    >>> [parse_number(text) for text in (" +1,200.5", "$1,200", "40 %", "1e3", "N/A", "12_0", "0x1F", "1,5")]
    [1200.5, 1200.0, 40.0, 1000.0, nan, None, None, None]
    """
    try:
        return None if "_" in text else float(text)  # Python reads "10_2" as 102; in a table it is an identifier
    except ValueError:
        pass
    text = text.strip()
    if text.lower() in _MISSING_NUMBERS:
        return math.nan
    plain = _CURRENCY.sub(r"\1", text.removesuffix("%").rstrip())
    if re.fullmatch(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?", plain):  # thousands
        plain = plain.replace(",", "")
    if plain == text:
        return None
    try:
        return float(plain)
    except ValueError:
        return None


def _is_plain(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def parse_texts(texts: Sequence[str], mass: np.ndarray) -> tuple[np.ndarray, TextFacts]:
    """Numbers of the texts (NaN for missing and other texts), and their facts; `mass` is the weight of each text."""
    found = [parse_number(text) for text in texts]
    numbers = np.array([math.nan if number is None else number for number in found], dtype=np.float64)
    is_other = np.array([number is None for number in found], dtype=bool) & (mass > 0)
    is_number = ~np.isnan(numbers) & (mass > 0)
    commas = [index for index in np.flatnonzero(is_other).tolist() if _DECIMAL_COMMA.fullmatch(texts[index])]
    others, parsed = np.flatnonzero(is_other).tolist(), [texts[index] for index in np.flatnonzero(is_number).tolist()]
    facts = TextFacts(
        n_numbers=float(mass[is_number].sum()),
        n_others=float(mass[is_other].sum()),
        is_padded=any(map(LEADING_ZERO.fullmatch, parsed)),
        formatted=next((text for text in parsed if not _is_plain(text)), None),
        other=texts[others[0]] if others else None,
        n_commas=float(mass[commas].sum()),
        comma=texts[commas[0]] if commas else None,
    )
    return numbers, facts
