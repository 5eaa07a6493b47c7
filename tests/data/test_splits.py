import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError
from gpm.data.splits import (
    Masks,
    Split,
    fold_split,
    group_split,
    is_labelled,
    own_split,
    parse_fractions,
    random_split,
    read_ids,
)

_SHARES = st.tuples(st.integers(10, 80), st.integers(5, 15)).map(lambda ab: f"{ab[0]}/{ab[1]}/{100 - sum(ab)}")
_LABELS = st.lists(st.integers(-1, 3), min_size=40, max_size=200).map(lambda v: np.array([0] * 20 + v))


def _parts(split: Split) -> list[list[int]]:
    return [split.train.tolist(), split.val.tolist(), split.test.tolist()]


@given(_LABELS, _SHARES, st.integers(0, 2**40), st.booleans())
def test_parts_are_disjoint_and_complete_and_have_their_sizes(
    labels: np.ndarray, shares: str, seed: int, stratify: bool
) -> None:
    split = random_split(labels, shares, seed, stratify)
    parts = _parts(split)
    assert sorted(parts[0] + parts[1] + parts[2]) == np.flatnonzero(labels >= 0).tolist()
    assert all(part == sorted(part) for part in parts)
    count = sum(map(len, parts))
    for part, share in zip(parts, shares.split("/"), strict=True):
        assert abs(len(part) - count * int(share) / 100) < 1.5


@given(_LABELS, _SHARES, st.integers(0, 100))
def test_a_stratified_split_keeps_the_share_of_each_class(labels: np.ndarray, shares: str, seed: int) -> None:
    split = random_split(labels, shares, seed, stratify=True)
    plain = random_split(labels, shares, seed)
    assert [len(part) for part in _parts(split)] == [len(part) for part in _parts(plain)]
    for part, share in zip(_parts(split), shares.split("/"), strict=True):
        for label in range(4):
            assert abs((labels[part] == label).sum() - (labels == label).sum() * int(share) / 100) < 2


def test_a_split_depends_on_the_number_of_labelled_instances_alone() -> None:
    few, many = np.zeros(50, dtype=np.int64), np.arange(50) % 7
    assert _parts(random_split(few, "60/20/20", 3)) == _parts(random_split(many, (0.6, 0.2, 0.2), 3))
    assert random_split(few, "60/20/20", 3).digest != random_split(few, "60/20/20", 4).digest
    gaps = np.insert(few, 10, [-1, -1])
    kept = np.flatnonzero(gaps >= 0)
    moved = [kept[part].tolist() for part in _parts(random_split(few, "50/25/25", 1))]
    assert _parts(random_split(gaps, "50/25/25", 1)) == moved


def test_the_draw_and_its_digest_never_change() -> None:
    split = random_split(np.zeros(10, dtype=np.int64), "60/20/20", 0)
    assert _parts(split) == [[2, 3, 4, 5, 6, 7], [0, 9], [1, 8]]
    assert (split.name, split.digest) == ("random 60/20/20, seed 0", "25ae95b7f17222b4")


def test_every_instance_is_equally_likely_in_each_part() -> None:
    counts = np.zeros(20)
    for seed in range(2000):
        counts[random_split(np.zeros(20, dtype=np.int64), "50/25/25", seed).train] += 1
    assert (abs(counts / 2000 - 0.5) < 0.06).all()  # five standard deviations


@given(_LABELS, st.integers(3, 12), st.booleans())
def test_as_many_seeds_as_folds_test_and_validate_each_instance_once(
    labels: np.ndarray, folds: int, stratify: bool
) -> None:
    splits = [fold_split(labels, folds, seed, stratify) for seed in range(folds)]
    labelled = np.flatnonzero(labels >= 0).tolist()
    assert sorted(np.concatenate([split.test for split in splits]).tolist()) == labelled
    for split, following in zip(splits, splits[1:] + splits[:1], strict=True):
        assert sorted(np.concatenate(_parts(split)).tolist()) == labelled
        assert split.val.tolist() == following.test.tolist()  # what validates now is tested next
        assert abs(len(split.test) - len(labelled) / folds) < 1
        for label in range(4) if stratify else ():
            assert abs((labels[split.test] == label).sum() - (labels == label).sum() / folds) < 1


def test_folds_are_drawn_once_and_named() -> None:
    labels = np.arange(20) % 2
    one, again = fold_split(labels, 5, 2), fold_split(labels, 5, 12)
    assert (one.digest, one.name, again.name) == (again.digest, "fold 3 of 5", "fold 3 of 5")
    assert one.test.tolist() == [6, 7, 9, 11]  # never changes
    assert fold_split(labels, 5, 2, stratify=True).digest != one.digest
    assert len(fold_split(np.random.default_rng(0).normal(size=10), 10, 9).test) == 1


