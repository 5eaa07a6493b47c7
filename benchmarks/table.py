"""Put the committed results, `results/<table>/*.json` and some of `benchmarks/results`, into the README and the docs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gpm.reproduce.measures import measure
from gpm.reproduce.pages import find_cells, show_cell, show_records
from gpm.reproduce.paper_tables import Ours, read_tables
from gpm.reproduce.records import Records
from gpm.tasks.metrics import METRICS

ROOT = Path(__file__).parents[1]
NOT_YET = "No figures are committed yet."

Result = dict[str, Any]


class Place(NamedTuple):
    """Where figures stand: a file, the name of the two marks in it, and what writes them."""

    file: str
    name: str
    describe: Callable[[], str]

    @property
    def marks(self) -> tuple[str, str]:
        return f"<!-- figures of {self.name} -->", f"<!-- end of {self.name} -->"

    def shown(self) -> str:
        """What stands there now."""
        begin, end = self.marks
        return (ROOT / self.file).read_text(encoding="utf-8").split(begin)[1].split(end)[0].strip()

    def update(self) -> None:
        """Put what should stand there."""
        (begin, end), path = self.marks, ROOT / self.file
        before, rest = path.read_text(encoding="utf-8").split(begin)
        path.write_text(f"{before}{begin}\n{self.describe()}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def describe_recipes() -> str:
    """Return the paper's datasets beside its figures and the best network here, as the README shows them."""
    records, lines = Records(ROOT), []
    for table in (table for table in read_tables() if table.id in ("table-1", "table-2", "table-3")):
        cells, paper = find_cells(table, records), table.published("GPM")
        assert paper is not None
        for column, published in zip(table.columns, paper.cells, strict=True):
            if column.recipe != "random" and (found := cells[table.ours[0].name, column.title]):
                networks = [cells[row.name, column.title] for row in table.ours if _is_rival(row)]
                lines.append(
                    _describe_recipe(column.title, found, networks, published if table.ours[0].beside else None)
                )
    return "\n".join(
        [
            "Test split, mean ± standard deviation over seeds (their number in brackets). Nothing was tuned on these seeds but four",
            "options of Computers and the encoders of ZINC; the networks have one configuration for all graphs.",
            "",
            "| dataset | metric | gpm | the paper | best network here | training, per seed |",
            "|---|---|---|---|---|---|",
            *lines,
        ]
    )


def _is_rival(row: Ours) -> bool:
    return row.model != "gpm" and "protocol" not in row.options


def _describe_recipe(title: str, found: list[Result], networks: list[list[Result]], published: Any) -> str:
    metric = METRICS[found[0]["metric"]]
    rivals = [(statistics.fmean(measure(each, "test")), each) for each in networks if each]
    best = (max if metric.larger else min)(rivals, key=lambda rival: rival[0], default=None)
    other = "" if best is None else f"{best[1][0]['model'].upper()} {show_records(best[1], 'test')}"
    seconds = statistics.fmean(record["train_seconds"] for record in found)
    paper = "-" if published is None else show_cell(published)
    return f"| {title} | {metric.title} | {show_records(found, 'test')} | {paper} | {other} | {seconds:.0f} s |"


def describe_leaks() -> str:
    """Return what each protocol finds where there is nothing to find, as the docs show it."""
    table = next(table for table in read_tables() if table.id == "table-2")
    cells = find_cells(table, Records(ROOT))
    rows = [
        f"| `{name}` | {show_records(found, 'test')} |"
        for name in ("strict", "paper")
        if (found := cells[f"GPM, {name}", "Random graph"])
    ]
    return "\n".join(["| protocol | test ROC-AUC, percent (seeds) |", "|---|---|", *rows]) if rows else NOT_YET


