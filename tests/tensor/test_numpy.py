"""Memory shared with NumPy, both ways: ndarrays, the array interface, the buffer protocol."""

import gc
import io
import sys
import weakref

import numpy as np
import pytest

import torchlite
from torchlite import ByteTensor, FloatTensor, LongTensor, from_numpy

DTYPES = [np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.longlong]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)

LAYOUTS = {
    "contiguous": lambda a: a, "transposed": lambda a: a.T, "strided": lambda a: a[:, ::2, 1:],
    "reversed": lambda a: a[::-1, :, ::-2], "0-d": lambda a: a[1, 2, 3:].reshape(()),
    "no items": lambda a: a[:, :0],
    "broadcast": lambda a: np.broadcast_to(a[0], (5, 3, 4)), "new axes": lambda a: a[None, :, None],
    "one item reversed": lambda a: a[:1, 2:, ::-1][..., :1],
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def array(dtype=np.float32):
    return np.arange(24, dtype=dtype).reshape(2, 3, 4)


@each_dtype
@each_layout
def test_from_numpy_and_back_is_the_same_memory(dtype, layout):
    a = layout(array(dtype))
    t = from_numpy(a)
    assert t.shape == a.shape and t.ndim == a.ndim and t.dtype == a.dtype.newbyteorder("=")
    assert t.readonly is not a.flags.writeable
    for back in (t.numpy(), np.asarray(t), np.array(t, copy=None)):
        np.testing.assert_array_equal(back, a)
        assert back.flags.writeable == a.flags.writeable
        assert a.size == 0 or back.__array_interface__["data"][0] == a.__array_interface__["data"][0]


def test_writes_are_seen_on_both_sides():
    a = array()
    t = from_numpy(a[:, ::-1])
    t[0, 0, 0] = -1
    a[1, 2, 3] = -2
    assert a[0, 2, 0] == -1 and t[1, 0, 3] == -2


def test_the_array_lives_as_long_as_the_tensor():
    class Array(np.ndarray):
        pass

    a = array().view(Array)
    ref, t = weakref.ref(a), from_numpy(a)[0]
    del a
    assert ref() is not None and t[0, 1] == 1
    del t
    assert ref() is None


def test_the_memory_lives_as_long_as_an_array_on_it():
    a = FloatTensor([1, 2, 3])[1:].numpy()
    b = np.asarray(FloatTensor([1, 2, 3]))
    gc.collect()
    assert a.tolist() == [2, 3] and b.tolist() == [1, 2, 3]


@pytest.mark.parametrize("wrap", [from_numpy, FloatTensor])
@pytest.mark.parametrize("write", [
    lambda t: t.fill_(1), lambda t: t.zero_(), lambda t: t.copy_(FloatTensor(3)), lambda t: t.__setitem__(0, 1),
    lambda t: t[1:].fill_(1), lambda t: FloatTensor(t).fill_(1), lambda t: t.add_(1), lambda t: t.numpy().fill(1),
])
def test_read_only_memory_is_never_written(wrap, write):
    a = np.arange(3, dtype=np.float32)
    a.flags.writeable = False
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        write(wrap(a))
    assert a.tolist() == [0, 1, 2]


def test_bool_arrays_are_bytes_on_the_same_memory():
    a = np.array([True, False])
    t = from_numpy(a)
    t[1] = 1
    assert type(t) is ByteTensor and a.tolist() == [True, True]


@pytest.mark.parametrize("a", [
    np.arange(3, dtype=">f4"), np.frombuffer(b"\0" + np.arange(3, dtype="<f4").tobytes(), np.float32, offset=1),
    np.array([(0, 0, 0), (1, 0, 0), (2, 0, 0)], "f4,u1,u1")["f0"],
], ids=["big-endian", "unaligned", "odd strides"])
def test_memory_that_a_tensor_cannot_describe_is_copied(a):
    t = from_numpy(a)
    assert type(t) is FloatTensor and t.tolist() == [0, 1, 2] and not np.shares_memory(t.numpy(), a)
    t[0] = 5
    assert a[0] == 0


@pytest.mark.parametrize("a", [np.zeros(2, np.uint16), np.zeros(2, complex), np.array(["x"]), np.array([None])])
def test_other_dtypes_are_refused(a):
    with pytest.raises(TypeError, match="can't convert a given np.ndarray to a tensor - it has an invalid type"):
        from_numpy(a)


@pytest.mark.parametrize("other", [[1, 2], 3.0, None, FloatTensor(2)])
def test_from_numpy_takes_arrays_only(other):
    with pytest.raises(TypeError, match="expected an np.ndarray"):
        from_numpy(other)


class CudaArray:
    """What a CuPy array looks like to us."""

    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}


