"""Convert pandas data frames to columns that DuckDB reads exactly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from gpm.data.tables.read_text import MOST_COLUMNS, check_names
from gpm.errors import GpmError

if TYPE_CHECKING:
    import pandas as pd


def plain_frame(frame: pd.DataFrame, title: str) -> pd.DataFrame:
    """Return a frame of numbers, booleans, times and text, without the index.

    Columns of objects that are all integers, all numbers or all booleans are converted to that type; the values of all
    other columns are converted to text. None, NaN, NaT and NA are missing.
    """
    import pandas as pd

    if frame.columns.nlevels > 1:
        raise GpmError(f"{title} has columns of {frame.columns.nlevels} levels; give each column one name.")
    if frame.shape[1] > MOST_COLUMNS:
        raise GpmError(f"{title} has {frame.shape[1]:,} columns; at most {MOST_COLUMNS:,} are supported.")
    names = [str(name) for name in frame.columns]
    check_names(title, names)
    columns = [_plain(frame.iloc[:, i], f"{title}, column {name!r}") for i, name in enumerate(names)]
    return pd.DataFrame(dict(zip(names, columns, strict=True)), index=pd.RangeIndex(len(frame)))


def _plain(column: pd.Series, where: str) -> Any:
    import pandas as pd

    kind = column.dtype
    if isinstance(kind, pd.SparseDtype):
        return column.sparse.to_dense().to_numpy()
    if isinstance(kind, pd.DatetimeTZDtype):
        return column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    if isinstance(kind, np.dtype) and kind.kind in "biufM":
        return column.to_numpy()
    if kind.kind in "biuf" and not isinstance(kind, np.dtype):
        return column.array  # pandas' own numbers with missing values
    values, missing = column.astype(object).to_numpy(), column.astype(object).isna().to_numpy()
    cells = list(zip(values, missing, strict=True))
    inferred = pd.api.types.infer_dtype(values[~missing], skipna=True)
    if inferred == "integer" and all(-(2**63) <= value < 2**63 for value in values[~missing]):
        return pd.array([pd.NA if gone else int(value) for value, gone in cells], dtype="Int64")
    if inferred == "boolean":
        return pd.array([pd.NA if gone else bool(value) for value, gone in cells], dtype="boolean")
    if inferred == "floating":
        return np.array([np.nan if gone else value for value, gone in cells], dtype=np.float64)
    if inferred != "string":
        values = [None if gone else _text(value, where) for value, gone in cells]
    return pd.array(values, dtype=pd.StringDtype("python"))


def _text(value: Any, where: str) -> str:
    """Convert a value to text, which must be UTF-8."""
    try:
        if isinstance(value, bytes):
            return value.decode()
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, tuple, dict)) else str(value)
        text.encode()
    except UnicodeError:
        raise GpmError(f"{where}: {value!r} is not UTF-8 text; fix or remove it.") from None
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return text
