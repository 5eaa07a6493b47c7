"""Score a trained run on its held-out splits, write `result.json` and the model card, and print the figures."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from gpm.config import SIZES
from gpm.data.domain_data import DomainSplit
from gpm.data.splits import LinkSplit, Split
from gpm.inference.model_files import load_weights
from gpm.io.atomic import write_json
from gpm.io.environment import peak_bytes
from gpm.io.run_files import PREDICTIONS, RESULT, WEIGHTS
from gpm.nn.predictor import Predicts
from gpm.run.run import Run
from gpm.tasks import Task
from gpm.tasks.metrics import METRICS, show_scores
from gpm.training.baseline_question import Scores
from gpm.training.batches import Times
from gpm.training.command import find_command
from gpm.training.prepare import Job, Training, selection_metric

OTHER = "other.safetensors"  # while training: weights of the epoch that the other domain would choose
SHARES = tuple(step / 10 for step in range(11))  # of the linear part, to choose from
MOST_PREDICTIONS = 1_000_000  # instances of the test split whose predictions are kept in the run folder
_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Trained:
    """Outcome of a training: its best epoch, a row per epoch, its times, and the epoch the other domain chose."""

    best_epoch: int | None  # None if no score was ever a number
    rows: list[dict[str, float]]
    times: Times
    other_epoch: int | None = None


def announce(training: Training, predictor: Predicts) -> None:
    config, data, split = training.config, training.data, training.split
    shape = (config.layers, config.heads, config.width)
    size = next((f"size {name}, " for name, each in SIZES.items() if each == shape), "")
    parameters = f"{predictor.model.count_parameters():,}"
    _log.info("%s: %s; %s", data.title, data.graph.summary(), training.task.describe())
    _log.info("split %s: %s (%s)", split.name, split.describe(), split.digest)
    if isinstance(split, LinkSplit) and split.sides is not None:
        sizes = " and ".join(f"{int((split.sides == side).sum()):,}" for side in (0, 1))
        _log.info("the graph is bipartite: non-edges join its sides of %s nodes (--bipartite no draws any pair)", sizes)
    if config.model != "gpm":
        _log.info("model: %s, width %d, %s parameters", config.model, config.width, parameters)
        return
    _log.info(
        "model: %s%d layer(s), %d heads, width %d, %s parameters; patterns of lengths %s, %d of %d in training",
        size, *shape, parameters, config.lengths, config.patterns, config.pool,
    )  # fmt: skip


def read_held_out(job: Job, split: Split, predictor: Predicts, task: Task | None = None) -> dict[str, torch.Tensor]:
    """Return the logits of val and test, and of a target without labels; every rank takes a share, rank 0 gets all.

    All patterns are used. The test split is read here, once, after `blend` has chosen by the validation split; rank 0
    gives the task for that.
    """
    predictor.set_linear_share(0.0)
    logits = read_splits(job, split, predictor, "val")
    if task is not None:
        logits["val"] = blend(task, split, predictor, logits["val"], selection_metric(job.config))
    logits |= read_splits(job, split, predictor, "test")
    if (ids := job.data.prediction_ids(split)) is not split.test:
        logits["target"] = _read(job, predictor, ids)
    return logits


def blend(task: Task, split: Split, predictor: Predicts, logits: torch.Tensor, metric: str) -> torch.Tensor:
    """Mix the linear part of a model (`linear: blend`) into its logits of the validation split, and return them.

    The model keeps the share with the best validation metric; of equal ones, the one with the lowest loss.
    """
    linear = predictor.linear_logits(split.inputs(split.val))
    if linear is None:
        return logits
    targets, sign = task.targets[torch.tensor(split.val)], 1 if METRICS[metric].larger else -1

    def rank(share: float) -> tuple[float, float]:
        scores = task.score(torch.lerp(logits, linear, share), targets)
        return sign * scores[metric], -scores["loss"]

    share = max(SHARES, key=rank)
    predictor.set_linear_share(share)
    _log.info(
        "the linear part has a share of %.0f%% in the logits, chosen by validation %s",
        100 * share,
        METRICS[metric].title,
    )
    return torch.lerp(logits, linear, share)


def read_splits(job: Job, split: Split, predictor: Predicts, *names: str) -> dict[str, torch.Tensor]:
    """Return the logits of some splits with the weights of rank 0."""
    job.world.send_weights(predictor.model)
    return {name: _read(job, predictor, split.inputs(getattr(split, name))) for name in names}


def _read(job: Job, predictor: Predicts, inputs: NDArray) -> torch.Tensor:
    mine = inputs[job.world.rank :: job.world.size]
    return job.world.join(predictor.logits(mine, progress=not job.quiet), len(inputs), everywhere=False)


def score_run(job: Job, run: Run, trained: Trained, logits: dict[str, torch.Tensor], networks: Scores) -> None:
    """Score the logits of the kept weights, see `read_held_out`, beside simple baselines and other networks."""
    from gpm.run.model_card import write_card
    from gpm.training.simple_baselines import score_baselines

    scores = {name: run.score(name, logits[name]) for name in ("val", "test")}
    ids = run.data.prediction_ids(run.split)
    if len(ids) <= MOST_PREDICTIONS:
        run.describe(ids, logits.get("target", logits["test"])).save(run.folder / PREDICTIONS)
    else:
        _log.info(f"predictions of more than {MOST_PREDICTIONS:,} instances are not saved; use gpm predict --shard")
    content = _make_result(job, run, trained, scores)
    content["baselines"] = score_baselines(run.data, run.task, run.split, trees=job.baselines) | networks
    paper = job.recipe.beside_paper(run.config)
    content |= {
        "peak_memory_mb": round(peak_bytes() / 1e6), "command": find_command(run.config, job.recipe, job.folder),
    }  # fmt: skip
    content["details"] = _write_report(run, content, logits)
    write_card(run, content, paper, job.recipe.note)
    write_json(run.folder / RESULT, content)  # last: what has a result is trained and scored
    _report(job, run, trained, content, paper)
    constant = [run.describe_constant(part, logits[part]) for part in ("test", "val")]
    if sentence := next(filter(None, constant), ""):
        _log.warning(sentence)


def _write_report(run: Run, content: dict[str, Any], logits: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Write the report and return its numbers. A report that cannot be made must not cost a finished training."""
    from gpm.report.run_report import Report

    try:
        report = Report.of(run, content, logits)
        report.save()
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        _log.warning("There is no report: %s (%s)", error, type(error).__name__)
        return {}
    return report.details.numbers


