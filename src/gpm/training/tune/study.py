"""The study in its SQLite file, which Optuna keeps as tables of numbers and JSON; nothing in it is ever executed."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from msgspec import Struct
from optuna.exceptions import StorageInternalError
from optuna.pruners import MedianPruner
from optuna.samplers import TPESampler
from optuna.storages import RDBStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from gpm.config import Config
from gpm.errors import GpmError
from gpm.io.atomic import WriteError, check_plain, replacing
from gpm.io.json_schema import check_json
from gpm.io.publish import locked
from gpm.training.tune.space import Space

FILE, LOCK, NAME, FACTS, LATER = "study.db", ".lock", "gpm", "gpm", "name another folder with -o to begin anew"
KILLED, KILLED_AGAIN, INTERRUPTED, LATE = "killed", "killed twice", "interrupted", "out of time"
GRAPH = "graph"  # may be there before: what is tuned on, if it was imported for that
LOST = (KILLED, INTERRUPTED, LATE)  # trials that are tried again


class _Attributes(Struct):  # of a trial
    seconds: float = 0.0
    epoch: int = 0
    epochs: int = 0
    kills: int = 0
    again: int = 0
    why: str = ""


@dataclass(frozen=True)
class Facts:
    """What all trials of a study share, without which their figures could not be compared."""

    data: str  # name or path
    graph: str  # digest
    metric: str
    options: dict[str, Any]  # of which a trial changes those of the space
    split: str  # digest
    space: str  # digest


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a folder while the block runs; the lock ends with the process."""
    if not os.access(folder, os.W_OK):
        raise GpmError(f"{folder} cannot be written to; name another folder with -o.")
    for path in (folder / f"{FILE}{more}" for more in ("", "-wal", "-shm", "-journal")):
        if path.is_symlink() or path.exists():  # links and journals could make SQLite touch other files
            check_plain(path)
            if path.name.endswith("-journal"):
                raise GpmError(f"{path} was not written by gpm tune; remove it, or {LATER}.")
    with ExitStack() as stack:
        try:
            busy = f"Another process tunes in {folder}; wait for it, or name another folder with -o."
            stack.enter_context(locked(folder / LOCK, busy))
        except OSError as error:
            raise WriteError(folder / LOCK, error) from None
        yield


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than a study."""
    if folder.exists() and not folder.is_dir():
        raise GpmError(f"{folder} is a file; name a folder with -o.")
    others = folder.is_dir() and any(path.name != GRAPH and path.name[0] != "." for path in folder.iterdir())
    if others and not (folder / FILE).exists():
        raise GpmError(f"{folder} exists and holds no study; name another folder with -o.")


@contextmanager
def open_study(folder: Path, facts: Facts, space: Space, larger: bool) -> Iterator[Study]:
    """Begin the study of a folder, or resume it; a study of other data or options is refused."""
    path = folder / FILE
    if not path.exists():
        with replacing(path) as scratch, _storage(scratch) as storage:
            direction = StudyDirection.MAXIMIZE if larger else StudyDirection.MINIMIZE
            new = optuna.create_study(storage=storage, study_name=NAME, direction=direction)
            new.set_user_attr(FACTS, asdict(facts))
    _check_file(path)
    with _storage(path) as storage:
        try:
            study = optuna.load_study(storage=storage, study_name=NAME)
            stored, trials = study.user_attrs.get(FACTS), study.get_trials(deepcopy=False)
        except Exception as error:  # whatever a damaged file makes its readers raise
            raise _unreadable(path, error) from None
        _compare(folder, stored, facts)
        for trial in trials:
            _check_trial(path, trial, space)
        _settle(study, space)
        yield study


@contextmanager
def _storage(path: Path) -> Iterator[RDBStorage]:
    # Optuna would read a path in a URL as a template, and SQLAlchemy its marks as marks of a URL.
    def connect() -> sqlite3.Connection:
        base = sqlite3.connect(path, timeout=60)
        base.execute("PRAGMA trusted_schema = OFF")
        base.execute("PRAGMA journal_mode = WAL")  # with NORMAL a commit need not wait for the disk: a trial has dozens
        base.execute("PRAGMA synchronous = NORMAL")
        return base

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        try:
            storage = RDBStorage("sqlite://", engine_kwargs={"creator": connect})
        except RuntimeError:
            raise GpmError(f"{path} was written with another version of Optuna; install that, or {LATER}.") from None
        except Exception as error:
            raise _unreadable(path, error) from None
        try:
            yield storage
        except StorageInternalError as error:
            reason = " ".join(str(error.__cause__ or error).split("\n")[0].split())
            raise GpmError(f"Cannot write {path}: {reason}.") from None
        finally:
            storage.remove_session()
            storage.engine.dispose()
    finally:
        optuna.logging.set_verbosity(level)


def _unreadable(path: Path, error: Exception) -> GpmError:
    return GpmError(f"{path} cannot be read as a study ({type(error).__name__}); {LATER}.")


def _check_file(path: Path) -> None:
    """Refuse a file of something else before Optuna adds its tables to it."""
    check_plain(path)
    try:
        with closing(sqlite3.connect(path)) as base:
            tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise GpmError(f"{path} cannot be read as an SQLite file ({error}); {LATER}.") from None
    if not {"studies", "trials", "version_info"} <= tables:
        raise GpmError(f"{path} is not a study; {LATER}.")


def _compare(folder: Path, stored: Any, facts: Facts) -> None:
    """Refuse to mix trials that cannot be compared, and name the difference."""
    then_all = asdict(check_json(stored, Facts, folder / FILE, LATER))
    for key, now in json.loads(json.dumps(asdict(facts))).items():
        then = then_all[key]
        if key == "options":
            before_all = Config.from_dict(then).to_dict()  # an earlier version may have had fewer options
            for name, value in now.items():
                if (before := before_all[name]) != value:
                    raise GpmError(f"{folder} holds a study with {name} {before}, not {value}; {LATER}.")
        elif then != now:
            what = "search space" if key == "space" else key
            raise GpmError(f"{folder} holds a study of another {what} ({then}, not {now}); {LATER}.")


def _check_trial(path: Path, trial: FrozenTrial, space: Space) -> None:
    """Refuse values that no trial has, since SQLite keeps any value in any column."""
    values = [*trial.intermediate_values.values(), *(trial.values or [])]
    try:
        check_json(values, list[float], path, LATER)
        check_json(trial.user_attrs, _Attributes, path, LATER)
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            space.decode(trial.params)
    except GpmError as error:
        raise GpmError(f"{path}: trial {trial.number + 1} is damaged ({error}); {LATER}.") from None


def _settle(study: Study, space: Space) -> None:
    """Enqueue again the trials that a killed process left behind, and those that ran out of time.

    A trial that was killed twice is not enqueued, since it may be what killed the process. One that was killed while
    its options were drawn, one after another, has them all drawn again: the rest alone would come out differently.
    """
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        why = KILLED_AGAIN if trial.user_attrs.get("kills", 0) else KILLED
        Trial(study, trial._trial_id).set_user_attr("why", why)
        study.tell(trial.number, state=TrialState.FAIL)
    trials = study.get_trials(deepcopy=False)
    tried_again = {trial.user_attrs.get("again") for trial in trials}
    for trial in trials:
        if trial.state.is_finished() and why_lost(trial) is not None and trial.number not in tried_again:
            kills = trial.user_attrs.get("kills", 0) + (why_lost(trial) == KILLED)
            drawn = trial.system_attrs.get("fixed_params", {}) | trial.params
            whole = drawn.keys() == space.distributions().keys()
            study.enqueue_trial(drawn if whole else {}, user_attrs={"again": trial.number, "kills": kills})


def finished(study: Study) -> list[FrozenTrial]:
    """Return the trials that count: those that ended by themselves."""
    return [t for t in study.get_trials(deepcopy=False) if t.state.is_finished() and why_lost(t) is None]


def why_lost(trial: FrozenTrial) -> str | None:
    """Return why a trial is to be tried again; None if it is not."""
    why = trial.user_attrs.get("why")
    return why if why in LOST else None


def best_of(study: Study) -> FrozenTrial | None:
    """Return the trial with the best validation figure among those trained to their end; the first of equals."""
    done = [t for t in study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]) if t.value is not None]
    sign = -1 if study.direction == StudyDirection.MAXIMIZE else 1
    return min(done, key=lambda t: (sign * (t.value or 0.0), t.number), default=None)


def ask(study: Study, space: Space, base: Config, startup: int) -> Trial:
    """Return the next trial. The first has the options of the base, so that the best is never worse.

    What is drawn is a function of the seed and of the trials before, so that a study can be resumed exactly.
    """
    before = len(finished(study))
    seed = int(np.random.SeedSequence((base.seed, before)).generate_state(1)[0])
    study.sampler = TPESampler(n_startup_trials=startup, seed=seed)
    # The first quarter of a training says little: the learning rate has yet to rise and to fall.
    study.pruner = MedianPruner(n_startup_trials=max(1, startup // 2), n_warmup_steps=max(2, base.epochs // 4))
    if not study.get_trials(deepcopy=False):
        study.enqueue_trial(space.encode(base))
    return study.ask(space.distributions())


def options_of(space: Space, trial: FrozenTrial | Trial, base: Config) -> Config:
    """Return the options of a trial; raise an error if they do not go together."""
    return base.with_(**space.decode(trial.params))
