"""ConvNd and BatchNorm of `torchlite._C._functions`: operations with their constants, called on Variables."""

import gc
import weakref

import numpy as np
import pytest
from python_functions import array

import torchlite
from torchlite import DoubleTensor, Variable
from torchlite._C import _functions as functions
from torchlite.autograd import grad, gradcheck, gradgradcheck, no_grad
from torchlite.nn import functional as F

CONV = {"stride": (1, 2), "padding": (0, 1), "dilation": (1, 1), "transposed": False, "output_padding": (0, 0),
        "groups": 1, "benchmark": False, "cudnn_enabled": True}


def conv(**changed):
    return functions.ConvNd(*{**CONV, **changed}.values())


def real(*size, seed=0, **flags):
    return Variable(np.random.RandomState(seed).randn(*size), **(flags or {"requires_grad": True}))


def running():
    return DoubleTensor([0.5, -1.0, 0.25]), DoubleTensor([0.5, 2.0, 1.5])


def batch_norm(training=True):
    return functions.BatchNorm(*running(), training, 0.1, 1e-5, True)


# ---- construction ---------------------------------------------------------------------------------------------------


def test_a_convolution_shows_its_constants():
    f = conv()
    assert {name: getattr(f, name) for name in CONV} == CONV
    assert type(f).__name__ == "ConvNd" and f.next_functions == ()
    with pytest.raises(AttributeError):
        f.stride = (1, 1)


def test_a_batch_normalisation_shows_its_constants():
    mean, var = running()
    f = functions.BatchNorm(mean, var, False, 1, 1e-3, False)
    assert f.running_mean is mean and f.running_var is var
    assert (f.training, f.momentum, f.eps, f.cudnn_enabled) == (False, 1.0, 1e-3, False)


def test_a_size_is_a_tuple_of_ints():
    assert type(conv(stride=torchlite.Size((2, 3))).stride) is tuple


BATCH_NORM = (None, None, True, 0.1, 1e-5, True)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: functions.ConvNd(), RuntimeError, r"^missing required arguments \(expected 8 got 0\)$"),
        (lambda: functions.ConvNd(*range(9)), RuntimeError, r"^too many arguments \(expected 8 got 9\)$"),
        (lambda: conv(stride=[1, 1]), RuntimeError, r"^argument 0 \(stride\) must be tuple of int, not list$"),
        (lambda: conv(padding=(1, 0.5)), RuntimeError, r"^argument 1 \(padding\) must be tuple of int, not tuple$"),
        (lambda: conv(transposed=1), RuntimeError, r"^argument 3 \(transposed\) must be bool, not int$"),
        (lambda: conv(groups=1.0), RuntimeError, r"^argument 5 \(groups\) must be int, not float$"),
        (lambda: conv(groups=True), RuntimeError, r"^argument 5 \(groups\) must be int, not bool$"),
        (lambda: functions.ConvNd(stride=(1,)), TypeError, "keyword arguments are not supported"),
        (lambda: functions.BatchNorm(1, *BATCH_NORM[1:]), RuntimeError, r"^argument 0 \(running_mean\) must be tensor"),
        (lambda: functions.BatchNorm(*BATCH_NORM[:3], "a", 1e-5, True), RuntimeError,
         r"^argument 3 \(momentum\) must be float, not str$"),
        (lambda: functions.BatchNorm(*BATCH_NORM[:5]), RuntimeError, r"\(expected 6 got 5\)"),
    ],
)
def test_constructors_check_their_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


# ---- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: conv()(real(1, 1, 3, 3)), RuntimeError, r"^ConvNd: expected 3 arguments \(got 1\)$"),
        (lambda: conv()(real(1, 1, 3, 3), None, None), RuntimeError,
         r"^ConvNd: expected Variable at argument 1 \(got None\)$"),
        (lambda: conv()(None, None, None), RuntimeError, r"^ConvNd: expected Variable at argument 0 \(got None\)$"),
        (lambda: conv()(DoubleTensor(1), None, None), TypeError, "^argument 0 is not a Variable$"),
        (lambda: conv()(input=None), TypeError, "^keyword arguments are not supported$"),
        (lambda: conv()(real(1, 1, 3), real(1, 1, 2), None), RuntimeError, "^expected 4D tensor"),
        (lambda: conv(padding=(0, -1))(real(1, 1, 3, 3), real(1, 1, 2, 2), None), RuntimeError,
         "^negative padding is not supported$"),
        (lambda: conv(output_padding=(0, -1))(real(1, 1, 3, 3), real(1, 1, 2, 2), None), RuntimeError,
         "^negative output_padding is not supported$"),
        (lambda: conv()(real(1, 1, 3, 3), real(1, 1, 2, 2).float(), None), RuntimeError,
         r"Input type \(Double\) and weight type \(Float\) should be the same"),
        (lambda: batch_norm()(real(4, 3), None), RuntimeError, r"^BatchNorm: expected 3 arguments \(got 2\)$"),
        (lambda: batch_norm()(None, None, None), RuntimeError,
         r"^BatchNorm: expected Variable at argument 0 \(got None\)$"),
        (lambda: batch_norm()(real(4, 2), None, None), RuntimeError, "^running_mean should contain 2 elements not 3$"),
        (lambda: batch_norm()(real(4, 3), real(2), None), RuntimeError, "^weight should contain 3 elements not 2$"),
    ],
)
def test_calls_check_their_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_convolution_is_the_function_with_its_constants(n, transposed):
    f = functions.ConvNd((2,) * n, (1,) * n, (1,) * n, transposed, (1,) * n, 2, False, False)
    x, w, b = real(2, 4, *(5,) * n), real(4, 2, *(3,) * n, seed=1), real(4, seed=2)
    name = f"conv_transpose{n}d" if transposed else f"conv{n}d"
    options = {"output_padding": 1} if transposed else {}
    expected = getattr(F, name)(x, w, b, stride=2, padding=1, groups=2, **options)
    np.testing.assert_array_equal(array(f(x, w, b)), array(expected))


