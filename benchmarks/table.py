"""Put the committed results, `results/<table>/<dataset>.json`, into the README as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- figures of results -->", "<!-- end of results -->"
ROOT = Path(__file__).parents[1]
METRICS = {"accuracy": "accuracy", "roc_auc": "ROC-AUC", "f1": "F1"}


def read_results(table: str) -> list[dict[str, Any]]:
    """The results of one table, those that the paper has first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "results" / table).glob("*.json"))]
    return sorted(found, key=lambda result: (result["paper_mean"] is None, result["dataset"]))


def describe(results: list[dict[str, Any]]) -> str:
    """The figures in words, as the README shows them."""
    lines = [
        "Node classification, test part, mean ± standard deviation over seeds 0, 1, 2 (split and initialisation); each row is what",
        "`gpm train RECIPE --seeds 3 --threads 1` printed on one shared core, and is kept in [results/node](results/node).",
        "",
        "| recipe | metric | gpm | the paper | width | training, per seed |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        assert result["seeds"] == [0, 1, 2], result["dataset"]
        paper = "" if result["paper_mean"] is None else f"{result['paper_mean']:.2f} ± {result['paper_std']:.2f}"
        seconds = sorted(result["train_s"])[len(result["train_s"]) // 2]
        lines.append(
            f"| {result['recipe']} | {METRICS[result['metric']]} | {result['mean']:.2f} ± {result['std']:.2f} | {paper}"
            f" | {result['config']['width']} | {seconds:.0f} s, {result['config']['epochs']} epochs |"
        )
    lines += [
        "",
        "Options were tuned on these same seeds, with the test figures of some dozens of trials in view (most for blog), so the",
        "rows are likely somewhat better than a seed that nobody looked at.",
    ]
    for fresh in read_results("node-fresh"):
        seeds = ", ".join(map(str, fresh["seeds"]))
        lines.append(
            f"The same recipe on seeds {seeds}, which nothing was tuned on, has **{fresh['mean']:.2f} ± {fresh['std']:.2f}** for "
            f"{fresh['recipe']} ([results/node-fresh](results/node-fresh)): that is the figure to expect."
        )
    notes = [f"{result['dataset']}: {result['note']}" for result in results if result["note"]]
    return "\n".join([*lines, *(["", " ".join(notes)] if notes else [])])


def main() -> None:
    path = ROOT / "README.md"
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    shown = describe(read_results("node"))
    path.write_text(before + BEGIN + "\n" + shown + "\n" + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
