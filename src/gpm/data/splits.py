"""Splits into train, validation and test: drawn, or published with the data; saved with a digest."""

from __future__ import annotations

import hashlib
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, whole_number
from gpm.graph.coerce import check_choice
from gpm.io.archives import check_zip
from gpm.io.atomic import replacing

PARTS = ("train", "val", "test")
OWN = ("given", "public")  # the split that comes with the data: the user's own, or one published with a named dataset
Protocol = Literal["strict", "paper"]


@dataclass(frozen=True, eq=False)
class Split:
    """The instances of each part: ids, ascending; no id is in two parts."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]
    name: str  # how the split was made, such as "random 60/20/20, seed 0", "given" or "public 3 of 10"

    def __post_init__(self) -> None:
        for part in PARTS:
            ids = np.asarray(getattr(self, part))
            if ids.ndim != 1 or not (np.issubdtype(ids.dtype, np.integer) or ids.size == 0):
                kind = f"{ids.dtype} of shape {list(ids.shape)}"
                raise GpmError(f"The {part} split must be a list of ids, got {kind}.")
            self._freeze(part, np.sort(ids.astype(np.int64)))
        together = np.sort(np.concatenate([self.train, self.val, self.test]))
        if (twice := together[:-1][together[:-1] == together[1:]]).size:
            raise GpmError(f"Instance {twice[0]} occurs twice in the split {self.name!r}; list each instance once.")
        if together.size and together[0] < 0:
            raise GpmError(f"The split {self.name!r} holds the id {together[0]}; ids count from 0.")

    def _freeze(self, name: str, array: NDArray) -> None:
        array.flags.writeable = False
        object.__setattr__(self, name, array)

    @cached_property
    def digest(self) -> str:
        """16 hex digits of the SHA-256 over the three parts and the extras, the same on every platform."""
        digest = hashlib.sha256()
        for part in PARTS:
            ids = getattr(self, part)
            digest.update(np.array(len(ids), dtype="<i8").tobytes())  # so that no id can move to the next part
            digest.update(ids.astype("<i8").tobytes())
        for name, array in self.extras().items():
            digest.update(f"{name} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]

    def extras(self) -> dict[str, NDArray]:
        """Return further arrays of a kind of split, little-endian, by their names in the file."""
        return {}

    def describe(self) -> str:
        """Return the sizes of the parts, such as "140 train, 500 val, 1000 test"."""
        return ", ".join(f"{len(getattr(self, part))} {part}" for part in PARTS)

    def inputs(self, ids: NDArray) -> NDArray:
        """Return what a model reads for some ids of the split: nodes or graphs `[B]`, or pairs of nodes `[B, 2]`."""
        return ids

    def save(self, path: str | Path) -> None:
        """Write the split and its digest atomically as an `.npz` file."""
        arrays: dict[str, Any] = {part: getattr(self, part).astype("<i8") for part in PARTS} | self.extras()
        with replacing(Path(path)) as scratch, scratch.open("wb") as file:
            np.savez(file, **arrays, name=np.array(self.name), digest=np.array(self.digest))

    @classmethod
    def load(cls, path: str | Path, *, follow: bool = True) -> Self:
        """Read a saved split; one that does not match its digest is refused. `follow` allows a symbolic link."""
        path = Path(path)
        if not path.is_file():
            raise GpmError(f"There is no split {path}; save one with Split.save.")
        try:
            check_zip(path, follow=follow)
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                split = _restore(stored)
                intact = str(stored["digest"]) == split.digest
        except Exception as error:  # whatever a damaged archive makes its readers raise
            why = str(error).rstrip(".") if isinstance(error, GpmError) else type(error).__name__
            raise GpmError(f"{path} is not a split that can be read ({why}); save it again.") from None
        if not intact:
            raise GpmError(f"{path} was altered: its ids do not match its digest; save the split again.")
        if not isinstance(split, cls):
            raise GpmError(f"{path} holds a split of nodes or graphs, not of links; give that of a link task.")
        return split


@dataclass(frozen=True, eq=False)
class LinkSplit(Split):
    """The pairs of each split, without negatives of the training split: these are drawn in every step.

    The ids are rows of `pairs` `[P, 2]`: training edges, then edges and negatives of val, then those of test.
    """

    pairs: NDArray[np.int64]
    labels: NDArray[np.int64]  # 1 for an edge, 0 for a negative `[P]`
    protocol: Protocol
    num_nodes: int  # of the graph
    sides: NDArray[np.int8] | None = None  # of a bipartite graph: 0 or 1 of each node, -1 without edges `[N]`

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("protocol", self.protocol, get_args(Protocol))
        if self.sides is not None:
            self._freeze("sides", np.array(self.sides, dtype=np.int8))
            if self.sides.shape != (self.num_nodes,) or not np.isin(self.sides, (-1, 0, 1)).all():
                raise GpmError(f"The sides of the split {self.name!r} must be 0, 1 or -1 for each node; make it again.")
        for name, shape in (("pairs", (len(self.labels), 2)), ("labels", (len(self.pairs),))):
            array = np.array(getattr(self, name), dtype=np.int64)
            if array.shape != shape:
                raise GpmError(f"{name} of the split {self.name!r} must have shape {list(shape)}, got {array.shape}.")
            self._freeze(name, array)
        if self.pairs.size and not 0 <= self.pairs.min() <= self.pairs.max() < self.num_nodes:
            raise GpmError(f"The split {self.name!r} pairs nodes that are not among 0 to {self.num_nodes - 1}.")
        if max((getattr(self, part)[-1] for part in PARTS if len(getattr(self, part))), default=-1) >= len(self.pairs):
            raise GpmError(f"The split {self.name!r} names a pair that it does not hold; make it again.")
        if not np.isin(self.labels, (0, 1)).all() or not self.labels[self.train].all():
            raise GpmError(f"Labels of the split {self.name!r} must be 0 or 1, and 1 in the training split.")

    @classmethod
    def assemble(
        cls, edges: list[NDArray], negatives: list[NDArray], name: str, protocol: Protocol, num_nodes: int,
        sides: NDArray | None = None,
    ) -> LinkSplit:  # fmt: skip
        """Make a split from the edges `[_, 2]` of train, val and test and the negatives of val and test."""
        blocks = [edges[0], edges[1], negatives[0], edges[2], negatives[1]]
        sizes = [len(block) for block in blocks]
        labels = np.repeat([1, 1, 0, 1, 0], sizes)
        train, val, test = np.split(np.arange(len(labels)), np.cumsum(sizes)[[0, 2]])
        return cls(train, val, test, name, np.concatenate(blocks), labels, protocol, num_nodes, sides)

    def inputs(self, ids: NDArray) -> NDArray:
        return np.asarray(self.pairs[ids])

    def describe(self) -> str:
        """Return the sizes of the parts: "80 train, 5 val, 15 test edges; 5 val, 15 test non-edges"."""
        edges = ", ".join(f"{len(self.edges_of(part))} {part}" for part in PARTS)
        return f"{edges} edges; " + ", ".join(f"{len(self.negatives_of(p))} {p}" for p in PARTS[1:]) + " non-edges"

    def edges_of(self, *parts: str) -> NDArray[np.int64]:
        """Return the edges `[_, 2]` of some parts."""
        return self._of(parts, 1)

    def negatives_of(self, *parts: str) -> NDArray[np.int64]:
        """Return the negatives `[_, 2]` of some splits; the training split has none."""
        return self._of(parts, 0)

    def _of(self, parts: tuple[str, ...], label: int) -> NDArray[np.int64]:
        ids = np.concatenate([getattr(self, part) for part in parts])
        chosen: NDArray[np.int64] = self.pairs[ids[self.labels[ids] == label]]
        return chosen

    def extras(self) -> dict[str, NDArray]:
        return {
            "pairs": self.pairs.astype("<i8"),
            "labels": self.labels.astype("<i8"),
            "protocol": np.array(self.protocol, dtype="<U6"),
            "num_nodes": np.array(self.num_nodes, dtype="<i8"),
        } | ({} if self.sides is None else {"sides": self.sides})


@dataclass(frozen=True, eq=False)
class DomainSplit(Split):
    """Parts of two domains. `train` is of the source, `test` of the target, `val` of the one that chooses the epoch."""

    other: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # `val` of the other domain
    chosen_on: str = "source"  # the domain of `val`: source or target

    def __post_init__(self) -> None:
        super().__post_init__()
        other = np.sort(np.asarray(self.other, dtype=np.int64))
        self._freeze("other", other)
        if np.isin(other, np.concatenate([self.train, self.val, self.test])).any() or (other.size and other[0] < 0):
            raise GpmError(f"A node of the split {self.name!r} is in two splits; put each node into one.")
        if self.chosen_on not in ("source", "target"):
            raise GpmError(f"The split {self.name!r} is chosen on {self.chosen_on!r}; write source or target.")

    def extras(self) -> dict[str, NDArray]:
        return {"other": self.other.astype("<i8"), "chosen_on": np.array(self.chosen_on)}


def _restore(stored: Any) -> Split:
    """Return the split in an open archive, of whatever kind it is."""
    parts = stored["train"], stored["val"], stored["test"], str(stored["name"])
    if "other" in stored:
        return DomainSplit(*parts, stored["other"], str(stored["chosen_on"]))
    if "pairs" not in stored:
        return Split(*parts)
    protocol: Any = str(stored["protocol"])
    counts = int(stored["num_nodes"]), stored.get("sides")
    return LinkSplit(*parts, stored["pairs"], stored["labels"], protocol, *counts)


@dataclass(frozen=True, eq=False)
class Masks:
    """Parts that come with the data: boolean `[N]`, or `[N, S]` for S splits, the same shape for all three.

    A part with one column beside others with S columns belongs to each of the S splits.
    """

    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]
    _: KW_ONLY
    shared: bool = False  # only train is given: val has all others, which a seed divides evenly into val and test

    def __post_init__(self) -> None:
        masks = [np.asarray(getattr(self, part)) for part in PARTS]
        masks = [m[:, 0] if m.ndim == 2 and m.shape[1] == 1 else m for m in masks]
        if any(m.dtype != bool or m.ndim not in (1, 2) for m in masks) or len({len(m) for m in masks}) != 1:
            raise GpmError("The masks of a split must be boolean with a row per instance: [N] or [N, splits].")
        columns = {m.shape[1] for m in masks if m.ndim == 2}
        if len(columns) > 1:
            counts = sorted(columns)
            raise GpmError(
                f"The masks hold different numbers of splits ({counts}); give equally many for train, val and test."
            )
        for part, mask in zip(PARTS, masks, strict=True):
            wide = mask[:, None] if columns and mask.ndim == 1 else mask
            object.__setattr__(self, part, np.broadcast_to(wide, (len(mask), *columns)))

    @property
    def count(self) -> int:
        """Return the number of splits."""
        return 1 if self.train.ndim == 1 else self.train.shape[1]

    def restrict(self, kept: NDArray[np.bool_]) -> Masks:
        """Return the masks without the instances that are not kept `[N]`."""
        rows = kept if self.train.ndim == 1 else kept[:, None]
        return self if kept.all() else Masks(self.train & rows, self.val & rows, self.test & rows, shared=self.shared)

    def codes(self) -> NDArray[np.int8]:
        """Return the part of each instance, as `as_masks` reads it: 0, 1 and 2, -1 for none; 3 for val or test."""
        masks = [self.train, self.val, self.test]
        if (np.sum(masks, axis=0, dtype=np.int8) > 1).any():
            raise GpmError("An instance is in two masks of a split; put each into one mask only.")
        return np.select(masks, (0, 3 if self.shared else 1, 2), default=-1).astype(np.int8)


def share_masks(train: NDArray[np.bool_]) -> Masks:
    """Return the masks of a training split that is given alone: all others are validated and tested on."""
    return Masks(train, ~train, np.zeros_like(train), shared=True)


def as_masks(part: NDArray | None) -> Masks | None:
    """Return parts 0, 1 and 2, or 0 and 3 for val or test, `[N]` or `[N, splits]` as masks; None if there are none.

    All parts must occur.
    """
    if part is None:
        return None
    if (part == 3).any():
        return Masks(part == 0, part == 3, np.zeros(part.shape, dtype=np.bool_), shared=True)
    masks = [np.asarray(part) == number for number in range(3)]
    empty = [name for name, mask in zip(PARTS, masks, strict=True) if not mask.any()]
    if empty:
        column = "The column that says train, val and test"
        raise GpmError(f"{column} has no row that says {empty[0]}; name some, or leave it out by its role ignore.")
    return Masks(*masks)


def read_ids(path: Path, count: int) -> Masks:
    """Read a published split of so many instances: an `.npz` file with the ids of `train`, `valid` and `test`."""
    try:
        check_zip(path, follow=True)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            parts = [stored[name] for name in ("train", "valid", "test")]
    except GpmError:
        raise
    except Exception as error:  # whatever a damaged archive makes its readers raise
        raise GpmError(f"{path} is not a split ({type(error).__name__}); replace or remove the file.") from None
    ids = np.concatenate([part.ravel() for part in parts])
    if ids.dtype.kind not in "iu" or not all(map(len, parts)) or len(np.unique(ids)) < len(ids):
        raise GpmError(f"{path}: give train, valid and test ids, none of them twice; replace or remove the file.")
    if ids.min() < 0 or ids.max() >= count:
        raise GpmError(f"{path}: ids count from 0 to {count - 1:,}; replace or remove the file.")
    return Masks(*(np.isin(np.arange(count), part) for part in parts))


def own_split(masks: Masks, seed: int, default: str) -> Split:
    """Return the split of a seed that comes with the data: of S splits, number `seed % S`.

    It is called public if the data's default split is, and given otherwise. Where only the training split is given, the
    seed also divides the other instances evenly into val and test.
    """
    column = _as_seed(seed) % masks.count
    train, val, test = (np.flatnonzero(getattr(masks, part).reshape(-1, masks.count)[:, column]) for part in PARTS)
    name = ("public" if default == "public" else "given") + (f" {column + 1} of {masks.count}" * (masks.count > 1))
    if masks.shared:
        drawn = np.random.Generator(np.random.PCG64(_as_seed(seed))).permutation(val)
        val, test = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
        name = f"{name} train_mask, the other instances halved into val and test, seed {seed}"
    return Split(train, val, test, name)


def random_split(
    labels: NDArray,
    fractions: str | tuple[float, float, float],
    seed: int,
    stratify: bool = False,
    what: str = "labelled instances",
) -> Split:
    """Draw a split of the labelled instances, a pure function of their number, the fractions and the seed.

    Labels are `[N]` or `[N, C]`, see `is_labelled`; fractions are "60/20/20" or (0.6, 0.2, 0.2). `stratify` gives each
    class its share of each part, up to rounding; the sizes of the parts stay the same. `what` is for error messages.
    """
    shares = parse_fractions(fractions)
    shown = _show(shares)
    ids = np.flatnonzero(is_labelled(labels))
    if _deal(np.array([len(ids)]), shares).min() < 1:
        raise GpmError(f"{len(ids)} {what} are too few for {shown}: a split would be empty.")
    drawn = ids[np.random.Generator(np.random.PCG64(_as_seed(seed))).permutation(len(ids))]
    if stratify:
        drawn = _by_class(labels, drawn)
    counts = np.unique(labels[drawn], return_counts=True)[1] if stratify else np.array([len(ids)])
    part = np.repeat(np.tile(np.arange(3), len(counts)), _deal(counts, shares).ravel())
    train, val, test = (drawn[part == i] for i in range(3))
    return Split(train, val, test, f"random {shown}, seed {seed}{', stratified' if stratify else ''}")


def fold_split(labels: NDArray, folds: int, seed: int, stratify: bool = False) -> Split:
    """Cross-validation: one fold tests, the next one validates, the others train.

    The folds are drawn once and for all, whatever the seed; seed s tests on fold `s % folds`, so that `folds` seeds in
    a row test each labelled instance exactly once. `stratify` gives each class its share of each fold, up to one.
    """
    if not 3 <= folds <= 100:
        raise GpmError(f"{folds} folds are not possible: one tests, one validates, the others train; choose 3 to 100.")
    ids = np.flatnonzero(is_labelled(labels))
    if len(ids) < folds:
        raise GpmError(f"{len(ids)} labelled instances are too few for {folds} folds: a split would be empty.")
    drawn = ids[np.random.Generator(np.random.PCG64(0)).permutation(len(ids))]
    if stratify:
        drawn = _by_class(labels, drawn)  # dealt like cards
    test = _as_seed(seed) % folds
    turn = (np.arange(len(drawn)) - test) % folds
    return Split(drawn[turn > 1], drawn[turn == 1], drawn[turn == 0], f"fold {test + 1} of {folds}")


def group_split(labels: NDArray, groups: NDArray, fractions: str, name: str) -> Split:
    """Keep groups whole, as MoleculeNet and OGB do with the molecules of a scaffold: no draw, no seed.

    From the largest group to the smallest (of equal ones, the one that appears last comes first) each goes to train
    while that has room for it, else to val, else to test: what is rare is tested on. `name` begins the split's name.
    """
    shares = parse_fractions(fractions)
    ids = np.flatnonzero(is_labelled(labels))
    _, first, group, sizes = np.unique(groups[ids], return_index=True, return_inverse=True, return_counts=True)
    part = np.full(len(sizes), 2, dtype=np.int8)
    in_train = in_val = 0
    for g in np.lexsort((-first, -sizes)).tolist():
        size = int(sizes[g])
        if in_train + size <= len(ids) * shares[0]:
            part[g], in_train = 0, in_train + size
        elif in_train + in_val + size <= len(ids) * (shares[0] + shares[1]):
            part[g], in_val = 1, in_val + size
    train, val, test = (ids[part[group] == i] for i in range(3))
    name = f"{name} {_show(shares)}"
    if not min(len(train), len(val), len(test)):
        raise GpmError(f"{len(sizes)} group(s) are too few, or too large, for {name}: a split would be empty.")
    return Split(train, val, test, name)


def is_labelled(labels: NDArray) -> NDArray[np.bool_]:
    """Return the mask of instances that have a label `[N]`: none that is negative (integers), NaN or a row of NaN."""
    rows = labels.reshape(len(labels), -1 if labels.size else 0)
    known = ~np.isnan(rows) if np.issubdtype(rows.dtype, np.floating) else rows >= 0
    return np.asarray(known.any(axis=1), dtype=np.bool_)


def parse_fractions(fractions: str | tuple[float, float, float]) -> tuple[Fraction, Fraction, Fraction]:
    """Return exact shares of train, val and test that add up to 1."""
    words = fractions.split("/") if isinstance(fractions, str) else [str(float(part)) for part in fractions]
    try:
        shares = [Fraction(word.strip()) for word in words]
    except (ValueError, ZeroDivisionError):
        shares = []
    if len(shares) != 3 or min(shares) <= 0 or sum(shares) not in (1, 100):
        raise GpmError(f"Split {fractions!r} must be three shares above 0 that add up to 100, such as '60/20/20'.")
    train, val, test = (share / sum(shares) for share in shares)
    return train, val, test


def _show(shares: tuple[Fraction, Fraction, Fraction]) -> str:
    return "/".join(f"{float(share * 100):g}" for share in shares)


def _by_class(labels: NDArray, ids: NDArray) -> NDArray:
    """Return the ids class after class, otherwise in their order."""
    if labels.ndim != 1:
        raise GpmError("A stratified split needs one label per instance; pass stratify=False for several.")
    return np.asarray(ids[np.argsort(labels[ids], kind="stable")])


def _deal(counts: NDArray, shares: tuple[Fraction, Fraction, Fraction]) -> NDArray[np.int64]:
    """Return the sizes of the parts of each class `[C, 3]`: train is rounded first, then val among the rest.

    Running totals are rounded, so that remainders do not add up.
    """

    def take(counts: NDArray, share: Fraction) -> NDArray:
        return np.diff([int(total * share + Fraction(1, 2)) for total in np.cumsum(counts).tolist()], prepend=0)

    train = take(counts, shares[0])
    val = take(counts - train, shares[1] / (shares[1] + shares[2]))
    return np.stack([train, val, counts - train - val], axis=1)


def _as_seed(seed: int) -> int:
    if (number := whole_number(seed, "seed")) < 0:
        raise GpmError(f"seed must not be negative, got {seed}.")
    return number
