"""The run folder: everything that a training leaves behind, and the operations on it.

```
config.yaml          every option, resolved         recipe.json     the recipe, its changes, the paper's figure
model.safetensors    weights and statistics         model.json      metadata of the weights: inputs, classes, metric
metrics.csv          one row per epoch              result.json     final scores with seed, protocol and split
split.npz            the split, with a digest       predictions.csv predictions of the test split
environment.json     versions and devices           README.md       the model card
report.html          the report                     figures/        its figures, by `gpm report`
plan.json            the request                    checksums.json  size and SHA-256 of every file, written last
checkpoint.ckpt      the state to resume from, until the training is complete
```

Until the training is complete, these files are in a folder of the same name with `.part` appended; see
`gpm.run.workplace`.
"""

from __future__ import annotations

import html
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.errors import GpmError
from gpm.explain.page_parts import make_table
from gpm.graph.digest import check_digest
from gpm.inference.opened import OpenedRun
from gpm.inference.predictions import Predictions, prepare_inference, recommend
from gpm.io.manifest import check_files
from gpm.io.run_files import CONFIG, MODEL, RESULT, SPLIT, WEIGHTS
from gpm.run.workplace import part_of, settle
from gpm.tasks import ClassTask, load_task
from gpm.tasks.metrics import METRICS

if TYPE_CHECKING:
    from gpm.explain.explanation import Explanation
    from gpm.inference.embeddings import Embeddings
    from gpm.run.shards import Part
    from gpm.shift.result import Shift

_log = logging.getLogger("gpm")


