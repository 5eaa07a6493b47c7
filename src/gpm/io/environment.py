"""The environment that a figure was made in: versions, devices, kernel and threads."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
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


def find_commit() -> str:
    """Return the last commit that changed the package, and a digest of what has changed since.

    Of a package that is installed without its repository, it is the version.
    """
    from gpm import __version__

    folder = Path(__file__).parents[1]

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout

    try:
        commit, changes = git("log", "-1", "--format=%H", "--", ".").strip()[:12], git("diff", "HEAD", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        commit = ""
    if not commit:
        return f"version {__version__}"
    return f"{commit}+{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else commit


@functools.cache  # each is a file to parse, and every run asks for all
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _read_memory(path: str, name: str) -> int:
    """Return a number of bytes; 0 where the system does not tell."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)


peak_bytes = functools.partial(_read_memory, "/proc/self/status", "VmHWM:")  # of this process so far
private_bytes = functools.partial(
    _read_memory, "/proc/self/status", "RssAnon:"
)  # of this process, without mapped files
available_bytes = functools.partial(_read_memory, "/proc/meminfo", "MemAvailable:")  # of this computer
