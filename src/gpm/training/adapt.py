"""Train on one graph so that the model can be used on another: `gpm.adapt` and `gpm.unite`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpm.data.domain_data import DomainData
from gpm.data.node_data import NodeData
from gpm.data.sources import load_domains, load_task_data
from gpm.errors import GpmError
from gpm.training.start import train

if TYPE_CHECKING:
    from gpm.run.run import Run


def adapt(
    source: Any, target: Any, *, method: Literal["none", "dann", "ssreg", "dann+ssreg"] = "dann", **options: Any
) -> Run | list[Run]:
    """Train on the labels of a source so that the model can be used on a target, whose labels no training reads.

    The same as `train(source, target_graph=target, adapt=method, ...)`, for graphs in memory too.

    Args:
        source: Name of a dataset, graph folder, PyG file, or in memory a `Graph` or a PyG `Data`, with labels.
        target: Another graph of these kinds; without labels it is predicted but not scored.
        method: none, dann, ssreg or dann+ssreg, see `gpm.config.ShiftOptions`.
        options: Arguments of `gpm.train`.

    Returns:
        The run, or a list of runs for several seeds. Nodes of the source are named "0:name" in it, those of the target
        "1:name".
    """
    options = {"adapt": method, **options}
    if isinstance(source, (str, Path)) and isinstance(target, (str, Path)):
        return train(source, target_graph=str(target), **options)
    return train(unite(source, target, options.get("metric", "auto")), **options)


def unite(source: Any, target: Any, metric: str = "auto") -> DomainData:
    """Put a source and a target side by side, as `adapt` trains on them and `Run.open` takes them.

    Args:
        source, target: Graphs, as in `adapt`.
        metric: mae or rmse for labels that are numbers, not classes; auto infers it from the labels.
    """
    data = load_task_data(source, "node", metric=metric)
    if not isinstance(data, NodeData) or isinstance(data, DomainData):
        raise GpmError("A source is a graph whose nodes have labels; it must not contain a target already.")
    return load_domains(data, target)
