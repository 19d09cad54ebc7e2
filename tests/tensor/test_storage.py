"""Storages: the memory under tensors."""

import copy
import pickle

import numpy as np
import pytest

import torchlite
from torchlite import DoubleStorage, FloatStorage, FloatTensor, LongStorage


def test_sizes_sequences_and_storages_make_storages():
    assert FloatStorage().size() == 0 and len(FloatStorage(3)) == 3 and FloatStorage([1, 2.5]).tolist() == [1, 2.5]
    s = LongStorage([1, 2, 3, 4])
    part = LongStorage(s, 1, 2)
    part[0] = 9
    assert LongStorage(s).tolist() == [1, 9, 3, 4] and part.tolist() == [9, 3] and LongStorage(s, 3).tolist() == [4]


@pytest.mark.parametrize("args, error", [
    ((-1,), ValueError), (("a",), TypeError), ((1.5,), TypeError), (([[1]],), TypeError),
    ((DoubleStorage(1),), TypeError),
    ((FloatStorage(3), 2, 2), ValueError), ((FloatStorage(3), -1), ValueError), ((3, 1), TypeError),
    ((2**60,), MemoryError),
])
def test_other_arguments_are_refused(args, error):
    with pytest.raises(error):
        FloatStorage(*args)


def test_the_base_class_has_no_instances():
    with pytest.raises(TypeError, match="use a typed storage"):
        torchlite._C._StorageBase()


def test_items_and_slices():
    s = FloatStorage([1, 2, 3, 4])
    assert s[1] == 2 and s[-1] == 4 and list(s) == [1, 2, 3, 4]
    s[1:3].fill_(7)
    s[0] = 5
    assert s.tolist() == [5, 7, 7, 4]
    for key, error in ((4, IndexError), (slice(None, None, 2), ValueError), ("a", TypeError), ([0], TypeError)):
        with pytest.raises(error):
            s[key]


def test_a_part_outlives_its_storage():
    part = FloatStorage(list(range(100)))[10:12]
    assert part.tolist() == [10, 11]


CONVERSIONS = {
    "double": torchlite.DoubleStorage, "float": torchlite.FloatStorage, "half": torchlite.HalfStorage,
    "long": torchlite.LongStorage, "int": torchlite.IntStorage, "short": torchlite.ShortStorage,
    "char": torchlite.CharStorage, "byte": torchlite.ByteStorage,
}


@pytest.mark.parametrize("name, cls", CONVERSIONS.items())
def test_conversions_copy_except_to_the_same_class(name, cls):
    s = FloatStorage([1, 2.75])
    expected = [1, 2.75] if cls in (FloatStorage, DoubleStorage, torchlite.HalfStorage) else [1, 2]
    for t in (getattr(s, name)(), s.type(cls), s.type(f"torch.{cls.__name__}"), s.type(cls.__name__, async_=True),
              getattr(s, name)(**{"async": True})):
        assert type(t) is cls and t.tolist() == expected and (t is s) == (cls is FloatStorage)
    assert s.cpu() is s


@pytest.mark.parametrize("target, error", [
    (int, TypeError), (3, TypeError), (FloatTensor, TypeError), ("torch.FloatTensor", TypeError),
    ("torch.NoStorage", AttributeError), ("NoStorage", AttributeError),
])
def test_type_of_no_storage_class(target, error):
    with pytest.raises(error):
        FloatStorage(1).type(target)


def test_new_makes_a_storage_of_the_same_class():
    s = LongStorage([1, 2, 3])
    assert type(s.new()) is LongStorage and len(s.new(4)) == 4 and s.new([5]).tolist() == [5]
    s.new(s, 1, 2)[0] = 9
    assert s.tolist() == [1, 9, 3]


