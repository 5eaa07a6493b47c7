"""The life of a run folder, without a training in it: what is there after a kill, and who may take a place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpm import GpmError
from gpm.io.manifest import check_folder
from gpm.io.publish import put_aside
from gpm.run.workplace import Plan, TakenError, Workplace, find_place, is_complete, part_of, settle, target_of

PLAN = Plan({"seed": 0, "lr": 0.1, "data": "graph"}, 1, False, "blake2b:0", "1.0", {"name": "x"})


def _fill(part: Path, text: str) -> None:
    (part / "config.yaml").write_text(f"lr: {text}\n")
    (part / "below").mkdir()
    (part / "below" / "file").write_text(text)


def _make(folder: Path, text: str = "one", plan: Plan = PLAN) -> None:
    with Workplace(folder, plan) as work:
        _fill(work.part, text)
        work.publish()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    with Workplace(folder, PLAN) as work:
        assert work.part == part_of(folder) == tmp_path / "runs/run.part"
        assert target_of(work.part) == target_of(folder) == folder
        assert not work.begun
        _fill(work.part, "one")
        assert not folder.exists()
        work.publish()
    assert _names(folder.parent) == {"run"}
    assert _names(folder) == {"config.yaml", "below", "plan.json", "checksums.json"}
    assert check_folder(folder) == []
    assert Plan.read(folder) == PLAN


def test_what_was_begun_stays_and_is_gone_on_with(tmp_path: Path) -> None:
    with Workplace(tmp_path / "run", PLAN) as work:
        _fill(work.part, "one")
        (work.part / ".config.99.0123abcd.yaml").write_text("half")
    assert _names(tmp_path) == {"run.part"}
    with Workplace(tmp_path / "run", replace(PLAN, result="elsewhere.json")) as work:
        assert work.begun
        assert (work.part / "config.yaml").read_text() == "lr: one\n"
        assert not (work.part / ".config.99.0123abcd.yaml").exists()


def test_where_nothing_was_begun_nothing_stays(tmp_path: Path) -> None:
    def fail() -> None:
        with Workplace(tmp_path / "run", PLAN):
            raise GpmError("a mistake")

    with pytest.raises(GpmError, match="a mistake"):
        fail()
    assert _names(tmp_path) == set()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"config": PLAN.config | {"lr": 0.2}}, "there lr is 0.1, not 0.2; "),
        ({"seeds": 2}, "there seeds is 1, not 2; "),
        ({"baselines": True}, "there baselines is False, not True; "),
        ({"gpm": "2.0"}, "there gpm's version is 1.0, not 2.0; "),
        ({"data_digest": "blake2b:1"}, "there graph was changed; "),
    ],
)
def test_another_plan_is_told_what_differs(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with Workplace(tmp_path / "run", PLAN) as work:
        _fill(work.part, "one")
    with pytest.raises(TakenError, match=r"run\.part holds an unfinished training") as error:
        Workplace(tmp_path / "run", replace(PLAN, **change))
    assert said in str(error.value)
    assert f"gpm train --resume {tmp_path / 'run'} resumes it, --overwrite starts anew" in str(error.value)
    with Workplace(tmp_path / "run", replace(PLAN, overwrite=True, **change)) as work:
        assert not work.begun
        assert _names(work.part) == {"plan.json"}


def test_overwriting_goes_on_only_with_what_was_to_overwrite(tmp_path: Path) -> None:
    plan = replace(PLAN, overwrite=True)
    with Workplace(tmp_path / "run", PLAN) as work:
        _fill(work.part, "one")
    with Workplace(tmp_path / "run", plan) as work:
        assert not work.begun
        _fill(work.part, "two")
    with Workplace(tmp_path / "run", plan) as work:
        assert work.begun


def test_a_second_process_gets_one_sentence(tmp_path: Path) -> None:
    sentence = r"run is being written by another process; wait for it to end, or name another folder\.$"
    with Workplace(tmp_path / "run", PLAN) as work:
        for plan in (PLAN, replace(PLAN, overwrite=True)):
            with pytest.raises(TakenError, match=sentence):
                Workplace(tmp_path / "run", plan)
        _fill(work.part, "one")
        work.publish()
    assert check_folder(tmp_path / "run") == []


def test_the_lock_of_a_folder_that_was_renamed_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is done between the second's opening of the lock and its taking: the second must not believe it."""
    first, usual = Workplace(tmp_path / "run", PLAN), os.open
    _fill(first.part, "one")

    def slow(path: Any, *arguments: Any) -> int:
        handle = usual(path, *arguments)
        if Path(path).name == ".run.lock":
            monkeypatch.setattr(os, "open", usual)
            first.publish()
            first.close()
        return handle

    monkeypatch.setattr(os, "open", slow)
    with Workplace(tmp_path / "run", replace(PLAN, overwrite=True)):
        sentence = "run is being written by another process"
        with pytest.raises(TakenError, match=sentence):  # it holds the lock that others see
            Workplace(tmp_path / "run", replace(PLAN, overwrite=True))
    assert (tmp_path / "run/config.yaml").read_text() == "lr: one\n"


