"""A trace warns where Python turns a traced value into one of its own, which replays cannot follow."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from programs import trace, variable

import torchlite
from torchlite.autograd import Variable
from torchlite.jit import jit

READS: dict[str, tuple[Callable, str]] = {
    "float": (lambda v: float(v), "a float"),
    "int": (lambda v: int(v), "an int"),
    "item": (lambda v: v.item(), "a Python number"),
    "asarray": (lambda v: np.asarray(v), "an array"),
    "numpy": (lambda v: v.numpy(), "an array"),
}


@pytest.mark.parametrize("read", READS)
def test_reading_a_traced_value_warns_with_the_line(read: str) -> None:
    f, kind = READS[read]
    said = rf"a traced Variable \(the result of SumBackward of type Float\(1,\)\) is converted to {kind}"
    with pytest.warns(RuntimeWarning, match=said) as seen:
        trace(lambda x: (f(x.sum()), x * 2)[1], variable(3))
    assert [(w.filename, w.lineno) for w in seen] == [(__file__, f.__code__.co_firstlineno)]


DATA_READS: dict[str, Callable] = {
    "sum": lambda v: v.data.sum(),
    "element": lambda v: v.data[0],
    "compared": lambda v: v.data.max() > 0,
    "numpy": lambda v: v.data.numpy(),
    "tolist": lambda v: v.data.tolist(),
    "float": lambda v: float(v.data[:1]),
}


@pytest.mark.parametrize("read", DATA_READS)
def test_reading_data_of_a_traced_value_warns_with_the_line(read: str) -> None:
    f = DATA_READS[read]
    with pytest.warns(RuntimeWarning, match=r"a traced Variable's .data \(Float\(.*\)\) is converted to a") as seen:
        trace(lambda x: (f(x), x * 2)[1], variable(3))
    assert [(w.filename, w.lineno) for w in seen] == [(__file__, f.__code__.co_firstlineno)]


def test_printing_and_sizes_are_no_reads() -> None:
    trace(lambda x: (str(x), x.data.size(), x.data.new(3).zero_(), x * x.numel())[3], variable(3))


@pytest.mark.parametrize("read", READS)
def test_other_values_are_read_without_a_word(read: str) -> None:
    f, other = READS[read][0], variable(1)
    f(variable(3).sum())
    trace(lambda x: (f(other), x * 2)[1], variable(3))


def test_after_a_trace_its_values_are_ordinary() -> None:
    kept: list[Variable] = []
    trace(lambda x: kept.append(x.sum()) or kept[0], variable(3))
    assert float(kept[0]) == kept[0].item()


def test_a_warning_that_is_an_error_ends_the_trace() -> None:
    f = jit(lambda x: x if float(x.sum()) > 0 else -x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # nothing was cached
            with pytest.raises(RuntimeWarning, match="converted to a float"):
                f(variable(3))
    assert not torchlite._C._tracer_depth()


def test_the_branch_that_was_traced_is_found_by_check() -> None:
    f = jit(lambda x: x * 2 if float(x.sum()) > 0 else x * 3, check=True)
    ones = Variable(torchlite.ones(3))
    with pytest.warns(RuntimeWarning, match="converted to a float"):
        f(ones)
    with pytest.raises(RuntimeError, match="result .*differs from the eager one"):
        f(-ones)
