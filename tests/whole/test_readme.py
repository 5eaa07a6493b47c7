"""README and docs say what is true: their Python runs, their commands exist, their figures are the committed ones."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gpm.cli.main import COMMANDS, main
from gpm.reproduce.records import Job, Records
from gpm.training.recipes import Recipe, find_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
README = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/commands.md"))
SMALL = ["--epochs", "1", "--width", "16"]
QUICK = {
    "report": ["--explain", "1", "--shapes", "4"],
    "train": SMALL,
    "plan": SMALL,
    "tune": [*SMALL, "--trials", "2"],
    "reproduce": ["--budget", "1s"],
}
SMILES = ["C" * n + end for n in range(1, 7) for end in ("", "O", "N", "C(=O)O", "c1ccccc1")]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What writes the tables."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("table")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def _commands() -> list[list[str]]:
    lines = [line for block in _blocks("sh") for line in block.splitlines() if line.startswith("gpm ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for block in _blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "(34,) (34, 4)" in printed
    assert "34 nodes, 78 undirected edges" in printed
    assert "torch.Size([2, 16, 9])" in printed


def _write_files() -> None:
    """What the README's reader has at hand."""
    from gpm import Graph

    _write_tables()
    Path("pairs.csv").write_text("source,target\n0,1\n33,7\n")
    Path("molecules.csv").write_text("smiles,logp\n" + "".join(f"{s},{len(s) / 7}\n" for s in SMILES))
    Path("other.csv").write_text("smiles\nCCO\nnot a molecule\nCCN\n")
    Graph.from_edges([[0, 1], [1, 2]], undirected=True).save("graph")
    rings = [np.array([np.arange(n), np.roll(np.arange(n), 1)]) + 10 * i for i, n in enumerate([4, 5] * 15)]
    pointer = np.arange(0, 310, 10)
    Graph.from_edges(
        np.concatenate(rings, 1), 300, undirected=True, y=np.array([0, 1] * 15), graph_ptr=pointer
    ).save("rings")  # fmt: skip


def _write_tables() -> None:
    """Two teams that mostly know each other, and the same with two more people."""
    names = ["alice", "bob", "carol", "dave", *(f"p{i:02}" for i in range(4, 60))]
    edges = ["source,target,since"]
    for i, name in enumerate(names):
        others = sorted({(i + 2) % 60, (i + 8) % 60, (7 * i + 3) % 60} - {i})
        edges += [f"{name},{names[j]},{2010 + j % 9}-05-{1 + i % 28:02}" for j in others]
    nodes = ["id,age,city,email,label"]
    for i, name in enumerate(names):
        age, label = "" if i % 13 == 5 else str(20 + 7 * i % 40), ("blue", "red")[i % 2] if i < 54 else ""
        nodes.append(f"{name},{age},{('Rome', 'Oslo', 'Lima')[i % 3]},{name}@example.org,{label}")
    Path("edges.csv").write_text("\n".join([*edges, ""]))
    Path("nodes.csv").write_text("\n".join([*nodes, ""]))
    more = ["p60,p04,2020-05-01", "p61,p60,2020-06-01", ""]
    Path("grown-edges.csv").write_text("\n".join([*edges, *more]))
    Path("grown-nodes.csv").write_text("\n".join([*nodes, "p60,33,Oslo,,", "p61,130,Cairo,,", ""]))


def _stand_in(name: str) -> Recipe | None:
    """A small recipe of the same task for any that ships."""
    from gpm.data.catalog import CATALOG

    recipe, quick = find_recipe(name), find_recipe("motifs")
    if recipe is None:
        return None
    assert quick is not None
    known = CATALOG[recipe.config.data].task
    task = known if recipe.config.task == "auto" else recipe.config.task
    links = {"readout": "mean", "topology": "loops", "lengths": [0, 1, 2], "patterns": 6, "pool": 6, "batch": 512}
    options = {"node": {}, "link": links, "graph": {"data": "rings"}}[task]
    config = quick.config.with_(**{"epochs": 1, "task": task, "patterns": 12, "pool": 24} | options)
    return replace(quick, config=config)


