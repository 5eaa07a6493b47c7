"""Parameters in the manner of scikit-learn: stored as given, got, set, and shown if changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any, Self

import numpy as np

from gpm.config import Config, option_range
from gpm.errors import GpmError, nearest, whole_number

# Options of a run that are no parameters, and what to use instead.
_ELSEWHERE = {
    "seed": "give random_state",
    "data": "give the graph to fit",
    "task": "the class decides it",
    "smiles": "give fit the SMILES",
    "target": "give it to fit",
    "target_graph": "call gpm.adapt",
}
_OWN: dict[str, Any] = {"device": "auto", "threads": 0, "progress": False, "random_state": 0}


def defaults() -> dict[str, Any]:
    """Return all parameters with their defaults."""
    parameters = dict(_OWN)
    for entry in fields(Config):
        if entry.name not in _ELSEWHERE:
            made = entry.default_factory
            parameters[entry.name] = entry.default if made is MISSING else made()
    return parameters


def as_seed(random_state: Any) -> int:
    """Return the seed of a random state: itself, one drawn from a generator, or a fresh one for None."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    seed = whole_number(random_state, "random_state")
    if not 0 <= seed <= (option_range("seed") or (0, 0))[1]:
        raise GpmError(f"random_state must lie between 0 and 2**63 - 1, got {seed}.")
    return seed


class Parameters:
    """Parameters of an estimator, kept as attributes just as they were given; `fit` checks their values."""

    device: str
    threads: int
    progress: bool
    random_state: Any

    def __init__(
        self, *, device: str = "auto", threads: int = 0, progress: bool = False, random_state: Any = 0, **options: Any
    ) -> None:
        self._check_names(options)
        own = {"device": device, "threads": threads, "progress": progress, "random_state": random_state}
        vars(self).update(defaults() | own | options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name; `deep` has no effect, as none has parameters of its own."""
        return {name: getattr(self, name) for name in defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; a fitted model stays as it is."""
        self._check_names(params)
        vars(self).update(params)
        return self

    def _check_names(self, names: Iterable[str]) -> None:
        parameters = defaults()
        for name in names:
            if name in _ELSEWHERE:
                raise GpmError(f"{name} is not a parameter of {type(self).__name__}; {_ELSEWHERE[name]}.")
            if name not in parameters:
                raise GpmError(f"{type(self).__name__} has no parameter {name!r}.{nearest(name, parameters)}")

    def _check_values(self) -> None:
        Config.from_dict(self._options())
        if whole_number(self.threads, "threads") < 0:
            raise GpmError(f"threads must not be negative, got {self.threads}.")
        if not isinstance(self.random_state, (np.random.Generator, np.random.RandomState)):  # which would draw
            as_seed(self.random_state)

    def _options(self) -> dict[str, Any]:
        """Return the options of a training except its seed."""
        return {name: getattr(self, name) for name in defaults() if name not in _OWN}

    def _changed(self) -> dict[str, Any]:
        """Return the options that are not at their defaults; the others are chosen from the data."""
        usual = defaults()
        return {name: value for name, value in self._options().items() if not _same(value, usual[name])}

    def __repr__(self) -> str:
        usual, now = defaults(), self.get_params()
        changed = ", ".join(f"{name}={now[name]!r}" for name in now if not _same(now[name], usual[name]))
        return f"{type(self).__name__}({changed})"


def _same(value: Any, other: Any) -> bool:
    return value is other or (type(value) is type(other) and bool(value == other))
