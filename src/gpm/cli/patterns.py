"""The command `gpm patterns`."""

from __future__ import annotations

from pathlib import Path

from gpm.config import Kind
from gpm.errors import GpmError


def patterns(
    graph: str,
    node: str = "",
    top: int = 10,
    out: Path | None = None,
    topology: Kind = "shape",
    lengths: list[int] = [2, 4, 6, 8],  # noqa: B006 - the command line shows this default
    samples: int = 20_000,
    seed: int = 0,
    p: float = 1.0,
    q: float = 1.0,
    non_backtracking: bool = False,
    directed: bool = False,
) -> None:
    """Show the most frequent patterns of a graph, or around one node, and draw them.

    Args:
        graph: Name of a dataset (karate, cora, ...), graph folder, edge list (.csv, .tsv, .txt) or PyG file (.pt).
        node: Name of the node to start from. Default: start nodes are drawn from the whole graph.
        top: Number of patterns to show.
        out: File to draw them in (.png, .svg, .pdf or .html), or table (.csv).
        topology: What makes two patterns the same: revisits (loops), adjacency in the order of the walk (induced), or
            the shape of the subgraph (shape).
        lengths: Lengths of the walks, in equal numbers.
        samples: Number of walks to draw.
        seed: Seed of the walks; the same seed gives the same counts.
        p: Return parameter of node2vec.
        q: In-out parameter of node2vec.
        non_backtracking: Let walks turn back only at dead ends.
        directed: Read an edge list as directed.
    """
    from gpm.data.graph_files import load_graph
    from gpm.patterns.draw_shapes import check_target, save_frequent
    from gpm.patterns.frequent import find_frequent
    from gpm.patterns.walks import WalkRule

    if out is not None:
        check_target(out, top)
        if out.exists() and Path(graph).exists() and out.samefile(graph):
            raise GpmError(f"{out} is the graph itself; draw to another file.")
    loaded = load_graph(graph, directed=directed)
    print(f"{graph}: {loaded.summary()}")
    frequent = find_frequent(
        loaded, node=node or None, top=top, topology=topology, lengths=lengths, samples=samples, seed=seed,
        rule=WalkRule(p=p, q=q, non_backtracking=non_backtracking),
    )  # fmt: skip
    title = f"{samples:,} patterns {f'around node {node}' if node else 'over the whole graph'}, seed {seed}"
    print(f"{title}; the {len(frequent)} most frequent by {topology}:")
    width = max(len(each.label) for each in frequent)
    for rank, each in enumerate(frequent, 1):
        print(f"{rank:>4}  {each.label:<{width}}  {each.count:>7,}  {each.share:>6.1%}  e.g. {each.path}")
    if out is not None:
        save_frequent(frequent, out, title=f"{graph}: {title}")
        print(f"figure written to {out}")
