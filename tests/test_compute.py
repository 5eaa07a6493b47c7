from __future__ import annotations

import ctypes
import sys

import pytest
import torch

from gpm import GpmError, compute
from gpm.compute import choose_device, keep_memory


def _have(monkeypatch: pytest.MonkeyPatch, cuda: int, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"), [(1, False, "cuda"), (1, True, "cuda"), (0, True, "mps"), (0, False, "cpu")]
)
def test_auto_is_the_first_that_is_there(monkeypatch: pytest.MonkeyPatch, cuda: int, mps: bool, chosen: str) -> None:
    _have(monkeypatch, cuda, mps)
    assert choose_device("auto") == chosen


def test_what_is_there_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _have(monkeypatch, cuda=2, mps=True)
    assert [choose_device(name) for name in ("cpu", "cuda", "cuda:1", "mps")] == ["cpu", "cuda", "cuda:1", "mps"]
    assert choose_device("cpu:0") == "cpu"


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", "meta"])
def test_what_is_not_there_is_a_mistake(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _have(monkeypatch, cuda=0, mps=False)
    with pytest.raises(GpmError, match=f"^device '{name}' is not available here; write --device auto"):
        choose_device(name)


def test_so_is_a_card_beyond_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    _have(monkeypatch, cuda=2, mps=False)
    with pytest.raises(GpmError, match="device 'cuda:2' is not available here"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x"])
def test_words_that_are_no_device_get_the_list(name: str) -> None:
    with pytest.raises(GpmError, match=f"there is no device '{name}'; write auto, cpu, cuda, cuda:1 or mps"):
        choose_device(name)


def test_memory_is_kept_where_glibc_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both limits are numbers that glibc takes, and other systems are left alone."""
    taken: list[int] = []

    class Library:
        def __init__(self, name: str) -> None:
            assert name == "libc.so.6"

        def mallopt(self, option: int, value: int) -> int:
            assert 0 < value < 2**31
            taken.append(option)
            return 1

    monkeypatch.setattr(compute.ctypes, "CDLL", Library)
    monkeypatch.setattr(sys, "platform", "darwin")
    keep_memory()
    assert taken == []
    monkeypatch.setattr(sys, "platform", "linux")
    keep_memory()
    assert taken == [-3, -1]  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD


def test_another_libc_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ctypes.CDLL:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(compute.ctypes, "CDLL", missing)
    keep_memory()
