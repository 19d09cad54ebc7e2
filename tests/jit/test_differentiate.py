"""Derivatives of lambdas against the engine's, for every row of the op table and for whole models."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchlite
import torchlite.nn.functional as F
from torchlite import _C, autograd, jit, nn
from torchlite.autograd import Function, Variable

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))


SAMPLES = {
    entry.name: entry
    for path in sorted((Path(__file__).parents[1] / "ops").glob("samples_*.py"))
    for entry in importlib.import_module(path.stem).SAMPLES
}
Array = importlib.import_module("samples").Array
ROWS = {row.name: row for row in _C._ops}
run = Variable._execution_engine.run_forward


def leaves(args: list[Any]) -> list[np.ndarray]:
    return [
        a
        for arg in args
        for a in (arg if isinstance(arg, list) else [arg])
        if isinstance(a, np.ndarray) and a.dtype.kind == "f"
    ]


def rebuilt(args: list[Any], variables: Any) -> list[Any]:
    def one(a):
        return next(variables) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a

    def other(a):
        return Variable(torchlite.from_numpy(a)) if isinstance(a, np.ndarray) else a

    return [[other(one(x)) for x in a] if isinstance(a, list) else other(one(a)) for a in args]


def assert_close(got, expected):
    np.testing.assert_allclose(got.data.numpy(), expected.data.numpy(), rtol=1e-9, atol=1e-9)


def differentiable(outputs):
    return [o for o in outputs if o.data.numpy().dtype.kind == "f" and o.requires_grad]


def cotangents(outputs):
    return [
        Variable(torchlite.from_numpy(np.cos(np.arange(o.data.numel()) + 1.0).reshape(o.size())).type_as(o.data))
        for o in outputs
        if o.data.numpy().dtype.kind == "f"
    ]


def as_tuple(out):
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name", sorted(n for n, row in ROWS.items() if row.differentiable and n in SAMPLES))
def test_vjp_of_each_operation_is_the_engines_gradient(name):
    for s in SAMPLES[name].samples:
        args, kwargs = s.make("float64")
        arrays = leaves(args)
        masked = "uint8" in str([getattr(a, "dtype", a) for a in args])
        if not arrays or (masked and name in ("masked_select", "index", "index_backward")):
            continue  # nothing to differentiate by, or sizes that depend on data

        def fn(*variables, args=args, kwargs=kwargs):
            return as_tuple(ROWS[name](*rebuilt(args, iter(variables)), **kwargs))

        # Arrays with a type of their own (weights of classes, running statistics) take no gradient.
        makers = [m for a in s.args for m in (a if isinstance(a, list) else [a])]
        floating = [m for m in makers if isinstance(m, Array) and m.dtype in (None, "float64")]
        chosen = [i for i, m in enumerate(floating) if m.dtype is None]
        inputs = [Variable(torchlite.from_numpy(a.copy()), requires_grad=i in chosen) for i, a in enumerate(arrays)]
        derivative = jit.vjp(jit.make_lambda(fn, inputs), chosen, values=True)
        torchlite.manual_seed(0)
        outputs = fn(*inputs)
        seeds = cotangents(outputs)
        torchlite.manual_seed(0)
        got = run(derivative, (*inputs, *seeds))
        pairs = [(o, g) for o, g in zip(outputs, seeds, strict=False) if o.requires_grad]
        if not pairs:
            continue
        expected = autograd.grad([o for o, _ in pairs], [inputs[i] for i in chosen], [g for _, g in pairs])
        for g, e in zip(got[len(outputs) :], expected, strict=True):
            if e is not None:
                assert_close(g, e)


def variable(*sizes, seed=0, **flags):
    return Variable(torchlite.from_numpy(np.random.RandomState(seed).randn(*sizes)), **flags)


def network(x, w, b, target):
    return F.cross_entropy(F.linear(torchlite.tanh(x) * 2, w, b), target)


@pytest.fixture
def case():
    inputs = [variable(4, 3), variable(5, 3, seed=1), variable(5, seed=2)]
    target = Variable(torchlite.LongTensor([0, 2, 4, 1]))
    inputs = [Variable(v.data, requires_grad=True) for v in inputs]
    return jit.make_lambda(network, [*inputs, target]), inputs, target


def same_bits(got, expected):
    assert [v.data.numpy().tobytes() for v in got] == [v.data.numpy().tobytes() for v in expected]


def test_grad_gives_the_value_and_the_gradients_of_the_engine(case):
    lam, inputs, target = case
    loss = network(*inputs, target)
    derivative = jit.grad(lam, values=True)
    derivative.check()
    same_bits(run(derivative, (*inputs, target)), [loss, *autograd.grad([loss], inputs)])
    same_bits(run(jit.grad(lam, [1]), (*inputs, target)), autograd.grad([network(*inputs, target)], [inputs[1]]))


def test_derivatives_can_be_differentiated_again(case):
    lam, inputs, target = case
    second = jit.vjp(jit.grad(lam, [1]), [0, 1])
    third = jit.vjp(second, [0])
    seed = variable(5, 3, seed=5)
    (g,) = autograd.grad([network(*inputs, target)], [inputs[1]], create_graph=True)
    expected = autograd.grad([g], inputs[:2], [seed], create_graph=True)
    for got, e in zip(run(second, (*inputs, target, seed)), expected, strict=True):
        assert_close(got, e)
    seeds = [variable(4, 3, seed=6), variable(5, 3, seed=7)]
    expected = autograd.grad(list(expected), [inputs[0]], seeds)
    assert_close(run(third, (*inputs, target, seed, *seeds))[0], expected[0])


def test_a_gradient_that_nothing_gives_is_zero():
    lam = jit.make_lambda(lambda x, y: x * 2, [variable(3), variable(2)])
    got = run(jit.vjp(lam), (variable(3), variable(2), variable(3, seed=1)))
    assert got[1].data.tolist() == [0, 0]


def test_captures_stay_captures_and_have_gradients():
    w = variable(3, seed=3, requires_grad=True)
    lam = jit.make_lambda(lambda x: (x * w).sum(), [variable(3)])
    derivative = jit.grad(lam)
    assert derivative.captures[0] is w
    x = variable(3, seed=4)
    same_bits(run(derivative, (x,)), [w, x])


def test_random_operations_draw_once_for_value_and_gradient():
    x = variable(100, requires_grad=True)
    lam = jit.make_lambda(lambda x: F.dropout(x, 0.5, True).sum(), [x])
    value, gradient = run(jit.grad(lam, values=True), (x,))
    mask = gradient.data.numpy()
    np.testing.assert_allclose(value.data[0], (mask * x.data.numpy()).sum())


class NotTwice(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @autograd.function.once_differentiable
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]


def test_a_gradient_that_is_no_operation_is_refused():
    lam = jit.make_lambda(lambda x: NotTwice.apply(x), [variable(3)])
    with pytest.raises(RuntimeError, match="once_differentiable"):
        jit.vjp(lam)


def test_wrong_arguments_are_named(case):
    lam, _, _ = case
    with pytest.raises(IndexError, match="parameter 9"):
        jit.vjp(lam, [9])
    with pytest.raises(ValueError, match="parameter 3 has type Long"):
        jit.vjp(lam, [3])
    with pytest.raises(ValueError, match="one floating number"):
        jit.grad(jit.make_lambda(lambda x: x * 2, [variable(3)]))


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
def test_vjp_of_recurrent_layers(cell):
    model = getattr(nn, cell)(3, 4, 2)
    parameters = list(model.parameters())
    x = Variable(torchlite.randn(5, 2, 3))
    lam = jit.trace(model, x).lambda_for(x)
    derivative = jit.vjp(lam, range(1, 1 + len(parameters)))
    outputs = list(F_leaves(model(x)))
    seeds = [Variable(torchlite.randn(o.size())) for o in outputs]
    got = run(derivative, (x, *parameters, *seeds))
    expected = autograd.grad(outputs, parameters, seeds)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g.data.numpy(), e.data.numpy(), rtol=1e-4, atol=1e-5)


def F_leaves(obj):
    return autograd.function._iter_variables(obj)


@pytest.mark.parametrize("arguments", [(), (1,)], ids=["all", "along a dim"])
def test_a_hidden_result_follows_the_results_that_a_call_has(arguments):
    lam = jit.make_lambda(lambda v: torchlite.median(v, *arguments), [variable(3, 4)])
    derivative = jit.vjp(lam, [0])
    median = next(let for let in derivative.lets if let.name == "Median")
    assert len(median.results) == len(lam.lets[0].results) + 1
    assert jit.parse(str(derivative)) == derivative
