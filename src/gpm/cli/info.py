"""The command `gpm info`."""

from __future__ import annotations

import os


def info() -> None:
    """Print versions, devices, kernel, threads and the data root."""
    from gpm.compute import describe_environment
    from gpm.data.catalog import data_root

    folders = {"data_root": str(data_root()), "raw_files": os.environ.get("GPM_RAW")}
    for key, value in (describe_environment() | folders).items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {count}" for name, count in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        print(f"{key.replace('_', ' '):<10} {value if value is not None else '-'}")
