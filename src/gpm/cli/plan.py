"""The command `gpm plan`: what would be trained, by whom, and the prediction in words."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpm.config import ComputeOptions, Config, RankOptions, accepts, divide_options, rename_nodes
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.training.estimate.forecast import Plan


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
    chosen = _with_size(options, model)
    if bool(source) == bool(num_nodes):
        raise GpmError("say what to train on: a dataset or a folder, or else --num_nodes with --num_edges.")
    if out is not None and (out.is_dir() or out.suffix != ".json"):
        raise GpmError(f"{out}: name a .json file for the prediction.")
    from gpm.compute import choose_device, keep_memory, set_threads
    from gpm.io.atomic import write_json
    from gpm.training.estimate.estimate import GB, Team
    from gpm.training.estimate.forecast import load, make_plan
    from gpm.training.estimate.subject import Stated

    keep_memory()
    kind = choose_device("auto") if device == "auto" else device
    team = Team(
        ranks.devices, ranks.machines, "cuda" if kind.startswith("cuda") else "cpu", ranks.strategy, ranks.workers,
        compute.threads or max(1, (os.cpu_count() or 1) // ranks.devices), bandwidth * GB, peak * 1e12,
    )  # fmt: skip
    set_threads(team.threads)
    stated = Stated(num_nodes, num_edges, features, classes) if num_nodes else None
    subject, loaded = load(source, chosen, recipe, stated)
    plan = make_plan(subject, team, memory * GB, loaded, measure)
    print(tell(plan))
    if out is not None:
        write_json(out, plan.to_dict())


def _with_size(options: dict[str, Any], model: str) -> dict[str, Any]:
    """The options with the size that --model names."""
    if model and options.get("size", model) != model:
        raise GpmError(f"--model {model} and --size {options['size']} are two sizes; leave one out.")
    return options | ({"size": model} if model else {})


def tell(plan: Plan) -> str:
    """A prediction in a few lines."""
    found, team, config = plan.found, plan.found.team, plan.found.subject.config
    machines = f" on each of {team.machines} machines" if team.machines > 1 else ""
    lines = [
        f"{found.subject.data.title}: {config.layers} layer(s), {config.heads} heads, width {config.width}, "
        f"{found.parameters:,} parameters; {team.devices} {'process' if team.device == 'cpu' else 'GPU'}"
        f"{'' if team.devices == 1 else 'es' if team.device == 'cpu' else 's'}{machines}, "
        f"{found.instances:,} instances at once",
        *_tell_memory(plan),
        *_tell_times(plan),
        *plan.notes,
    ]
    return "\n".join([*lines, plan.verdict])


def _tell_memory(plan: Plan) -> list[str]:
    memory, config = plan.found.memory, plan.found.subject.config
    files = f"; {show_bytes(memory.files)} in files, mapped and not needed in memory" if memory.files else ""
    rows = [
        ("process", memory.process, "Python, torch and Lightning" if plan.found.team.device == "cpu" else "CUDA"),
        ("graph", memory.graph, f"with features, in memory{files}"),
        ("weights", memory.weights, "with gradients and the state of AdamW"),
        ("averaged", memory.averaged, "weights") if memory.averaged else None,
        ("step", memory.step, f"{plan.found.instances:,} instances x {config.patterns} patterns"),
        ("validation", memory.reading, "at another time than a step: the larger of the two counts"),
    ]
    head = f"memory of a rank  {show_bytes(memory.total)} of {show_bytes(plan.memory)}"
    return [head, *(f"  {row[0]:<14}  {show_bytes(row[1]):>9}  {row[2]}" for row in rows if row is not None)]


def _tell_times(plan: Plan) -> list[str]:
    times = plan.found.times
    parts = {key: getattr(times, key) for key in ("sampling", "gathering", "computing", "communicating")}
    shares = ", ".join(f"{key} {show_seconds(value)}" for key, value in parts.items() if value)
    rows = [
        ("step", times.step, f"{1 / times.step:.3g} steps/s: {shares}"),
        ("epoch", times.epoch, f"{times.steps:,} steps, and validation of {show_seconds(times.validation)} with "
                               f"{plan.found.val_patterns} patterns"),
        ("training", times.whole, f"{times.epochs} epochs, and scoring of {show_seconds(times.scoring)}"),
    ]  # fmt: skip
    return ["time", *(f"  {name:<14}  {show_seconds(value):>9}  {about}" for name, value, about in rows)]


def show_bytes(size: float) -> str:
    """Bytes in words."""
    return f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e6:.2f} MB"


def show_seconds(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
