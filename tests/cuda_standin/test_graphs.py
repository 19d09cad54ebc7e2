"""Replays and training steps launched as CUDA graphs, and what the stand-in's capture makes sure of."""

import gc
import threading

import numpy as np
import pytest
from devices import leaf, tensor, values, variable
from test_jit import NETWORKS, X, on_host, pair, squares

import torchlite
from torchlite import Variable, autograd, cuda, jit, nn, optim
from torchlite.autograd import Function
from torchlite.nn import functional as F

pytestmark = pytest.mark.usefixtures("lib")


def launches(lib):
    return sum(call.name == "Graph.launch" for call in lib.calls)


def product(x, w):
    return ((x * w).exp() * x).sum()


# ---- the stand-in's capture ------------------------------------------------------------------------------------------


@pytest.fixture
def capturing(lib):
    """A stream that is being captured, and CuPy's stand-in."""
    import cupy

    given = cupy.asarray([1.0, 2.0])
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    with stream:
        stream.begin_capture()
        yield cupy, stream, given
        if stream.is_capturing():
            stream.end_capture()


def test_what_is_captured_runs_at_the_launch_only(capturing):
    cupy, stream, a = capturing
    b = a * 2
    a += 1
    c = b + a
    graph = stream.end_capture()
    assert a.get().tolist() == [1, 2] and not np.isfinite(c.get()).any()
    graph.launch(stream)
    assert a.get().tolist() == [2, 3] and c.get().tolist() == [4, 7]
    graph.launch(stream)
    assert c.get().tolist() == [7, 10]


@pytest.mark.parametrize(
    "act",
    [
        lambda cupy, stream, a: a.get(),
        lambda cupy, stream, a: a.item(),
        lambda cupy, stream, a: float(a[0]),
        lambda cupy, stream, a: a.set(np.zeros(2)),
        lambda cupy, stream, a: cupy.asarray([1.0]),
        lambda cupy, stream, a: cupy.nonzero(a),
        lambda cupy, stream, a: stream.synchronize(),
        lambda cupy, stream, a: cupy.cuda.Device(0).synchronize(),
        lambda cupy, stream, a: stream.wait_event(cupy.cuda.Stream.null.record()),
        lambda cupy, stream, a: cupy.cuda.Stream.null.use() and a + 1,
    ],
)
def test_what_cannot_be_captured_is_refused(act, capturing):
    with pytest.raises(RuntimeError, match="cudaErrorStreamCapture"):
        act(*capturing)
    capturing[1].use()


def test_a_launch_on_memory_that_has_been_freed_is_refused(capturing):
    cupy, stream, a = capturing
    b = a * 2
    graph = stream.end_capture()
    graph.launch(stream)
    del b
    with pytest.raises(RuntimeError, match="memory that has been freed"):
        graph.launch(stream)


def test_the_default_stream_cannot_be_captured(lib):
    import cupy

    with pytest.raises(RuntimeError, match="default stream"):
        cupy.cuda.Stream.null.begin_capture()


# ---- replays ---------------------------------------------------------------------------------------------------------


def test_a_call_without_gradients_is_one_launch(lib):
    f = jit.compile(product, cuda_graph=True)
    w = variable([0.5, 0.25])
    f(variable([1.0, 2.0]), w)
    results = []
    for x in ([1.0, 2.0], [3.0, -1.0]):
        x = variable(x)
        lib.reset()
        results.append(f(x, w))
        assert launches(lib) == 1 and lib.to_host == lib.to_device == lib.synchronizations == 0
        assert not {"multiply", "exp", "sum"} & {call.name for call in lib.calls}
    expected = [values(product(variable(x), w)) for x in ([1.0, 2.0], [3.0, -1.0])]
    for result, e in zip(results, expected, strict=True):  # the first is as it was
        np.testing.assert_allclose(values(result), e)


@pytest.mark.parametrize("name", NETWORKS)
def test_forward_and_backward_are_a_launch_each(name, lib):
    make, data = NETWORKS[name]
    (model, reference), x = pair(make), variable(data)
    fast, slow = jit.compile(squares(model), cuda_graph=True), squares(reference)
    for call in range(3):
        model.zero_grad()
        reference.zero_grad()
        lib.reset()
        loss = fast(x)
        loss.backward()
        if call:
            assert launches(lib) == 2 and lib.to_host == lib.to_device == lib.synchronizations == 0
        expected = slow(on_host(data))
        expected.backward()
        np.testing.assert_allclose(values(loss), values(expected), rtol=1e-10)
        for p, q in zip(model.parameters(), reference.parameters(), strict=True):
            np.testing.assert_allclose(values(p.grad), values(q.grad), rtol=1e-9, atol=1e-12)
    for p, q in zip(model.state_dict().values(), reference.state_dict().values(), strict=True):
        np.testing.assert_allclose(values(p), values(q), rtol=1e-10)


