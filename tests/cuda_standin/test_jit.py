"""Traces on devices: replays, gradients, training steps and derivatives equal the host's and move nothing."""

import numpy as np
import pytest
from devices import leaf, tensor, values, variable

import torchlite
from torchlite import _C, Variable, autograd, cuda, jit, nn, optim
from torchlite.nn import functional as F

pytestmark = pytest.mark.usefixtures("lib")
X = np.random.RandomState(0).randn(5, 4)
CLASSES = np.array([0, 1, 2, 0, 1])


def on_host(a):
    return Variable(torchlite.from_numpy(np.array(a)))


def pair(make):
    """Equal modules: on device 0 and on the host."""
    models = []
    for _ in range(2):
        torchlite.manual_seed(0)
        models.append(make().double())
    return models[0].cuda(0), models[1]


def squares(model):
    def loss(x):
        y = model(x)
        return ((y[0] if isinstance(y, tuple) else y) ** 2).sum()

    return loss


NETWORKS = {
    "linear": (lambda: nn.Linear(4, 3), X),
    "perceptron": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.Sigmoid()), X),
    "batch norm": (lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU()), X),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2)), np.arange(40.0).reshape(1, 1, 8, 5)),
    "embedding": (lambda: nn.Embedding(5, 3), np.array([[1, 2], [3, 1]])),
    "lstm": (lambda: nn.LSTM(4, 3), X.reshape(5, 1, 4)),
    "gru": (lambda: nn.GRU(4, 3), X.reshape(5, 1, 4)),
}


def test_types_in_a_trace_carry_the_device():
    lam = jit.make_lambda(lambda x: (x * 2).sum(), [variable([1.0, 2.0], 1)])
    assert lam.params[0].type.device == 1 and all(r.type.device == 1 for let in lam.lets for r in let.results)
    assert "cuda:1 Double(2,)" in str(lam) and str(jit.parse(str(lam))) == str(lam)
    jit.check(lam)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_replay_has_the_hosts_results_and_gradients_and_moves_nothing(name, lib):
    make, data = NETWORKS[name]
    (model, reference), x = pair(make), variable(data)
    fast, slow = jit.compile(squares(model)), squares(reference)
    for _ in range(2):  # the first call traces
        model.zero_grad()
        reference.zero_grad()
        lib.reset()
        loss = fast(x)
        loss.backward()
        expected = slow(on_host(data))
        expected.backward()
    assert lib.to_host == lib.to_device == lib.synchronizations == 0
    np.testing.assert_allclose(values(loss), values(expected), rtol=1e-10)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(values(p.grad), values(q.grad), rtol=1e-9, atol=1e-12)
    for p, q in zip(model.state_dict().values(), reference.state_dict().values(), strict=True):
        np.testing.assert_allclose(values(p), values(q), rtol=1e-10)


def test_tracing_leaves_running_statistics_and_generators_alone():
    torchlite.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)).double().cuda()
    cuda.manual_seed_all(3)
    fast = jit.compile(model)
    fast.lambda_for(variable(X))
    assert values(model[0].running_mean).tolist() == [0, 0, 0, 0]
    first = values(fast(variable(X)))
    torchlite.manual_seed(0)
    eager = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)).double().cuda()
    cuda.manual_seed_all(3)
    assert first.tolist() == values(eager(variable(X))).tolist()


def test_check_compares_replays_that_draw():
    fast = jit.compile(lambda x: F.dropout(x, 0.5, True), check=True)
    fast(variable(X))
    assert values(fast(variable(X))).tolist() != values(fast(variable(X))).tolist()


def test_each_device_has_a_trace_of_its_own():
    double = jit.compile(lambda x: x * 2)
    for device in (0, 1, 0):
        assert double(variable([1.0], device)).get_device() == device
    assert values(double(on_host([2.0]))).tolist() == [4]
    assert len(double._cache) == 3


def test_mixed_devices_are_refused_with_both_places():
    add = jit.compile(lambda x, y: x + y)
    with pytest.raises(RuntimeError, match="Tensor on device 0 and a torchlite.cuda.DoubleTensor on device 1"):
        add(variable([1.0]), variable([2.0], 1))
    with pytest.raises(TypeError, match="in one place"):
        add(variable([1.0]), on_host([2.0]))
    assert values(add(variable([1.0]), variable([2.0]))).tolist() == [3]


def test_a_program_refuses_inputs_from_another_device():
    program = _C.Program(jit.make_lambda(lambda x: x * 2, [variable([1.0])]))
    with pytest.raises(RuntimeError, match="cuda:0"):
        program.run(variable([1.0], 1))
    with pytest.raises(RuntimeError, match="cuda:0"):
        program.run(on_host([1.0]))


def test_a_trace_may_lead_from_one_place_to_another():
    def f(x, y):
        return (x.cuda(1) * y).cpu()

    fast, x, y = jit.compile(f), leaf([1.0, 2.0], 0), leaf([3.0, 4.0], 1)
    for _ in range(2):
        x.grad = y.grad = None
        out = fast(x, y)
        out.sum().backward()
    assert not out.is_cuda and values(out).tolist() == [3, 8]
    assert x.grad.get_device() == 0 and values(x.grad).tolist() == [3, 4] and values(y.grad).tolist() == [1, 2]