def test_resize_keeps_elements_and_the_tensors_on_it():
    s = FloatStorage([1, 2, 3, 4, 5])
    t = FloatTensor(s)
    assert s.resize_(2) is s and s.tolist() == [1, 2] and t.tolist() == [1, 2, 3, 4, 5]
    assert len(s.resize_(1000)) == 1000 and s.tolist()[:2] == [1, 2] and t.tolist() == [1, 2, 3, 4, 5]
    s[0] = 7
    assert t[0] == 7 and len(s.resize_(0)) == 0
    assert FloatStorage().resize_(3).fill_(1).tolist() == [1, 1, 1]


@pytest.mark.parametrize("hold", [
    lambda s: FloatTensor(s).numpy(), lambda s: memoryview(FloatTensor(s)), lambda s: s[1:],
    lambda s: FloatStorage(s, 0, 1),
])
def test_resize_of_memory_that_others_hold_addresses_of_is_refused(hold):
    s = FloatStorage([1, 2, 3, 4, 5])
    other = hold(s)
    with pytest.raises(RuntimeError, match="arrays or buffers use its memory"):
        s.resize_(1000)
    assert s.tolist() == [1, 2, 3, 4, 5] and len(s.resize_(3)) == 3
    del other
    assert len(s.resize_(1000)) == 1000


@pytest.mark.parametrize("size, error", [(-1, ValueError), (1.5, ValueError), ("a", ValueError), (2**60, MemoryError)])
def test_resize_to_no_size_is_refused(size, error):
    s = FloatStorage([1, 2])
    with pytest.raises(error):
        s.resize_(size)
    assert s.tolist() == [1, 2]


def test_resize_of_foreign_memory_is_refused():
    with pytest.raises(RuntimeError, match="belongs to a numpy.ndarray"):
        torchlite.from_numpy(np.zeros(3)).storage().resize_(4)


NUMBERS = np.array([1, -2, 300], np.int16)
BUFFERS = {
    "native": (NUMBERS.tobytes(), {"byte_order": "native"}, [1, -2, 300]),
    "little": (NUMBERS.astype("<i2").tobytes(), {"byte_order": "little"}, [1, -2, 300]),
    "big": (NUMBERS.astype(">i2").tobytes(), {"byte_order": "big"}, [1, -2, 300]),
    "count": (NUMBERS.tobytes(), {"byte_order": "native", "count": 2}, [1, -2]),
    "offset": (NUMBERS.tobytes(), {"byte_order": "native", "offset": 2}, [-2, 300]),
    "odd offset": (b"x" + NUMBERS.tobytes() + b"yz", {"byte_order": "native", "offset": 1, "count": 3}, [1, -2, 300]),
    "all behind it": (NUMBERS.tobytes(), {"byte_order": "native", "offset": 6}, []),
    "bytearray": (bytearray(NUMBERS.tobytes()), {"byte_order": "native"}, [1, -2, 300]),
    "array": (NUMBERS, {"byte_order": "native"}, [1, -2, 300]),
}


@pytest.mark.parametrize("buffer, arguments, expected", BUFFERS.values(), ids=BUFFERS)
def test_from_buffer(buffer, arguments, expected):
    s = torchlite.ShortStorage.from_buffer(buffer, **arguments)
    assert type(s) is torchlite.ShortStorage and s.tolist() == expected


def test_from_buffer_of_floats_and_of_bytes():
    assert FloatStorage.from_buffer(np.array([1.5, 2], ">f4").tobytes(), "big").tolist() == [1.5, 2]
    assert torchlite.ByteStorage.from_buffer(b"ab").tolist() == [97, 98]
    assert torchlite.CharStorage.from_buffer(b"\xff", "native").tolist() == [-1]
    source = bytearray(b"ab")
    s = torchlite.ByteStorage.from_buffer(source)
    source[0] = 0
    assert s.tolist() == [97, 98]


