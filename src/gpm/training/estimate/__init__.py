"""Planning: memory and time of a training, predicted from what is measured on this machine in a few seconds."""

from gpm.cli.plan import plan_run

__all__ = ["plan_run"]
