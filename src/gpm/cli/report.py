"""The command `gpm report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.cli.run_folder import open_run
from gpm.config import ComputeOptions, accepts
from gpm.errors import GpmError


@accepts(ComputeOptions)
def report_run(run: Path, explain: int = 3, shapes: int = 60, **options: Any) -> None:
    """Write the report of a run again, with figures, the shapes behind its predictions and explained mistakes.

    Args:
        run: Run folder.
        explain: Most confident mistakes to explain, each on a page of its own that the report links to.
        shapes: Test instances to find the shapes of, see gpm explain --all. 0: none.
    """
    from gpm.report.run_report import Report, tell

    if min(explain, shapes) < 0:
        raise GpmError(f"--explain and --shapes must be at least 0, got {explain} and {shapes}.")
    opened = open_run(run, **options)
    if opened.other or not (run / "result.json").is_file():
        raise GpmError(f"{run} has no result.json: its training was not scored; train again.")
    logits = {part: opened.read(part, progress=True) for part in ("val", "test")}
    reads_patterns, overview = opened.config.model == "gpm", None
    if shapes and reads_patterns:
        from gpm.explain.by_class import survey

        overview = survey(opened, most=shapes, progress=True)
    report = Report.of(opened, opened.result, logits, overview)
    for name in report.mistakes(explain) if reads_patterns else ():
        _explain(opened, name)
    for line in tell(report):
        print(line)
    files = report.save_figures()
    print(f"report written to {report.save()}, {len(files)} figures to {run / 'figures'}")


def _explain(opened: Any, name: tuple[str, ...]) -> None:
    """Write the page of an explanation where `gpm explain` does, unless it is there."""
    from gpm.explain.write import PAGE, file_name, save_explanations

    level = opened.data.level
    folder = opened.folder / "explain" / file_name(" ".join([level, *name]))
    if folder.parent.is_symlink():
        raise GpmError(f"{folder.parent} is a symbolic link, which is not followed; remove it.")
    if not (folder / PAGE).is_file():
        save_explanations([opened.explain(name if level == "link" else name[0])], folder)
