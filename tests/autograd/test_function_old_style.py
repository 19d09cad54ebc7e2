"""Old-style Functions: instances that are called once; also the stochastic and the nested ones."""

import re

import numpy as np
import pytest
from simple_functions import Scale, constant, leaf, values

from torchlite.autograd import Function, InplaceFunction, NestedIOFunction, StochasticFunction, Variable, grad


class OldScale(Function):
    def __init__(self, k):
        self.k = k  # without calling the base: it has nothing to set up

    def forward(self, x):
        return x * self.k

    def backward(self, g):
        return g * self.k


class OldMul(Function):
    def forward(self, a, b):
        self.save_for_backward(a, b)
        return a * b

    def backward(self, g):
        a, b = self.saved_tensors
        return g * b, g * a


def test_an_instance_is_called_and_is_the_node():
    function = OldScale(3)
    x = leaf([2.0])
    y = function(x)
    assert y.grad_fn is function and values(y) == [6]
    y.backward()
    assert values(x.grad) == [3]


def test_saved_tensors_are_tensors():
    a, b = leaf([2.0]), leaf([5.0])
    OldMul()(a, b).backward()
    assert values(a.grad) == [5] and values(b.grad) == [2]


def test_an_argument_that_is_no_variable_is_refused():
    with pytest.raises(RuntimeError, match="expected a Variable argument, but got int"):
        OldScale(2)(3)


def test_an_instance_used_twice_never_mixes_up_its_calls():
    function = OldMul()
    a, b = leaf([3.0]), leaf([4.0])
    two = constant([2.0])
    first = function(a, two)
    try:
        second = function(b, two)
    except RuntimeError:
        first.backward()
        assert values(a.grad) == [2]
    else:
        first.backward()
        second.backward()
        assert values(a.grad) == [2] and values(b.grad) == [2]


def test_missing_gradients_of_old_style_outputs_are_zero_tensors():
    seen = []

    class Two(Function):
        def forward(self, x):
            return x * 2, x * 3

        def backward(self, g, unused):
            seen.append(unused)
            return g * 2 + unused * 3

    x = leaf([1.0, 1.0])
    first, _ = Two()(x)
    first.backward(constant([1.0, 1.0]))
    assert values(seen[0]) == [0, 0] and not isinstance(seen[0], Variable)
    assert values(x.grad) == [2, 2]


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda g: (g, g, g), "Made returned an invalid number of gradient tensors (expected 2, but got 3)"),
        (lambda g: g, "Made returned an invalid number of gradient tensors (expected 2, but got 1)"),
        (lambda g: ("text", None), "expected Tensor (got 'str')"),
    ],
)
def test_a_wrong_result_of_an_old_style_backward_is_refused(result, message):
    class Made(Function):
        def forward(self, a, b):
            return a + b

        def backward(self, g):
            return result(g)

    a, b = leaf([1.0]), leaf([1.0])
    with pytest.raises(RuntimeError, match=re.escape(message)):
        Made()(a, b).backward()
    assert a.grad is None and b.grad is None


def test_extra_gradients_that_are_none_are_allowed():
    class Made(Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return g * 2, None, None

    x = leaf([1.0])
    Made()(x).backward()
    assert values(x.grad) == [2]


def test_an_old_style_gradient_cannot_be_differentiated():
    x = leaf([2.0])
    (first,) = grad(OldMul()(x, x), x, constant([1.0]), create_graph=True)
    assert values(first) == [4]
    with pytest.raises(RuntimeError, match="OldMul is not differentiable twice"):
        first.backward()


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3)])
def test_do_backward_takes_two_arguments(arguments):
    with pytest.raises((RuntimeError, TypeError), match="_do_backward expects exactly two arguments"):
        OldScale(2)._do_backward(*arguments)


def test_an_in_place_function_of_the_old_style():
    class Add(InplaceFunction):
        def forward(self, x):
            if self.inplace:
                self.mark_dirty(x)
                return x.add_(1)
            return x + 1

        def backward(self, g):
            return g

    a = Scale.apply(leaf([1.0]), 1)
    assert Add()(a) is not a and values(a) == [1]
    assert Add(inplace=True)(a) is a and values(a) == [2]


def test_a_variable_of_a_function_that_never_ran_is_safe():
    function = OldScale(2)
    v = Variable(np.array([1.0]), _grad_fn=function)
    assert v.grad_fn is function and not v.requires_grad and v.output_nr == 0
    del function, v


# ---- nested --------------------------------------------------------------------------------------------------------


