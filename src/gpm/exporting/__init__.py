"""The trained model as a program of `torch.export`, which runs without this package."""

from gpm.exporting.export import export_run
from gpm.exporting.inputs import make_inputs

__all__ = ["export_run", "make_inputs"]
