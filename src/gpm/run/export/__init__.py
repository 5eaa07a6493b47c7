"""The trained model as a program of `torch.export`, which runs without this package."""

from gpm.run.export.program_file import export_run
from gpm.run.export.program_inputs import make_inputs

__all__ = ["export_run", "make_inputs"]
