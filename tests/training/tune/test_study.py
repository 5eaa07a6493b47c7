"""The study's file: what it refuses, what it never runs, and that it goes on as if it had not been interrupted."""

from __future__ import annotations

import json
import pickle
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from optuna.study import Study
from optuna.trial import Trial, TrialState

from gpm import Config, GpmError
from gpm.training.tune.space import Choices, Range, Space
from gpm.training.tune.study import (
    FILE,
    KILLED,
    KILLED_AGAIN,
    Facts,
    alone,
    ask,
    best_of,
    check_folder,
    finished,
    open_study,
)

BASE = Config(seed=3, lr=0.01)
SPACE = Space({"lr": Range(0.001, 0.1, log=True), "width": Choices((32, 64, 128)), "lengths": Choices(([4], [1, 2]))})
FACTS = Facts("here", "abc", "accuracy", BASE.to_dict(), "def", SPACE.digest)


def _try(study: Study, count: int = 1) -> None:
    """Trials whose figure is a function of their options."""
    for _ in range(count):
        trial = ask(study, SPACE, BASE, startup=3)
        study.tell(trial, trial.params["lr"] * trial.params["width"] + len(trial.params["lengths"]))


def _told(study: Study) -> list[tuple[Any, ...]]:
    return [(trial.params, trial.value) for trial in finished(study)]


def test_the_first_trial_has_the_options_given(tmp_path: Path) -> None:
    with open_study(tmp_path, FACTS, SPACE, larger=True) as study:
        trial = ask(study, SPACE, BASE, startup=3)
        assert BASE.with_(**SPACE.decode(trial.params)) == BASE.with_(lengths=[4])  # [0, 1, 4, 8] is not in the space


@pytest.mark.parametrize("larger", [True, False])
def test_the_best_is_the_first_of_the_best_that_were_trained(tmp_path: Path, larger: bool) -> None:
    with open_study(tmp_path, FACTS, SPACE, larger) as study:
        assert best_of(study) is None
        for value in (2.0, 1.0, 1.0, 2.0):
            study.tell(ask(study, SPACE, BASE, 3), value)
        pruned = ask(study, SPACE, BASE, 3)
        pruned.report(9.0 if larger else -9.0, 1)
        study.tell(pruned, state=TrialState.PRUNED)
        found = best_of(study)
        assert found is not None
        assert found.number == (0 if larger else 1)


def test_a_study_in_pieces_draws_what_a_whole_one_draws(tmp_path: Path) -> None:
    for name in ("whole", "pieces"):
        (tmp_path / name).mkdir()
    with open_study(tmp_path / "whole", FACTS, SPACE, True) as study:
        _try(study, 5)
        whole = _told(study)
    for _ in range(5):
        with open_study(tmp_path / "pieces", FACTS, SPACE, True) as study:
            _try(study)
    with open_study(tmp_path / "pieces", FACTS, SPACE, True) as study:
        assert _told(study) == whole
        assert len({str(params) for params, _ in whole}) == 5


def test_a_trial_that_was_killed_is_tried_again_once(tmp_path: Path) -> None:
    with open_study(tmp_path, FACTS, SPACE, True) as study:
        _try(study, 2)
        lost = ask(study, SPACE, BASE, 3).params  # and here the process is killed
    with open_study(tmp_path, FACTS, SPACE, True) as study:
        assert study.trials[2].state == TrialState.FAIL
        assert study.trials[2].user_attrs["why"] == KILLED
        assert len(finished(study)) == 2
        assert ask(study, SPACE, BASE, 3).params == lost  # and here again
    with open_study(tmp_path, FACTS, SPACE, True) as study:
        assert [trial.user_attrs["why"] for trial in study.trials[2:]] == [KILLED, KILLED_AGAIN]
        assert len(finished(study)) == 3
        assert ask(study, SPACE, BASE, 3).params != lost


def test_a_killed_study_draws_what_one_that_was_not_draws(tmp_path: Path) -> None:
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    with open_study(tmp_path / "whole", FACTS, SPACE, True) as study:
        _try(study, 7)
        whole = _told(study)
    for count in (3, 1, 1, 2):
        with open_study(tmp_path / "killed", FACTS, SPACE, True) as study:
            _try(study, count)
            ask(study, SPACE, BASE, 3)
            if count == 2:
                told = _told(study)
    assert told == whole


# The options given, drawn at random, drawn from what was learned.
@pytest.mark.parametrize(("made", "drawn"), [(0, 1), (2, 2), (4, 2)])
def test_a_trial_killed_while_its_options_are_drawn_has_them_all_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: int, drawn: int
) -> None:
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    with open_study(tmp_path / "whole", FACTS, SPACE, True) as study:
        _try(study, made + 2)
        whole = _told(study)
    suggest, calls = Trial._suggest, []

    def kill(self: Trial, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > drawn:
            raise InterruptedError
        return suggest(self, *arguments)

    with open_study(tmp_path / "killed", FACTS, SPACE, True) as study:
        _try(study, made)
        with monkeypatch.context() as patch:
            patch.setattr(Trial, "_suggest", kill)
            with pytest.raises(InterruptedError):
                ask(study, SPACE, BASE, 3)
    with open_study(tmp_path / "killed", FACTS, SPACE, True) as study:
        _try(study, 2)
        assert _told(study) == whole


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        alone(tmp_path),
        pytest.raises(GpmError, match=r"^Another process tunes in .*; wait for it, or name another folder with -o\."),
        alone(tmp_path),
    ):
        pass
    with alone(tmp_path):
        pass


