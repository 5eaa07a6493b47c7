"""The error a user can act on."""

import difflib
import operator
import re
from collections.abc import Iterable

_LONGEST = 2000  # characters of a sentence
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")  # ends of lines, controls, halves


class GpmError(ValueError):
    """A mistake in the input: one sentence that names what is wrong and how to fix it.

    The command line prints the sentence and exits with code 2; in Python it is a `ValueError`. What a sentence quotes
    of the input may be a name of a million letters, or one with the end of a line in it: of a long one the middle is
    left out, and what would not be seen is written as in Python.
    """

    def __init__(self, sentence: str = "") -> None:
        sentence = _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), sentence)
        long = len(sentence) > _LONGEST
        super().__init__(f"{sentence[: _LONGEST // 2]} ... {sentence[-_LONGEST // 4 :]}" if long else sentence)


def whole_number(value: object, name: str) -> int:
    """Return an integer of any kind as `int`; a fraction, or a text, is a mistake."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise GpmError(f"{name} must be a whole number, got {value!r}.") from None


def kind_of(value: object) -> str:
    """What a value is, with the package it comes from: "networkx Graph"."""
    return f"{type(value).__module__.split('.')[0]} {type(value).__name__}".removeprefix("builtins ")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the known name closest to a mistyped one, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
