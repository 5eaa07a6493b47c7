"""The search space of a study: options, each with its choices or its range."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from gpm.config import Config, option_names
from gpm.data.link_data import LinkData
from gpm.data.sources import TaskData
from gpm.errors import GpmError, nearest
from gpm.io.yaml_files import read_options
from gpm.tasks import is_regression

MOST_RETURNS = 1e10  # multiplications that exact return probabilities may take in a trial: some seconds
MOST_EIGENVECTORS = 20_000  # nodes of a graph whose Laplacian eigenvectors are computed in every trial
# Options that change what is measured: trials with different values cannot be compared.
NEVER = (
    "data", "task", "protocol", "smiles", "target", "target_graph", "shift", "validate", "seed", "split", "metric",
    "compile", "preset",
)  # fmt: skip


@dataclass(frozen=True)
class Choices:
    """An option that takes one of some values."""

    values: tuple[Any, ...]

    def distribution(self) -> BaseDistribution:
        return CategoricalDistribution([self.encode(value) for value in self.values])

    def encode(self, value: Any) -> Any:
        """Return a value as the study stores it; lists are stored as text."""
        return json.dumps(value) if isinstance(value, list) else value

    def decode(self, stored: Any) -> Any:
        for value in self.values:
            if self.encode(value) == stored:
                return value
        raise GpmError(f"{stored!r} is not one of the choices {list(self.values)}")

    def nearest(self, value: Any) -> Any:
        if value in self.values:
            return value
        numbers = all(isinstance(each, (int, float)) for each in (value, *self.values))
        return min(self.values, key=lambda each: abs(each - value)) if numbers else self.values[0]

    def including(self, value: Any) -> Choices:
        return self if value in self.values else Choices((value, *self.values))

    def facts(self) -> Any:
        return list(self.values)


@dataclass(frozen=True)
class Range:
    """An option that takes any number between two, rounded to three digits."""

    low: float
    high: float  # included
    log: bool = False  # spread evenly over orders of magnitude
    whole: bool = False  # whole numbers only

    def distribution(self) -> BaseDistribution:
        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, stored: Any) -> Any:
        if not isinstance(stored, (int, float)) or not self.low <= stored <= self.high:
            raise GpmError(f"{stored!r} does not lie between {self.low} and {self.high}")
        return int(stored) if self.whole else min(max(float(f"{stored:.3g}"), self.low), self.high)

    def nearest(self, value: Any) -> Any:
        return min(max(value, self.low), self.high)

    def including(self, value: Any) -> Choices | Range:
        """Return a range that includes a value; one without a logarithm becomes a choice beside others."""
        if self.log and value <= 0:
            return Choices((value, self.low, float(f"{math.sqrt(self.low * self.high):.3g}"), self.high))
        return Range(min(self.low, value), max(self.high, value), self.log, self.whole)

    def facts(self) -> Any:
        return {"low": self.low, "high": self.high} | ({"log": True} if self.log else {})


@dataclass(frozen=True)
class Space:
    """The options that a study tunes, each with its choices or its range."""

    entries: Mapping[str, Choices | Range]

    def distributions(self) -> dict[str, BaseDistribution]:
        return {name: entry.distribution() for name, entry in self.entries.items()}

    def encode(self, config: Config) -> dict[str, Any]:
        """Return the trial with these options, or with the nearest ones of the space."""
        return {name: entry.encode(entry.nearest(getattr(config, name))) for name, entry in self.entries.items()}

    def decode(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        options = {}
        for name, entry in self.entries.items():
            if name not in stored:
                raise GpmError(f"it has no {name}")
            try:
                options[name] = entry.decode(stored[name])
            except GpmError as error:
                raise GpmError(f"{name}: {error}") from None
        return options

    def facts(self) -> dict[str, Any]:
        """Return plain values, as a YAML file of the user's has them."""
        return {name: entry.facts() for name, entry in self.entries.items()}

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()[:16]


def choose_space(path: Path | None, data: TaskData, base: Config, fixed: list[str]) -> Space:
    """Return the user's space, or the default one without the fixed options; a fixed size fixes several."""
    if "size" in fixed:
        fixed = [*fixed, "layers", "heads", "width"]
    return default_space(data, base, fixed) if path is None else read_space(Path(path), base, fixed)


def default_space(data: TaskData, base: Config, fixed: Iterable[str] = ()) -> Space:
    """Return a small space for a task that includes the base, without fixed options and values the base excludes."""
    entries: dict[str, Choices | Range] = {}
    for name, entry in _usual(data, base).items():
        if name in fixed:
            continue
        if isinstance(entry, Choices):
            entry = Choices(tuple(value for value in entry.values if _fits(base, name, value)))
        entry = entry.including(getattr(base, name))
        if isinstance(entry, Range) or len(entry.values) > 1:
            entries[name] = entry
    if not entries:
        raise GpmError("There is nothing left to tune; fix fewer options.")
    return Space(entries)


