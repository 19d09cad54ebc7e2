"""Replays that are one node of the graph, against the eager graph."""

import gc
import weakref

import numpy as np
import pytest

import torchlite
import torchlite.nn.functional as F
from torchlite import autograd, jit
from torchlite.autograd import Variable


def variable(*sizes, seed=0, requires_grad=True):
    r = np.random.RandomState(seed)
    return Variable(torchlite.from_numpy(r.uniform(0.2, 1, sizes)), requires_grad=requires_grad)


def fn(x, w, b):
    h = (F.linear(x, w, b)).tanh()
    return (h * h).sum(0) * 2, h.sigmoid() + h


def inputs():
    return [variable(4, 3), variable(5, 3, seed=1), variable(5, seed=2)]


def same(got, expected):
    for g, e in zip(got, expected, strict=True):
        assert (g is None) == (e is None)
        assert g is None or g.data.numpy().tobytes() == e.data.numpy().tobytes()


@pytest.fixture
def compiled():
    f = jit.compile(fn)
    f(*inputs())
    (entry,) = f._cache.values()
    assert entry.plan is not None
    return f


@pytest.mark.parametrize("chosen", [(0,), (1,), (0, 1)])
def test_gradients_are_the_eager_ones_bit_by_bit(compiled, chosen):
    found = []
    for call in (compiled, fn):
        args = inputs()
        outputs = call(*args)
        autograd.backward([outputs[k] for k in chosen], [outputs[k].data.clone() for k in chosen])
        found.append([v.grad for v in args])
    same(*found)


def test_gradients_flow_on_to_what_the_inputs_were_made_of(compiled):
    found = []
    for call in (compiled, fn):
        args = inputs()
        sum(o.sum() for o in call(args[0] * 2, args[1] + args[1], args[2])).backward()
        found.append([v.grad for v in args])
    same(*found)


def test_double_backward_is_the_eager_one(compiled):
    found = []
    for call in (compiled, fn):
        args = inputs()
        outputs = call(args[0] * 1, args[1], args[1].sum(1) * 1)  # the third input depends on the second
        grads = autograd.grad([o.sum() for o in outputs], args[:2], create_graph=True)
        sum((g * g).sum() for g in grads).backward()
        found.append([v.grad for v in args[:2]])
    for g, e in zip(*found, strict=True):
        np.testing.assert_allclose(g.data.numpy(), e.data.numpy(), rtol=1e-9)


def test_backward_twice_needs_retain_graph(compiled):
    args = inputs()
    y = compiled(*args)[1].sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_kept_input_that_is_written_before_backward_is_an_error(compiled):
    args = inputs()
    x = args[0] * 1
    y = compiled(x, *args[1:])[1].sum()
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_kept_result_that_is_written_before_backward_is_an_error():
    f = jit.compile(lambda x: ((x * 2).add(1).mul(x) + 1).exp())
    x = variable(3)
    y = f(x)
    assert next(iter(f._cache.values())).plan is not None
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_results_that_backward_does_not_need_may_be_written():
    f = jit.compile(lambda x: (x.tanh() * x).exp() * 2 + 1)
    found = []
    for call in (f, lambda x: (x.tanh() * x).exp() * 2 + 1):
        x = variable(3)
        y = call(x)
        y.mul_(3)
        y.sum().backward()
        found.append([x.grad])
    assert next(iter(f._cache.values())).plan is not None
    same(*found)


def test_a_captured_parameter_gets_its_gradient():
    w = variable(3, seed=5)
    f = jit.compile(lambda x: ((x * w).tanh() * w).exp() + 1)
    x = variable(3)
    f(x).sum().backward()
    ours = w.grad.data.clone()
    w.grad = None
    (((x * w).tanh() * w).exp() + 1).sum().backward()
    assert ours.numpy().tobytes() == w.grad.data.numpy().tobytes()


NO_PLAN = {
    "random": lambda x: F.dropout(x * 2 + 1, 0.5, True) * x,
    "a view of a result": lambda x: ((x * 2 + 1) * x + 1).t(),
    "an argument": lambda x: (x, (x * 2 + 1) * x + 1),
    "one result twice": lambda x: (lambda y: (y, y))((x * 2 + 1) * x + 1),
}


@pytest.mark.parametrize("function", NO_PLAN.values(), ids=NO_PLAN)
def test_other_functions_keep_their_ordinary_replay(function):
    f = jit.compile(function)
    x = variable(3, 3)
    torchlite.manual_seed(0)
    f(x)
    assert next(iter(f._cache.values())).plan is None


def test_a_graph_that_is_dropped_frees_what_the_replay_kept(compiled):
    args = inputs()
    y = compiled(*args)[0]
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert node() is None