def test_impossible_folds_get_a_sentence() -> None:
    for folds in (0, 1, 2, 101):
        with pytest.raises(GpmError, match=rf"^{folds} folds are not possible: .* choose 3 to 100"):
            fold_split(np.zeros(500), folds, 0)
    with pytest.raises(GpmError, match="4 labelled instances are too few for 5 folds"):
        fold_split(np.array([0, 1, 0, 1, -1]), 5, 0)
    with pytest.raises(GpmError, match="one label per instance"):
        fold_split(np.zeros((9, 2)), 3, 0, stratify=True)
    with pytest.raises(GpmError, match="seed must not be negative"):
        fold_split(np.zeros(9), 3, -1)


@given(st.integers(0, 10**6), st.integers(100, 300))
def test_groups_stay_whole_and_the_small_ones_are_tested(seed: int, count: int) -> None:
    groups = np.random.default_rng(seed).geometric(0.15, size=count)
    labels = np.where(np.arange(count) % 9 == 4, np.nan, 0.5)
    split = group_split(labels, groups, "80/10/10", "scaffold")
    parts, labelled = _parts(split), np.flatnonzero(~np.isnan(labels))
    assert sorted(parts[0] + parts[1] + parts[2]) == labelled.tolist()
    owners = [set(groups[part].tolist()) for part in parts]
    assert len(set.union(*owners)) == sum(map(len, owners))
    assert len(parts[0]) <= 0.8 * len(labelled)
    sizes = np.bincount(groups[labelled])
    assert sizes.argmax() in owners[0]
    assert max(sizes[list(owners[2])]) <= max(sizes[list(owners[0])])
    assert (split.name, split.digest) == ("scaffold 80/10/10", group_split(labels, groups, "0.8/0.1/0.1", "x").digest)


def test_groups_go_from_large_to_small_and_the_later_of_equals_first() -> None:
    groups = np.array([9, 9, 9, 9, 9, 1, 2, 1, 2, 3])  # sizes 5, 2, 2, 1
    split = group_split(np.zeros(10), groups, "70/20/10", "scaffold")
    assert _parts(split) == [[0, 1, 2, 3, 4, 6, 8], [5, 7], [9]]
    with pytest.raises(GpmError, match=r"1 group\(s\) are too few, or too large, for scaffold 70/20/10"):
        group_split(np.zeros(10), np.zeros(10), "70/20/10", "scaffold")
    with pytest.raises(GpmError, match="must be three shares"):
        group_split(np.zeros(10), groups, "70/20", "scaffold")


def test_what_counts_as_labelled() -> None:
    nan = np.nan
    assert is_labelled(np.array([0, -1, 5])).tolist() == [True, False, True]
    assert is_labelled(np.array([0.0, nan, -3.5])).tolist() == [True, False, True]
    assert is_labelled(np.array([[nan, nan], [nan, 0], [1, 1]])).tolist() == [False, True, True]
    assert is_labelled(np.array([True, False])).all()


@pytest.mark.parametrize(
    "fractions", ["60/20", "60/20/30", "80/20/0", "a/b/c", "120/-10/-10", "", (0.5, 0.5, 0.5), "60/20/20/0", "1/0/0"]
)
def test_bad_fractions_get_a_sentence(fractions: str) -> None:
    with pytest.raises(GpmError, match="must be three shares above 0 that add up to 100, such as '60/20/20'"):
        random_split(np.zeros(100), fractions, 0)


def test_fractions_are_exact_however_they_are_written() -> None:
    assert parse_fractions("60/20/20") == parse_fractions((0.6, 0.2, 0.2)) == parse_fractions("0.6/0.2/0.2")
    assert parse_fractions((48, 32, 20)) == parse_fractions("48/32/20")


def test_too_few_instances_and_wrong_seeds_get_a_sentence() -> None:
    with pytest.raises(GpmError, match="2 labelled instances are too few for 60/20/20"):
        random_split(np.array([0, 1, -1]), "60/20/20", 0)
    with pytest.raises(GpmError, match="seed must not be negative"):
        random_split(np.zeros(9), "60/20/20", -1)
    with pytest.raises(GpmError, match="one label per instance"):
        random_split(np.zeros((9, 2)), "60/20/20", 0, stratify=True)


def test_a_split_refuses_overlap_and_what_is_no_id() -> None:
    with pytest.raises(GpmError, match="Instance 2 occurs twice in the split 'mine'"):
        Split(np.array([1, 2]), np.array([2]), np.array([3]), "mine")
    with pytest.raises(GpmError, match="holds the id -1"):
        Split(np.array([-1]), np.array([2]), np.array([3]), "mine")
    with pytest.raises(GpmError, match="The val split must be a list of ids, got float64"):
        Split(np.array([1]), np.array([0.5]), np.array([3]), "mine")
    split = Split(np.array([3, 1], dtype=">i4"), np.array([2]), np.array([]), "mine")
    assert _parts(split) == [[1, 3], [2], []]
    assert not split.train.flags.writeable


