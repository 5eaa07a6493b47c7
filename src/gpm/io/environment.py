"""The environment that a figure was made in: versions, devices, kernel and threads."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from typing import Any

PACKAGES = (
    "numpy", "scipy", "numba", "torch", "torch_geometric", "lightning", "torchmetrics", "safetensors", "networkx",
    "pandas", "duckdb", "matplotlib", "jsonargparse",
)  # fmt: skip


def describe_environment() -> dict[str, Any]:
    """Return versions, devices, kernel and threads as plain values, which are stored beside every figure."""
    import numba
    import torch

    from gpm import __version__
    from gpm.compute import count_threads

    devices = ["cpu"] + [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return {
        "gpm": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "devices": devices,
        "kernel": f"numba {numba.__version__} on {numba.config.CPU_NAME or 'the host CPU'}, torch elsewhere",
        "threads": {"cores": os.cpu_count(), "numba": count_threads(), "torch": torch.get_num_threads()},
    }


@functools.cache  # each is a file to parse, and every run asks for all
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
