"""The demonstration: a task whose answer is known, from training to the patterns behind one prediction."""

from __future__ import annotations

from pathlib import Path

from gpm.run.run import Run


def demo(out: Path = Path("demo"), quiet: bool = False) -> None:
    """Train on planted motifs, score beside two baselines, and explain one prediction on a page.

    Args:
        out: The folder to write to.
        quiet: No progress bar.
    """
    from gpm.explain.write import save_explanations, tell
    from gpm.training.start import train

    run = train("motifs", out=out / "motifs", baselines=True, overwrite=True, quiet=quiet)
    assert isinstance(run, Run)
    explanation = run.explain(choose_node(run))
    print("\n" + "\n".join(tell(explanation)))
    page = save_explanations([explanation], out / "explain")
    print(
        f"the run is in {run.folder}: gpm explain {run.folder} --node NAME explains another node, --all the test part"
    )
    print(f"open {page} in a browser")


def choose_node(run: Run, label: int = 1) -> object:
    """The test node of a class that the model is surest of, among those it has right; else the first test node."""
    said = run.predict_ids(run.split.test)
    right = [
        i for i, node in enumerate(run.split.test) if said.labels[i] == label and int(run.task.targets[node]) == label
    ]
    return said.names[max(right, key=lambda i: float(said.probability[i].max()), default=0)]
