"""Options of a run: each field is a flag, a key of a recipe and a keyword of `gpm.train`. Nothing heavy is imported."""

# ruff: noqa: RUF009 - a field is declared by a call of `option`
from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from gpm.errors import GpmError, nearest

Kind = Literal["loops", "induced", "shape", "refined"]  # what the topology of a pattern tells apart
UNORDERED: tuple[Kind, ...] = ("shape", "refined")  # topologies that do not tell the order of the visit
Linear = Literal["none", "base", "blend"]  # what becomes of the linear part of expected patterns
Tracker = Literal["none", "tensorboard", "wandb", "mlflow"]
Strategy = Literal["ddp", "fsdp"]
MAX_POSITIONS = 64  # a pattern's adjacency is one 64-bit word per node
# layers, heads, width
SIZES = {"xs": (1, 4, 64), "s": (1, 4, 256), "m": (3, 4, 256), "l": (3, 8, 512), "xl": (3, 16, 1024)}
_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl")  # files with columns
_log = logging.getLogger("gpm")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def option(
    default: Any,
    help: str,  # noqa: A002
    low: float | None = None,
    high: float | None = None,
    *,
    earlier: Mapping[bool, str] = MappingProxyType({}),
) -> Any:
    """Declare an option: its default, its help text, the range of a number, and what true and false meant earlier."""
    made = {"default_factory": lambda: list(default)} if isinstance(default, list) else {"default": default}
    return field(metadata={"help": help, "low": low, "high": high, "earlier": earlier}, **made)


@dataclass(frozen=True)
class Options:
    """Options that are checked when they are made."""

    def __post_init__(self) -> None:
        for name, (entry, hint) in declared(type(self)).items():
            value, earlier = getattr(self, name), entry.metadata["earlier"]
            value = _checked(name, earlier[value] if isinstance(value, bool) and value in earlier else value, hint)
            low, high = entry.metadata["low"], entry.metadata["high"]
            if value is not None and low is not None and not low <= value <= (math.inf if high is None else high):
                must = f"be at least {low}" if high is None else f"lie between {low} and {high}"
                raise GpmError(f"{name} must {must}, got {value}.")
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class PatternOptions(Options):
    """Patterns"""

    lengths: list[int] = option([0, 1, 4, 8], "Lengths of the walks. The patterns are divided evenly among them.")
    patterns: int = option(16, "Patterns per instance in a training step (m in the paper).", 1, 1_000_000)
    pool: int = option(128, "Patterns per instance (k in the paper). Inference uses all of them.", 1, 1_000_000)
    topology: Kind = option(
        "loops", "What the anonymous path encodes: revisits (loops, as in the paper), adjacency in the order of the "
        "walk (induced), the shape of the subgraph (shape), or the whole graph as seen from the walk (refined, for "
        "collections of small graphs).",
    )  # fmt: skip
    p: float = option(1.0, "Return parameter of node2vec.", 1e-6, 1_000_000)
    q: float = option(1.0, "In-out parameter of node2vec.", 1e-3, 1000)
    non_backtracking: bool = option(False, "Let walks turn back only at dead ends.")


