"""The command `gpm evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from gpm.cli.run_folder import name_instances, open_run
from gpm.config import ComputeOptions, accepts


@accepts(ComputeOptions)
def evaluate_run(
    run: Path,
    part: Literal["train", "val", "test"] = "test",
    patterns: int = 0,
    out: Path | None = None,
    **options: Any,
) -> None:
    """Score a trained model again, on a split of its data.

    Args:
        run: Run folder.
        part: Split to score on.
        patterns: Patterns per instance. 0 takes the whole pool.
        out: Also write the scores to this JSON file.
    """
    from gpm.data.splits import LinkSplit
    from gpm.io.atomic import write_json
    from gpm.tasks.metrics import show_scores

    opened = open_run(run, **options)
    scores = opened.evaluate(part, patterns=patterns or None, progress=True)
    used = patterns or opened.config.pool
    each = f", {used} patterns each" if opened.config.model == "gpm" else ""
    print(f"{opened.data.title}, {part}: {show_scores(scores)}")
    count = f"{len(getattr(opened.split, part)):,} {name_instances(opened)}s"
    if isinstance(opened.split, LinkSplit):
        edges, negatives = opened.split.edges_of(part), opened.split.negatives_of(part)
        count = f"{len(edges):,} edges and {len(negatives):,} non-edges"
    print(f"{count}{each}, split {opened.split.name} ({opened.split.digest}), seed {opened.config.seed}")
    if out is not None:
        about = {"run": str(run), "part": part, "patterns": used}
        about |= {"split": opened.split.name, "digest": opened.split.digest}
        write_json(out, about | {"scores": scores})
