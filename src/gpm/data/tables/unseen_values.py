"""What a table holds that the one a model was trained on did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

LISTED = 5  # new values that are named


@dataclass
class Unseen:
    """What is new in a table.

    Attributes:
        missing_columns: Features that it does not have; all their cells count as missing.
        new_columns: Columns that nothing was known of; they are not read.
        values: New values of categories with their counts, by column: the most frequent ones.
        rows: Rows with a new value, by column.
        far: Numbers further outside the range seen than that is wide, by column.
        empty: Missing cells where none was missing before, by column; they count as the mean, or as no.
    """

    missing_columns: list[str] = field(default_factory=list)
    new_columns: list[str] = field(default_factory=list)
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    far: dict[str, int] = field(default_factory=dict)
    empty: dict[str, int] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """The same in words; nothing if nothing is new."""
        said = []
        if self.missing_columns:
            said.append(f"there is no column {_enumerate(self.missing_columns)}: all its cells count as missing.")
        if self.new_columns:
            said.append(f"not read, as training had no such column: {_enumerate(self.new_columns)}.")
        for name, found in self.values.items():
            listed = ", ".join(f"{value[:40]!r} ({count:,})" for value, count in found.items())
            more = ", ..." if sum(found.values()) < self.rows[name] else ""
            said.append(f"{self.rows[name]:,} row(s) have a value of {name!r} unseen in training: {listed}{more}.")
        for name, count in self.far.items():
            said.append(f"{count:,} value(s) of {name!r} are far outside the range seen in training.")
        for name, count in self.empty.items():
            said.append(f"{count:,} cell(s) of {name!r} are missing, as none was in training.")
        return said


def _enumerate(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(map(repr, names[:LISTED])) + more