@dataclass(frozen=True)
class ModelOptions(Options):
    """Model"""

    size: Literal["xs", "s", "m", "l", "xl"] = option(
        "xs", "Layers, heads and width by name: xs (1, 4, 64), s (1, 4, 256), m (3, 4, 256), l (3, 8, 512) or xl "
        "(3, 16, 1024).",
    )  # fmt: skip
    width: int | None = option(None, "Width of every embedding. Default: that of --size.", 1, 65_536)
    layers: int | None = option(
        None, "Transformer layers over patterns. Default: those of --size. For a baseline, message-passing layers, "
        "where 1 means 2, or 4 for graphs, or 8 for gcnii.", 1, 1000,
    )  # fmt: skip
    heads: int | None = option(None, "Attention heads over patterns. Default: those of --size.", 1, 1024)
    layer: Literal["residual", "literal"] = option(
        "residual", "Form of a transformer layer over patterns P: residual (P + Attn(norm(P)), then P + FFN(norm(P))) "
        "or literal (FFN(P + Attn(P)), as the paper writes it).",
    )  # fmt: skip
    ffn: float = option(2.0, "Feed-forward width of the transformer, as a multiple of the width.", 0.01, 64)
    path: Literal["transformer", "gru", "conv", "mean"] = option(
        "transformer", "Semantic path encoder: transformer, gru or mean as in the paper, or conv, which also sees the "
        "order of the steps.",
    )  # fmt: skip
    path_layers: int = option(1, "Layers of the semantic path encoder (transformer, gru or conv).", 1, 100)
    path_heads: int = option(1, "Attention heads of the semantic path encoder.", 1, 1024)
    path_ffn: float = option(2.0, "Feed-forward width of the path encoder, as a multiple of the width.", 0.01, 64)
    path_position: Literal["none", "learned"] = option("none", "Embedding of the position in a path.")
    anonymous: Literal["gru", "mean", "transformer", "none"] = option("gru", "Anonymous path encoder.")
    anonymous_weight: float = option(0.5, "Weight of the anonymous path (lambda in the paper).", -1000, 1000)
    learn_weight: bool = option(False, "Learn the weight of the anonymous path, starting at --anonymous_weight.")
    vocabulary: int = option(
        1024, "Shapes with an embedding of their own (--topology shape). Rarer ones share by hash.", 1, 10_000_000
    )
    features: Literal["auto", "degree", "constant"] = option(
        "auto", "Node features to read: auto (those of the data, or the logarithm of the degree if it has none), "
        "degree (one category per degree, in place of features) or constant (none).",
    )  # fmt: skip
    stars: bool = option(
        False, "Also read the star around a node (its edges and neighbours together) as one category. For features "
        "that are categories or one-hot, or for none.",
    )  # fmt: skip
    bag_of_words: Literal["auto", "yes", "no"] = option(
        "auto", "Read node features as word counts: damped by log(1 + x), each row scaled to unit length. auto does so "
        "for features that are mostly zero and never negative.",
    )  # fmt: skip
    pe: Literal["none", "lap", "rwse", "rings"] = option(
        "none", "Positional embedding of nodes: lap (Laplacian eigenvectors), rwse (return probabilities) or rings "
        "(closed non-backtracking walks by length).",
    )  # fmt: skip
    pe_dim: int = option(8, "Columns of the positional embedding.", 1, 1024)
    flip_signs: bool = option(
        True, "Flip the signs of Laplacian eigenvectors (--pe lap) at random in training: eigenvectors have no sign."
    )
    scale_inputs: bool = option(True, "Scale node features, edge features and positional embeddings to unit variance.")
    expected: int = option(
        0, "Steps of expected patterns: the exact mean of the features over all walks of 0, 1, ... up to this many "
        "steps, a token each; for links of both ends without the link, at most 3. 0: none.", 0, 8,
    )  # fmt: skip
    labels: Literal["auto", "on", "off"] = option(
        "off", "Known labels as inputs: nodes on a walk carry the label that they have in the training split, and a "
        "token has the mean of the known labels around a node. A node's own label is never shown to it. Networks "
        "(--model gcn) read them as further inputs of nodes.",
    )  # fmt: skip
    structure: bool = option(
        False,
        "Add a token with the degree, core number, clustering and return probabilities of a node; for links, with "
        "degrees, common neighbours and paths of three steps of a pair, without its own edge.",
    )
    position: int = option(0, "Add a token with this many Laplacian eigenvectors. 0: none. For nodes.", 0, 1024)
    neighbourhoods: int = option(
        0, "Count in each graph how often each neighbourhood of 1, 2, ... up to this many steps occurs, for the linear "
        "part (--linear). For graphs whose node features are categories or one-hot, or that have none. 0: none.", 0, 8,
    )  # fmt: skip
    frequencies: int = option(
        0, "Walks per graph whose topologies (--topology) are counted, for the linear part (--linear): far more than a "
        "network reads, since they cost little. For graphs. 0: none.", 0, 10_000_000,
    )  # fmt: skip
    descriptors: bool = option(
        False, "Add a token with properties of a molecule that RDKit computes from its SMILES, such as weight, logP "
        "and polar surface. For molecules given as SMILES.",
    )  # fmt: skip
    linear: Linear = option(
        "none", "Linear model of the expected patterns, fitted in closed form: base (added to the logits; training "
        "starts from it) or blend (mixed with the trained model; the validation split chooses the share). For nodes "
        "and graphs.", earlier={True: "base", False: "none"},
    )  # fmt: skip
    readout: Literal["mean", "class", "sum"] = option(
        "mean", "Readout of an instance: the mean of its patterns, a learned class token (whose attention weighs the "
        "patterns), or, for graphs, the mean times the number of nodes (sum).",
    )  # fmt: skip
    fusion: bool = option(False, "Add the patterns, weighted by a learned attention, to the readout.")
    head: Literal["linear", "mlp"] = option(
        "linear", "Prediction head: one linear layer, or two with a ReLU between (mlp). Links always have two."
    )
    pair: Literal["joint", "product"] = option(
        "joint", "How the endpoints of a link are combined: joint (one set of patterns, marked by where they meet) or "
        "product (of the two embeddings, as in the paper).",
    )  # fmt: skip
    dropout: float = option(0.3, "Dropout on patterns, inside the transformer and before the head.", 0, 0.99)
    feature_dropout: float = option(0.0, "Dropout on the entries of node features.", 0, 0.99)
    gnn_norm: Literal["auto", "none", "batch", "layer"] = option(
        "auto", "Baselines only: norm after each layer. auto: batch for graphs, none for nodes and links."
    )
    gnn_residual: Literal["auto", "none", "identity", "linear"] = option(
        "auto", "Baselines only: add the input of a layer to its output, as it is (identity) or after a linear map of "
        "its own, before the norm (linear). auto: linear for nodes, identity for links, none for graphs.",
    )  # fmt: skip
    gnn_jump: Literal["none", "cat", "max"] = option(
        "none", "Baselines only: jumping knowledge. The head reads the outputs of all layers, concatenated (cat) or by "
        "their maximum (max), instead of the last one.",
    )  # fmt: skip