@pytest.mark.usefixtures("one_thread")
def test_its_commands_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    from gpm.training import choose
    from gpm.training.estimate import machine_costs as constants

    monkeypatch.chdir(tmp_path)
    _write_files()
    monkeypatch.setattr(choose, "find_recipe", _stand_in)
    monkeypatch.setattr(constants, "measure_constants", lambda threads: constants.Constants(5e8, 1.25, 0.0))
    commands = _commands()
    assert {words[0] for words in commands} == set(COMMANDS)
    for words in commands:
        quick = QUICK.get(words[0], []) if find_recipe(words[1] if words[1:] else "") is None else []
        assert main([*words, *quick]) == 0, capsys.readouterr().err
    said = "\n".join(caplog.messages)
    assert _blocks("text")[0].strip() in said  # what the columns are taken for
    assert "2 of 62 nodes are new" in said
    assert "'Cairo'" in said
    assert Path("predictions.csv").read_text().startswith("node,prediction,label_true,p_blue,p_red\nalice,")
    assert [line.split(",")[0] for line in Path("new.csv").read_text().splitlines()] == ["node", "p60", "p61"]
    assert all(Path(name).is_file() for name in ("embeddings.parquet", "model.pt2", "tuned/recipe.yaml"))
    assert Path("alice.png").is_file()
    assert Path("page.html").is_file()
    assert len(Path("scores.csv").read_text().splitlines()) == 3
    assert Path("classes.csv").read_text().startswith("graph,prediction,label_true,p_0,p_1\n")
    assert [line.split(",")[2] for line in Path("logp.csv").read_text().splitlines()] == ["smiles", "CCO", "CCN"]


def test_its_commands_name_what_there_is() -> None:
    """Nodes, links, graphs and molecules are trained; what is no recipe is a dataset or a file of the reader's."""
    sources = [words[1] for words in _commands() if words[0] == "train"]
    assert {"motifs", "cora-link", "imdb-b", "molecules.csv", "edges.csv"} <= set(sources)
    others = ("karate", "molecules.csv", "edges.csv")
    assert all(find_recipe(source) is not None or source in others for source in sources)


def test_its_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert re.search(rf"^{''.join(target)}:", makefile, flags=re.MULTILINE), (page.name, target)


def test_its_files_and_modules_exist() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for file in re.findall(r"(?:tests|benchmarks|examples)/[a-z_/]+\.py", text):
            assert (ROOT / file).is_file(), (page.name, file)
        for name in re.findall(r"`(gpm\.(?!json)[a-z_.]+)[(`]", text):
            pkgutil.resolve_name(name)


