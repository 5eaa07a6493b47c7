from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gpm import Config, GpmError, Graph, compute
from gpm.compute import CHUNK, alone, choose_device, keep_memory, threaded, threads_for
from gpm.explain.by_class import survey
from gpm.explain.explainer import explain
from gpm.nn.predictor import Predictor


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
    with pytest.raises(GpmError, match=f"^Device '{name}' is not available here; write --device auto"):
        choose_device(name)


def test_so_is_a_card_beyond_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    _have(monkeypatch, cuda=2, mps=False)
    with pytest.raises(GpmError, match="Device 'cuda:2' is not available here"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x"])
def test_words_that_are_no_device_get_the_list(name: str) -> None:
    with pytest.raises(GpmError, match=f"There is no device '{name}'; write auto, cpu, cuda, cuda:1 or mps"):
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


# Threads


@pytest.fixture(autouse=True)
def _torch_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class _Numba:
    """Numba on four cores."""

    def __init__(self) -> None:
        self.config = SimpleNamespace(NUMBA_NUM_THREADS=4)
        self.count = 4

    def get_num_threads(self) -> int:
        return self.count

    def set_num_threads(self, count: int) -> None:
        assert count <= 4
        self.count = count


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> _Numba:
    fake = _Numba()
    monkeypatch.setattr(compute, "numba", fake)
    return fake


def _plainly(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda function: function


@pytest.mark.parametrize(("wanted", "inside"), [(None, 4), (2, 2), (99, 4)])
def test_threads_are_held_while_they_work(four: _Numba, wanted: int | None, inside: int) -> None:
    with threads_for(wanted, CHUNK + 1) as parallel:
        assert parallel
        assert four.count == inside
    assert four.count == 4


@pytest.mark.parametrize(("wanted", "pieces"), [(1, 10**6), (4, CHUNK), (None, 0)])
def test_little_work_is_done_alone(four: _Numba, wanted: int | None, pieces: int) -> None:
    with threads_for(wanted, pieces) as parallel:
        assert not parallel


def test_a_forked_child_works_alone(four: _Numba, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "_owner", -1)
    with threads_for(4, 10**6) as parallel:
        assert not parallel


def test_a_compiled_function_knows_a_forked_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "njit", lambda **options: lambda function: lambda: "parallel" in options)
    function = threaded(lambda: None)
    assert function() is True
    monkeypatch.setattr(compute, "_owner", -1)
    assert function() is False


def test_numba_gets_its_number_back_after_an_error(four: _Numba) -> None:
    with pytest.raises(ZeroDivisionError), threads_for(2, CHUNK + 1):
        _ = 1 / 0
    assert four.count == 4


@pytest.mark.usefixtures("four")
def test_torch_gets_its_number_back_from_walks() -> None:
    torch.set_num_threads(3)
    with threads_for(2, CHUNK + 1):
        torch.set_num_threads(2)  # as numba does where both use the same OpenMP
    assert torch.get_num_threads() == 3


def test_torch_gets_its_number_back_from_compiled_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "njit", _plainly)
    torch.set_num_threads(3)
    threaded(torch.set_num_threads)(1)
    assert torch.get_num_threads() == 3


def test_torch_is_alone_inside_and_has_its_number_back() -> None:
    torch.set_num_threads(3)
    asked = alone()(torch.get_num_threads)
    assert (asked(), torch.get_num_threads(), asked(), torch.get_num_threads()) == (1, 3, 1, 3)
    with alone():
        torch.set_num_threads(2)
    assert torch.get_num_threads() == 3
    with pytest.raises(ZeroDivisionError), alone():
        _ = 1 / 0
    assert torch.get_num_threads() == 3


class _Watched:
    """A run that tells how many threads torch has when it is first looked at."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(torch.get_num_threads())


@pytest.mark.parametrize("asking", [lambda run: explain(run, 0), survey])
def test_explaining_is_done_alone(asking: Callable[[Any], Any]) -> None:
    torch.set_num_threads(3)
    with pytest.raises(LookupError) as told:
        asking(_Watched())
    assert told.value.args == (1,)
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("code", ["Graph.from_edges([[0, 1], [1, 2]])", "set_threads(1)"])
def test_torch_is_undisturbed_when_numba_starts(code: str) -> None:
    """Numba launches its threads once in a process, at the first parallel kernel or question about them."""
    lines = [
        "import torch",
        "from gpm import Graph",
        "from gpm.compute import set_threads",
        "torch.set_num_threads(1)",
        "torch.get_num_threads()  # from here on torch only asks OpenMP",
        code,
        "assert torch.get_num_threads() == 1, torch.get_num_threads()",
    ]
    many = os.environ | {"NUMBA_NUM_THREADS": "2"}
    many.pop("OMP_NUM_THREADS", None)
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], env=many).returncode == 0


@pytest.mark.usefixtures("four")
def test_only_one_thread_of_python_is_inside() -> None:
    """Numba's fallback layer aborts the process when it is entered twice."""
    inside, most = 0, 0
    ready = threading.Barrier(4)

    def work() -> None:
        nonlocal inside, most
        ready.wait()
        for _ in range(5):
            with threads_for(2, CHUNK + 1):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == 1


