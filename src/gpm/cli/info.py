"""What gpm runs on: versions, devices, kernel, threads, folders."""

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
    """Versions, devices, kernel, threads and data root, as plain values (they are stored beside every figure)."""
    import numba
    import torch

    from gpm import __version__
    from gpm.compute import count_threads
    from gpm.io.cache import data_root

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
        "data_root": str(data_root()),
        "raw_files": os.environ.get("GPM_RAW"),
    }


@functools.cache  # each is a file to parse, and every run asks for all
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def info() -> None:
    """Print versions, devices, kernel, threads and the data root."""
    for key, value in describe_environment().items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {count}" for name, count in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        print(f"{key.replace('_', ' '):<10} {value if value is not None else '-'}")
