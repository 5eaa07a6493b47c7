"""Write a run as a file of `torch.export`; the file is read again and checked before it is kept."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import Dim, ExportedProgram

from gpm import __version__
from gpm.data.link_data import LinkSplit
from gpm.errors import GpmError
from gpm.inference.predictions import Predictions
from gpm.io.atomic import replacing
from gpm.nn.predictor import Predictor
from gpm.run.export.program import ExportedMachine
from gpm.run.export.program_inputs import LETTERS, InputMaker, list_inputs, list_outputs, predictor_on_cpu
from gpm.run.run import Run
from gpm.tasks import ClassTask, Task, ValueTask, load_task

DESCRIPTION = "gpm.json"  # among the archive's extra files
FORMAT = 1
LARGEST = 1e-4  # difference of logits, relative to the largest of them
SIZES = {"B": 2, "M": 3, "n": 5, "R": 4, "k": 7, "E": 11}  # to trace with: torch takes 0, 1 and equal sizes for fixed
EXAMPLE = 2  # instances that the file holds the inputs of
AT_ONCE = 50_000  # positions of paths in a call of the check


def save_program(opened: Run, path: Path, check: int = 256) -> list[str]:
    """Write a trained model as a program of torch.export; return what was written and compared, line by line.

    The logits of `check` random instances are compared with those of the run, which must be on the CPU: nothing is
    written if one differs by more than 1e-4 of the largest.
    """
    maker = InputMaker(predictor_on_cpu(opened))
    instances = _choose_instances(opened, check)
    predicted = opened.predict_inputs(instances)
    program = export_program(maker.predictor, load_task(opened.metadata, None))
    program.example_inputs = ((), maker(instances[:EXAMPLE]))
    about = describe_program(opened, maker, predicted)
    with replacing(path) as scratch:
        file = io.BytesIO()
        torch.export.save(program, file, extra_files={DESCRIPTION: json.dumps(about, indent=2)})
        scratch.write_bytes(file.getvalue())
        off = _compare(scratch, maker, instances, predicted)
    inputs, outputs = (", ".join(each["name"] for each in about[part]) for part in ("inputs", "outputs"))
    unit = "pair" if opened.data.level == "link" else opened.data.level
    against = f"logits differ by at most {off:.1e}, the largest is {_size(predicted.logits):.1e}"
    return [f"{path}: from {inputs} to {outputs}", f"{len(instances):,} {unit}s checked: {against}"]


def export_program(predictor: Predictor, task: Task) -> ExportedProgram:
    """Trace a model for any number of instances, patterns and rows."""
    inputs = list_inputs(predictor)
    machine = ExportedMachine(predictor.model, task.answers, predictor.level, isinstance(task, ValueTask))
    dims = {letter: Dim(letter) for letter in SIZES}
    shapes = {each.name: {i: dims[s] for i, s in enumerate(each.shape) if isinstance(s, str)} for each in inputs}
    sizes = {each.name: [SIZES[s] if isinstance(s, str) else s for s in each.shape] for each in inputs}
    example = {each.name: torch.zeros(sizes[each.name], dtype=getattr(torch, each.kind)) for each in inputs}
    with torch.no_grad():
        program = torch.export.export(machine, (), example, dynamic_shapes=shapes)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # the paths of this computer do not belong into the file
    return program


def describe_program(run: Run, maker: InputMaker, predicted: Predictions) -> dict[str, Any]:
    """Describe a program: inputs, outputs, how patterns are drawn, and the logits of the example."""
    config, task, (count, rounds) = run.config, load_task(run.metadata, None), maker.predictor.portion()
    drawn = {name: getattr(config, name) for name in ("lengths", "topology", "seed", "p", "q", "non_backtracking")}
    return {
        "format": "gpm-program", "version": FORMAT, "gpm": __version__, "torch": torch.__version__,
        "task": run.data.level, "classes": task.names if isinstance(task, ClassTask) else None,
        "threshold": _describe_threshold(task), "letters": LETTERS,
        "inputs": [asdict(each) for each in list_inputs(maker.predictor)],
        "outputs": [asdict(each) for each in list_outputs(maker.predictor, task)],
        "patterns": {"count": count, "rounds": rounds} | drawn,
        "example": {"names": predicted.names[:EXAMPLE], "logits": predicted.logits[:EXAMPLE].tolist()},
    }  # fmt: skip


def _describe_threshold(task: Task) -> dict[str, Any] | None:
    """Return the class that is predicted from a probability on, and that probability; None for the likeliest class."""
    if not isinstance(task, ClassTask) or task.threshold is None:
        return None
    return {"class": task.names[task.positive], "probability": task.threshold}


def _choose_instances(run: Run, count: int) -> NDArray[np.int64]:
    """Choose random nodes `[B]`, graphs `[B]` or pairs of the split `[B, 2]`."""
    every = run.split.pairs if isinstance(run.split, LinkSplit) else run.find()
    return np.random.default_rng(0).choice(every, min(count, len(every)), replace=False)


def _compare(path: Path, maker: InputMaker, instances: NDArray, predicted: Predictions) -> float:
    """Return the largest difference between the logits of a saved program and of the run; refuse a large one."""
    module = torch.export.load(path).module()
    count, rounds = maker.predictor.portion()
    size = max(1, AT_ONCE // (instances.ndim * rounds * count * (maker.predictor.model.longest + 1)))
    with torch.no_grad():
        parts = [module(**maker(instances[i : i + size])) for i in range(0, len(instances), size)]
    logits, answers = (torch.cat([list(part.values())[at] for part in parts]) for at in (0, 1))
    probability = torch.from_numpy(predicted.probability)
    for name, mine, own in (("logit", logits, predicted.logits), ("answer", answers, probability)):
        off = _size(mine - own)
        if not off <= LARGEST * _size(own):  # also if one of them is not a number
            raise GpmError(
                f"The exported program differs from the run by {off:.1e} where the largest {name} is {_size(own):.1e}; "
                "nothing was written."
            )
    return _size(logits - predicted.logits)


def _size(values: Tensor) -> float:
    return float(values.abs().max())
