"""Reading and writing parts of a tensor; NumPy is the reference."""

import numpy as np
import pytest

import torchlite
from torchlite import ByteTensor, DoubleTensor, FloatTensor, LongTensor


def array():
    return np.arange(24, dtype=np.float64).reshape(2, 3, 4)


def tensor():
    return DoubleTensor(array())


BASIC = {
    "int": np.s_[1], "negative int": np.s_[-1], "numpy int": np.int32(1), "ints": np.s_[1, 2], "slice": np.s_[:1],
    "strided": np.s_[:, ::2], "reversed": np.s_[::-1, 1:, ::-2], "empty": np.s_[2:], "none": np.s_[None],
    "nones": np.s_[:, None, 1, None], "ellipsis": np.s_[...], "ellipsis and int": np.s_[..., 1],
    "ellipsis between": np.s_[1, ..., ::2], "ellipsis for nothing": np.s_[1, ..., 2, 3], "tuple": np.s_[()],
    "slice beyond": np.s_[-9:9, 1:1],
}
ADVANCED = {
    "list": np.s_[[1, 0, 1]], "negative list": np.s_[[-1]], "array": np.array([[0, 1], [1, 0]]),
    "two lists": np.s_[[0, 1], [2, 0]], "list between": np.s_[:, [0, 2]], "lists around": np.s_[[0, 1], :, [1, 2]],
    "broadcast": np.s_[[[0], [1]], [0, 2]], "mask": array() > 5, "row mask": np.array([True, False]),
    "list and none": np.s_[None, [0, 1]], "bool": True, "no items": np.array([], int), "0-d array": np.array(1),
    "numpy bool": np.bool_(False), "int beside": np.s_[0, [0, 1]],
}
each_basic = pytest.mark.parametrize("key", BASIC.values(), ids=BASIC)
each_advanced = pytest.mark.parametrize("key", ADVANCED.values(), ids=ADVANCED)


@each_basic
def test_basic_keys_give_views(key):
    a, t = array(), tensor()
    part = t[key]
    np.testing.assert_array_equal(part.numpy(), a[key])
    assert part.shape == a[key].shape
    if part.numel():
        part.fill_(-1)
        a[key] = -1
        np.testing.assert_array_equal(t.numpy(), a)


@each_advanced
def test_advanced_keys_give_copies(key):
    a, t = array(), tensor()
    part = t[key]
    np.testing.assert_array_equal(part.numpy(), a[key])
    part.fill_(-1)
    np.testing.assert_array_equal(t.numpy(), a)


@pytest.mark.parametrize("key", [*BASIC.values(), *ADVANCED.values()], ids=[*BASIC, *ADVANCED])
@pytest.mark.parametrize("value", ["number", "numpy scalar", "tensor", "array"])
def test_assignment(key, value):
    a, t = array(), tensor()
    shape = np.shape(a[key])
    source = {"number": 7, "numpy scalar": np.float32(7)}.get(value)
    if source is None:
        source = np.arange(100.0, 100 + np.prod(shape)).reshape(shape)
    a[key] = source
    t[key] = FloatTensor(source.astype(np.float32)) if value == "tensor" else source
    np.testing.assert_array_equal(t.numpy(), a)


@pytest.mark.parametrize("key", [np.s_[1, 2, 3], (), np.int64(0)])
def test_a_single_element_is_a_python_number(key):
    t = DoubleTensor([5]) if isinstance(key, np.integer) else tensor() if key else torchlite.from_numpy(np.array(5.0))
    assert type(t[key]) is float
    assert type(LongTensor([1, 2])[-1]) is int


def test_advanced_single_elements_are_numbers_too():
    assert type(LongTensor([1, 2])[np.array(1)]) is int