class Run(OpenedRun):
    """A trained model in its folder: open it, evaluate it, predict with it and explain its predictions.

    Use `Run.open`, which checks the folder. Data and model are loaded when first used.
    """

    @classmethod
    def open(
        cls, folder: str | Path, data: Any = None, *, device: str = "auto", other: bool = False,
        home: Self | None = None,
    ) -> Self:  # fmt: skip
        """Open a run folder.

        Args:
            folder: The run folder.
            data: The training data, if it was in memory; or other data to predict.
            device: auto, cpu, cuda, cuda:1 or mps.
            other: `data` is not the training data but another graph, or another table of molecules.
            home: The same run on its training data, if it is open already.
        """
        from gpm.compute import choose_device

        run = cls(folder, device=choose_device(device), other=other)
        settle(run.folder)
        _check_run_folder(run.folder)
        if data is None:
            return run
        from gpm.run.other_data import read_given

        source = str(data) if isinstance(data, (str, Path)) else ""
        chosen = read_given(data, run.config, run.metadata["task"], run.folder, other=other)
        run = cls(folder, chosen, run.device, other=other, source=source, home=home)
        if not other:
            check_digest(run.data.graph, run.metadata.get("data_digest", ""), run.folder, run.config.data)
        return run

    def _repr_html_(self) -> str:
        result = self.result if (self.folder / RESULT).is_file() else {}
        if not result:
            return f"<p>{html.escape(repr(self))}</p>"
        metric = result["metric"]
        kind = METRICS[metric]
        scores = {"this model": {part: result[part][metric] for part in ("val", "test")}} | result["baselines"]
        rows = [
            [html.escape(name), *(kind.show(each[part]) for part in ("val", "test"))] for name, each in scores.items()
        ]
        title = html.escape(f"{result['model'].upper()} on {result['data']}")
        return f"<p><b>{title}</b></p>{make_table([html.escape(kind.title), 'validation', 'test'], rows)}"

    def evaluate(self, part: str = "test", *, patterns: int | None = None, progress: bool = False) -> dict[str, float]:
        """Score a split (train, val or test): the metric and related measures, shares between 0 and 1."""
        logits = self.read(part, patterns=patterns, progress=progress)
        if sentence := self.describe_constant(part, logits):
            _log.warning(sentence)
        return self.score(part, logits)

    def describe_constant(self, part: str, logits: Tensor) -> str:
        """Return a warning if one class is predicted for a whole split that has several; empty if not."""
        task = self.task
        if not isinstance(task, ClassTask) or task.multilabel:
            return ""
        wanted = task.targets[torch.tensor(getattr(self.split, part))]
        said = set(task.decide(logits).tolist())
        if len(said) > 1 or len(set(wanted.tolist())) < 2:
            return ""
        advice = "; try --class_weight balanced" if self.config.class_weight == "none" else ""
        where = f"{'validation' if part == 'val' else part} {self.data.level}"
        return f"The model predicts {str(task.names[said.pop()])!r} for every {where}{advice}."

    def score(self, part: str, logits: Tensor) -> dict[str, float]:
        """Score the logits of a split."""
        return self.task.score(logits, self.task.targets[torch.tensor(getattr(self.split, part))])

    def predict(self, names: Any = None, *, new: bool = False, **options: Any) -> Predictions:
        """Predict nodes by name, links by pairs of names, or graphs by id or name, in the order of the names.

        Args:
            names: By default all nodes or graphs.
            new: Only nodes that the training graph does not have, if the run is opened on another graph.
            options: patterns, interval, draws, calibrate and progress, as in
                `gpm.inference.predictions.prepare_inference`.
        """
        return self.predict_inputs(self.find(names, new=new), **options)

    def predict_shard(self, folder: str | Path, index: int, count: int, **options: Any) -> Part:
        """Predict one of `count` equal shards of all instances and write it, see `gpm.run.shards.predict_shard`."""
        from gpm.run.shards import predict_shard

        return predict_shard(self, folder, index, count, **options)

    def predict_ids(self, ids: NDArray, **options: Any) -> Predictions:
        """Predict nodes or graphs by their ids, or pairs of the split by theirs."""
        return self.predict_inputs(self.inputs(ids) if self.data.level == "link" else ids, **options)

    def predict_pairs(self, pairs: NDArray, **options: Any) -> Predictions:
        """Score pairs of nodes `[B, 2]`, given by their ids.

        An edge of the walked graph is hidden from its own score by `joint`, and seen by `product` and baselines.
        """
        return self.predict_inputs(pairs, **options)

    def predict_inputs(self, inputs: NDArray, **options: Any) -> Predictions:
        """Predict nodes or graphs `[B]` or pairs `[B, 2]` by their ids, with the options of `predict`."""
        return prepare_inference(self, **options).predict(inputs)

    def describe(self, ids: NDArray, logits: Tensor) -> Predictions:
        """Return logits of nodes or graphs, or of pairs of the split, with their names and true labels."""
        truth = self.task.targets[torch.tensor(ids)]
        return Predictions(self.name(self.inputs(ids)), logits, load_task(self.metadata, None), truth=truth)

    def unseen(self) -> list[str]:
        """Describe in sentences what the data contains that the training data does not."""
        from gpm.run.other_data import describe_unseen

        return describe_unseen(self.data, lambda: self.home.data.graph, self.config.pe) if self.other else []

    def embed(self, names: Any = None, **options: Any) -> Embeddings:
        """Embed nodes or graphs, see `gpm.inference.embeddings.embed_run`."""
        from gpm.inference.embeddings import embed_run

        return embed_run(self, names, **options)

    def recommend(self, node: object, top: int = 10, **options: Any) -> Predictions:
        """Predict the most likely new neighbours of a node, the likeliest first.

        Those of a bipartite graph are on the other side.

        Args:
            node: The name of the node, or a list of names, which follow each other in the result.
            top: Number of neighbours of each.
            options: patterns, calibrate and progress, as in `gpm.inference.predictions.prepare_inference`.
        """
        return recommend(self, node, top, **options)

    def explain(self, name: Any, **options: Any) -> Explanation:
        """Find the patterns that the prediction of a node, a pair of nodes or a graph rests on.

        Args:
            name: A node's name, a pair of names, or a graph's id.
            options: top, method, target, draws and room, as in `gpm.explain.explainer.explain`.
        """
        from gpm.explain.explainer import explain

        return explain(self, name, **options)

    def shift(self, **options: Any) -> Shift:
        """Report how far the target is from the source, how the model scores there and which patterns both share.

        Args:
            options: nodes, seed and progress, as in `gpm.shift.shift_report.report_shift`.
        """
        from gpm.shift.shift_report import report_shift

        return report_shift(self, **options)


def _check_run_folder(folder: Path) -> None:
    """Refuse a folder that is not a complete run, or whose files were changed."""
    if not folder.is_dir():
        if (part := part_of(folder)).is_dir():
            how = f"gpm train --resume {folder} continues it from {part}"
            raise GpmError(f"The training of {folder} is not finished; {how}.")
        raise GpmError(f"There is no run folder {folder}; gpm train makes one.")
    if seeds := sorted(path.parent for path in folder.glob(f"seed-*/{CONFIG}")):
        raise GpmError(f"{folder} holds runs of several seeds; name one of them, such as {seeds[0]}.")
    for name in (CONFIG, MODEL, WEIGHTS):
        if not (folder / name).is_file():
            raise GpmError(f"{folder} has no {name}: it is not a run folder, or its training ended before epoch 1.")
    check_files(folder, (CONFIG, MODEL, WEIGHTS, SPLIT))
