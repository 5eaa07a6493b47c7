"""The importer under fire: tables and network files of every kind that is read, right, spoiled and broken."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import yaml

from fuzzing.compare import check_import, expect
from fuzzing.judge import ERROR, SUCCESS, WrongAnswerError, attempt, check_nothing_left, command, listing
from fuzzing.mutate import mutate
from fuzzing.reference import (
    Network,
    RefusalError,
    Sheet,
    read_gml,
    read_node_link,
    read_records,
    read_text,
    read_xml,
    unpack,
)
from fuzzing.sheets import ENDS, Story, spoil, tell
from gpm import Graph
from gpm.data.tables.importer import import_tables

KINDS = ["text"] * 12 + ["jsonl"] * 3 + ["parquet"] * 2 + ["graphml", "gexf", "gml", "json", "pt", "folder", "bomb"]
_TEXTS = (".csv", ".tsv", ".txt", ".gz")
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'


def run(random: Random, folder: Path) -> str:
    """Make tables in a folder, import them and judge the answer."""
    kind = random.choice(KINDS)
    broken = random.random() < 0.5
    if kind == "bomb":
        return _run_bomb(random, folder)
    if kind == "pt":
        return _run_pyg(random, folder, broken)
    if kind in ("graphml", "gexf", "gml", "json"):
        return _run_network(kind, random, folder, broken)
    story = tell(random, plain=kind == "folder", task="link" if kind == "folder" else "")
    if kind == "folder":
        story.said["task"] = "link"  # a file each makes a collection
    if random.random() < (0.3 if broken else 0.6):
        spoil(story, random)
    files, options = _write(story, kind, random)
    if random.random() < 0.15 and kind != "folder":
        files["import.yaml"] = _schema(story, random)
        story.said["schema"] = folder / "import.yaml"
        story.said.pop("directed", None)
    if broken:
        story.valid = False
        name = random.choice([name for name in files if not name.endswith(".parquet")] or list(files))
        files[name] = mutate(files[name], random)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    tables = {key: folder / name for key, name in options["files"].items()}
    if not import_files(tables, story, random, folder):
        return ERROR
    if kind == "folder" or (kind == "parquet" and broken):
        _open(folder / "out")
        return SUCCESS
    check_story(folder, files, options, story, broken)
    return SUCCESS


def import_files(tables: dict[str, Path], story: Story, random: Random, folder: Path) -> bool:
    """Import in Python or by the command; nothing may be left of a refusal, and nothing right be refused."""
    before, out = listing(folder), folder / "out"
    edges, said = tables.pop("edges"), dict(story.said)
    if random.random() < 0.8 or "\0" in str(said.values()):
        _, sentence = attempt(lambda: import_tables(edges, out, **tables, **said))
    else:
        words = ["import", str(edges), "--out", str(out), "--quiet"]
        for key, value in (tables | said).items():
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{key}"] if one is True else [f"--{key}={one}"]
        _, sentence = command(words)
    if sentence:
        check_nothing_left(folder, before)
        if story.valid:
            raise WrongAnswerError("refused", sentence)
    elif {name for name in listing(folder) - before if not name.startswith("out")}:
        check_nothing_left(folder, before | {name for name in listing(folder) if name.startswith("out")})
    return not sentence


def _open(out: Path) -> Graph:
    """Use what was imported as a training would."""
    from gpm.data.sources import load_task_data
    from gpm.patterns.walks import walk

    graph, sentence = attempt(lambda: Graph.open(out))
    if sentence:
        raise WrongAnswerError("wrong", f"what was imported cannot be opened: {sentence}")
    data, _ = attempt(lambda: load_task_data(out))
    if data is not None:
        attempt(lambda: data.make_split(0))
    attempt(lambda: walk(graph, np.arange(graph.num_nodes), 0, 4))
    assert isinstance(graph, Graph)
    return graph


def check_story(folder: Path, files: dict[str, bytes], options: dict[str, Any], story: Story, broken: bool) -> None:
    """What was imported is what a second reader finds in the files; and that is what was written into them."""
    from gpm.graph.folder import read_extras

    _open(folder / "out")
    schema = read_extras(folder / "out")[0]["schema"]
    sheets: dict[str, Sheet] = {}
    for key, name in options["files"].items():
        try:
            sheets[key] = _reread(files[name], name, schema[key] or {}, story.sheets[key])
        except RefusalError as error:
            raise WrongAnswerError("wrong", f"{name} was imported, though it is no table: {error}") from None
        written = (
            [column.strip() if name.endswith(_TEXTS) else column for column in story.sheets[key].columns],
            [row for row in story.sheets[key].rows if any(row) or not name.endswith(_TEXTS)],
        )
        if not broken and (sheets[key].columns, sheets[key].rows) != written and not _is_moot(story, key, schema[key]):
            told = f"{sheets[key].columns} {sheets[key].rows[:2]}, not {written[0]} {written[1][:2]}"
            raise WrongAnswerError("wrong", f"{name} was read by other rules than it was written by: {told}")
    check_import(folder / "out", sheets)
    if "import.yaml" in files:
        _check_obeyed(files["import.yaml"], schema)
    if story.valid:
        expect(schema, story.sheets)


def _is_moot(story: Story, key: str, said: dict[str, Any]) -> bool:
    """Whether a spoiled header is taken for a row, or blanks that begin all cells for a part of the delimiter: both shown."""
    if story.valid:
        return False
    words = {name.strip().lower() for name in story.sheets[key].columns}
    usual = key != "edges" or any({a.lower(), b.lower()} <= words for a, b in ENDS)
    return (said.get("header") is False and not usual) or bool(said.get("trim"))


def _reread(content: bytes, name: str, said: dict[str, Any], sheet: Sheet) -> Sheet:
    if name.endswith(".jsonl"):
        return read_records(content)
    if name.endswith(".parquet"):
        return sheet
    return read_text(unpack(content, name), said)


# Files


def _write(story: Story, kind: str, random: Random) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The tables as files, and which file is which."""
    if kind == "folder":
        text = [_as_csv(story.sheets["edges"], ",", "\n").encode() for _ in range(2)]
        story.sheets = {"edges": story.sheets["edges"]}
        return {f"graphs/g{i}.csv": content for i, content in enumerate(text)}, {"files": {"edges": "graphs"}}
    files: dict[str, bytes] = {}
    listed: dict[str, str] = {}
    for key, sheet in story.sheets.items():
        name, content = _write_sheet(key, sheet, kind, random, story)
        files[name], listed[key] = content, name
    return files, {"files": listed}


