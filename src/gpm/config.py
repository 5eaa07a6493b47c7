"""What can be chosen: every field is a flag, a key of a recipe and a keyword of `gpm.train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_type_hints

from gpm.errors import GpmError, nearest
from gpm.patterns.topologies import MAX_POSITIONS, Kind
from gpm.patterns.walks import WalkRule

SIZES = {
    "xs": (1, 4, 64),
    "s": (1, 4, 256),
    "m": (3, 4, 256),
    "l": (3, 8, 512),
    "xl": (3, 16, 1024),
}  # layers, heads, width


@dataclass(frozen=True)
class PatternOptions:
    """How an instance becomes a bag of patterns.

    Attributes:
        lengths: Lengths of the walks; the patterns are split evenly over them.
        patterns: m, patterns per instance in a training step.
        pool: k, patterns that an instance has; inference uses them all.
        topology: What the anonymous path tells: loops (the paper's), induced or shape.
        p: node2vec's return parameter.
        q: node2vec's in-out parameter.
        non_backtracking: Walks turn back only at dead ends.
    """

    lengths: list[int] = field(default_factory=lambda: [0, 1, 4, 8])
    patterns: int = 16
    pool: int = 128
    topology: Kind = "loops"
    p: float = 1.0
    q: float = 1.0
    non_backtracking: bool = False

    @property
    def rule(self) -> WalkRule:
        """The law of a step."""
        return WalkRule(p=self.p, q=self.q, non_backtracking=self.non_backtracking)


@dataclass(frozen=True)
class ModelOptions:
    """What the model is made of.

    Attributes:
        size: Layers, heads and width by name: xs (1, 4, 64), s (1, 4, 256), m (3, 4, 256), l (3, 8, 512) or xl
            (3, 16, 1024).
        width: Width of every embedding; by default that of the size.
        layers: Transformer layers over patterns; by default those of the size. For a baseline, its layers of message
            passing, where 1 means 2, or 4 for graphs.
        heads: Their attention heads; by default those of the size.
        ffn: Hidden width of their feed-forward part, as a multiple of the width.
        path: Semantic path encoder: transformer, gru or mean (the paper's), or conv, which sees the order of steps.
        path_layers: Layers of a transformer, GRU or convolution along a path.
        path_heads: Attention heads along a path.
        path_ffn: Hidden width of the feed-forward part along a path, as a multiple of the width.
        path_position: Whether a position of the path has a learned embedding.
        anonymous: Anonymous path encoder.
        anonymous_weight: lambda, the weight of the anonymous path.
        learn_weight: Learn lambda, from that value on.
        vocabulary: Shapes with an embedding of their own; rarer ones share `vocabulary / 4` by hash (topology: shape).
        features: What is read of a node: auto (its features; if there are none, the logarithm of its degree), degree (a
            category per degree, in place of features) or constant (nothing).
        stars: Also read the star around a node, its edges and neighbours at once, as one category; for features that
            are categories or one-hot, or for none.
        bag_of_words: Read node features as counts of words: damped by log(1 + x), every row scaled to one length; auto
            does so for features that are mostly zero and never negative.
        pe: Positional embedding of nodes: lap (Laplacian eigenvectors), rwse (return probabilities), rings (closed
            walks that never turn straight back, by their length) or none.
        pe_dim: Its columns.
        readout: The instance is the mean of its patterns, a learned class token (whose attention weighs patterns), or,
            for graphs, the mean times the number of nodes: an estimate of the sum over nodes.
        fusion: Add the patterns weighted by a learned attention to the readout.
        head: What reads the instance: one linear map, or two with a ReLU between, as links always have.
        pair: How the endpoints of a link meet: joint (one bag of patterns, marked by where they meet) or product (of
            the endpoints' embeddings, the paper's).
        dropout: On patterns, inside the machine and before the head.
        feature_dropout: On the entries of node features.
    """

    size: Literal["xs", "s", "m", "l", "xl"] = "xs"
    width: int | None = None
    layers: int | None = None
    heads: int | None = None
    ffn: float = 2.0
    path: Literal["transformer", "gru", "conv", "mean"] = "transformer"
    path_layers: int = 1
    path_heads: int = 1
    path_ffn: float = 2.0
    path_position: Literal["none", "learned"] = "none"
    anonymous: Literal["gru", "mean", "transformer", "none"] = "gru"
    anonymous_weight: float = 0.5
    learn_weight: bool = False
    vocabulary: int = 1024
    features: Literal["auto", "degree", "constant"] = "auto"
    stars: bool = False
    bag_of_words: Literal["auto", "yes", "no"] = "auto"
    pe: Literal["none", "lap", "rwse", "rings"] = "none"
    pe_dim: int = 8
    readout: Literal["mean", "class", "sum"] = "mean"
    fusion: bool = False
    head: Literal["linear", "mlp"] = "linear"
    pair: Literal["joint", "product"] = "joint"
    dropout: float = 0.3
    feature_dropout: float = 0.0


@dataclass(frozen=True)
class TrainOptions:
    """How the model is trained.

    Attributes:
        seed: Of split, weights, patterns and dropout.
        split: public (the dataset's own), or shares of train, validation and test such as 60/20/20; of graphs also
            folds such as 10-fold (of which the seed chooses one) and, of molecules, scaffold; auto takes what the
            dataset is known for.
        metric: What is reported and selected on; auto takes what the dataset is known for.
        select: Keep the epoch with the best validation metric, or with the lowest validation loss, which is less noisy
            where few instances validate.
        epochs: At most so many passes over the training part, or so many times `epoch_steps`.
        epoch_steps: Steps between validations, which then also end an epoch; 0 for a whole pass over the training part.
        patience: Stop after so many epochs without a better validation; 0 never stops early.
        batch: Instances per step, over all ranks.
        accumulate: In how many parts a rank computes its share of a step, to save memory; the step is the same.
        checkpointing: Compute activations again in the backward pass rather than keep them: less memory, more time.
        lr: Peak learning rate of AdamW.
        schedule: After the warm-up: cosine (to zero at the last epoch), constant, or noam (falls as step^-0.5).
        warmup: Steps in which the rate rises linearly; at most a fifth of all.
        decay: Weight decay.
        smoothing: Label smoothing.
        clip: Largest norm of the gradient.
        average: Average the weights over about so many last epochs for validation and the final model; 0 does not.
        val_patterns: Patterns per instance in validation while training; 0 chooses by cost, at least `patterns`.
        precision: 32-true, bf16-mixed or 16-mixed.
        compile: Compile the model with torch.compile.
    """

    seed: int = 0
    split: str = "auto"
    metric: Literal[
        "auto", "accuracy", "roc_auc", "f1", "mae", "rmse", "hits@20", "hits@50", "hits@100", "mrr", "ap"
    ] = "auto"
    select: Literal["metric", "loss"] = "metric"
    epochs: int = 60
    epoch_steps: int = 0
    patience: int = 0
    batch: int = 256
    accumulate: int = 1
    checkpointing: bool = False
    lr: float = 5e-3
    schedule: Literal["cosine", "constant", "noam"] = "cosine"
    warmup: int = 100
    decay: float = 0.01
    smoothing: float = 0.05
    clip: float = 1.0
    average: int = 0
    val_patterns: int = 0
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    compile: bool = False


@dataclass(frozen=True)
class ShiftOptions:
    """How a model is made fit for nodes that are not like those that it learns from.

    Attributes:
        shift: Divide one graph into a source and a target by degree (the target has the larger ones) or by time (the
            target is later), to try a model under a shift; none takes the graph as it is.
        validate: With a source and a target, choose the epoch by nodes of the source, so that no label of the target is
            ever read before the test, or by a fifth of the target's, as the paper does.
        adapt: Also learn from the target without its labels: dann (no classifier can tell the domains apart by their
            embeddings), ssreg (embeddings are smooth and bounded over the frequencies of both graphs), or both.
        dann_weight: What the classifier of domains counts beside the task, once it is ramped up.
        ssreg_weight: What each of the two penalties on frequencies counts beside the task.
        ssreg_threshold: Responses, and differences of neighbouring ones, up to here are free; embeddings that are 1
            everywhere answer with about 1.
        modes: Eigenvectors of each graph's Laplacian by which frequencies are measured.
    """

    shift: Literal["none", "degree", "time"] = "none"
    validate: Literal["source", "target"] = "source"
    adapt: Literal["none", "dann", "ssreg", "dann+ssreg"] = "none"
    dann_weight: float = 0.3
    ssreg_weight: float = 1.0
    ssreg_threshold: float = 0.2
    modes: int = 200


@dataclass(frozen=True)
class Config(ShiftOptions, TrainOptions, ModelOptions, PatternOptions):
    """All options of a run, checked on creation.

    Attributes:
        data: A dataset's name, a saved graph's folder, a PyG file, or a table of molecules.
        task: What is predicted: something of each node, links between nodes, or something of each graph; auto takes
            what the data is known for.
        protocol: Of links: strict (held-out edges can be seen nowhere) or paper (the published figures' own: test edges
            are walked, which flatters).
        smiles: The column of a table of molecules that holds SMILES.
        target: Of a table, its column to predict, or several, separated by commas. Of anything else that has nodes to
            classify, another such dataset, graph folder or PyG file: the model learns from the first and is used on it.
        model: gpm, or a baseline on the same data: gcn, gat, sage, gin, appnp, gps, or mlp, which sees no edges.
        hide: Hide the links of a training batch from a baseline's messages, as a gpm's walks never cross their own
            link; with large batches little is left to hear.
    """

    data: str = ""
    task: Literal["auto", "node", "link", "graph"] = "auto"
    protocol: Literal["strict", "paper"] = "strict"
    smiles: str = ""
    target: str = ""
    model: Literal["gpm", "gcn", "gat", "sage", "gin", "appnp", "gps", "mlp"] = "gpm"
    hide: bool = True

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for entry in fields(self):
            object.__setattr__(self, entry.name, _checked(entry.name, getattr(self, entry.name), hints[entry.name]))
        for name, value in zip(("layers", "heads", "width"), SIZES[self.size], strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name, (low, high) in RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise GpmError(f"{name} must lie between {low} and {high}, got {getattr(self, name)}.")
        if not self.lengths or len(set(self.lengths)) < len(self.lengths):
            raise GpmError(f"lengths must be one or more different numbers, got {self.lengths}.")
        if not 0 <= min(self.lengths) <= max(self.lengths) < MAX_POSITIONS:
            raise GpmError(f"lengths must lie between 0 and {MAX_POSITIONS - 1}, got {self.lengths}.")
        _ = self.rule  # checks p and q
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
        if self.topology == "shape" and self.anonymous not in ("none", "gru"):
            raise GpmError(f"a shape has no order for anonymous: {self.anonymous} to read; leave anonymous out.")

    def with_(self, **changes: Any) -> Config:
        """A copy with some options changed; a new size also changes layers, heads and width unless they are named."""
        now = self.to_dict()
        if "size" in changes:
            now |= dict.fromkeys(("layers", "heads", "width"))
        return Config.from_dict(now | changes)

    def changes(self, options: Mapping[str, Any]) -> list[str]:
        """Which of some options would change something."""
        return [key for key, value in options.items() if value != getattr(self, key)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, in the order of the flags."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "") -> Config:
        """Make one of plain values; an unknown key gets the nearest name, and a mistake that of the source."""
        known = option_names()
        try:
            for key in values:
                if key not in known:
                    raise GpmError(f"there is no option {key!r}.{nearest(str(key), known)}")
            return cls(**values)
        except GpmError as error:
            raise GpmError(f"{source}: {error}" if source else str(error)) from None


RANGES: dict[str, tuple[float, float]] = {
    "width": (1, 65_536), "layers": (1, 1000), "heads": (1, 1024), "path_layers": (1, 100), "path_heads": (1, 1024),
    "ffn": (0.01, 64), "path_ffn": (0.01, 64), "vocabulary": (1, 10_000_000), "pe_dim": (1, 1024),
    "dropout": (0, 0.99), "feature_dropout": (0, 0.99), "epochs": (1, 1_000_000),
    "epoch_steps": (0, 10**12), "accumulate": (1, 100_000), "patience": (0, 1_000_000),
    "batch": (1, 10_000_000), "lr": (0, 100), "warmup": (0, 10_000_000), "decay": (0, 100), "smoothing": (0, 0.99),
    "clip": (1e-9, 1e9), "average": (0, 1_000_000), "patterns": (1, 1_000_000), "pool": (1, 1_000_000),
    "val_patterns": (0, 1_000_000), "seed": (0, 2**63 - 1),
    "anonymous_weight": (-1000, 1000), "dann_weight": (0, 1000), "ssreg_weight": (0, 1000),
    "ssreg_threshold": (0, 1e9), "modes": (1, 10_000),
}  # fmt: skip


def option_names() -> list[str]:
    """The names of all options."""
    return [entry.name for entry in fields(Config)]


def _checked(name: str, value: Any, hint: Any) -> Any:
    """The value as the type of its field, or a sentence that says what was expected."""
    choices = get_args(hint)
    if choices and isinstance(choices[0], str):
        if isinstance(value, bool) and "yes" in choices:  # YAML reads yes and no as true and false
            value = "yes" if value else "no"
        if not isinstance(value, str) or value not in choices:
            near = nearest(value, choices) if isinstance(value, str) else ""
            raise GpmError(f"{name} must be one of {', '.join(choices)}, got {_shown(value)}.{near}")
        return value
    if hint == int | None:
        return value if value is None else _checked(name, value, int)
    if hint == list[int]:
        if not isinstance(value, (list, tuple)):
            raise GpmError(f"{name} must be a list, as in [0, 1, 4, 8], got {_shown(value)}.")
        return [_checked(name, entry, int) for entry in value]
    if hint is float and isinstance(value, Real) and not isinstance(value, bool):
        try:
            return float(value)  # NumPy's own numbers would not be written to YAML
        except OverflowError:
            raise GpmError(f"{name} must be a number that 64 bits hold, got {_shown(value)}.") from None
    if hint is int and isinstance(value, Integral) and not isinstance(value, bool):
        if abs(int(value)) > 2**64:
            raise GpmError(f"{name} must be a number that 64 bits hold, got {_shown(value)}.")
        return int(value)
    if hint is float and isinstance(value, str):  # YAML reads 5e-3 as text
        try:
            return float(value)
        except ValueError:
            pass
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise GpmError(f"{name} must be of type {hint.__name__}, got {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    """A value in words, whatever it is."""
    try:
        return repr(value)
    except ValueError:  # Python does not write a number of more than some thousand digits
        return "a number of thousands of digits"