@dataclass(frozen=True)
class TrainOptions(Options):
    """Training"""

    preset: Literal["auto", "fast", "best", "plain", "paper"] = option(
        "auto", "How to choose the options that are not given. Where there is no recipe: from the data (auto), for a "
        "quick result (fast), for a long training (best), or the fixed defaults (plain). paper: the model and training "
        "of the paper, with its hyper-parameters for the dataset if the recipe has them.",
    )  # fmt: skip
    seed: int = option(0, "Seed of the split, the weights, the patterns and the dropout.", 0, 2**63 - 1)
    split: str = option(
        "auto", "given (your own split: masks or a split column), public (the split published with the dataset), or "
        "shares of train, validation and test such as 60/20/20; for graphs also folds such as 10-fold (--seed chooses "
        "one) and, for molecules, scaffold. auto takes your own split or the usual one of the dataset.",
    )  # fmt: skip
    metric: Literal[
        "auto", "accuracy", "roc_auc", "f1", "mae", "rmse", "hits@20", "hits@50", "hits@100", "mrr", "ap"
    ] = option(
        "auto", "Metric to report and to select epochs by. auto takes the usual metric of the dataset; for your own "
        "data in which fewer than a tenth are of some class, ap (two classes) or f1 (more).",
    )  # fmt: skip
    select: Literal["metric", "loss", "last"] = option(
        "metric", "Keep the epoch with the best validation metric, with the lowest, less noisy validation loss, or the "
        "last one.",
    )  # fmt: skip
    epochs: int = option(60, "Maximum number of epochs.", 1, 1_000_000)
    epoch_steps: int = option(0, "Steps per epoch. 0: one pass over the training split.", 0, 10**12)
    patience: int = option(0, "Stop after this many epochs without improvement. 0: never stop early.", 0, 1_000_000)
    batch: int = option(256, "Instances per step, over all ranks.", 1, 10_000_000)
    accumulate: int = option(1, "Micro-batches per step, to save memory. The result is the same.", 1, 100_000)
    checkpointing: bool = option(False, "Recompute activations in the backward pass: less memory, more time.")
    lr: float = option(5e-3, "Peak learning rate of AdamW.", 0, 100)
    schedule: Literal["cosine", "constant", "noam"] = option(
        "cosine", "Learning rate after the warm-up: cosine (to zero at the last epoch), constant, or noam (step^-0.5)."
    )
    warmup: int = option(100, "Steps of linear warm-up, at most a fifth of all steps.", 0, 10_000_000)
    decay: float = option(0.01, "Weight decay.", 0, 100)
    loss: Literal["cross_entropy", "focal"] = option(
        "cross_entropy", "Loss of classes and yes-or-no labels: cross_entropy, or focal (gamma 2), in which instances "
        "that are predicted well count less.",
    )  # fmt: skip
    class_weight: Literal["none", "balanced"] = option(
        "none", "Weight of a class in the loss: none (every instance counts the same) or balanced (every class counts "
        "the same, as often as it occurs in the training split).",
    )  # fmt: skip
    smoothing: float = option(0.05, "Label smoothing.", 0, 0.99)
    clip: float = option(1.0, "Maximum norm of the gradient.", 1e-9, 1e9)
    average: int = option(0, "Average the weights over about this many last epochs. 0: no averaging.", 0, 1_000_000)
    val_patterns: int = option(0, "Patterns per instance in validation. 0 chooses by cost.", 0, 1_000_000)
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = option("32-true", "Floating-point precision of training.")
    compile: bool = option(False, "Compile the model with torch.compile.")