def test_a_backward_after_another_forward_has_its_own_values():
    f = jit.compile(product, cuda_graph=True)
    leaves = [(leaf([1.0, 2.0]), leaf([0.5, 0.25])), (leaf([3.0, -1.0]), leaf([0.1, 0.2]))]
    outs = [f(*pair) for pair in leaves]
    (outs[0] * 2 + outs[1]).backward()
    for (x, w), scale in zip(leaves, (2, 1), strict=True):
        a, b = leaf(values(x)), leaf(values(w))
        (product(a, b) * scale).backward()
        np.testing.assert_allclose(values(x.grad), values(a.grad))
        np.testing.assert_allclose(values(w.grad), values(b.grad))


def test_gradients_are_the_callers():
    f = jit.compile(product, cuda_graph=True)
    w = leaf([0.5, 0.25])
    first, = autograd.grad(f(leaf([1.0, 2.0]), w), w)
    before = values(first).tolist()
    second, = autograd.grad(f(leaf([3.0, -1.0]), w), w)
    assert values(first).tolist() == before != values(second).tolist()


def test_such_a_backward_changes_no_running_statistics():
    model = nn.BatchNorm1d(4).double().cuda()
    f = jit.compile(squares(model), cuda_graph=True)
    first = f(variable(X))
    f(variable(X))
    before = values(model.running_mean).tolist()
    first.backward()
    assert values(model.running_mean).tolist() == before and model.weight.grad is not None


def test_a_second_backward_through_the_same_call_is_refused_or_right():
    f = jit.compile(product, cuda_graph=True)
    x, w = leaf([1.0, 2.0]), leaf([0.5, 0.25])
    out = f(x, w)
    out.backward(retain_graph=True)
    first = values(x.grad).copy()
    out.backward()
    np.testing.assert_allclose(values(x.grad), 2 * first)


def test_results_may_be_several_unused_and_without_gradients():
    def f(x):
        largest, places = x.max(1)
        return largest * 2, places, (x.exp() * x).sum()

    fast = jit.compile(f, cuda_graph=True)
    for _ in range(2):
        x, y = leaf(X), leaf(X)
        largest, places, _ = fast(x)
        assert not places.requires_grad and values(places).tolist() == values(f(y)[1]).tolist()
        (largest**2).sum().backward()
        (f(y)[0] ** 2).sum().backward()
        np.testing.assert_allclose(values(x.grad), values(y.grad))


def test_an_input_that_nothing_depends_on_has_no_gradient():
    fast = jit.compile(lambda x, y: (x * x).exp().sum() + (y.detach() * 2).sum(), cuda_graph=True)
    x, y = leaf([1.0]), leaf([2.0])
    fast(x, y).backward()
    assert y.grad is None or values(y.grad).tolist() == [0]
    np.testing.assert_allclose(values(x.grad), [2 * np.e])


def test_double_backward():
    f = jit.compile(product, cuda_graph=True)
    x, w, y, v = leaf([0.5, 1.0]), leaf([0.5, 0.25]), leaf([0.5, 1.0]), leaf([0.5, 0.25])
    seconds = []
    for call, a, b in ((f, x, w), (product, y, v)):
        g, = autograd.grad(call(a, b), a, create_graph=True)
        seconds.append([values(s) for s in autograd.grad((g * g).sum(), [a, b])])
    np.testing.assert_allclose(seconds[0], seconds[1], rtol=1e-10)


def test_flags_and_modes_have_captures_of_their_own():
    f = jit.compile(product, cuda_graph=True)
    w = leaf([0.5, 0.25])
    volatile = f(Variable(tensor([1.0, 2.0]), volatile=True), w)
    assert volatile.volatile
    with autograd.no_grad():
        assert not f(leaf([1.0, 2.0]), w).requires_grad
    assert f(leaf([1.0, 2.0]), w).requires_grad
    assert len(f._cache) == 3


