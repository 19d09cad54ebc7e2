"""What the backward of a Python Function is given and may return."""

import numpy as np
import pytest
from python_functions import Exp, Mul, OldMul, Scale, Split, array, new_style, ones_like, variable

import torchlite
from torchlite.autograd import Function, Variable, grad


def run(fn, *args, seed=None):
    y = fn.apply(*args)
    y.backward(seed if seed is not None else ones_like(y))
    return y


def test_gradients_reach_the_leaves():
    a, b = variable([2.0, 3.0]), variable([5.0, 7.0])
    run(Mul, a, b)
    np.testing.assert_array_equal(array(a.grad), [5.0, 7.0])
    np.testing.assert_array_equal(array(b.grad), [2.0, 3.0])


def test_saved_result_gives_the_second_derivative():
    x = variable([0.5])
    y = Exp.apply(x)
    (g,) = grad([y], [x], [variable([1.0], False)], create_graph=True)
    (gg,) = grad([g], [x], [variable([1.0], False)])
    np.testing.assert_allclose(array(gg), np.exp([0.5]))


def test_saved_inputs_give_the_second_derivative():
    x = variable([3.0])
    y = Mul.apply(Mul.apply(x, x), x)
    (g,) = grad([y], [x], [variable([1.0], False)], create_graph=True)
    (gg,) = grad([g], [x], [variable([1.0], False)])
    np.testing.assert_allclose(array(gg), [18.0])


def test_missing_gradient_arrives_as_zeros():
    seen = []

    def forward(ctx, x):
        return x * 1, torchlite.LongTensor([[1, 2]]), x[:1].clone()

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[0]

    y, _, _ = new_style(forward, backward).apply(variable([1.0, 2.0], dtype=np.float32))
    y.backward(ones_like(y))
    assert [(g.data.numpy().dtype, g.data.numpy().shape) for g in seen] == [
        (np.float32, (2,)),
        (np.int64, (1, 2)),
        (np.float32, (1,)),
    ]
    assert not np.any(array(seen[1])) and not np.any(array(seen[2]))
    assert seen[1].is_leaf and not seen[1].volatile and not seen[1].requires_grad


def test_second_backward_names_the_remedy():
    y = Mul.apply(variable([1.0]), variable([1.0]))
    y.backward(ones_like(y))
    for attribute in ["saved_tensors", "saved_variables"]:
        with pytest.raises(RuntimeError, match="a second time.*retain_graph=True"):
            getattr(y.grad_fn, attribute)
    with pytest.raises(RuntimeError, match="a second time.*retain_graph=True"):
        y.backward(ones_like(y))


def test_second_backward_of_a_function_that_saved_nothing_works():
    x = variable([1.0])
    y = Scale.apply(x, 3)
    y.backward(ones_like(y))
    y.backward(ones_like(y))
    np.testing.assert_array_equal(array(x.grad), [6.0])


def good(ctx, g):
    return g


# case: (backward, number of Variable arguments, error, message)
BAD = {
    "too few": (
        good,
        2,
        RuntimeError,
        r"function BadBackward returned an incorrect number of gradients \(expected 2, got 1\)",
    ),
    "too many": (lambda ctx, g: (g, g), 1, RuntimeError, r"expected 1, got 2"),
    "empty tuple": (lambda ctx, g: (), 1, RuntimeError, r"expected 1, got 0"),
    "array": (lambda ctx, g: array(g), 1, RuntimeError, r"expected Variable or None \(got numpy.*BadBackward"),
    "tensor": (lambda ctx, g: g.data, 1, RuntimeError, r"expected Variable or None \(got torchlite.DoubleTensor\)"),
    "number": (lambda ctx, g: 1.0, 1, RuntimeError, r"expected Variable or None \(got float\)"),
    "size": (
        lambda ctx, g: Variable(np.ones(3)),
        1,
        RuntimeError,
        r"BadBackward returned a gradient of size \(3,\) at position 1, but .* has size \(1, 3\)",
    ),
    "size that would broadcast": (
        lambda ctx, g: Variable(np.ones((1, 1))),
        1,
        RuntimeError,
        r"of size \(1, 1\) at position 1, but .* has size \(1, 3\)",
    ),
    "second size": (
        lambda ctx, g: (g, Variable(np.ones(()))),
        2,
        RuntimeError,
        r"of size \(\) at position 2, but .* has size \(1, 3\)",
    ),
    "type": (
        lambda ctx, g: Variable(np.ones((1, 3), np.float32)),
        1,
        RuntimeError,
        r"BadBackward returned a gradient of type torchlite.FloatTensor \(float32\) at position 1, but .* is of type "
        r"torchlite.DoubleTensor \(float64\)",
    ),
}


@pytest.mark.parametrize("saves", [False, True], ids=["", "saves"])
@pytest.mark.parametrize("case", BAD)
def test_wrong_gradient_is_refused(case, saves):
    backward, n, error, message = BAD[case]

    def forward(ctx, *args):
        if saves:
            ctx.save_for_backward(*args)
        return args[0] * 1

    xs = [variable([[1.0, 2.0, 3.0]]) for _ in range(n)]
    y = new_style(forward, backward, name="Bad").apply(*xs)
    with pytest.raises(error, match=message):
        y.backward(ones_like(y))
    assert all(x.grad is None for x in xs)


@pytest.mark.parametrize(
    "backward",
    [lambda ctx, g: g, lambda ctx, g: [g], lambda ctx, g: (g,), lambda ctx, g: (g, None, None)],
    ids=["single", "list", "tuple", "extra None"],
)
def test_accepted_forms_of_one_gradient(backward):
    x = variable([1.0])
    run(new_style(lambda ctx, x: x * 1, backward), x)
    np.testing.assert_array_equal(array(x.grad), [1.0])


