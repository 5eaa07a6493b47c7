"""Predict very many instances in shards, each in a process of its own, and merge the files that they wrote.

Shard i of n is the file `part-0000i-of-0000n.parquet`, which is there complete or not at all. The metadata of the
Parquet file (`gpm`: a JSON object with the run's checksums, the digest of the data, the options and the range) says
what it was made from: a finished shard is recognised, and shards that do not belong together are not merged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from tqdm.auto import tqdm

from gpm.data.tables.open_table import reading
from gpm.data.tables.session import connect, file_literal, literal
from gpm.errors import GpmError, whole_number
from gpm.graph.digest import digest_data
from gpm.inference.calibration import DRAWS
from gpm.inference.opened import OpenedRun
from gpm.inference.predictions import Inference, Instances, opening_instances, prepare_inference
from gpm.io.atomic import replacing, sync_folder
from gpm.io.manifest import USED
from gpm.io.publish import claiming, scratch_for
from gpm.io.table_files import WRITTEN, check_table, write_blocks, write_parquet

ROWS = 65_536  # instances that are predicted at a time, and the most rows of a row group
_VECTORS = 32  # of 2,048 rows, that are merged at a time
FORMAT, VERSION = "gpm-part", 1
_NAME = re.compile(r"part-(\d{5,9})-of-(\d{5,9})\.parquet")
_SAME = {"run": "another run", "data": "other data", "pairs": "another table of pairs", "total": "other instances"}


@dataclass(frozen=True)
class Part:
    """The file of a shard, with instances `first` to `last - 1`; `made` is False if it was there already."""

    path: Path
    first: int
    last: int
    made: bool = True

    def __len__(self) -> int:
        return self.last - self.first


def parse_shard(text: str) -> tuple[int, int]:
    """Parse a shard as the command line has it: 3/100."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip(), re.ASCII)
    if not match:
        raise GpmError(f"A shard is its index, from 0 on, and the number of shards, as in 3/100; got {text!r}.")
    return check_shard(int(match[1]), int(match[2]))


def check_shard(index: int, count: int) -> tuple[int, int]:
    """Refuse an index or a number of shards that is out of range."""
    index, count = whole_number(index, "the number of a shard"), whole_number(count, "the count of shards")
    if count < 1 or count >= 10**9:
        raise GpmError(f"The number of shards must lie between 1 and 999,999,999, got {count}.")
    if not 0 <= index < count:
        raise GpmError(f"There is no shard {index} of {count}: shards are numbered from 0 to {count - 1}.")
    return index, count


def share_out(total: int, index: int, count: int) -> tuple[int, int]:
    """Return the range `first` to `last - 1` of a shard: shards differ in size by one at most."""
    return total * index // count, total * (index + 1) // count


def part_path(folder: Path, index: int, count: int) -> Path:
    """Return the file of a shard."""
    return folder / f"part-{index:05d}-of-{count:05d}.parquet"


def check_folder(folder: Path) -> None:
    """Refuse, before any work, a path that is not that of a folder."""
    if folder.suffix.lower() in WRITTEN or (folder.exists() and not folder.is_dir()):
        raise GpmError(f"{folder} is the name of a file; shards are written into a folder, as in -o predictions.")


def predict_shard(
    run: OpenedRun, folder: str | Path, index: int, count: int, *, pairs: str | Path | None = None, new: bool = False,
    overwrite: bool = False, patterns: int | None = None, interval: bool = False, draws: int = DRAWS,
    calibrate: bool | None = None, progress: bool = False,
) -> Part:  # fmt: skip
    """Predict one of `count` equal shards of all instances and write it as a Parquet file.

    Memory does not grow with the number of instances. A file of the same run, data, options and range that is there
    already is left as it is. All shards together hold what `Run.predict` predicts for all instances: to the last bit,
    except for pairs by `product` and for graphs by a network, whose batches differ.

    Args:
        run: The run; opened on other data, it predicts these.
        folder: The folder to write to.
        index: The index of the shard, from 0 on.
        count: The number of shards.
        pairs: The table of pairs to score, for a run that predicts links.
        new: Only nodes that the training graph does not have, for a run that is opened on another graph.
        overwrite: Replace a file of another run, other data or other options.
        patterns, interval, draws, calibrate, progress: As in `gpm.inference.predictions.prepare_inference`.
    """
    index, count = check_shard(index, count)
    folder = Path(folder)
    check_folder(folder)
    chosen: dict[str, Any] = {"patterns": patterns, "interval": interval, "draws": draws, "calibrate": calibrate}
    with opening_instances(run, None if pairs is None else Path(pairs), new=new) as instances:
        part = Part(part_path(folder, index, count), *share_out(instances.total, index, count))
        known = run.truth is not None
        options = chosen | {
            "new": new,
            "label_true": known,
            "calibrate": calibrate if interval else bool(calibrate),
            "draws": draws if run.predicts_values and (interval or calibrate) else None,
        }
        metadata = {
            "format": FORMAT, "version": VERSION, "run": _digest_run(run), "data": _digest_data(run),
            "pairs": instances.digest, "options": options, "total": instances.total, "shard": index, "of": count,
        }  # fmt: skip
        with claiming(part.path.absolute()):
            if part.path.exists() and _is_finished(part.path, metadata, overwrite):
                return replace(part, made=False)
            inference = prepare_inference(run, progress=progress, total=instances.total, **chosen)
            _make_part(part, metadata, inference, instances)
    return part