def test_its_pages_exist() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(((?!http)[^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), (page.name, link)


@pytest.mark.parametrize("name", ["walks", "model"])
def test_its_figures_are_the_committed_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module(name)
    result = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    shown = page.split(benchmark.BEGIN)[1].split(benchmark.END)[0].strip()
    assert shown == benchmark.describe(result)


@pytest.mark.parametrize(
    "name",
    [
        "results", "leaks", "explain results", "planted motifs", "deletion", "tables",
        "import", "kills", "fuzz", "roundtrip",
    ],
)  # fmt: skip
def test_its_results_are_the_committed_ones(name: str, table: ModuleType) -> None:
    place = next(place for place in table.PLACES if place.name == name)
    assert place.shown() == place.describe(), "python benchmarks/table.py puts the figures in their place"


def test_a_row_appears_when_its_result_does(table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "ROOT", tmp_path)
    assert table.describe_leaks() == table.NOT_YET
    assert "| Blog |" not in table.describe_recipes()

    def add(job: Job, metric: str, tests: list[float]) -> None:
        for seed, test in enumerate(tests):
            file = Records(tmp_path).folder / replace(job, seed=seed).file
            file.parent.mkdir(parents=True, exist_ok=True)
            record = {"recipe_digest": job.digest, "metric": metric, "test": {metric: test}, "train_seconds": 3.0,
                      "model": job.options.get("model", "gpm"), "seed": seed}  # fmt: skip
            file.write_text(json.dumps(record), encoding="utf-8")

    add(Job("blog"), "accuracy", [0.95, 0.97])
    assert "| Blog | accuracy | 96.00 ± 1.41 (2) | 96.71 ± 0.59 |  | 3 s |" in table.describe_recipes()
    add(Job("blog", {"model": "gcn"}), "accuracy", [0.94, 0.94])
    assert "| GCN 94.00 ± 0.00 (2) | 3 s |" in table.describe_recipes()
    add(Job("blog", {"model": "gat"}), "accuracy", [0.98])
    assert "| GAT 98.00 (1) | 3 s |" in table.describe_recipes()  # of fewer seeds, as it says
    add(Job("cora-link"), "hits@20", [0.75])
    assert "| Cora | Hits@20 | 75.00 (1) | - |" in table.describe_recipes()  # the paper's is of another protocol
    links = next(each for each in table.read_tables() if each.id == "table-2")
    visible = next(row for row in links.ours if row.name == "GPM, paper")
    add(Job.of(links, links.columns[-1], visible), "roc_auc", [0.9, 0.92])
    assert "| `paper` | 91.00 ± 1.41 (2) |" in table.describe_leaks()


def test_figures_of_tables_files_and_trust(table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "ROOT", tmp_path)
    assert table.describe_tables() == table.describe_import() == table.NOT_YET
    assert table.describe_kills() == table.describe_fuzz() == table.describe_roundtrip() == table.NOT_YET
    for folder in ("results/tables", "results/trust", "benchmarks/results"):
        (tmp_path / folder).mkdir(parents=True)
    figure = {"mean": 80.9523, "std": 1.0}
    rows = [
        {"seed": seed, "command": f"gpm train e.csv --seed {seed} --recipe r"}
        | {"tables": {"test": 0.5}, "catalog": it}
        for seed, it in enumerate(({"test": 0.5}, {"test": 0.6}))
    ]
    result = {"dataset": "karate", "metric": "accuracy", "tables": figure, "catalog": figure, "rows": rows}
    (tmp_path / "results/tables/karate.json").write_text(json.dumps(result))
    row = "| karate | accuracy | 80.95 ± 1.00 | 80.95 ± 1.00 | 1 of 2 | `gpm train e.csv --recipe r` |"
    assert row in table.describe_tables()
    importing = {
        "edges": 50_000_000, "nodes": 2_000_000, "file_gb": 0.61, "seconds": {"import": 91.2, "sort": 40.1},
        "ratio": 2.274, "peak_rss_gb": 2.71, "protocol": {"threads": 2, "duckdb_memory_limit": "2GB"}, "date": "today",
    }  # fmt: skip
    (tmp_path / "benchmarks/results/importing.json").write_text(json.dumps(importing))
    assert "50 M edges" in table.describe_import()
    assert "**2.3 times** the 40 s" in table.describe_import()
    assert "**2.7 GB**" in table.describe_import()
    each = {"kills": 10, "aimed_kills": 5, "found_after_the_kill": {"nothing": 9, "scratch": 6}, "faults": ["a"]}
    kills = {"kills": 10, "aimed_kills": 5, "faults": 1, "seed": 0, "date": "2026-01-02", "commands": {"import": each}}
    (tmp_path / "results/trust/kill.json").write_text(json.dumps(kills))
    assert "10 kills at random moments and 5 right before a step that writes: **1 faults**" in table.describe_kills()
    assert "| import | 10 | 5 | nothing (9), scratch (6) | 1 |" in table.describe_kills()
    reader = {"inputs": 7400, "error": 5000, "success": 2400, "slowest_seconds": 2.51}
    fuzz = {
        "inputs": 20_000,
        "failures": [],
        "slowest_seconds": 2.51,
        "peak_growth_mb": 99.6,
        "seed": 0,
        "date": "today",
    }
    (tmp_path / "results/trust/fuzz.json").write_text(json.dumps(fuzz | {"readers": {"importer": reader}}))
    assert "20,000 inputs: **0 failures**; the slowest took 2.5 s, and none more than 100 MB" in table.describe_fuzz()
    assert "| importer | 7,400 | 5,000 | 2,400 | 2.5 s |" in table.describe_fuzz()
    names = {"rows": 10, "seed": 0, "faults": ["x"], "compared": {"a": 10, "b": 20}, "date": "today"}
    (tmp_path / "results/trust/roundtrip.json").write_text(json.dumps(names))
    assert "2 columns of names" in table.describe_roundtrip()
    assert "with 30 entries were compared, **1 of the columns differ**" in table.describe_roundtrip()


@pytest.mark.parametrize("folder", ["node", "link", "graph"])
def test_committed_results_are_of_shipped_recipes(folder: str, table: ModuleType) -> None:
    """The options beside a figure are those that the recipe has now, but for those it names as changed: whoever runs
    it gets that figure. Options that came later have their defaults.
    """
    from gpm import Config
    from gpm.training.recipes import is_comparable

    paths = [path for path in (ROOT / "results" / folder).glob("*.json") if path.name != table.LOG]
    for path in paths:
        result = json.loads(path.read_text(encoding="utf-8"))
        recipe = find_recipe(result["recipe"])
        assert recipe is not None
        shipped, used = recipe.config.to_dict(), Config.from_dict(result["config"]).to_dict()
        found_later = {"seed", "metric", "task"}  # which the data resolves
        differ = {key for key in shipped if shipped[key] != used[key]} - found_later - set(result["changed"])
        assert not differ, path.name
        published = {(recipe.paper_mean, recipe.paper_std)}
        if not is_comparable(Config.from_dict(result["config"]), result["changed"]):
            published.add((None, None))
        assert (result["paper_mean"], result["paper_std"]) in published
        assert {"dataset", "model", "protocol", "seeds", "values", "mean", "std", "wall_s", "versions"} <= set(result)
