"""Tasks: what is predicted, how it is scored and how a prediction reads."""

from gpm.tasks.node import NodeTask

__all__ = ["NodeTask"]