class NestedScale(NestedIOFunction):
    """Takes ``x, [y, None, (z,)]`` and gives ``[2x, (3y, None)], 4z``."""

    def forward_extended(self, x, rest):
        y, none, (z,) = rest
        assert none is None
        self.save_for_backward(x, [y, None])
        return [x * 2, (y * 3, None)], z * 4

    def backward_extended(self, first, gz):
        gx, (gy, none) = first
        assert none is None
        saved_x, (saved_y, saved_none) = self.saved_tensors
        assert saved_none is None and values(saved_x) == [1] and values(saved_y) == [2]
        return gx * 2, [gy * 3, None, (gz * 4,)]


def test_nested_inputs_and_outputs_keep_their_shape_and_gradients():
    x, y, z = leaf([1.0]), leaf([2.0]), leaf([3.0])
    [twice, (thrice, none)], fourfold = NestedScale()(x, [y, None, (z,)])
    assert none is None
    assert [values(v) for v in (twice, thrice, fourfold)] == [[2], [6], [12]]
    (twice + thrice + fourfold).backward()
    assert [values(v.grad) for v in (x, y, z)] == [[2], [3], [4]]


def test_a_nested_function_with_one_result():
    class Sum(NestedIOFunction):
        def forward_extended(self, pair):
            return pair[0] + pair[1]

        def backward_extended(self, g):
            return ([g, g],)

    a, b = leaf([1.0]), leaf([2.0])
    y = Sum()([a, b])
    y = y[0] if isinstance(y, tuple) else y
    y.backward()
    assert values(a.grad) == [1] and values(b.grad) == [1]


@pytest.mark.parametrize("bad", [3, "text", {"a": 1}])
def test_a_nested_function_refuses_other_leaves(bad):
    name = re.escape(type(bad).__name__)
    message = f"NestedIOFunction doesn't know how to process an input object of type .*{name}"
    with pytest.raises(ValueError, match=message):
        NestedScale()(leaf([1.0]), [bad])


def test_a_nested_function_marks_dirty_and_non_differentiable_tensors():
    class Made(NestedIOFunction):
        def forward_extended(self, pair):
            a, b = pair
            a.add_(1)
            self.mark_dirty([a])
            mask = b.gt(0)
            self.mark_non_differentiable([mask])
            return [a, mask]

    a = Scale.apply(leaf([1.0]), 1)
    [out, mask] = Made()([a, leaf([2.0])])
    assert out is a and a._version == 1 and not mask.requires_grad


# ---- stochastic ----------------------------------------------------------------------------------------------------


class Draw(StochasticFunction):
    def forward(self, x):
        return x.clone()

    def backward(self, reward):
        return reward * 10


def test_the_reward_takes_the_place_of_the_gradient():
    x = leaf([1.0, 2.0])
    y = Draw()(x)
    y.reinforce(constant([0.5, 1.0]).data)
    y.backward()
    assert values(x.grad) == [5, 10]


def test_a_reward_may_be_a_number():
    x = leaf([1.0, 2.0])
    y = Draw()(x)
    y.reinforce(2)
    y.backward()
    assert values(x.grad) == [20, 20]


def test_a_stochastic_function_without_a_reward_raises():
    with pytest.raises(RuntimeError, match="differentiating stochastic functions requires providing a reward"):
        Draw()(leaf([1.0])).backward()


def test_a_stochastic_function_is_reinforced_once():
    y = Draw()(leaf([1.0]))
    y.reinforce(1)
    with pytest.raises(RuntimeError, match="you can only reinforce a stochastic Function once"):
        y.reinforce(1)


def test_the_reward_is_dropped_after_a_backward_that_frees_the_graph():
    y = Draw()(leaf([1.0]))
    y.reinforce(1)
    y.backward(retain_graph=True)
    assert y.grad_fn.reward is not None
    y.backward()
    assert y.grad_fn.reward is None


def test_a_reward_of_another_type_or_size_is_refused():
    y = Draw()(leaf([[1.0, 2.0, 3.0]]))
    with pytest.raises(TypeError, match="mismatch between reward and output type: got .*FloatTensor, but expected .*Double"):
        y.reinforce(constant([[1.0, 2.0, 3.0]], np.float32).data)
    with pytest.raises(ValueError, match="got reward of size 3x1, but expected a tensor of size 1x3"):
        y.reinforce(constant([[1.0], [2.0], [3.0]]).data)
    y.reinforce(1)


def test_only_results_of_stochastic_functions_can_be_reinforced():
    for v in (leaf([1.0]), Scale.apply(leaf([1.0]), 2)):
        with pytest.raises(RuntimeError, match=re.escape("reinforce() can be only called on outputs of stochastic")):
            v.reinforce(1)
