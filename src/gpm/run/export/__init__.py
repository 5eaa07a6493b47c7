"""The trained model as a program of `torch.export`, which runs without this package."""

from gpm.run.export.example_inputs import make_inputs
from gpm.run.export.program_file import export_run

__all__ = ["export_run", "make_inputs"]
