"""The study: its SQLite file, what it remembers, and what became of each trial.

Optuna keeps all of a study in tables of numbers and JSON. Nothing in the file is ever run.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import StorageInternalError
from optuna.pruners import MedianPruner
from optuna.samplers import TPESampler
from optuna.storages import RDBStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from gpm.config import Config
from gpm.errors import GpmError
from gpm.io.atomic import WriteError, check_plain, replacing
from gpm.io.locks import open_lock, try_lock
from gpm.training.tune.space import Space

FILE, LOCK, NAME, FACTS, LATER = "study.db", ".lock", "gpm", "gpm", "name another folder with -o to begin anew"
KILLED, KILLED_AGAIN, INTERRUPTED, LATE = "killed", "killed twice", "interrupted", "out of time"
GRAPH = "graph"  # may be there before: what is tuned on, if it was imported for that
ATTRIBUTES = {"seconds": float, "epoch": int, "epochs": int, "kills": int, "again": int, "why": str}  # of a trial
LOST = (KILLED, INTERRUPTED, LATE)  # trials that are tried again


@dataclass(frozen=True)
class Facts:
    """What all trials of a study have in common, without which their figures could not be compared.

    Attributes:
        data: Where the data is.
        graph: Its digest.
        metric: The validation figure.
        options: All options, of which a trial changes those of the space.
        split: The digest of the parts.
        space: The digest of what may be chosen.
    """

    data: str
    graph: str
    metric: str
    options: dict[str, Any]
    split: str
    space: str


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder while the block runs; the lock goes with the process, however that ends."""
    if not os.access(folder, os.W_OK):
        raise GpmError(f"{folder} cannot be written to; name another folder with -o.")
    _check_beside(folder)
    try:
        lock = open_lock(folder / LOCK)
    except OSError as error:
        raise WriteError(folder / LOCK, error) from None
    try:
        if not try_lock(lock):
            raise GpmError(f"another process tunes in {folder}; wait for it, or name another folder with -o.")
        yield
    finally:
        os.close(lock)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is something else."""
    if folder.exists() and not folder.is_dir():
        raise GpmError(f"{folder} is a file; name a folder with -o.")
    others = folder.is_dir() and any(path.name != GRAPH and path.name[0] != "." for path in folder.iterdir())
    if others and not (folder / FILE).exists():
        raise GpmError(f"{folder} exists and holds no study; name another folder with -o.")


@contextmanager
def open_study(folder: Path, facts: Facts, space: Space, larger: bool) -> Iterator[Study]:
    """Begin the study of a folder, or go on with it; another one's is refused."""
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
            known, trials = study.user_attrs.get(FACTS), study.get_trials(deepcopy=False)
        except Exception as error:  # whatever a damaged file makes its readers raise
            raise GpmError(f"{path} is no study that can be read ({type(error).__name__}); {LATER}.") from None
        _compare(folder, known, facts)
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
        except Exception as error:  # whatever a damaged file makes its readers raise
            raise GpmError(f"{path} is no study that can be read ({type(error).__name__}); {LATER}.") from None
        try:
            yield storage
        except StorageInternalError as error:
            reason = " ".join(str(error.__cause__ or error).split("\n")[0].split())
            raise GpmError(f"cannot write {path}: {reason}.") from None
        finally:
            storage.remove_session()
            storage.engine.dispose()
    finally:
        optuna.logging.set_verbosity(level)


def _check_beside(folder: Path) -> None:
    """Refuse what could make SQLite touch other files: a journal, which it would play back, or links."""
    for path in (folder / f"{FILE}{more}" for more in ("", "-wal", "-shm", "-journal")):
        if path.is_symlink() or path.exists():
            check_plain(path)
            if path.name.endswith("-journal"):
                raise GpmError(f"{path} is none that gpm tune makes; remove it, or {LATER}.")


def _check_file(path: Path) -> None:
    """Refuse a file of something else before Optuna adds its tables to it."""
    check_plain(path)
    try:
        with closing(sqlite3.connect(path)) as base:
            found = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise GpmError(f"{path} is no SQLite file that can be read ({error}); {LATER}.") from None
    if not {"studies", "trials", "version_info"} <= found:
        raise GpmError(f"{path} holds something else than a study; {LATER}.")


