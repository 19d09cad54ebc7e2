"""Programs: liveness, reuse of buffers, runs without a graph."""

import gc

import numpy as np
import pytest

import torchlite
from torchlite import _C, jit
from torchlite.autograd import Variable


def variable(*sizes, seed=0, **flags):
    return Variable(torchlite.from_numpy(np.random.RandomState(seed).randn(*sizes)), **flags)


def bits(v):
    return v.data.numpy().tobytes()


REUSE = {
    "a chain": lambda x: (x * 2 + 1).tanh().exp() * 3,
    "a value used again": lambda x: (lambda y: (y.tanh(), y + 1))(x * 2),
    "an operand twice": lambda x: (lambda y: y * y)(x * 2),
    "a view that outlives its base": lambda x: (lambda y: y.t())(x * 2) + 1,
    "a base that outlives its view": lambda x: (lambda y: (y.t().add(1), y))(x * 2),
    "a view of a dead base": lambda x: (x * 2)[0].mul(3).add(1),
    "an input": lambda x: x.mul(2) + x,
    "a returned value": lambda x: (lambda y: (y, y.mul(2)))(x * 2),
    "another type": lambda x: x.masked_fill((x * 2).gt(0), 1) + 1,
    "a product into its addend": lambda x: torchlite.addmm(x * 2, x, x * 3),
    "an addend that is a factor": lambda x: (lambda y: torchlite.addmm(y, y, y))(x * 2),
    "an element that is broadcast": lambda x: (x.sum(0) * 2).add(x),
    "selection by index": lambda x: (x * 2).index_select(0, Variable(torchlite.LongTensor([0, 2]))).mul(2),
}


@pytest.mark.parametrize("fn", REUSE.values(), ids=REUSE)
def test_reused_buffers_change_no_result_and_no_input(fn):
    x = variable(3, 3)
    before = bits(x)
    lam = jit.make_lambda(fn, [x])
    program = _C.Program(lam)
    expected = fn(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for _ in range(2):
        results = program.run_plain(x)
        assert [bits(v) for v in results] == [bits(v) for v in expected]
    assert bits(x) == before


def test_captures_are_never_written():
    w = variable(3, 3, seed=1)
    before = bits(w)
    program = _C.Program(jit.make_lambda(lambda x: (w + x).tanh(), [variable(3, 3)]))
    program.run_plain(variable(3, 3))
    assert bits(w) == before


def test_a_run_without_a_graph_gives_leaves():
    x = variable(3, requires_grad=True)
    program = _C.Program(jit.make_lambda(lambda x: x * 2, [x]))
    (plain,), (y,) = program.run_plain(x), program.run(x)
    assert plain.grad_fn is None and not plain.requires_grad and bits(plain) == bits(y)
    assert y.requires_grad


def test_a_long_chain_holds_two_or_three_tensors_at_a_time():
    x = Variable(torchlite.zeros(1 << 16), volatile=True)

    def chain(x):
        for _ in range(100):
            x = x.tanh()
        return x

    program = _C.Program(jit.make_lambda(chain, [x]))
    seen = []

    class Spy(torchlite.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            gc.collect()
            seen.append(sum(o.numel() for o in gc.get_objects() if isinstance(o, _C._TensorBase) and o.numel() > 9999))
            return x.clone()

    probe = _C.Program(jit.make_lambda(lambda x: Spy.apply(chain(x)), [x]))
    seen.clear()
    before = sum(o.numel() for o in gc.get_objects() if isinstance(o, _C._TensorBase) and o.numel() > 9999)
    probe.run(x)
    assert seen[0] - before <= 3 << 16
    program.run(x)
