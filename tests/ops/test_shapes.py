"""What the shape operations refuse and share, and the functions made of them."""

import numpy as np
import pytest

import torchlite
from torchlite import Variable


def tensor(*shape):
    return torchlite.from_numpy(np.arange(np.prod(shape), dtype="float64").reshape(shape))


MISUSES = {
    "view of another number": (lambda x: x.view(5, 3), r"size '\[5 x 3\]' is invalid for input of with 12 elements"),
    "view with two -1": (lambda x: x.view(-1, -1), "only one dimension can be inferred"),
    "view that needs a copy": (lambda x: x.t().view(12), "input is not contiguous"),
    "view of a negative size": (lambda x: x.view(-2, 6), "invalid size -2 at dimension 0"),
    "expand of a size": (
        lambda x: x.expand(3, 5),
        r"The expanded size of the tensor \(5\) must match the existing size \(4\) at non-singleton dimension 1",
    ),
    "expand to fewer dimensions": (lambda x: x.expand(4), "must be greater or equal to the number of dimensions"),
    "expand of a new -1": (lambda x: x.expand(-1, 3, 4), "size -1 at new dimension 0"),
    "t of three dimensions": (lambda x: x.unsqueeze(0).t(), r"t\(\) expects a 2D tensor, but self is 3D"),
    "permute with a repeat": (lambda x: x.permute(0, 0), "Invalid permutation"),
    "permute of too few": (lambda x: x.permute(0), "1 dimensions were given for a tensor of 2"),
    "transpose out of range": (lambda x: x.transpose(0, 2), r"expected to be in range of \[-2, 1\], but got 2"),
    "unsqueeze out of range": (lambda x: x.unsqueeze(4), r"range of \[-3, 2\], but got 4"),
    "narrow out of range": (lambda x: x.narrow(0, 2, 2), r"start \(2\) and length \(2\).*dimension 0 of size 3"),
    "repeat of too few": (lambda x: x.repeat(2), "Number of dimensions of repeat dims can not be smaller"),
    "repeat of less than nothing": (lambda x: x.repeat(1, -1), "negative count -1 at position 1"),
    "flip of a dimension twice": (lambda x: x.flip(0, -2), "dimension 0 is repeated"),
    "cat of other sizes": (lambda x: torchlite.cat([x, x[:, :3]]), r"tensor 1 has size \(3, 3\).*\(3, 4\)"),
    "cat of nothing": (lambda x: torchlite.cat([]), "seq can't be empty"),
    "stack of other sizes": (lambda x: torchlite.stack([x, x[:2]]), r"tensor 1 has size \(2, 4\).*\(3, 4\)"),
    "split into other sizes": (lambda x: x.split([1, 1]), "sum to 2, but dimension 0 has size 3"),
    "split into parts of nothing": (lambda x: x.split(0), "must be positive, but got 0"),
    "chunk into nothing": (lambda x: x.chunk(0), "must be positive, but got 0"),
    "unfold of too large windows": (lambda x: x.unfold(0, 4, 1), "size 4 and step 1 do not fit dimension 0 of size 3"),
    "trace of a vector": (lambda x: x[0].trace(), "trace: expected a matrix, but self is 1D"),
    "tril of a vector": (lambda x: x[0].tril(), "tril: expected a matrix, but self is 1D"),
}