@pytest.mark.parametrize("transposed", [False, True])
def test_derivatives_of_convolutions(transposed):
    f = functions.ConvNd((2,), (1,), (1,), transposed, (0,), 1, False, False)
    inputs = real(1, 2, 5), real(2, 2, 3, seed=1), real(2, seed=2)
    assert gradcheck(f, inputs) and gradgradcheck(f, inputs)
    assert gradcheck(lambda x, w: f(x, w, None), inputs[:2])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("size", [(4, 3), (2, 3, 2), (2, 3, 1, 2), (2, 3, 1, 2, 1)])
def test_derivatives_of_batch_normalisation(size, training):
    f = batch_norm(training)
    f = functions.BatchNorm(f.running_mean, f.running_var, training, 0.0, 1e-5, True)
    inputs = real(*size), real(3, seed=1), real(3, seed=2)
    assert gradcheck(f, inputs) and gradgradcheck(f, inputs)
    assert gradgradcheck(lambda x: f(x, None, None), inputs[:1])


def test_training_updates_the_running_tensors():
    f = batch_norm()
    x = real(6, 3)
    mean, var = f.running_mean.clone(), f.running_var.clone()
    f(x, None, None)
    np.testing.assert_allclose(f.running_mean.numpy(), 0.9 * mean.numpy() + 0.1 * array(x).mean(0))
    np.testing.assert_allclose(f.running_var.numpy(), 0.9 * var.numpy() + 0.1 * array(x).var(0, ddof=1))


def test_a_function_can_be_called_again():
    f = conv()
    x, w = real(1, 1, 3, 3), real(1, 1, 2, 2)
    assert f(x, w, None).grad_fn is not f(x, w, None).grad_fn
    with no_grad():
        assert f(x, w, None).grad_fn is None


def test_results_follow_the_flags_of_the_inputs():
    w = real(1, 1, 2, 2)
    y = conv()(real(1, 1, 3, 3, volatile=True), w, None)
    assert y.volatile and y.grad_fn is None
    plain = conv()(real(1, 1, 3, 3, requires_grad=False), real(1, 1, 2, 2, requires_grad=False), None)
    assert not plain.requires_grad and type(plain.grad_fn).__name__ == "ConvNdBackward"


# ---- backward types -------------------------------------------------------------------------------------------------


def test_backward_types_show_the_constants_of_a_convolution():
    x, w = real(1, 2, 5, 5), real(3, 2, 2, 2)
    y = conv()(x, w, real(3))
    assert type(y.grad_fn) is functions.ConvNdBackward
    assert {name: getattr(y.grad_fn, name) for name in CONV} == {**CONV, "cudnn_enabled": False}
    (g,) = grad([y.sum()], [x], create_graph=True)
    assert type(g.grad_fn) is functions.ConvNdBackwardBackward
    assert (g.grad_fn.stride, g.grad_fn.transposed, g.grad_fn.groups) == ((1, 2), False, 1)


def test_backward_types_show_the_constants_of_a_batch_normalisation():
    f = batch_norm()
    x = real(4, 3)
    y = f(x, None, None)
    assert type(y.grad_fn) is functions.BatchNormBackward
    assert y.grad_fn.running_mean is f.running_mean and y.grad_fn.running_var is f.running_var
    assert (y.grad_fn.training, y.grad_fn.momentum, y.grad_fn.eps) == (True, 0.1, 1e-5)
    assert y.grad_fn.cudnn_enabled is False
    (g,) = grad([(y * y).sum()], [x], create_graph=True)
    assert type(g.grad_fn) is functions.BatchNormBackwardBackward
    assert (g.grad_fn.training, g.grad_fn.eps) == (True, 1e-5)


def test_a_node_that_needs_no_gradient_keeps_no_constants():
    y = conv()(real(1, 1, 3, 3, requires_grad=False), real(1, 1, 2, 2, requires_grad=False), None)
    with pytest.raises(AttributeError, match="ConvNdBackward: 'stride' is kept only where a gradient needs it"):
        _ = y.grad_fn.stride


# ---- lifetime -------------------------------------------------------------------------------------------------------


class Tagged(DoubleTensor):
    """A tensor with attributes."""


def test_a_cycle_through_a_running_tensor_is_collected():
    mean = Tagged(3)
    f = functions.BatchNorm(mean.zero_(), DoubleTensor([1, 1, 1]), True, 0.1, 1e-5, False)
    mean.function = f
    alive = weakref.ref(f)
    del mean, f
    gc.collect()
    assert alive() is None