def _make_result(job: Job, run: Run, trained: Trained, scores: dict[str, dict[str, float]]) -> dict[str, Any]:
    config, rows = run.config, trained.rows
    used = f", with {config.pool} patterns" if config.model == "gpm" else ""
    chosen = "last epoch" if config.select == "last" else f"epoch chosen by validation {config.select}"
    content: dict[str, Any] = {
        "data": run.data.title, "task": run.data.level, "model": config.model, "metric": config.metric,
        "val": scores["val"], "test": scores["test"], "seed": config.seed,
        "protocol": f"split {run.split.name}; {chosen}; test read once{used}",
        "split_digest": run.split.digest, "best_epoch": trained.best_epoch, "epochs": len(rows),
        "train_seconds": rows[-1]["seconds"], "ranks": job.world.size, "workers": job.workers,
        "time_shares": trained.times.shares(), "seconds_per_step": round(trained.times.per_step, 6),
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    if (share := run.predictor.linear_share) is not None:
        content["linear_share"] = share
    if isinstance(run.split, DomainSplit):
        content |= {"chosen_on": run.split.chosen_on}
        content |= {"other": _score_other(job, run, run.split, trained)} if trained.other_epoch else {}
    return content


def _score_other(job: Job, run: Run, split: DomainSplit, trained: Trained) -> dict[str, Any]:
    """Score the weights of the epoch that the other domain would have chosen."""
    model = run.predictor.model
    load_weights(model, run.folder / OTHER)
    logits = read_splits(job, split, run.predictor, "other", "test")
    load_weights(model, run.folder / WEIGHTS)
    return {
        "chosen_on": "target" if split.chosen_on == "source" else "source", "best_epoch": trained.other_epoch,
        "val": run.score("other", logits["other"]), "test": run.score("test", logits["test"]),
    }  # fmt: skip


def _report(job: Job, run: Run, trained: Trained, content: dict[str, Any], paper: str) -> None:
    metric, test = content["metric"], content["test"]
    kind = METRICS[metric]
    shown = ", ".join(f"{name} {kind.show(each['test'])}" for name, each in content["baselines"].items())
    beside = f" ({shown})" if shown else ""
    figures = f"test {kind.show(test[metric])}{beside}, val {kind.show(content['val'][metric])}"
    spent = f"(epoch {content['best_epoch']} of {content['epochs']}, {content['train_seconds']:.0f} s)"
    _log.info("%s %s: %s %s%s", run.data.title, kind.title, figures, spent, paper)
    if ahead := find_ahead(content):
        _log.info(ahead)
    if trained.times.seconds["total"]:
        _log.info("step time: %s", trained.times.describe(job.workers, job.world.size))
    if len(test) > 3:
        _log.info("test: %s", show_scores(test))
    if other := content.get("other"):
        _log.info(
            "epoch chosen on the %s; chosen on the %s instead (epoch %d), test would be %s", content["chosen_on"],
            other["chosen_on"], other["best_epoch"], kind.show(other["test"][metric]),
        )  # fmt: skip
    if isinstance(run.split, LinkSplit) and (kind.title.startswith("Hits") or metric == "mrr"):
        counts = [len(run.split.negatives_of(part)) for part in ("val", "test")]
        if counts[0] != counts[1]:
            against = f"validation ranks against {counts[0]:,} non-edges, test against {counts[1]:,}"
            _log.info("do not compare validation with test: %s", against)
    if run.config.task == "link" and run.config.protocol == "paper":
        _log.info("do not compare: test edges are visible to the walks under protocol paper; see strict")


def find_ahead(content: dict[str, Any]) -> str:
    """Say that the baseline with the best validation score is at least as good as the model; empty if it is not."""
    kind = METRICS[content["metric"]]
    sign = 1 if kind.larger else -1
    if not (baselines := content["baselines"]):
        return ""
    name, best = max(baselines.items(), key=lambda item: sign * item[1]["val"])
    parts = {"val": "validation", "test": "test"}
    level = [part for part in parts if sign * best[part] >= sign * content[part][content["metric"]]]
    if not level:
        return ""
    figures = " and ".join(f"{parts[part]} ({kind.show(best[part])})" for part in level)
    return f"{name} is at least as good on {figures}; gpm tune searches for better options"