CHANGES = [
    ({"data": "there"}, "another data (here, not there)"),
    ({"graph": "xyz"}, "another graph (abc, not xyz)"),
    ({"metric": "f1"}, "another metric (accuracy, not f1)"),
    ({"split": "xyz"}, "another split (def, not xyz)"),
    ({"space": "xyz"}, f"another search space ({SPACE.digest}, not xyz)"),
    ({"options": BASE.with_(seed=4).to_dict()}, "with seed 3, not 4"),
    ({"options": BASE.with_(epochs=9).to_dict()}, "with epochs 60, not 9"),
]


@pytest.mark.parametrize(("change", "sentence"), CHANGES)
def test_studies_are_not_mixed(tmp_path: Path, whole_study: Path, change: dict[str, Any], sentence: str) -> None:
    shutil.copy(whole_study, tmp_path / FILE)
    with pytest.raises(GpmError) as caught, open_study(tmp_path, replace(FACTS, **change), SPACE, True):
        pass
    assert str(caught.value) == f"{tmp_path} holds a study {_of(sentence)}; name another folder with -o to begin anew."


def _of(sentence: str) -> str:
    return f"of {sentence}" if sentence.startswith("another") else sentence


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "recipe.yaml").write_text("data: cora")
    with pytest.raises(GpmError, match=r"mine exists and holds no study; name another folder"):
        check_folder(tmp_path / "mine")
    with pytest.raises(GpmError, match=r"recipe.yaml is a file; name a folder with -o"):
        check_folder(tmp_path / "mine" / "recipe.yaml")
    (tmp_path / "new" / "graph").mkdir(parents=True)  # what was imported to be tuned on
    (tmp_path / "new" / ".lock").touch()
    check_folder(tmp_path / "new")
    check_folder(tmp_path / "not there")


@pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\x00" + b"\xff" * 4096, pickle.dumps({"a": 1})])
def test_a_file_that_is_no_study_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(GpmError, match=r"name another folder with -o"), open_study(tmp_path, FACTS, SPACE, True):
        pass
    assert (tmp_path / FILE).read_bytes() == content


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as base:
        base.execute("CREATE TABLE mine (a)")
        base.commit()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(GpmError, match=r"is not a study"), open_study(tmp_path, FACTS, SPACE, True):
        pass
    assert (tmp_path / FILE).read_bytes() == before


def test_a_damaged_study_is_one_sentence(tmp_path: Path) -> None:
    with open_study(tmp_path, FACTS, SPACE, True) as study:
        _try(study, 3)
    whole = (tmp_path / FILE).read_bytes()
    assert len(whole) > 8192
    for place in range(0, len(whole), 3 * 4096):
        (tmp_path / FILE).write_bytes(whole[:place] + bytes(4096) + whole[place + 4096 :])
        with suppress(GpmError), open_study(tmp_path, FACTS, SPACE, True) as study:
            _try(study)
    for cut in (100, 5000, len(whole) // 2):
        (tmp_path / FILE).write_bytes(whole[:cut])
        with pytest.raises(GpmError), open_study(tmp_path, FACTS, SPACE, True):
            pass


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "{a} b?c=1#ü%20"
    folder.mkdir()
    with open_study(folder, FACTS, SPACE, True) as study:
        _try(study)
    assert (folder / FILE).is_file()
    with open_study(folder, FACTS, SPACE, True) as study:
        assert len(study.trials) == 1


class _Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


TEXTS = [
    ("study_user_attributes", "value_json"),
    ("trial_user_attributes", "value_json"),
    ("trial_params", "distribution_json"),
    ("trial_params", "param_value"),
    ("trial_values", "value"),
    ("studies", "study_name"),
    ("version_info", "library_version"),
]


def _make_all(folder: Path) -> None:
    with open_study(folder, FACTS, SPACE, True) as study:
        _try(study, 3)
        trial = ask(study, SPACE, BASE, 3)
        trial.set_user_attr("why", "diverged")
        trial.report(1.0, 1)
        study.tell(trial, state=TrialState.PRUNED)


def test_all_that_is_stored_is_numbers_and_json(tmp_path: Path) -> None:
    _make_all(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as base:
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            cursor = base.execute(f"SELECT * FROM {table}")
            columns = [each[0] for each in cursor.description]
            for row in cursor:
                assert not any(isinstance(cell, bytes) for cell in row)
                for column, cell in zip(columns, row, strict=True):
                    if column.endswith("_json"):
                        json.loads(cell)


@pytest.fixture(scope="module")
def whole_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    _make_all(folder)
    return folder / FILE


@pytest.mark.parametrize(("table", "column"), TEXTS)
@pytest.mark.parametrize("form", ["bytes", "json"])
def test_a_pickle_in_the_study_is_never_run(
    tmp_path: Path, whole_study: Path, table: str, column: str, form: str
) -> None:
    shutil.copy(whole_study, tmp_path / FILE)
    canary = pickle.dumps(_Canary(tmp_path / "sung"))
    given = canary if form == "bytes" else json.dumps(canary.hex())
    with closing(sqlite3.connect(tmp_path / FILE)) as base:
        assert base.execute(f"UPDATE {table} SET {column} = ?", (given,)).rowcount
        base.commit()
    with suppress(GpmError), open_study(tmp_path, FACTS, SPACE, True) as study:
        _try(study)
        best_of(study)
    assert not (tmp_path / "sung").exists()
    pickle.loads(canary)
    assert (tmp_path / "sung").exists()  # it could have


def test_a_journal_from_elsewhere_is_not_played_back(tmp_path: Path) -> None:
    """SQLite would delete the file that it names as its master."""
    (tmp_path / "study.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
    with pytest.raises(GpmError, match=r"study\.db-journal was not written by gpm tune"), alone(tmp_path):
        pass
