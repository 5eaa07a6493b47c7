r"""The options of the paper: its model and its training, with its hyper-parameters for a dataset (`--preset paper`).

The learning rates in the paper's table are not what its optimizer sees. The public code multiplies them by a Noam
schedule, :math:`d^{-1/2} \min(t^{-1/2}, t \, w^{-3/2})` with width d and w steps of warm-up, which peaks at
:math:`(d w)^{-1/2}`. The options hold the rate at the peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpm.config import Config, ModelOptions, PatternOptions, TrainOptions, declared
from gpm.training.recipes import Recipe

FIXED: dict[str, Any] = {
    "size": "s", "lengths": [2, 4, 6, 8], "patterns": 16, "pool": 128, "layer": "literal", "ffn": 4.0,
    "path_ffn": 4.0, "pair": "product", "bag_of_words": "no", "scale_inputs": False, "flip_signs": False,
    "epochs": 1000, "patience": 100, "schedule": "noam", "warmup": 100,
}  # fmt: skip
# Where the paper's table has nothing about a dataset: the most frequent value of each of its rows.
USUAL = {
    "lr": 0.01,
    "dropout": 0.1,
    "decay": 0.0,
    "batch": 256,
    "pe_dim": 8,
    "anonymous": "gru",
    "anonymous_weight": 0.5,
}
USUAL_PE = {"node": "lap", "link": "lap", "graph": "rwse"}
KEPT = ("features", "seed", "split", "metric", "preset")  # as the recipe has them: they belong to the data


def choose_paper(recipe: Recipe, given: Mapping[str, Any], level: str) -> Config:
    """Return the paper's options for the dataset of a recipe, changed by those that the user has given.

    What the data is, how it is split and measured, and which of its features are read stays as in the recipe.
    """
    groups = (PatternOptions, ModelOptions, TrainOptions)
    names = [name for group in groups for name in declared(group) if name not in (*KEPT, "width", "layers", "heads")]
    defaults = {name: getattr(Config(), name) for name in names}
    usual = USUAL | {"pe": USUAL_PE[level]}
    config = recipe.config.with_(**defaults | FIXED | usual | recipe.paper | recipe.paper_code | dict(given))
    if "lr" in given:
        return config
    return config.with_(lr=config.lr / math.sqrt((config.width or 1) * max(config.warmup, 1)))
