"""once_differentiable: tensors in, tensors out, and an error instead of silent zeros on the second differentiation."""

import pytest
from leaves import constant, leaf, values
from python_functions import Mul

from torchlite import _C
from torchlite.autograd import Function, Variable, grad, once_differentiable

TEXT = "trying to differentiate twice a function that was markedwith @once_differentiable"


class Cube(Function):
    """``x**3``, whose backward uses a tensor kept on the context."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        assert isinstance(g, _C._TensorBase)
        return g * ctx.x * ctx.x * 3


class ScaleOnce(Function):
    @staticmethod
    def forward(ctx, x, k, y):
        ctx.k = k
        return x * k + y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * ctx.k, None, g


def test_first_derivatives_are_right():
    x = leaf([2.0])
    Cube.apply(x).backward()
    assert values(x.grad) == [12] and x.grad.grad_fn is None


def test_none_stays_none_and_a_tuple_stays_a_tuple():
    x, y = leaf([2.0]), leaf([3.0])
    ScaleOnce.apply(x, 5, y).backward()
    assert values(x.grad) == [5] and values(y.grad) == [1]


@pytest.mark.parametrize("seed_requires_grad", [False, True])
def test_the_second_differentiation_raises(seed_requires_grad):
    x = leaf([2.0])
    (first,) = grad(Cube.apply(x), x, leaf([1.0], seed_requires_grad), create_graph=True)
    assert values(first) == [12]
    with pytest.raises(RuntimeError, match=TEXT):
        first.backward()


def test_the_second_differentiation_raises_behind_other_functions():
    x = leaf([2.0])
    (first,) = grad(Mul.apply(Cube.apply(x), constant([3.0])), x, create_graph=True)
    with pytest.raises(RuntimeError, match=TEXT):
        Mul.apply(first, first).backward()


def test_the_error_node_is_seen_in_the_graph():
    x, y = leaf([2.0]), leaf([3.0])
    ScaleOnce.apply(x, 5, y).backward(leaf([1.0]))
    error = x.grad.grad_fn.next_functions[0][0]
    assert type(x.grad.grad_fn).__name__ == "Identity" and type(error).__name__ == "Error"


def test_volatile_gradients_stay_volatile():
    results = []

    class Seen(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            results.append(once_differentiable(lambda ctx, g: g * 2)(ctx, g))
            return results[0]

    Seen.apply(leaf([1.0])).backward()
    assert isinstance(results[0], Variable) and results[0].volatile and results[0].grad_fn is None


def test_the_decorated_function_keeps_its_name_and_docstring():
    @once_differentiable
    def backward(ctx, g):
        """What it does."""

    assert backward.__name__ == "backward" and backward.__doc__ == "What it does."
