"""A table of one small recipe, in place of the paper's."""

from __future__ import annotations

from typing import Any

from gpm.reproduce.paper_tables import Column, Ours, Published, Table

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "epochs": 2, "warmup": 2,
}  # fmt: skip
TOY = Table(
    "Table 1",
    "Toys (accuracy)",
    (Column("Motifs", "motifs"), Column("Far", "reddit-m5k")),
    (Published("GPM", ((50.0, 2.0), (51.87, 1.04))), Published("SAN", ("OOM", None))),
    (Ours("GPM", SMALL, "GPM"), Ours("w/o AP", SMALL | {"anonymous": "none"}), Ours("slow", {"epochs": 7}, "", 1e6)),
)
