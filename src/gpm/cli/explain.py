"""The command `gpm explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from gpm.cli.run_folder import open_run, writable
from gpm.config import ComputeOptions, accepts
from gpm.errors import GpmError
from gpm.explain.explanation import Method


@accepts(ComputeOptions)
def explain_run(
    run: Path,
    node: list[str] = [],  # noqa: B006 - the command line shows this default
    link: list[str] = [],  # noqa: B006
    graph: list[str] = [],  # noqa: B006
    all: bool = False,  # noqa: A002
    top: int = 10,
    out: Path | None = None,
    method: Method = "auto",
    target: str = "",
    draws: int = 5,
    room: int = 60,
    part: Literal["train", "val", "test"] = "test",
    most: int = 500,
    on: list[str] = [],  # noqa: B006
    **options: Any,
) -> None:
    """Find the patterns that a prediction rests on, check how reliable that is, and write a page.

    Args:
        run: Run folder.
        node: Name of the node to explain. Several are compared on one page.
        link: The two endpoints of a link. Several links are several pairs.
        graph: Id of the graph to explain. Several are compared on one page.
        all: Instead, find the shapes that carry the predictions of a whole split, by class, compared with chance.
        top: Patterns to show; with --all, shapes per class.
        out: Folder to write to. Default: a folder in the run folder.
        method: How patterns are scored: banzhaf (what a pattern adds to random halves of the others; this is auto),
            left-out, gradient, or attention (of the class token).
        target: Class to explain. Default: the predicted one.
        draws: Redraws of all patterns, to estimate the spread of the scores.
        room: Nodes to draw. Neighbours are added to those of the patterns up to this number.
        part: With --all, the split.
        most: With --all, the maximum number of instances.
        on: Other data than the run was trained on: a graph folder; the tables of edges, nodes and graphs, in this
            order; or another table of molecules.
    """
    from gpm.explain.by_class import survey
    from gpm.explain.explainer import find_instance
    from gpm.explain.write import file_name, save_explanations, save_overview, tell, tell_overview

    if sum(map(bool, (node, link, graph, all))) != 1:
        raise GpmError("Say what to explain by one of --node NAME, --link A B, --graph ID and --all.")
    if len(link) % 2:
        raise GpmError(f"A link has two endpoints, but --link names {len(link)} node(s); give pairs, as in --link A B.")
    if out is not None and out.exists() and not out.is_dir():
        raise GpmError(f"{out} is a file; name a folder to write to.")
    opened = open_run(run, on, **options)
    for flag, value, of in (("--node", node, "node"), ("--link", link, "link"), ("--graph", graph, "graph")):
        if value and opened.data.level != of:
            raise GpmError(f"{run} predicts {opened.data.level}s, not {of}s; use --{opened.data.level} for {flag}.")
    names: list[Any] = list(zip(link[::2], link[1::2], strict=True)) if link else node or graph
    for name in names:  # before any is explained
        find_instance(opened, name)
    called = " ".join([opened.data.level, *node, *link, *graph]) if names else f"all {part}"
    if out is None and (run / "explain").is_symlink():
        raise GpmError(f"{run / 'explain'} is a symbolic link, which is not followed; name a folder with -o.")
    with writable(out or run / "explain" / file_name(called)) as folder:
        if all:
            overview = survey(opened, part=part, most=most, top=top, method=method, progress=True)
            print("\n".join(tell_overview(overview)))
            path = save_overview(overview, folder)
            print(f"{'figure' if overview.shares else 'table'} written to {path}")
            return
        explanations = []
        for name in names:
            explanations.append(opened.explain(name, top=top, method=method, target=target, draws=draws, room=room))
            print("\n".join(tell(explanations[-1])))
        print(
            f"page written to {save_explanations(explanations, folder)}; table, figures and JSON are in the same folder"
        )
