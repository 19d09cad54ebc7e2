"""100,000 lets on a thread with a stack of 512 KiB, in time that grows with the length."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from programs import trace, variable

import torchlite
from torchlite import _C
from torchlite.jit import ExprVisitor, parse

STACK = 512 * 1024
LENGTH = 100_000


def on_a_small_stack(f: Callable[[], Any]) -> Any:
    out: list[Any] = []

    def call() -> None:
        try:
            out.append(f())
        except BaseException as e:
            out.append(e)

    before = threading.stack_size(STACK)
    try:
        t = threading.Thread(target=call)
        t.start()
        t.join()
    finally:
        threading.stack_size(before)
    if isinstance(out[0], BaseException):
        raise out[0]
    return out[0]


def chain(n: int) -> _C.Lambda:
    def f(x):
        for _ in range(n // 2):
            x = torchlite.tanh(x * 0.5)
        return x

    return trace(f, variable(1, requires_grad=True))


def processor_seconds(f: Callable[[], Any]) -> float:
    """What `f` computes for, without what the thread waits for on a busy machine."""
    start = time.thread_time()
    f()
    return time.thread_time() - start


@pytest.mark.no_leak_check(reason="takes seconds")
def test_everything_works_on_a_small_stack() -> None:
    def everything() -> None:
        lam = chain(LENGTH)
        assert len(lam.lets) == LENGTH
        text = str(lam)
        assert text.count("\n") == LENGTH + 3
        again = parse(text)
        assert again == lam
        assert hash(again) == hash(lam)
        again.check()
        ExprVisitor().visit(lam)
        x = variable(1, requires_grad=True)
        program = _C.Program(lam)
        (a,), (b,) = program.run(x.data), program.run(x)
        assert (a.data.numpy() == b.data.numpy()).all()
        b.backward()
        assert x.grad is not None

    on_a_small_stack(everything)


@pytest.mark.no_leak_check(reason="takes seconds")
def test_copies_of_a_long_program_on_a_small_stack() -> None:
    lam = chain(10_000)
    assert on_a_small_stack(lambda: pickle.loads(pickle.dumps(lam)) == lam)
    assert on_a_small_stack(lambda: copy.deepcopy(lam) == lam)


@pytest.mark.no_leak_check(reason="measures time")
@pytest.mark.parametrize(
    "work",
    [
        lambda lam, text: str(lam),
        lambda lam, text: parse(text),
        lambda lam, text: lam.check(),
        lambda lam, text: hash(lam),
        lambda lam, text: lam == parse(text),
        lambda lam, text: _C.Program(lam),
        lambda lam, text: chain(len(lam.lets)),
        lambda lam, text: _C.Program(lam).run(variable(1, requires_grad=True)),
        lambda lam, text: _C.Program(lam).run(variable(1)),
    ],
    ids=["print", "parse", "check", "hash", "compare", "compile", "trace and free", "run and free", "run plainly"],
)
def test_time_grows_with_the_length(work: Callable) -> None:
    short, long = chain(1_000), chain(32_000)
    short_text, long_text = str(short), str(long)
    # 32 times the length: quadratic work would take 1024 times as long. The gap leaves room for caches that others use.
    for _ in range(5):
        base = max(processor_seconds(lambda: work(short, short_text)), 1e-4)
        ratio = processor_seconds(lambda: work(long, long_text)) / base
        if ratio < 128:
            return
    pytest.fail(f"32 times the length takes {ratio:.0f} times as long")
