"""Keys of Variables: what they take, what is assigned through them, and where the gradients go."""

import numpy as np
import pytest
from era_package import Variable, gradcheck, same_values, torch


def leaf(*sizes, requires_grad=True):
    return Variable(torch.randn(*sizes).double(), requires_grad=requires_grad)


def ones(*sizes):
    return torch.ones(*sizes).double()


def counted(*sizes):
    return torch.from_numpy(np.arange(1.0, 1 + np.prod(sizes)).reshape(sizes))


# ---- indexing ------------------------------------------------------------------------------------------------------

KEYS = {
    "int": 1, "int of a row": (1, 2), "slice": slice(2), "tuple of slices": (slice(0, 2), slice(1, 3)),
    "step": (slice(None), slice(0, 4, 2)), "ellipsis": Ellipsis, "int and ellipsis": (Ellipsis, 1),
    "none": (None, 1), "none at the end": (1, None), "whole": (slice(None), slice(None)),
    "long tensor": torch.LongTensor([0, 2]), "long tensor with repeats": torch.LongTensor([1, 1, 3, 2, 1]),
    "list": [0, 3], "list with repeats": [1, 1, 3], "two lists": [[0, 3, 1], [1, 2, 0]],
    "two lists with repeats": [[1, 1, 0], [2, 2, 0]], "lists of lists": [[[0], [3]], [[1, 2]]],
    "list and slice": ([0, 2], slice(None)), "slice and list": (slice(None), [1, 1, 0]),
    "list and ellipsis": ([3, 0], Ellipsis), "two long tensors": [torch.LongTensor([0, 3]), torch.LongTensor([1, 1])],
    "rows of a numpy index": np.int64(2),
}
ADVANCED_AGAINST_NUMPY = {
    "two long tensors": lambda key: tuple(k.numpy() for k in key),
    "two lists": tuple, "two lists with repeats": tuple, "lists of lists": tuple,
    "long tensor": lambda key: key.numpy(), "long tensor with repeats": lambda key: key.numpy(),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_takes_the_elements_and_sends_their_gradients_back(name):
    key = KEYS[name]
    array_key = ADVANCED_AGAINST_NUMPY.get(name, lambda k: k)(key)
    x = Variable(counted(4, 4), requires_grad=True)
    y = x[key]
    expected = x.data.numpy()[array_key]
    np.testing.assert_array_equal(y.data.numpy(), np.atleast_1d(expected))
    gradient = np.zeros((4, 4))
    np.add.at(gradient, array_key, 1)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy(), gradient)
    assert gradcheck(lambda v: v[key], (Variable(torch.randn(4, 4).double(), requires_grad=True),))


def test_a_variable_as_key_selects_rows_or_masks():
    x = Variable(counted(4, 4), requires_grad=True)
    rows = Variable(torch.LongTensor([0, 2, 2]))
    same_values(x[rows].data, x.data.index_select(0, rows.data))
    mask = x > 5
    same_values(x[mask].data, x.data.masked_select(mask.data))
    (x[rows].sum() + x[mask].sum()).backward()
    expected = mask.data.double()
    expected[0] += 1
    expected[2] += 2
    same_values(x.grad.data, expected)


def test_an_element_of_a_vector_has_size_one():
    x = leaf(3)
    assert x[1].size() == torch.Size([1])
    assert [v.size() for v in x] == [torch.Size([1])] * 3
    x[1].backward()
    same_values(x.grad.data, torch.DoubleTensor([0, 1, 0]))


@pytest.mark.parametrize("key, error", [(4, IndexError), (-5, IndexError), ("a", TypeError), ((0, 0, 0), Exception)])
def test_keys_that_are_refused(key, error):
    with pytest.raises(error):
        leaf(4, 4)[key]


# ---- assignment ----------------------------------------------------------------------------------------------------

