"""The backward engine on devices and streams."""

import functools
import gc
import threading
import weakref

import numpy as np
import pytest
from devices import leaf, tensor, values, variable
from standin import Race

import torchlite
from torchlite import Variable, cuda
from torchlite.autograd import Function, grad

pytestmark = pytest.mark.usefixtures("lib")


def test_loss_seed_and_gradient_stay_on_the_device(lib):
    x = leaf([1.0, 2.0])
    lib.reset()
    loss = (x * x).sum()
    loss.backward()
    assert lib.to_host == lib.to_device == lib.synchronizations == 0
    assert loss.data.is_cuda and x.grad.data.is_cuda
    assert values(x.grad).tolist() == [2, 4]


def test_accumulation_adds_on_the_leafs_device(lib):
    x = leaf([1.0, 2.0], 1)
    for _ in range(3):
        (x * 3).sum().backward()
    assert x.grad.get_device() == 1 and values(x.grad).tolist() == [9, 9]


def test_each_node_runs_with_the_device_of_its_gradient_current():
    seen = []
    x = leaf([1.0], 1)
    y = (x * 2).cuda(0) * 3
    x.register_hook(lambda g: seen.append((g.get_device(), cuda.current_device())))
    y.register_hook(lambda g: seen.append((g.get_device(), cuda.current_device())))
    y.backward()
    assert seen == [(0, 0), (1, 1)] and cuda.current_device() == 0
    assert x.grad.get_device() == 1 and values(x.grad).tolist() == [6]


def test_a_gradient_flows_through_every_move():
    x = Variable(torchlite.DoubleTensor([1, 2]), requires_grad=True)
    y = (x.cuda(0) * 2).cuda(1) * 3
    z = (y.cpu() * x).sum()
    z.backward()
    assert not x.grad.data.is_cuda and values(x.grad).tolist() == [12, 24]
    g, = grad((x.cuda() ** 3).sum(), x, create_graph=True)
    assert values(grad(g.sum(), x)[0]).tolist() == [6, 12]


def test_the_device_is_restored_after_an_error():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            assert cuda.current_device() == 1
            raise ValueError("in backward")

    x = leaf([1.0], 1)
    with pytest.raises(ValueError, match="in backward"):
        Fails.apply(x).backward()
    assert cuda.current_device() == 0 and x.grad is None


def test_what_a_hook_makes_current_is_undone():
    x = leaf([1.0], 1)
    y = x * 2
    stream = cuda.Stream(0)
    y.register_hook(lambda g: stream.cupy.use() and None)
    y.register_hook(lambda g: cuda.set_device(0))
    y.backward()
    assert cuda.current_device() == 0 and cuda.current_stream().cuda_stream == 0


def test_a_python_function_may_compute_with_arrays():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.cupy() ** 2

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_variables
            return g * x * 2

    x = leaf([1.0, 3.0])
    Square.apply(x).sum().backward()
    assert values(x.grad).tolist() == [2, 6]


def test_graphs_over_devices_are_collected():
    x = leaf([1.0])
    y = x * 2
    y.register_hook(functools.partial(lambda kept, g: None, y))
    held = weakref.ref(y)
    del y
    gc.collect()
    assert held() is None


def test_memory_returns_to_the_pool():
    gc.collect()
    before = cuda.memory_allocated()
    x = leaf(np.ones(1000))
    (x.exp() * x).sum().backward()
    assert cuda.memory_allocated() > before
    del x
    gc.collect()
    assert cuda.memory_allocated() == before


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_a_race_is_found():
    t = tensor(np.ones(3))
    with cuda.stream(cuda.Stream()):
        with pytest.raises(Race):
            t + 1


def inputs_on(stream):
    """A leaf that the stream may read."""
    x = leaf([1.0, 2.0])
    stream.wait_stream(cuda.current_stream())
    return x


def test_backward_comes_after_the_forward_of_another_stream():
    side = cuda.Stream()
    x = inputs_on(side)
    with cuda.stream(side):
        y = (x.exp() * x).sum()
    cuda.current_stream().wait_stream(side)  # for the seed, which is made of y
    y.backward()
    assert x.grad is not None


def test_the_seed_that_backward_makes_reads_nothing_of_another_stream():
    for _ in range(3):
        x, side = leaf([1.0, 2.0]), cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            loss = (x * 3).exp().sum()
        loss.backward()
        assert values(x.grad).tolist() == pytest.approx([3 * np.exp(3), 3 * np.exp(6)])


def test_backward_on_a_stream_comes_after_the_forward_on_the_default_one():
    x = leaf([1.0, 2.0])
    y = (x.exp() * x).sum()
    side = cuda.Stream()
    seed = variable(np.ones(1))
    with cuda.stream(side):
        y.backward(seed)
        assert cuda.current_stream() == side
    # And what comes later on the default stream may read the gradient, and write what the graph has given back.
    assert values(x.grad).shape == (2,)


@pytest.mark.no_leak_check(reason="what was once connected to CuPy is never deleted")
def test_without_the_engines_order_there_would_be_a_race(monkeypatch):
    from torchlite.cuda import _library, _memory

    side = cuda.Stream()
    x = inputs_on(side)
    with cuda.stream(side):
        y = (x.exp() * x).sum()
    _library.disconnect()
    monkeypatch.setattr(_memory, "wait", lambda stream, other: None)
    _library.connect()
    try:
        with pytest.raises(Race):
            y.backward(variable(np.ones(1)))
    finally:
        monkeypatch.undo()
        _library.disconnect()
        _library.connect()


def test_the_stream_of_a_python_function_is_remembered():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    side = cuda.Stream()
    x = inputs_on(side)
    with cuda.stream(side):
        y = Double.apply(x)
    y.backward(variable(np.ones(2)))
    assert x.grad is not None


def test_streams_of_threads_are_their_own():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    errors = []

    def run():
        try:
            y.backward(variable(np.ones(1)))
        except Exception as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert errors == [] and values(x.grad).tolist() == [2, 4]


def test_streams_and_events_have_the_eras_methods():
    side = cuda.Stream(1)
    assert side.device == 1 and side.cuda_stream != 0 and side.query() and side != cuda.current_stream()
    with cuda.stream(side):
        assert cuda.current_device() == 1 and cuda.current_stream() == side
        event = cuda.current_stream().record_event()
    assert cuda.current_device() == 0
    event.wait()
    event.synchronize()
    assert event.query()
    side.synchronize()
    with cuda.stream(None):
        pass
    cuda.synchronize()


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_the_first_gradient_is_stored_without_a_copy(lib):
    x = leaf([1.0, 2.0])
    y = (x * 3).sum()
    lib.reset()
    y.backward()
    assert [call.name for call in lib.calls][-1] == "multiply" and values(x.grad).tolist() == [3, 3]


def test_a_gradient_that_others_hold_is_copied():
    kept = []
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: kept.append(g.data.cupy()))
    (x * 3).sum().backward()
    x.grad.data.zero_()
    assert kept[0].get().tolist() == [3, 3]


def test_writing_in_place_takes_no_memory():
    t = tensor(np.ones(1000))
    u = tensor(np.ones(1000))
    before = cuda.memory_allocated()
    peak = []
    address = t.data_ptr()
    t.add_(u).mul_(2).div_(4).sub_(u)
    peak.append(cuda.memory_allocated())
    assert t.data_ptr() == address and peak == [before] and values(t).tolist() == [0] * 1000


def test_overlapping_parts_are_written_as_if_read_before():
    t = tensor(np.arange(5.0))
    t[1:].add_(t[:-1])
    assert values(t).tolist() == [0, 1, 3, 5, 7]