def _compare(folder: Path, known: Any, facts: Facts) -> None:
    """Refuse to mix trials that cannot be compared, and say what differs."""
    if not isinstance(known, dict):
        raise GpmError(f"{folder / FILE} is not a study of gpm tune; {LATER}.")
    for key, now in json.loads(json.dumps(asdict(facts))).items():
        then = known.get(key)
        if key == "options" and isinstance(then, dict):
            before_all = Config.from_dict(then).to_dict()  # an earlier version may have had fewer
            for name, value in now.items():
                if (before := before_all[name]) != value:
                    raise GpmError(f"{folder} holds a study with {name} {before}, not {value}; {LATER}.")
        elif then != now:
            what = {"space": "search space"}.get(key, key)
            raise GpmError(f"{folder} holds a study of another {what} ({then}, not {now}); {LATER}.")


def _check_trial(path: Path, trial: FrozenTrial, space: Space) -> None:
    """Refuse what no trial has: SQLite keeps any value in any column."""
    values = [*trial.intermediate_values.values(), *(trial.values or [])]
    plain = all(isinstance(value, (int, float)) for value in values)
    if not plain or any(not isinstance(trial.user_attrs.get(name, kind()), kind) for name, kind in ATTRIBUTES.items()):
        raise GpmError(f"{path}: trial {trial.number + 1} is damaged; {LATER}.")
    try:
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            space.decode(trial.params)
    except GpmError as error:
        raise GpmError(f"{path}: trial {trial.number + 1} is damaged ({error}); {LATER}.") from None


def _settle(study: Study, space: Space) -> None:
    """See to the trials that a killed process left behind, and to those that ran out of time: they are tried again.

    A trial that was killed twice is not: it may be what killed the process. One that was killed while its options were
    being drawn, one after another, has them all drawn again: the rest alone would come out differently.
    """
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        why = KILLED_AGAIN if trial.user_attrs.get("kills", 0) else KILLED
        Trial(study, trial._trial_id).set_user_attr("why", why)
        study.tell(trial.number, state=TrialState.FAIL)
    for trial in study.get_trials(deepcopy=False):
        if trial.state.is_finished() and why_lost(trial) is not None and not _was_tried_again(study, trial):
            kills = trial.user_attrs.get("kills", 0) + (why_lost(trial) == KILLED)
            drawn = trial.system_attrs.get("fixed_params", {}) | trial.params
            whole = drawn.keys() == space.distributions().keys()
            study.enqueue_trial(drawn if whole else {}, user_attrs={"again": trial.number, "kills": kills})


def _was_tried_again(study: Study, trial: FrozenTrial) -> bool:
    return any(other.user_attrs.get("again") == trial.number for other in study.get_trials(deepcopy=False))


def finished(study: Study) -> list[FrozenTrial]:
    """The trials that count: those that ended by themselves."""
    return [t for t in study.get_trials(deepcopy=False) if t.state.is_finished() and why_lost(t) is None]


def why_lost(trial: FrozenTrial) -> str | None:
    """Why a trial is to be tried again; None if it is not."""
    why = trial.user_attrs.get("why")
    return why if why in LOST else None


def best_of(study: Study) -> FrozenTrial | None:
    """The trial with the best validation figure among those that were trained to their end; the first of equals."""
    done = [t for t in study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]) if t.value is not None]
    sign = -1 if study.direction == StudyDirection.MAXIMIZE else 1
    return min(done, key=lambda t: (sign * (t.value or 0.0), t.number), default=None)


def ask(study: Study, space: Space, base: Config, startup: int) -> Trial:
    """The next trial. The first has the options of the base, so that the best is never worse.

    What is drawn is a function of the seed and the trials before, so that a study goes on as it would have gone on.
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
    """The options of a trial; ones that do not go together are a mistake."""
    return base.with_(**space.decode(trial.params))
