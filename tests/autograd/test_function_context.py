"""save_for_backward, mark_dirty, mark_shared_storage and mark_non_differentiable: rules and refusals."""

import re

import numpy as np
import pytest
from simple_functions import AddInPlace, AddVariableInPlace, Exp, Mul, Scale, constant, leaf, values

from torchlite.autograd import Function, Variable

FREED = "Trying to backward through the graph a second time"
MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


def calling(method, *arguments):
    """A Function whose forward calls ``ctx.<method>`` with what ``arguments`` make of (input, output)."""

    class Made(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            getattr(ctx, method)(*[a(x, y) if callable(a) else a for a in arguments])
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Made


def other(x, y):
    return x.clone()


@pytest.mark.parametrize(
    "method, arguments, message",
    [
        ("save_for_backward", [3], "save_for_backward can only save tensors, but argument 0 is of type int"),
        (
            "save_for_backward",
            [lambda x, y: x, other],
            "save_for_backward can only save input or output tensors, but argument 1 doesn't satisfy this condition",
        ),
        ("mark_dirty", ["text"], "mark_dirty can only accept tensors, but argument 0 is of type str"),
        ("mark_dirty", [other], "mark_dirty only accepts input tensors, but argument 0 isn't one"),
        ("mark_non_differentiable", [None], "mark_non_differentiable only accepts"),
        ("mark_non_differentiable", [other], "mark_non_differentiable only accepts"),
        (
            "mark_shared_storage",
            [3],
            "mark_shared_storages accepts a number of pairs, but one of the arguments is of type int",
        ),
        (
            "mark_shared_storage",
            [(1, 2, 3)],
            "mark_shared_storages accepts pairs, but argument 0 is a tuple of 3 elements",
        ),
        ("mark_shared_storage", [(1, "a")], "mark_shared_storages accepts pairs of tensors, but one of them contains"),
        (
            "mark_shared_storage",
            [lambda x, y: (y, x)],
            "mark_shared_storages only accepts pairs of input and output tensors, but argument 0 doesn't satify",
        ),
    ],
)
def test_misuse_of_the_context_is_refused(method, arguments, message):
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match=re.escape(message)):
        calling(method, *arguments).apply(x)
    assert values(x) == [1] and x.is_leaf


@pytest.mark.parametrize("attribute", ["to_save", "dirty_tensors", "shared_pairs", "non_differentiable"])
def test_an_attribute_set_to_no_tuple_is_an_internal_error(attribute):
    class Made(Function):
        @staticmethod
        def forward(ctx, x):
            setattr(ctx, attribute, [x])
            return x * 2

    with pytest.raises(RuntimeError, match=f"autograd internal error: {attribute} attribute is expected to be a tuple"):
        Made.apply(leaf([1.0]))


# ---- saving --------------------------------------------------------------------------------------------------------


