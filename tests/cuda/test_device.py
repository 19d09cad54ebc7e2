"""Memory, streams, shared memory, and several devices, on hardware."""

import gc

import numpy as np
import pytest

import torchlite
from torchlite import Variable, cuda, nn, optim

cupy = pytest.importorskip("cupy")


def leaf(a, device=0):
    return Variable(torchlite.from_numpy(np.array(a, np.float64)).cuda(device), requires_grad=True)


def test_the_pool_returns_to_the_byte():
    gc.collect()
    cuda.synchronize()
    before = cuda.memory_allocated()
    for _ in range(3):
        x = leaf(np.ones(100_000))
        (x.exp() * x).sum().backward()
        del x
    gc.collect()
    assert cuda.memory_allocated() == before


def test_arrays_and_tensors_are_one_memory():
    a = cupy.arange(6, dtype=np.float32).reshape(2, 3)
    t = cuda.from_cupy(a)
    t[0] = 9
    a[1] = 7
    cuda.synchronize()
    assert a.get().tolist() == t.cpu().tolist() == [[9, 9, 9], [7, 7, 7]]
    assert cuda.from_cupy(t.t().cupy()).storage() is t.storage()


def test_dlpack_goes_both_ways():
    a = cupy.arange(6.0).reshape(2, 3)
    t = torchlite.from_dlpack(a)
    assert t.is_cuda and t.data_ptr() == a.data.ptr
    b = cupy.from_dlpack(t.t())
    assert b.data.ptr == a.data.ptr and b.strides == (8, 24)
    assert torchlite.from_dlpack(cuda.FloatTensor(0, 3)).size() == (0, 3)


def test_the_array_interface_is_read_by_others():
    t = torchlite.from_numpy(np.arange(4.0)).cuda()

    class Wrapped:
        __cuda_array_interface__ = t.__cuda_array_interface__

    assert cupy.asarray(Wrapped()).data.ptr == t.data_ptr()


def test_backward_comes_after_a_slow_forward_on_another_stream():
    weights = torchlite.from_numpy(np.random.default_rng(0).standard_normal((512, 512)) / 30).cuda()
    expected = None
    for step in range(200):
        side = cuda.Stream()
        x = leaf(np.ones((512, 512)))
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            y = x
            for _ in range(4):
                y = y.mm(Variable(weights)).tanh()
            loss = y.sum()
        loss.backward(Variable(torchlite.from_numpy(np.ones(1)).cuda()))
        got = x.grad.data.cpu().numpy()
        expected = got if step == 0 else expected
        assert (got == expected).all(), step


def test_training_gives_the_hosts_losses():
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((64, 10)).astype(np.float32), rng.integers(0, 4, 64)
    curves = []
    for place in (lambda t: t, lambda t: t.cuda()):
        torchlite.manual_seed(0)
        model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 4))
        if place(torchlite.FloatTensor(1)).is_cuda:
            model.cuda()
        optimiser = optim.Adam(model.parameters(), lr=0.01)
        x, target = Variable(place(torchlite.from_numpy(data))), Variable(place(torchlite.from_numpy(labels)))
        losses = []
        for _ in range(50):
            optimiser.zero_grad()
            loss = nn.CrossEntropyLoss()(model(x), target)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        curves.append(losses)
    assert curves[0] == pytest.approx(curves[1], rel=1e-3)


def test_random_numbers_are_the_hosts():
    torchlite.manual_seed(7)
    cuda.manual_seed(7)
    np.testing.assert_allclose(cuda.FloatTensor(1000).normal_().cpu().numpy(),
                               torchlite.FloatTensor(1000).normal_().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.two_devices
def test_gradients_flow_between_devices():
    x = leaf([1.0, 2.0], 1)
    y = (x * 2).cuda(0) * 3
    y.sum().backward()
    assert x.grad.get_device() == 1 and x.grad.data.cpu().tolist() == [6, 6] and cuda.current_device() == 0


@pytest.mark.two_devices
def test_mixing_devices_is_an_error():
    with pytest.raises(RuntimeError, match="device 0 .*device 1"):
        leaf([1.0], 0) + leaf([1.0], 1)