def test_each_size_has_a_capture_of_its_own(lib):
    f = jit.compile(product, cuda_graph=True)
    for n in (2, 3, 2, 3):
        x = variable(np.ones(n))
        lib.reset()
        np.testing.assert_allclose(values(f(x, x)), [n * np.e])
    assert launches(lib) == 1 and len(f._cache) == 2


def test_parameters_are_read_where_they_lie_and_captured_again_where_they_moved(lib):
    model = nn.Linear(4, 3).double().cuda()
    f = jit.compile(model, cuda_graph=True)
    x = variable(X)
    f(x)
    entry, = f._cache.values()
    first = entry.capture
    model.weight.data.fill_(1)
    np.testing.assert_allclose(values(f(x)), values(model(x)))
    assert entry.capture is first
    model.weight.data = tensor(np.full((3, 4), 2.0))
    np.testing.assert_allclose(values(f(x)), values(model(x)))
    assert entry.capture is not first


def test_what_was_written_in_place_is_named():
    f = jit.compile(lambda x, m: (m(x).exp() * 2).sum(), cuda_graph=True)
    model = nn.Linear(4, 3).double().cuda()
    out = f(variable(X), model)
    with autograd.no_grad():
        model.bias.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation: a jit function got it at version 0"):
        out.backward()


def test_launches_on_several_streams_come_one_after_the_other():
    f = jit.compile(product, cuda_graph=True)
    x, w, side = variable([1.0, 2.0]), variable([0.5, 0.25]), cuda.Stream()
    expected = values(f(x, w)).tolist()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        there = f(x, w)
    here = f(x, w)
    cuda.current_stream().wait_stream(side)
    assert values(there).tolist() == values(here).tolist() == expected


def test_threads_may_share_a_captured_function():
    f = jit.compile(product, cuda_graph=True)
    w = variable([0.5, 0.25])
    f(variable([1.0, 2.0]), w)
    inputs = [variable([1.0, float(n)]) for n in range(4)]
    results, errors = [None] * 4, []

    def work(n):
        try:
            results[n] = f(inputs[n], w)
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    for n in range(4):
        np.testing.assert_allclose(values(results[n]), values(product(inputs[n], w)))


def test_memory_of_graphs_is_their_own_and_goes_with_them():
    gc.collect()
    before = cuda.memory_allocated()
    x = variable(np.ones(1000))
    f = jit.compile(lambda x: (x.exp() * x.tanh() + x).exp(), cuda_graph=True)
    f(x)
    # The argument's fixed copy; what lies between belongs to the graph's own pool.
    assert cuda.memory_allocated() - before == 2 * 8000
    del f, x
    gc.collect()
    assert cuda.memory_allocated() == before


def test_a_captured_function_is_checked_against_the_function(lib):
    f = jit.trace(product, variable([1.0, 2.0]), variable([0.5, 0.25]), check=True, cuda_graph=True)
    f(leaf([1.0, 2.0]), leaf([0.5, 0.25])).backward()
    wrong = jit.compile(lambda x: x * np.random.uniform(), check=True, cuda_graph=True)
    with pytest.raises(RuntimeError, match="jit check: result differs"):
        wrong(variable([1.0]))


def test_a_device_that_is_not_current_is_used():
    f = jit.compile(product, cuda_graph=True)
    for _ in range(2):
        x, w = leaf([1.0, 2.0], 1), leaf([0.5, 0.25], 1)
        out = f(x, w)
        out.backward()
    assert out.get_device() == x.grad.get_device() == 1 and cuda.current_device() == 0


# ---- what cannot be captured -----------------------------------------------------------------------------------------


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("make", [variable, leaf])
@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x: F.dropout(x, 0.5, True), "Dropout draws random numbers"),
        (lambda x: Twice.apply(x) + 1, "Twice is a Python Function"),
        (lambda x: x.masked_select(x > 0), "the size of what MaskedSelect gives is in the data"),
        (lambda x: x.cuda(1) * 2, "ToDevice leads to another place"),
        (lambda x: x.cpu() * 2, "ToDevice leads to another place"),
    ],
)
def test_a_function_that_needs_the_host_is_refused_with_the_operation(f, reason, make):
    compiled = jit.compile(f, cuda_graph=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="jit.compile: a CUDA graph cannot hold this function: " + reason):
            compiled(make(X))
    assert cuda.current_device() == 0 and cuda.current_stream().cuda_stream == 0


