"""Packages import only from lower layers, and no module imports itself through others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

grimp = pytest.importorskip("grimp")
ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("gpm", cache_dir=None)
    edges = nx.DiGraph(
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if imported != "gpm"  # the version, see pyproject.toml
    )
    cycles = [sorted(component) for component in nx.strongly_connected_components(edges) if len(component) > 1]
    assert cycles == []


@pytest.mark.parametrize(
    ("planted", "broken"),
    [("", ""), ("from gpm.cli import main", "gpm.io is not allowed to import gpm.cli"),
     ("def later():\n    from gpm.run.run import Run", "gpm.io is not allowed to import gpm.run")],
)  # fmt: skip
def test_the_contract_finds_a_planted_import_of_a_higher_layer(planted: str, broken: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "gpm", tmp_path / "gpm", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "gpm" / "io" / "atomic.py").open("a", encoding="utf-8") as file:
        file.write(f"\n{planted}\n")
    command = [str(LINT), "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode == 0) == (not planted), done.stdout
    assert broken in done.stdout
