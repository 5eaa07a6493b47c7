"""Predicting very many instances in shards, each by a process of its own, and merging what they wrote.

Shard i of n is the file `part-0000i-of-0000n.parquet`: there whole or not at all. In the Parquet file's own metadata
stands what it was made from (`gpm`: a JSON object with the run's checksums, the digest of the data, the options and the
range), so that a finished part is known again, and parts that do not belong together are not merged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from tqdm.auto import tqdm

from gpm.data.graph_data import GraphData
from gpm.data.tables.open_table import reading
from gpm.data.tables.session import connect, file_literal, literal
from gpm.errors import GpmError, whole_number
from gpm.inference.calibration import DRAWS
from gpm.inference.instances import Instances, opening_instances
from gpm.inference.predict import Inference, prepare_inference
from gpm.io.atomic import replacing, sync_folder
from gpm.io.manifest import USED, digest_data
from gpm.io.publish import claiming, scratch_for
from gpm.io.table_files import WRITTEN, check_table, write_blocks, write_parquet

if TYPE_CHECKING:
    from gpm.run.run import Run

ROWS = 65_536  # instances that are answered at a time, and the most rows of a row group
_VECTORS = 32  # of 2,048 rows, that are merged at a time
FORMAT, VERSION = "gpm-part", 1
_NAME = re.compile(r"part-(\d{5,9})-of-(\d{5,9})\.parquet")
_SAME = {"run": "another run", "data": "other data", "pairs": "another table of pairs", "total": "other instances"}


@dataclass(frozen=True)
class Part:
    """One shard of the answers.

    Attributes:
        path: The file.
        first, last: The places of its instances: `first` to `last - 1`.
        made: Whether it was made now; a part that was there already is left as it is.
    """

    path: Path
    first: int
    last: int
    made: bool = True

    def __len__(self) -> int:
        return self.last - self.first


def parse_shard(text: str) -> tuple[int, int]:
    """Read a shard as the command line has it: 3/100."""
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip(), re.ASCII)
    if not found:
        raise GpmError(
            f"a shard is written as its number, from 0 on, and how many there are, as in 3/100; got {text!r}."
        )
    return check_shard(int(found[1]), int(found[2]))


def check_shard(index: int, count: int) -> tuple[int, int]:
    """Refuse a shard that there is not."""
    index, count = whole_number(index, "the number of a shard"), whole_number(count, "the count of shards")
    if count < 1 or count >= 10**9:
        raise GpmError(f"there must be between 1 and 999,999,999 shards, got {count}.")
    if not 0 <= index < count:
        raise GpmError(f"there is no shard {index} of {count}: they are numbered from 0 to {count - 1}.")
    return index, count


def share_out(total: int, index: int, count: int) -> tuple[int, int]:
    """The places `first` to `last - 1` of a shard: shards differ in size by one at most."""
    return total * index // count, total * (index + 1) // count


def part_path(folder: Path, index: int, count: int) -> Path:
    """The file of a shard."""
    return folder / f"part-{index:05d}-of-{count:05d}.parquet"


def check_folder(folder: Path) -> None:
    """Refuse, before any work, a name that is no folder's."""
    if folder.suffix.lower() in WRITTEN or (folder.exists() and not folder.is_dir()):
        raise GpmError(f"{folder} is a file's name; shards are written into a folder, as in -o answers.")


def predict_shard(
    run: Run,
    folder: str | Path,
    index: int,
    count: int,
    *,
    pairs: str | Path | None = None,
    new: bool = False,
    overwrite: bool = False,
    patterns: int | None = None,
    interval: bool = False,
    draws: int = DRAWS,
    calibrate: bool = False,
    progress: bool = False,
) -> Part:
    """Predict one of so many equal shards of all instances and write it as a Parquet file.

    Memory does not grow with the number of instances. A part of the same run, data, options and range that is there
    already is left as it is. All shards together say what `Run.predict` says of all instances: to the last bit, save
    for pairs by `product` and for graphs by a network, whose batches differ.

    Args:
        run: The run; opened on other data, it predicts these.
        folder: Where the parts are written.
        index: Which shard, from 0 on.
        count: How many there are.
        pairs: Of a run that predicts links, the table of pairs to score.
        new: Only nodes that the training graph does not have, of a run that is opened on another graph.
        overwrite: Replace a part of another run, other data or other options.
        patterns, interval, draws, calibrate, progress: As in `gpm.inference.predict.prepare_inference`.
    """
    index, count = check_shard(index, count)
    folder = Path(folder)
    check_folder(folder)
    asked: dict[str, Any] = {"patterns": patterns, "interval": interval, "draws": draws, "calibrate": calibrate}
    with opening_instances(run, None if pairs is None else Path(pairs), new=new) as instances:
        part = Part(part_path(folder, index, count), *share_out(instances.total, index, count))
        options = asked | {"new": new, "draws": draws if run.predicts_values and (interval or calibrate) else None}
        facts = _describe(run, instances, options) | {"shard": index, "of": count}
        with claiming(part.path.absolute()):
            if part.path.exists() and _is_finished(part.path, facts, overwrite):
                return Part(part.path, part.first, part.last, made=False)
            answers = prepare_inference(run, progress=progress, total=instances.total, **asked)
            _make_part(part, facts, answers, instances)
    return part


