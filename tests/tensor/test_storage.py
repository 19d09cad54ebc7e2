"""Storages: the memory under tensors."""

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


def test_copies():
    s = LongStorage([1, 2])
    assert s.copy_(DoubleStorage([3.5, 4])).tolist() == [3, 4]
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
