"""Marks of the source version that a figure was measured with: `[2]`, or `[2]†` for an older version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

OLDER = "†"


@dataclass(frozen=True, order=True)
class SourceVersion:
    """A package with its version, and whether this is the present version."""

    name: str
    is_present: bool


def mark_older(versions: Iterable[SourceVersion]) -> str:
    """The mark of an older version, without its number.

    >>> mark_older([SourceVersion("a 1", True)]), mark_older([SourceVersion("a 0", False)])
    ('', '†')
    """
    return "" if all(version.is_present for version in versions) else OLDER


@dataclass
class VersionIndex:
    """Numbers the versions of a report in the order of their first use."""

    numbers: dict[SourceVersion, int] = field(default_factory=dict)

    def mark(self, versions: Iterable[SourceVersion]) -> str:
        """The mark of a figure; nothing for a figure that was not measured.

        >>> index = VersionIndex()
        >>> index.mark([SourceVersion("a 1", True)]), index.mark([SourceVersion("a 0", False)])
        ('[1]', '[2]†')
        """
        found = sorted(set(versions))
        if not found:
            return ""
        numbers = sorted(self.numbers.setdefault(version, len(self.numbers) + 1) for version in found)
        return f"[{', '.join(map(str, numbers))}]{mark_older(found)}"

    def write_legend(self) -> str:
        return "\n".join(
            f"- [{number}] {version.name}{'' if version.is_present else f' {OLDER}'}"
            for version, number in self.numbers.items()
        )
