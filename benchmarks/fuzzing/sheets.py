"""Small tables that are right, of which it is known what they say; and the ways in which their content goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from fuzzing.mutate import NUMBERS, WORDS
from fuzzing.reference import Sheet

ENDS = [("source", "target"), ("src", "dst"), ("from", "to"), ("Source", "Target"), ("u", "v"), ("node1", "node2")]
IDS = ["id", "node", "name", "ID", "node_id"]
NASTY = [
    "a", "b", "Zoë", "007", "01", "O'Neil", 'say "hi"', "a,b", "a;b", "x y", "line\nbreak", "cr\rlf", "tab\tin", "日本", "🎲🎲",
    "-1", "1.0", "1e5", "true", "none", "nul", "\\N", "=1+1", "a:b", "e\u0301", "x" * 200, "{}", "<b>", "&amp;", "%20", "b#", "'",
    "\u202eabc", "-", "0x1F", "2024-01-01", "NaN1", "a\\", "|", "*", "%s", "$1", "\u00df", "\u017f", "I", "\u0131",
]  # fmt: skip


@dataclass
class Story:
    """Tables and what is asked of them.

    Attributes:
        sheets: By name: edges, nodes, graphs.
        said: Arguments of `import_tables` besides the files.
        plain: No cell needs quotes.
        valid: Nothing is wrong, so that it must be imported.
    """

    sheets: dict[str, Sheet]
    said: dict[str, Any] = field(default_factory=dict)
    plain: bool = False
    valid: bool = True


def tell(random: Random, *, plain: bool = False, task: str = "") -> Story:
    """Make up tables for a task."""
    task = task or random.choice(["node", "node", "link", "graph"])
    plain = plain or random.random() < 0.4
    ids = _ids(random, random.randint(6, 14), plain)
    pairs = [(random.choice(ids), random.choice(ids)) for _ in range(random.randint(len(ids), 2 * len(ids)))]
    pairs += list(zip(ids, ids[1:] + ids[:1], strict=True))  # every node has an edge
    story = Story({"edges": Sheet(list(random.choice(ENDS)), [list(pair) for pair in pairs])}, {}, plain)
    if random.random() < 0.3:
        _add(story.sheets["edges"], "weight", [random.choice(["1", "2", "0.5", "0", "1e3", "0.25"]) for _ in pairs])
    if random.random() < 0.3:
        _add_features(story.sheets["edges"], random, random.randint(1, 2))
    if task == "graph":
        _tell_graphs(story, ids, random)
    elif task == "node" or random.random() < 0.4:
        order = random.sample(ids, len(ids))
        story.sheets["nodes"] = nodes = Sheet([random.choice(IDS)], [[name] for name in order])
        _add_features(nodes, random, random.randint(0, 4))
        if task == "node":
            story.said["target"] = _add_target(nodes, random)
        if task == "node" and random.random() < 0.3:
            parts = ["train", "val", "test", *random.choices(["train", "Train", "valid", "test", None], k=len(order))]
            _add(nodes, random.choice(["split", "part"]), parts[: len(order)])
    if random.random() < 0.2:
        story.said["directed"] = True
    return story


def _ids(random: Random, count: int, plain: bool) -> list[str]:
    kind = random.choice(["counted", "numbers", "words", "nasty"])
    if kind == "counted":
        return [str(i) for i in range(count)]
    if kind == "numbers":
        return [str(i) for i in random.sample(range(-50, 10**9), count)]
    if kind == "nasty" and not plain:
        return random.sample(NASTY, count)
    return [f"n{i}" for i in random.sample(range(1000), count)]


def _add(sheet: Sheet, name: str, cells: list[str | None]) -> None:
    sheet.columns.append(name)
    for row, cell in zip(sheet.rows, cells, strict=True):
        row.append(cell)


def _add_features(sheet: Sheet, random: Random, count: int) -> None:
    for i in range(count):
        kind = random.choice(["whole", "real", "colour", "flag", "day", "text", "holes", "bag"])
        cells: list[str | None] = []
        for row in range(len(sheet.rows)):
            real, whole = f"{random.uniform(-5, 5):.3f}", str(random.randint(-9, 99))
            colour, flag = random.choice(["red", "blue", "dark green"]), random.choice(["yes", "no"])
            day = f"20{random.randint(10, 24)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
            words = " ".join(random.choices(["walk", "path", "node", "edge", "tree"], k=5)) + f" {row}"
            hole = random.choice([real, None, "NA", whole])
            made = {
                "whole": whole,
                "real": real,
                "colour": colour,
                "flag": flag,
                "day": day,
                "text": words,
                "holes": hole,
            }
            cells.append(made.get(kind, random.choice(["0", "0", "0", "1"])))
        _add(sheet, f"{kind}{i}", cells)


def _add_target(sheet: Sheet, random: Random) -> list[str]:
    rows = len(sheet.rows)
    kind = random.choice(["class", "class", "class", "number", "several"])
    if kind == "class":
        cells = ["red", "blue", "red", *(random.choice(["red", "blue", None]) for _ in range(rows))][:rows]
        _add(sheet, "label", cells)
    elif kind == "number":
        _add(sheet, "label", [f"{i + random.random():.4f}" for i in range(rows)])
    else:
        for name in ("label1", "label2"):
            _add(sheet, name, ["0", "1", *(random.choice(["0", "1"]) for _ in range(rows))][:rows])
        return ["label1", "label2"]
    return ["label"]


def _tell_graphs(story: Story, ids: list[str], random: Random) -> None:
    """Cut the nodes into graphs; their ids differ over all, or only in a graph."""
    edges = story.sheets["edges"]
    graphs = [f"g{i}" for i in range(random.randint(3, 5))] if random.random() < 0.7 else [str(i) for i in range(4)]
    of = {name: graphs[place % len(graphs)] for place, name in enumerate(ids)}
    edges.rows = [row for row in edges.rows if of[row[0]] == of[row[1]]] or [[ids[0], ids[0], *edges.rows[0][2:]]]  # type: ignore[index]
    again = random.random() < 0.5
    if again:  # every graph has the nodes of the first
        first = [name for name in ids if of[name] == graphs[0]]
        edges.rows = [[a, b, *edges.rows[0][2:]] for g in graphs for a, b in zip(first, first, strict=True)]
        pairs = [(g, name) for g in graphs for name in first]
        _add(edges, "graph", [g for g in graphs for _ in first])
    else:
        pairs = [(of[name], name) for name in ids]
        if random.random() < 0.5:
            _add(edges, "graph", [of[row[0]] for row in edges.rows])  # type: ignore[index]
    random.shuffle(pairs)
    story.sheets["nodes"] = Sheet([random.choice(IDS), "graph"], [[name, g] for g, name in pairs])
    _add_features(story.sheets["nodes"], random, random.randint(0, 2))
    story.sheets["graphs"] = Sheet(["graph"], [[g] for g in random.sample(graphs, len(graphs))])
    story.said |= {"target": _add_target(story.sheets["graphs"], random), "task": "graph"}


# What goes wrong


def spoil(story: Story, random: Random) -> None:
    """Change the content of the tables, or what is asked of them, once or a few times."""
    story.valid = False
    for _ in range(random.choice([1, 1, 2, 3])):
        sheet = story.sheets[random.choice(list(story.sheets))]
        random.choice([_spoil_cell, _spoil_cell, _spoil_end, _spoil_rows, _spoil_columns, _spoil_column])(sheet, random)
        if random.random() < 0.2:
            _spoil_question(story, random)


def _spoil_cell(sheet: Sheet, random: Random) -> None:
    if sheet.rows:
        row = random.choice(sheet.rows)
        row[random.randrange(len(row))] = random.choice(WORDS + NUMBERS + NASTY) or None


def _spoil_end(sheet: Sheet, random: Random) -> None:
    if sheet.rows:
        row, other = random.choice(sheet.rows), random.choice(sheet.rows)
        at = random.randrange(min(2, len(row)))
        row[at] = random.choice([other[at], (other[at] or "") + " ", None, "new", other[-1]])


def _spoil_rows(sheet: Sheet, random: Random) -> None:
    if not sheet.rows:
        return
    way = random.choice(["double", "drop", "shuffle", "empty", "hollow", "many"])
    row = random.choice(sheet.rows)
    if way in ("double", "many"):
        sheet.rows += [list(row) for _ in range(1 if way == "double" else 200)]
    elif way == "drop":
        sheet.rows.remove(row)
    elif way == "shuffle":
        random.shuffle(sheet.rows)
    else:
        sheet.rows = [] if way == "empty" else [[None] * len(row), *sheet.rows]


def _spoil_columns(sheet: Sheet, random: Random) -> None:
    at = random.randrange(len(sheet.columns))
    way = random.choice(["drop", "double", "rename", "capitals", "swap", "add"])
    if way == "drop" and len(sheet.columns) > 1:
        del sheet.columns[at]
        for row in sheet.rows:
            del row[at]
    elif way == "double":
        _add(sheet, sheet.columns[at] + random.choice(["", " ", "2"]), [row[at] for row in sheet.rows])
    elif way in ("rename", "capitals"):
        new = random.choice([*WORDS, "source", "target", "id", "weight", "split", "graph", "1", "2.5", "column 1"])
        sheet.columns[at] = new if way == "rename" else sheet.columns[at].swapcase()
    elif way == "swap":
        for row in sheet.rows:
            row[0], row[-1] = row[-1], row[0]
    else:
        _add(sheet, random.choice(["weight", "graph", "split", "id", "more", "x"]), [None] * len(sheet.rows))


def _spoil_column(sheet: Sheet, random: Random) -> None:
    """Fill a column with one thing, or with many."""
    at = random.randrange(len(sheet.columns))
    word = random.choice([*WORDS, *NUMBERS])
    for place, row in enumerate(sheet.rows):
        row[at] = random.choice([word, f"{word}{place}", random.choice(NUMBERS), str(place)]) or None


def _spoil_question(story: Story, random: Random) -> None:
    names = [name for sheet in story.sheets.values() for name in sheet.columns]
    wrong = random.choice([*names, "labl", "", "--", "\0", "x" * 300])
    choices: dict[str, list[Any]] = {
        "target": [[wrong], wrong, [wrong, wrong], []], "task": ["auto", "node", "link", "graph", "edge", ""],
        "graph": [wrong], "split": [wrong, "60/20/20"], "directed": [True], "unlisted": ["add", "drop", "error", "no"],
        "memory": ["4GB", "1 elephant", "300MB", "-1GB"],
    }  # fmt: skip
    key = random.choice(list(choices))
    story.said[key] = random.choice(choices[key])
