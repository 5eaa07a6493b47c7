"""Graph learning without message passing: the Neural Graph Pattern Machine.

The public names are those of the stub `__init__.pyi`, which type checkers read. Each is imported when it is first used:
`import gpm` loads neither torch nor NumPy.
"""

import ast
import importlib
import os
import sys
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# Threads of OpenMP that wait for work keep a core busy for milliseconds, which other threads and processes then lack.
# GNU OpenMP reads this when torch loads it; with torch loaded already, it is too late.
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

_MODULES = {
    alias.name: statement.module or ""
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'gpm' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
