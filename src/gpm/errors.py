"""The error a user can act on."""

import difflib
from collections.abc import Iterable


class GpmError(ValueError):
    """A mistake in the input: one sentence that names what is wrong and how to fix it.

    The command line prints the sentence and exits with code 2; in Python it is a `ValueError`.
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the known name closest to a mistyped one, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
