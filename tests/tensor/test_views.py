"""Views share the memory of their source: nothing is copied wherever NumPy makes a view. NumPy is the reference."""

import numpy as np
import pytest

import torchlite
from torchlite import DoubleTensor, LongTensor


def array():
    return np.arange(24.0).reshape(2, 3, 4)


# What is called on a tensor of size (2, 3, 4), and the same view of an array.
VIEWS = {
    "transpose": (lambda t: t.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    "permute": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute negative": (lambda t: t.permute(-1, 0, -2), lambda a: a.transpose(2, 0, 1)),
    "expand": (lambda t: t[:, :1].expand(2, 5, 4), lambda a: np.broadcast_to(a[:, :1], (2, 5, 4))),
    "expand keeps": (lambda t: t.expand(5, -1, 3, -1), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
    "expand_as": (lambda t: t[0].expand_as(t), lambda a: np.broadcast_to(a[0], (2, 3, 4))),
    "narrow": (lambda t: t.narrow(1, 1, 2), lambda a: a[:, 1:3]),
    "narrow last": (lambda t: t.narrow(-1, 0, 1), lambda a: a[:, :, :1]),
    "select": (lambda t: t.select(1, 2), lambda a: a[:, 2]),
    "select negative": (lambda t: t.select(-1, -1), lambda a: a[:, :, -1]),
    "unfold": (lambda t: t.unfold(2, 2, 1), lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 2)),
    "unfold strided": (lambda t: t.unfold(2, 2, 2), lambda a: a.reshape(2, 3, 2, 2)),
    "squeeze": (lambda t: t[:, :1].squeeze(), lambda a: a[:, 0]),
    "squeeze dim": (lambda t: t[:1, :1].squeeze(1), lambda a: a[:1, 0]),
    "squeeze nothing": (lambda t: t.squeeze(1), lambda a: a),
    "unsqueeze": (lambda t: t.unsqueeze(1), lambda a: a[:, None]),
    "unsqueeze last": (lambda t: t.unsqueeze(-1), lambda a: a[..., None]),
    "view": (lambda t: t.view(6, -1), lambda a: a.reshape(6, 4)),
    "view of a Size": (lambda t: t.view(torchlite.Size([4, 6])), lambda a: a.reshape(4, 6)),
    "view_as": (lambda t: t.view_as(DoubleTensor(24)), lambda a: a.reshape(24)),
    "view of strides": (lambda t: t[:, :, ::2].view(6, 2), lambda a: a.reshape(6, 4)[:, ::2]),
    "reshape": (lambda t: t.reshape(4, 6), lambda a: a.reshape(4, 6)),
    "t": (lambda t: t[0].t(), lambda a: a[0].T),
    "contiguous": (lambda t: t.contiguous(), lambda a: a),
    "flip": (lambda t: t.flip(0, 2), lambda a: a[::-1, :, ::-1]),
    "chunk": (lambda t: t.chunk(2, 1)[1], lambda a: a[:, 2:]),
    "split": (lambda t: t.split(3, -1)[1], lambda a: a[..., 3:]),
    "unbind": (lambda t: t.unbind(1)[2], lambda a: a[:, 2]),
    "iteration": (lambda t: list(t)[1], lambda a: a[1]),
    "int": (lambda t: t[1], lambda a: a[1]),
    "ints": (lambda t: t[1, -1], lambda a: a[1, -1]),
    "slice": (lambda t: t[:, 1:], lambda a: a[:, 1:]),
    "steps": (lambda t: t[:, ::2, ::-1], lambda a: a[:, ::2, ::-1]),
    "None": (lambda t: t[None, :, 0], lambda a: a[None, :, 0]),
    "Ellipsis": (lambda t: t[..., 1], lambda a: a[..., 1]),
    "index": (lambda t: t.index((slice(None), 1)), lambda a: a[:, 1]),
    "same type": (lambda t: t.double(), lambda a: a),
    "type of the same class": (lambda t: t.type("torch.DoubleTensor"), lambda a: a),
    "alias": (DoubleTensor, lambda a: a),
    "storage": (lambda t: DoubleTensor(t.storage()), lambda a: a.reshape(-1)),
    "set_": (lambda t: DoubleTensor().set_(t), lambda a: a),
    "set_ a storage": (lambda t: DoubleTensor().set_(t.storage(), 4, (2, 3), (12, 1)), lambda a: a[:, 1, :3]),
    "resize_": (lambda t: DoubleTensor(t).resize_(3, 2), lambda a: a.reshape(-1)[:6].reshape(3, 2)),
}


@pytest.mark.parametrize("view, reference", VIEWS.values(), ids=VIEWS)
def test_a_view_is_the_same_memory_and_has_numpys_sizes_and_strides(view, reference):
    a = array()
    t = torchlite.from_numpy(a).clone()
    part, expected = view(t), reference(a)
    assert part.storage() is t.storage() and part.size() == expected.shape
    assert [s * 8 for n, s in zip(part.size(), part.stride(), strict=True) if n > 1] == [
        s for n, s in zip(expected.shape, expected.strides, strict=True) if n > 1
    ]
    offset = expected.__array_interface__["data"][0] - a.__array_interface__["data"][0]
    assert part.storage_offset() * 8 == part.data_ptr() - t.data_ptr() == offset
    np.testing.assert_array_equal(part.numpy(), expected)
    t.mul_(2)
    np.testing.assert_array_equal(part.numpy(), expected * 2)


def test_writes_through_a_view_reach_the_source():
    t = torchlite.from_numpy(array()).clone()
    t.transpose(0, 2)[1].fill_(-1)
    assert (t.numpy()[:, :, 1] == -1).all() and (t.numpy()[:, :, 0] >= 0).all()


COPIES = {
    "clone": lambda t: t.clone(), "copy": lambda t: t.copy(), "contiguous": lambda t: t.t().contiguous(),
    "repeat": lambda t: t.repeat(1, 1), "reshape": lambda t: t.t().reshape(6), "index": lambda t: t[[0, 1]],
    "LongTensor": lambda t: t[LongTensor([0, 1])],
    "mask": lambda t: t[t > -1],
    "index_select": lambda t: t.index_select(0, LongTensor([0])),
    "conversion": lambda t: t.float(), "sort": lambda t: t.sort()[0],
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_copy_is_other_memory(copy):
    t = DoubleTensor([[1, 2, 3], [4, 5, 6]])
    c = copy(t)
    before = c.tolist()
    t.fill_(0)
    assert c.tolist() == before and c.storage() is not t.storage()


ERRORS = {
    "view of another size": (lambda t: t.view(5), "size '[5]' is invalid for input of with 6 elements"),
    "two inferred": (lambda t: t.view(-1, -1), "only one dimension can be inferred"),
    "view without one": (lambda t: t.t().view(6), "invalid argument 1: input is not contiguous"),
    "expand a size": (
        lambda t: t.expand(2, 4),
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.",
    ),
    "expand fewer": (
        lambda t: t.expand(3),
        "the number of sizes provided must be greater or equal to the number of dimensions in the tensor",
    ),
    "t": (lambda t: t[0].t(), "t() expects a 2D tensor, but self is 1D"),
    "t_": (lambda t: t.unsqueeze(0).t_(), "t() expects a 2D tensor, but self is 3D"),
    "permute twice": (lambda t: t.permute(0, 0), "Invalid permutation"),
    "unsqueeze": (lambda t: t.unsqueeze(3), "dimension out of range (expected to be in range of [-3, 2], but got 3)"),
    "transpose": (
        lambda t: t.transpose(0, 2), "dimension out of range (expected to be in range of [-2, 1], but got 2)"
    ),
    "narrow": (lambda t: t.narrow(1, 2, 2), "start (2) and length (2) are out of range for dimension 1 of size 3"),
    "unfold": (lambda t: t.unfold(1, 4, 1), "windows of size 4 and step 1 do not fit dimension 1 of size 3"),
    "repeat": (
        lambda t: t.repeat(2),
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
    ),
    "resize_": (lambda t: t.resize_(-1), "sizes must not be negative, but got (-1,)"),
    "copy_": (
        lambda t: t.copy_(DoubleTensor(5)),
        "inconsistent tensor size, expected (2, 3) and (5,) to have the same number of elements",
    ),
}


@pytest.mark.parametrize("call, message", ERRORS.values(), ids=ERRORS)
def test_a_view_that_does_not_exist_is_refused_and_changes_nothing(call, message):
    t = DoubleTensor([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(RuntimeError) as raised:
        call(t)
    assert message in str(raised.value)
    assert t.tolist() == [[1, 2, 3], [4, 5, 6]] and t.size() == (2, 3)


def test_chunks_are_rounded_up_so_fewer_may_come_out():
    t = torchlite.arange(0, 10)
    assert [c.size(0) for c in t.chunk(4)] == [3, 3, 3, 1] and [c.size(0) for c in t.chunk(6)] == [2] * 5
    assert [c.size(0) for c in t.split(4)] == [4, 4, 2] and type(t.split(4)) is tuple
    assert [c.tolist() for c in t.split(10)] == [t.tolist()]


@pytest.mark.parametrize("call, expected", [
    (lambda t: t.squeeze(), (1,)), (lambda t: t[0, 0].squeeze(), (1,)), (lambda t: t.squeeze(0), (1, 1)),
    (lambda t: t[0, 0].squeeze(0), (1,)),
])
def test_the_last_dimension_is_never_squeezed(call, expected):
    assert call(DoubleTensor(1, 1, 1)).size() == expected
