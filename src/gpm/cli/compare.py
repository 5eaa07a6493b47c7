"""The command `gpm compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.cli.run_folder import open_run
from gpm.config import ComputeOptions, accepts


@accepts(ComputeOptions)
def compare_runs(
    runs: list[str] = [],  # noqa: B006 - the command line shows this default
    out: Path | None = None,
    **options: Any,
) -> None:
    """Compare runs on the same split: ranked on validation, with intervals of their differences on test.

    Args:
        runs: Run folders, such as runs/gpm runs/gcn.
        out: Also write the table to this file: .csv, .tsv, .parquet or .jsonl.
    """
    from gpm.io.table_files import check_table
    from gpm.report.comparison import compare

    if out is not None:
        check_table(out)
    comparison = compare([open_run(Path(run), **options) for run in runs])
    for line in comparison.lines():
        print(line)
    if out is not None:
        comparison.save(out)
        print(f"table written to {out}")
