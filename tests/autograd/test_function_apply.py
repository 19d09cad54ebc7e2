"""New-style Functions: apply, the context, and backward of Functions defined in Python."""

import re

import numpy as np
import pytest
from simple_functions import Mul, Scale, Split, constant, leaf, values

from torchlite import _C
from torchlite.autograd import Function, Variable, backward, grad


def ones(n):
    return constant(np.ones(n))


def make(forward, backward=lambda ctx, *g: g):
    """A Function class called Made from two functions."""
    return type(Function)("Made", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


# ---- forward -------------------------------------------------------------------------------------------------------


def test_forward_sees_tensors_and_backward_sees_variables():
    seen = []

    def forward(ctx, x):
        seen.append(x)
        return x * 2

    def backward(ctx, g):
        seen.append(g)
        return g * 2

    x = leaf([1.0])
    make(forward, backward).apply(x).backward()
    assert isinstance(seen[0], _C._TensorBase) and seen[0] is x.data
    assert isinstance(seen[1], Variable)
    assert values(x.grad) == [2]


@pytest.mark.parametrize("argument", [None, "text", 2.5, [1, 2], {"a": 1}, (1, (2,)), np.arange(3), object()], ids=repr)
def test_an_argument_that_is_no_variable_passes_unchanged(argument):
    seen = []

    def forward(ctx, x, other):
        seen.append(other)
        return x * 1

    y = make(forward, lambda ctx, g: (g, None)).apply(leaf([1.0]), argument)
    assert seen[0] is argument
    assert y.grad_fn.needs_input_grad == (True, False)


def test_needs_input_grad_has_one_flag_per_argument():
    y = make(lambda ctx, *args: args[0] * 1).apply(leaf([1.0]), 3, constant([1.0]), leaf([1.0]))
    assert y.grad_fn.needs_input_grad == (True, False, False, True)


def test_next_functions_has_an_entry_per_variable_argument():
    a, b = leaf([1.0]), Scale.apply(leaf([1.0]), 2)
    y = make(lambda ctx, *args: args[0] * 1).apply(a, "constant", constant([1.0]), b)
    functions = y.grad_fn.next_functions
    assert [type(f).__name__ for f, _ in functions] == ["AccumulateGrad", "NoneType", "ScaleBackward"]
    assert [nr for _, nr in functions] == [0, 0, 0]


def test_a_single_result_stays_single_and_a_tuple_stays_a_tuple():
    x = leaf([1.0])
    assert isinstance(make(lambda ctx, x: x * 1).apply(x), Variable)
    one = make(lambda ctx, x: (x * 1,)).apply(x)
    assert isinstance(one, tuple) and len(one) == 1
    two = make(lambda ctx, x: (x * 1, x * 2)).apply(x)
    assert [v.output_nr for v in two] == [0, 1]
    assert two[0].grad_fn is two[1].grad_fn


def test_a_result_has_a_grad_fn_even_if_nothing_requires_grad():
    y = Scale.apply(constant([1.0]), 2)
    assert y.grad_fn is not None and not y.is_leaf and not y.requires_grad


def test_a_volatile_input_makes_volatile_results_without_a_graph():
    y = Mul.apply(leaf([1.0]), leaf([2.0], False, volatile=True))
    assert y.volatile and y.grad_fn is None and not y.requires_grad


@pytest.mark.parametrize("result", [None, [1], "text", iter(()), 3], ids=["None", "list", "str", "iterator", "int"])
def test_a_forward_that_returns_no_tensor_raises_type_error_naming_the_class(result):
    with pytest.raises(TypeError, match="Made"):
        make(lambda ctx, x: result).apply(leaf([1.0]))


def test_an_error_in_forward_reaches_the_caller_with_its_type():
    def forward(ctx, x):
        raise LookupError("from forward")

    with pytest.raises(LookupError, match="from forward"):
        make(forward).apply(leaf([1.0]))


def test_keyword_arguments_are_passed_or_refused_by_name():
    x = leaf([1.0])
    try:
        y = Scale.apply(x, k=3)
    except TypeError as error:
        assert "k" in str(error) or "keyword" in str(error)
    else:
        assert values(y) == [3]


def test_apply_of_an_old_style_class_raises_attribute_error():
    class Old(Function):
        def forward(self, x):
            return x

    del_attribute = "_backward_cls"
    with pytest.raises(AttributeError, match=del_attribute):
        Old.apply(leaf([1.0]))


def test_subclasses_of_variable_are_variables_to_apply():
    class Named(Variable):
        pass

    x = Named(np.array([2.0]), requires_grad=True)
    y = Scale.apply(x, 3)
    assert type(y) is Variable
    y.backward()
    assert values(x.grad) == [3]


# ---- inputs handed back ---------------------------------------------------------------------------------------------


class Identity10(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


def test_a_leaf_returned_as_it_is_becomes_a_new_variable_of_the_function():
    x = leaf([1.0, 2.0])
    y = Identity10.apply(x)
    assert y is not x and x.is_leaf
    assert type(y.grad_fn).__name__ == "Identity10Backward"
    y.backward(ones(2))
    assert values(x.grad) == [10, 10]


def test_a_leaf_returned_as_it_is_shares_its_version_counter():
    x = constant([1.0, 2.0])
    y = Identity10.apply(x)
    before = x._version, y._version
    assert before[0] == before[1]
    del y
    x.add_(1)
    assert x._version == before[0] + 1


def test_a_saved_and_returned_leaf_works_in_double_backward():
    class Square(Function):
        """x*x as the pair (x, x*x); saves the x that it returns."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x, x * x

        @staticmethod
        def backward(ctx, g, g_square):
            (x,) = ctx.saved_variables
            return g + g_square * x * 2

    x = leaf([3.0])
    _, y = Square.apply(x)
    (gx,) = grad(y, x, ones(1), create_graph=True)
    assert values(gx) == [6]
    (gxx,) = grad(gx, x, ones(1))
    assert values(gxx) == [2]


# ---- backward -------------------------------------------------------------------------------------------------------


def test_one_variable_in_both_arguments_gets_both_gradients():
    x = leaf([3.0])
    Mul.apply(x, x).backward()
    assert values(x.grad) == [6]


def test_an_unused_output_gets_a_zero_gradient_of_its_size():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x[:1].clone()

        @staticmethod
        def backward(ctx, g, unused):
            seen.append(unused)
            return g * 2

    x = leaf([1.0, 2.0], dtype=np.float32)
    y, _ = Two.apply(x)
    y.backward(constant([1.0, 1.0], np.float32))
    (unused,) = seen
    assert isinstance(unused, Variable) and values(unused) == [0]
    assert type(unused.data) is type(x.data)


def test_two_outputs_flow_back_together():
    x = leaf([1.0, 2.0, 3.0])
    a, b = Split.apply(x)
    backward([a, b], [constant([10.0]), constant([20.0, 30.0])])
    assert values(x.grad) == [10, 20, 30]


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda g: (), "function MadeBackward returned an incorrect number of gradients (expected 2, got 0)"),
        (lambda g: g, "function MadeBackward returned an incorrect number of gradients (expected 2, got 1)"),
        (lambda g: (g,), "function MadeBackward returned an incorrect number of gradients (expected 2, got 1)"),
        (lambda g: (g, None, g), "function MadeBackward returned an incorrect number of gradients (expected 2, got 3)"),
        (
            lambda g: (g, g),
            "function MadeBackward returned a gradient different than None at position 2, "
            "but the corresponding forward input was not a Variable",
        ),
        (lambda g: ("text", None), "expected Variable or None (got str)"),
    ],
)
def test_a_wrong_result_of_backward_is_refused(result, message):
    x = leaf([1.0])
    y = make(lambda ctx, x, k: x * k, lambda ctx, g: result(g)).apply(x, 2)
    with pytest.raises(RuntimeError, match=re.escape(message)):
        y.backward()
    assert x.grad is None


def test_more_gradients_than_arguments_are_allowed_if_they_are_none():
    x = leaf([1.0])
    make(lambda ctx, x: x * 2, lambda ctx, g: (g * 2, None, None)).apply(x).backward()
    assert values(x.grad) == [2]


@pytest.mark.parametrize("size, wrong", [((1, 3), (3,)), ((20,), (1,)), ((2, 3), (3, 2))])
def test_a_gradient_of_the_wrong_size_is_refused_and_never_broadcast(size, wrong):
    x = leaf(np.ones(size))
    y = make(lambda ctx, x: x * 1, lambda ctx, g: Variable(np.ones(wrong))).apply(x)
    with pytest.raises(RuntimeError, match="Made|size"):
        y.backward(constant(np.ones(size)))
    assert x.grad is None


@pytest.mark.parametrize("saved", [False, True])
def test_a_gradient_of_another_dtype_is_cast_or_refused_whether_or_not_the_input_was_saved(saved):
    def forward(ctx, x):
        if saved:
            ctx.save_for_backward(x)
        return x * 1

    x = leaf([1.0], dtype=np.float32)
    y = make(forward, lambda ctx, g: Variable(np.array([0.5], np.float64))).apply(x)
    try:
        y.backward()
    except RuntimeError:
        assert x.grad is None
    else:
        assert type(x.grad.data) is type(x.data)


def test_backward_is_not_entered_for_a_function_that_needs_no_gradient():
    def fail(ctx, g):
        raise AssertionError("entered")

    frozen = make(lambda ctx, x: x * 2, fail).apply(constant([3.0]))
    x = leaf([1.0])
    Mul.apply(x, frozen).backward()
    assert values(x.grad) == [6]


def test_an_error_in_backward_keeps_its_type_and_leaves_no_gradient():
    def fail(ctx, g):
        raise LookupError("from backward")

    x = leaf([1.0])
    y = Mul.apply(make(lambda ctx, x: x * 2, fail).apply(x), constant([1.0]))
    with pytest.raises(LookupError, match="from backward"):
        y.backward()
    assert x.grad is None
    Mul.apply(x, x).backward()
    assert values(x.grad) == [2]


def test_backward_within_backward_runs_its_own_graph():
    log = []

    def inner_backward(ctx, g):
        log.append("enter")
        z = leaf([2.0])
        Mul.apply(z, z).backward()
        log.append(values(z.grad))
        return g

    x = leaf([1.0])
    a = make(lambda ctx, x: x * 1, inner_backward).apply(x)
    Mul.apply(a, a).backward()
    assert log == ["enter", [4]]
    assert values(x.grad) == [2]


def test_second_derivatives_flow_through_a_function_of_variables():
    x = leaf([2.0])
    y = Mul.apply(Mul.apply(x, x), x)
    (first,) = grad(y, x, ones(1), create_graph=True)
    (second,) = grad(first, x, ones(1), create_graph=True)
    (third,) = grad(second, x, ones(1))
    assert (values(first), values(second), values(third)) == ([12], [12], [6])


def test_a_saved_second_output_keeps_its_output_number_in_double_backward():
    class Both(Function):
        """(2x, x*x), saving the second output."""

        @staticmethod
        def forward(ctx, x):
            twice, square = x * 2, x * x
            ctx.save_for_backward(x, square)
            return twice, square

        @staticmethod
        def backward(ctx, g_twice, g_square):
            x, square = ctx.saved_variables
            return g_twice * square + g_square * x * 2  # the gradient of 2x is wrong on purpose: it uses `square`

    x = leaf([3.0])
    twice, _ = Both.apply(x)
    (first,) = grad(twice, x, ones(1), create_graph=True)
    assert values(first) == [9]
    (second,) = grad(first, x, ones(1))
    assert values(second) == [6]