def _digest_run(run: OpenedRun) -> str:
    files = (path.read_bytes() if (path := run.folder / name).exists() else b"" for name in USED)
    return hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in files)).hexdigest()


def _digest_data(run: OpenedRun) -> str:
    kept = "" if run.other else str(run.metadata.get("data_digest", "")).partition(" ")[0]  # checked on opening
    digest = kept or digest_data(run.data.graph, run.source or run.folder / run.config.data)
    if (names := getattr(run.data, "names", None)) is None:
        return digest
    return f"{digest} {hashlib.sha256(''.join(map(json.dumps, names)).encode()).hexdigest()}"


def _is_finished(path: Path, metadata: dict[str, Any], overwrite: bool) -> bool:
    """Return whether a file is the wanted shard; refuse another one, unless it may be replaced."""
    try:
        with connect() as base:
            other = _compare(_read_metadata(base, path), metadata)
    except GpmError:
        other = "no run at all"
    if other and not overwrite:
        raise GpmError(f"{path} is there, but of {other}; name another folder, or replace it with --overwrite.")
    return not other


def _compare(metadata: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Describe in what the metadata of a shard differs from that of another; empty if in nothing."""
    for key, words in _SAME.items():
        if metadata.get(key) != wanted.get(key):
            return words
    for key, value in wanted["options"].items():
        if (other := metadata["options"].get(key)) != value:
            return f"other options ({key}: {other}, not {value})"
    return ""


def _make_part(part: Part, metadata: dict[str, Any], inference: Inference, instances: Instances) -> None:
    with scratch_for(part.path.absolute()) as scratch:
        pieces: list[Path] = []
        for columns in _predict_part(part, inference, instances):
            pieces.append(scratch / f"{len(pieces)}.parquet")
            write_parquet(pieces[-1], columns, "rename what is no Unicode")
        made = scratch / part.path.name
        _join(pieces, made, scratch / "spill", metadata, empty=not len(part))
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(part.path)
    sync_folder(part.path.parent)


def _predict_part(part: Part, inference: Inference, instances: Instances) -> Iterator[dict[str, Any]]:
    """Yield the rows of a shard, a block at a time.

    Instances are read in the batches in which all would be read, so that the last bits are the same: at both ends some
    are predicted that are not of the shard. A shard without rows yields one row nevertheless, for the types of columns.
    """
    batch, total = inference.predictor.count_together(inference.patterns), instances.total
    first, last = (part.first, part.last) if len(part) else (0, min(1, total))
    begin, end = first // batch * batch, min(total, -(-last // batch) * batch)
    unit, hidden = inference.run.data.level, None if inference.progress else True
    with tqdm(total=len(part), unit=unit, disable=hidden, leave=False) as bar:
        for inputs in instances.read(begin, end, batch * max(1, ROWS // batch)) if total else [np.arange(0)]:
            low, high = max(0, first - begin), min(len(inputs), last - begin)
            yield {name: values[low:high] for name, values in inference.predict(inputs).columns().items()}
            begin += len(inputs)
            bar.update(high - low)


def _scan(paths: list[Path]) -> str:
    return f"SELECT * FROM read_parquet([{', '.join(map(file_literal, paths))}], hive_partitioning = false)"


def _join(
    paths: list[Path], out: Path, spill: Path | None = None, metadata: dict[str, Any] | None = None, empty: bool = False
) -> None:
    """Write the rows of some Parquet files into one, in order; `spill` is for what does not fit into memory."""
    kept = f", KV_METADATA {{gpm: {literal(json.dumps(metadata))}}}" if metadata else ""
    target = f"{literal(str(out.absolute()))} (FORMAT parquet, ROW_GROUP_SIZE {ROWS}{kept})"
    with connect(folder=spill) as base, reading(f"what becomes {out.name}"):
        base.execute(f"COPY ({_scan(paths)}{' LIMIT 0' if empty else ''}) TO {target}")


def _blocks(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the columns of some Parquet files in order, some rows at a time; at least one block, even without rows."""
    with connect() as base, reading(str(paths[0].parent)):
        base.execute(_scan(paths))
        frame = base.fetch_df_chunk(_VECTORS)
        while True:
            columns = {str(name): column.to_numpy() for name, column in frame.items()}
            yield {name: values.tolist() if values.dtype.kind == "O" else values for name, values in columns.items()}
            if not len(frame := base.fetch_df_chunk(_VECTORS)):
                return


def _read_metadata(base: duckdb.DuckDBPyConnection, path: Path) -> dict[str, Any]:
    file = file_literal(path)
    with reading(str(path)):
        values = base.execute(f"SELECT value FROM parquet_kv_metadata({file}) WHERE key = 'gpm'").fetchall()
        rows = base.execute(f"SELECT num_rows FROM parquet_file_metadata({file})").fetchall()
    try:
        metadata = json.loads(values[0][0])
        ours = metadata["format"] == FORMAT and metadata["version"] == VERSION
        first, last = share_out(metadata["total"], *check_shard(metadata["shard"], metadata["of"]))
        if ours and isinstance(metadata["options"], dict) and rows[0][0] == last - first:
            return dict(metadata)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        pass
    raise GpmError(f"{path} is not a shard that gpm predict --shard wrote; remove it.")


def merge_shards(folder: str | Path, out: str | Path, run: OpenedRun | None = None) -> int:
    """Merge all shards into one table, in order, and return the number of rows.

    Args:
        folder: The folder of the shards.
        out: The table to write: .parquet, .csv, .tsv or .jsonl.
        run: Refuse shards of any other run.
    """
    folder, out = Path(folder), Path(out)
    check_table(out)
    paths = find_parts(folder)
    with connect() as base:
        metadata = [_read_metadata(base, path) for path in paths]
    for path, mine in zip(paths, metadata, strict=True):
        if part_path(folder, mine["shard"], mine["of"]) != path:
            raise GpmError(f"{path} holds shard {mine['shard']} of {mine['of']}; rename it accordingly.")
        if other := _compare(mine, metadata[0]):
            raise GpmError(f"{path} differs from {paths[0].name}: {other}; predict it again with --overwrite.")
    if run is not None and metadata[0]["run"] != _digest_run(run):
        raise GpmError(f"The shards in {folder} are of another run than {run.folder}; name the run that made them.")
    with replacing(out) as scratch:
        if out.suffix.lower() == ".parquet":
            _join(paths, scratch)
        else:
            write_blocks(scratch, _blocks(paths))
    return int(metadata[0]["total"])


def find_parts(folder: Path) -> list[Path]:
    """List the files of all shards in a folder, in order; refuse a folder in which some are missing."""
    if not folder.is_dir():
        raise GpmError(f"There is no folder {folder}; gpm predict RUN -o {folder} --shard 0/100 makes one.")
    names = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    paths = {(int(name[2]), int(name[1])): folder / name[0] for name in names if name}
    counts = sorted({count for count, _ in paths})
    if not counts:
        raise GpmError(f"{folder} holds no shards; gpm predict RUN -o {folder} --shard 0/100 makes the first of 100.")
    if len(counts) > 1:
        raise GpmError(f"{folder} holds shards out of {_list(counts)}; remove those that do not belong together.")
    count = counts[0]
    if missing := [index for index in range(count) if (count, index) not in paths]:
        which = f"Shard {missing[0]} of {count} is" if len(missing) == 1 else f"Shards {_list(missing)} of {count} are"
        raise GpmError(f"{which} missing in {folder}: run --shard {missing[0]}/{count}.")
    return [paths[count, index] for index in range(count)]


def _list(numbers: list[int], most: int = 12) -> str:
    shown = [*map(str, numbers[:most]), *([f"{len(numbers) - most} more"] if len(numbers) > most else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