def test_dropout_that_is_off_is_captured():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).double().cuda().eval()
    f = jit.compile(model, cuda_graph=True)
    for _ in range(2):
        np.testing.assert_allclose(values(f(variable(X))), values(model(variable(X))))


def test_an_operation_that_waits_unexpectedly_is_refused_and_nothing_stays_captured(monkeypatch, lib):
    from torchlite.cuda import _memory

    f = jit.compile(product, cuda_graph=True)
    multiply = np.multiply

    def waiting(*args, **kwargs):
        lib.refuse_in_capture("looking at an element")
        return multiply(*args, **kwargs)

    import cupy

    ufunc = cupy.multiply
    monkeypatch.setattr(ufunc, "ufunc", waiting)
    x = variable([1.0])
    with pytest.raises(RuntimeError, match="cannot hold this function: cudaErrorStreamCaptureUnsupported"):
        f(x, variable([2.0]))
    monkeypatch.undo()
    x.data.fill_(3)  # behind what was tried on the other stream
    assert lib.captured() is None and not _memory.capture.active
    np.testing.assert_allclose(values(f(variable([1.0]), variable([2.0]))), [np.e**2])


def test_on_the_host_and_in_several_places_the_trace_is_replayed(lib):
    f = jit.compile(lambda x, w: (x.cuda(0) * w.cuda(0)).sum(), cuda_graph=True)
    assert values(f(variable([1.0, 2.0], 1), leaf([3.0, 4.0], 0))).tolist() == [11]
    f = jit.compile(product, cuda_graph=True)
    x = Variable(torchlite.DoubleTensor([1, 2]), requires_grad=True)
    f(x, x).backward()
    assert launches(lib) == 0 and x.grad is not None


# ---- steps of training -----------------------------------------------------------------------------------------------

OPTIMISERS = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, 0.01),
}


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_is_one_launch_and_trains_as_the_host_does(name, optimiser, lib):
    network, data = NETWORKS[name]
    (model, reference), make = pair(network), OPTIMISERS[optimiser]
    step = jit.compile_step(squares(model), None, make(model.parameters()), cuda_graph=True)
    expected = jit.compile_step(squares(reference), None, make(reference.parameters()))
    losses = []
    for call in range(3):
        x = variable(data)
        lib.reset()
        losses.append(step(x))
        if call:
            assert launches(lib) == 1 and lib.to_host == lib.to_device == lib.synchronizations == 0
    for loss in losses:
        np.testing.assert_allclose(values(loss), values(expected(on_host(data))), rtol=1e-8)
    for p, q in zip(model.state_dict().values(), reference.state_dict().values(), strict=True):
        np.testing.assert_allclose(values(p), values(q), rtol=1e-7, atol=1e-9)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(values(p.grad), values(q.grad), rtol=1e-6, atol=1e-8)


def test_a_step_that_draws_is_refused():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).double().cuda()
    step = jit.compile_step(squares(model), None, optim.SGD(model.parameters(), 0.1), cuda_graph=True)
    before = values(model[0].weight).tolist()
    with pytest.raises(RuntimeError, match="jit.compile_step: a CUDA graph cannot hold this function: Dropout draws"):
        step(variable(X))
    assert values(model[0].weight).tolist() == before


def test_a_step_goes_on_after_parameters_were_loaded_or_moved():
    model, reference = pair(lambda: nn.Linear(4, 3))
    step = jit.compile_step(squares(model), None, optim.SGD(model.parameters(), 0.01), cuda_graph=True)
    expected = jit.compile_step(squares(reference), None, optim.SGD(reference.parameters(), 0.01))
    for turn in range(3):
        loss, other = step(variable(X)), expected(on_host(X))
        np.testing.assert_allclose(values(loss), values(other), rtol=1e-10)
        if turn == 0:
            model.load_state_dict({name: t.cpu() * 0.5 for name, t in model.state_dict().items()})
            reference.load_state_dict(model.state_dict())
        else:
            model.weight.data = model.weight.data.clone()


def test_a_step_on_the_host_is_an_ordinary_one(lib):
    model = nn.Linear(4, 3).double()
    step = jit.compile_step(squares(model), None, optim.SGD(model.parameters(), 0.01), cuda_graph=True)
    assert float(step(on_host(X)).data[0]) > float(step(on_host(X)).data[0])
    assert launches(lib) == 0