def test_none_is_saved_as_none():
    class Made(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(None, x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors[0] is None and ctx.saved_variables[0] is None
            return g * ctx.saved_variables[1]

    x = leaf([3.0])
    y = Made.apply(x)
    assert y.grad_fn.saved_tensors[0] is None and y.grad_fn.saved_tensors[1] is x.data
    y.backward()
    assert values(x.grad) == [3]


def test_the_last_call_of_save_for_backward_wins():
    class Made(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a)
            ctx.save_for_backward(b)
            return a * b

    a, b = leaf([1.0]), leaf([2.0])
    assert [t is b.data for t in Made.apply(a, b).grad_fn.saved_tensors] == [True]


def test_saved_values_are_gone_after_backward():
    x = leaf([2.0])
    y = Mul.apply(x, x)
    y.backward()
    for attribute in ("saved_tensors", "saved_variables"):
        with pytest.raises(RuntimeError, match=FREED):
            getattr(y.grad_fn, attribute)


def test_a_second_backward_raises_and_changes_no_gradient():
    x = leaf([2.0])
    y = Mul.apply(x, x)
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    assert values(x.grad) == [4]


def test_a_second_backward_works_if_nothing_was_saved():
    x = leaf([2.0])
    y = Scale.apply(x, 3)
    y.backward()
    y.backward()
    assert values(x.grad) == [6]


def test_a_retained_graph_gives_the_same_gradient_again():
    x = leaf([2.0])
    y = Mul.apply(x, x)
    y.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == [8]


def test_nothing_is_saved_if_nothing_requires_grad():
    assert Mul.apply(constant([1.0]), constant([2.0])).grad_fn.saved_tensors == ()


def test_a_saved_leaf_comes_back_as_the_same_object_with_its_attributes():
    class Named(Variable):
        pass

    x = Named(np.array([2.0]), requires_grad=True)
    x.name = "w"
    y = Mul.apply(x, leaf([3.0]))
    identity = id(x)
    del x
    saved = y.grad_fn.saved_variables[0]
    assert type(saved) is Named and saved.name == "w" and id(saved) == identity
    y.backward()
    assert values(saved.grad) == [3]


def test_a_saved_output_knows_the_function_that_made_it():
    y = Exp.apply(leaf([0.0]))
    assert y.grad_fn.saved_variables[0].grad_fn is y.grad_fn


# ---- in-place changes ----------------------------------------------------------------------------------------------


def test_a_saved_input_that_is_modified_later_cannot_be_used():
    a = Scale.apply(leaf([1.0]), 1)
    y = Mul.apply(a, leaf([2.0]))
    AddInPlace.apply(a, 1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_a_saved_output_that_is_modified_later_cannot_be_used():
    y = Exp.apply(Scale.apply(leaf([1.0]), 1))
    maker = y.grad_fn
    AddInPlace.apply(y, 1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        maker.saved_variables  # noqa: B018
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_an_input_that_was_modified_before_it_was_saved_can_be_used():
    x = leaf([1.0])
    a = Scale.apply(x, 1)
    AddInPlace.apply(a, 1)
    Mul.apply(a, constant([3.0])).backward()
    assert values(x.grad) == [3]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_dirty_input_comes_back_as_the_same_variable_with_a_new_history(requires_grad):
    a = Scale.apply(leaf([1.0, 1.0], requires_grad), 1)
    b = leaf([5.0, 6.0], requires_grad)
    version = a._version
    c = AddVariableInPlace.apply(a, b)
    assert c is a and a._version == version + 1 and values(a) == [6, 7]
    assert type(a.grad_fn).__name__ == "AddVariableInPlaceBackward"
    if requires_grad:
        c.backward(constant([2.0, 3.0]))
        assert values(b.grad) == [2, 3]


def test_a_leaf_that_requires_grad_cannot_be_changed_in_place():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation."):
        AddInPlace.apply(x, 1)
    assert x.is_leaf and x.requires_grad


def test_a_leaf_that_needs_no_grad_moves_into_the_graph_when_changed_in_place():
    a, b = constant([1.0]), leaf([2.0])
    assert AddVariableInPlace.apply(a, b) is a
    a.backward()
    assert values(b.grad) == [1]


def test_a_view_that_lives_blocks_in_place_functions():
    a = Scale.apply(leaf([1.0, 2.0]), 1)
    view = a.view(2, 1)
    with pytest.raises(RuntimeError, match="there are 2 objects sharing it"):
        AddInPlace.apply(a, 1)
    del view
    AddInPlace.apply(a, 1)


def test_a_hook_from_before_an_in_place_function_stays_with_the_old_history():
    calls = []
    a = Scale.apply(leaf([1.0]), 1)
    a.register_hook(lambda g: calls.append("old"))
    AddInPlace.apply(a, 1)
    a.register_hook(lambda g: calls.append("new"))
    a.backward()
    assert calls.count("new") == 1 and calls.count("old") <= 1


def test_a_volatile_value_written_into_a_variable_makes_it_volatile():
    a = Scale.apply(leaf([1.0]), 1)
    AddVariableInPlace.apply(a, leaf([2.0], False, volatile=True))
    assert a.volatile and a.grad_fn is None and not a.requires_grad


# ---- outputs -------------------------------------------------------------------------------------------------------


def test_a_non_differentiable_output_needs_no_grad_but_keeps_its_function():
    y = calling("mark_non_differentiable", lambda x, y: y).apply(leaf([1.0]))
    assert not y.requires_grad and y.grad_fn is not None
    assert not Scale.apply(y, 2).requires_grad


def test_a_shared_output_shares_the_version_counter():
    class View(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.view(-1, 1)
            ctx.mark_shared_storage((x, y))
            return y

        @staticmethod
        def backward(ctx, g):
            return g.view(-1)

    x = Scale.apply(leaf([1.0, 2.0]), 1)
    y = View.apply(x)
    with pytest.raises(RuntimeError, match="don't share storage"):
        AddInPlace.apply(y, 1)
    with pytest.raises(RuntimeError, match="don't share storage"):
        AddInPlace.apply(x, 1)
