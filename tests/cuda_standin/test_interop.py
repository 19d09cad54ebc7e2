"""Memory shared with CuPy and others, pinned memory, and the numbers that devices draw."""

import sys

import numpy as np
import pytest
import standin
from devices import leaf, tensor, values

import torchlite
from torchlite import Variable, cuda
from torchlite.cuda import _memory

pytestmark = pytest.mark.usefixtures("lib")
A = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def cp(lib):
    return sys.modules["cupy"]


@pytest.mark.parametrize("make", [cuda.from_cupy, lambda a: Variable(a).data, cuda.DoubleTensor])
def test_an_array_and_its_tensor_are_one_memory(make, cp, lib):
    a = cp.asarray(A)
    lib.reset()
    t = make(a)
    assert t.is_cuda and t.data_ptr() == a.data.ptr
    t[0, 0] = 9
    a[1] = 7
    assert lib.to_device == lib.to_host == 0
    assert a.get()[0, 0] == 9 and values(t)[1].tolist() == [7, 7, 7]


def test_strides_come_along(cp):
    a = cp.asarray(A)[:, ::2].T
    t = cuda.from_cupy(a)
    assert t.size() == (2, 2) and t.stride() == (2, 3) and values(t).tolist() == A[:, ::2].T.tolist()
    b = cuda.from_cupy(cp.asarray(A)[::-1])
    assert values(b).tolist() == A[::-1].tolist()


def test_back_and_forth_joins_the_storage(cp):
    t = tensor(A)
    for _ in range(3):
        again = cuda.from_cupy(t.cupy())
        assert again.is_set_to(t)
    assert cuda.from_cupy(t.t().cupy()).storage() is t.storage()


def test_an_array_keeps_the_memory_alive(cp, lib):
    a = tensor(A).cupy()
    assert a.get().tolist() == A.tolist()


def test_arrays_of_bool_are_byte_and_others_are_refused(cp):
    assert type(cuda.from_cupy(cp.asarray(np.array([True, False])))) is cuda.ByteTensor
    with pytest.raises(TypeError, match="invalid type: complex64"):
        cuda.from_cupy(cp.asarray(np.zeros(2, np.complex64)))
    with pytest.raises(TypeError, match="from_cupy: expected a cupy.ndarray, but got ndarray"):
        cuda.from_cupy(A)


def test_an_array_is_an_operand(cp):
    a = cp.asarray(A)
    assert values(tensor(A) * a).tolist() == (A * A).tolist()
    v = Variable(a, requires_grad=True)
    (v * a).sum().backward()
    assert values(v.grad).tolist() == A.tolist()


def test_numpy_and_cupy_do_not_mix(cp):
    with pytest.raises(TypeError, match="all tensors must be in one place"):
        Variable(A.copy()) * Variable(cp.asarray(A))
    with pytest.raises(TypeError, match="all tensors must be in one place"):
        Variable(cp.asarray(A)) * A


def test_the_array_interface_has_version_3_and_a_stream():
    t = tensor(A)
    d = t.__cuda_array_interface__
    assert d["version"] == 3 and d["shape"] == (2, 3) and d["typestr"] == "<f8" and d["strides"] is None
    assert d["data"] == (t.data_ptr(), False) and d["stream"] == 1
    side = cuda.Stream()
    with cuda.stream(side):
        assert t.t().__cuda_array_interface__["strides"] == (8, 24)
        assert t.__cuda_array_interface__["stream"] == side.cuda_stream
    assert Variable(t).__cuda_array_interface__["data"] == d["data"]


def test_a_variable_that_requires_grad_is_not_exported():
    v = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="can't convert a Variable that requires grad to an array: use its .data"):
        v.__cuda_array_interface__  # noqa: B018
    with pytest.raises(BufferError, match="requires grad"):
        v.__dlpack__()
    assert v.data.__cuda_array_interface__["shape"] == (2,)


def test_memory_without_elements_has_the_address_0():
    t = cuda.FloatTensor(0, 3)
    assert t.__cuda_array_interface__["data"][0] == 0 and t.size() == (0, 3)
    assert values(t).shape == (0, 3)


def test_dlpack_names_the_device():
    assert tensor(A, 1).__dlpack_device__() == (2, 1)
    assert torchlite.FloatTensor(1).__dlpack_device__() == (1, 0)


def test_dlpack_shares_memory_both_ways(cp):
    with cuda.device(1):
        a = cp.asarray(A)
    t = torchlite.from_dlpack(a)
    assert t.get_device() == 1 and t.data_ptr() == a.data.ptr and values(t).tolist() == A.tolist()
    exported = t.t().__dlpack__(stream=1, max_version=(1, 0))
    assert exported.array.data.ptr == a.data.ptr and exported.array.strides == (8, 24)
    assert exported.options == {"stream": 1, "max_version": (1, 0)}
    assert torchlite.from_dlpack(t).storage() is t.storage()
    assert torchlite.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()
    assert not torchlite.from_dlpack(t, device="cpu").is_cuda
    with pytest.raises(BufferError, match=r"lies on device \(2, 1\), not on 'cpu'"):
        torchlite.from_dlpack(t, device="cpu", copy=False)


# ---- pinned memory ---------------------------------------------------------------------------------------------------


def test_pinned_memory_is_copied_without_waiting(lib):
    host = torchlite.from_numpy(A.copy())
    assert not host.is_pinned()
    pinned = host.pin_memory()
    assert pinned.is_pinned() and pinned.pin_memory() is pinned and values(pinned).tolist() == A.tolist()
    lib.reset()
    t = pinned.cuda(async_=True)
    assert lib.to_device == 1 and lib.synchronizations == 0
    pinned.cuda()
    assert lib.synchronizations == 1  # the caller may write the memory again
    assert values(t).tolist() == A.tolist()
    with pytest.raises(TypeError, match="only memory of the host can be pinned"):
        t.pin_memory()