def _describe(run: Run, instances: Instances, options: dict[str, Any]) -> dict[str, Any]:
    """What the answers depend on; parts that have all of it in common belong together."""
    return {
        "format": FORMAT, "version": VERSION, "run": _digest_run(run), "data": _digest_data(run),
        "pairs": instances.digest, "options": options, "total": instances.total,
    }  # fmt: skip


def _digest_run(run: Run) -> str:
    digest = hashlib.sha256()
    for name in USED:
        path = run.folder / name
        digest.update(hashlib.sha256(path.read_bytes() if path.exists() else b"").digest())
    return digest.hexdigest()


def _digest_data(run: Run) -> str:
    kept = "" if run.other else str(run.facts.get("data_digest", "")).partition(" ")[0]  # as it was found on opening
    found = kept or digest_data(run.data.graph, run.source or run.folder / run.config.data)
    if isinstance(run.data, GraphData) and run.data.names is not None:
        digest = hashlib.sha256()
        for name in run.data.names:
            digest.update(json.dumps(name).encode())
        found += f" {digest.hexdigest()}"
    return found


def _is_finished(path: Path, facts: dict[str, Any], overwrite: bool) -> bool:
    """Whether a part is the one that is asked for; another is refused, or to be replaced."""
    try:
        with connect() as base:
            other = _compare(_read_facts(base, path), facts)
    except GpmError:
        other = "no run at all"
    if other and not overwrite:
        raise GpmError(f"{path} is there, but of {other}; name another folder, or replace it with --overwrite.")
    return not other


