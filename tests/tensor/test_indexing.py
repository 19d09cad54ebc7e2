"""Reading and writing parts of a tensor; NumPy is the reference."""

import random

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


def test_an_int_beyond_64_bits_is_an_index_error():
    with pytest.raises(IndexError, match="cannot fit"):
        tensor()[2**70]


LISTS_FOR_TUPLES = {
    "a sequence for each dimension": [[0, 1], [2, 0], [1, 1]], "fewer sequences": [[0, 1], [2, 0]],
    "one sequence": [[1, 0]],
    "slice and sequence": [slice(None), [2, 1]], "Ellipsis and sequence": [..., [2, 3]], "None": [None, 1],
    "tensors": [LongTensor([0]), LongTensor([1])], "slices": [slice(1), slice(1, 2)], "tuples": [(0, 1), (0, 1)],
}


@pytest.mark.parametrize("kind", [lambda t: t, torchlite.Variable], ids=["tensor", "Variable"])
@pytest.mark.parametrize("key", LISTS_FOR_TUPLES.values(), ids=LISTS_FOR_TUPLES)
def test_a_list_of_sequences_or_with_a_slice_stands_for_a_tuple(key, kind):
    a, t = array(), kind(tensor())
    as_numpy = tuple(i.numpy() if isinstance(i, LongTensor) else i for i in key)
    np.testing.assert_array_equal(t[key].numpy(), a[as_numpy])
    t[key] = 7
    a[as_numpy] = 7
    np.testing.assert_array_equal(t.numpy(), a)


def test_a_list_of_more_sequences_than_dimensions_is_an_array():
    assert FloatTensor([5, 6])[[[0, 1], [1, 1]]].tolist() == [[5, 6], [6, 6]]


# ---- the methods of the era's autograd layer ----

ADVANCED_RULE = {
    "ints in a list": ([0, 1], True), "numpy ints in a list": ([np.int64(0)], True), "range": (range(2), True),
    "sequence for each dimension": (([0, 1], [0, 1], [0, 1]), True), "in a list": ([[0], [0], [0]], True),
    "LongTensors": ((LongTensor([0]), LongTensor([1]), LongTensor([2])), True),
    "adjacent, then a full slice": (([0, 1], [0, 1], slice(None)), True),
    "a full slice, then adjacent": ((slice(None), [0, 1], [0, 1]), True), "Ellipsis first": ((..., [0, 1]), True),
    "Ellipsis last": (([0, 1], ...), True), "slice in a list": ([slice(None), [1, 2]], True),
    "int": (0, False), "numpy int": (np.int64(0), False), "slice": (slice(None), False), "None": (None, False),
    "Ellipsis": (..., False), "tuple of ints": ((0, 1), False), "slices": ((slice(1), slice(1)), False),
    "int and slice in a list": ([0, slice(1)], False), "LongTensor": (LongTensor([0]), False),
    "ByteTensor": (ByteTensor([1, 0]), False), "text": ("ab", False), "dict": ({}, False), "empty tuple": ((), False),
}


@pytest.mark.parametrize("key, expected", ADVANCED_RULE.values(), ids=ADVANCED_RULE)
def test_check_advanced_indexing(key, expected):
    assert tensor()._check_advanced_indexing(key) is expected


def test_index_gives_a_tensor_for_a_single_element():
    t = DoubleTensor([5, 6, 7])
    part = t.index(1)
    assert type(part) is DoubleTensor and part.shape == (1,) and part.data_ptr() == t[1:].data_ptr()
    assert tensor().index((1, 2, 3)).shape == (1,) and t.index(slice(1)).tolist() == [5]
    assert t.index([2]).tolist() == [7]


def test_set_index_is_item_assignment():
    t = DoubleTensor([1, 2, 3])
    assert t._set_index(slice(1, 3), 0) is None
    t._set_index([0], DoubleTensor([9]))
    assert t.tolist() == [9, 0, 0]


