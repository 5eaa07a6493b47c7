"""The trained model as a program of `torch.export`, which runs without this package."""

from gpm.run.export.program_file import save_program
from gpm.run.export.program_inputs import make_inputs

__all__ = ["make_inputs", "save_program"]