@dataclass(frozen=True)
class ShiftOptions(Options):
    """Distribution shift from a source graph to a target graph"""

    shift: Literal["none", "degree", "time"] = option(
        "none", "Divide one graph into a source and a target, to test a model under a shift: by degree (the target has "
        "the larger ones) or by time (the target is later).",
    )  # fmt: skip
    validate: Literal["source", "target"] = option(
        "source", "Choose the epoch by nodes of the source, so that no label of the target is read before the test, or "
        "by a fifth of the target's labels, as the paper does.",
    )  # fmt: skip
    adapt: Literal["none", "dann", "ssreg", "dann+ssreg"] = option(
        "none", "Also learn from the target without its labels: dann (a classifier must not tell the two graphs apart "
        "by their embeddings), ssreg (embeddings must be smooth and bounded over the graph frequencies), or both.",
    )  # fmt: skip
    dann_weight: float = option(0.3, "Weight of the domain classifier's loss at the end of its ramp.", 0, 1000)
    ssreg_weight: float = option(1.0, "Weight of each of the two spectral penalties.", 0, 1000)
    ssreg_threshold: float = option(
        0.2, "Spectral responses, and differences of neighbouring ones, below this threshold are not penalised. "
        "Embeddings that are 1 everywhere have a response of about 1.", 0, 1e9,
    )  # fmt: skip
    modes: int = option(200, "Eigenvectors of each graph's Laplacian that the spectral penalties use.", 1, 10_000)


@dataclass(frozen=True)
class TaskOptions(Options):
    """Task and data"""

    data: str = option("", "Dataset name, graph folder, PyG file, or table of molecules.")
    task: Literal["auto", "node", "link", "graph"] = option(
        "auto", "What to predict: a property of each node, links between nodes, or a property of each graph. auto "
        "takes the usual task of the data.",
    )  # fmt: skip
    protocol: Literal["strict", "paper"] = option(
        "strict", "Link prediction: strict (held-out edges are visible nowhere) or paper (that of the published "
        "figures: test edges are visible to the walks, which flatters the result).",
    )  # fmt: skip
    bipartite: Literal["auto", "yes", "no"] = option(
        "auto", "Link prediction: the graph has two sides, such as users and items, so that non-edges and "
        "recommendations are pairs of a node of one side and one of the other. auto finds out.",
    )  # fmt: skip
    smiles: str = option("", "Column of a table of molecules that holds the SMILES.")
    target: str = option("", "Column of a table to predict, or several, separated by commas.")
    target_graph: str = option(
        "", "Graph to use the model on: the name of a dataset, a graph folder or a PyG file. The model learns from the "
        "labels of the first graph and is tested on this one.",
    )  # fmt: skip
    model: Literal["gpm", "gcn", "gat", "sage", "gin", "gcnii", "appnp", "gps", "mlp"] = option(
        "gpm", "The pattern machine (gpm), or a baseline on the same data; mlp is the one that sees no edges. A "
        "baseline has defaults of its own for training: see docs/baselines.md.",
    )  # fmt: skip
    hide: bool = option(
        True, "Hide the links of a training batch from a baseline's messages, as walks never cross their own link."
    )