def describe_truth() -> str:
    """How well explanations find planted motifs, as the docs show it."""
    path = ROOT / "results/explain/truth.json"
    return show_truth(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else NOT_YET


def show_truth(result: Result) -> str:
    """The table of `benchmarks/explain.py truth`."""
    motifs = list(result["nodes"])
    lines = [
        f"| model | explained by | {' | '.join(motifs)} | test accuracy | per node |",
        f"|---|---|{'---|' * len(motifs)}---|---|",
    ]
    for row in result["rows"]:
        figures = " | ".join(f"{row['mean'][motif]:.3f} ± {row['std'][motif]:.3f}" for motif in motifs)
        reached = [value for values in result["accuracy"].get(row["model"], {}).values() for value in values]
        accuracy = f"{100 * statistics.fmean(reached):.1f} %" if reached else ""
        method = f"**{row['method']}**" if row["default"] else row["method"]
        lines.append(f"| {row['model']} | {method} | {figures} | {accuracy} | {row['seconds']:.2g} s |")
    return "\n".join(lines)


def describe_deletion() -> str:
    """By how much predictions fall without the best patterns, as the docs show it."""
    path = ROOT / "results/explain/deletion.json"
    return show_deletion(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else NOT_YET


def show_deletion(result: Result) -> str:
    """The table of `benchmarks/explain.py deletion`."""
    lines = [
        "| data | readout | scored by | a tenth of the | best | random | times as much | node by node | log-odds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in (row for row in result["rows"] if row["default"] or row["by"] == "patterns"):
        method = f"**{row['method']}**" if row["default"] else row["method"]
        ratios = " | ".join(_times(row[name]) for name in ("ratio", "node_ratio", "odds_ratio"))
        lines.append(
            f"| {row['data']} | {row['readout']} | {method} | {row['by']} | {_drop(row['drop'], row['quartiles'])}"
            f" | {_drop(row['random_drop'], row['random_quartiles'])} | {ratios} |"
        )
    return "\n".join(lines)


def describe_explained() -> str:
    """How far explanations can be trusted, in two sentences, as the docs show it."""
    paths = [ROOT / "results/explain" / f"{name}.json" for name in ("truth", "deletion")]
    if not all(path.is_file() for path in paths):
        return NOT_YET
    truth, deletion = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    best: dict[str, float] = {}
    for row in truth["rows"]:
        best[row["method"]] = max(best.get(row["method"], 0.0), row["mean"]["all"])
    ours = next(row["mean"]["all"] for row in truth["rows"] if row["model"] == "GPM" and row["default"])
    falls = [row for row in deletion["rows"] if row["default"] and row["by"] == "patterns"]
    times = ", ".join(f"{_times(row['ratio'])} times on {row['data']}" for row in falls)
    seeds = ", ".join(map(str, truth["seeds"]))
    return "\n".join(
        [
            f"The best {truth['top']} patterns find planted motifs (houses, six-cycles, grids; mean over seeds {seeds}) with an edge-level ROC-AUC of",
            f"**{ours:.3f}** (GNNExplainer on a GCN {best['GNNExplainer']:.3f}, AttentionExplainer on a GAT {best['AttentionExplainer']:.3f}, the nearest edges",
            f"without any model {best['nearest first']:.3f}). Removing the best tenth of the patterns lowers the probability of the predicted class more",
            f"than removing random walks of the same lengths: {times} (medians over 100 test nodes;",
            "`results/explain`; see [Explanations](explain.md)).",
        ]
    )


def describe_tables() -> str:
    """Datasets as plain tables beside the same ones by name, as the docs show it."""
    paths = sorted((ROOT / "results/tables").glob("*.json"))
    if not paths:
        return NOT_YET
    lines = [
        "Known datasets, written as plain CSV files with a split column by `examples/to_csv.py` and trained by the command that it prints,",
        "compared with the same options and seeds on the named dataset. Test split, percent, mean ± standard deviation over seeds",
        "(`results/tables`, `python benchmarks/tables.py`). For MUTAG the figures are close but not equal: atoms and bonds read from SMILES have other",
        "features than the dataset, and two of its 188 molecules are not valid SMILES and are left out.",
        "",
        "| dataset | metric | as tables | by name | seeds with the same figure | trained by |",
        "|---|---|---|---|---|---|",
    ]
    for result in (json.loads(path.read_text(encoding="utf-8")) for path in paths):
        rows = result["rows"]
        same = sum(row["tables"]["test"] == row["catalog"]["test"] for row in rows)
        line = rows[0]["command"].removesuffix(f" --seed {rows[0]['seed']}").replace(f" --seed {rows[0]['seed']} ", " ")
        lines.append(
            f"| {result['dataset']} | {METRICS[result['metric']].title} | {_plus_minus(result['tables'])}"
            f" | {_plus_minus(result['catalog'])} | {same} of {len(rows)} | `{line}` |"
        )
    return "\n".join(lines)


def describe_import() -> str:
    """What the import of a large file takes, as the docs show it."""
    path = ROOT / "benchmarks/results/importing.json"
    if not path.is_file():
        return NOT_YET
    result = json.loads(path.read_text(encoding="utf-8"))
    seconds, protocol = result["seconds"], result["protocol"]
    return "\n".join(
        [
            f"A Parquet file of {result['edges'] / 1e6:,.0f} M edges between {result['nodes'] / 1e6:,.1f} M nodes with text ids ({result['file_gb']:.1f} GB) is imported in",
            f"{seconds['import']:.0f} s: **{result['ratio']:.1f} times** the {seconds['sort']:.0f} s that DuckDB alone takes to sort the same file by both columns, measured in turn,",
            f"with {protocol['threads']} threads and `--memory {protocol['duckdb_memory_limit']}`. The process never uses more than **{result['peak_rss_gb']:.1f} GB** of memory",
            f"(`benchmarks/importing.py`, `benchmarks/results/importing.json`, {result['date']}).",
        ]
    )


def describe_kills() -> str:
    """What SIGKILL left behind, as the docs show it."""
    path = ROOT / "results/trust/kill.json"
    if not path.is_file():
        return NOT_YET
    result = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        f"{result['kills']} kills at random moments and {result['aimed_kills']} right before a step that writes: **{result['faults']} faults**"
        f" ({result['date']}, seed {result['seed']}).",
        "",
        "| command | killed at random | before a write | found afterwards | faults |",
        "|---|---|---|---|---|",
    ]
    for name, each in result["commands"].items():
        found = ", ".join(f"{state} ({count})" for state, count in each["found_after_the_kill"].items())
        lines.append(f"| {name} | {each['kills']} | {each['aimed_kills']} | {found} | {len(each['faults'])} |")
    return "\n".join(lines)


def describe_fuzz() -> str:
    """What broken and hostile inputs came to, as the docs show it."""
    path = ROOT / "results/trust/fuzz.json"
    if not path.is_file():
        return NOT_YET
    result = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        f"{result['inputs']:,} inputs: **{len(result['failures'])} failures**; the slowest took {result['slowest_seconds']:.1f} s, and none more than"
        f" {result['peak_growth_mb']:.0f} MB ({result['date']}, seed {result['seed']}).",
        "",
        "| reader | inputs | refused with a sentence | read, and right | slowest |",
        "|---|---|---|---|---|",
    ]
    for name, each in result["readers"].items():
        counts = " | ".join(f"{each.get(key, 0):,}" for key in ("inputs", "error", "success"))
        lines.append(f"| {name} | {counts} | {each['slowest_seconds']:.1f} s |")
    return "\n".join(lines)


def describe_roundtrip() -> str:
    """What became of a million odd names, as the docs show it."""
    path = ROOT / "results/trust/roundtrip.json"
    if not path.is_file():
        return NOT_YET
    result = json.loads(path.read_text(encoding="utf-8"))
    return (
        f"{result['rows']:,} rows: {len(result['compared'])} columns of names, ends of edges, weights, values, predictions and embeddings with"
        f" {sum(result['compared'].values()):,} entries were compared, **{len(result['faults'])} of the columns differ**"
        f" ({result['date']}, seed {result['seed']})."
    )


def read_scale() -> Result:
    """The raw measurements of `benchmarks/scale.py` and `planned.py`, by what was measured."""
    paths = sorted((ROOT / "results" / "scale").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def describe_scale() -> str:
    """What scale costs, in a few sentences, as the docs show it."""
    found = read_scale()
    if not {"products", "steps", "ranks"} <= set(found):
        return NOT_YET
    products, steps, ranks = found["products"], found["steps"], found["ranks"]
    rows = steps["rows"]
    return "\n".join([
        "A synthetic graph of the size of ogbn-products (2,449,029 nodes, 123,718,024 directed edges, 100 features, 47 classes) is generated,",
        f"imported, used for {products['steps']} training steps and scored on all 2.2 million test nodes within **{products['peak_gb']:.1f} GB** of resident memory, mapped",
        f"pages included (test accuracy {products['test']['accuracy']:.1%}; a network on features alone {products['features_alone']:.1%}). A training step costs",
        f"**{steps['growth']:.2f} times** as much on {rows[-1]['nodes']:,} nodes as on {rows[0]['nodes']:,}. Two ranks of one thread are **{ranks['speedup']:.2f} times** as fast as one, with the",
        f"same training curve (largest difference {ranks['largest_difference_of_curves']:.1e}); {ranks['communicating_share']:.1%} of their time is communication. Measured on two shared cores without",
        "a GPU (`results/scale`; see [Scale](scale.md)).",
    ])  # fmt: skip


def describe_scale_tables() -> str:
    """The same in tables, as the docs show it."""
    found = read_scale()
    if not {"products", "steps", "ranks", "walks", "sizes"} <= set(found):
        return NOT_YET
    products, steps, ranks, walks = (found[name] for name in ("products", "steps", "ranks", "walks"))
    lines = [
        f"On two shared cores without a GPU ({products['measured']['date']}). {products['what'][0].upper()}{products['what'][1:]}:",
        "",
    ]
    lines += ["| stage | seconds | peak resident memory |", "|---|---|---|"]
    lines += [
        f"| {name} | {stage['seconds']:,.0f} | {stage['peak_gb']:.2f} GB |"
        for name, stage in products["stages"].items()
    ]
    lines += [
        "",
        f"Test accuracy after {products['steps']} steps of {products['batch']} nodes: {products['test']['accuracy']:.1%}; a network on features alone: {products['features_alone']:.1%}.",
    ]
    lines += [
        "",
        f"All {walks['walks']:,} walks of eight steps (128 from every node) take {walks['seconds']:.0f} s. The paper has 2 minutes on an A40; a copy here moves",
        f"{statistics.median(walks['bandwidth_gb_s']):.1f} GB/s, {walks['ratio_of_bandwidths']:.0f} times less than the A40's 696 GB/s; scaled by that, 2 minutes correspond to {walks['allowed_seconds']:,.0f} s.",
        "", "| nodes | sampling | gathering | computing | whole step |", "|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {row['nodes']:,} | "
        + " | ".join(f"{1000 * row[key]:.1f} ms" for key in ("sampling", "gathering", "computing", "total"))
        + " |"
        for row in steps["rows"]
    ]
    lines += [
        "",
        "![Cost of a training step by graph size](scale-steps.svg)",
        "",
        f"{steps['what'][0].upper()}{steps['what'][1:]}.",
        "",
    ]
    peer = f"{ranks['sage_speedup']:.2f} times" if ranks.get("sage_speedup") else "not measured"
    rates = {key: statistics.median(each) for key, each in ranks["steps_per_second"].items()}
    lines += ["| one thread per rank, batch 512 | one rank | two ranks | speed-up |", "|---|---|---|---|"]
    lines += [f"| gpm | {rates['gpm 1']:.2f} steps/s | {rates['gpm 2']:.2f} steps/s | {ranks['speedup']:.2f} times |"]
    if "sage 2" in rates:
        lines += [
            f"| GraphSAGE, NeighborLoader | {rates['sage 1']:.2f} steps/s | {rates['sage 2']:.2f} steps/s | {peer} |"
        ]
    lines += [
        "", f"The curves of one rank and of two differ by at most {ranks['largest_difference_of_curves']:.1e} in loss and accuracy; test accuracy is {ranks['test']['1']['accuracy']:.2%} and {ranks['test']['2']['accuracy']:.2%}; {ranks['communicating_share']:.1%} of the time",
        "of two ranks is communication, including waiting.", "",
        "| size | parameters, Arxiv | the paper | parameters, Products | the paper | loss of three steps |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {row['size']} | {row['millions']['arxiv']:.2f} M | {row['paper_millions']['arxiv']:.2f} M | {row['millions']['products']:.2f} M | {row['paper_millions']['products']:.2f} M | {', '.join(f'{loss:.2f}' for loss in row['plain']['losses'])} |"
        for row in found["sizes"]["rows"]
    ]
    return "\n".join(lines)


def describe_plan() -> str:
    """How well `gpm plan` predicts, as the docs show it."""
    plan = read_scale().get("plan")
    if plan is None:
        return NOT_YET
    lines = [
        f"{plan['graph'][0].upper()}{plan['graph'][1:]}, `{plan['options']}`; medians of {len(plan['configurations'][0]['rounds'])} rounds, in which prediction and training take turns,",
        f"on two shared cores ({plan['date']}).", "",
        "| size, batch | peak memory, predicted | measured | ratio | step, predicted | measured | ratio | ratio of the step in each round |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in plan["configurations"]:
        memory, step = row["bytes"], row["seconds"]
        each = ", ".join(f"{r['predicted']['seconds'] / r['measured']['seconds']:.2f}" for r in row["rounds"])
        lines.append(
            f"| {row['size']}, {row['batch']} | {memory['predicted'] / 1e9:.2f} GB | {memory['measured'] / 1e9:.2f} GB | {memory['ratio']:.2f} | "
            f"{1000 * step['predicted']:,.0f} ms | {1000 * step['measured']:,.0f} ms | {step['ratio']:.2f} | {each} |"
        )
    return "\n".join(lines)


def describe_planted_shift() -> str:
    """A shift that is known, in words, as the docs show it."""
    path = ROOT / "results" / "shift" / "planted.json"
    if not path.is_file():
        return NOT_YET
    planted = json.loads(path.read_text(encoding="utf-8"))
    mean, share, harm = planted["mean"], planted["recovered_share"], planted["harm_without_shift"]
    lines = [
        f"On a pair whose shift is known (`gpm.data.synthetic.shifted_pair`, {planted['shift']:g} standard deviations; epoch chosen on the source,",
        f"mean over three seeds) the plain model loses {planted['lost']:.1f} points. The table shows how much adaptation recovers, and what it costs",
        "without a shift:",
        "",
        "| | no shift | shift | recovered | cost without shift |",
        "|---|---|---|---|---|",
        f"| none | {mean['none']['none']:.2f} | {mean['planted']['none']:.2f} | | |",
    ]
    for method in share:
        lines.append(
            f"| {method} | {mean['none'][method]:.2f} | {mean['planted'][method]:.2f} | {share[method]:.0%} | {harm[method]:.2f} |"
        )
    return "\n".join(lines)


def _plus_minus(figure: dict[str, float]) -> str:
    return f"{figure['mean']:.2f} ± {figure['std']:.2f}"


def _times(ratio: float | None) -> str:
    return "∞" if ratio is None else f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def _drop(median: float, quartiles: list[float]) -> str:
    return f"{median:.2g} ({quartiles[0]:.2g} to {quartiles[1]:.2g})"


PLACES = [
    Place("README.md", "results", describe_recipes),
    Place("docs/links.md", "leaks", describe_leaks),
    Place("docs/results.md", "explain results", describe_explained),
    Place("docs/explain.md", "planted motifs", describe_truth),
    Place("docs/explain.md", "deletion", describe_deletion),
    Place("docs/results.md", "tables", describe_tables),
    Place("docs/tables.md", "import", describe_import),
    Place("docs/trust.md", "kills", describe_kills),
    Place("docs/trust.md", "fuzz", describe_fuzz),
    Place("docs/trust.md", "roundtrip", describe_roundtrip),
    Place("docs/results.md", "scale", describe_scale),
    Place("docs/scale.md", "scale", describe_scale_tables),
    Place("docs/scale.md", "plan", describe_plan),
    Place("docs/shift.md", "planted shift", describe_planted_shift),
]


def main() -> None:
    for place in PLACES:
        place.update()


if __name__ == "__main__":
    main()