@pytest.mark.parametrize(
    "key", [np.s_[[0, 1], [2, 0]], np.s_[:, [0, 2]], np.s_[[0, 0, 1]], np.s_[..., [3, 3]], np.s_[1:], np.s_[0, 1]],
    ids=repr
)
def test_advanced_select_and_add_are_each_others_transpose(key):
    a, t = array(), tensor()
    picked = t._advanced_index_select(key)
    np.testing.assert_array_equal(picked.numpy(), a[key].ravel())
    source = DoubleTensor(picked.numel()).copy_(torchlite.arange(1, picked.numel() + 1))
    assert t._advanced_index_add(key, source) is t
    np.add.at(a, key, source.numpy().reshape(a[key].shape))
    np.testing.assert_array_equal(t.numpy(), a)


@pytest.mark.parametrize("kind", [torchlite.HalfTensor, LongTensor, ByteTensor, FloatTensor])
def test_advanced_add_accumulates_repeated_positions_in_every_type(kind):
    t = kind([0, 0, 0])
    t._advanced_index_add([1, 1, 2], kind([1, 2, 5]))
    assert t.tolist() == [0, 3, 5]


def test_advanced_add_refuses_another_type_number_of_elements_or_read_only_memory():
    t = FloatTensor(3).zero_()
    with pytest.raises(TypeError, match="expected a torchlite.FloatTensor .* like self, but got a torchlite.Double"):
        t._advanced_index_add([0], DoubleTensor(1))
    with pytest.raises(RuntimeError, match="as many elements as are indexed, 2, but got 1"):
        t._advanced_index_add([0, 0], FloatTensor(1))
    with pytest.raises(IndexError, match="index 3 from broadcast indexer"):
        t._advanced_index_add([3], FloatTensor(1))
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        torchlite.from_numpy(frozen)._advanced_index_add([0], FloatTensor([1]))
    assert t.tolist() == [0, 0, 0]


# ---- masks ----


