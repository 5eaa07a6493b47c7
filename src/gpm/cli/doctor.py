"""Verify a run or a graph folder: every byte, and that it can be used; say what is damaged and what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gpm.errors import GpmError
from gpm.graph.folder import open_graph
from gpm.graph.header import HEADER, open_checked, read_header
from gpm.io.atomic import check_plain, read_json
from gpm.io.manifest import CHECKSUMS, check_digest, check_folder, list_files, read_checksums
from gpm.io.publish import restore
from gpm.run.request import PLAN, Plan
from gpm.run.workplace import LOCK, PART, is_complete, is_run, part_of, settle, target_of

_AGAIN = "copy it from a backup, or train again"
_RECORD = "a record only: the model works without it"
_FIXES = {
    "model.safetensors": _AGAIN, "model.json": _AGAIN, "config.yaml": _AGAIN, CHECKSUMS: _RECORD,
    "split.npz": "copy it from a backup, or train again; without the parts only predictions on other data are left",
    "checkpoint.ckpt": "remove it: the training then begins anew",
    "graph": "copy it from a backup, or train again on the tables",
    PLAN: "a finished run works without it; an unfinished one must be trained anew with --overwrite",
}  # fmt: skip


class _Report:
    """The lines, and how many of them tell of damage."""

    def __init__(self) -> None:
        self.damaged: list[str] = []

    def say(self, state: str, name: str, more: str = "") -> None:
        print(f"{state:<10} {name}{': ' if more else ''}{more}")
        if state == "damaged":
            self.damaged.append(name)

    def check(self, name: str, check: Callable[[], Any], fix: str | None = None) -> bool:
        """Print the file as ok if nothing is raised."""
        try:
            check()
        except GpmError as error:
            more = _fix(name) if fix is None else fix
            self.say("damaged", name, str(error).rstrip(".") + (f"; {more}" if more else ""))
            return False
        self.say("ok", name)
        return True


def doctor(folder: Path) -> None:
    """Verify a run or a graph folder, and say what is damaged and what to do.

    Args:
        folder: A run folder, an unfinished one (RUN.part), or a saved graph's.
    """
    report = _Report()
    restore(folder)
    settle(folder)
    if (folder / HEADER).is_file():
        _check_graph(folder, report)
    elif folder.is_dir() and (is_run(folder) or is_complete(folder)):
        _check_run(folder, report)
    elif not folder.exists() and part_of(folder).is_dir():
        _check_run(part_of(folder), report)
    elif folder.is_dir():
        raise GpmError(f"{folder} is neither a run folder nor a saved graph.")
    else:
        raise GpmError(f"there is no folder {folder}.")
    _name_leftovers(folder, report)
    if report.damaged:
        raise GpmError(f"{folder} is damaged: {', '.join(report.damaged)}.")
    print(f"{folder}: nothing is damaged")


def _check_graph(folder: Path, report: _Report) -> None:
    """The header first, as it says what the arrays are; then every byte of each; then whether they go together."""
    header: dict[str, Any] = {}
    if not report.check(HEADER, lambda: header.update(read_header(folder)), fix=""):
        return
    files = header["arrays"] | header.get("files", {})
    for key, entry in sorted(files.items()):
        name = f"{key}.npy" if key in header["arrays"] else key
        report.check(name, partial(_read_through, folder / name, entry), fix="")
    if not report.damaged:
        report.check("arrays together", lambda: open_graph(folder, verify=True), fix="")


def _read_through(path: Path, entry: dict[str, Any]) -> None:
    open_checked(path, entry, full=True).close()


def _check_run(folder: Path, report: _Report, below: str = "") -> None:
    if is_complete(folder) or (folder / CHECKSUMS).is_symlink() or (folder / CHECKSUMS).exists():
        _check_bytes(folder, report, below)
    else:
        for name in list_files(folder):
            if "/" not in name:
                report.check(below + name, partial(_read, folder, name))
        top = folder.parent if below else folder
        if top.name.endswith(PART):
            report.say("unfinished", below or str(folder), f"gpm train --resume {target_of(top)} goes on")
        else:
            report.say(
                "damaged", below + CHECKSUMS, "it is missing, so that nothing tells what the files were; train again"
            )
    seeds = sorted(path for path in folder.glob("seed-*") if path.is_dir() and not path.is_symlink())
    for seed in seeds:
        _check_run(seed, report, f"{below}{seed.name}/")
    if not seeds and not any(name.startswith(below) for name in report.damaged if name != below + CHECKSUMS):
        _check_use(folder, report, below)


def _check_bytes(folder: Path, report: _Report, below: str) -> None:
    """Compare with the checksums, and read what is as they say: whoever made the folder made them too."""
    if not report.check(below + CHECKSUMS, lambda: read_checksums(folder)):
        return
    found = {finding.name: finding for finding in check_folder(folder)}
    nested = tuple(f"{path.parent.name}/" for path in folder.glob(f"*/{CHECKSUMS}"))
    for name in sorted({*list_files(folder), *read_checksums(folder), *found}):
        if name.startswith(nested) and nested:
            continue  # it is told with its own folder
        finding = found.get(name)
        if finding is None:
            report.check(below + name, partial(_read, folder, name))
        elif finding.harmless:
            report.say("unknown", below + name, finding.sentence)
        else:
            report.say("damaged", below + name, f"{finding.sentence}; {_fix(name)}")


def _read(folder: Path, name: str) -> None:
    """Read a file of a run as its owner would."""
    from gpm.data.splits import Split
    from gpm.inference.model_files import read_metadata
    from gpm.io.archives import check_zip
    from gpm.io.run_files import MODEL, read_config

    path = folder / name
    check_plain(path)
    if name == "config.yaml":
        read_config(path)
    elif name == PLAN:
        Plan.read(folder)
    elif name == "split.npz":
        Split.load(path)
    elif path.suffix in (".npz", ".ckpt"):
        check_zip(path)
    elif name == MODEL:
        read_metadata(folder)
    elif path.suffix == ".json":
        read_json(path)


def _check_use(folder: Path, report: _Report, below: str) -> None:
    """Whether the files go together: options, weights, parts and data."""
    from gpm.io.run_files import MODEL, RESULT, SPLIT, WEIGHTS
    from gpm.run.run import Run

    if not (folder / WEIGHTS).is_file() or not (folder / MODEL).is_file():
        return  # not one epoch is done
    run = Run(folder)
    if (folder / RESULT).is_file() and run.split.digest != run.result.get("split_digest"):
        report.say("damaged", below + SPLIT, f"it is not the split that the figures are of; {_AGAIN}")
        return
    try:
        data = run.data
        check_digest(run, data)
    except GpmError as error:
        report.say("unchecked", below + WEIGHTS, f"the data is not at hand to build the model for ({error})")
        return
    report.check(below + "weights in the model", lambda: (run.predictor, run.task))


def _name_leftovers(folder: Path, report: _Report) -> None:
    """What killed processes left; none of it is read, and the next training into the folder clears it."""
    if folder.is_dir():
        for path in sorted(folder.glob(".*")):
            if path.name != LOCK:
                report.say("left over", path.name, "of a process that was killed; it can be removed")
    if folder.is_dir() and part_of(folder).is_dir():
        report.say("unfinished", part_of(folder).name, f"a training that would replace {folder}; it can be removed")


def _fix(name: str) -> str:
    return _FIXES.get(Path(name).name, _RECORD if "/" not in name else _AGAIN)