def _compare(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """In what the facts of a part differ from those of another, in words; empty if in nothing."""
    for key, words in _SAME.items():
        if found.get(key) != wanted.get(key):
            return words
    for key, value in wanted["options"].items():
        if found["options"].get(key) != value:
            return f"other options ({key}: {found['options'].get(key)}, not {value})"
    return ""


def _make_part(part: Part, facts: dict[str, Any], answers: Inference, instances: Instances) -> None:
    with scratch_for(part.path.absolute()) as scratch:
        pieces: list[Path] = []
        for columns in _answer(part, answers, instances):
            pieces.append(scratch / f"{len(pieces)}.parquet")
            write_parquet(pieces[-1], columns, "rename what is no Unicode")
        made = scratch / part.path.name
        _join(pieces, made, scratch / "spill", facts, empty=not len(part))
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(part.path)
    sync_folder(part.path.parent)


def _answer(part: Part, answers: Inference, instances: Instances) -> Iterator[dict[str, Any]]:
    """The rows of a part, some at a time.

    They are read in the batches in which all instances would be read, for the sake of the last bits: at both ends some
    are answered that are not of the part. Of a part without rows there is a row nevertheless, for the types of columns.
    """
    batch, total = answers.predictor.count_together(answers.patterns), instances.total
    first, last = (part.first, part.last) if len(part) else (0, min(1, total))
    begin, end = first // batch * batch, min(total, -(-last // batch) * batch)
    shown = tqdm(total=len(part), unit=answers.run.data.level, disable=None if answers.progress else True, leave=False)
    with shown as bar:
        for inputs in instances.read(begin, end, batch * max(1, ROWS // batch)) if total else [np.arange(0)]:
            low, high = max(0, first - begin), min(len(inputs), last - begin)
            yield {name: values[low:high] for name, values in answers.predict(inputs).columns().items()}
            begin += len(inputs)
            bar.update(high - low)


# Parquet files, one after the other


def _scan(paths: list[Path]) -> str:
    files = ", ".join(file_literal(path) for path in paths)
    return f"SELECT * FROM read_parquet([{files}], hive_partitioning = false)"


def _join(
    paths: list[Path],
    out: Path,
    spill: Path | None = None,
    facts: dict[str, Any] | None = None,
    empty: bool = False,
) -> None:
    """Write the rows of some Parquet files into one, in order; `spill` is for what does not fit into memory."""
    kept = f", KV_METADATA {{gpm: {literal(json.dumps(facts))}}}" if facts else ""
    target = f"{literal(str(out.absolute()))} (FORMAT parquet, ROW_GROUP_SIZE {ROWS}{kept})"
    with connect(folder=spill) as base, reading(f"what becomes {out.name}"):
        base.execute(f"COPY ({_scan(paths)}{' LIMIT 0' if empty else ''}) TO {target}")


def _blocks(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """The columns of some Parquet files, in order and some rows at a time; at least one block, if without rows."""
    with connect() as base, reading(str(paths[0].parent)):
        base.execute(_scan(paths))
        frame = base.fetch_df_chunk(_VECTORS)
        while True:
            columns = {str(name): column.to_numpy() for name, column in frame.items()}
            yield {name: values.tolist() if values.dtype.kind == "O" else values for name, values in columns.items()}
            if not len(frame := base.fetch_df_chunk(_VECTORS)):
                return


def _read_facts(base: duckdb.DuckDBPyConnection, path: Path) -> dict[str, Any]:
    """What a part was made from."""
    file = file_literal(path)
    with reading(str(path)):
        found = base.execute(f"SELECT value FROM parquet_kv_metadata({file}) WHERE key = 'gpm'").fetchall()
        rows = base.execute(f"SELECT num_rows FROM parquet_file_metadata({file})").fetchall()
    try:
        facts = json.loads(found[0][0])
        whole = facts["format"] == FORMAT and facts["version"] == VERSION and isinstance(facts["options"], dict)
        first, last = share_out(facts["total"], *check_shard(facts["shard"], facts["of"]))
        if whole and rows[0][0] == last - first:
            return dict(facts)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        pass
    raise GpmError(f"{path} is no part that gpm predict --shard wrote; remove it.")


# Merging


def merge_shards(folder: str | Path, out: str | Path, run: Run | None = None) -> int:
    """Put the parts of all shards into one table, in order; returns the number of rows.

    Args:
        folder: Where the parts are.
        out: The table to write: .parquet, .csv, .tsv or .jsonl.
        run: Refuse parts of another run than this.
    """
    folder, out = Path(folder), Path(out)
    check_table(out)
    paths = find_parts(folder)
    with connect() as base:
        known = [_read_facts(base, path) for path in paths]
    for path, facts in zip(paths, known, strict=True):
        if part_path(folder, facts["shard"], facts["of"]) != path:
            raise GpmError(f"{path} holds shard {facts['shard']} of {facts['of']}; give it back its name.")
        if other := _compare(facts, known[0]):
            raise GpmError(f"{path} is of {other} beside {paths[0].name}; make it again with --overwrite.")
    if run is not None and known[0]["run"] != _digest_run(run):
        raise GpmError(f"the parts in {folder} are of another run than {run.folder}; name the run that made them.")
    with replacing(out) as scratch:
        if out.suffix.lower() == ".parquet":
            _join(paths, scratch)
        else:
            write_blocks(scratch, _blocks(paths))
    return int(known[0]["total"])


def find_parts(folder: Path) -> list[Path]:
    """The parts of all shards in a folder, in order; a sentence says which are missing."""
    if not folder.is_dir():
        raise GpmError(f"there is no folder {folder}; gpm predict RUN -o {folder} --shard 0/100 makes one.")
    names = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    found = {(int(name[2]), int(name[1])): folder / name[0] for name in names if name}
    counts = sorted({count for count, _ in found})
    if not counts:
        raise GpmError(f"{folder} holds no parts; gpm predict RUN -o {folder} --shard 0/100 makes the first of 100.")
    if len(counts) > 1:
        listed = _list([f"{count}" for count in counts])
        raise GpmError(f"{folder} holds parts of {listed} shards; remove those that do not belong together.")
    count = counts[0]
    if missing := [index for index in range(count) if (count, index) not in found]:
        which = f"part {missing[0]} of {count} is" if len(missing) == 1 else f"parts {_list(missing)} of {count} are"
        raise GpmError(f"{which} missing in {folder}: run --shard {missing[0]}/{count}.")
    return [found[count, index] for index in range(count)]


def _list(words: list[Any], most: int = 12) -> str:
    shown = [str(word) for word in words[:most]] + ([f"{len(words) - most} more"] if len(words) > most else [])
    return " and ".join([*([", ".join(shown[:-1])] if len(shown) > 1 else []), shown[-1]])
