"""The request of a training, kept as `plan.json`, by which an interrupted training is recognised and resumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpm.config import Config
from gpm.io.atomic import write_json
from gpm.io.json_schema import read_checked

PLAN = "plan.json"


@dataclass(frozen=True)
class Plan:
    """What a training was asked to do. The same plan again resumes what is there."""

    config: dict[str, Any]  # the options, with those of the recipe; its seed is the first
    seeds: int  # number of trainings, with consecutive seeds
    baselines: bool  # score baselines too
    data_digest: str
    gpm: str  # the version of gpm that started the training
    recipe: dict[str, Any]  # metadata of the recipe besides its options
    overwrite: bool = False  # an existing run may be replaced
    result: str = ""  # a further file for the figures; empty for none

    def difference(self, other: Plan) -> str:
        """Return the first difference, as "lr is 0.1, not 0.2"; empty if it is the same training."""
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
        """Read `plan.json`."""
        return read_checked(folder / PLAN, cls, "train anew with --overwrite")
