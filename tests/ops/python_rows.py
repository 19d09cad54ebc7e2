"""The tests of rows that are declared in Python.

A row lives as long as the process, and others tests look at the whole table; so test_python_rows.py runs this file in a
process of its own.
"""

from __future__ import annotations

import gc
import pickle
import threading
import traceback
import warnings

import numpy as np
import pytest

import torchlite
from torchlite import _C, Variable, jit
from torchlite._ops import TensorType, define_op
from torchlite.autograd import backward, gradcheck, gradgradcheck


def like_first(self, *rest):
    return self


def leaf(*shape, requires_grad=True):
    rng = np.random.default_rng(sum(shape))
    return Variable(torchlite.from_numpy(rng.uniform(0.5, 2, shape)), requires_grad=requires_grad)


# ---- rows -----------------------------------------------------------------------------------------------------------

SEEN = []  # what backward of `scaled` was told


def scaled_backward(ctx, grad):
    SEEN.append((type(ctx.value("self")), ctx.value("factor"), ctx.value(1), ctx.recording, ctx.needs("self")))
    return grad * ctx.value("factor"), None, None


SCALED = define_op(
    "scaled(Tensor self, float factor=2, str why='none')",
    "self times a number.",
    forward=lambda self, factor, why: self * factor,
    types=like_first,
    backward=scaled_backward,
    in_place=True,
)
define_op(
    "squared(Tensor self)",
    "The square.",
    forward=lambda self: self.numpy() ** 2,
    types=like_first,
    backward=lambda ctx, grad: 2 * ctx.value(0) * grad,
    uses={"self": "self"},
    in_place=True,
)
define_op(
    "exp_twin(Tensor self)",
    "exp, from its result.",
    forward=lambda self: self.exp(),
    types=like_first,
    backward=lambda ctx, grad: ctx.output() * grad,
    uses={"self": "out"},
)
define_op(
    "plus(Tensor self, Tensor|Scalar other)",
    "self + other, broadcast.",
    forward=lambda self, other: self + other,
    types=lambda self, other: TensorType(
        self.dtype, _C._infer_size(self.sizes, other.sizes) if isinstance(other, TensorType) else self.sizes
    ),
    backward=lambda ctx, grad: (grad, grad),
    uses={},
)


def joined_backward(ctx, grad):
    pieces, at = [], 0
    for k in range(len(ctx.value("tensors"))):
        size = ctx.sizes("tensors", k)[0]
        pieces.append(grad.narrow(0, at, size) if ctx.needs("tensors", k) else None)
        at += size
    return (pieces,)


define_op(
    "joined(Tensor[] tensors)",
    "Vectors one behind the other.",
    forward=lambda tensors: np.concatenate([t.numpy() for t in tensors]),
    types=lambda tensors: TensorType(tensors[0].dtype, (sum(t.sizes[0] for t in tensors),)),
    backward=joined_backward,
    keep_sizes=True,
    method=False,
)


def ranked_forward(self, dim):
    if dim is None:
        return np.sort(self.numpy(), axis=None)[-1:]
    order = np.argsort(-self.numpy(), axis=dim)
    return np.take_along_axis(self.numpy(), order, dim), order


def ranked_backward(ctx, grad, order_grad):
    assert order_grad is None
    if ctx.value("dim") is None:
        x = ctx.value("self")
        return grad.expand_as(x) * x.eq(ctx.output().expand_as(x)).type_as(grad), None
    zeros = grad * 0
    return zeros.scatter_add(ctx.value("dim"), ctx.output(1), grad), None


define_op(
    "ranked(Tensor self, int? dim=None)",
    "The largest element, or all of them from large to small and where they were.",
    forward=ranked_forward,
    types=lambda self, dim: (
        [TensorType(self.dtype, (1,))] if dim is None else [self, TensorType("Long", self.sizes)]
    ),
    backward=ranked_backward,
    outputs=2,
    non_differentiable=(1,),
    reduces_to_number=True,
)