@dataclass(frozen=True)
class Config(TaskOptions, ShiftOptions, TrainOptions, ModelOptions, PatternOptions):
    """All options that define a training, checked on creation. `gpm train --help` explains each of them.

    Options written before `target_graph` existed name the other graph under `target`; it is moved on creation.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in zip(("layers", "heads", "width"), SIZES[self.size], strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        columns = self.smiles or self.data.lower().removesuffix(".gz").endswith(_TABLES)  # one of which is the target
        if self.target and self.data and not columns and self.target_graph in ("", self.target):
            object.__setattr__(self, "target_graph", self.target)
            object.__setattr__(self, "target", "")
        if not self.lengths or len(set(self.lengths)) < len(self.lengths):
            raise GpmError(f"lengths must be one or more different numbers, got {self.lengths}.")
        if not 0 <= min(self.lengths) <= max(self.lengths) < MAX_POSITIONS:
            raise GpmError(f"lengths must lie between 0 and {MAX_POSITIONS - 1}, got {self.lengths}.")
        check_turning(self.p, self.non_backtracking)
        for heads in ("heads", "path_heads"):
            if self.width % getattr(self, heads):
                raise GpmError(f"width ({self.width}) must be a multiple of {heads} ({getattr(self, heads)}).")
        if not len(self.lengths) <= self.patterns <= self.pool:
            raise GpmError(
                f"patterns ({self.patterns}) must lie between the number of lengths ({len(self.lengths)}) and the pool "
                f"({self.pool})."
            )
        if self.val_patterns and not len(self.lengths) <= self.val_patterns <= self.pool:
            raise GpmError(
                f"val_patterns must be 0 or lie between the number of lengths and the pool, got {self.val_patterns}."
            )
        if 0 < self.frequencies < len(self.lengths):
            raise GpmError(
                f"frequencies must be 0 or at least the number of lengths ({len(self.lengths)}), got "
                f"{self.frequencies}."
            )
        if self.topology in UNORDERED and self.anonymous not in ("none", "gru"):
            raise GpmError(
                f"The topology {self.topology} has no order for --anonymous {self.anonymous} to read; leave out "
                "--anonymous."
            )

    def with_(self, **changes: Any) -> Config:
        """Return a copy with some options changed; a new size also sets layers, heads and width that are not named."""
        now = self.to_dict()
        if "size" in changes:
            now |= dict.fromkeys(("layers", "heads", "width"))
        return Config.from_dict(now | changes)

    def changes(self, options: Mapping[str, Any]) -> list[str]:
        """Return the names of the options that differ from this configuration."""
        return [key for key, value in options.items() if value != getattr(self, key)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in the order of the flags."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "") -> Config:
        """Make a configuration from plain values. Errors begin with the name of the source, if there is one."""
        try:
            check_names(values, option_names())
            return cls(**values)
        except GpmError as error:
            raise GpmError(f"{source}: {error}" if source else str(error)) from None


@dataclass(frozen=True)
class OutputOptions(Options):
    """Output"""

    out: Path | None = option(
        None, "Run folder. Default: a new folder in runs, named after the data: that of bank/edges.csv is runs/bank."
    )
    seeds: int = option(1, "Number of runs with consecutive seeds, starting at --seed.", 1)
    folds: int = option(0, "Number of folds for cross-validation, at least 3. 0: none.", 0, 100)
    resume: Path | None = option(None, "Resume an interrupted run. The result is the same as without interruption.")
    track: Tracker = option("none", "Also log to TensorBoard, Weights & Biases or MLflow.")
    result: Path | None = option(None, "Also write the scores, over all seeds, to this JSON file.")
    baselines: bool = option(False, "Also compare with boosted trees, gcn, sage and mlp, trained on the same split.")
    overwrite: bool = option(False, "Replace an existing run folder when the new run is complete.")
    quiet: bool = option(False, "Show no progress bar.")


@dataclass(frozen=True)
class TableOptions(Options):
    """Tables of edges, nodes and graphs"""

    nodes: Any = option(None, "Table with a row per node: id, features, labels.")
    graphs: Any = option(None, "Table with a row per graph: name, labels.")
    graph: str = option("", "Column with the graph that a row belongs to.")
    from_column: str = option("", "Column of the edges with the node where an edge starts. Default: by its name.")
    to_column: str = option("", "Column of the edges with the node where an edge ends. Default: by its name.")
    id_column: str = option("", "Column of the nodes with the id that edges use. Default: by its name.")
    directed: bool = option(False, "Edges have a direction. Default: each edge goes both ways.")
    negatives: Any = option(
        None, "Link prediction: table of node pairs without an edge, to validate and test with. A split column may say "
        "val or test. Default: as many non-edges as edges, drawn at random.",
    )  # fmt: skip
    unlisted: Literal["", "error", "add", "drop"] = option(
        "", "Edge endpoints that the table of nodes does not list: stop with an error, add the node, or drop the edge."
    )
    schema: Any = option(None, "The import.yaml of an earlier import, edited by hand: roles and types of the columns.")


@dataclass(frozen=True)
class ComputeOptions(Options):
    """Device"""

    device: str = option("auto", "auto, cpu, cuda, cuda:1 or mps.")
    threads: int = option(0, "Threads per process. Default (0): all cores, divided among the processes.", 0)


@dataclass(frozen=True)
class RankOptions(Options):
    """Several devices or computers"""

    devices: int = option(
        1, "Devices of this computer (on a CPU: processes) that train together, each on a share of every batch.", 1
    )
    machines: int = option(
        1, "Computers that train together. Start the same command on each, with MASTER_ADDR set to the name of one.", 1
    )
    workers: int = option(0, "Processes per rank that draw patterns and gather features ahead of the model.", 0)
    strategy: Strategy = option(
        "ddp", "How ranks share a model: ddp (a copy each) or fsdp (a piece each, for models that do not fit)."
    )
    restarts: int = option(0, "How often to restart all ranks from the last saved epoch after one has ended.", 0)


_fields: dict[type[Options], dict[str, tuple[Field[Any], Any]]] = {}


def declared(cls: type[Options]) -> dict[str, tuple[Field[Any], Any]]:
    """Return the fields of an options class, each with its type."""
    if cls not in _fields:
        hints = get_type_hints(cls)
        _fields[cls] = {entry.name: (entry, hints[entry.name]) for entry in fields(cls)}
    return _fields[cls]


def option_names() -> list[str]:
    """Return the names of all options of `Config`."""
    return list(declared(Config))


def option_range(name: str) -> tuple[float, float] | None:
    """Return the range that an option of `Config` must lie in, or None if it has none."""
    about = declared(Config)[name][0].metadata
    return None if about["low"] is None else (about["low"], about["high"])


def default_of(entry: Field[Any]) -> Any:
    """Return the default of an option."""
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def describe_option(entry: Field[Any]) -> str:
    """Return the help text of an option, with its range."""
    low, high = entry.metadata["low"], entry.metadata["high"]
    least = f" At least {low}." if low else ""
    limits = least if high is None else f" Between {low} and {high}."
    return f"{entry.metadata['help']}{limits}"


def accepts(*classes: type[Options], without: Iterable[str] = ()) -> Callable[[_Function], _Function]:
    """Let a function take the fields of options classes as keywords, in its signature, its docstring and its flags.

    A parameter of the function's own goes before a field of the same name. `{options}` in its docstring is replaced by
    the help texts of the fields.
    """

    def decorate(function: _Function) -> _Function:
        own = [each for each in inspect.signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
        hidden = {each.name for each in own} | set(without)
        taken = {name: pair for cls in classes for name, pair in declared(cls).items() if name not in hidden}
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default_of(entry), annotation=hint)
            for name, (entry, hint) in taken.items()
        ]
        lines = "\n        ".join(f"{name}: {describe_option(entry)}" for name, (entry, _) in taken.items())
        function.__doc__ = (function.__doc__ or "").replace("{options}", lines)
        vars(function).update(__signature__=inspect.Signature([*own, *more]), option_classes=classes, taken=set(taken))
        return function

    return decorate


def divide_options(options: Mapping[str, Any], *classes: type[Options]) -> list[Any]:
    """Divide keywords among options classes; the last entry is a dictionary of those that belong to `Config`."""
    check_names(options, [name for cls in (*classes, Config) for name in declared(cls)])
    parts: list[Any] = [cls(**{key: options[key] for key in declared(cls) if key in options}) for cls in classes]
    return [*parts, {key: value for key, value in options.items() if key in declared(Config)}]


def check_names(options: Iterable[Any], names: list[str]) -> None:
    """Refuse a name that is no option, and suggest the nearest one."""
    for key in options:
        if key not in names:
            raise GpmError(f"There is no option {key!r}.{nearest(str(key), names)}")


def check_turning(p: float, non_backtracking: bool) -> None:
    """Refuse a weight for turning back where walks never do."""
    if non_backtracking and p != 1:
        raise GpmError(f"p = {p} weighs turning back, which non_backtracking forbids; leave p at 1.")


def rename_nodes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which a whole number in `nodes`, the earlier spelling, is in `machines`."""
    nodes = options.get("nodes")
    text = str(nodes) if isinstance(nodes, (int, str, Path)) and not isinstance(nodes, bool) else ""
    if not (text.isascii() and text.isdigit()) or Path(text).exists():
        return dict(options)
    _log.info("--nodes names a table of nodes; write --machines %s for the number of computers", text)
    return {key: value for key, value in options.items() if key != "nodes"} | {"machines": int(text)}