def test_gradient_for_a_constant_must_be_none():
    fn = new_style(lambda ctx, x, k: x * k, lambda ctx, g: (g, g), name="Bad")
    with pytest.raises(
        RuntimeError, match="function BadBackward returned a gradient different than None at position 2"
    ):
        run(fn, variable([1.0]), 2)


def test_gradient_of_an_input_that_needs_none_is_not_checked():
    fn = new_style(lambda ctx, x, c: x * 1, lambda ctx, g: (g, Variable(np.ones(7, np.float32))))
    x = variable([1.0])
    run(fn, x, variable([1.0, 2.0], False))
    np.testing.assert_array_equal(array(x.grad), [1.0])


def test_error_of_backward_keeps_its_type_and_leaves_the_gradients():
    def backward(ctx, g):
        raise KeyError("mine")

    x = variable([1.0])
    y = new_style(lambda ctx, x: x * 1, backward).apply(x)
    with pytest.raises(KeyError, match="mine"):
        y.backward(ones_like(y))
    assert x.grad is None


def test_missing_backward_is_reported():
    y = new_style(lambda ctx, x: x * 1).apply(variable([1.0]))
    with pytest.raises(NotImplementedError, match="backward"):
        y.backward(ones_like(y))


def test_two_results_of_one_node():
    x = variable([1.0, 2.0])
    a, b = Split.apply(x)
    y = Mul.apply(a, b)
    y.backward(ones_like(y))
    np.testing.assert_array_equal(array(x.grad), [2.0, 1.0])


# ---- old style -------------------------------------------------------------------------------------------------------


def old_style(forward, backward, name="Old"):
    return type(name, (Function,), {"forward": forward, "backward": backward})


def test_old_style_backward_works_on_tensors():
    seen = []

    def backward(self, g):
        seen.append(g)
        return g * 3

    x = variable([2.0])
    y = old_style(lambda self, x: x * 3, backward)()(x)
    y.backward(ones_like(y))
    assert isinstance(seen[0], torchlite.DoubleTensor)
    np.testing.assert_array_equal(array(x.grad), [3.0])


def test_old_style_missing_gradient_arrives_as_zeros():
    seen = []

    def backward(self, a, b):
        seen.extend([a, b])
        return a

    y, _ = old_style(lambda self, x: (x * 1, x[:1].clone()), backward)()(variable([1.0, 2.0]))
    y.backward(ones_like(y))
    np.testing.assert_array_equal(seen[1].numpy(), [0.0])


def test_old_style_result_is_not_differentiable_twice():
    x = variable([2.0])
    y = OldMul(3)(x)
    (g,) = grad([y], [x], [variable([1.0], False)], create_graph=True)
    assert type(g.grad_fn).__name__ == "Error"
    with pytest.raises(RuntimeError, match="OldMul is not differentiable twice"):
        (g * g).backward(ones_like(g))


OLD_BAD = {
    "too few": (lambda self, g: (), r"Old returned an invalid number of gradient tensors \(expected 1, but got 0\)"),
    "too many": (
        lambda self, g: (g, g),
        r"Old returned an invalid number of gradient tensors \(expected 1, but got 2\)",
    ),
    "no tensor": (lambda self, g: 1.0, r"expected Tensor \(got 'float'\)'"),
    "size": (
        lambda self, g: torchlite.DoubleTensor([1.0, 2.0]),
        r"Old returned a gradient of size \(2,\) at position 1",
    ),
    "type": (lambda self, g: torchlite.FloatTensor([1.0]), r"Old returned a gradient of type torchlite.FloatTensor"),
}


@pytest.mark.parametrize("case", OLD_BAD)
def test_old_style_wrong_gradient_is_refused(case):
    backward, message = OLD_BAD[case]
    x = variable([1.0])
    y = old_style(lambda self, x: x * 1, backward)()(x)
    with pytest.raises(RuntimeError, match=message):
        y.backward(ones_like(y))
    assert x.grad is None


def test_old_style_extra_none_is_accepted():
    x = variable([1.0])
    y = old_style(lambda self, x: x * 1, lambda self, g: (g, None, None))()(x)
    y.backward(ones_like(y))
    np.testing.assert_array_equal(array(x.grad), [1.0])


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((), RuntimeError, "_do_backward expects exactly two arguments"),
        (([], True), TypeError, r"got \(list, bool\), but expected \(tuple, bool\)"),
        (((), 1), TypeError, r"got \(tuple, int\), but expected \(tuple, bool\)"),
        (((), True), RuntimeError, r"OldMul got an invalid number of gradients \(expected 1 got 0\)"),
    ],
)
def test_do_backward_checks_its_arguments(args, error, message):
    f = OldMul(2)
    f(variable([1.0]))
    with pytest.raises(error, match=message):
        f._do_backward(*args)


def test_do_backward_without_a_backward_method():
    class Bare(torchlite._C._FunctionBase):
        def forward(self, x):
            return x * 1

    f = Bare()
    f._do_forward(variable([1.0]))
    with pytest.raises(RuntimeError, match="function Bare doesn't implement a required 'backward' method"):
        f._do_backward((None,), True)


def test_do_backward_releases_what_was_saved_unless_told_to_retain():
    f = OldMul(2)
    f(variable([1.0]))
    one = torchlite.DoubleTensor([1.0])
    assert f._do_backward((one,), True)[0].numpy()[0] == 2.0
    assert len(f.saved_tensors) == 1
    f._do_backward((None,), False)
    with pytest.raises(RuntimeError, match="a second time"):
        f.saved_tensors  # noqa: B018