# Killed


class Killed(BaseException):
    """No one catches it."""


STEPS = [(Path, "rename"), (Path, "replace"), (Path, "unlink"), (shutil, "rmtree"), (Path, "mkdir"), (os, "fsync")]


def _count_down(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let the process die before its n-th step that changes the disk, as far as we can tell."""
    left = [steps]

    def dying(usual: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return usual(*arguments, **options)

        return step

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_run(tmp_path: Path, overwrite: bool) -> None:
    plan, seen = replace(PLAN, overwrite=overwrite), set()
    for steps in range(1000):
        folder = tmp_path / str(steps) / "run"
        if overwrite:
            _make(folder, "old")
        with pytest.MonkeyPatch.context() as patched:
            _count_down(patched, steps)
            try:
                _make(folder, "new", plan)
                break
            except Killed:
                pass
        settle(folder)  # as every command does
        text = (folder / "below/file").read_text() if folder.exists() else ""
        seen.add(text)
        assert text in (("old", "new") if overwrite else ("", "new"))
        assert not folder.exists() or check_folder(folder) == []
        if text != "new":
            with Workplace(folder, plan) as work:  # the same command again
                if not is_complete(work.part) and not (work.part / "below").exists():
                    _fill(work.part, "new")
                work.publish()
        assert (folder / "below/file").read_text() == "new"
        assert _names(folder.parent) - {".run.lock"} == {"run"}  # an empty file, which the next writer removes
    assert steps > 10
    assert seen == ({"old", "new"} if overwrite else {"", "new"})


def test_between_two_renames_the_new_run_is_put_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    _make(folder, "old")
    usual = Path.rename

    def dying(self: Path, target: Any) -> Any:
        if self.name == "run.part":
            raise Killed
        return usual(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying)
        with pytest.raises(Killed):
            _make(folder, "new", replace(PLAN, overwrite=True))
    assert not folder.exists()
    assert _names(tmp_path) == {".run.old", "run.part"}
    settle(folder)
    assert _names(tmp_path) == {"run"}
    assert (folder / "below/file").read_text() == "new"


def test_an_old_run_put_aside_comes_back_where_there_is_no_new_one(tmp_path: Path) -> None:
    _make(tmp_path / "run")
    put_aside(tmp_path / "run")
    assert _names(tmp_path) == {".run.old"}
    settle(tmp_path / "run")
    assert _names(tmp_path) == {"run"}
    assert ".replaced" not in _names(tmp_path / "run")


def test_a_folder_of_somebody_else_is_never_touched(tmp_path: Path) -> None:
    """Whatever its name: by reading, training or replacing."""
    for name in (".run.old", "run.part", "other"):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "thesis.tex").touch()
        (tmp_path / name / ".env").touch()
    (tmp_path / "other/config.yaml").touch()
    settle(tmp_path / "run")
    with pytest.raises(TakenError, match=r"run\.part is not a training folder"), Workplace(tmp_path / "run", PLAN):
        pass
    with pytest.raises(TakenError, match="is not a run folder"):
        Workplace(tmp_path / "other", replace(PLAN, overwrite=True))
    for name in (".run.old", "run.part", "other"):
        assert {".git", "thesis.tex", ".env"} <= _names(tmp_path / name)


def test_a_run_with_other_things_in_it_is_not_replaced(tmp_path: Path) -> None:
    _make(tmp_path / "run")
    (tmp_path / "run/thesis.tex").touch()
    with pytest.raises(TakenError, match=r"also holds thesis\.tex, which does not belong to the run"):
        Workplace(tmp_path / "run", replace(PLAN, overwrite=True))
    assert (tmp_path / "run/thesis.tex").exists()


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    with Workplace(tmp_path / "run", PLAN) as work:
        _fill(work.part, "one")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.bashrc").touch()
    (tmp_path / "run.part/seed-0").symlink_to(tmp_path / "home")
    with pytest.raises(TakenError, match="seed-0 is a symbolic link"):
        Workplace(tmp_path / "run", PLAN)
    assert _names(tmp_path / "home") == {".bashrc"}


def test_whoever_has_published_leaves_the_workplace_to_the_next(tmp_path: Path) -> None:
    first = Workplace(tmp_path / "run", PLAN)
    _fill(first.part, "one")
    first.publish()
    with Workplace(tmp_path / "run", replace(PLAN, overwrite=True)) as second:
        first.close()
        assert (second.part / "plan.json").is_file()


# What is refused


def test_what_is_there_is_replaced_only_if_it_is_a_run(tmp_path: Path) -> None:
    folder, overwriting = tmp_path / "run", replace(PLAN, overwrite=True)
    folder.mkdir()
    _make(folder)  # an empty one may be used
    with pytest.raises(TakenError, match=r"run exists; name another folder, or add --overwrite to replace it\.$"):
        Workplace(folder, PLAN)
    _make(folder, "two", overwriting)
    assert (folder / "below/file").read_text() == "two"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").touch()
    (tmp_path / "file").touch()
    for name in ("mine", "file"):
        with pytest.raises(TakenError, match=f"{name} exists and is not a run folder, so that it is not replaced"):
            Workplace(tmp_path / name, overwriting)
    assert _names(tmp_path) == {"run", "mine", "file"}


def test_a_part_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.part").mkdir()
    (tmp_path / "run.part/thesis.tex").touch()
    for plan in (PLAN, replace(PLAN, overwrite=True)):
        with pytest.raises(TakenError, match=r"run\.part is not a training folder"):
            Workplace(tmp_path / "run", plan)
    assert _names(tmp_path / "run.part") == {"thesis.tex"}


def test_a_run_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Workplace(folder, PLAN) as work:
        _fill(work.part, "one")
        folder.mkdir()
        (folder / "x").touch()
        with pytest.raises(TakenError, match="was made by someone else meanwhile; move it away, then gpm train --res"):
            work.publish()
    shutil.rmtree(folder)
    settle(folder)
    assert (folder / "below/file").read_text() == "one"


def test_places_that_cannot_be_renamed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for here in (Path(), Path(".."), tmp_path):
        with pytest.raises(TakenError, match="is the folder you are in, or above it; name a new folder"):
            find_place(here)
    with pytest.raises(TakenError, match=r"names that end in \.part are for unfinished trainings"):
        find_place(Path("run.part"))
    with pytest.raises(TakenError, match="is a mount point, which cannot be renamed to; name a folder below it"):
        find_place(Path("/proc"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert find_place(tmp_path / "link") == tmp_path / "real"
    (tmp_path / "x.part").symlink_to("real")
    with pytest.raises(TakenError, match=r"x\.part is a symbolic link"):
        Workplace(tmp_path / "x", PLAN)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"config": {}}', json.dumps({**vars(PLAN), "seeds": "2"})])
def test_a_damaged_plan_is_said_so(tmp_path: Path, content: str) -> None:
    with Workplace(tmp_path / "run", PLAN) as work:
        _fill(work.part, "one")
    (tmp_path / "run.part/plan.json").write_text(content)
    with pytest.raises(GpmError, match=r"plan\.json.*damaged.*train anew with --overwrite"):
        Workplace(tmp_path / "run", PLAN)
    with Workplace(tmp_path / "run", replace(PLAN, overwrite=True)) as work:
        assert not work.begun
