"""Predict memory and time of a training from what is measured on this computer in a few seconds."""

from gpm.training.estimate.estimate import Team
from gpm.training.estimate.forecast import Plan, plan_training
from gpm.training.estimate.subject import Stated

__all__ = ["Plan", "Stated", "Team", "plan_training"]
