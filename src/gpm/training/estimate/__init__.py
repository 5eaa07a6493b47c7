"""Estimate the memory and time of a training from short measurements on this computer."""
