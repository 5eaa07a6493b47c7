"""Options under fire: dicts, YAML and command lines."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from random import Random
from typing import Any, get_args, get_type_hints

import numpy as np
import yaml

from fuzzing.judge import ERROR, SUCCESS, WrongAnswerError, attempt, check_nothing_left, command, listing
from fuzzing.mutate import NUMBERS, WORDS, mutate
from gpm.config import Config, option_names, option_range
from gpm.io.run_files import read_config, write_config
from gpm.training.recipes import find_recipe, read_recipe, recipe_names

HINTS = get_type_hints(Config)
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, math.nan, math.inf, -math.inf, 10**9, 2**63, 2**64, -(2**63), 10**400, 10**5000, 1e308, 1e-320,
    "", "0", "1", "nan", "inf", "1e400", "auto", "none", "yes", [], [1], [0, 1, 4, 8], [1, 1], [-1], ["a"], [[1]], {}, {"a": 1}, (), (1, 2),
    b"x", np.int64(3), np.float32(0.5), np.array([1, 2]), np.nan, 1 + 2j, "a" * 5000, [0] * 1000, range(3), "10-fold", "60/20/20", Path("x"),
]  # fmt: skip
COMMANDS: list[tuple[str, list[str]]] = [
    ("train", ["no-such-data"]), ("train", []), ("evaluate", ["no-such-run"]), ("predict", ["no-such-run"]), ("embed", ["no-such-run"]),
    ("import", []), ("import", ["no.csv"]), ("doctor", ["no-such-run"]), ("recipes", []), ("data", []), ("export", ["no-such-run"]),
    ("explain", ["no-such-run"]), ("patterns", ["no-such-data"]), ("tune", ["no-such-data"]), ("trian", []), ("", []),
]  # fmt: skip
FLAGS = [
    "--out", "-o", "--nodes", "--target", "--seeds", "--lr", "--lengths", "--epochs", "--size", "--split", "--resume", "--part", "--graph",
    "--task", "--quiet", "--schema", "--patterns", "--device", "--pairs", "--on", "--new", "--name", "--help", "--version", "--no-such", "-x",
    "--memory", "--like", "--show", "--recipe", "--trials", "--time", "--config", "--print_shtab", "--", "-", "---", "--=", "--lr.x",
    "--source", "--run", "--folder", "--directed", "--unlisted", "--data", "--non-backtracking", "--folds", "--threads",
]  # fmt: skip


def run(random: Random, folder: Path) -> str:
    """Make options, read them and judge the answer."""
    kinds = [_run_dict, _run_dict, _run_dict, _run_yaml, _run_yaml, _run_yaml, _run_recipe, _run_recipe, _run_words]
    return random.choice(kinds)(random, folder)


def values_for(random: Random, name: str) -> Any:
    """A value for an option: of its type, or of any other."""
    if random.random() < 0.4:
        return random.choice(VALUES)
    hint = HINTS.get(name)
    if choices := [choice for choice in get_args(hint) if isinstance(choice, str)]:
        return random.choice(choices)
    if hint is bool:
        return random.random() < 0.5
    if hint is str:
        return random.choice(["", "auto", "cora", "60/20/20", *WORDS])
    if hint == list[int]:
        return sorted(random.sample(range(60), random.randint(0, 5)))
    low, high = option_range(name) or (0, 10)
    edge = random.choice([low, high, low - 1, high + 1, random.uniform(low, min(high, 100))])
    return float(edge) if hint is float and random.random() < 0.8 else int(edge)


def _dict(random: Random) -> dict[Any, Any]:
    names = random.sample(option_names(), random.choice([0, 1, 1, 2, 3, 8]))
    given: dict[Any, Any] = {name: values_for(random, name) for name in names}
    if random.random() < 0.1:
        given[random.choice(["lrr", "", "__init__", 1, None, "self", ("a",), "size "])] = random.choice(VALUES)
    return given


def _run_dict(random: Random, folder: Path) -> str:
    given = _dict(random)
    config, sentence = attempt(lambda: Config.from_dict(given, random.choice(["", "a.yaml"])))
    if sentence:
        return ERROR
    check_config(config, given)
    path = folder / "config.yaml"
    write_config(path, config)
    again, sentence = attempt(lambda: read_config(path))
    if sentence or again != config:
        raise WrongAnswerError("wrong", f"{config} came back as {again or sentence}")
    return SUCCESS


def check_config(config: Config, given: dict[Any, Any]) -> None:
    """Every option is of its type, within its range, and what was given."""
    for field in dataclasses.fields(Config):
        value, hint = getattr(config, field.name), HINTS[field.name]
        if isinstance(value, float) and not math.isfinite(value):
            raise WrongAnswerError("wrong", f"{field.name} is {value}")
        if hint in (int, float, str, bool) and type(value) is not hint:
            raise WrongAnswerError("wrong", f"{field.name} is {value!r}, no {hint}")
        limits = option_range(field.name)
        if limits is not None and not limits[0] <= value <= limits[1]:
            raise WrongAnswerError("wrong", f"{field.name} is {value}")
        if field.name not in given:
            continue
        wanted = given[field.name]
        if isinstance(wanted, bool) and isinstance(value, str):
            wanted = "yes" if wanted else "no"
        if isinstance(value, float):
            wanted = float(wanted)
        if wanted is None and field.name in ("layers", "heads", "width"):
            continue
        if (list(wanted) if isinstance(value, list) else wanted) != value:
            raise WrongAnswerError("wrong", f"{field.name} was given as {wanted!r} and is {value!r}")


def _plain(value: Any) -> Any:
    """A value that YAML can hold."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, tuple, range)):
        return [_plain(one) for one in value]
    if type(value) is int and abs(value) > 10**4000:
        return 10**4000  # more digits than these Python does not write
    return str(value) if isinstance(value, (complex, Path, bytes)) else value


