"""Batch normalisation: layers, their statistics and the function. The gradients are checked with the op table."""

import numpy as np
import pytest

import torchlite
from torchlite import Variable, jit, nn
from torchlite.autograd import gradcheck, gradgradcheck
from torchlite.nn import functional as F

SIZES = [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm1d, (4, 3, 5)), (nn.BatchNorm2d, (3, 3, 2, 4)),
         (nn.BatchNorm3d, (2, 3, 2, 2, 3))]


def batch(*size, dtype="f4"):
    return Variable(np.random.RandomState(0).randn(*size).astype(dtype) * 2 + 1, requires_grad=True)


def statistics(x):
    array = np.moveaxis(x.data.numpy(), 1, 0).reshape(x.size(1), -1).astype("f8")
    return array.mean(1), array.var(1, ddof=1)


@pytest.mark.parametrize("layer, size", SIZES)
def test_training_normalises_each_channel(layer, size):
    m = layer(3, affine=False)
    mean, var = statistics(m(batch(*size)))
    count = np.prod(size) // 3
    np.testing.assert_allclose(mean, 0, atol=1e-6)
    np.testing.assert_allclose(var * (count - 1) / count, 1, rtol=1e-4)


@pytest.mark.parametrize("layer, size", SIZES)
def test_training_mixes_the_statistics_of_the_batch_into_the_buffers(layer, size):
    m = layer(3, momentum=0.25)
    x = batch(*size)
    mean, var = statistics(x)
    m(x)
    np.testing.assert_allclose(m.running_mean.numpy(), 0.25 * mean, rtol=1e-5)
    np.testing.assert_allclose(m.running_var.numpy(), 0.75 + 0.25 * var, rtol=1e-5)


@pytest.mark.parametrize("layer, size", SIZES)
def test_evaluation_uses_the_buffers_and_leaves_them(layer, size):
    m = layer(3).eval()
    m.running_mean.copy_(torchlite.FloatTensor([1, 2, 3]))
    m.running_var.copy_(torchlite.FloatTensor([4, 1, 0.25]))
    x = batch(*size)
    shape = (3, *(1,) * (len(size) - 2))
    scale = (m.weight.data.numpy() / np.sqrt([4, 1, 0.25])).reshape(shape)
    expected = (x.data.numpy() - np.array([1, 2, 3]).reshape(shape)) * scale
    np.testing.assert_allclose(m(x).data.numpy(), expected, rtol=1e-3, atol=1e-4)
    assert m.running_mean.tolist() == [1, 2, 3] and m.running_var.tolist() == [4, 1, 0.25]


@pytest.mark.parametrize("layer, ndim, text", [
    (nn.BatchNorm1d, 4, r"expected 2D or 3D input \(got 4D input\)"),
    (nn.BatchNorm2d, 3, r"expected 4D input \(got 3D input\)"),
    (nn.BatchNorm3d, 4, r"expected 5D input \(got 4D input\)"),
])
def test_an_input_of_other_dimensions_is_refused(layer, ndim, text):
    with pytest.raises(ValueError, match=text):
        layer(2)(batch(2, 2, *(1,) * (ndim - 2)))


def test_the_state_has_parameters_and_buffers():
    m, other = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    assert list(m.state_dict()) == ["weight", "bias", "running_mean", "running_var"]
    assert list(nn.BatchNorm2d(3, affine=False).state_dict()) == ["running_mean", "running_var"]
    m(batch(2, 3, 2, 2))
    other.load_state_dict(m.state_dict())
    assert (other.running_var == m.running_var).all() and (other.weight.data == m.weight.data).all()
    assert repr(m) == "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True)"