def test_a_byte_mask_of_as_many_elements_selects_elements_whatever_its_size():
    t = FloatTensor([[1, 2, 3], [4, 5, 6]])
    assert t[ByteTensor([0, 1, 0, 0, 0, 1])].tolist() == [2, 6]
    t.t()[ByteTensor([1, 0, 0, 0, 0, 0])] = 9
    assert t.tolist() == [[9, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("transposed", [False, True])
def test_a_tensor_is_written_under_a_mask_in_order_and_may_be_longer(transposed):
    t = FloatTensor([[1, 3], [2, 4]]).t() if transposed else FloatTensor([[1, 2], [3, 4]])
    t[t > 2] = FloatTensor([7, 8, 9])
    assert t.tolist() == [[1, 2], [7, 8]]
    with pytest.raises(RuntimeError, match="Number of elements of src < number of ones in mask: 2 and 4"):
        t[t > 0] = FloatTensor([1, 2])
    t[t > 0] = FloatTensor([5])
    assert t.tolist() == [[5, 5], [5, 5]]


def test_an_empty_list_selects_nothing():
    assert tensor()[[]].shape == (0, 3, 4)


NOT_A_KEY = "Performing basic indexing on a tensor and encountered an error indexing dim {} with an object of type {}"
BAD_KEYS = [
    (2, IndexError, r"index 2 is out of range for dimension 0 \(of size 2\)"),
    (-3, IndexError, r"index -3 is out of range"),
    (np.s_[0, 3], IndexError, r"index 3 is out of range for dimension 1 \(of size 3\)"),
    (np.s_[0, 0, 0, 0], IndexError, "trying to index 4 dimensions of a 3 dimensional tensor"),
    ((..., ...), IndexError, "ellipsis can be used at most once"),
    ([2], IndexError, r"index 2 from broadcast indexer is out of range for dimension 0 \(of size 2\)"),
    (np.s_[..., [0, -5]], IndexError, r"index -5 from broadcast indexer is out of range for dimension 2 \(of size 4\)"),
    (np.s_[None, :, [[3]], [0]], IndexError, r"index 3 from broadcast indexer is out of range for dimension 1"),
    (np.s_[[0, 1], [0, 1, 2]], IndexError, "The advanced indexing objects could not be broadcast: sizes 2 and 3"),
    (np.s_[..., [0], [9], [0], [0]], IndexError, "too many indices"),
    (np.array([True] * 3), IndexError, "boolean index did not match"),
    ("a", TypeError, NOT_A_KEY.format(0, "str")), (1.0, TypeError, NOT_A_KEY.format(0, "float")),
    ((0, "a"), TypeError, NOT_A_KEY.format(1, "str")), (np.array([0.5]), TypeError, NOT_A_KEY.format(0, "numpy")),
    (FloatTensor([0]), TypeError, NOT_A_KEY.format(0, "torchlite.FloatTensor")),
    ({}, TypeError, NOT_A_KEY.format(0, "dict")),
    ([[0, 1], [0]] * 2, TypeError, NOT_A_KEY.format(0, "list")), ([0.5], TypeError, NOT_A_KEY.format(0, "list")),
]


@pytest.mark.parametrize("kind", [lambda t: t, torchlite.Variable], ids=["tensor", "Variable"])
@pytest.mark.parametrize("key, error, message", BAD_KEYS, ids=lambda case: repr(case)[:30])
def test_bad_keys_are_refused_for_reading_and_writing(key, error, message, kind):
    t = tensor()
    with pytest.raises(error, match=message):
        kind(t)[key]
    with pytest.raises(error, match=message):
        kind(t)[key] = 1
    np.testing.assert_array_equal(t.numpy(), array())


@pytest.mark.parametrize("t, value, error", [
    (FloatTensor(3), [1, 2], ValueError), (FloatTensor(3), FloatTensor(2), RuntimeError),
    (LongTensor(3), 1.5, TypeError),
    (FloatTensor(3), "a", TypeError), (FloatTensor(3), None, TypeError), (ByteTensor(3), -1, OverflowError),
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


# ---- random keys ----


def random_item(rng):
    return rng.choice([
        lambda: rng.randint(-4, 4), lambda: np.int64(rng.randint(-2, 2)), lambda: None, lambda: Ellipsis,
        lambda: slice(rng.choice([None, -3, -1, 0, 1]), rng.choice([None, -2, 1, 9]), rng.choice([None, 1, 2, -1, -2])),
        lambda: [rng.randint(-2, 2) for _ in range(rng.choice([1, 2, 3]))],
        lambda: np.array([[rng.randint(-1, 1)] * 2] * rng.choice([1, 2])),
        lambda: LongTensor([rng.randint(-2, 2), rng.randint(-2, 2)]),
        lambda: np.array([rng.random() < 0.5 for _ in range(rng.choice([2, 3, 4]))]),
    ])()


@pytest.mark.parametrize("seed", range(4))
def test_random_keys_mean_what_they_mean_to_numpy(seed):
    rng = random.Random(seed)
    for _ in range(300):
        shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 3)))
        a = np.arange(float(np.prod(shape))).reshape(shape)
        t = torchlite.from_numpy(a).clone()
        key = tuple(random_item(rng) for _ in range(rng.randint(1, 4)))
        as_numpy = tuple(i.numpy() if isinstance(i, LongTensor) else i for i in key)
        try:
            expected = a[as_numpy]
        except (IndexError, DeprecationWarning) as error:  # NumPy 2.2 only warns where the result is empty
            with pytest.raises((IndexError, TypeError, type(error))):
                t[key]
            continue
        np.testing.assert_array_equal(t.index(key).numpy().reshape(np.shape(expected)), expected, err_msg=repr(key))
        t[key] = 7
        a[as_numpy] = 7
        np.testing.assert_array_equal(t.numpy(), a, err_msg=repr(key))
        source = DoubleTensor(int(np.size(expected))).fill_(1)
        t._advanced_index_add(key, source)
        np.add.at(a, as_numpy, 1)
        np.testing.assert_array_equal(t.numpy(), a, err_msg=repr(key))


@pytest.mark.parametrize("value", ["text", b"bytes", None])
def test_what_is_no_number_is_not_assigned(value):
    t = DoubleTensor([1, 2])
    with pytest.raises(TypeError, match="__setitem__: expected a number, .*, but got (str|bytes|None)"):
        t[0] = value
    assert t.tolist() == [1, 2]