def _yaml(random: Random) -> str:
    given = {str(key): _plain(value) for key, value in _dict(random).items()}
    return str(yaml.safe_dump(given, sort_keys=False, default_flow_style=random.choice([None, True, False])))


def _run_yaml(random: Random, folder: Path) -> str:
    path = folder / "config.yaml"
    content = _yaml(random).encode()
    path.write_bytes(mutate(content, random) if random.random() < 0.7 else content)
    if random.random() < 0.05:
        path.write_bytes(_laughs())
    config, sentence = attempt(lambda: read_config(path))
    if sentence:
        return ERROR
    check_config(config, yaml.safe_load(path.read_text(encoding="utf-8")))
    return SUCCESS


def _laughs() -> bytes:
    lines = ["a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(10)]
    return "\n".join([*lines, "lengths: *k", "data: cora", ""]).encode()


def _run_recipe(random: Random, folder: Path) -> str:
    extras = "".join(
        random.choice(
            [f"{key}: {random.choice([*WORDS[:30], *NUMBERS, '[1, 2]', '{a: 1}', '[x, y]', '[.nan, .inf]'])}\n", ""]
        )
        for key in ("about", "note", "paper", "paper_result")
    )
    content = (
        f"data: {random.choice(['cora', 'x', '[1]', '', '7'])}\n" + extras + _yaml(random).replace("{}\n", "")
    ).encode()
    content = random.choice([content, mutate(content, random), _laughs(), content + b"x: " + b"[" * 3000])
    path = folder / "recipe.yaml"
    path.write_bytes(content)
    if random.random() < 0.5:
        recipe, sentence = attempt(lambda: find_recipe(str(path)))
    else:
        text = content.decode("utf-8", "replace")
        recipe, sentence = attempt(lambda: read_recipe("recipe", text, "recipe.yaml"))
    if sentence:
        return ERROR
    known = {
        key: value for key, value in yaml.safe_load(content.decode("utf-8", "replace")).items() if key in option_names()
    }
    check_config(recipe.config, known)
    for figure in (recipe.paper_mean, recipe.paper_std):
        if figure is not None and type(figure) not in (int, float):
            raise WrongAnswerError("wrong", f"the paper's figure is {figure!r}")
    _, sentence = command(["recipes", str(path)])
    return SUCCESS


def _run_words(random: Random, folder: Path) -> str:
    """A command line that can only fail, or do something small."""
    name, words = random.choice(COMMANDS)
    words = [name, *(str(folder / word) if word.startswith("no") and random.random() < 0.5 else word for word in words)]
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        flag, value = (
            random.choice(FLAGS),
            random.choice([*WORDS, *NUMBERS, *recipe_names()[:2], "[1,2]", "{a: 1}", str(folder), "x.csv", "null"]),
        )
        words += random.choice([[flag], [flag, value], [f"{flag}={value}"], [value]])
    words = [word for word in words if "\0" not in word]
    if name == "train" and not set(words) & {"no-such-data", str(folder / "no-such-data")}:
        words = [word for word in words if word not in recipe_names()]  # which would be trained
    before = listing(folder)
    printed, _ = command(words)
    check_nothing_left(folder, before)
    return ERROR if printed is None else SUCCESS