@pytest.mark.parametrize("wrap", [lambda t: t, Variable], ids=["tensor", "variable"])
@pytest.mark.parametrize(("misuse", "message"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_refused(misuse, message, wrap):
    with pytest.raises((RuntimeError, ValueError), match=message):
        misuse(wrap(tensor(3, 4)))


def test_select_out_of_range_names_index_and_size():
    with pytest.raises(IndexError, match=r"index 4 is out of range for dimension 1 \(of size 4\)"):
        tensor(3, 4).select(1, 4)


def test_stack_of_nothing():
    with pytest.raises(ValueError, match="stack expects a non-empty sequence of tensors"):
        torchlite.stack([])


VIEWS = {
    "view": lambda x: x.view(2, 6),
    "reshape": lambda x: x.reshape(4, 3),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "expand": lambda x: x.expand(2, 3, 4),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "narrow": lambda x: x.narrow(0, 0, 2),
    "select": lambda x: x.select(0, 0),
    "flip": lambda x: x.flip(0, 1),
    "contiguous": lambda x: torchlite.contiguous(x),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "chunk": lambda x: x.chunk(2)[0],
    "unbind": lambda x: x.unbind()[0],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_view_shares_memory_and_guards_against_in_place_writes(view):
    x = Variable(tensor(3, 4))
    y = view(x)
    x.data[0, 0] = 99
    assert 99 in y.data.numpy()
    with pytest.raises(RuntimeError):
        x.add_(1)


def test_reshape_of_a_transposed_matrix_copies():
    x = tensor(3, 4)
    y = x.t().reshape(12)
    np.testing.assert_array_equal(y.numpy(), x.numpy().T.reshape(12))
    x.fill_(0)
    assert y.numpy().any()


def test_chunks_round_up():
    x = Variable(tensor(7, 2), requires_grad=True)
    parts = x.chunk(3)
    assert [tuple(p.size()) for p in parts] == [(3, 2), (3, 2), (1, 2)]
    assert [tuple(p.size()) for p in torchlite.chunk(x, 5)] == [(2, 2), (2, 2), (2, 2), (1, 2)]
    parts[1].sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy()[:, 0], [0, 0, 0, 1, 1, 1, 0])


def test_split_by_size_and_by_sizes():
    x = tensor(5, 2)
    assert [tuple(p.size()) for p in x.split(2)] == [(2, 2), (2, 2), (1, 2)]
    assert [tuple(p.size()) for p in x.split([1, 4])] == [(1, 2), (4, 2)]
    assert [tuple(p.size()) for p in torchlite.split(x, 1, dim=1)] == [(5, 1), (5, 1)]


def test_view_as_and_expand_as():
    x = Variable(tensor(3, 1), requires_grad=True)
    y = x.expand_as(Variable(tensor(3, 4)))
    assert tuple(y.size()) == (3, 4)
    assert tuple(x.view_as(Variable(tensor(1, 3))).size()) == (1, 3)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy(), np.full((3, 1), 4))


def test_cat_of_mixed_types_takes_the_wider_one():
    assert torchlite.cat([torchlite.FloatTensor([1]), torchlite.DoubleTensor([2])]).tolist() == [1, 2]
    assert isinstance(torchlite.cat([torchlite.LongTensor([1]), torchlite.FloatTensor([2])]), torchlite.FloatTensor)


def test_gradient_of_a_cat_of_mixed_types_has_each_ones_type():
    a = Variable(torchlite.FloatTensor([1]), requires_grad=True)
    b = Variable(torchlite.DoubleTensor([1]), requires_grad=True)
    torchlite.cat([a, b]).sum().backward()
    assert isinstance(a.grad.data, torchlite.FloatTensor)
    assert isinstance(b.grad.data, torchlite.DoubleTensor)


def test_contiguous_is_the_object_itself_where_possible():
    x = Variable(tensor(3, 4))
    assert x.contiguous() is x
    y = x.t().contiguous()
    y.add_(1)
    np.testing.assert_array_equal(y.data.numpy(), x.data.numpy().T + 1)


def test_trace_of_a_tensor_is_a_number():
    assert tensor(2, 2).trace() == 3


IN_PLACE_VIEWS = {
    "t_": (),
    "transpose_": (0, -1),
    "squeeze_": (),
    "unsqueeze_": (1,),
}


@pytest.mark.parametrize(("name", "args"), IN_PLACE_VIEWS.items())
def test_in_place_view_keeps_object_and_memory(name, args):
    t = tensor(3, 1)
    expected = getattr(t, name[:-1])(*args).numpy().copy()
    memory = t.data_ptr()
    assert getattr(t, name)(*args) is t
    np.testing.assert_array_equal(t.numpy(), expected)
    assert t.data_ptr() == memory


@pytest.mark.parametrize(("name", "args"), IN_PLACE_VIEWS.items())
def test_in_place_view_of_a_variable_has_a_gradient(name, args):
    x = Variable(tensor(3, 1), requires_grad=True)
    y = x * 2
    version = y._version
    assert getattr(y, name)(*args) is y
    assert y._version == version + 1
    weights = np.arange(3.0).reshape(tuple(y.size()))
    (y * Variable(torchlite.from_numpy(weights))).sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy().reshape(-1), [0, 2, 4])


def test_in_place_view_is_refused_like_any_write():
    leaf = Variable(tensor(3, 1), requires_grad=True)
    with pytest.raises(RuntimeError):
        leaf.t_()
    shared = Variable(tensor(3, 1))
    alias = shared.view(3)
    with pytest.raises(RuntimeError):
        shared.squeeze_()
    assert tuple(leaf.size()) == tuple(shared.size()) == (3, 1)
    assert tuple(alias.size()) == (3,)
    with pytest.raises(TypeError, match="expected 2 to 2 arguments, but got 1"):
        tensor(3, 1).transpose_(0)
    with pytest.raises(RuntimeError, match="dimension out of range"):
        tensor(3, 1).transpose_(0, 5)


@pytest.mark.parametrize("value", [
    lambda t: t, lambda t: t.long(), lambda t: np.ones((2, 3), int), lambda t: np.array(1.5),
], ids=["tensor", "integers", "array", "0-d array"])  # fmt: skip
@pytest.mark.parametrize("call", [lambda t, v: t.cumsum(v), lambda t, v: t.narrow(0, v, 1), lambda t, v: t.all(0, v)],
                         ids=["cumsum", "narrow", "all"])  # fmt: skip
def test_what_holds_no_int_is_named_where_one_is_expected(call, value):
    t = torchlite.DoubleTensor([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(TypeError, match="^(cumsum|narrow|all)"):
        call(t, value(t))