def _write_sheet(key: str, sheet: Sheet, kind: str, random: Random, story: Story) -> tuple[str, bytes]:
    if kind == "jsonl":
        return f"{key}.jsonl", _as_records(sheet, random)
    if kind == "parquet":
        return f"{key}.parquet", _as_parquet(sheet, random)
    mark = random.choice([",", ",", ",", ";", "\t"])
    suffix = "tsv" if mark == "\t" and random.random() < 0.5 else "csv"
    blanks = story.plain and not any(" " in (c or " ") for row in (sheet.columns, *sheet.rows) for c in row)
    if blanks and random.random() < 0.2:
        mark, suffix = " ", "txt"
    ends = ["\n", "\n", "\n", "\r\n", "\r"]
    if any("\n" in (cell or "") for row in (sheet.columns, *sheet.rows) for cell in row):
        ends.remove("\r")  # a file with a line feed anywhere is taken to end its lines so
    end = random.choice(ends)
    text = _as_csv(sheet, mark, end, random.random() < 0.2 and mark != " ")
    above = random.choice(["", "", "", "\n", "# a comment\n\n"]).replace("\n", end)
    content = (above + text).encode("utf-8-sig" if random.random() < 0.2 else "utf-8", "surrogatepass")
    if random.random() < 0.1 and suffix != "txt":
        return f"{key}.{suffix}.gz", gzip.compress(content, mtime=0)
    return f"{key}.{suffix}", content


def _as_csv(sheet: Sheet, mark: str, end: str, quotes: bool = False) -> str:
    def write(cell: str | None) -> str:
        if not (cell and (quotes or any(c in cell for c in f'{mark}"\r\n'))):
            return cell or ""
        return '"' + cell.replace('"', '""') + '"'

    return "".join(mark.join(map(write, row)) + end for row in (sheet.columns, *sheet.rows))


def _is_whole(cells: list[str | None]) -> bool:
    return all(cell is None or (cell.lstrip("-").isascii() and _whole(cell)) for cell in cells)


def _whole(cell: str) -> bool:
    return cell == "0" or (
        cell.lstrip("-").isdigit() and cell.lstrip("-")[0] != "0" and len(cell) < 18 and cell.count("-") < 2
    )