def test_the_digest_tells_parts_apart_and_not_names() -> None:
    one = Split(np.array([1]), np.array([2]), np.array([3]), "one")
    assert one.digest == Split(np.array([1], dtype=">i8"), np.array([2]), np.array([3]), "two").digest
    assert one.digest != Split(np.array([2]), np.array([1]), np.array([3]), "one").digest
    assert one.digest != Split(np.array([1, 2]), np.array([]), np.array([3]), "one").digest


def test_a_split_comes_back(tmp_path: Path) -> None:
    split = random_split(np.zeros(100), "60/20/20", 7)
    split.save(tmp_path / "new" / "split.npz")
    back = Split.load(tmp_path / "new" / "split.npz")
    assert (_parts(back), back.name, back.digest) == (_parts(split), split.name, split.digest)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["split.npz"]


def test_no_damaged_byte_changes_a_split_unnoticed(tmp_path: Path) -> None:
    split = random_split(np.zeros(10), "60/20/20", 7)
    path = tmp_path / "split.npz"
    split.save(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        try:
            back = Split.load(path)
        except GpmError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            assert (_parts(back), back.name) == (_parts(split), split.name)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GpmError, match="is not a split that can be read"):
        Split.load(path)


def test_an_altered_split_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "split.npz"
    split = random_split(np.zeros(10), "60/20/20", 7)
    np.savez(path, train=split.train[1:], val=split.val, test=split.test, name="x", digest=split.digest)
    with pytest.raises(GpmError, match=r"split\.npz was altered: its ids do not match its digest"):
        Split.load(path)
    np.savez(path, train=np.array([{}], dtype=object), val=split.val, test=split.test, name="x", digest="")
    with pytest.raises(GpmError, match="is not a split that can be read"):
        Split.load(path)
    with pytest.raises(GpmError, match=r"There is no split .*none\.npz"):
        Split.load(tmp_path / "none.npz")
    with pytest.raises(GpmError, match="Cannot write"):
        split.save(path / "below-a-file.npz")


def test_a_split_that_comes_with_the_data_is_a_column_of_the_masks() -> None:
    rows = np.eye(4, dtype=bool)
    masks = Masks(rows[:, :2], rows[:, 1:3], rows[:, 3])  # one test part for both splits
    assert masks.test.shape == (4, 2)
    assert [_parts(own_split(masks, seed, "public")) for seed in (0, 1)] == [[[0], [1], [3]], [[1], [2], [3]]]
    assert own_split(masks, 5, "public").name == "public 2 of 2"
    assert own_split(masks, 5, "60/20/20").name == "given 2 of 2"
    single = Masks(rows[:, 0], rows[:, 1:2], rows[:, 2])
    assert (_parts(own_split(single, 9, "given")), own_split(single, 9, "given").name) == ([[0], [1], [2]], "given")
    kept = masks.restrict(np.array([True, True, True, False]))
    assert _parts(own_split(kept, 0, "given")) == [[0], [1], []]


def test_wrong_masks_get_a_sentence() -> None:
    rows = np.eye(4, dtype=bool)
    with pytest.raises(GpmError, match="must be boolean with a row per instance"):
        Masks(rows[:, 0], rows[:3, 0], rows[:, 0])
    with pytest.raises(GpmError, match="must be boolean"):
        Masks(np.arange(4), rows[:, 0], rows[:, 0])
    with pytest.raises(GpmError, match=r"different numbers of splits \(\[2, 3\]\)"):
        Masks(rows[:, :2], rows[:, :3], rows[:, 0])
    with pytest.raises(GpmError, match="Instance 0 occurs twice in the split 'given'"):
        own_split(Masks(rows[:, 0], rows[:, 0], rows[:, 1]), 0, "given")


def test_a_published_split_is_read_by_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "split.npz"
    np.savez(path, train=np.array([4, 0]), valid=np.array([2]), test=np.array([1, 5]))
    split = own_split(read_ids(path, 6), seed=7, default="public")
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([0, 4], [2], [1, 5])
    assert split.name == "public"


@pytest.mark.parametrize(
    "ids",
    [
        {"train": [0], "valid": [1]},
        {"train": [0], "valid": [0], "test": [1]},
        {"train": [9], "valid": [1], "test": [2]},
        {"train": [], "valid": [1], "test": [2]},
        {"train": [-1], "valid": [1], "test": [2]},
    ],
    ids=["lacks-test", "overlap", "outside", "empty", "negative"],
)
def test_a_damaged_published_split_is_refused_by_name(tmp_path: Path, ids: dict) -> None:
    path = tmp_path / "split.npz"
    np.savez(path, **{name: np.array(values, dtype=np.int64) for name, values in ids.items()})
    with pytest.raises(GpmError, match=re.escape(str(path))):
        read_ids(path, 6)
