from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import gpm
from gpm import Config, GpmError, WalkRule
from gpm.config import OutputOptions, RankOptions, divide_options, option_names, option_range, rename_nodes


def test_defaults_are_valid_and_plain() -> None:
    config = Config()
    assert (config.layers, config.heads, config.width) == (1, 4, 64)
    assert (config.lengths, config.patterns, config.pool) == ([0, 1, 4, 8], 16, 128)
    assert yaml.safe_load(yaml.safe_dump(config.to_dict())) == config.to_dict()
    assert list(config.to_dict()) == option_names()


@pytest.mark.parametrize(
    ("size", "shape"),
    [("xs", (1, 4, 64)), ("s", (1, 4, 256)), ("m", (3, 4, 256)), ("l", (3, 8, 512)), ("xl", (3, 16, 1024))],
)
def test_sizes_are_those_of_the_paper(size: str, shape: tuple[int, int, int]) -> None:
    config = Config(size=size)  # type: ignore[arg-type]
    assert (config.layers, config.heads, config.width) == shape


def test_what_is_named_goes_before_the_size() -> None:
    config = Config(size="l", width=96)
    assert (config.layers, config.heads, config.width) == (3, 8, 96)


def test_a_new_size_replaces_the_shape_and_nothing_else() -> None:
    config = Config(size="xs", width=32, heads=2, epochs=7)
    larger = config.with_(size="m")
    assert (larger.layers, larger.heads, larger.width) == (3, 4, 256)
    assert larger == Config(size="m", epochs=7)
    kept = config.with_(size="m", width=128)
    assert (kept.layers, kept.heads, kept.width) == (3, 4, 128)
    assert config.with_(lr=0.1).width == 32
    assert config.width == 32


def test_a_config_comes_back_from_its_values() -> None:
    config = Config(data="karate", size="s", lengths=[2, 5], lr=0.25, readout="class", fusion=True, seed=2**63 - 1)
    assert Config.from_dict(config.to_dict()) == config
    assert Config.from_dict(yaml.safe_load(yaml.safe_dump(config.to_dict()))) == config