def test_reset_parameters_forgets_the_statistics():
    m = nn.BatchNorm1d(3)
    m(batch(4, 3))
    m.reset_parameters()
    assert m.running_mean.tolist() == [0, 0, 0] and m.running_var.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name, sizes", [
    ("running_mean", (2, 3, 3, 3)), ("running_var", (3, 2, 3, 3)), ("weight", (3, 3, 2, 3)), ("bias", (3, 3, 3, 2)),
])
def test_sizes_of_channels_are_checked(name, sizes):
    mean, var = (torchlite.zeros(n) for n in sizes[:2])
    weight, bias = (Variable(torchlite.zeros(n)) for n in sizes[2:])
    with pytest.raises(RuntimeError, match=f"^{name} should contain 3 elements not 2$"):
        F.batch_norm(batch(4, 3), mean, var, weight, bias, True)
    assert mean.tolist() == [0] * sizes[0]


def test_one_value_a_channel_cannot_be_trained_on():
    mean, var = torchlite.zeros(3), torchlite.ones(3)
    with pytest.raises(ValueError, match=r"more than 1 value per channel when training, got input size \(1, 3\)"):
        F.batch_norm(batch(1, 3), mean, var, training=True)
    assert var.tolist() == [1, 1, 1]
    assert F.batch_norm(batch(1, 3), mean, var).size() == (1, 3)


def test_statistics_can_be_left_out_in_training_only():
    y = F.batch_norm(batch(4, 3), None, None, training=True)
    np.testing.assert_allclose(statistics(y)[0], 0, atol=1e-6)
    with pytest.raises(RuntimeError, match="evaluation needs running_mean and running_var"):
        F.batch_norm(batch(4, 3), None, None)
    with pytest.raises(RuntimeError, match="must both be given"):
        F.batch_norm(batch(4, 3), None, torchlite.ones(3), training=True)


def test_statistics_of_other_types_and_strides_are_written_in_place():
    mean, var = np.zeros((3, 2)), np.ones((3, 2))
    x = batch(5, 3)
    F.batch_norm(x, torchlite.from_numpy(mean[:, 0]), torchlite.from_numpy(var[:, 1]), training=True, momentum=1)
    np.testing.assert_allclose(mean[:, 0], statistics(x)[0], rtol=1e-6)
    np.testing.assert_allclose(var[:, 1], statistics(x)[1], rtol=1e-6)
    assert (mean[:, 1] == 0).all() and (var[:, 0] == 1).all()


def test_statistics_that_cannot_be_written_leave_everything_as_it_was():
    mean, var = np.zeros(3), np.ones(3)
    var.setflags(write=False)
    with pytest.raises(RuntimeError, match="shares read-only memory"):
        F.batch_norm(batch(5, 3), torchlite.from_numpy(mean), torchlite.from_numpy(var), training=True)
    assert (mean == 0).all()


def test_a_gradient_in_evaluation_survives_later_training():
    m = nn.BatchNorm1d(3).eval()
    x = batch(4, 3)
    y = m(x)
    expected = m.weight.data.numpy() / np.sqrt(m.running_var.numpy() + 1e-5)
    m.train()(batch(4, 3) * 5)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data.numpy(), np.tile(expected, (4, 1)), rtol=1e-5)


@pytest.mark.parametrize("size", [(4, 2), (2, 2, 3), (2, 2, 2, 2), (2, 2, 1, 2, 2)])
@pytest.mark.parametrize("training", [True, False])
def test_first_and_second_derivatives(size, training):
    mean, var = torchlite.DoubleTensor([0.5, -1]), torchlite.DoubleTensor([0.5, 2])
    inputs = batch(*size, dtype="f8"), batch(2, dtype="f8"), batch(2, dtype="f8")

    def f(x, weight, bias):
        return F.batch_norm(x, mean.clone(), var.clone(), weight, bias, training)

    assert gradcheck(f, inputs) and gradgradcheck(f, inputs)


def test_third_derivatives_know_that_the_statistics_depend_on_the_input():
    x = batch(4, 2, dtype="f8")

    def slope(v):
        y = F.batch_norm(v, None, None, training=True)
        (g,) = torchlite.autograd.grad([(y * y * y).sum()], [v], create_graph=True)
        return g

    assert gradgradcheck(slope, (x,))


