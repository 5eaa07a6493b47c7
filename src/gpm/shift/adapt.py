"""Adapt: learn from one graph for the sake of another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpm.data.domain_data import DomainData, load_domains
from gpm.data.node_data import NodeData
from gpm.data.sources import load_task_data
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
        source: A dataset's name, a graph's folder, a PyG file, or in memory a `Graph` or a PyG `Data`, with labels.
        target: Another such; it may be without labels, and is then predicted but not scored.
        method: none, dann, ssreg or dann+ssreg, see `gpm.config.ShiftOptions`.
        options: Those of `gpm.train`.

    Returns:
        The run, or a list of runs where there are several seeds. Nodes of the source are called "0:name" in it, those
        of the target "1:name".
    """
    given = {"adapt": method, **options}
    if isinstance(source, (str, Path)) and isinstance(target, (str, Path)):
        return train(source, target_graph=str(target), **given)
    return train(unite(source, target, options.get("metric", "auto")), **given)


def unite(source: Any, target: Any, metric: str = "auto") -> DomainData:
    """A source and a target side by side, as `adapt` trains on them and `Run.open` takes them.

    Args:
        source: As in `adapt`.
        target: Another such.
        metric: mae or rmse say that labels are numbers, not classes; auto reads it off them.
    """
    data = load_task_data(source, "node", metric=metric)
    if not isinstance(data, NodeData) or isinstance(data, DomainData):
        raise GpmError("a source is a graph whose nodes have labels, and no target among them.")
    return load_domains(data, target, data.metric)