TARGETS = {
    "row": ((5, 5), 1), "element of a vector": ((5,), 1), "the only element": ((1,), 0), "list": ((10,), [[0, 4, 2]]),
    "two lists": ((5, 5), [[0, 4], [2, 2]]), "slice": ((5, 5), slice(1, 3)), "ellipsis": ((5, 5), (Ellipsis, 2)),
    "lists and slice": ((5, 5, 5), [slice(None), slice(None), [2, 4]]),
    "slice and lists": ((5, 5, 5), [slice(None), [1, 3], [2, 4]]), "three lists": ((5, 5, 5), [[1, 3], [2, 1], [0, 4]]),
    "rows": ((5, 5), [[0, 3], slice(None)]), "long tensors": ((5, 5), [torch.LongTensor([0, 3]),
                                                                                   torch.LongTensor([1, 1])]),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_number_is_assigned_and_stops_the_gradient(name):
    sizes, key = TARGETS[name]
    x = Variable(ones(*sizes), requires_grad=True)
    y = x + 2
    version = y._version
    y[key] = 2
    assert y._version > version
    y.backward(ones(*sizes))
    expected = ones(*sizes)
    expected[key] = 0
    same_values(x.grad.data, expected)


@pytest.mark.parametrize("name", TARGETS)
def test_a_variable_is_assigned_and_gets_the_gradient(name):
    sizes, key = TARGETS[name]
    x = Variable(ones(*sizes), requires_grad=True)
    y = x + 2
    part = y.data[key]
    value = Variable((part if torch.is_tensor(part) else ones(1)).clone().fill_(7), requires_grad=True)
    version = y._version
    y[key] = value
    assert y._version > version
    part = y.data[key]
    same_values(part if torch.is_tensor(part) else torch.DoubleTensor([part]), value.data)
    y.backward(ones(*sizes))
    expected = ones(*sizes)
    expected[key] = 0
    same_values(x.grad.data, expected)
    same_values(value.grad.data, ones(*value.size()))


@pytest.mark.parametrize("sizes, mask", [
    ((5, 5), torch.ByteTensor(5, 5).bernoulli_()), ((5,), torch.ByteTensor([0, 1, 1, 0, 1])),
    ((1,), torch.ByteTensor([1])),
], ids=["matrix", "vector", "one"])
def test_a_mask_is_assigned_through(sizes, mask):
    x = Variable(ones(*sizes), requires_grad=True)
    y = x + 2
    version = y._version
    y[Variable(mask)] = 3
    assert y._version > version
    y.backward(ones(*sizes))
    same_values(x.grad.data, (1 - mask).double())

    x.grad = None
    y = x + 2
    value = Variable(ones(int(mask.sum())) * 7, requires_grad=True)
    y[Variable(mask)] = value
    same_values(y.data.masked_select(mask), value.data)
    y.backward(ones(*sizes))
    same_values(x.grad.data, (1 - mask).double())
    same_values(value.grad.data, ones(*value.size()))


@pytest.mark.parametrize("key", [1, slice(1, 2), [[0, 1, 2, 0], [0, 1, 2, 3]]], ids=["row", "slice", "lists"])
def test_what_has_as_many_elements_is_assigned_in_order(key):
    y, value = leaf(4, 4, requires_grad=False), leaf(2, 2)
    expected = y.data.clone()
    expected[key] = value.data.view(4)
    with pytest.warns(UserWarning, match="not broadcastable"):
        y[key] = value
    same_values(y.data, expected)
    gradient = counted(4, 4)
    y.backward(gradient)
    same_values(value.grad.data, torch.from_numpy(np.reshape(gradient.numpy()[
        tuple(key) if isinstance(key, list) else key], (2, 2)).copy()))
    before = y.data.clone()
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        y.data[key] = torch.ones(3).double()
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        y[key] = leaf(3)
    same_values(y.data, before)


def test_assigning_into_a_constant_puts_it_into_the_graph():
    x, y, z = leaf(5, requires_grad=False), leaf(1), leaf(1)
    x[0] = y
    x[1] = 2 * z
    assert x.requires_grad and x.grad_fn is not None
    x.sum().backward()
    same_values(y.grad.data, ones(1))
    same_values(z.grad.data, ones(1) * 2)


def test_assigning_into_a_leaf_that_requires_grad_is_refused():
    x = leaf(5)
    before = x.data.clone()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        x[0] = 1
    same_values(x.data, before)