def _as_records(sheet: Sheet, random: Random) -> bytes:
    numbers = {
        at: _is_whole([row[at] for row in sheet.rows]) and random.random() < 0.5 for at in range(len(sheet.columns))
    }
    lines = []
    for row in sheet.rows:
        values = {
            name: int(row[at]) if numbers[at] and row[at] is not None else row[at]  # type: ignore[arg-type]
            for at, name in enumerate(sheet.columns)
            if row[at] is not None or random.random() < 0.5
        }
        lines.append(json.dumps(values, ensure_ascii=random.random() < 0.3))
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    try:  # keys of the first object come first, as it is documented
        found = read_records(content)
        sheet.columns, sheet.rows = found.columns, found.rows
    except RefusalError:
        pass
    return content


def _as_parquet(sheet: Sheet, random: Random) -> bytes:
    import tempfile

    import duckdb
    import pandas as pd

    once = {name: at for at, name in reversed(list(enumerate(sheet.columns))) if name}  # a file has no two of a name
    sheet.rows = [[row[at] for at in sorted(once.values())] for row in sheet.rows]
    sheet.columns = [sheet.columns[at] for at in sorted(once.values())]
    frame = pd.DataFrame(index=range(len(sheet.rows)))
    for at, name in enumerate(sheet.columns):
        cells = [row[at] for row in sheet.rows]
        way = random.choice(["text", "number"]) if _is_whole(cells) else "text"
        if way == "number" and any(cells):
            frame[name] = pd.array([None if cell is None else int(cell) for cell in cells], dtype="Int64")
            for row in sheet.rows:
                row[at] = None if row[at] is None else str(int(row[at]))  # type: ignore[arg-type]
        else:
            frame[name] = pd.array(cells, dtype=pd.StringDtype("python"))
    path = Path(tempfile.gettempdir()) / "made.parquet"
    try:
        with duckdb.connect() as base:
            base.register("made", frame)
            base.execute(f"COPY made TO '{path}' (FORMAT parquet)")
        return path.read_bytes()
    except duckdb.Error:  # a name that cannot be written
        return b""
    finally:
        path.unlink(missing_ok=True)