def test_pinned_memory_lives_until_a_queued_copy_has_read_it(monkeypatch):
    done = [False]
    monkeypatch.setattr(standin.Event, "done", property(lambda event: done[0]))

    def send():
        pinned = torchlite.from_numpy(A.copy()).pin_memory()
        assert pinned.cuda(async_=True).is_cuda
        return pinned.data_ptr()

    first, second = send(), send()
    assert first in _memory.pinned and second in _memory.pinned
    done[0] = True
    send()
    assert first not in _memory.pinned and second not in _memory.pinned


def test_async_is_taken_by_every_name():
    host = torchlite.from_numpy(A.copy())
    for keywords in ({"async": True}, {"async_": True}, {"non_blocking": True}):
        assert host.cuda(**keywords).is_cuda
    with pytest.raises(TypeError, match="unexpected keyword argument 'sync'"):
        host.cuda(sync=True)


# ---- random numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [
    lambda t: t.uniform_(), lambda t: t.uniform_(-2, 3), lambda t: t.normal_(1, 2), lambda t: t.bernoulli_(0.3),
    lambda t: t.exponential_(2), lambda t: t.cauchy_(), lambda t: t.log_normal_(0, 1),
])
@pytest.mark.parametrize("kind", ["Float", "Double"])
def test_a_seed_draws_the_hosts_numbers(draw, kind, lib):
    torchlite.manual_seed(11)
    cuda.manual_seed(11)
    expected = draw(getattr(torchlite, kind + "Tensor")(7, 30)).numpy()
    t = getattr(cuda, kind + "Tensor")(7, 30)
    lib.reset()
    draw(t)
    assert lib.to_host == lib.to_device == lib.synchronizations == 0
    rtol, atol = (2e-5, 1e-5) if kind == "Float" else (1e-12, 0)
    np.testing.assert_allclose(values(t), expected, rtol=rtol, atol=atol)


def test_generators_of_devices_are_their_own_and_can_be_restored():
    cuda.manual_seed_all(5)
    first, second = (values(cuda.FloatTensor(10, device=d).uniform_()) for d in (0, 1))
    assert first.tolist() == second.tolist()
    state = cuda.get_rng_state()
    assert state.numel() == 16 and not state.is_cuda
    drawn = values(cuda.FloatTensor(10).uniform_())
    assert drawn.tolist() != first.tolist()
    cuda.set_rng_state(state)
    assert values(cuda.FloatTensor(10).uniform_()).tolist() == drawn.tolist()
    assert cuda.initial_seed() == 5


def test_whole_numbers_lie_in_their_range():
    t = values(cuda.LongTensor(1000).random_(3, 9))
    assert t.min() == 3 and t.max() == 8
    assert values(cuda.ByteTensor(2000).random_()).max() > 200


@pytest.mark.parametrize(("draw", "error"), [
    (lambda t, _: t.random_(5, 5), RuntimeError), (lambda t, _: t.uniform_(2, 1), RuntimeError),
    (lambda t, _: t.normal_(0, -1), RuntimeError), (lambda t, _: t.exponential_(0), RuntimeError),
    (lambda t, _: t.cauchy_(0, 0), RuntimeError), (lambda t, _: t.log_normal_(0, 0), RuntimeError),
    (lambda t, _: t.geometric_(1), RuntimeError), (lambda t, _: t.bernoulli_(2), RuntimeError),
    (lambda t, _: t.bernoulli_(t.new(2).zero_()), RuntimeError), (lambda t, _: t.long().uniform_(), TypeError),
    (lambda t, _: t.byte().random_(0, 257), RuntimeError), (lambda t, _: t.random_(**{"from": 1}), TypeError),
    (lambda t, elsewhere: t.bernoulli_(elsewhere), TypeError),
])  # fmt: skip
def test_parameters_are_refused_as_on_the_host(draw, error):
    texts = set()
    for t, elsewhere in ((torchlite.zeros(3), cuda.FloatTensor(3)), (cuda.FloatTensor(3), torchlite.zeros(3))):
        with pytest.raises(error) as raised:
            draw(t, elsewhere)
        texts.add(str(raised.value))
    assert len(texts) == 1 or all("must lie where the tensor lies" in text for text in texts)


def test_a_device_is_filled_by_its_own_generator():
    with pytest.raises(TypeError, match="uniform_: a tensor on a CUDA device is filled by the generator of"):
        cuda.FloatTensor(3).uniform_(generator=torchlite.Generator())


# ---- what is missing -------------------------------------------------------------------------------------------------


@pytest.mark.no_leak_check(reason="what was once connected to CuPy is never deleted")
def test_without_a_device_the_runtimes_own_reason_is_given(cp, monkeypatch):
    from torchlite.cuda import _library

    def no_driver():
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    _library.disconnect()
    try:
        monkeypatch.setattr(cp.cuda.runtime, "getDeviceCount", no_driver)
        assert cuda.is_available() is False
        with pytest.raises(RuntimeError, match="no CUDA device can be used: cudaErrorInsufficientDriver"):
            torchlite.FloatTensor(1).cuda()
        monkeypatch.setattr(cp.cuda.runtime, "getDeviceCount", lambda: 0)
        with pytest.raises(RuntimeError, match="there is no CUDA device"):
            cuda.FloatTensor(1)
    finally:
        monkeypatch.undo()
        _library.connect()
    assert cuda.is_available() is True and cuda.device_count() == 2
