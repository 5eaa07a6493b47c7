"""The command `gpm plan`: predict a training before it is started."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from gpm.config import ComputeOptions, Config, RankOptions, accepts, divide_options, rename_nodes
from gpm.errors import GpmError


@accepts(RankOptions, ComputeOptions, Config, without=["data", "restarts"])
def plan_run(
    source: str = "",
    model: Literal["", "xs", "s", "m", "l", "xl"] = "",
    nodes: str = "",
    device: Literal["auto", "cpu", "cuda"] = "auto",
    memory: float = 0.0,
    measure: bool = False,
    out: Path | None = None,
    num_nodes: int = 0,
    num_edges: int = 0,
    features: int = 0,
    classes: int = 2,
    bandwidth: float = 0.0,
    peak: float = 0.0,
    recipe: str = "",
    **options: Any,
) -> None:
    """Predict the memory and the time of a training, and name the flags that make it fit.

    Args:
        source: What to train on, as in gpm train: a recipe, a dataset, a graph's folder or a PyG file.
        model: Size of the model; by default as --size says.
        nodes: Earlier spelling of --machines.
        device: auto, cpu or cuda. On a GPU the time is not measured but told from --peak.
        memory: GB that a device has; by default what is free here, shared by the devices.
        measure: Measure again, rather than take what was measured before.
        out: Also write the prediction to this JSON file.
        num_nodes: In place of a source, nodes of a graph that does not exist yet.
        num_edges: Its edges, each counted once.
        features: Columns of numbers that its nodes have.
        classes: Classes of its nodes.
        bandwidth: GB a second with which gradients are averaged; by default a stated figure.
        peak: TFLOP a second of a GPU; by default a stated figure.
        recipe: Begin with the options of this recipe, where the source is none.
    """
    for name, value in (("memory", memory), ("bandwidth", bandwidth), ("peak", peak)):
        if not 0 <= value < math.inf:
            raise GpmError(f"--{name} must be at least 0, got {value}.")
    options = rename_nodes(options | {"nodes": nodes})
    options.pop("nodes", None)
    ranks, compute, options = divide_options(options, RankOptions, ComputeOptions)
    if model and options.setdefault("size", model) != model:
        raise GpmError(f"--model {model} and --size {options['size']} are two sizes; leave one out.")
    if bool(source) == bool(num_nodes):
        raise GpmError("Say what to train on: a dataset or a folder, or else --num_nodes with --num_edges.")
    if out is not None and (out.is_dir() or out.suffix != ".json"):
        raise GpmError(f"{out}: name a .json file for the prediction.")
    from gpm.compute import choose_device, usual_threads
    from gpm.io.atomic import write_json
    from gpm.training.estimate import Stated, Team, plan_training

    kind = "cuda" if (choose_device("auto") if device == "auto" else device).startswith("cuda") else "cpu"
    threads = compute.threads or usual_threads(ranks.devices)
    plan = plan_training(
        source or Stated(num_nodes, num_edges, features, classes),
        Team(ranks.devices, ranks.machines, kind, ranks.strategy, ranks.workers, threads, bandwidth * 1e9, peak * 1e12),
        memory=memory * 1e9, measure=measure, recipe=recipe, **options,
    )  # fmt: skip
    print(plan.describe())
    if out is not None:
        write_json(out, plan.to_dict())
