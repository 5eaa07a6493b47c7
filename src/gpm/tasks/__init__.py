"""Tasks: what is predicted, how it is learned and how it is scored. Names are imported on use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpm.tasks.classification import ClassTask
    from gpm.tasks.link_prediction import LinkTask
    from gpm.tasks.regression import ValueTask
    from gpm.tasks.task import Task, is_regression, load_task, make_task

__all__ = ["ClassTask", "LinkTask", "Task", "ValueTask", "is_regression", "load_task", "make_task"]
_MODULES = {"ClassTask": "classification", "LinkTask": "link_prediction", "ValueTask": "regression"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'task')}"), name)