def test_threads_of_a_block_are_given_back() -> None:
    torch.set_num_threads(2)
    before = compute.count_threads()
    with compute.using_threads(1):
        assert (torch.get_num_threads(), compute.count_threads()) == (1, 1)
    assert (torch.get_num_threads(), compute.count_threads()) == (2, before)
    with compute.using_threads(0):
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_shared_work_keeps_its_order_and_gives_threads_back(threads: int) -> None:
    torch.set_num_threads(2)
    inner: list[tuple[int, bool]] = []

    def work(i: int) -> int:
        inner.append((torch.get_num_threads(), torch.is_grad_enabled()))
        return i * i

    with compute.using_threads(threads), torch.no_grad():
        assert list(compute.share_out(work, [(i,) for i in range(50)])) == [i * i for i in range(50)]
        assert torch.get_num_threads() == threads
    assert set(inner) == {(1, False)}
    assert torch.get_num_threads() == 2


def test_a_mistake_in_shared_work_is_raised_and_threads_are_given_back() -> None:
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        list(compute.share_out(lambda i: 1 // i, [(1,), (0,), (2,)]))
    assert torch.get_num_threads() == 2
    assert list(compute.share_out(lambda i: i, [(1,), (2,)])) == [1, 2]


def test_steady_threads_are_shared_out_while_torch_has_one() -> None:
    torch.set_num_threads(2)
    names = set()

    def work(_: int) -> None:
        names.add(threading.current_thread().name)
        time.sleep(0.01)

    with compute.steady_threads():
        assert torch.get_num_threads() == 1
        list(compute.share_out(work, [(i,) for i in range(8)]))
    assert torch.get_num_threads() == 2
    assert len(names) == 2
    names.clear()
    with compute.steady_threads(), compute.alone():
        list(compute.share_out(work, [(0,), (1,)]))
    assert names == {threading.current_thread().name}


def test_a_bare_loop_around_a_model_is_steady_in_both_passes_and_gets_its_threads_back() -> None:
    torch.set_num_threads(2)
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 40, (2, 100)), 40, x=np.ones((40, 3), np.float32))
    predictor = Predictor.build(Config(width=8, heads=2, lengths=[1, 2], patterns=4, pool=4), graph, 2)
    seen = []
    model = predictor.model
    model.head.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    logits = model(predictor.tokenizer.nodes(np.arange(8)), predictor.table).logits
    assert torch.get_num_threads() == 2
    model.input_map.bias.register_hook(lambda _: seen.append(torch.get_num_threads()))
    logits.sum().backward()
    assert seen == [1, 1]
    assert torch.get_num_threads() == 2


def test_results_are_given_in_order_while_few_wait_for_a_slow_piece() -> None:
    """A thread that is kept from running holds the others up only when many results wait for its own."""
    torch.set_num_threads(2)
    began, last = threading.Event(), []

    def work(i: int) -> int:
        if i == 0:
            began.wait(5)
        last.append(i)
        if i == 5:
            began.set()
        return i

    assert list(compute.share_out(work, [(i,) for i in range(100)])) == list(range(100))
    assert last.index(0) >= 5
    assert last.index(0) <= compute.AHEAD + 4


@pytest.mark.parametrize("slow", ["caller", "helper"])
def test_helpers_come_back_after_a_piece_that_held_them_up(slow: str) -> None:
    torch.set_num_threads(2)
    main, by = threading.current_thread(), []

    def work(i: int) -> int:
        mine = threading.current_thread() is main
        if mine == (slow == "caller") and not any(each == mine for each in by):
            by.append(mine)
            time.sleep(0.2)
        else:
            by.append(mine)
            time.sleep(0.002)
        return i

    assert list(compute.share_out(work, [(i,) for i in range(200)])) == list(range(200))
    assert by.count(False) > 40


def test_an_interrupt_of_the_caller_is_raised_at_once() -> None:
    torch.set_num_threads(2)
    main, done = threading.current_thread(), []

    def work(i: int) -> None:
        if threading.current_thread() is main:
            raise KeyboardInterrupt
        done.append(i)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        list(compute.share_out(work, [(i,) for i in range(50)]))
    assert len(done) < 5


@pytest.mark.parametrize("threads", [1, 2])
def test_shared_work_is_not_rounded_by_autocast(threads: int) -> None:
    """It is on for each thread alone, so that results would depend on who computed a piece."""
    torch.set_num_threads(threads)
    x = torch.randn(64, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = list(compute.share_out(lambda _: x @ x, [(i,) for i in range(8)]))
    torch.set_num_threads(2)
    assert all(torch.equal(each, x @ x) for each in found)


def test_waiting_threads_of_openmp_do_not_spin_long() -> None:
    show = "import os, gpm; print(os.environ.get('GOMP_SPINCOUNT'))"
    clean = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    for more, expected in (({}, "1000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")):
        done = subprocess.run(
            [sys.executable, "-c", show], env=clean | more, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected
