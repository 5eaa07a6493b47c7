"""The command `gpm export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.cli.run_folder import open_run
from gpm.config import ComputeOptions, accepts
from gpm.errors import GpmError


@accepts(ComputeOptions, without=["device"])
def export_run(run: Path, out: Path | None = None, check: int = 256, **options: Any) -> None:
    """Write a model as a torch.export program, checked against the run.

    Args:
        run: Run folder.
        out: File to write, which ends in .pt2. Default: model.pt2 in the run folder.
        check: Number of random instances that both the written program and the run predict. If their logits differ by
            more than 1e-4 of the largest, nothing is written.
    """
    path = run / "model.pt2" if out is None else out
    if path.suffix != ".pt2" or path.is_dir():
        raise GpmError(f"{path} must be a file that ends in .pt2, as in -o model.pt2.")
    if check < 1:
        raise GpmError(f"--check must be at least 1, got {check}.")
    from gpm.run.export import save_program

    print("\n".join(save_program(open_run(run, device="cpu", report=False, **options), path, check)))
