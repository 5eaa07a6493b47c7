"""Labels of nodes or graphs in their normal form: classes, several yes-or-no labels, or values."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from gpm.data.splits import PARTS, Split, is_labelled
from gpm.errors import GpmError

VALUE_METRICS = ("mae", "rmse")
_SHOWN = 5  # graphs or classes that a warning names
_log = logging.getLogger("gpm")


def read_labels(labels: NDArray, metric: str, level: str, title: str) -> NDArray:
    """Normalise labels `[N]` or `[N, C]` of a level ("node" or "graph") of some data.

    For the metrics "mae" and "rmse" they are values, float32 `[N]` or `[N, C]`, NaN if unknown. Else classes, int64
    `[N]`, negative if unknown; or several yes-or-no labels, float32 `[N, C]`, NaN if unknown.
    """
    labels = as_columns(labels)
    if labels.dtype.kind not in "biuf":
        raise GpmError(f"The {level} labels of {title} are {labels.dtype}; number the classes 0, 1, 2, and so on.")
    read = _as_values if metric in VALUE_METRICS else _as_classes if labels.ndim == 1 else _as_several
    form = read(labels, level, title)
    if not is_labelled(form).any():
        raise GpmError(f"All {level}s of {title} are without a label; give at least some of them a y.")
    return form


def as_columns(labels: NDArray) -> NDArray:
    """Return labels as `[N]`, or as `[N, C]` with C > 1."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def guess_metric(labels: NDArray, *, whole: bool) -> str:
    """Guess the metric of labels. Floats that are whole numbers are classes if `whole`; else only 0.0 and 1.0 are."""
    labels = as_columns(labels)
    if np.issubdtype(labels.dtype, np.floating):
        known = labels[np.isfinite(labels)]
        if not ((known == np.floor(known)).all() if whole else is_yes_or_no(labels)):
            return "mae"
    return "accuracy" if labels.ndim == 1 else "roc_auc"


def are_classes(labels: NDArray) -> bool:
    """Check whether labels are one class per instance."""
    return labels.ndim == 1 and bool(np.issubdtype(labels.dtype, np.integer))


def count_outputs(labels: NDArray) -> int:
    """Return the number of classes; for yes-or-no labels and values, the number of columns."""
    if np.issubdtype(labels.dtype, np.floating):
        return 1 if labels.ndim == 1 else labels.shape[1]
    return int(labels.max()) + 1


def is_yes_or_no(labels: NDArray) -> bool:
    """Check whether all known labels are 0 or 1."""
    return bool(np.isin(labels[~np.isnan(labels)], (0, 1)).all())


def warn_of_new_classes(labels: NDArray, split: Split, title: str) -> None:
    """Warn of classes that are validated or tested, and never trained on."""
    seen, *held = (labels[getattr(split, part)] for part in PARTS)
    if are_classes(labels) and (new := np.setdiff1d(np.concatenate(held), seen)).size:
        where = f"in val or test but not in train of split {split.name!r}"
        _log.warning("%s: classes %s, which are never predicted: %s.", title, where, name_some(new))


def name_some(numbers: NDArray) -> str:
    """Return the first numbers as text, and how many more there are."""
    more = len(numbers) - _SHOWN
    return ", ".join(map(str, numbers[:_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def check_precision(values: NDArray, title: str) -> None:
    """Refuse targets that lie too close together beside their size for 32 bits, such as seconds since 1970."""
    wide = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    for column in wide.T:
        known = column[np.isfinite(column)]
        if known.size and 0 < known.max() - known.min() < 1e-5 * np.abs(known).max():
            raise GpmError(
                f"{title}: the targets lie between {known.min():.17g} and {known.max():.17g}, too close together to be "
                "told apart in 32 bits; subtract a constant from them."
            )


def _as_values(labels: NDArray, level: str, title: str) -> NDArray:
    check_precision(labels, title)
    with np.errstate(over="ignore"):
        values = labels.astype(np.float32, copy=False)
    if (infinite := np.flatnonzero(np.isinf(values).reshape(len(values), -1).any(axis=1))).size:
        raise GpmError(
            f"{level} {infinite[0]} of {title} has an infinite or far too large target; give a number, or NaN if it is "
            "unknown."
        )
    return values


def _as_classes(labels: NDArray, level: str, title: str) -> NDArray:
    if not np.issubdtype(labels.dtype, np.floating):
        return labels.astype(np.int64, copy=False)
    whole = np.where(np.isnan(labels), -1, labels).astype(np.float64)  # halves know no 2**53
    if not (np.isfinite(whole) & (whole == np.floor(whole)) & (np.abs(whole) < 2**53)).all():
        raise GpmError(
            f"The {level} labels of {title} are not whole numbers; number the classes 0, 1, 2, and so on, or choose "
            "--metric mae to predict values."
        )
    return whole.astype(np.int64)


def _as_several(labels: NDArray, level: str, title: str) -> NDArray:
    with np.errstate(over="ignore"):  # what is too large is not 0 or 1 either
        several = labels.astype(np.float32)
    several[several == -1] = np.nan
    if not is_yes_or_no(several):
        raise GpmError(
            f"The {level} labels of {title} have {labels.shape[1]} columns that are not 0 or 1; give yes-or-no labels, "
            "or choose --metric mae to predict values."
        )
    return several
