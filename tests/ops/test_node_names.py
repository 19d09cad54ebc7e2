"""What the functions of a graph are called: as the era called them, since graphs are described by these names."""

import importlib

import pytest

import torchlite
from torchlite import _C, Variable


def leaf(*size):
    return Variable(torchlite.ones(*size), requires_grad=True)


def describe(fn):
    name = type(fn).__name__
    return name + "(" + ", ".join(describe(f) for f, _ in fn.next_functions if f is not None) + ")"


WITH_A_NUMBER = {
    "AddConstantBackward": [lambda v: v + 2, lambda v: 2 + v, lambda v: v.add(2), lambda v: torchlite.add(v, 2)],
    "SubConstantBackward": [lambda v: v - 2, lambda v: 2 - v, lambda v: v.sub(2)],
    "MulConstantBackward": [lambda v: v * 2, lambda v: 2.5 * v, lambda v: v.mul(True), lambda v: torchlite.mul(2, v)],
    "DivConstantBackward": [lambda v: v / 2, lambda v: 2 / v, lambda v: v.div(2)],
    "PowConstantBackward": [lambda v: v**2, lambda v: 2**v, lambda v: v.pow(0.5)],
}


@pytest.mark.parametrize("name, call", [(name, f) for name, calls in WITH_A_NUMBER.items() for f in calls])
def test_with_a_number_the_name_says_constant(name, call):
    fn = call(leaf(3)).grad_fn
    assert type(fn).__name__ == name and type(fn) is getattr(_C._functions, name)
    assert type(call(Variable(torchlite.ones(3))).grad_fn).__name__ == name  # also where nothing is differentiated


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_with_two_variables_it_does_not(name):
    plain, constant = (getattr(_C._functions, name.capitalize() + end) for end in ("Backward", "ConstantBackward"))
    x = leaf(3)
    assert type(getattr(x, name)(leaf(3)).grad_fn) is plain
    assert type(getattr(x, name)(torchlite.ones(3).numpy()).grad_fn) is plain
    assert type(getattr(x, name)(3).grad_fn) is constant and constant is not plain


def test_in_place_forms_too():
    x = leaf(3) * leaf(3)
    assert type(x.add_(2).grad_fn) is _C._functions.AddConstantBackward
    assert type(x.mul_(leaf(3)).grad_fn) is _C._functions.MulBackward


def test_gradients_with_numbers_are_right_and_can_be_differentiated():
    x = leaf(3)
    (x * 3).sum().backward()
    assert list(x.grad.data) == [3, 3, 3]
    x.grad = None
    seed = leaf(1)
    (x**3).sum().backward(seed, create_graph=True)
    x.grad.sum().backward()
    assert list(seed.grad.data) == [9]


def test_sums_expand_and_accumulated_gradients_add():
    x, y, seed = leaf(2, 3), leaf(2, 3), leaf(1)
    (x * y + x * 2).sum().backward(seed, create_graph=True)
    product = "MulBackward(ExpandBackward(AccumulateGrad()), AccumulateGrad())"
    number = "MulConstantBackward(ExpandBackward(AccumulateGrad()))"
    assert describe(x.grad.grad_fn) in (
        f"Identity(AddBackward({product}, {number}))", f"Identity(AddBackward({number}, {product}))")
    assert describe(y.grad.grad_fn) == f"Identity({product})"


def test_the_types_can_be_imported_by_name():
    from torchlite._C._functions import AccumulateGrad, MulConstantBackward

    assert importlib.import_module("torchlite._C._functions") is _C._functions
    assert type((leaf(1) * 2).grad_fn) is MulConstantBackward and AccumulateGrad.__name__ == "AccumulateGrad"