def test_half_tensors_are_normalised_with_statistics_of_their_own_type():
    x = Variable(torchlite.from_numpy(np.arange(8, dtype="f2").reshape(4, 2)), requires_grad=True)
    mean, var = torchlite.zeros(2), torchlite.ones(2)
    y = F.batch_norm(x, mean, var, training=True)
    assert y.data.numpy().dtype == "f2"
    y.sum().backward()
    np.testing.assert_allclose(mean.numpy(), [0.3, 0.4], rtol=1e-6)


def test_every_replay_of_a_trace_updates_the_statistics():
    m = nn.BatchNorm1d(3)
    x = batch(4, 3)
    lam = jit.make_lambda(m, [x])
    optimised = jit.optimize(lam)
    (y,) = Variable._execution_engine.run_forward(optimised, (x,))
    np.testing.assert_allclose(m.running_mean.numpy(), 0.1 * statistics(x)[0], rtol=1e-5)
    expected = F.batch_norm(x, None, None, m.weight, m.bias, True)
    np.testing.assert_allclose(y.data.numpy(), expected.data.numpy(), rtol=1e-6)


def test_a_trace_that_drops_the_result_still_updates_the_statistics():
    m = nn.BatchNorm1d(3)

    def f(x):
        m(x)
        return x * 2

    x = batch(4, 3)
    lam = jit.optimize(jit.make_lambda(f, [x]))
    assert [let.name for let in lam.lets] == ["BatchNorm", "Mul"]


def test_the_gradient_of_a_trace_is_the_eager_one():
    x = batch(4, 3)
    weight, bias = batch(3), batch(3)

    def loss(x, weight, bias):
        return (F.batch_norm(x, None, None, weight, bias, True) ** 3).sum()

    gradient = jit.grad(jit.make_lambda(loss, [x, weight, bias]))
    traced = Variable._execution_engine.run_forward(gradient, (x, weight, bias))
    eager = torchlite.autograd.grad([loss(x, weight, bias)], [x, weight, bias])
    for a, b in zip(traced, eager, strict=True):
        np.testing.assert_allclose(a.data.numpy(), b.data.numpy(), rtol=1e-4, atol=1e-4)


def compiled(layer, check):
    return jit.compile(layer, check=check)


def step(layer, _):
    one = jit.compile_step(layer, lambda y, _: y.sum(), torchlite.optim.SGD(layer.parameters(), lr=0.0))
    return lambda x: one(x, x)


@pytest.mark.parametrize("make", [compiled, step], ids=["compile", "compile_step"])
@pytest.mark.parametrize("check", [False, True])
def test_each_call_of_a_compiled_layer_updates_the_statistics_once(make, check):
    layer, eager = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    f = make(layer, check)
    for seed in range(3):
        x = batch(4, 3).detach() * (seed + 1)
        f(x)
        eager(x)
        np.testing.assert_allclose(layer.running_mean.numpy(), eager.running_mean.numpy(), rtol=1e-6)
        np.testing.assert_allclose(layer.running_var.numpy(), eager.running_var.numpy(), rtol=1e-6)


def test_tracing_leaves_the_statistics_alone():
    m = nn.BatchNorm1d(3)
    jit.make_lambda(m, [batch(4, 3)])
    assert m.running_mean.tolist() == [0, 0, 0] and m.running_var.tolist() == [1, 1, 1]
    m(batch(4, 3))
    assert m.running_mean.tolist() != [0, 0, 0]


def test_a_trace_that_fails_does_not_stop_later_updates():
    m = nn.BatchNorm1d(3)
    with pytest.raises(ValueError):
        jit.make_lambda(m, [batch(2, 2, 2, 2)])
    m(batch(4, 3))
    assert m.running_mean.tolist() != [0, 0, 0]


def test_a_compiled_layer_knows_training_from_evaluation():
    m = nn.BatchNorm1d(3)
    f, x = jit.compile(m), batch(4, 3)
    f(x)
    m.eval()
    np.testing.assert_allclose(f(x).data.numpy(), m(x).data.numpy(), rtol=1e-6)
