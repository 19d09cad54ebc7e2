"""The objects of the IR as Python sees them: built, compared, pickled, copied, collected and visited."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import Counter

import numpy as np
import pytest
from programs import random_program, trace, variable

import torchlite
from torchlite import _C
from torchlite.autograd import Arg, Expr, Function
from torchlite.jit import ArgVisitor, ExprVisitor, parse


def example() -> _C.Lambda:
    return trace(lambda x, y: torchlite.cat([x * 2, y], 0).max(1), variable(2, 3), variable(4, 3))


def renamed(lam: _C.Lambda) -> _C.Lambda:
    """An equal lambda of other locals."""
    return parse(str(lam), lam.captures)


def test_a_lambda_is_built_from_what_its_properties_give_back() -> None:
    lam = example()
    lets = [
        _C.Let(t.results, _C.CppApply(t.op.name, t.args, t.location) if isinstance(t.rhs, _C.CppApply) else t.rhs)
        for t in lam.lets
    ]
    assert _C.Lambda(lam.params, lets, _C.Locals(lam.ret.args), lam.captures) == lam


def test_parts_say_what_they_are() -> None:
    lam = example()
    mul, cat, largest = lam.lets
    assert [t.name for t in lam.lets] == ["Mul", "Concat", "Max"]
    assert mul.op is torchlite._C._ops.mul
    assert mul.args[0] is lam.params[0]
    assert mul.args[1].value == 2
    assert cat.args[0] == (mul.results[0], lam.params[1])
    assert [str(t) for t in largest.types] == ["Float(6,)", "Long(6,)"]
    assert lam.ret.args == largest.results
    assert mul.location is None
    assert (mul.types[0].dtype, mul.types[0].sizes, mul.types[0].device) == ("Float", (2, 3), -1)


@pytest.mark.parametrize("name", ["params", "captures", "lets", "ret"])
def test_a_lambda_cannot_be_changed(name: str) -> None:
    lam = example()
    with pytest.raises(AttributeError):
        setattr(lam, name, ())
    with pytest.raises(AttributeError):
        lam.more = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        lam.lets[0].results = ()
    assert isinstance(lam.lets, tuple)


def test_bases_have_no_instances_and_the_era_names() -> None:
    assert Expr is _C._ExprBase
    assert Arg is _C._ArgBase
    for base in (Expr, Arg):
        with pytest.raises(TypeError, match="cannot create"):
            base()
    lam = example()
    assert all(isinstance(e, Expr) for e in (lam, lam.lets[0], lam.lets[0].rhs, lam.ret))
    assert all(isinstance(a, Arg) for a in (lam.params[0], lam.lets[0].args[1]))


def test_tensors_are_no_constants() -> None:
    for value in (variable(2), variable(2).data, (1, [variable(2)])):
        with pytest.raises(TypeError, match="cannot be a tensor"):
            _C.Const(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _C.Let((1,), _C.CppApply("neg", [])), "element 0 must be a Local"),
        (lambda: _C.Let((), 1), "must be a CppApply or a PyApply"),
        (lambda: _C.Locals([1]), "must be a Local"),
        (lambda: _C.CppApply("neg", [1]), "argument 0 must be a Local, a Const or a tuple"),
        (lambda: _C.PyApply(1, []), "must be a Function class"),
        (lambda: _C.Lambda([], [1], []), "element 0 of lets must be a Let"),
        (lambda: _C.Lambda([], [], [], [variable(1)]), "1 captures for 0 params"),
        (lambda: _C.Local(1), "TensorType"),
    ],
)
def test_constructors_refuse_other_kinds(make, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_an_operation_that_does_not_exist_is_named() -> None:
    with pytest.raises(RuntimeError, match="there is no operation named 'nothing'"):
        _C.CppApply("nothing", [])


# ---- equality -------------------------------------------------------------------------------------------------------


def test_equal_up_to_the_names_of_locals() -> None:
    for seed in range(10):
        lam = trace(random_program(seed), variable(3, 3), variable(3, 3))
        other = renamed(lam)
        assert lam == other
        assert hash(lam) == hash(other)
        assert not set(lam.params) & set(other.params)


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: x * y + x, lambda x, y: y * x + y, lambda x, y: x * y - y, lambda x, y: x * y + y * 1,
        lambda x, y: (x * y + y, x), lambda x, y: x.mul(y).add(2, y), lambda x, y: x.mul(y).add(2.0, y),
    ],
)
def test_different_programs_differ(other) -> None:
    x, y = variable(3), variable(3, seed=1)
    assert trace(lambda x, y: x * y + y, x, y) != trace(other, x, y)


def test_constants_of_other_types_differ() -> None:
    programs = [trace(lambda x, c=c: x * c, variable(3)) for c in (1, 1.0, 2, 0.0, -0.0, float("nan"))]
    for i, a in enumerate(programs):
        assert [a == b for b in programs] == [i == j for j in range(len(programs))]


def test_lambdas_of_other_inputs_differ() -> None:
    assert trace(lambda x: x, variable(3)) != trace(lambda x: x, variable(4))
    assert trace(lambda x: x, variable(3)) != trace(lambda x: x, variable(3, dtype="float64"))
    assert (trace(lambda x: x, variable(3)) == 3) is False


def test_captures_compare_by_identity() -> None:
    w = variable(3)
    lam = trace(lambda x: x * w, variable(3), capture=True)
    assert lam == trace(lambda x: x * w, variable(3), capture=True)
    assert lam != trace(lambda x: x * variable(3), variable(3), capture=True)


# ---- pickling and copies --------------------------------------------------------------------------------------------


class Twice(Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


@pytest.mark.parametrize("again", [lambda o: pickle.loads(pickle.dumps(o)), copy.deepcopy, copy.copy])
def test_copies_are_equal(again) -> None:
    lam = trace(lambda x, y: (Twice.apply(x, 2.0) + y)[1:, 0], variable(2, 3), variable(2, 3), locations=True)
    other = again(lam)
    assert other == lam
    assert other.text(locations=True) == lam.text(locations=True)
    other.check()


def test_captures_are_pickled_as_variables() -> None:
    w = variable(3, requires_grad=True)
    lam = trace(lambda x: x * w, variable(3), capture=True)
    other = pickle.loads(pickle.dumps(lam))
    (c,) = other.captures
    assert c.requires_grad
    assert (c.data.numpy() == w.data.numpy()).all()
    x = variable(3, seed=7)
    (a,), (b,) = _C.Program(lam).run(x), _C.Program(other).run(x)
    assert (a.data.numpy() == b.data.numpy()).all()


def test_types_are_values() -> None:
    t = _C.TensorType("float32", [2, 3])
    assert t == _C.TensorType("Float", (2, 3))
    assert hash(t) == hash(_C.TensorType("Float", (2, 3)))
    assert t != _C.TensorType("Float", (3, 2))
    assert pickle.loads(pickle.dumps(t)) == t
    with pytest.raises(ValueError, match="'dtype' must be the name of an element type"):
        _C.TensorType("Complex", ())


# ---- lifetime -------------------------------------------------------------------------------------------------------


def test_weak_references_die_with_the_lambda() -> None:
    lam = example()
    ref = weakref.ref(lam)
    del lam
    assert ref() is None


def test_a_cycle_through_a_function_class_is_collected() -> None:
    class Local(Twice):
        pass

    lam = trace(lambda x: Local.apply(x, 2.0), variable(3))  # noqa: F821
    Local.program = lam  # type: ignore[attr-defined]
    ref = weakref.ref(Local)
    Local = lam = None  # noqa: N806
    gc.collect()
    assert ref() is None


def test_a_cycle_through_a_constant_is_collected() -> None:
    class Box:
        pass

    box = Box()
    x = _C.Local(_C.TensorType("Float", (2,)))
    box.lam = _C.Lambda([x], [_C.Let([], _C.PyApply(Twice, [x, _C.Const([box])]))], [x])  # type: ignore[attr-defined]
    ref = weakref.ref(box)
    del box, x
    gc.collect()
    assert ref() is None


def test_a_cycle_through_a_capture_is_collected() -> None:
    class Tagged(torchlite.autograd.Variable):
        pass

    w = Tagged(torchlite.ones(3))
    w.lam = trace(lambda x: x * w, variable(3), capture=True)  # type: ignore[attr-defined]  # noqa: F821
    _C.Program(w.lam)  # type: ignore[attr-defined]
    ref = weakref.ref(w)
    w = None
    gc.collect()
    assert ref() is None


# ---- visitors -------------------------------------------------------------------------------------------------------


class Names(ExprVisitor):
    def visit_let(self, expr, counts, *, step=1):
        counts[expr.name] += step

    def visit_locals(self, expr, counts, *, step=1):
        counts["Ret"] += step
        return counts


def test_arguments_are_forwarded_to_expression_visitors() -> None:
    assert Names().visit(example(), Counter(), step=2) == {"Mul": 2, "Concat": 2, "Max": 2, "Ret": 2}


def test_default_visits_reach_the_applications() -> None:
    class Applies(ExprVisitor):
        def visit_cpp_apply(self, expr, out):
            out.append(expr.name)

        def visit_py_apply(self, expr, out):
            out.append("^" + expr.name)

    out: list[str] = []
    assert Applies().visit(trace(lambda x: Twice.apply(x * 2, 1.0), variable(3)), out) is None
    assert out == ["Mul", "^Twice"]


def test_argument_visitors_dispatch_on_the_kind() -> None:
    class Kinds(ArgVisitor):
        def visit_local(self, arg, prefix):
            return prefix + "local"

        def visit_const(self, arg, prefix):
            return prefix + repr(arg.value)

    args = example().lets[1].args
    assert [Kinds().visit(a, "a ") for a in args] == [("a local", "a local"), "a 0"]


@pytest.mark.parametrize("visitor", [ExprVisitor, ArgVisitor])
def test_visitors_refuse_other_objects(visitor) -> None:
    with pytest.raises(TypeError, match="of the IR, but got int"):
        visitor().visit(3)


def test_arrays_of_a_capture_are_not_copied() -> None:
    a = np.ones(3, "float32")
    w = torchlite.autograd.Variable(torchlite.from_numpy(a))
    lam = trace(lambda x: x * w, variable(3), capture=True)
    a[:] = 2
    x = variable(3)
    (y,) = _C.Program(lam).run(x)
    assert (y.data.numpy() == x.data.numpy() * 2).all()
