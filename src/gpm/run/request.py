"""The plan of a training: what it was asked to do, by which an interrupted one is known again and gone on with."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gpm.config import Config
from gpm.errors import GpmError
from gpm.io.atomic import read_json, write_json

PLAN = "plan.json"


@dataclass(frozen=True)
class Plan:
    """What a training was asked to do. The same plan again goes on with what is there.

    Attributes:
        config: The options, with those of the recipe; its seed is the first.
        seeds: How many trainings, with seeds counted from there.
        baselines: Whether baselines are scored too.
        data_digest: Of the graph.
        gpm: The version that began.
        recipe: What is known of the recipe besides its options.
        overwrite: Whether a run that is there may be replaced.
        result: Where the figures go besides; empty for nowhere.
    """

    config: dict[str, Any]
    seeds: int
    baselines: bool
    data_digest: str
    gpm: str
    recipe: dict[str, Any]
    overwrite: bool = False
    result: str = ""

    def difference(self, other: Plan) -> str:
        """The first thing that is not the same, as "lr is 0.1, not 0.2"; empty if it is the same training."""
        mine, theirs = self._compared(), other._compared()
        for key in mine | theirs:
            if mine.get(key) != theirs.get(key):
                return f"{key} is {mine.get(key)}, not {theirs.get(key)}"
        return "" if self.data_digest == other.data_digest else f"{self.config.get('data') or 'the graph'} was changed"

    def _compared(self) -> dict[str, Any]:
        options = Config.from_dict(self.config).to_dict()  # an earlier version may have had fewer
        return options | {"seeds": self.seeds, "baselines": self.baselines, "gpm's version": self.gpm}

    def write(self, folder: Path) -> None:
        """Write `plan.json`."""
        write_json(folder / PLAN, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Read what `write` wrote."""
        path = folder / PLAN
        content = read_json(path, "train anew with --overwrite")
        kinds: dict[str, Any] = {
            "config": dict, "recipe": dict, "seeds": int, "baselines": bool, "data_digest": str, "gpm": str,
            "overwrite": bool, "result": str,
        }  # fmt: skip
        if set(content) != {field.name for field in fields(cls)} or any(
            not isinstance(content[key], kind) for key, kind in kinds.items()
        ):
            raise GpmError(f"{path} is damaged: it is no plan of a training; train anew with --overwrite.")
        return cls(**content)