def _schema(story: Story, random: Random) -> bytes:
    """A YAML that says what some columns are; sometimes wrong."""
    roles = ["source", "target", "weight", "graph", "feature", "ignore", "id", "split", "edge"]
    said: dict[str, Any] = {"format": "gpm-import", "version": 1}
    for key, values in (
        ("task", ["auto", "node", "link", "graph", "x"]), ("directed", [True, False, "no"]),
        ("duplicates", ["merge", "keep"]), ("self_loops", ["keep", "drop"]), ("unlisted", ["error", "add", "drop"]),
    ):  # fmt: skip
        if random.random() < 0.25:
            said[key] = random.choice(values)
            story.valid &= key not in ("task", "directed", "unlisted")
    for name, sheet in story.sheets.items():
        columns: dict[str, Any] = {}
        for column in sheet.columns:
            if random.random() < 0.15:
                columns[column] = {"role": random.choice(roles)}
                story.valid = False
                if random.random() < 0.5:
                    columns[column]["kind"] = random.choice(["number", "flag", "category", "text", "date", "x"])
                if random.random() < 0.2:
                    columns[column] |= random.choice(
                        [{"values": ["red", "a"]}, {"buckets": 10**9}, {"why": "so"}, {"buckets": 7}]
                    )
        if random.random() < 0.5:
            said[name] = {"columns": columns}
    text = yaml.safe_dump(said, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")
    return mutate(text, random) if not story.valid and random.random() < 0.3 else text


def _check_obeyed(content: bytes, schema: dict[str, Any]) -> None:
    """What a YAML says of a column is what became of it."""
    try:
        said = yaml.load(content.decode("utf-8-sig"), yaml.BaseLoader) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongAnswerError("wrong", f"import.yaml was obeyed, though it is none: {error}") from None
    for key in ("task", "duplicates", "self_loops", "unlisted"):
        if said.get(key, "auto") not in ("auto", schema[key]):
            raise WrongAnswerError("wrong", f"import.yaml says {key}: {said[key]}, but it was {schema[key]}")
    for table in ("edges", "nodes", "graphs"):
        columns = (said.get(table) or {}).get("columns") or {} if isinstance(said.get(table) or {}, dict) else {}
        for name, entry in columns.items():
            became = schema[table]["columns"][name]
            for key in ("role", "kind"):
                given = entry.get(key, "")
                if given not in ("", "null", "~", became.get(key, "")) and became["role"] != "ignore":
                    raise WrongAnswerError("wrong", f"import.yaml says {name}: {entry}, but it was {became}")


# Network files


READERS: dict[str, Callable[[bytes], Network]] = {
    "graphml": read_xml, "gexf": read_xml, "gml": read_gml, "json": read_node_link,
}  # fmt: skip


def _run_network(kind: str, random: Random, folder: Path, broken: bool) -> str:
    story = tell(random, plain=kind == "gml", task="link")
    edges = [(row[0] or "", row[1] or "") for row in story.sheets["edges"].rows]
    clean = {
        name: "".join(c for c in name if c.isprintable() and ord(c) < 0x1_0000) or "x"
        for pair in edges
        for name in pair
    }
    nodes = list(dict.fromkeys(clean.values()))
    edges = [(clean[a], clean[b]) for a, b in edges]
    if not broken and random.random() < 0.5:
        way = random.choice(["unlisted", "node", "edge"])
        edges += [("new", nodes[0])] if way == "unlisted" else [edges[0]] if way == "edge" else []
        nodes += [nodes[0]] if way == "node" else []
        story.valid = way == "edge"
    labels = [random.choice(["red", "blue"]) for _ in nodes]
    directed = random.random() < 0.3
    content = _as_network(kind, nodes, edges, labels, directed).encode("utf-8")
    if broken:
        story.valid = False
        laugh = kind in ("graphml", "gexf") and random.random() < 0.1
        content = content.replace(b"?>\n", b"?>\n" + LAUGHS.encode(), 1) if laugh else mutate(content, random)
    (folder / f"network.{kind}").write_bytes(content)
    story.said = {"target": ["colour"], "task": "node"} if len(set(labels)) > 1 and random.random() < 0.5 else {}
    if not import_files({"edges": folder / f"network.{kind}"}, story, random, folder):
        return ERROR
    _check_network(READERS[kind], content, _open(folder / "out"))
    return SUCCESS


def _as_network(kind: str, nodes: list[str], edges: list[tuple[str, str]], labels: list[str], directed: bool) -> str:
    way, number = "directed" if directed else "undirected", {name: place for place, name in enumerate(nodes)}
    if kind == "json":
        listed = [{"id": name, "colour": label} for name, label in zip(nodes, labels, strict=True)]
        return json.dumps(
            {"directed": directed, "nodes": listed, "links": [{"source": a, "target": b} for a, b in edges]}
        )
    if kind == "gml":
        text = f"graph [\n  directed {int(directed)}\n"
        text += "".join(
            f'  node [\n    id {i}\n    label "{escape(name)}"\n    colour "{labels[i]}"\n  ]\n'
            for i, name in enumerate(nodes)
        )
        return (
            text
            + "".join(f"  edge [ source {number.get(a, 99)} target {number.get(b, 99)} ]\n" for a, b in edges)
            + "]\n"
        )
    if kind == "graphml":
        text = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        text += f'<key id="d0" for="node" attr.name="colour" attr.type="string"/>\n<graph edgedefault="{way}">\n'
        text += "".join(
            f'<node id={quoteattr(name)}><data key="d0">{label}</data></node>\n'
            for name, label in zip(nodes, labels, strict=True)
        )
        lines = (f"<edge source={quoteattr(a)} target={quoteattr(b)}/>\n" for a, b in edges)
        return text + "".join(lines) + "</graph>\n</graphml>\n"
    text = '<?xml version="1.0" encoding="UTF-8"?>\n<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">\n'
    text += f'<graph defaultedgetype="{way}"><attributes class="node"><attribute id="0" title="colour" type="string"/></attributes>\n<nodes>\n'
    for name, label in zip(nodes, labels, strict=True):
        text += f'<node id={quoteattr(name)} label={quoteattr(name)}><attvalues><attvalue for="0" value="{label}"/></attvalues></node>\n'
    text += "</nodes>\n<edges>\n"
    text += "".join(f'<edge id="{i}" source={quoteattr(a)} target={quoteattr(b)}/>\n' for i, (a, b) in enumerate(edges))
    return text + "</edges>\n</graph>\n</gexf>\n"


def _check_network(read: Callable[[bytes], Network], content: bytes, graph: Graph) -> None:
    try:
        nodes, edges = read(content)
    except RefusalError as error:
        raise WrongAnswerError("wrong", f"it was imported, though it is no network: {error}") from None
    names = [str(graph.name(node)) for node in range(graph.num_nodes)]
    if names != nodes:
        raise WrongAnswerError("wrong", f"nodes are called {names[:8]} ({len(names)}), not {nodes[:8]} ({len(nodes)})")
    found = {(names[a], names[b]) for a, b in graph.edge_index().T.tolist()}
    if found | {(b, a) for a, b in found} != set(edges) | {(b, a) for a, b in edges}:
        raise WrongAnswerError("wrong", f"edges are not those of the file: {found ^ set(edges)}")


# PyG files, and what is small on disk only


def _run_pyg(random: Random, folder: Path, broken: bool) -> str:
    import torch
    from torch_geometric.data import Data

    nodes, edges = random.randint(4, 9), random.randint(4, 15)
    index = torch.tensor([[random.randrange(nodes) for _ in range(edges)] for _ in range(2)])
    data = Data(edge_index=index, x=torch.randn(nodes, 3), y=torch.arange(nodes) % 2)
    story = Story({})
    if random.random() < 0.5:
        story.valid = False
        nasty: list[Any] = [
            ("edge_index", index + random.choice([-5, nodes, 2**40])), ("edge_index", index.float()), ("edge_index", index.T),
            ("edge_index", None), ("x", torch.full((nodes, 3), float("nan"))), ("x", torch.zeros(nodes + 1, 2)),
            ("y", torch.full((nodes,), float("inf"))), ("y", torch.tensor([])), ("y", None), ("x", torch.zeros(nodes, 3, 3)),
            ("train_mask", torch.ones(2, dtype=torch.bool)), ("edge_attr", torch.zeros(1, 1)), ("num_nodes", 2**50), ("num_nodes", -1),
            ("x", "text"), ("y", [1, 2]), ("edge_index", index.to(torch.int8)), ("x", torch.zeros(nodes, 3, dtype=torch.complex64)),
            ("y", torch.full((nodes,), -1)), ("edge_weight", torch.full((edges,), -1.0)), ("edge_index", torch.zeros(3, edges, dtype=torch.long)),
        ]  # fmt: skip
        setattr(data, *random.choice(nasty))
    path = folder / "data.pt"
    torch.save(
        random.choice([data, data, [data, data], [data], {"data": data}, index]) if not story.valid else data, path
    )
    if broken:
        story.valid = False
        path.write_bytes(mutate(path.read_bytes(), random))
    before = listing(folder)
    _, sentence = command(["import", str(path), "--out", str(folder / "out")])
    if sentence:
        check_nothing_left(folder, before)
        if story.valid:
            raise WrongAnswerError("refused", sentence)
        return ERROR
    graph = _open(folder / "out")
    if story.valid and (set(map(tuple, graph.edge_index().T.tolist())) != set(map(tuple, index.T.tolist())) or
                        not np.array_equal(graph.x, data.x.numpy()) or graph.y.tolist() != data.y.tolist()):  # fmt: skip
        raise WrongAnswerError("wrong", "the graph is not that of the file")
    return SUCCESS


def _run_bomb(random: Random, folder: Path) -> str:
    """Small files that stand for much."""
    kind = random.choice(["long line", "zeros", "zip", "columns", "wide rows", "laughs", "json", "depth"])
    name, size = "edges.csv.gz", 2**27
    if kind == "long line":
        content = gzip.compress(b"source,target\n" + b"a" * size, 1)
    elif kind == "zeros":
        content = gzip.compress(b"\0" * size, 1)
    elif kind == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("archive/data/0", b"\0" * size)
            archive.writestr("archive/data.pkl", b"\x80\x02}.")
        name, content = "edges.pt", buffer.getvalue()
    elif kind == "columns":
        name, content = "edges.csv", b",".join(b"c%d" % i for i in range(25_000)) + b"\n"
    elif kind == "wide rows":
        name, content = "edges.csv", b"source,target\n" + b"a,b" + b",x" * 300_000 + b"\n"
    elif kind == "laughs":
        entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha"}">' for i in range(10))
        name, content = (
            "edges.graphml",
            f'<?xml version="1.0"?><!DOCTYPE g [{entities}]><graphml>&l9;</graphml>'.encode(),
        )
    elif kind == "json":
        name, content = "edges.jsonl", b'{"source": "a", "target": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    else:
        name, content = (
            "edges.graphml",
            b"<graphml><graph>" + b"<a>" * 200_000 + b"</a>" * 200_000 + b"</graph></graphml>",
        )
    (folder / name).write_bytes(content)
    before = listing(folder)
    _, sentence = command(["import", str(folder / name), "--out", str(folder / "out"), "--quiet"])
    if not sentence and kind != "json":  # a long text is a name like any other
        raise WrongAnswerError("wrong", f"a bomb of kind {kind} was imported")
    check_nothing_left(folder, before if sentence else listing(folder))
    return ERROR if sentence else SUCCESS
