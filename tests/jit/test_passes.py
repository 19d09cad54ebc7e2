"""Passes: the same bits from fewer or larger operations."""

import random

import numpy as np
import pytest

import torchlite
import torchlite.nn.functional as F
from torchlite import _C, jit
from torchlite.autograd import Function, Variable
from torchlite.jit import passes

PASSES = {
    "dead code": passes.eliminate_dead_code,
    "common subexpressions": passes.eliminate_common_subexpressions,
    "constants": passes.fold_constants,
    "fusion": passes.fuse_elementwise,
    "all": passes.optimize,
}


def variable(*sizes, seed=0, dtype="f4", **flags):
    return Variable(np.random.RandomState(seed).uniform(0.1, 2, sizes).astype(dtype), **flags)


def names(lam):
    return [let.name for let in lam.lets]


def bits(results):
    return [v.data.numpy().tobytes() for v in results]


def run(lam, *inputs):
    jit.check(lam)
    return _C.Program(lam).run_plain(*inputs)


class Loud(Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Loud.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def random_program(seed):
    """A function of three (4, 5) Variables made of operations that passes look at, and of some that they don't."""
    r = random.Random(seed)
    dtype = r.choice(["f4", "f8"])

    def fn(*inputs):
        r.seed(seed)
        values = list(inputs)
        for _ in range(25):
            a, b = r.choice(values), r.choice(values)
            values.append(
                r.choice(
                    [
                        lambda a, b: a + b,
                        lambda a, b: a.sub(0.25, b),
                        lambda a, b: a.add(-3, b),
                        lambda a, b: a * b,
                        lambda a, b: a * 0.5,
                        lambda a, b: 2 - a,
                        lambda a, b: a / (b.abs() + 1),
                        lambda a, b: 1 / (a * a + 1),
                        lambda a, b: a**2,
                        lambda a, b: -a,
                        lambda a, b: a.abs().sqrt(),
                        lambda a, b: a.tanh(),
                        lambda a, b: a.sigmoid(),
                        lambda a, b: F.relu(a),
                        lambda a, b: (-a.abs()).exp(),
                        lambda a, b: (a.abs() + 1).log(),
                        lambda a, b: a.t().contiguous().t() + b,
                        lambda a, b: a + b[0],
                        lambda a, b: a - b.sum(0),
                        lambda a, b: a.max(1)[0].unsqueeze(1) * b,
                        lambda a, b: a.t().t(),
                    ]
                )(a, b)
            )
        return tuple(r.sample(values[3:], 3))

    return fn, [variable(4, 5, seed=s, dtype=dtype) for s in range(3)]


@pytest.mark.parametrize("apply", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("block", range(5))
def test_a_pass_changes_no_bit_of_random_programs(apply, block):
    for seed in range(block * 20, block * 20 + 20):
        fn, inputs = random_program(seed)
        lam = jit.make_lambda(fn, inputs)
        changed = apply(lam)
        assert bits(run(changed, *inputs)) == bits(run(lam, *inputs)) == bits(fn(*inputs)), seed


def test_gradients_of_optimised_programs_are_the_eager_ones_bit_by_bit():
    for seed in range(50):
        fn, inputs = random_program(seed)
        found = []
        for call in (fn, jit.compile(fn)):
            leaves = [Variable(v.data, requires_grad=True) for v in inputs]
            torchlite.autograd.backward(list(call(*leaves)), [torchlite.ones(4, 5).type_as(v.data) for v in inputs])
            found.append([None if v.grad is None else v.grad.data.numpy().tobytes() for v in leaves])
        assert found[0] == found[1], seed


def test_dead_code_goes_but_not_what_has_effects():
    def fn(x):
        x.tanh().exp()
        F.dropout(x, 0.5, True)
        F.dropout(x, 0.5, False)
        Loud.apply(x)
        return x * 2

    lam = jit.make_lambda(fn, [variable(3)])
    assert names(passes.eliminate_dead_code(lam)) == ["Dropout", "Loud", "Mul"]


def test_common_subexpressions_are_computed_once():
    def fn(x):
        return (x + 1) * (x + 1) + torchlite.cat([x.tanh(), x], 0) - torchlite.cat([x.tanh(), x], 0)[0]

    lam = jit.make_lambda(fn, [variable(1)])
    assert names(passes.eliminate_common_subexpressions(lam)).count("Tanh") == 1
    assert names(passes.eliminate_common_subexpressions(lam)).count("Concat") == 1


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.dropout(x, 0.5, True) + F.dropout(x, 0.5, True),
        lambda x: Loud.apply(x) + Loud.apply(x),
        lambda x: x * 1 + x * 1.0,
        lambda x: x * 0.0 + x * -0.0,
    ],
    ids=["random", "Function", "int and float", "two zeros"],
)
def test_what_only_looks_common_stays(fn):
    lam = jit.make_lambda(fn, [variable(3)])
    assert len(passes.eliminate_common_subexpressions(lam).lets) == 3


