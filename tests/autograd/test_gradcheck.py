"""gradcheck and gradgradcheck: they accept right gradients and catch planted faults of first and second order."""

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Exp, Mul, Scale

from torchlite import _C
from torchlite.autograd import Function, Variable, gradcheck, gradgradcheck, once_differentiable
from torchlite.autograd.gradcheck import (
    contiguous,
    get_analytical_jacobian,
    get_numerical_jacobian,
    iter_tensors,
    iter_variables,
    make_jacobian,
    zero_gradients,
)


def random(*shape, requires_grad=True):
    return leaf(np.random.default_rng(0).uniform(0.5, 1.5, shape), requires_grad)


def function(forward, backward):
    return type(Function)("Made", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def save_and(compute):
    def forward(ctx, *args):
        ctx.save_for_backward(*args)
        return compute(*args)

    return forward


RIGHT = {
    "mul": (Mul.apply, lambda: (random(2, 3), random(2, 3))),
    "mul by itself": (lambda x: Mul.apply(x, x), lambda: (random(3),)),
    "exp": (Exp.apply, lambda: (random(4),)),
    "scale": (lambda x: Scale.apply(x, 3.0), lambda: (random(2, 2),)),
    "one constant": (Mul.apply, lambda: (random(3), random(3, requires_grad=False))),
    "two outputs": (lambda x, y: (Mul.apply(x, y), Exp.apply(x)), lambda: (random(2), random(2))),
    "not contiguous": (Mul.apply, lambda: (leaf(np.arange(6.0).reshape(2, 3).T[::-1]), random(3, 2))),
    "0-d": (Exp.apply, lambda: (random(),)),
    "zero-size": (Exp.apply, lambda: (random(0, 3),)),
    "nested input": (lambda pair, k: Mul.apply(*pair), lambda: ([random(2), random(2)], 3)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name):
    func, inputs = RIGHT[name]
    assert gradcheck(func, inputs(), raise_exception=True) is True
    assert gradgradcheck(func, inputs(), raise_exception=True) is True


FIRST_ORDER_FAULTS = {
    "wrong factor": function(save_and(lambda x: x * x), lambda ctx, g: g * ctx.saved_variables[0] * 2.01),
    "wrong sign": function(lambda ctx, x: x * 3, lambda ctx, g: g * -3),
    "zeros": function(lambda ctx, x: x * 3, lambda ctx, g: g * 0),
    "not linear in the gradient": function(lambda ctx, x: x * 3, lambda ctx, g: g * 3 + 1e-9),
    "wrong in one element": function(
        save_and(lambda x: x * x), lambda ctx, g: g * ctx.saved_variables[0] * Variable(np.array([2.0, 2.0, 2.1]))
    ),
    "not a number": function(lambda ctx, x: x * 3, lambda ctx, g: g * float("nan")),
    "missing": function(lambda ctx, x: x * 3, lambda ctx, g: None),
}


@pytest.mark.parametrize("fault", FIRST_ORDER_FAULTS)
def test_a_wrong_first_derivative_is_caught(fault):
    func = FIRST_ORDER_FAULTS[fault].apply
    assert gradcheck(func, (random(3),)) is False
    with pytest.raises(RuntimeError, match="gradcheck: "):
        gradcheck(func, (random(3),), raise_exception=True)


def test_a_gradient_swapped_between_inputs_is_caught():
    swapped = function(save_and(lambda a, b: a * b), lambda ctx, g: tuple(g * v for v in ctx.saved_variables))
    assert gradcheck(swapped.apply, (random(3), Scale.apply(random(3), 2).detach())) is False


def test_a_gradient_that_differs_between_runs_is_caught():
    noise = iter(range(1, 10**6))
    noisy = function(lambda ctx, x: x * 3, lambda ctx, g: g * (3 + 1e-12 * next(noise)))
    with pytest.raises(RuntimeError, match="not deterministic"):
        gradcheck(noisy.apply, (random(3),), raise_exception=True)


def test_an_output_cut_off_the_graph_is_caught():
    assert gradcheck(lambda x: Exp.apply(x).detach(), (random(3),)) is False
    assert gradcheck(lambda x: Variable(x.data > 1), (random(3),)) is True


def test_a_gradient_wrong_only_with_create_graph_is_caught():
    def backward(ctx, g):
        return g * (2 if g.volatile else 3)

    assert gradcheck(function(lambda ctx, x: x * 2, backward).apply, (random(3),)) is False


def through_data(ctx, g):
    """A right first derivative of x*x that forgets its dependence on x."""
    (x,) = ctx.saved_variables
    return g * Variable(x.data * 2)


def wrong_factor(ctx, g):
    """A right first derivative of x*x whose own derivative is wrong."""
    (x,) = ctx.saved_variables
    return g * WrongTwice.apply(x)


WrongTwice = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2.1)


@pytest.mark.parametrize("backward", [through_data, wrong_factor])
def test_a_wrong_second_derivative_is_caught(backward):
    square = function(save_and(lambda x: x * x), backward).apply
    assert gradcheck(square, (random(3),)) is True
    assert gradgradcheck(square, (random(3),)) is False
    assert gradgradcheck(square, (random(3),), (leaf([1.0, 2.0, 3.0]),)) is False


def test_a_wrong_derivative_for_the_gradient_is_caught():
    frozen = function(lambda ctx, x: x * 2, lambda ctx, g: Variable(g.data * 2)).apply
    assert gradcheck(frozen, (random(3),)) is True
    assert gradgradcheck(frozen, (random(3),)) is False


def test_differentiating_a_once_differentiable_function_twice_raises():
    once = function(save_and(lambda x: x * x), once_differentiable(lambda ctx, g: g * ctx.saved_tensors[0] * 2)).apply
    assert gradcheck(once, (random(3),)) is True
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradgradcheck(once, (random(3),))


def test_data_and_grad_of_the_inputs_are_as_before():
    x = random(3)
    before = values(x)
    kept = x.grad = constant([1.0, 2.0, 3.0])
    gradcheck(lambda x: Mul.apply(x, x), (x,))
    gradgradcheck(lambda x: Mul.apply(x, x), (x,))
    gradcheck(FIRST_ORDER_FAULTS["wrong sign"].apply, (x,))
    assert values(x) == before and x.grad is kept and values(kept) == [1, 2, 3]


def test_inputs_may_be_interior():
    x = Scale.apply(random(3), 2)
    assert gradcheck(lambda x: Mul.apply(x, x), (x,), raise_exception=True)


def test_tensors_nested_in_the_inputs_are_constants_and_stay_as_they_are():
    index = _C.LongTensor([0, 2])
    x = random(3, 2)
    assert gradcheck(lambda v, key: v[key[0]] ** 2, (x, [index, 1]))
    assert index.tolist() == [0, 2]
    jacobian, same, sizes = get_analytical_jacobian((x, [index]), x[index] * 2)
    assert same and sizes and not jacobian[1][0].numpy().any()


def test_there_must_be_a_variable():
    with pytest.raises(RuntimeError, match="no Variables found in input"):
        gradcheck(lambda x: x, (3,))


def test_inputs_that_are_too_coarse_warn():
    x = leaf([1.0], dtype=np.float32)
    with pytest.warns(UserWarning, match="not a DoubleTensor"):
        gradcheck(lambda x: Scale.apply(x, 2), (x,))


def test_the_message_says_which_entry_differs():
    with pytest.raises(RuntimeError) as error:
        gradcheck(FIRST_ORDER_FAULTS["wrong in one element"].apply, (random(3),), raise_exception=True)
    assert "input 0" in str(error.value) and "input element 2, output element 2" in str(error.value)
    assert "1 of 9 entries" in str(error.value)


def test_grad_outputs_are_paired_with_outputs():
    with pytest.raises(RuntimeError, match="got 1 outputs and 2 grad_outputs"):
        gradgradcheck(Exp.apply, (random(2),), (random(2), random(2)))


# ---- helpers -------------------------------------------------------------------------------------------------------


def test_jacobians_are_doubles_of_input_by_output_elements():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = Mul.apply(x, x)
    right = np.diag([2.0, 4.0, 6.0, 8.0])
    numerical = get_numerical_jacobian(lambda args: Mul.apply(args, args).data, x, x, 1e-6)
    analytical, same, right_sizes = get_analytical_jacobian(x, y)
    assert same and right_sizes
    for jacobian in (numerical, analytical):
        assert type(jacobian).__name__ == "DoubleTensor"
        np.testing.assert_allclose(jacobian.numpy(), right, atol=1e-6)


def test_jacobians_are_nested_as_the_inputs_are():
    x, y, k = random(2), random(3), constant([1.0])
    jacobian = make_jacobian(([x, k], y), 4)
    assert isinstance(jacobian, tuple) and isinstance(jacobian[0], list) and len(jacobian[0]) == 1
    assert [tuple(j.size()) for j in iter_tensors(jacobian)] == [(2, 4), (3, 4)]
    assert make_jacobian(k, 4) is None and make_jacobian([k], 4) is None and make_jacobian(3, 4) is None


def test_iter_tensors_goes_through_nested_sequences():
    x, k = random(2), constant([1.0])
    assert [t is v.data for t, v in zip(iter_tensors([x, (k, x.data)]), [x, k, x], strict=True)] == [True] * 3
    assert len(list(iter_tensors([x, k], only_requiring_grad=True))) == 1


def test_iter_variables_gives_gradients_and_data():
    x, y = leaf([2.0]), leaf([3.0])
    Scale.apply(x, 2).backward()
    pairs = list(iter_variables([x, (y, constant([1.0]))]))
    assert pairs[0][0] is x.grad.data and pairs[0][1] is x.data and pairs[1] == (None, None)


def test_zero_gradients_zeroes_in_place():
    x = leaf([2.0])
    Scale.apply(x, 2).backward()
    kept = x.grad
    zero_gradients([x, constant([1.0])])
    assert x.grad is kept and values(kept) == [0]


def test_contiguous_goes_through_nested_sequences():
    x = leaf(np.arange(6.0).reshape(2, 3).T)
    result = contiguous([x, (x.data, 3)])
    assert isinstance(result[1], tuple) and result[1][1] == 3
    assert all(t.is_contiguous() for t in iter_tensors(result)) and isinstance(result[1][0], _C._TensorBase)
