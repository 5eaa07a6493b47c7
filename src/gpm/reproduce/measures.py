"""Read out of records what a table shows."""

from __future__ import annotations

from collections.abc import Sequence

from gpm.reproduce.records import Record
from gpm.tasks.metrics import METRICS


def measure(found: Sequence[Record], what: str) -> list[float]:
    """Return a value of every record; those of metrics in the units of the paper's tables.

    Args:
        found: Records of the same options.
        what: One of `gpm.reproduce.paper_tables.MEASURES`.
    """
    if what == "epoch":
        return [record["train_seconds"] / max(1, record["epochs"]) for record in found]
    if what == "parameters":
        return [record["parameters"] / 1e6 for record in found]
    scored = (record for record in found if what in record)
    return [METRICS[record["metric"]].scaled(record[what][record["metric"]]) for record in scored]


def digits_of(found: Sequence[Record], what: str) -> int:
    """Return the number of decimals that a value is shown with."""
    return 2 if what in ("epoch", "parameters") or METRICS[found[0]["metric"]].share else 3