def test_tensors_are_keys():
    a, t = array(), tensor()
    np.testing.assert_array_equal(t[LongTensor([1, 0])].numpy(), a[[1, 0]])
    np.testing.assert_array_equal(t[ByteTensor([0, 1])].numpy(), a[[False, True]])
    np.testing.assert_array_equal(t[:, LongTensor([2]), ByteTensor([0, 1, 0, 0])].numpy(), a[:, [2], [1]])
    mask = ByteTensor(array() > 20)
    t[mask] = 0
    a[array() > 20] = 0
    np.testing.assert_array_equal(t.numpy(), a)


def test_a_mask_without_a_match_gives_nothing():
    assert FloatTensor([1, 2])[ByteTensor([0, 0])].shape == (0,)


def test_a_list_with_one_sequence_per_dimension_stands_for_a_tuple():
    t = FloatTensor([[1, 2], [3, 4]])
    assert t[[[0, 1], [1, 0]]].tolist() == [2, 3]
    assert t[[slice(None), [1]]].tolist() == [[2], [4]]
    assert t[[LongTensor([0]), LongTensor([1])]].tolist() == [2]


def test_an_empty_list_selects_nothing():
    assert tensor()[[]].shape == (0, 3, 4)


@pytest.mark.parametrize("key, message", [
    (2, r"index 2 is out of range for dimension 0 \(of size 2\)"), (-3, r"index -3 is out of range"),
    (np.s_[0, 3], r"index 3 is out of range for dimension 1 \(of size 3\)"), (2**70, "cannot fit"),
    (np.s_[0, 0, 0, 0], "trying to index 4 dimensions of a 3 dimensional tensor"),
    ((..., ...), "ellipsis can be used at most once"), ([2], "out of bounds"), ("a", "a tensor is indexed with"),
    (1.0, "a tensor is indexed with"), (np.array([0.5]), None), (np.array([True] * 3), None), ({}, None),
])
def test_bad_keys_are_index_errors_for_reading_and_writing(key, message):
    t = tensor()
    with pytest.raises(IndexError, match=message):
        t[key]
    with pytest.raises(IndexError, match=message):
        t[key] = 1
    np.testing.assert_array_equal(t.numpy(), array())


@pytest.mark.parametrize("t, value, error", [
    (FloatTensor(3), [1, 2], ValueError), (FloatTensor(3), FloatTensor(2), ValueError), (LongTensor(3), 1.5, TypeError),
    (FloatTensor(3), "a", ValueError), (FloatTensor(3), None, TypeError), (ByteTensor(3), -1, OverflowError),
    (LongTensor(3), float("nan"), TypeError), (LongTensor(3), float("inf"), OverflowError),
    (FloatTensor(3), 1j, TypeError),
])
def test_bad_values_are_refused_and_change_nothing(t, value, error):
    t.zero_()
    with pytest.raises(error):
        t[:] = value
    with pytest.raises(error):
        t[[0, 1, 2]] = value
    assert t.tolist() == [0, 0, 0]


def test_a_whole_float_goes_into_an_integer_tensor():
    t = LongTensor([1, 2])
    t[0] = 5.0
    t[:] = np.float32(7)
    assert t.tolist() == [7, 7]


def test_elements_cannot_be_deleted():
    with pytest.raises(TypeError, match="deletion"):
        del tensor()[0]


def test_overlapping_assignment_copies_first():
    t = FloatTensor([1, 2, 3, 4])
    t[1:] = t[:-1]
    assert t.tolist() == [1, 1, 2, 3]
    t[:] = t[::-1]
    assert t.tolist() == [3, 2, 1, 1]


@pytest.mark.parametrize("key", [0, slice(None), [0]])
def test_read_only_memory_is_never_written(key):
    a = np.arange(3.0)
    a.flags.writeable = False
    t = torchlite.from_numpy(a)
    with pytest.raises(RuntimeError, match="__setitem__: the tensor of size .* shares read-only memory"):
        t[key] = 1
    assert a.tolist() == [0, 1, 2]


def test_a_key_that_changes_the_tensor_while_it_is_read():
    t = FloatTensor(8).zero_()

    class Shrinking:
        def __index__(self):
            t.set_()
            return 5

    with pytest.raises(IndexError):
        t[Shrinking()]
