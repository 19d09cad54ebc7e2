"""Lambdas with open sizes: run on other sizes as the calls would be, refused where an operation refuses."""

from __future__ import annotations

import pytest
from programs import engine, trace, variable

import torchlite
from torchlite import _C, jit
from torchlite.autograd import Function
from torchlite.nn import functional as F


def model(x, w, b):
    h = torchlite.tanh(F.linear(x, w, b))
    return F.softmax(h * 2 + x.sum(1, True), 1), torchlite.cat([h, h], 0).max(1)[1]


def opened() -> _C.Lambda:
    lam = trace(model, variable(4, 3), variable(2, 3, requires_grad=True), variable(2))
    return jit.open_sizes(lam, {0: [0]})


@pytest.mark.parametrize("n", [1, 4, 7, 0])
def test_it_runs_on_other_sizes_as_the_calls_do(n: int) -> None:
    lam = opened()
    if n == 0:
        lam = jit.open_sizes(trace(lambda x: (x * 2).tanh(), variable(4, 3)), {0: [0, -1]})
        assert tuple(engine.run_forward(lam, (variable(0, 5),))[0].size()) == (0, 5)
        return
    inputs = variable(n, 3, seed=n), variable(2, 3, requires_grad=True), variable(2)
    for got, expected in zip(engine.run_forward(lam, inputs), model(*inputs), strict=True):
        assert got.data.numpy().tobytes() == expected.data.numpy().tobytes()


def test_gradients_flow_through_it() -> None:
    x, w, b = variable(6, 3), variable(2, 3, requires_grad=True), variable(2)
    found = []
    for call in (lambda: engine.run_forward(opened(), (x, w, b))[0], lambda: model(x, w, b)[0]):
        w.grad = None
        (call() * x.sum(1, True)).sum().backward()
        found.append(w.grad.data.numpy().tobytes())
    assert found[0] == found[1]


def test_it_is_checked_printed_and_read_back() -> None:
    lam = opened()
    lam.check()
    head, first = str(lam).splitlines()[:2]
    assert head == "lambda %0 : Float(-1, 3), %1 : Float(2, 3), %2 : Float(2,) {"
    assert first == "  %3 = Linear %0, %1, %2 : Float(-1, -1)"
    assert jit.parse(str(lam)) == lam


@pytest.mark.parametrize(
    ("f", "sizes", "message"),
    [
        (lambda x, y: torchlite.mm(x, y), (4, 5), r"mm: size mismatch.*\(4, 5\).*\(3, 2\)"),
        (lambda x, y: x.view(12) * 1, (5, 3), r"size '\[12\]' is invalid for input of with 15 elements"),
        (lambda x, y: x * 2, (4, 3, 1), r"input 0 has type Float\(4, 3, 1\), but .* for Float\(-1, -1\)"),
    ],
)
def test_what_an_operation_refuses_is_refused(f, sizes: tuple, message: str) -> None:
    lam = jit.open_sizes(trace(f, variable(4, 3), variable(3, 2)), {0: [0, 1]})
    with pytest.raises((RuntimeError, ValueError), match=message):
        engine.run_forward(lam, (variable(*sizes), variable(3, 2)))


def test_a_wrong_element_type_is_found_when_it_runs() -> None:
    kind = _C.TensorType("Float", (-1,))
    x, y = _C.Local(kind), _C.Local(_C.TensorType("Double", (-1,)))
    lam = _C.Lambda([x], [_C.Let([y], _C.CppApply("neg", [x]))], [y])
    with pytest.raises(RuntimeError, match=r"result 0 of neg has type Float\(3,\) .* bound as Double\(-1,\)"):
        engine.run_forward(lam, (variable(3),))


def test_a_program_wants_known_sizes() -> None:
    with pytest.raises(RuntimeError, match="open sizes, which only inputs can tell"):
        _C.Program(opened())


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize(
    ("dims", "error", "message"),
    [
        ({1: [0]}, IndexError, "the lambda has 1 inputs, so there is no parameter 1"),
        ({0: [2]}, IndexError, "parameter 0 has 2 dimensions, so there is no dimension 2"),
        ({0: [0]}, ValueError, "Twice is a Python Function"),
    ],
)
def test_what_cannot_be_left_open_is_named(dims: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        jit.open_sizes(trace(Twice.apply, variable(2, 3)), dims)