@pytest.mark.parametrize("name", [name for name in option_names() if option_range(name)])
def test_every_range_holds_at_its_ends_and_not_beyond(name: str) -> None:
    low, high = option_range(name) or (0, 0)
    kind = type(getattr(Config(), name))
    step = 1 if kind is int else 1e-6
    for outside in (low - step, high + step * max(1, high)):
        with pytest.raises(GpmError, match=f"^{name} must lie between {low} and {high}, got "):
            Config(**{name: kind(outside)})
    beside = {"patterns": {"pool": 10**6}, "pool": {"patterns": 1, "lengths": [2]}}
    beside |= {"path_heads": {"width": 1024, "heads": 1}, "heads": {"width": 1024}}
    beside |= {"val_patterns": {"pool": 10**6}, "width": {"heads": 1}}
    for inside in (low, high) if name != "patterns" else (4, high):
        assert getattr(Config(**{name: kind(inside)} | beside.get(name, {})), name) == inside


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": 30}, r"width \(30\) must be a multiple of heads \(4\)"),
        ({"width": 32, "path_heads": 3}, r"width \(32\) must be a multiple of path_heads \(3\)"),
        ({"patterns": 3}, r"patterns \(3\) must lie between the number of lengths \(4\) and the pool \(128\)"),
        ({"patterns": 200}, r"patterns \(200\) must lie between"),
        ({"val_patterns": 2}, "val_patterns must be 0 or lie between the number of lengths and the pool, got 2"),
        ({"val_patterns": 129}, "val_patterns must be 0 or lie between"),
        ({"lengths": []}, r"lengths must be one or more different numbers, got \[\]"),
        ({"lengths": [4, 4]}, r"lengths must be one or more different numbers, got \[4, 4\]"),
        ({"lengths": [-1]}, r"lengths must lie between 0 and 63, got \[-1\]"),
        ({"lengths": [64]}, r"lengths must lie between 0 and 63, got \[64\]"),
        ({"p": 0}, "p must lie between 1e-06 and 1000000, got 0"),
        ({"q": 1e4}, "q must lie between 0.001 and 1000, got 10000"),
        ({"p": 2.0, "non_backtracking": True}, "p = 2.0 weighs turning back, which non_backtracking forbids"),
        ({"topology": "shape", "anonymous": "mean"}, "The topology shape has no order for --anonymous mean to read"),
        ({"lr": float("nan")}, "lr must lie between 0 and 100, got nan"),
        ({"readout": "clas"}, r"readout must be one of mean, class, sum, got 'clas'\. Did you mean 'class'\?"),
        (
            {"topology": "shapes"},
            r"topology must be one of loops, induced, shape, refined, got 'shapes'\. Did you mean 'shape'",
        ),
        ({"precision": 16}, "precision must be one of 32-true, bf16-mixed, 16-mixed, got 16"),
        ({"epoch": 3}, r"^There is no option 'epoch'\. Did you mean 'epochs'\?"),
        ({"zzz": 3}, r"^There is no option 'zzz'\.$"),
        ({3: 3}, "There is no option 3"),
    ],
)
def test_each_rule_has_its_sentence(options: dict[Any, Any], sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        Config.from_dict(options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epochs": True}, "epochs must be of type int, got True"),
        ({"epochs": 2.0}, "epochs must be of type int, got 2.0"),
        ({"epochs": "2"}, "epochs must be of type int, got '2'"),
        ({"width": "wide"}, "width must be of type int, got 'wide'"),
        ({"lr": True}, "lr must be of type float, got True"),
        ({"lr": "fast"}, "lr must be of type float, got 'fast'"),
        ({"lr": None}, "lr must be of type float, got None"),
        ({"fusion": 1}, "fusion must be of type bool, got 1"),
        ({"fusion": "yes"}, "fusion must be of type bool, got 'yes'"),
        ({"data": 5}, "data must be of type str, got 5"),
        ({"lengths": 4}, r"lengths must be a list, as in \[0, 1, 4, 8\], got 4"),
        ({"lengths": [1, 2.5]}, "lengths must be of type int, got 2.5"),
        ({"linear": [True]}, r"linear must be one of none, base, blend, got \[True\]"),
        ({"linear": 1}, "linear must be one of none, base, blend, got 1"),
    ],
)
def test_types_are_kept_apart(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        Config.from_dict(options)


def test_what_an_option_was_called_earlier_is_read() -> None:
    assert [Config.from_dict({"linear": value}).linear for value in (True, False, "blend")] == ["base", "none", "blend"]


def test_numbers_may_come_from_yaml_and_numpy() -> None:
    assert yaml.safe_load("lr: 5e-3") == {"lr": "5e-3"}  # what YAML makes of it
    config = Config.from_dict(yaml.safe_load("{lr: 5e-3, decay: 1, lengths: [0, 2]}"))
    assert (config.lr, config.decay, config.lengths) == (0.005, 1.0, [0, 2])
    swept = Config(lr=np.float64(0.01), dropout=np.float32(0.5), epochs=np.int64(3), lengths=(np.int32(2), 4))  # type: ignore[arg-type]
    assert swept == Config(lr=0.01, dropout=0.5, epochs=3, lengths=[2, 4])
    assert Config.from_dict(yaml.safe_load(yaml.safe_dump(swept.to_dict()))) == swept


def test_mistakes_name_where_they_stand() -> None:
    for values, sentence in (
        ({"widht": 3}, "a.yaml: There is no option 'widht'"),
        ({"width": 0}, "a.yaml: width must"),
    ):
        with pytest.raises(GpmError, match=f"^{sentence}"):
            Config.from_dict(values, "a.yaml")


@pytest.mark.parametrize(
    ("values", "column", "graph"),
    [
        ({"data": "acm", "target": "dblp"}, "", "dblp"),
        ({"data": "acm", "target": "dblp", "target_graph": "dblp"}, "", "dblp"),
        ({"data": "acm", "target_graph": "dblp"}, "", "dblp"),
        ({"data": "a/graph", "target": "b/graph.pt"}, "", "b/graph.pt"),
        ({"data": "molecules.csv", "target": "logp"}, "logp", ""),
        ({"data": "molecules.parquet", "smiles": "smiles", "target": "a,b"}, "a,b", ""),
        ({"target": "logp"}, "logp", ""),  # the data is not known yet
    ],
)
def test_a_target_is_a_column_or_another_graph(values: dict[str, str], column: str, graph: str) -> None:
    """Options that were written before there was `target_graph` name both by `target`."""
    config = Config.from_dict(values)
    assert (config.target, config.target_graph) == (column, graph)
    assert Config.from_dict(config.to_dict()) == config


def test_options_are_divided_among_their_classes() -> None:
    output, ranks, rest = divide_options({"seeds": 3, "machines": 2, "lr": 0.1}, OutputOptions, RankOptions)
    assert (output, ranks, rest) == (OutputOptions(seeds=3), RankOptions(machines=2), {"lr": 0.1})
    with pytest.raises(GpmError, match=r"^There is no option 'seds'\. Did you mean 'seeds'\?$"):
        divide_options({"seds": 3}, OutputOptions)
    with pytest.raises(GpmError, match=r"^seeds must be at least 1, got 0\.$"):
        OutputOptions(seeds=0)


def test_a_function_shows_the_options_that_it_accepts() -> None:
    parameters = inspect.signature(gpm.train).parameters
    assert parameters["dropout"].default == 0.3
    assert parameters["machines"].default == 1
    assert parameters["lengths"].default == [0, 1, 4, 8]
    assert "dropout: Dropout on patterns, inside the transformer and before the head. Between 0 and 0.99." in str(
        gpm.train.__doc__
    )


def test_a_number_of_computers_may_stand_in_nodes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    for nodes in (2, "2", Path("2")):
        assert rename_nodes({"nodes": nodes, "lr": 1.0}) == {"lr": 1.0, "machines": 2}
    assert len(caplog.messages) == 3
    assert "write --machines 2" in caplog.messages[0]
    table = tmp_path / "7"
    table.write_text("id\n")
    for other in (table, "nodes.csv", None, True):
        assert rename_nodes({"nodes": other}) == {"nodes": other}


def test_changes_are_what_differs() -> None:
    assert Config(epochs=5).changes({"epochs": 5, "lr": 0.1, "size": "xs"}) == ["lr"]


def test_the_rule_of_a_step_is_that_of_the_options() -> None:
    assert WalkRule.from_config(Config(p=0.5, q=2)) == WalkRule(p=0.5, q=2.0)
    assert WalkRule.from_config(Config(non_backtracking=True)) == WalkRule(non_backtracking=True)
