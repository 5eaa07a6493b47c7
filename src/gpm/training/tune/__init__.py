"""Search for the options that validate best on some data, and write them as a recipe."""

from gpm.cli.tune import tune

__all__ = ["tune"]