def _usual(data: TaskData, base: Config) -> dict[str, Choices | Range]:
    """Return the default space, in the order of what usually matters."""
    entries: dict[str, Choices | Range] = {
        "lr": Range(1e-3, 2e-2, log=True), "dropout": Range(0.0, 0.6), "decay": Range(1e-3, 1.0, log=True),
        "width": Choices((32, 64, 128)),
    }  # fmt: skip
    if data.level != "graph" and data.graph.x is not None:
        entries["feature_dropout"] = Choices((0.0, 0.3, 0.5))
    if isinstance(data, LinkData) or not is_regression(data.labels, base.metric):
        entries["smoothing"] = Choices((0.0, 0.05, 0.1))
    entries["pe"] = Choices(tuple(_positions(data, base)))
    if base.model != "gpm":
        norm = {"gnn_norm": Choices(("none", "batch", "layer"))} if data.level == "node" else {}
        return entries | {"layers": Choices((2, 3, 4))} | norm
    lengths = {
        "node": ([0, 1, 4, 8], [0, 1, 2, 4], [0, 1, 2, 4, 8], [4, 6, 8]),
        "link": ([0, 1, 4, 8], [0, 1, 2, 4], [1, 2, 4]),
        "graph": ([0, 1, 4, 8], [2, 3, 6], [4, 6, 8], [4]),
    }[data.level]
    entries |= {
        "lengths": Choices(lengths),
        "patterns": Choices((16, 32, 48) if data.level == "graph" else (8, 16, 32)),
        "topology": Choices(("loops", "induced", "shape")),
        "readout": Choices(("mean", "class", "sum") if data.level == "graph" else ("mean", "class")),
    }
    if data.level == "link":
        entries["pair"] = Choices(("joint", "product"))
    return entries if data.level == "link" else entries | {"non_backtracking": Choices((False, True))}


def _positions(data: TaskData, base: Config) -> list[str]:
    """Return the positional embeddings that are computed within seconds, as every trial computes them again."""
    nodes = data.graph.num_nodes / data.graph.num_graphs  # of an average graph
    returns = nodes * data.graph.num_edges * base.pe_dim <= MOST_RETURNS
    if data.level == "graph":
        return ["none", "rwse", "rings"] if returns else ["none"]
    return ["none", *(["rwse"] if returns else []), *(["lap"] if nodes <= MOST_EIGENVECTORS else [])]


def _fits(base: Config, name: str, value: Any) -> bool:
    try:
        base.with_(**{name: value})
    except GpmError:
        return False
    return True


def read_space(path: Path, base: Config, fixed: Iterable[str] = ()) -> Space:
    """Read a space from a YAML file: for each option a list of values, or a range `{low: , high: , log: }`."""
    values = read_options(path)
    if not values:
        raise GpmError(f"{path} must hold options as 'lr: {{low: 0.001, high: 0.02, log: true}}' or 'width: [32, 64]'.")
    names = [name for name in option_names() if name not in NEVER]
    for name in values:
        if name in NEVER:
            raise GpmError(f"{path}: figures with another {name} cannot be compared; leave {name} out.")
        if name not in names:
            raise GpmError(f"{path}: there is no option {name!r}.{nearest(str(name), names)}")
        if name in fixed:
            raise GpmError(f"{path}: {name} is also given as a flag, which fixes it; leave out one of them.")
    return Space({name: _read_entry(path, name, value, base) for name, value in values.items()})


def _read_entry(path: Path, name: str, entry: Any, base: Config) -> Choices | Range:
    hint = get_type_hints(Config)[name]
    if isinstance(entry, list) and entry:
        values = [_normal(path, name, value, base) for value in entry]
        return Choices(tuple(value for index, value in enumerate(values) if value not in values[:index]))
    if not isinstance(entry, dict) or not {"low", "high"} <= set(entry) <= {"low", "high", "log"}:
        raise GpmError(f"{path}: {name} must be a list of values, or a range with low, high and perhaps log.")
    if hint not in (int, float, int | None):
        raise GpmError(f"{path}: {name} is not a number and has no range; give a list of values.")
    low, high = (_normal(path, name, entry[end], base) for end in ("low", "high"))
    log = entry.get("log", False)
    if not isinstance(log, bool) or not low < high or (log and low <= 0):
        raise GpmError(f"{path}: the range of {name} must rise from low to high, and with log: true begin above 0.")
    return Range(low, high, log, whole=hint is not float)


def _normal(path: Path, name: str, value: Any, base: Config) -> Any:
    """Return a value as the options have it, if it goes with the others."""
    try:
        return getattr(base.with_(**{name: value}), name)
    except GpmError as error:
        raise GpmError(f"{path}: {error}") from None
