"""DLPack: memory shared through capsules, from and to other libraries."""

import ctypes
import gc
import sys

import numpy as np
import pytest

import torchlite
from torchlite import DoubleTensor, FloatTensor, from_dlpack, from_numpy

# ---- a producer written in Python --------------------------------------------------------------------------


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Described(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("dtype", DataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Classic(ctypes.Structure):
    _fields_ = [("tensor", Described), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", Deleter), ("flags", ctypes.c_uint64), ("tensor", Described)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
FLOAT32 = (2, 32, 1)


exporting = []


@pytest.fixture(autouse=True)
def producers_outlive_what_they_export():
    yield
    gc.collect()
    exporting.clear()


class Producer:
    """Float memory 0, 1, 2 ... described as asked. `deleted` counts calls of the deleter."""

    def __init__(self, shape=(2, 3), strides=None, *, dtype=FLOAT32, device=(1, 0), offset=0, version=None, flags=0,
                 null=False):
        self.memory = np.arange(32, dtype=np.float32)
        self.deleted = 0
        self.dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        steps = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.steps = steps
        described = Described(None if null else self.memory.ctypes.data, Device(*device), len(shape), DataType(*dtype),
                              self.dims, steps, offset)
        self.deleter = Deleter(self.delete)
        if version is None:
            self.managed, self.name = Classic(described, None, self.deleter), b"dltensor"
        else:
            self.managed = Versioned(*version, None, self.deleter, flags, described)
            self.name = b"dltensor_versioned"
        self.device = device

    def delete(self, _):
        self.deleted += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        if self.name == b"dltensor" and keywords:
            raise TypeError("no keywords before version 1")
        exporting.append(self)
        return new_capsule(ctypes.addressof(self.managed), self.name, None)


# ---- import ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, expected", [
    (dict(), [[0, 1, 2], [3, 4, 5]]),
    (dict(strides=(3, 1)), [[0, 1, 2], [3, 4, 5]]),
    (dict(strides=(1, 2)), [[0, 2, 4], [1, 3, 5]]),
    (dict(strides=(-3, -1), offset=20), [[5, 4, 3], [2, 1, 0]]),
    (dict(shape=(1, 3), strides=(-999, 1)), [[0, 1, 2]]),
    (dict(shape=(3, 1), strides=(1, 2**61)), [[0], [1], [2]]),
    (dict(shape=(2, 2), strides=(0, 1)), [[0, 1], [0, 1]]),
    (dict(shape=()), 0.0),
    (dict(shape=(), strides=(), offset=8), 2.0),
    (dict(shape=(0, 3)), []),
    (dict(shape=(2, 0), null=True), [[], []]),
    (dict(shape=(3,), version=(1, 1)), [0, 1, 2]),
    (dict(shape=(3,), device=(3, 0)), [0, 1, 2]),
])
def test_any_description_of_the_memory_is_understood(arguments, expected):
    producer = Producer(**arguments)
    t = from_dlpack(producer)
    assert type(t) is FloatTensor and t.shape == arguments.get("shape", (2, 3)) and t.tolist() == expected
    assert producer.deleted == 0
    del t
    assert producer.deleted == 1


def test_memory_is_shared_and_outlives_the_producers_array():
    a = np.arange(6.0).reshape(2, 3)
    t = from_dlpack(a)
    a[0, 0] = 9
    t[1, 2] = 8
    assert t[0, 0] == 9 and a[1, 2] == 8
    del a
    gc.collect()
    assert t.tolist() == [[9, 1, 2], [3, 4, 8]]


def test_the_deleter_runs_after_the_last_view():
    producer = Producer()
    t = from_dlpack(producer)[1]
    a = t.numpy()
    del t
    assert producer.deleted == 0 and a.tolist() == [3, 4, 5]
    del a
    assert producer.deleted == 1


def test_a_capsule_is_consumed_once():
    capsule = Producer().__dlpack__()
    from_dlpack(capsule)
    with pytest.raises(BufferError, match="which was consumed before"):
        from_dlpack(capsule)


@pytest.mark.parametrize("arguments, message", [
    (dict(dtype=(5, 64, 1)), r"no tensor class has the element type \(code 5, 64 bits, 1 lanes\)"),
    (dict(dtype=(4, 16, 1)), "code 4, 16 bits"), (dict(dtype=(2, 32, 4)), "4 lanes"),
    (dict(dtype=(1, 16, 1)), "code 1"),
    (dict(device=(10, 0)), "device of type 10"),
    (dict(version=(2, 0)), r"protocol version 1 is supported, but got 2.0"),
    (dict(shape=(-1,)), "sizes are impossible"), (dict(shape=(2**40, 2**40)), "sizes are impossible"),
    (dict(strides=(2**62, 1)), "strides are impossible"), (dict(null=True), "address is null"),
    (dict(shape=(1,) * 65), "0 to 64 dimensions, but got 65"),
])
def test_what_cannot_be_imported_is_left_to_the_producer(arguments, message):
    producer = Producer(**arguments)
    capsule = producer.__dlpack__() if "version" not in arguments else producer.__dlpack__(max_version=(1, 0))
    with pytest.raises(BufferError, match=message):
        from_dlpack(capsule)
    assert producer.deleted == 0
    ctypes.pythonapi.PyCapsule_GetName.restype = ctypes.c_char_p
    ctypes.pythonapi.PyCapsule_GetName.argtypes = [ctypes.py_object]
    assert ctypes.pythonapi.PyCapsule_GetName(capsule) == producer.name


def test_read_only_memory_is_never_written():
    t = from_dlpack(Producer(version=(1, 0), flags=1))
    assert t.readonly
    for write in (t.zero_, lambda: t.fill_(1), lambda: t.__setitem__(0, 1), lambda: t.add_(1)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_unaligned_memory_is_copied():
    t = from_dlpack(Producer(shape=(1,), offset=2))
    assert t.shape == (1,)
    with pytest.raises(BufferError, match="can only be copied, but got copy=False"):
        from_dlpack(Producer(shape=(1,), offset=2, version=(1, 0)), copy=False)


def test_bool_memory_is_bytes():
    assert type(from_dlpack(np.array([True, False]))) is torchlite.ByteTensor


def test_copies_can_be_asked_for():
    a = np.arange(3.0)
    t = from_dlpack(a, copy=True)
    a[0] = 9
    assert t[0] == 0
    assert from_dlpack(Producer(version=(1, 0)), copy=True).storage().owner is None
    assert from_dlpack(a, device="cpu", copy=False)[0] == 9
    with pytest.raises(BufferError, match="only the device 'cpu'"):
        from_dlpack(a, device="cuda")


@pytest.mark.parametrize("other", [3, None, [1, 2], "dltensor"])
def test_other_objects_are_refused(other):
    with pytest.raises(TypeError, match="expected an object with __dlpack__ or a capsule"):
        from_dlpack(other)


def test_a_producer_that_returns_no_capsule_is_refused():
    class Liar:
        def __dlpack__(self, **keywords):
            return 3

    with pytest.raises(TypeError, match="returned a int, not a capsule"):
        from_dlpack(Liar())


def test_the_producers_own_error_passes():
    class Failing:
        def __dlpack__(self, **keywords):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        from_dlpack(Failing())


def test_a_foreign_capsule_is_refused():
    with pytest.raises(BufferError, match="but got other"):
        from_dlpack(new_capsule(1, b"other", None))


# ---- export ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", sorted(torchlite._tensor_classes, key=repr))
@pytest.mark.parametrize("part", [lambda t: t, lambda t: t[1:, ::2], lambda t: t[::-1], lambda t: t[:0]],
                         ids=["all", "strided", "reversed", "no items"])
def test_numpy_imports_every_class_and_layout(cls, part):
    t = part(cls([[1, 2, 3], [4, 5, 6]]))
    a = np.from_dlpack(t)
    assert a.dtype == t.dtype and a.shape == t.shape and a.tolist() == t.tolist()
    assert a.size == 0 or np.shares_memory(a, t.numpy())


def test_a_0d_tensor_is_exported():
    assert np.from_dlpack(from_numpy(np.array(2.5))) == 2.5


def test_exported_memory_outlives_the_tensor():
    t = FloatTensor([1, 2, 3])
    a = np.from_dlpack(t)
    del t
    gc.collect()
    assert a.tolist() == [1, 2, 3]


def test_an_unused_capsule_gives_the_memory_back():
    before = torchlite._C._memory_stats()["allocated_bytes"]
    for version in (None, (1, 0)):
        capsule = FloatTensor(1000).__dlpack__(max_version=version)
        del capsule
    assert torchlite._C._memory_stats()["allocated_bytes"] == before


def test_the_versions():
    t = FloatTensor([1])
    for version, name in ((None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"),
                          ((2, 5), "dltensor_versioned")):
        assert f'"{name}"' in repr(t.__dlpack__(max_version=version))


def test_read_only_memory_needs_the_version_that_can_say_so():
    a = np.arange(3.0)
    a.flags.writeable = False
    t = from_numpy(a)
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    assert from_dlpack(t.__dlpack__(max_version=(1, 0))).readonly
    copied = from_dlpack(t.__dlpack__(copy=True))
    copied[0] = 5
    assert a[0] == 0


def test_devices_and_streams():
    t = DoubleTensor(1)
    assert t.__dlpack_device__() == (1, 0)
    t.__dlpack__(dl_device=(1, 0), stream=None)
    for keywords in ({"dl_device": (2, 0)}, {"stream": 1}):
        with pytest.raises(BufferError):
            t.__dlpack__(**keywords)
    with pytest.raises(TypeError):
        t.__dlpack__(1)


def test_round_trip_keeps_reference_counts():
    t = FloatTensor([1, 2])
    storage = t.storage()
    count = sys.getrefcount(storage)
    from_dlpack(t)
    from_dlpack(t.__dlpack__(max_version=(1, 0)))
    assert sys.getrefcount(storage) == count