def _checked(name: str, value: Any, hint: Any) -> Any:
    """Return the value as the type of its field; another type is an error that says what was expected."""
    if hint is Any:
        return value
    choices = get_args(hint)
    if choices and isinstance(choices[0], str):
        if isinstance(value, bool) and "yes" in choices:  # YAML reads yes and no as true and false
            value = "yes" if value else "no"
        if not isinstance(value, str) or value not in choices:
            near = nearest(value, choices) if isinstance(value, str) else ""
            raise GpmError(f"{name} must be one of {', '.join(filter(None, choices))}, got {_shown(value)}.{near}")
        return value
    if type(None) in choices:
        return value if value is None else _checked(name, value, choices[0])
    if hint == list[int]:
        if not isinstance(value, (list, tuple)):
            raise GpmError(f"{name} must be a list, as in [0, 1, 4, 8], got {_shown(value)}.")
        return [_checked(name, entry, int) for entry in value]
    if hint is Path and isinstance(value, (str, Path)):
        return Path(value)
    if isinstance(value, {float: Real, int: Integral}.get(hint, ())) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = hint(value)  # NumPy's own numbers would not be written to YAML
            if hint is float or abs(number) <= 2**64:
                return number
        raise GpmError(f"{name} must be a number that fits into 64 bits, got {_shown(value)}.")
    if hint is float and isinstance(value, str):  # YAML reads 5e-3 as text
        with suppress(ValueError):
            return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise GpmError(f"{name} must be of type {hint.__name__}, got {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    """Return a value as text, whatever it is."""
    try:
        return repr(value)
    except ValueError:  # Python does not write a number of more than some thousand digits
        return "a number of thousands of digits"
