"""The command `gpm train`."""

from __future__ import annotations

from typing import Any

from gpm.config import ComputeOptions, Config, OutputOptions, RankOptions, TableOptions, accepts


@accepts(OutputOptions, TableOptions, ComputeOptions, RankOptions, Config, without=["data"])
def train_run(source: str = "", *, recipe: str = "", **options: Any) -> None:
    """Train a model on nodes, links or graphs, score it and save everything in a run folder.

    Args:
        source: Name of a recipe (gpm recipes) or its YAML file, name of a dataset (gpm data), graph folder (gpm
            import), PyG file (.pt), table of edges (.csv, .tsv, .txt, .parquet, .jsonl), network file (.graphml, .gexf,
            .gml, .json), folder with one such file per graph, or table of molecules with --smiles and --target.
        recipe: Start from the options of this recipe, where the source is data of your own.
    """
    from gpm.training import start

    start.train(source, recipe=recipe, **options)
