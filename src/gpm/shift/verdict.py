"""The words of a shift report: how clear each distance is, and the verdict, by rules that the page states."""

from __future__ import annotations

from collections.abc import Sequence

from gpm.shift.result import Distance, Scores, Word
from gpm.tasks.metrics import METRICS

TITLES = {
    "degrees": "degrees", "features": "features", "topologies": "walk topologies", "classes": "classes",
    "labels": "labels", "values": "values", "features_auc": "told apart by features",
    "embeddings_auc": "told apart by embeddings",
}  # fmt: skip
CLEAR, SLIGHT = (0.1, 2.0), (0.03, 1.3)  # at least so much above the reference, and so many times as much
CLEAR_AUC, SLIGHT_AUC = 0.75, 0.6
WORDS = ("clear", "slight", "none")
_AREAS = ((0.9, "nearly always"), (CLEAR_AUC, "mostly"), (SLIGHT_AUC, "sometimes"), (0.0, "hardly"))
RULES = (
    f"A distance is called clear if it is at least {CLEAR[0]:g} above that of two halves of the source and "
    f"{CLEAR[1]:g} times as large, and slight if it is {SLIGHT[0]:g} above and {SLIGHT[1]:g} times as large. "
    f"An AUC is clear from {CLEAR_AUC:g} on and slight from {SLIGHT_AUC:g} on; guessing has 0.5. "
    "Features differ as the larger of their two numbers says."
)


def judge(value: float, reference: float) -> Word:
    """Call a distance clear if it is 0.1 above the reference and twice as large, slight if 0.03 and 1.3 times."""

    def exceeds(least: float, times: float) -> bool:
        return value - reference >= least and value >= times * reference

    return "clear" if exceeds(*CLEAR) else "slight" if exceeds(*SLIGHT) else "none"


def judge_area(value: float) -> Word:
    """Call a difference that a classifier sees clear from an AUC of 0.75 on, and slight from 0.6 on."""
    return "clear" if value >= CLEAR_AUC else "slight" if value >= SLIGHT_AUC else "none"


def write_verdict(distances: Sequence[Distance], scores: Scores) -> str:
    """Write two sentences: in what the domains differ, and what that does to the model."""
    return f"{_say_difference(distances)} {_say_effect(distances, scores)}"


def _say_difference(distances: Sequence[Distance]) -> str:
    by_word: dict[str, list[str]] = {word: [] for word in WORDS}
    words = {distance.name: distance.word for distance in distances}
    for name, word in words.items():
        if not name.endswith("_auc"):
            by_word[min(word, words.get(f"{name}_auc", "none"), key=WORDS.index)].append(TITLES[name])
    says = {"clear": "differ clearly from the source's", "slight": "differ a little", "none": "do not"}
    if not by_word["clear"]:
        says["slight"] = "differ a little from the source's"
        if not by_word["slight"]:
            says["none"] = "do not differ from the source's beyond chance"
    parts = [f"{_list(names)} {says[word]}" for word, names in by_word.items() if names]
    return f"The target's {'; its '.join(parts)}."


def _say_effect(distances: Sequence[Distance], scores: Scores) -> str:
    area = next(d.value for d in distances if d.name == "embeddings_auc")
    often = next(word for least, word in _AREAS if area >= least)
    seen = f"By the model's embeddings a classifier can {often} tell the two apart (AUC {area:.2f})"
    metric = METRICS[scores.metric]
    if scores.target is None:
        return f"{seen}; how well the model does on the target is not known."
    against = "" if scores.source is None else f", against {metric.show(scores.source)} on the source"
    return f"{seen}; {metric.title} on the target is {metric.show(scores.target)}{against}."


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
