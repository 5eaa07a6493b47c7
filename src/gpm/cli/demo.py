"""The command `gpm demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpm.run.run import Run


def demo(out: Path = Path("demo"), quiet: bool = False) -> None:
    """Train on planted motifs, score beside baselines, and explain one prediction on a page.

    Args:
        out: Folder to write to.
        quiet: Show no progress bar.
    """
    from gpm.explain.write import save_explanations, tell
    from gpm.run.run import Run
    from gpm.training import start

    run = start.train("motifs", out=out / "motifs", baselines=True, overwrite=True, quiet=quiet)
    assert isinstance(run, Run)
    explanation = run.explain(choose_node(run))
    print("\n" + "\n".join(tell(explanation)))
    page = save_explanations([explanation], out / "explain")
    print(f"the run is in {run.folder}; gpm explain {run.folder} --node NAME explains another node, --all all of them")
    print(f"open {page} in a browser")


def choose_node(run: Run, label: int = 1) -> object:
    """Return the correctly predicted test node of a class with the highest probability; else the first test node."""
    test, predictions = run.split.test, run.predict_ids(run.split.test)
    right = [i for i, node in enumerate(test) if predictions.labels[i] == label == int(run.task.targets[node])]
    return predictions.names[max(right, key=lambda i: float(predictions.probability[i].max()), default=0)]
