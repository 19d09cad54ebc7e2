"""sort, topk, kthvalue, median, mode, nonzero; and the in-place forms of the views."""

import numpy as np
import pytest

import torchlite
from torchlite import ByteTensor, DoubleTensor, FloatTensor, LongTensor


def lists(pair):
    assert type(pair[1]) is LongTensor
    return pair[0].tolist(), pair[1].tolist()


@pytest.mark.parametrize("call, expected", [
    (lambda t: t.sort(), ([[1, 2, 3], [4, 4, 5]], [[1, 2, 0], [0, 2, 1]])),
    (lambda t: t.sort(0), ([[3, 1, 2], [4, 5, 4]], [[0, 0, 0], [1, 1, 1]])),
    (lambda t: t.sort(descending=True), ([[3, 2, 1], [5, 4, 4]], [[0, 2, 1], [1, 0, 2]])),
    (lambda t: t.topk(2), ([[3, 2], [5, 4]], [[0, 2], [1, 0]])),
    (lambda t: t.topk(1, 0, largest=False), ([[3, 1, 2]], [[0, 0, 0]])),
    (lambda t: t.kthvalue(2), ([2, 4], [2, 2])),
    (lambda t: t.kthvalue(1, 0, keepdim=True), ([[3, 1, 2]], [[0, 0, 0]])),
    (lambda t: t.median(1), ([2, 4], [2, 2])),
    (lambda t: t.median(0), ([3, 1, 2], [0, 0, 0])),
    (lambda t: t.mode(), ([1, 4], [1, 2])),
])
def test_pairs_of_values_and_indices(call, expected):
    for cls in (FloatTensor, LongTensor):
        assert lists(call(cls([[3, 1, 2], [4, 5, 4]]))) == expected


def test_a_1d_tensor_keeps_its_dimension():
    t = DoubleTensor([3, 1, 2])
    assert lists(t.median(0)) == ([2], [2]) and lists(t.kthvalue(1)) == ([1], [1]) and lists(t.mode()) == ([1], [1])


def test_median_of_all_is_the_lower_one():
    assert DoubleTensor([[4, 1], [3, 2]]).median() == 2.0 and type(LongTensor([1, 2]).median()) is int


def test_nan_sorts_last():
    values, _ = FloatTensor([float("nan"), 1, 2]).sort()
    assert values.tolist()[:2] == [1, 2] and np.isnan(values[2])


def test_nonzero():
    places = ByteTensor([[0, 1], [2, 0]]).nonzero()
    assert type(places) is LongTensor and places.tolist() == [[0, 1], [1, 0]]
    assert FloatTensor([0, 0]).nonzero().shape == (0,)


@pytest.mark.parametrize("call, message", [
    (lambda t: t.sort(2), r"dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"),
    (lambda t: t.topk(4), "k must be between 0 and the size 3 of dimension 1, but got 4"),
    (lambda t: t.kthvalue(0), "k must be between 1 and the size 3 of dimension 1, but got 0"),
    (lambda t: t[:, :0].median(1), "has no elements"), (lambda t: t[:0].median(), "has no elements"),
    (lambda t: t[:, :0].mode(), "has no elements"),
])
def test_bad_arguments(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(FloatTensor([[3, 1, 2], [4, 5, 4]]))


@pytest.mark.parametrize("call, size, stride", [
    (lambda t: t.t_(), (3, 2), (1, 3)), (lambda t: t.transpose_(0, -1), (3, 2), (1, 3)),
    (lambda t: t.unsqueeze_(0), (1, 2, 3), None), (lambda t: t.unsqueeze_(0).squeeze_(), (2, 3), (3, 1)),
    (lambda t: t.unsqueeze_(1).squeeze_(1), (2, 3), (3, 1)),
])
def test_views_in_place(call, size, stride):
    t = FloatTensor([[1, 2, 3], [4, 5, 6]])
    a, address = t.numpy().copy(), t.data_ptr()
    assert call(t) is t and t.size() == size and t.data_ptr() == address
    assert stride is None or t.stride() == stride
    assert sorted(np.asarray(t).ravel().tolist()) == a.ravel().tolist()


def test_a_0d_tensor_is_sorted_as_its_element():
    t = torchlite.from_numpy(np.array(2.0))
    assert [x.shape for x in t.sort()] == [(), ()] and t.median() == 2.0
