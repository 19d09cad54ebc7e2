"""torchlite.Size, the tuple of a tensor's sizes."""

import copy
import pickle

import numpy as np
import pytest

from torchlite import _C, FloatTensor, Size


@pytest.mark.parametrize("result, expected", [
    (lambda s: s[1:], (3, 4)), (lambda s: s[::-1], (4, 3, 2)), (lambda s: s[:0], ()),
    (lambda s: s + (5,), (2, 3, 4, 5)),
    (lambda s: s * 2, (2, 3, 4, 2, 3, 4)), (lambda s: 2 * s, (2, 3, 4, 2, 3, 4)), (lambda s: Size(s), (2, 3, 4)),
    (copy.copy, (2, 3, 4)), (copy.deepcopy, (2, 3, 4)),
])
def test_slices_sums_and_multiples_are_sizes(result, expected):
    out = result(Size([2, 3, 4]))
    assert type(out) is Size and out == expected


def test_an_item_is_an_int():
    assert type(Size([2, 3])[1]) is int and Size([2, 3])[-1] == 3


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_the_class(protocol):
    out = pickle.loads(pickle.dumps(Size([2, 3]), protocol))
    assert type(out) is Size and out == (2, 3)


@pytest.mark.parametrize("size, text", [([2, 3], "torchlite.Size([2, 3])"), ([], "torchlite.Size([])")])
def test_repr(size, text):
    assert repr(Size(size)) == text


@pytest.mark.parametrize("items, message", [
    ([1, 2.0], r"takes an iterable of 'int' \(item 1 is 'float'\)"), (["a"], r"\(item 0 is 'str'\)"),
])
def test_other_items_are_refused(items, message):
    with pytest.raises(TypeError, match=message):
        Size(items)


def test_numpy_integers_become_ints():
    assert [type(i) for i in Size(np.array([2, 3]))] == [int, int]


def test_adding_other_things_gives_a_plain_tuple():
    assert type(Size([1]) + ("a",)) is tuple


def test_it_hashes_and_compares_as_a_tuple():
    assert {Size([1, 2]): "x"}[(1, 2)] == "x" and FloatTensor(2, 3).size() == (2, 3)


def test_numel_is_the_product():
    assert Size([2**40, 2**40]).numel() == 2**80 and Size([]).numel() == 1


# ---- broadcasting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a, b", [((2, 3), (3,)), ((3,), (2, 1)), ((0, 1), (1,)), ((2, 1, 4), (3, 1)), ((1,), (1,))])
def test_infer_size_is_what_numpy_broadcasts_to(a, b):
    size = _C._infer_size(Size(a), Size(b))
    assert type(size) is Size and size == np.broadcast_shapes(a, b)


@pytest.mark.parametrize("args, message", [
    ((Size([2]),), "expected exactly 2 arguments"),
    ((Size([2]), (2,)), "expected a torchlite.Size as argument 1"),
    ((Size([2, 3]), Size([2, 4])), r"size of tensor a \(3\) must match the size of tensor b \(4\) at .* dimension 1"),
    ((Size([]), Size([2])), "Can't expand empty tensor a"),
    ((Size([2]), Size([])), "Can't expand empty tensor b"),
])
def test_infer_size_names_what_does_not_fit(args, message):
    with pytest.raises(RuntimeError, match=message):
        _C._infer_size(*args)