@pytest.mark.parametrize("arguments, message", [
    ({}, "invalid byte_order '' \\(expected 'big', 'little', or 'native'\\)"),
    ({"byte_order": []}, "invalid byte_order"),
    ({"byte_order": "middle"}, "invalid byte_order 'middle'"),
    ({"byte_order": "native", "offset": 7}, r"no greater than buffer length \(6\), but got 7"),
    ({"byte_order": "native", "offset": -1}, "offset must be non-negative"),
    ({"byte_order": "native", "offset": 1}, r"buffer size \(5\) must be a multiple of element size \(2\)"),
    ({"byte_order": "native", "offset": 2, "count": 3}, "only 2 elements after offset 2, but specified a size of 3"),
])
def test_from_buffer_refuses_what_is_not_there(arguments, message):
    with pytest.raises(ValueError, match="from_buffer: .*" + message):
        torchlite.ShortStorage.from_buffer(NUMBERS.tobytes(), **arguments)


def test_from_buffer_names_what_is_no_number():
    with pytest.raises(TypeError, match="from_buffer: offset must be an int, but got 'x'"):
        FloatStorage.from_buffer(b"abcd", "native", 1, "x")


def test_text():
    assert repr(LongStorage([1, -20])) == str(LongStorage([1, -20])) == (
        "   1\n -20\n[torchlite.LongStorage of size 2]"
    )
    assert repr(FloatStorage()) == "[torchlite.FloatStorage of size 0]"
    assert repr(FloatStorage([1.5, float("nan")])).startswith(" 1.5000\n    nan\n")
    assert len(repr(FloatStorage(100_000).fill_(0)).splitlines()) == 8


def test_deep_copies_keep_sharing():
    s = FloatStorage([1, 2])
    a, b, t = copy.deepcopy([s, s, FloatTensor(s)])
    assert a is b and a is t.storage() and a is not s and a.tolist() == [1, 2]


def test_pinned_memory_is_cudas():
    s = FloatStorage(2)
    assert s.is_pinned() is False and FloatTensor(s).is_pinned() is False


def test_identity():
    s = FloatStorage(2)
    assert s._cdata == FloatTensor(s).storage()._cdata != FloatStorage(2)._cdata


def test_copies():
    s = LongStorage([1, 2])
    assert s.copy_(DoubleStorage([3.5, 4])).tolist() == [3, 4]
    assert s.copy_(LongStorage([3, 4]), async_=True) is s
    c = s.clone()
    c[0] = 0
    assert s[0] == 3
    with pytest.raises(ValueError, match="expected a storage of 2 elements"):
        s.copy_(LongStorage(3))


def test_a_tensor_and_its_storage_are_the_same_memory():
    t = FloatTensor([[1, 2], [3, 4]])
    s = t[1].storage()
    assert s.size() == 4 and s.element_size() == 4 and s.data_ptr() == t.data_ptr() and s is t.storage()
    s[0] = 9
    assert t[0, 0] == 9 and s.type() == "torchlite.FloatStorage" and not s.is_cuda


def test_the_owner_of_foreign_memory():
    a = np.zeros(3)
    assert torchlite.from_numpy(a).storage().owner is a and FloatStorage(1).owner is None


def test_read_only_memory_is_never_written():
    a = np.zeros(3)
    a.flags.writeable = False
    s = torchlite.from_numpy(a).storage()
    assert s.readonly and s[1:].readonly
    for write in (lambda: s.fill_(1), lambda: s.copy_(DoubleStorage(3)), lambda: s.__setitem__(0, 1)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol):
    s = pickle.loads(pickle.dumps(FloatStorage([1, 2]), protocol))
    assert type(s) is FloatStorage and s.tolist() == [1, 2]


def test_bytes_that_are_no_whole_elements_are_refused():
    with pytest.raises(ValueError, match="5 bytes are no whole number of Float elements"):
        FloatStorage._from_bytes(b"12345")


def test_the_set_of_classes():
    assert FloatStorage in torchlite._storage_classes and len(torchlite._storage_classes) >= 8


def test_memory_of_objects_is_refused():
    with pytest.raises(ValueError, match="_on_buffer: the memory holds references to objects"):
        FloatStorage._on_buffer(np.array([None]))
