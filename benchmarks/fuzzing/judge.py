"""What must hold of every answer: a sentence or a right success; nothing else comes out and nothing stays behind."""

from __future__ import annotations

import contextlib
import io
import os
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpm import GpmError

ERROR, SUCCESS = "error", "success"
_LONGEST = 2100  # characters of a sentence; lists of flags or datasets are long
_SPILLED = re.compile(r"Traceback|MemoryError|<class '|object at 0x|\n|\bNone\b \(NoneType\)")
_FULL = re.compile(r"(not enough|needs more) memory")
_BARE = re.compile(r"\w*(Error|Exception)\b[^ ]*\.?")


class WrongAnswerError(Exception):
    """An input that was not dealt with as it must be.

    Attributes:
        kind: traceback, sentence, wrong, refused, leftover, warning, memory, hang or crash.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


def attempt(action: Callable[[], Any]) -> tuple[Any, str]:
    """What an action returns, or the sentence with which it refuses; anything else it raises is a failure."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found, sentence = action(), ""
        except GpmError as error:
            found, sentence = None, str(error)
            check_sentence(sentence)
        except WrongAnswerError:
            raise
        except BaseException as error:
            raise WrongAnswerError("traceback", "".join(traceback.format_exception(error))[-3000:]) from None
    for warning in warned:
        if not issubclass(warning.category, (DeprecationWarning, ResourceWarning)):
            where = f"{Path(warning.filename).name}:{warning.lineno}"
            raise WrongAnswerError("warning", f"{warning.category.__name__} at {where}: {warning.message}")
    return found, sentence


def check_sentence(sentence: str) -> None:
    """A mistake is told in one line of words that ends as a sentence does."""
    said = sentence.strip()
    if not said.endswith((".", "?")) or len(said) < 15 or len(said) > _LONGEST:
        raise WrongAnswerError("sentence", f"it is none, or too long: {sentence[:400]!r}")
    if _SPILLED.search(said) or _BARE.fullmatch(said) or _FULL.search(said):
        raise WrongAnswerError("sentence", f"it tells of the program, not of the input: {sentence[:400]!r}")


def command(words: list[str]) -> tuple[Any, str]:
    """Run `gpm` with some words: (what it printed, "") or (None, the sentence); see `attempt`."""
    from gpm.cli.main import main

    out, err = io.StringIO(), io.StringIO()

    def run() -> str:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        if code == 0:
            return out.getvalue()
        if code != 2:
            raise WrongAnswerError("sentence", f"exit code {code}: {err.getvalue()[-400:]!r}")
        lines = [line for line in err.getvalue().splitlines() if line.startswith("gpm")]
        raise GpmError(lines[-1] if lines else "")

    return attempt(run)


def check_nothing_left(folder: Path, before: set[str]) -> None:
    """No file or folder is there that was not there before."""
    left = listing(folder) - before
    if left:
        raise WrongAnswerError("leftover", ", ".join(sorted(left)[:5]))


def listing(folder: Path) -> set[str]:
    """All that is below a folder, by name; links are not followed."""
    found = set()
    for root, folders, files in os.walk(folder):
        found |= {os.path.relpath(os.path.join(root, name), folder) for name in (*folders, *files)}  # noqa: PTH118
    return found