def hidden_forward(self):
    root = np.sqrt(self.numpy())
    return 2 * root, 1 / root


define_op(
    "double_root(Tensor self)",
    "2 sqrt(self); the backward is handed 1 / sqrt(self).",
    forward=hidden_forward,
    types=like_first,
    backward=lambda ctx, grad: grad * (ctx.value("self").rsqrt() if ctx.recording else ctx.output(1)),
    uses={"self": ("self", "out1")},
    hidden_outputs=1,
)
define_op(
    "upper(Tensor self)",
    "The first half.",
    forward=lambda self: self.narrow(0, 0, self.size(0) // 2),
    types=lambda self: TensorType(self.dtype, (self.sizes[0] // 2, *self.sizes[1:])),
    backward=lambda ctx, grad: torchlite.cat([grad, grad * 0]),
    uses={"self": ()},
    view=True,
)
define_op(
    "positive_ones(Tensor self)",
    "Where elements are positive; not differentiable.",
    forward=lambda self: self.numpy() > 0,
    types=lambda self: TensorType("Byte", self.sizes),
)
define_op(
    "weighed(Tensor self, Tensor? weight=None)",
    "self, or self * weight.",
    forward=lambda self, weight: self if weight is None else self * weight,
    types=like_first,
    backward=lambda ctx, grad: (
        grad if ctx.value("weight") is None else grad * ctx.value("weight"),
        grad * ctx.value("self") if ctx.needs("weight") else None,
    ),
)
define_op(
    "fixed_weight(Tensor self, Tensor weight)",
    "self * weight, without a gradient of weight.",
    forward=lambda self, weight: self * weight,
    types=like_first,
    backward=lambda ctx, grad: (grad * ctx.value("weight"), None),
    no_gradient=("weight",),
)
define_op("nothing_to_do(Tensor self)", "self.", forward=lambda self: self, types=like_first,
          backward=lambda ctx, grad: grad)
define_op("handed_on(Tensor self)", "A view of self.", forward=lambda self: self.numpy()[::2],
          types=lambda self: TensorType(self.dtype, ((self.sizes[0] + 1) // 2,)))

WRONG = {
    "number": lambda self: 1.0,
    "variable": Variable,
    "count": lambda self: (self, self),
    "mistake": lambda self: {}["key"],
}
for _name, _forward in WRONG.items():
    define_op(f"wrong_{_name}(Tensor self)", "Returns what it should not.", forward=_forward, types=like_first,
              method=False, function=False)



def two_names(self):
    result = self * 2
    return result, result.view(-1)


define_op("two_names(Tensor self)", "Results on one memory.", forward=two_names, types=lambda self: [self, self],
          backward=lambda ctx, g, h: (g + h,), outputs=2, method=False)
define_op("too_large(Tensor self)", "Its gradient has a dimension more.", forward=lambda self: self * 2,
          types=like_first, backward=lambda ctx, g: (torchlite.stack([g, g]),), method=False)

LOOKS = []  # what the backward of `looked_at` calls


def looked_at_backward(ctx, grad):
    for look in LOOKS:
        look(ctx)
    return (grad,)


define_op("looked_at(Tensor self)", "self.", forward=lambda self: self, types=like_first, backward=looked_at_backward,
          method=False)

BAD_GRADIENTS = {
    "count": lambda ctx, g: (g, None, None),
    "tensor": lambda ctx, g: (g.data, None),
    "size": lambda ctx, g: (torchlite.cat([g, g]), None),
    "integers": lambda ctx, g: (g.long(), None),
    "constant": lambda ctx, g: (g, g),
    "mistake": lambda ctx, g: ({}["key"], None),
    "unsaved": lambda ctx, g: (ctx.value("self"), None),
    "unknown": lambda ctx, g: (ctx.value("other"), None),
    "result": lambda ctx, g: (ctx.output(3), None),
    "ctx": lambda ctx, g: (SEEN.append(ctx), (g, None))[1],
}
for _name, _backward in BAD_GRADIENTS.items():
    define_op(f"bad_{_name}(Tensor self, int k=0)", "Has a gradient that is wrong.", forward=lambda self, k: self + k,
              types=like_first, backward=_backward, uses={"self": ()}, method=False, function=False)
define_op("bad_types(Tensor self)", "Its rule says a wrong size.", forward=lambda self: self + 1,
          types=lambda self: TensorType(self.dtype, (7,)), method=False, function=False)
define_op("bad_rule(Tensor self)", "Its rule returns something else.", forward=lambda self: self + 1,
          types=lambda self: self.sizes[0], method=False, function=False)


@pytest.fixture(autouse=True)
def forgotten():
    yield
    SEEN.clear()


def bad(name, x, *args):
    return getattr(_C._ops, "bad_" + name)(x, *args)


# ---- a row like any other -------------------------------------------------------------------------------------------


def test_it_has_an_op_a_backward_type_and_methods():
    assert _C._ops.scaled is SCALED and _C._find_op("scaled") is SCALED
    assert SCALED.signature.startswith("scaled(") and SCALED.differentiable and SCALED.inplace
    assert "self times a number." in SCALED.__doc__
    assert _C._functions.ScaledBackward.__name__ == "ScaledBackward"
    x = leaf(3)
    assert type(x.scaled(3).grad_fn) is _C._functions.ScaledBackward
    assert type(x.data.scaled(3)) is torchlite.DoubleTensor


def test_it_is_a_function_of_the_package():
    assert torchlite.scaled is SCALED and not hasattr(torchlite, "bad_count")
    out = torchlite.DoubleTensor()
    assert torchlite.squared(leaf(2).data, out=out) is out and list(out) == list(leaf(2).data ** 2)


def test_arguments_are_those_of_the_signature():
    x = leaf(2, requires_grad=False).data
    assert list(x.scaled()) == list(x * 2) and list(SCALED(x, factor=3)) == list(x * 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        x.scaled(other=1)
    with pytest.raises(TypeError, match="argument 'factor' must be a number, not str"):
        x.scaled("2")


def test_an_operation_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(SCALED)) is SCALED


def test_gradients_of_both_orders():
    for f, *inputs in [
        (lambda x: x.scaled(3), leaf(2, 3)),
        (lambda x: x.squared(), leaf(3)),
        (lambda x: x.exp_twin(), leaf(3)),
        (lambda x: x.double_root(), leaf(4)),
        (lambda x: x.upper(), leaf(4, 2)),
        (lambda x, y: x.weighed(y), leaf(3), leaf(3)),
        (lambda x: x.weighed(), leaf(3)),
        (lambda x, y: x.plus(y), leaf(2, 3), leaf(3)),
        (lambda x, y: x.plus(y), leaf(3), leaf(2, 1)),
        (lambda x: x.plus(2), leaf(3)),
        (lambda x, y: _C._ops.joined([x, y]), leaf(2), leaf(3)),
        (lambda x: x.ranked(0)[0], leaf(4)),
        (lambda x: x.ranked(), leaf(4)),
    ]:
        assert gradcheck(f, tuple(inputs))
        assert gradgradcheck(f, tuple(inputs))


def test_a_plain_backward_sees_volatile_variables_and_a_recorded_one_variables():
    x = leaf(2)
    x.scaled(3).sum().backward()
    assert SEEN == [(Variable, 3, 3, False, True)] and list(x.grad.data) == [3, 3] and x.grad.volatile
    x.grad = None
    x.scaled(3).sum().backward(create_graph=True)
    assert SEEN[1] == (Variable, 3, 3, True, True) and not x.grad.volatile


def test_the_in_place_twin_writes_and_is_differentiable():
    x = leaf(3)
    y = x * 1
    before = y.data.numpy().copy()
    z = y.squared_()
    assert z is y and np.allclose(y.data.numpy(), before**2)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data.numpy(), 2 * before)
    t = leaf(3).data
    assert t.scaled_(2) is t


def test_an_in_place_call_counts_as_a_write():
    x = leaf(3)
    y = x * 1
    saved = y * y
    y.squared_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()


def test_several_results_of_which_the_last_may_be_left_out():
    x = leaf(4)
    values, order = x.ranked(0)
    assert values.requires_grad and not order.requires_grad
    assert type(order.data) is torchlite.LongTensor
    assert x.ranked().size() == (1,) and type(x.data.ranked()) is float
    assert isinstance(x.data.ranked(0), tuple)


def test_a_view_shares_memory_and_version():
    x = leaf(4, requires_grad=False)
    y = x.upper()
    y.data[0] = 50
    assert x.data[0] == 50
    with pytest.raises(RuntimeError, match="share storage"):
        x.add_(1)


def test_a_result_is_never_the_memory_of_an_argument():
    x = leaf(4, requires_grad=False)
    for result in (x.nothing_to_do(), x.handed_on(), x.data.nothing_to_do()):
        result = getattr(result, "data", result) if isinstance(result, Variable) else result
        result.fill_(-1)
        assert min(x.data) > 0
    x.add_(1)  # nothing shares its version


def test_results_share_no_memory():
    first, second = _C._ops.two_names(leaf(2))
    second.data.zero_()
    assert (first.data != 0).all()


def test_a_gradient_is_summed_to_the_size_of_the_argument():
    x = leaf(3)
    _C._ops.too_large(x * 1).sum().backward()
    assert x.grad.data.tolist() == [2, 2, 2]


def test_a_row_without_backward_is_not_differentiable():
    y = leaf(3).positive_ones()
    assert not y.requires_grad and type(y.data) is torchlite.ByteTensor
    assert not _C._ops.positive_ones.differentiable


def test_a_parameter_without_gradient_refuses_a_variable_that_wants_one():
    with pytest.raises(RuntimeError, match="argument 'weight' requires grad, but no gradient flows to it"):
        leaf(2).fixed_weight(leaf(2))
    x = leaf(2)
    x.fixed_weight(leaf(2, requires_grad=False)).sum().backward()
    assert x.grad is not None


def test_saved_values_are_checked_and_freed_with_the_graph():
    x = leaf(3)
    y = x.squared()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()
    z = (x * 1)
    w = z.squared()
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w.sum().backward()


def test_a_gradient_that_nobody_wants_is_dropped():
    x, y = leaf(3), leaf(3, requires_grad=False)
    x.plus(y).sum().backward()
    assert y.grad is None and list(x.grad.data) == [1, 1, 1]


def test_several_results_get_zeros_for_a_missing_gradient():
    x = leaf(4)
    values, order = x.ranked(0)
    backward([values], [Variable(values.data.clone().fill_(1))])
    assert list(x.grad.data) == [1, 1, 1, 1]


def test_volatile_inputs_give_volatile_results():
    y = Variable(leaf(2).data, volatile=True).squared()
    assert y.volatile and y.grad_fn is None


# ---- traces ---------------------------------------------------------------------------------------------------------


def test_it_is_traced_printed_parsed_and_replayed():
    x = leaf(4)
    lam = jit.make_lambda(lambda v: v.scaled(3).squared().ranked(0)[0], (x,))
    text = str(lam)
    assert "Scaled %0, 3, 'none'" in text and "= Ranked %2, 0" in text
    assert jit.parse(text) == lam
    (out,) = Variable._execution_engine.run_forward(lam, (x,))
    np.testing.assert_allclose(out.data.numpy(), np.sort((3 * x.data.numpy()) ** 2)[::-1])
    (plain,) = Variable._execution_engine.run_forward(lam, (x.data,))
    np.testing.assert_array_equal(plain.numpy(), out.data.numpy())
    backward([out], [Variable(out.data.clone().fill_(1))])
    np.testing.assert_allclose(x.grad.data.numpy(), 18 * x.data.numpy())


def test_a_lambda_with_it_is_differentiated_into_the_operations_of_its_gradient():
    lam = jit.grad(jit.make_lambda(lambda v: v.squared().sum(), (leaf(3),)))
    assert "= Mul " in str(lam)
    (out,) = Variable._execution_engine.run_forward(lam, (leaf(3),))
    np.testing.assert_allclose(out.data.numpy(), 2 * leaf(3).data.numpy())


def test_a_type_that_the_rule_gets_wrong_is_found_by_the_trace():
    text = r"result 0 of bad_types has type Double\(7,\), but is bound as Double\(3,\)"
    with pytest.raises(RuntimeError, match=text):
        jit.make_lambda(lambda v: _C._ops.bad_types(v), (leaf(3),))


def test_a_rule_that_returns_no_type_is_named():
    with pytest.raises(RuntimeError, match="bad_rule: the type rule must return TensorTypes, not int"):
        jit.make_lambda(lambda v: _C._ops.bad_rule(v), (leaf(3),))


def test_elements_that_the_forward_reads_are_its_own_business():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit.make_lambda(lambda v: v.squared(), (leaf(3),))


# ---- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, error, text", [
    ("number", TypeError, "wrong_number: result 0 of forward must be a tensor or an array, not float"),
    ("variable", TypeError, "wrong_variable: result 0 of forward must be a tensor or an array, not Variable"),
    ("count", RuntimeError, "wrong_count: forward returned 2 results, but the row declares 1 and 0 hidden ones"),
    ("mistake", KeyError, "key"),
])
def test_a_forward_that_returns_something_else_is_named(name, error, text):
    with pytest.raises(error, match=text):
        getattr(_C._ops, "wrong_" + name)(leaf(2))


@pytest.mark.parametrize("name, error, text", [
    ("count", RuntimeError, "bad_count: backward returned 3 gradients, but the row has 2 parameters"),
    ("tensor", TypeError, "bad_tensor: the gradient of argument 'self' must be a Variable or None, not .*DoubleTensor"),
    ("size", RuntimeError,
     r"bad_size: the gradient of argument 'self' has size \(6,\), but the argument has size \(3,\)"),
    ("integers", TypeError, "bad_integers: the gradient of argument 'self' has type LongTensor, but the argument is a "
                            "DoubleTensor"),
    ("constant", RuntimeError, "bad_constant: backward returned a gradient for argument 'k', which is no tensor"),
    ("mistake", KeyError, "key"),
    ("unsaved", RuntimeError, "argument 0 was not saved"),
    ("unknown", ValueError, "bad_unknown: there is no parameter 'other' in bad_unknown"),
    ("result", IndexError, "bad_result: there is no result 3"),
])
def test_a_backward_that_returns_something_else_is_named(name, error, text):
    x = leaf(3)
    with pytest.raises(error, match=text):
        bad(name, x).sum().backward()
    assert x.grad is None


def test_the_traceback_of_a_mistake_leads_to_it():
    try:
        bad("mistake", leaf(3)).sum().backward()
    except KeyError as e:
        assert any('{}["key"]' in frame.line for frame in traceback.extract_tb(e.__traceback__))
    else:
        raise AssertionError("no error")


def test_a_context_ends_with_its_backward():
    bad("ctx", leaf(3)).sum().backward()
    (ctx,) = SEEN
    with pytest.raises(RuntimeError, match="used after its backward had returned"):
        ctx.value(0)
    assert "returned" in repr(ctx)


def test_a_context_whose_backward_ends_while_its_key_is_read():
    """`__index__` of the key waits in another thread until the backward has returned."""
    reading, ended, said = threading.Event(), threading.Event(), []

    class Key:
        def __index__(self):
            reading.set()
            ended.wait(30)
            return 0

    def ask(method):
        with pytest.raises(RuntimeError) as e:
            method(Key())
        said.append(str(e.value))

    for name in ("value", "needs", "output", "sizes"):
        def look(ctx, name=name):
            thread = threading.Thread(target=ask, args=(getattr(ctx, name),))
            thread.start()
            SEEN.append(thread)
            reading.wait(30)

        reading.clear(), ended.clear()
        LOOKS.append(look)
        _C._ops.looked_at(leaf(3)).sum().backward()
        LOOKS.clear()
        ended.set()
        SEEN.pop().join()
    assert said == ["this context was used after its backward had returned"] * 4


@pytest.mark.parametrize("changes, text", [
    ({"signature": "no_parentheses"}, "no parentheses in its signature"),
    ({"signature": "fresh(Tensor)"}, "a parameter without a kind"),
    ({"signature": "fresh(Number self)"}, "unknown kind"),
    ({"signature": "1st(Tensor self)"}, "a name that is no identifier"),
    ({"signature": "fresh(Tensor self, int self)"}, "two parameters of one name"),
    ({"signature": "fresh(Tensor[] a, Tensor[] b)", "method": False}, "two lists of tensors"),
    ({"signature": "fresh(Tensor self, int k=)"}, "a default that is no literal"),
    ({"signature": "fresh(" + ", ".join(f"int p{i}" for i in range(13)) + ")"}, "too many parameters"),
    ({"signature": "add(Tensor self)"}, "torchlite already has an attribute 'add'"),
    ({"signature": "add(Tensor self)", "function": False}, "Variables already have an attribute 'add'"),
    ({"signature": "add(Tensor self)", "function": False, "method": False}, "the name is taken"),
    ({"signature": "_add(Tensor self)", "method": False}, "the name is taken"),  # AddBackward
    ({"signature": "grad(Tensor self)"}, "Variables already have an attribute 'grad'"),
    ({"signature": "zeros(Tensor self)"}, "torchlite already has an attribute 'zeros'"),
    ({"signature": "jit(Tensor self)"}, "torchlite already has an attribute 'jit'"),
    ({"signature": "fresh(Tensor x)", "in_place": True, "method": False}, "needs a parameter called self"),
    ({"in_place": True, "outputs": 2}, "an in-place form has one result"),
    ({"in_place": True, "hidden_outputs": 1}, "an in-place form has one result"),
    ({"signature": "fresh(int dim, Tensor self)", "view": True}, "a view needs a tensor as its first parameter"),
    ({"outputs": 0}, "no results"),
    ({"outputs": 4, "hidden_outputs": 3}, "too many results"),
    ({"uses": {"self": "other"}, "backward": like_first}, "`uses` names 'other'"),
    ({"uses": {"other": "self"}, "backward": like_first}, "`uses` names 'other'"),
    ({"uses": {"out": "self"}, "backward": like_first}, "`uses` has an entry for 'out', which is no parameter"),
    ({"uses": {"self": "out1"}, "backward": like_first}, "`uses` names 'out1'"),
    ({"non_differentiable": (1,)}, "names result 1 of 1"),
    ({"no_gradient": ("out",)}, "which is no parameter"),
])
def test_a_row_that_is_not_well_formed_is_refused_and_leaves_nothing(changes, text):
    names = [op.name for op in _C._ops]
    row = {"signature": "fresh(Tensor self)", "doc": "Never added.", "forward": like_first, "types": like_first}
    with pytest.raises(ValueError, match=text):
        define_op(**{**row, **changes})
    assert [op.name for op in _C._ops] == names
    assert not hasattr(Variable, "fresh") and not hasattr(_C._functions, "FreshBackward")


def test_what_cannot_be_called_is_refused():
    for name in ("forward", "types", "backward"):
        row = {"forward": like_first, "types": like_first, "backward": like_first, name: 3}
        with pytest.raises(TypeError, match=f"{name} must be callable, not int"):
            define_op("fresh(Tensor self)", "Never added.", **row)


def test_the_collector_sees_the_callables():
    assert scaled_backward in gc.get_referents(SCALED)
