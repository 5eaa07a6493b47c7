"""The command `gpm shift`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.cli.run_folder import open_run, writable
from gpm.config import ComputeOptions, accepts
from gpm.errors import GpmError


@accepts(ComputeOptions)
def shift_run(run: Path, out: Path | None = None, nodes: int = 2000, seed: int = 0, **options: Any) -> None:
    """Compare the target graph of a run with its source: distances, scores, and the patterns of both.

    Args:
        run: Run folder of a training with --target-graph or --shift.
        out: Page to write, an .html file, with a .json of the same name beside it. Default: shift/index.html and
            shift/shift.json in the run folder.
        nodes: Maximum number of nodes to sample in each graph.
        seed: Seed of this sample.
    """
    from gpm.explain.page_shell import check_page
    from gpm.shift.shift_report import PAGE, report_shift, save_shift, tell_shift

    if out is None and (run / "shift").is_symlink():
        raise GpmError(f"{run / 'shift'} is a symbolic link, which is not followed; name a file with -o.")
    page = out or run / "shift" / PAGE
    check_page(page)
    shift = report_shift(open_run(run, **options, report=False), nodes=nodes, seed=seed, progress=True)
    with writable(page.parent):
        beside = save_shift(shift, page)
    print("\n".join(tell_shift(shift)))
    print(f"report written to {page}, its figures to {beside}")