@pytest.mark.parametrize("make", [from_numpy, FloatTensor])
def test_arrays_on_a_cuda_device_are_no_host_memory(make):
    with pytest.raises(TypeError, match=r"CudaArray, which .*torchlite\.cuda\."):
        make(CudaArray())


def test_a_variable_of_an_array_on_a_cuda_device_needs_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match="needs CuPy, which is not installed"):
        torchlite.Variable(CudaArray())


@pytest.mark.parametrize("x", [FloatTensor(2), torchlite.Variable(FloatTensor(2))])
def test_memory_of_the_host_has_no_cuda_array_interface(x):
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="lies in host memory"):
        x.__cuda_array_interface__  # noqa: B018


def test_a_huge_virtual_array_allocates_nothing():
    before = torchlite._C._memory_stats()["allocated_bytes"]
    t = from_numpy(np.broadcast_to(np.float32(1), (2**33,)))
    assert t.shape == (2**33,) and t.numel() == 2**33 and t[2**32] == 1 and t[::2**30].numel() == 8
    assert torchlite._C._memory_stats()["allocated_bytes"] == before


def test_a_tensor_of_a_tensors_array_joins_its_storage():
    t = FloatTensor([[1, 2], [3, 4]])
    for a in (t.numpy(), np.asarray(t), t.numpy().T.T):
        assert from_numpy(a).is_set_to(t)
    frozen = t.numpy()
    frozen.flags.writeable = False
    assert from_numpy(frozen).readonly and not t.readonly


def test_arrays_of_a_tensor_are_independent_handles():
    t = FloatTensor([1, 2, 3, 4])
    t.numpy().flags.writeable = False
    assert t.numpy().flags.writeable and t.fill_(2)[0] == 2


@pytest.mark.no_leak_check(reason="it is slow enough to run once")
def test_going_back_and_forth_builds_no_chain_that_overflows_the_stack():
    t = FloatTensor([1])
    for _ in range(200_000):
        t = torchlite.from_dlpack(t)
    t = from_numpy(np.asarray(t))
    del t


# ---- __array__ and the array interface ---------------------------------------------------------------------


def test_array_follows_numpys_rules_for_copies():
    t = FloatTensor([1, 2])
    assert np.shares_memory(t.__array__(), t.numpy()) and not np.shares_memory(t.__array__(copy=True), t.numpy())
    assert t.__array__(np.float64).dtype == np.float64
    assert np.array(t, copy=False).dtype == np.float32 and not np.shares_memory(np.array(t), t.numpy())
    with pytest.raises(ValueError, match="copy"):
        t.__array__(np.float64, copy=False)


def test_the_array_interface_describes_the_memory():
    t = from_numpy(array().transpose(2, 0, 1)[::-1])
    described = t.__array_interface__
    assert described["shape"] == (4, 2, 3) and described["strides"] == (-4, 48, 16) and described["typestr"] == "<f4"
    assert described["data"] == (t.data_ptr(), False) and described["version"] == 3


# ---- the buffer protocol -----------------------------------------------------------------------------------


@each_dtype
@each_layout
def test_memoryviews_show_the_elements(dtype, layout):
    a = layout(array(dtype))
    view = memoryview(from_numpy(a))
    assert view.shape == a.shape and view.ndim == a.ndim and view.itemsize == a.itemsize and view.nbytes == a.nbytes
    assert view.readonly is not a.flags.writeable
    np.testing.assert_array_equal(np.asarray(view), a)


def test_a_buffer_keeps_the_memory_and_forbids_growing_it():
    t = FloatTensor([1, 2, 3])
    view = memoryview(t)
    with pytest.raises(RuntimeError, match="arrays or buffers use its memory"):
        t.resize_(10_000)
    t.set_()
    gc.collect()
    assert view.tolist() == [1, 2, 3]


def test_a_plain_buffer_needs_contiguous_writable_memory():
    t = LongTensor(4).zero_()
    assert io.BytesIO(bytes([1] + [0] * 31)).readinto(t) == 32 and t[0] == 1
    with pytest.raises((BufferError, TypeError), match="not contiguous|read-write"):
        io.BytesIO(bytes(32)).readinto(t[::2])
    a = np.zeros(4)
    a.flags.writeable = False
    with pytest.raises((BufferError, TypeError), match="read-only|read-write"):
        io.BytesIO(bytes(32)).readinto(from_numpy(a))
