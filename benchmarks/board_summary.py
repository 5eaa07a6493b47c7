"""Summaries of the board: ranks and distances of the models, the page and the picture of the docs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpm.tasks.metrics import METRICS

NOT_YET = "No figures are committed yet."
NEAR = 1.0  # points from the best model
SLOW = 120  # seconds of processor time that a run should not take
FARTHEST = 20  # points that the picture shows
TITLES = {"node": "Nodes", "link": "Links", "graph": "Graphs"}
NAMES = {
    "gpm": "GPM", "gcn": "GCN", "gat": "GAT", "sage": "SAGE", "gcnii": "GCNII", "gin": "GIN", "gps": "GPS", "appnp": "APPNP", "mlp": "MLP",
    "linear": "linear", "trees": "trees", "propagation": "propagation", "heuristic": "heuristic",
}  # fmt: skip
# Colours of Okabe and Ito, which the colour-blind can tell apart, and a mark each for those who see none.
STYLES = {
    "gpm": ("#000000", "D"), "gcn": ("#0072B2", "o"), "gat": ("#56B4E9", "s"), "sage": ("#009E73", "^"), "gcnii": ("#E69F00", "v"),
    "gin": ("#E69F00", "v"), "gps": ("#E69F00", "h"), "appnp": ("#E69F00", "h"), "mlp": ("#CC79A7", "P"), "linear": ("#D55E00", "X"),
    "trees": ("#8C6D00", "*"), "propagation": ("#777777", "p"), "heuristic": ("#777777", "p"),
}  # fmt: skip

Record = dict[str, Any]
Summary = dict[str, Any]


def rank(values: Mapping[str, float | None], *, larger: bool = True) -> dict[str, float]:
    """Return the rank of each model, 1 for the best. Ties share the mean rank; those without a value are last."""
    ranks: dict[str, float] = {}

    def is_better(one: float | None, other: float | None) -> bool:
        if one is None or other is None:
            return one is not None and other is None
        return one > other if larger else one < other

    for model, value in values.items():
        ahead = sum(is_better(other, value) for other in values.values())
        level = sum(not is_better(other, value) and not is_better(value, other) for other in values.values())
        ranks[model] = ahead + (level + 1) / 2
    return ranks


def find_losses(values: Mapping[str, float | None], metric: str) -> dict[str, float | None]:
    """Return the distance of each model to the best one in points; an error in units is compared in percent of the best."""
    there = [value for value in values.values() if value is not None]
    if not there:
        return dict.fromkeys(values)
    kind = METRICS[metric]
    best = max(there) if kind.larger else min(there)
    scale = 1.0 if kind.share else 100 / best
    return {model: None if value is None else round(abs(value - best) * scale, 2) for model, value in values.items()}


def summarise_dataset(records: Sequence[Record], models: Iterable[str]) -> Summary:
    """Return mean and standard deviation of every model on one dataset; a model that lacks a seed has none."""
    metric, digits = records[0]["metric"], 2 if METRICS[records[0]["metric"]].share else 4
    seeds = sorted({each["seed"] for each in records})
    _check_splits(records)
    rows: dict[str, Record] = {}
    for model in models:
        mine = {each["seed"]: each for each in records if each["model"] == model}
        done = [each for each in mine.values() if each["status"] == "done" and "test" in each]
        whole = len(done) == len(seeds)
        values = [METRICS[metric].scaled(each["test"]) for each in sorted(done, key=lambda each: each["seed"])]
        reasons = {_why(mine.get(seed)) for seed in seeds} - {""}
        rows[model] = {
            "mean": round(statistics.fmean(values), digits) if whole else None,
            "std": round(statistics.stdev(values), digits) if whole and len(values) > 1 else None,
            "values": values, "missing": ", ".join(sorted(reasons)),
            "cpu": [each["seconds"]["cpu"] for each in mine.values() if "seconds" in each],
        }  # fmt: skip
    means = {model: row["mean"] for model, row in rows.items()}
    ranks, losses = rank(means, larger=METRICS[metric].larger), find_losses(means, metric)
    for model, row in rows.items():
        row |= {"rank": ranks[model], "loss": losses[model]}
    return {"task": records[0]["task"], "metric": metric, "seeds": seeds, "models": rows}


def summarise(records: Sequence[Record], models: Mapping[str, Sequence[str]], order: Sequence[str] = ()) -> Summary:
    """Return the summary of a board: by dataset, and of each model by task.

    Args:
        records: Records of the seeds to report.
        models: Models of each task; a model without a record counts as missing.
        order: Titles of the datasets as they are listed; others come last.
    """
    by_dataset: dict[str, list[Record]] = {}
    for record in records:
        by_dataset.setdefault(record["dataset"], []).append(record)
    titles = [title for title in dict.fromkeys([*order, *sorted(by_dataset)]) if title in by_dataset]
    datasets = {}
    for title in titles:
        mine = by_dataset[title]
        extra = sorted({each["model"] for each in mine} - set(models[mine[0]["task"]]))
        datasets[title] = summarise_dataset(mine, [*models[mine[0]["task"]], *extra])
    tasks = {}
    for task in models:
        rows = {title: row["models"] for title, row in datasets.items() if row["task"] == task}
        if rows:
            tasks[task] = summarise_task(rows)
    facts = {key: sorted({str(each[key]) for each in records}) for key in ("commit", "date")}
    return {"commits": facts["commit"], "dates": facts["date"], "tasks": tasks, "datasets": datasets}


def summarise_task(rows: Mapping[str, Mapping[str, Record]]) -> dict[str, Record]:
    """Return mean rank, wins, worst loss, share near the best, and time of every model over the datasets of a task."""
    models = [model for model in next(iter(rows.values())) if all(model in row for row in rows.values())]
    found = {}
    for model in models:
        mine = {title: row[model] for title, row in rows.items()}
        losses = {title: each["loss"] for title, each in mine.items() if each["loss"] is not None}
        worst = max(losses, key=lambda title: losses[title], default=None)
        found[model] = {
            "mean_rank": round(statistics.fmean(each["rank"] for each in mine.values()), 2),
            "wins": sum(loss == 0 for loss in losses.values()),
            "near": round(sum(loss <= NEAR for loss in losses.values()) / len(mine), 3),
            "mean_loss": round(statistics.fmean(losses.values()), 2) if losses else None,
            "worst_loss": losses[worst] if worst else None, "worst_on": worst,
            "missing": {title: each["missing"] for title, each in mine.items() if each["mean"] is None},
            "cpu_seconds": round(sum(sum(each["cpu"]) for each in mine.values()), 1),
            "slow": {title: round(max(each["cpu"])) for title, each in mine.items() if max(each["cpu"], default=0) > SLOW},
        }  # fmt: skip
    return found


def _check_splits(records: Iterable[Record]) -> None:
    splits: dict[int, set[str]] = {}
    for each in (each for each in records if each["status"] == "done"):
        splits.setdefault(each["seed"], set()).add(each["split"])
        if len(splits[each["seed"]]) > 1:
            raise ValueError(
                f"{each['dataset']}, seed {each['seed']}: the models have different splits; run them again."
            )


def _why(record: Record | None) -> str:
    """Return why a model has no figure for a seed; empty if it has one."""
    if record is None:
        return "not run"
    return (
        ""
        if record["status"] == "done" and "test" in record
        else "hidden"
        if record["status"] == "done"
        else record["status"]
    )


def describe(summary: Summary, remark: str = "") -> str:
    """Return the page of the docs; a remark is about seeds."""
    head = [
        "# The board",
        "",
        "How good are the defaults? Plain `gpm train DATA`, with every option left open and no recipe, beside other models on many datasets. The other networks",
        "have the options that `--model` gives them ([Baselines](baselines.md)); none is tuned for a dataset. `linear`, `trees` and `propagation` are the",
        "simple baselines of `gpm train --baselines`; `heuristic` is the best of common neighbours, Adamic-Adar and preferential attachment by validation.",
        "",
        "All models have the same splits, drawn by the seed: nodes 60/20/20, graphs 80/10/10, links 80/5/15 under the protocol `strict` (USAir, Yeast, NS",
        "85/5/10). Each run has one thread. The defaults were chosen by validation on seeds from 100 on, whose test splits were not read.",
        "",
    ]
    if not summary["datasets"]:
        return "\n".join([*head, NOT_YET, ""])
    head += [
        f"Test split, mean ± standard deviation over seeds {_seeds(summary['datasets'])} (`results/board`, `make bench-board`; {_range(summary['dates'])},",
        f"{_commits(summary['commits'])}). Points are percent of accuracy, ROC-AUC or Hits@20; an RMSE is compared in percent of the best one. Ranks: 1 is the best of the task's",
        f"models, ties share the mean rank, and a model without a figure is last. {remark}".rstrip(),
        "",
        "![Distance of every model to the best one, by dataset](board.svg)",
        "",
    ]
    for task, models in summary["tasks"].items():
        rows = {title: row for title, row in summary["datasets"].items() if row["task"] == task}
        head += [
            f"## {TITLES[task]}",
            "",
            *_describe_models(models, len(rows)),
            "",
            *_describe_datasets(rows, list(models)),
            "",
        ]
        head += [*_describe_gaps(models), ""]
    return "\n".join(head)


def describe_short(summary: Summary) -> str:
    """Return the paragraph of the README: a line per task."""
    lines = [
        "Plain `gpm train DATA`, with every option left open and no recipe, beside networks, boosted trees, a linear model and label propagation, all on the same",
        "splits, three seeds each ([the board](docs/board.md); `make bench-board`, `results/board/summary.json`):",
        "",
        "| task | datasets | mean rank of GPM | best other | within 1 point of the best | worst loss | processor time, GPM and best other |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, models in summary["tasks"].items():
        count = sum(row["task"] == task for row in summary["datasets"].values())
        own, others = models["gpm"], {name: row for name, row in models.items() if name != "gpm"}
        name = min(others, key=lambda name: others[name]["mean_rank"])
        other = others[name]
        lines.append(
            f"| {TITLES[task].lower()} | {count} | {own['mean_rank']:.2f} of {len(models)} | {_name(name)} {other['mean_rank']:.2f} | "
            f"{own['near']:.0%} ({_name(name)} {other['near']:.0%}) | {_worst(own, summary)} | "
            f"{own['cpu_seconds'] / 60:.0f} min, {other['cpu_seconds'] / 60:.0f} min |"
        )
    return "\n".join(lines)


def _worst(row: Record, summary: Summary) -> str:
    """Return the worst loss of a model with its unit and dataset."""
    if row["worst_loss"] is None:
        return ""
    share = METRICS[summary["datasets"][row["worst_on"]]["metric"]].share
    return f"{row['worst_loss']:.1f}{' points' if share else '%'} ({row['worst_on']})"


def _describe_models(models: Mapping[str, Record], count: int) -> list[str]:
    lines = [
        f"| model | mean rank | best on | within {NEAR:g} point of the best | mean loss | worst loss | no figure | processor time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model, row in sorted(models.items(), key=lambda item: item[1]["mean_rank"]):
        worst = "" if row["worst_loss"] is None else f"{row['worst_loss']:.1f} ({row['worst_on']})"
        mean = "" if row["mean_loss"] is None else f"{row['mean_loss']:.1f}"
        lines.append(
            f"| {_name(model)} | {row['mean_rank']:.2f} | {row['wins']} of {count} | {row['near']:.0%} | {mean} | {worst} | "
            f"{len(row['missing']) or ''} | {row['cpu_seconds'] / 60:.1f} min |"
        )
    return lines


def _describe_datasets(rows: Mapping[str, Record], models: Sequence[str]) -> list[str]:
    lines = [f"| dataset | {' | '.join(map(_name, models))} |", f"|---|{'---|' * len(models)}"]
    for title, row in rows.items():
        kind = METRICS[row["metric"]]
        shown = title if row["metric"] == "accuracy" else f"{title} ({kind.title})"
        lines.append(f"| {shown} | {' | '.join(_cell(row['models'][model], kind.share) for model in models)} |")
    return lines


def _cell(row: Record, share: bool) -> str:
    if row["mean"] is None:
        return row["missing"]
    digits = 1 if share else 3
    spread = "" if row["std"] is None else f" ± {row['std']:.{digits}f}"
    return f"**{row['mean']:.{digits}f}**{spread}" if row["loss"] == 0 else f"{row['mean']:.{digits}f}{spread}"


def _describe_gaps(models: Mapping[str, Record]) -> list[str]:
    """Return sentences about missing figures and slow runs."""
    lines = []
    if gaps := [
        f"{_name(model)} on {title} ({why})" for model, row in models.items() for title, why in row["missing"].items()
    ]:
        lines.append(f"Without a figure, and therefore last: {', '.join(gaps)}.")
    slow = {_name(model): [f"{title} {most} s" for title, most in row["slow"].items()] for model, row in models.items()}
    if told := [f"{model} ({', '.join(each)})" for model, each in slow.items() if each]:
        lines += [
            *[""] * bool(lines),
            f"Runs of more than {SLOW} s of processor time, the longest of each: {'; '.join(told)}.",
        ]
    return lines


def _seeds(datasets: Mapping[str, Record]) -> str:
    """Return the seeds of most datasets, and those of the others with their names."""
    each = {title: ", ".join(map(str, row["seeds"])) for title, row in datasets.items()}
    usual = statistics.mode(each.values())
    odd = [f"; {title} {seeds}" for title, seeds in each.items() if seeds != usual]
    return usual + "".join(odd)


def _name(model: str) -> str:
    return NAMES.get(model, model)


def _range(dates: Sequence[str]) -> str:
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _commits(commits: Sequence[str]) -> str:
    return f"commit {commits[0]}" if len(commits) == 1 else f"commits {', '.join(commits)}"


def draw(summary: Summary, out: Path) -> None:
    """Draw the distance of every model to the best one, a line per dataset."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = [
        (title, row) for task in summary["tasks"] for title, row in summary["datasets"].items() if row["task"] == task
    ]
    breaks = len(summary["tasks"]) - 1
    with mpl.rc_context({"svg.hashsalt": "gpm", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(9, 1.7 + 0.27 * (len(rows) + breaks)), layout="constrained")
        axes, ticks, y, before = figure.subplots(), [], 0.0, ""
        for title, row in rows:
            if before and row["task"] != before:
                axes.axhline(y, color="#BBBBBB", linewidth=0.8)
                y += 1
            before = row["task"]
            _draw_row(axes, y, row["models"])
            ticks.append((y, title))
            y += 1
        axes.set_yticks(*zip(*ticks, strict=True))
        axes.set_ylim(y - 0.3, -0.7)
        axes.set_xscale("symlog", linthresh=1, linscale=0.7)
        axes.set_xlim(-0.12, FARTHEST * 2)
        axes.set_xticks(
            [0, 0.5, 1, 2, 5, 10, FARTHEST, FARTHEST * 1.7], ["0", "0.5", "1", "2", "5", "10", f"≥ {FARTHEST}", "none"]
        )
        axes.minorticks_off()
        axes.axvspan(-0.12, NEAR, color="#F0F0F0", zorder=0)
        axes.grid(axis="y", color="#E4E4E4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel(f"points behind the best model (grey: within {NEAR:g} point; none: no figure)")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        there = [model for model in STYLES if any(model in row["models"] for _, row in rows)]
        marks = [
            Line2D([], [], linestyle="", label=_label(model, there), **_style(model))
            for model in there
            if _is_first(model, there)
        ]
        figure.legend(
            handles=marks, loc="outside upper center", ncols=min(6, len(marks)), frameon=False, handletextpad=0.2
        )
        figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None, dpi=150)


def _draw_row(axes: Any, y: float, models: Mapping[str, Record]) -> None:
    """Draw a dataset: GPM above the others, equal distances side by side."""
    for model in reversed([model for model in STYLES if model in models]):
        loss = models[model]["loss"]
        x = FARTHEST * 1.7 if loss is None else min(loss, FARTHEST)
        axes.plot(x, y, linestyle="", zorder=4 if model == "gpm" else 3, clip_on=False, **_style(model))


def _style(model: str) -> dict[str, Any]:
    colour, mark = STYLES[model]
    if model == "gpm":
        return {"marker": mark, "color": colour, "markersize": 8, "markeredgecolor": "white", "markeredgewidth": 0.8}
    return {
        "marker": mark,
        "color": colour,
        "markersize": 7,
        "alpha": 0.8,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
    }


def _is_first(model: str, there: Sequence[str]) -> bool:
    """Models that no task shares may have one mark: the first of them is in the legend for all."""
    return next(other for other in there if STYLES[other] == STYLES[model]) == model


def _label(model: str, there: Sequence[str]) -> str:
    return " / ".join(_name(other) for other in there if STYLES[other] == STYLES[model])
