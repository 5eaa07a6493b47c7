"""Verify a run or a graph folder: compare every byte, load the files, and say what is damaged and what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gpm.errors import GpmError
from gpm.io.atomic import check_plain, read_json
from gpm.io.manifest import CHECKSUMS, FIXES, HEADER, check_folder, list_files, read_checksums
from gpm.run.workplace import PART, PLAN, Plan, is_complete, is_run, part_of, settle, target_of

_AGAIN = "copy it from a backup, or train again"
_RECORD = "a record only: the model works without it"
_FIXES = {
    "model.safetensors": _AGAIN, "model.json": _AGAIN, "config.yaml": _AGAIN, CHECKSUMS: _RECORD, HEADER: FIXES[HEADER],
    "split.npz": "copy it from a backup, or train again; without the split only predictions on other data are left",
    "checkpoint.ckpt": "remove it: the training then begins anew",
    PLAN: "a finished run works without it; an unfinished one must be trained anew with --overwrite",
}  # fmt: skip


class _Report:
    """Prints one line per file and collects the damaged ones."""

    def __init__(self) -> None:
        self.damaged: list[str] = []

    def say(self, state: str, name: str, more: str = "") -> None:
        print(f"{state:<10} {name}{': ' if more else ''}{more}")
        if state == "damaged":
            self.damaged.append(name)

    def check(self, name: str, check: Callable[[], Any]) -> bool:
        """Print the file as ok if nothing is raised."""
        try:
            check()
        except GpmError as error:
            fault, fix = str(error).rstrip("."), _fix(name)
            self.say("damaged", name, fault if fault.endswith(fix) else f"{fault}; {fix}")
            return False
        self.say("ok", name)
        return True


def doctor(folder: Path) -> None:
    """Verify a run or a graph folder, and say what is damaged and what to do.

    Args:
        folder: Run folder, unfinished run (RUN.part) or graph folder.
    """
    report = _Report()
    settle(folder)
    if (folder / HEADER).is_file():
        from gpm.graph.folder import read_header
        from gpm.graph.graph import Graph

        if _check_bytes(folder, report, HEADER, partial(read_header, folder)) and not report.damaged:
            report.check("arrays together", lambda: Graph.open(folder, verify=True))
    elif folder.is_dir() and (is_run(folder) or is_complete(folder)):
        _check_run(folder, report)
    elif not folder.exists() and part_of(folder).is_dir():
        _check_run(part_of(folder), report)
    elif folder.is_dir():
        raise GpmError(f"{folder} is neither a run folder nor a saved graph.")
    else:
        raise GpmError(f"There is no folder {folder}.")
    _name_leftovers(folder, report)
    if report.damaged:
        raise GpmError(f"{folder} is damaged: {', '.join(report.damaged)}.")
    print(f"{folder}: nothing is damaged")


def _check_run(folder: Path, report: _Report, below: str = "") -> None:
    if (folder / CHECKSUMS).is_symlink() or (folder / CHECKSUMS).exists():
        _check_bytes(folder, report, CHECKSUMS, partial(read_checksums, folder), below)
    else:
        for name in list_files(folder):
            if "/" not in name:
                report.check(below + name, partial(_read, folder, name))
        top = folder.parent if below else folder
        if top.name.endswith(PART):
            report.say("unfinished", below or str(folder), f"gpm train --resume {target_of(top)} resumes it")
        else:
            report.say("damaged", below + CHECKSUMS, "it is missing, so that the files cannot be compared; train again")
    seeds = sorted(path for path in folder.glob("seed-*") if path.is_dir() and not path.is_symlink())
    for seed in seeds:
        _check_run(seed, report, f"{below}{seed.name}/")
    if not seeds and not any(name.startswith(below) for name in report.damaged if name != below + CHECKSUMS):
        _check_use(folder, report, below)


def _check_bytes(folder: Path, report: _Report, manifest: str, read: Callable[[], Any], below: str = "") -> bool:
    """Compare a folder with its manifest, and read the files that match: whoever made the folder made both."""
    if not report.check(below + manifest, read):
        return False
    findings = {finding.name: finding for finding in check_folder(folder)}
    nested = tuple(f"{path.parent.name}/" for path in folder.glob(f"*/{CHECKSUMS}"))
    for name in sorted({*list_files(folder), *findings}):
        if name.startswith(nested) and nested:
            continue  # it is reported with its own folder
        finding = findings.get(name)
        if finding is None:
            report.check(below + name, partial(_read, folder, name))
        elif finding.harmless:
            report.say("unknown", below + name, finding.sentence)
        else:
            report.say("damaged", below + name, f"{finding.sentence}; {_fix(name)}")
    return True


def _read(folder: Path, name: str) -> None:
    """Read a file of a run as its reader would."""
    from gpm.data.splits import Split
    from gpm.graph.graph import Graph
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
    elif path.name == HEADER:
        Graph.open(path.parent)
    elif path.suffix == ".json":
        read_json(path)


def _check_use(folder: Path, report: _Report, below: str) -> None:
    """Check that options, weights, split and data go together."""
    from gpm.graph.digest import check_digest
    from gpm.io.run_files import MODEL, RESULT, SPLIT, WEIGHTS
    from gpm.run.run import Run

    if not (folder / WEIGHTS).is_file() or not (folder / MODEL).is_file():
        return  # not one epoch is done
    run = Run(folder)
    if (folder / RESULT).is_file() and run.split.digest != run.result.get("split_digest"):
        report.say("damaged", below + SPLIT, f"it is not the split of the figures in the result; {_AGAIN}")
        return
    try:
        data = run.data
        check_digest(data.graph, run.facts.get("data_digest", ""), folder, run.config.data)
    except GpmError as error:
        report.say("unchecked", below + WEIGHTS, f"the data cannot be read, so that the model is not built ({error})")
        return
    report.check(below + "weights in the model", lambda: (run.predictor, run.task))


def _name_leftovers(folder: Path, report: _Report) -> None:
    """Name what killed processes left; none of it is read, and the next training removes it."""
    if folder.is_dir():
        for path in sorted(folder.glob(".*")):
            report.say("left over", path.name, "of a process that was killed; it can be removed")
    if folder.is_dir() and part_of(folder).is_dir():
        report.say("unfinished", part_of(folder).name, f"a training that would replace {folder}; it can be removed")


def _fix(name: str) -> str:
    if name.endswith(".npy") or name == "arrays together":
        return FIXES[HEADER]
    return _FIXES.get(Path(name).name, _RECORD if "/" not in name else _AGAIN)
