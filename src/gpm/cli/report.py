"""The command `gpm report`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from gpm.cli.run_folder import open_run, writable
from gpm.config import ComputeOptions, accepts
from gpm.errors import GpmError

_log = logging.getLogger("gpm")


@accepts(ComputeOptions)
def report_run(run: Path, explain: int = 3, shapes: int = 60, **options: Any) -> None:
    """Write the report of a run again, with figures, the shapes behind its predictions and explained mistakes.

    Args:
        run: Run folder.
        explain: Most confident mistakes to explain, at most those that the report lists, each on a page of its own.
        shapes: Test instances to find the shapes of, see gpm explain --all. 0: none.
    """
    from gpm.report.run_report import FIGURES, Report, tell

    if min(explain, shapes) < 0:
        raise GpmError(f"--explain and --shapes must be at least 0, got {explain} and {shapes}.")
    opened = open_run(run, **options)
    if not (run / "result.json").is_file():
        raise GpmError(f"{run} has no result.json: its training was not scored; train again.")
    for name in (FIGURES, "explain"):
        if (run / name).is_symlink():
            raise GpmError(f"{run / name} is a symbolic link, which is not followed; remove it.")
    with writable(run / FIGURES):
        logits = {part: opened.read(part, progress=True) for part in ("val", "test")}
        reads_patterns, overview = opened.config.model == "gpm", None
        if shapes and reads_patterns:
            from gpm.explain.by_class import survey

            overview = survey(opened, most=shapes, progress=True)
        report = Report.of(opened, opened.result, logits, overview)
        for name_ in report.mistakes(explain) if reads_patterns else ():
            _explain(opened, name_)
        for line in tell(report):
            print(line)
        files = report.save_figures()
        print(f"report written to {report.save()}, {len(files)} figures to {run / FIGURES}")


def _explain(opened: Any, name: tuple[str, ...]) -> None:
    """Write the page of an explanation where `gpm explain` does, unless it is there."""
    from gpm.explain.explainer import class_names
    from gpm.explain.write import PAGE, file_name, save_explanations

    level = opened.data.level
    folder = opened.folder / "explain" / file_name(" ".join([level, *name]))
    if (folder / PAGE).is_file():
        return
    first = opened.predicts_values and opened.task.outputs > 1  # of several numbers, the one whose errors are listed
    target = {"target": class_names(opened)[0]} if first else {}
    try:
        save_explanations([opened.explain(name if level == "link" else name[0], **target)], folder)
    except GpmError as error:
        _log.warning("%s is not explained: %s", " ".join(name), error)
