"""Archives that do more than give back what was put in, and pickles that are more than data."""

from __future__ import annotations

import io
import pickle
import stat
import struct
import zipfile
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gpm import GpmError
from gpm.io.archives import ROOMY, PlainUnpickler, check_zip, plain_pickles


def _npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def test_what_numpy_and_torch_write_is_accepted(tmp_path: Path) -> None:
    arrays = {"a": np.arange(10), "text": np.array(["x", "é"]), "none": np.zeros((0, 3)), "one": np.array(1.5)}
    np.savez(tmp_path / "a.npz", **arrays)
    np.savez_compressed(tmp_path / "b.npz", **arrays, long=np.arange(10**6))
    np.savez(tmp_path / "c.npz")
    torch.save({"x": torch.arange(10), "y": [1, "a"]}, tmp_path / "d.pt")
    for name in ("a.npz", "b.npz", "c.npz", "d.pt"):
        check_zip(tmp_path / name)


def test_zeros_are_accepted_while_they_are_few(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "few.npz", x=np.zeros(ROOMY // 8 - 1000))
    check_zip(tmp_path / "few.npz")
    np.savez_compressed(tmp_path / "many.npz", x=np.zeros(ROOMY // 8 + 1000))
    with pytest.raises(GpmError, match=r"many\.npz is refused: .* bytes would unpack to 67,\d+,\d+, which no "):
        check_zip(tmp_path / "many.npz")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../x.npy", "leads out of the archive"),
        ("a/../../x.npy", "leads out of the archive"),
        ("/etc/x.npy", "leads out of the archive"),
        ("C:\\x.npy", "leads out of the archive"),
        ("..\\x.npy", "leads out of the archive"),
    ],
)
def test_names_stay_inside(tmp_path: Path, name: str, said: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), _npy(np.arange(3)))
    with pytest.raises(GpmError, match=rf"x\.npz is refused: its entry .* {said}"):
        check_zip(tmp_path / "x.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_links_twins_and_unusual_packing_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("x.npy")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for name, entries, kind in (
        ("link", [link], zipfile.ZIP_STORED),
        ("two entries of the same name", [zipfile.ZipInfo("x.npy"), zipfile.ZipInfo("x.npy")], zipfile.ZIP_STORED),
        ("packed in a way", [zipfile.ZipInfo("x.npy")], zipfile.ZIP_BZIP2),
    ):
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            for entry in entries:
                archive.writestr(entry, _npy(np.arange(3)), kind)
        with pytest.raises(GpmError, match=name):
            check_zip(tmp_path / "x.npz")


def test_an_array_is_as_large_as_it_says(tmp_path: Path) -> None:
    """NumPy allocates what the header says before it reads."""
    for shape in [(3 * 10**12,), (2,), (-3,), (2**40, 2**40), (3, 0)]:
        content = io.BytesIO()
        np.lib.format.write_array_header_1_0(content, {"descr": "<i8", "fortran_order": False, "shape": shape})
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("x.npy", content.getvalue() + np.arange(3).tobytes())
        with pytest.raises(GpmError, match=r"x\.npz is damaged: its array 'x\.npy' is not of the size that it says"):
            check_zip(tmp_path / "x.npz")


def test_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], dtype=object))
    with pytest.raises(GpmError, match=r"its array 'x\.npy' holds pickled objects"):
        check_zip(tmp_path / "x.npz")


def test_what_is_no_archive_is_one_sentence(tmp_path: Path) -> None:
    torch.save({"x": torch.arange(100)}, tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    larger = bytearray(whole)
    at = larger.index(b"PK\x01\x02")
    struct.pack_into("<II", larger, at + 20, 2**31, 2**31)
    for content in (b"", b"text", whole[:-30], whole[: len(whole) // 2], bytes(larger), pickle.dumps([1])):
        (tmp_path / "x.pt").write_bytes(content)
        with pytest.raises(GpmError, match=r"x\.pt is (not a readable archive|damaged)"):
            check_zip(tmp_path / "x.pt")
    with pytest.raises(GpmError, match=r"Cannot read .*none\.pt"):
        check_zip(tmp_path / "none.pt")


def test_links_are_followed_where_the_user_names_them(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "real.pt")
    (tmp_path / "link.pt").symlink_to("real.pt")
    check_zip(tmp_path / "link.pt", follow=True)
    with pytest.raises(GpmError, match="is a symbolic link"):
        check_zip(tmp_path / "link.pt")


# Pickles


def test_data_is_unpickled() -> None:
    counts = defaultdict(list, {0: [1, 2]})
    things = [np.arange(5), np.float64(2), sp.csr_array(np.eye(3)), counts, OrderedDict(a=1), {1, 2}, "x", b"y", 2.5]
    with plain_pickles():
        again = pickle.loads(pickle.dumps(things))
        assert pickle.load(io.BytesIO(pickle.dumps(torch.arange(3)))).tolist() == [0, 1, 2]
    assert again[0].tolist() == [0, 1, 2, 3, 4]
    assert (again[2].toarray() == np.eye(3)).all()
    assert again[3:] == things[3:]


class _Call:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("function", [eval, exec, getattr, open, __import__, Path.touch, torch.load, np.load, np.save])
def test_nothing_is_called(tmp_path: Path, function: Any) -> None:
    content = pickle.dumps(_Call(function, "x"))
    with pytest.raises(pickle.UnpicklingError, match="which is not data"):
        PlainUnpickler(io.BytesIO(content)).load()
    with plain_pickles():
        for load in (lambda: pickle.loads(content), lambda: pickle.load(io.BytesIO(content))):
            with pytest.raises(pickle.UnpicklingError, match="which is not data"):
                load()


def test_dotted_names_lead_nowhere() -> None:
    """Protocol 4 looks up attributes of attributes: numpy.dtype must not be a way to anything below it."""
    for module, name in (("numpy", "dtype.__class__"), ("builtins", "list.__class__"), ("numpy.core", "multiarray")):
        content = pickle.PROTO + b"\x04" + b"".join(
            pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name)
        ) + pickle.STACK_GLOBAL + pickle.STOP  # fmt: skip
        with pytest.raises(pickle.UnpicklingError, match="which is not data"):
            PlainUnpickler(io.BytesIO(content)).load()


def test_elsewhere_pickle_is_as_it_was() -> None:
    before = pickle.load, pickle.loads, pickle.Unpickler

    def fail() -> None:
        with plain_pickles():
            assert pickle.loads is not before[1]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (pickle.load, pickle.loads, pickle.Unpickler) == before
