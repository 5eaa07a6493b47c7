"""Details of predicted links: scores and ranks of edges among non-edges."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from gpm.inference.opened import OpenedRun
from gpm.report.charts import Chart, Series
from gpm.report.content import MOST_SHOWN, Details, Section, Table, draw_curves, name_instances, show_name
from gpm.report.diagnostics import Ranked, Statistic, rank_among, thin
from gpm.tasks import LinkTask

BLOCKS = 30  # of a histogram


def describe_links(run: OpenedRun, task: LinkTask, logits: Tensor, truth: Tensor) -> Details:
    score, true = logits[:, 0].double().numpy(), truth.numpy() == 1
    if not np.isfinite(score).all():
        return Details([Section("Links", "The scores are not finite: the training diverged.")])
    edges, others = score[true], score[~true]
    ranks = np.sort(rank_among(edges, others))
    probability = task.answers(logits).numpy()[:, 0]
    bins = np.linspace(0, 1, BLOCKS + 1)
    shares = [np.histogram(probability[mine], bins)[0] / max(int(mine.sum()), 1) for mine in (~true, true)]
    x = np.unique(np.concatenate([[1.0], np.minimum(ranks, len(others)), [max(len(others), 2)]]))
    hits = np.searchsorted(ranks, x, side="right") / max(len(ranks), 1)
    marks = [(float(k), f"{k}") for k in (20, 50, 100) if k < len(others)]
    figures = [
        Chart("scores", "Probability of edges and of non-edges", "probability", "share",
              [Series(bins, shares[0], "non-edges", "blocks"), Series(bins, shares[1], "edges", "blocks")], (0.0, 1.0)),
        Chart("hits", "Hits@K for every K", "K: rank among the non-edges", "share of the edges",
              [Series(*thin(x, hits))], (1.0, float(x[-1])), (0.0, 1.0), logarithmic=True, marks=marks),
    ]  # fmt: skip
    middle = (
        f"Half of the {len(edges):,} test edges rank {np.median(ranks):,.0f} or better among {len(others):,} non-edges."
    )
    tables = []
    for title, mine, sign in (("Non-edges that score highest", ~true, -1), ("Edges that score lowest", true, 1)):
        ids = np.flatnonzero(mine)
        order = ids[np.argsort(sign * score[ids], kind="stable")][:MOST_SHOWN]
        told = name_instances(run, run.split.test[order])
        rows = [[show_name(name), f"{probability[i]:.1%}"] for name, i in zip(told, order, strict=True)]
        tables.append(Table(["pair", "probability"], rows, title, instances=told))
    sections = [
        Section("Edges and non-edges", middle, figures),
        Section("Over all thresholds", "", draw_curves([("edges", true, score)])),
        Section(
            "Most confident mistakes", "A non-edge with a high score may be an edge that is missing.", tables=tables
        ),
    ]
    return Details(sections, numbers={"median_rank": float(np.median(ranks)), "negatives": len(others)})


def find_link_statistic(task: LinkTask, logits: Tensor, truth: Tensor) -> Statistic | None:
    """Return the metric as a function of how often each edge, or pair, is drawn; None if it is not resampled."""
    score, true = logits[:, 0].double().numpy(), truth.numpy() == 1
    if not np.isfinite(score).all() or true.all() or not true.any():
        return None
    if task.metric == "roc_auc":
        return Statistic(Ranked.of(true, score).area, len(true))
    edges, others = score[true], score[~true]
    if task.metric.startswith("hits@"):
        k = min(int(task.metric.removeprefix("hits@")), len(others))
        hit = rank_among(edges, others) <= k
        return Statistic(lambda drawn: float((drawn @ hit) / drawn.sum()), len(hit), int(hit.sum()))
    return None
