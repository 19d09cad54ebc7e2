"""Modules, optimisers and traces on devices: the host's numbers, and no transfer that nobody asked for."""

import numpy as np
import pytest
from devices import tensor, values, variable

import torchlite
from torchlite import Variable, cuda, nn, optim

pytestmark = pytest.mark.usefixtures("lib")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 6)).astype(np.float32)
LABELS = RNG.integers(0, 3, 8)
IMAGES = RNG.standard_normal((4, 2, 6, 6)).astype(np.float32)


def dense():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), X


def convolutional():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)), IMAGES


OPTIMISERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda p: optim.Adam(p, lr=0.05, weight_decay=0.01),
}


def train(model, optimiser, x, target, steps=4):
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = criterion(model(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss)
    return losses


@pytest.mark.parametrize("name", OPTIMISERS)
def test_training_gives_the_hosts_losses_and_moves_nothing(name, lib):
    torchlite.manual_seed(1)
    model, _ = dense()
    start = model.state_dict()
    expected = [loss.item() for loss in train(model, OPTIMISERS[name](model.parameters()), Variable(
        torchlite.from_numpy(X)), Variable(torchlite.from_numpy(LABELS)))]
    torchlite.manual_seed(1)
    again, _ = dense()
    assert again.cuda(1) is again and all(p.get_device() == 1 for p in again.parameters())
    optimiser = OPTIMISERS[name](again.parameters())
    x, target = variable(X, 1), variable(LABELS, 1)
    lib.reset()
    losses = train(again, optimiser, x, target)
    assert lib.to_host == lib.to_device == lib.synchronizations == lib.peer_copies == 0
    assert {call.device for call in lib.calls} == {1}
    assert [loss.item() for loss in losses] == pytest.approx(expected, rel=1e-5)
    assert again.state_dict().keys() == start.keys()


def test_convolutions_and_normalisation_train(lib):
    torchlite.manual_seed(1)
    host, _ = convolutional()
    torchlite.manual_seed(1)
    device = convolutional()[0].cuda()
    results = []
    for model, x in ((host, Variable(torchlite.from_numpy(IMAGES))), (device, variable(IMAGES))):
        y = model(x)
        (y * y).sum().backward()
        results.append([values(y), *(values(p.grad) for p in model.parameters()), values(model[1].running_mean)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind, lib):
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    results = []
    for place in (lambda m: m, lambda m: m.cuda()):
        torchlite.manual_seed(2)
        model = place(kind(4, 3, 2, bidirectional=True))
        given = variable(x) if next(model.parameters()).is_cuda else Variable(torchlite.from_numpy(x))
        y, _ = model(given)
        (y * y).sum().backward()
        results.append([values(y), *(values(p.grad) for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_dropout_draws_the_hosts_mask():
    torchlite.manual_seed(4)
    cuda.manual_seed(4)
    drop = nn.Dropout(0.4)
    expected = drop(Variable(torchlite.from_numpy(X))).data.numpy()
    assert values(drop(variable(X))).tolist() == expected.tolist()


def test_gradients_are_clipped_by_their_norm_over_all_places():
    from torchlite.nn.utils import clip_grad_norm

    leaves = [nn.Parameter(make(np.ones(2))) for make in
              (lambda a: torchlite.from_numpy(a), tensor, lambda a: tensor(a, 1))]
    for p in leaves:
        (p * 3).sum().backward()
    assert float(clip_grad_norm(leaves, 1)) == pytest.approx(54**0.5)
    assert [values(p.grad).tolist() for p in leaves] == [pytest.approx([3 / 54**0.5] * 2)] * 3


def test_an_optimiser_refuses_a_gradient_of_another_place():
    p = nn.Parameter(tensor(np.ones(2)))
    state = [tensor(np.zeros(2)) for _ in range(2)]
    with pytest.raises(TypeError, match="_adam_step: all tensors must be in one place"):
        torchlite._C._adam_step(p.data, torchlite.DoubleTensor([1, 1]), *state, 1, 0.1, 0.9, 0.99, 1e-8, 0)


def test_a_module_moves_back_and_its_state_is_loaded_anywhere():
    model = dense()[0].cuda()
    other = dense()[0]
    other.load_state_dict(model.state_dict())
    assert not any(p.is_cuda for p in other.parameters())
    assert values(other[0].weight).tolist() == values(model[0].weight).tolist()
    assert not any(p.is_cuda for p in model.cpu().parameters())


# ---- traces ----------------------------------------------------------------------------------------------------------


def function(x, w):
    return (x.mm(w).tanh() * 2).sum(1)


def test_a_trace_of_a_device_replays_there_and_its_types_name_it(lib):
    from torchlite import jit

    x, w = variable(X, 1), variable(RNG.standard_normal((6, 2)).astype(np.float32), 1, True)
    lam = jit.make_lambda(function, [x, w])
    assert "cuda:1 Float(8, 6)" in str(lam)
    assert str(jit.parse(str(lam))) == str(lam)
    lib.reset()
    (y,) = Variable._execution_engine.run_forward(lam, (x, w))
    y.sum().backward()
    assert lib.to_host == lib.to_device == 0 and {call.device for call in lib.calls} == {1}
    np.testing.assert_allclose(values(y), values(function(x, w)), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="input 0 has type"):
        Variable._execution_engine.run_forward(lam, (x.cuda(0), w))


def test_a_compiled_function_runs_on_the_device_of_its_arguments():
    from torchlite import jit

    compiled = jit.compile(function)
    w = RNG.standard_normal((6, 2)).astype(np.float32)
    for place in (lambda a: Variable(torchlite.from_numpy(a)), variable, lambda a: variable(a, 1)):
        x = place(X)
        for _ in range(2):
            y = compiled(x, place(w))
            assert y.data.is_cuda == x.data.is_cuda
            np.testing.assert_allclose(values(y), np.tanh(X @ w).sum(1) * 2, rtol=1e-4, atol=1e-5)


# ---- graphs ----------------------------------------------------------------------------------------------------------


def test_a_captured_function_is_one_launch(lib):
    from torchlite import jit

    w = variable(RNG.standard_normal((6, 2)).astype(np.float32))
    compiled = jit.compile(function, cuda_graph=True)
    compiled(variable(X), w)
    for scale in (1, 2):
        x = variable(X * scale)
        lib.reset()
        y = compiled(x, w)
        kernels = [call.name for call in lib.calls if "opy" not in call.name and call.name != "__setitem__"]
        assert kernels.count("Graph.launch") == 1 and "matmul" not in kernels and lib.to_device == lib.to_host == 0
        np.testing.assert_allclose(values(y), values(function(x, w)), rtol=1e-5, atol=1e-6)
    first = compiled(variable(X), w)
    second = compiled(variable(X * 3), w)
    assert values(first).tolist() != values(second).tolist()  # results are the caller's


def test_a_graph_is_captured_again_where_a_parameter_has_moved():
    from torchlite import jit

    layer = nn.Linear(6, 2).cuda()
    for p in layer.parameters():
        p.requires_grad = False
    compiled = jit.compile(layer, cuda_graph=True)
    x = variable(X)
    compiled(x)
    layer.weight.data.fill_(1)
    np.testing.assert_allclose(values(compiled(x)), values(layer(x)), rtol=1e-5)
    layer.weight.data = tensor(np.full((2, 6), 2, np.float32))
    np.testing.assert_allclose(values(compiled(x)), values(layer(x)), rtol=1e-5)


def test_what_needs_the_host_is_refused_with_the_operation():
    from torchlite import jit

    for f, name in ((lambda x: nn.functional.dropout(x, 0.5, True), "Dropout draws random numbers"),
                    (lambda x: x.masked_select(x > 0), "the size of what MaskedSelect gives is in the data"),
                    (lambda x: x.renorm(2, 0, 1.0), "Renorm may look at what it computes")):
        with pytest.raises(RuntimeError, match="a CUDA graph cannot hold this function: " + name):
            jit.compile(f, cuda_graph=True)(variable(X))


def test_on_the_host_and_with_gradients_the_trace_is_replayed():
    from torchlite import jit

    compiled = jit.compile(function, cuda_graph=True)
    w = RNG.standard_normal((6, 2)).astype(np.float32)
    compiled(Variable(torchlite.from_numpy(X)), Variable(torchlite.from_numpy(w)))
    v = variable(w, 0, True)
    compiled(variable(X), v).sum().backward()
    assert v.grad is not None