def test_constants_are_folded_and_captured_variables_are_not():
    w = variable(3, seed=1)
    lam = jit.make_lambda(lambda x: x * (w * 2 + 1), [variable(3)])
    assert len(passes.fold_constants(lam).lets) == 3
    constant = _C.Lambda(lam.params, lam.lets, lam.ret, [w.data])
    folded = passes.fold_constants(constant)
    assert names(folded) == ["Mul"]
    x = variable(3, seed=2)
    assert bits(run(folded, x)) == bits(run(lam, x))


def test_elementwise_neighbours_become_one_operation():
    lam = jit.make_lambda(lambda x, y: ((x * y).tanh() + 1) / (x.sigmoid() + 2), [variable(3), variable(3)])
    assert names(passes.fuse_elementwise(lam)) == ["FusedElementwise"]


def test_fusion_stops_at_other_operations_types_and_sizes():
    def fn(x, y):
        a = (x * 2 + 1).sum(0)
        return (a * 2 + 1) * y, (x - 1).tanh() + a

    lam = passes.fuse_elementwise(jit.make_lambda(fn, [variable(3, 4), variable(2, 4)]))
    assert names(lam) == ["FusedElementwise", "Sum", "FusedElementwise", "Mul", "FusedElementwise", "Add"]


def test_a_group_with_many_results_is_split():
    def fn(x):
        values = [x]
        for k in range(28):
            values.append(values[-1] * (k + 2))
        return tuple(values[3::3])

    x = variable(3)
    lam = jit.make_lambda(fn, [x])
    fused = passes.fuse_elementwise(lam)
    assert 1 < len(fused.lets) < 5 and set(names(fused)) == {"FusedElementwise"}
    assert bits(run(fused, x)) == bits(run(lam, x))


@pytest.mark.parametrize("n", [0, 1, 63, 2048, 2049, 5000, 200_000])
def test_fused_results_have_the_same_bits_at_every_length(n):
    def fn(x, y):
        z = x.sigmoid() * y + (x * 2).sub(0.3, y).tanh()
        return z, z.exp() / 3

    x, y = variable(n, seed=1), variable(n, seed=2)
    lam = jit.make_lambda(fn, [x, y])
    fused = passes.fuse_elementwise(lam)
    assert names(fused) == ["FusedElementwise"]
    assert bits(run(fused, x, y)) == bits(fn(x, y))


def test_fused_operands_may_have_any_layout():
    def fn(x):
        return (x.t() * 2).exp() + x.t().log()

    for x in (variable(3, 4), variable(6, 4)[::2], variable(3, 8)[:, ::2]):
        x = Variable(x.data)
        lam = passes.fuse_elementwise(jit.make_lambda(fn, [x]))
        assert bits(run(lam, x)) == bits([fn(x)])


@pytest.mark.parametrize(
    "code",
    ["", "mul 0 1", "what 0; -> 1", "mul 0 9; -> 2", "mul #1 #2; -> 2", "mul 0 1; -> 0", "tanh; -> 2", "mul 0 1; -> 7"],
)
def test_a_bad_code_is_refused(code):
    with pytest.raises(ValueError, match="fused_elementwise"):
        _C._find_op("fused_elementwise")([torchlite.ones(2), torchlite.ones(2)], code)


def test_a_function_without_gradients_is_fused_and_one_with_gradients_is_not():
    compiled = jit.compile(lambda x: (x * 2).tanh() + 1)
    x = variable(3, requires_grad=True)
    assert bits([compiled(Variable(x.data))]) == bits([compiled(x)])
    compiled(x).sum().backward()
    assert x.grad is not None
