"""The old-style Functions with a base class of their own: in-place, nested and stochastic ones."""

import re

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Scale

from torchlite.autograd import InplaceFunction, NestedIOFunction, StochasticFunction


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


@pytest.mark.parametrize(
    "result, expected",
    [
        (lambda g: ([g, None, g * 2], g * 3), [1, 2, 3]),
        (lambda g: (None, g * 3), [None, None, 3]),
        (lambda g: ([None, None, g], None), [None, 1, None]),
        (lambda g: (g, g * 2, g * 3), [1, 2, 3]),
    ],
    ids=["nested", "none for a part", "none for leaves", "flat"],
)
def test_gradients_are_nested_as_the_inputs_or_flat(result, expected):
    class Sum(NestedIOFunction):
        def forward_extended(self, part, c):
            return part[0] + part[2] + c

        def backward_extended(self, g):
            return result(g)

    inputs = a, b, c = [leaf([1.0]) for _ in range(3)]
    y = Sum()([a, None, b], c)
    (y[0] if isinstance(y, tuple) else y).backward()
    assert [None if v.grad is None else values(v.grad)[0] for v in inputs] == expected


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
        y = x.clone()
        self.mark_non_differentiable(y)
        return y

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


def test_the_reward_is_dropped_unless_it_is_to_be_retained():
    y = Draw()(leaf([1.0]))
    y.reinforce(1)
    y.grad_fn._do_backward((), True)
    assert y.grad_fn.reward is not None
    y.grad_fn._do_backward((), False)
    assert y.grad_fn.reward is None


def test_a_reward_of_another_type_or_size_is_refused():
    y = Draw()(leaf([[1.0, 2.0, 3.0]]))
    with pytest.raises(TypeError, match="got .*FloatTensor, but expected .*DoubleTensor"):
        y.reinforce(constant([[1.0, 2.0, 3.0]], np.float32).data)
    with pytest.raises(ValueError, match="got reward of size 3x1, but expected a tensor of size 1x3"):
        y.reinforce(constant([[1.0], [2.0], [3.0]]).data)
    y.reinforce(1)


def test_only_results_of_stochastic_functions_can_be_reinforced():
    for v in (leaf([1.0]), Scale.apply(leaf([1.0]), 2)):
        with pytest.raises(RuntimeError, match=re.escape("reinforce() can be only called on outputs of stochastic")):
            v.reinforce(1)