def test_a_replay_on_another_stream_is_ordered_and_its_memory_its_own():
    f = jit.compile(lambda x, w: ((x * w).exp() * x + w).sum())
    x, w, side = leaf([1.0, 2.0]), leaf([0.5, 0.25]), cuda.Stream()
    expected = values(f(x, w))
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        out = f(x, w)
    cuda.current_stream().wait_stream(side)
    out.backward()
    assert values(out).tolist() == expected.tolist() and x.grad is not None


def test_memory_of_replays_returns_to_the_pool():
    f = jit.compile(lambda x: (x.exp() * x + x.tanh()).sum())
    x = variable(np.ones(1000))
    f(x)
    before = cuda.memory_allocated()
    f(x)
    assert cuda.memory_allocated() == before


def test_intermediate_results_are_freed_at_their_last_use(lib):
    def chain(x):
        for _ in range(20):
            x = x.exp() * 0.1
        return x

    f = jit.compile(chain, optimize=False)
    x = variable(np.ones(1000))
    f(x)
    peak = []
    note = lib.note

    def watch(name, stream):
        peak.append(cuda.memory_allocated())
        note(name, stream)

    lib.note = watch
    try:
        f(x)
    finally:
        del lib.note
    assert max(peak) - min(peak) <= 4 * 8192


def test_lambdas_on_devices_have_derivatives(lib):
    def f(x, w):
        return ((x.mm(w)).tanh() ** 2).sum()

    x, w = leaf(X), leaf(X.T.copy())
    lam = jit.make_lambda(f, [x, w])
    lib.reset()
    derivative = jit.grad(lam)
    assert derivative.params[0].type.device == 0
    found = _C.Program(derivative).run_plain(x, w)
    expected = autograd.grad(f(x, w), [x, w])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(values(a), values(b))
    second = jit.vjp(derivative)
    assert all(p.type.device == 0 for p in second.params)


def test_double_backward_through_a_replay():
    f = jit.compile(lambda x: ((x * x).exp() * x.tanh()).sum())
    f(leaf([0.5, -0.5]))
    x = leaf([0.5, -0.5])
    g, = autograd.grad(f(x), x, create_graph=True)
    ours, = autograd.grad(g.sum(), x)
    y = Variable(torchlite.DoubleTensor([0.5, -0.5]), requires_grad=True)
    g, = autograd.grad(((y * y).exp() * y.tanh()).sum(), y, create_graph=True)
    theirs, = autograd.grad(g.sum(), y)
    np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-10)


def test_an_unused_result_of_a_replay_has_zeros_for_a_gradient_there(lib):
    f = jit.compile(lambda x: ((x * x).exp() * 2, (x + 1).tanh() * x))
    f(leaf([1.0, 2.0]))
    x = leaf([1.0, 2.0])
    a, _ = f(x)
    lib.reset()
    a.sum().backward()
    assert lib.to_host == lib.to_device == 0
    np.testing.assert_allclose(values(x.grad), [4 * np.e, 8 * np.e**4])


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, 0.1, momentum=0.9), lambda p: optim.Adam(p, 0.01)])
@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_steps_train_as_the_host_does_and_move_nothing(name, make, lib):
    network, data = NETWORKS[name]
    model, reference = pair(network)
    step = jit.compile_step(squares(model), None, make(model.parameters()))
    optimiser = make(reference.parameters())
    x = variable(data)
    step(x)
    lib.reset()
    step(x)
    assert lib.to_host == lib.to_device == lib.synchronizations == 0
    for _ in range(2):
        optimiser.zero_grad()
        squares(reference)(on_host(data)).backward()
        optimiser.step()
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(values(p), values(q), rtol=1e-7, atol=1e-9)


def test_a_step_with_a_loss_and_a_target():
    model, reference = pair(lambda: nn.Linear(4, 3))
    step = jit.compile_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), 0.1))
    other = jit.compile_step(reference, nn.CrossEntropyLoss(), optim.SGD(reference.parameters(), 0.1))
    for _ in range(3):
        loss, expected = step(variable(X), variable(CLASSES)), other(on_host(X), on_host(CLASSES))
    assert values(loss)[0] == pytest.approx(values(expected)[0], rel=1e-10)


def test_a_whole_step_is_a_lambda_on_the_device():
    model, _ = pair(lambda: nn.Linear(4, 3))
    step = jit.compile_step(squares(model), None, optim.Adam(model.parameters()))
    lam = step.lambda_for(variable(X))
    assert all(p.type.device == 0 for p in lam.params) and all(r.type.device == 0 for r in lam.ret.args)
    jit.check(lam)


def test_a_lambda_with_captures_on_a_device_is_saved_and_loaded(tmp_path):
    w = variable([2.0, 3.0], 1)
    lam = jit.make_lambda(lambda x: x * w, [variable([1.0, 1.0], 1)])
    jit.save(lam, tmp_path / "f")
    again = jit.load(tmp_path / "f")
    assert str(again) == str(lam)
    assert values(_C.Program(again).run_plain(variable([4.0, 5.0], 1))[0]).tolist() == [8, 15]
    assert tensor([1.0]).is_cuda
