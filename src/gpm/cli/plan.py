"""The command `gpm plan`: predict a training before it is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from gpm.errors import GpmError


def plan_run(
    source: str = "",
    model: Literal["", "xs", "s", "m", "l", "xl"] = "",
    devices: int = 1,
    nodes: int = 1,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    memory: float = 0.0,
    measure: bool = False,
    out: Path | None = None,
    num_nodes: int = 0,
    num_edges: int = 0,
    features: int = 0,
    classes: int = 2,
    strategy: Literal["ddp", "fsdp"] = "ddp",
    workers: int = 0,
    threads: int = 0,
    bandwidth: float = 0.0,
    peak: float = 0.0,
    recipe: str = "",
    **options: Any,
) -> None:
    """Predict the memory and the time of a training before it is started, and say which flag would make it fit.

    Args:
        source: What to train on, as in gpm train: a recipe, a dataset, a graph's folder or a PyG file.
        model: Size of the model; by default as --size says.
        devices: Devices of a machine (on a CPU: processes) that train together.
        nodes: Machines that do, all like this one.
        device: auto, cpu or cuda. On a GPU the time is not measured but told from --peak.
        memory: GB that a device has; by default what is free here, shared by the devices.
        measure: Measure again, rather than take what was measured before.
        out: Also write the prediction to this JSON file.
        num_nodes: In place of a source, nodes of a graph that does not exist yet.
        num_edges: Its edges, each counted once.
        features: Columns of numbers that its nodes have.
        classes: Classes of its nodes.
        strategy: How ranks share a model: ddp or fsdp, as in gpm train.
        workers: Processes, of each rank, that draw ahead.
        threads: Threads of each rank; by default the processors are shared out.
        bandwidth: GB a second with which gradients are averaged; by default a stated figure.
        peak: TFLOP a second of a GPU; by default a stated figure.
        recipe: Begin with the options of this recipe, where the source is none.
    """
    arguments = {key: value for key, value in locals().items() if key not in ("model", "out", "nodes")}
    arguments |= arguments.pop("options") | {"machines": nodes}
    if model and arguments.setdefault("size", model) != model:
        raise GpmError(f"--model {model} and --size {arguments['size']} are two sizes; leave one out.")
    if out is not None and (out.is_dir() or out.suffix != ".json"):
        raise GpmError(f"{out}: name a .json file for the prediction.")
    from gpm.io.atomic import write_json
    from gpm.training.estimate import plan_training

    plan = plan_training(**arguments)
    print(plan.describe())
    if out is not None:
        write_json(out, plan.to_dict())
