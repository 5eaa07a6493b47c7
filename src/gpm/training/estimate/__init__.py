"""Predict memory and time of a training from what is measured on this computer in a few seconds."""

from gpm.training.estimate.forecast import Plan, plan_training

__all__ = ["Plan", "plan_training"]
