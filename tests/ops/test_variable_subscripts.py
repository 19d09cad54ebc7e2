"""Subscripts of Variables: what keys mean, what their gradients are, and what is refused."""

import numpy as np
import pytest

import torchlite
from torchlite import Variable


def variable(*shape, dtype="float64", requires_grad=True):
    values = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    return Variable(torchlite.from_numpy(values), requires_grad=requires_grad)


def numpy(v):
    return v.data.numpy()


KEYS = {
    "int": 1,
    "negative int": -1,
    "numpy int": np.int64(2),
    "slice": slice(1, None),
    "negative step": slice(None, None, -1),
    "nothing": slice(2, 2),
    "tuple": (1, slice(0, 3, 2)),
    "none and ellipsis": (None, Ellipsis, 1),
    "list": [2, 0, 2],
    "list of bools": [True, False, True],
    "array": np.array([[0, 1], [2, 2]]),
    "int32 array": np.array([2, 1], "int32"),
    "mask array": np.array([[True, False, True, True]] * 3),
    "tuple of lists": ([0, 1, 0], [3, 2, 3]),
    "slice and list": (slice(None), [1, 1, 0]),
    "newaxis and list": (None, [1, 0], slice(1, 3)),
    "empty list": [],
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_key_means_what_it_means_to_numpy(key):
    x = variable(3, 4)
    y = x[key]
    expected = numpy(x)[key]
    np.testing.assert_array_equal(numpy(y), expected)
    seed = np.random.default_rng(0).uniform(1, 2, expected.shape)
    y.backward(torchlite.from_numpy(seed))
    gradient = np.zeros((3, 4))
    np.add.at(gradient, key, seed)
    np.testing.assert_allclose(numpy(x.grad), gradient)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_assignment_means_what_it_means_to_numpy(key):
    x = variable(3, 4)
    value = Variable(torchlite.from_numpy(np.full((1,), 9.0)), requires_grad=True)
    y = x * 1
    y[key] = value
    expected = numpy(x).copy()
    expected[key] = 9
    np.testing.assert_array_equal(numpy(y), expected)
    y.sum().backward()
    written = np.zeros((3, 4))
    written[key] = 1
    np.testing.assert_array_equal(numpy(x.grad), 1 - written)
    assert numpy(value.grad).item() == numpy(x)[key].size


def test_full_int_index_has_one_dimension():
    assert variable(3)[1].size() == (1,)
    assert variable(3, 4)[1, 2].size() == (1,)


def test_list_of_one_sequence_per_dimension_means_a_tuple():
    x = variable(3, 4)
    np.testing.assert_array_equal(numpy(x[[[0, 2], [1, 3]]]), numpy(x)[[0, 2], [1, 3]])
    np.testing.assert_array_equal(numpy(x[[slice(None), [1, 3]]]), numpy(x)[:, [1, 3]])


def test_tensor_and_variable_keys():
    x = variable(3, 4)
    rows = torchlite.LongTensor([2, 0])
    np.testing.assert_array_equal(numpy(x[rows]), numpy(x)[[2, 0]])
    np.testing.assert_array_equal(numpy(x[Variable(rows)]), numpy(x)[[2, 0]])
    mask = numpy(x) > 5
    np.testing.assert_array_equal(numpy(x[x > 5]), numpy(x)[mask])
    np.testing.assert_array_equal(numpy(x[(x > 5).data]), numpy(x)[mask])


def test_mask_assignment_takes_elements_in_order():
    x = variable(3, 4, requires_grad=False)
    x[x > 8] = Variable(torchlite.DoubleTensor([-1, -2, -3]))
    np.testing.assert_array_equal(numpy(x).reshape(-1)[9:], [-1, -2, -3])


def test_whatever_is_not_zero_selects():
    mask = torchlite.ByteTensor([2, 0, 255, 0])
    x = variable(4)
    assert numpy(x.masked_select(Variable(mask))).tolist() == numpy(x[mask]).tolist() == [0, 2]


def test_repeated_indices_add_up():
    x = variable(3)
    x[[1, 1, 0]].backward(torchlite.DoubleTensor([1, 10, 100]))
    np.testing.assert_array_equal(numpy(x.grad), [100, 11, 0])


def test_repeated_indices_add_up_in_half_precision():
    x = Variable(torchlite.HalfTensor(2).fill_(1), requires_grad=True)
    x[[0] * 3000].backward(torchlite.HalfTensor(3000).fill_(1))
    assert x.grad.data.numpy().dtype == np.float16
    np.testing.assert_array_equal(numpy(x.grad), [3000, 0])


def test_index_array_is_copied():
    x, index = variable(3), np.array([1, 1, 0])
    y = x[index]
    index[:] = 2
    y.backward(torchlite.DoubleTensor([1, 10, 100]))
    np.testing.assert_array_equal(numpy(x.grad), [100, 11, 0])


def test_basic_index_shares_memory_and_version():
    x = variable(3, 4, requires_grad=False)
    y = x[1:]
    y.data.fill_(7)
    assert (numpy(x)[1:] == 7).all()
    with pytest.raises(RuntimeError, match="in-place"):
        x.add_(1)
    del y
    x.add_(1)


def test_advanced_index_is_a_copy():
    x = variable(3, 4, requires_grad=False)
    y = x[[0, 1]]
    x.add_(1)
    np.testing.assert_array_equal(numpy(y), numpy(x)[:2] - 1)


def test_int_key_out_of_range_names_index_and_size():
    with pytest.raises(IndexError, match=r"index 3 is out of range for dimension 0 \(of size 3\)"):
        variable(3, 4)[3]
    with pytest.raises(IndexError, match="index -4 is out of range"):
        variable(3, 4)[-4]
    with pytest.raises(IndexError, match="7"):
        variable(3, 4)[[0, 7]]


@pytest.mark.parametrize("key", ["a", 1.5, {}, [0.5], np.array([1.0])], ids=repr)
def test_other_keys_are_refused(key):
    x = variable(3, 4, requires_grad=False)
    with pytest.raises(TypeError, match="Performing basic indexing .* encountered an error indexing dim 0"):
        x[key]
    with pytest.raises(TypeError, match="encountered an error indexing dim 0"):
        x[key] = 1
    np.testing.assert_array_equal(numpy(x), numpy(variable(3, 4)))


def test_too_many_indices_are_refused():
    with pytest.raises(IndexError, match="trying to index 3 dimensions of a 2 dimensional tensor"):
        variable(3, 4)[1, 1, 1]


def test_failed_assignment_leaves_values_and_version():
    x = variable(3, 4, requires_grad=False)
    version = x._version
    with pytest.raises((ValueError, RuntimeError)):
        x[1] = Variable(torchlite.DoubleTensor([1, 2, 3]))
    np.testing.assert_array_equal(numpy(x), numpy(variable(3, 4)))
    assert x._version == version


def test_leaf_that_requires_grad_is_not_assigned():
    x = variable(3)
    with pytest.raises(RuntimeError):
        x[0] = 1
    np.testing.assert_array_equal(numpy(x), [0, 1, 2])


def test_elements_are_not_deleted():
    x = variable(3)
    with pytest.raises(TypeError):
        del x[0]


def long(*values):
    return torchlite.LongTensor(values)


MISUSES = {
    "index_select beyond the end": (lambda x: x.index_select(0, long(3)), "got 3 for dimension 0 of size 3"),
    "index_select with a matrix": (lambda x: x.index_select(0, torchlite.LongTensor([[0]])), "supposed to be a vector"),
    "index_add with too few": (lambda x: x.index_add_(0, long(0), x.clone()), "1 indices and size 3"),
    "index_copy of another size": (lambda x: x.index_copy_(0, long(0), x[:1, :2]), r"\(1, 2\).*\(3, 4\)"),
    "gather with other dimensions": (lambda x: x.gather(0, long(0)), "Invalid index in gather"),
    "gather beyond the end": (lambda x: x.gather(1, torchlite.LongTensor([[4]])), "got 4 for dimension 1 of size 4"),
    "scatter of another size": (lambda x: x.scatter_(0, torchlite.LongTensor([[0]]), x), r"\(3, 4\).*\(1, 1\)"),
    "masked_scatter with too few": (
        lambda x: x.masked_scatter_(torchlite.ByteTensor([1, 1, 1, 1]), x[0]),
        "Number of elements of src < number of ones in mask: 4 and 12",
    ),
}


@pytest.mark.parametrize(("misuse", "message"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_refused_and_changes_nothing(misuse, message):
    x = variable(3, 4).data
    with pytest.raises(RuntimeError, match=message):
        misuse(x)
    np.testing.assert_array_equal(x.numpy(), numpy(variable(3, 4)))


def test_index_of_the_wrong_type_is_refused():
    x = variable(3, 4).data
    with pytest.raises(TypeError, match="expected an index of type Long, but got Double"):
        x.index_select(0, torchlite.DoubleTensor([1]))
    with pytest.raises(TypeError, match="mask of type Byte, but got Long"):
        x.masked_select(long(1, 0, 0, 0))


def test_in_place_forms_read_their_own_memory_safely():
    x = variable(3, 2).data
    x.index_copy_(0, long(0, 1, 2), x.index_select(0, long(1, 2, 0)))
    np.testing.assert_array_equal(x.numpy(), [[2, 3], [4, 5], [0, 1]])
    x = variable(3).data
    x.index_add_(0, long(1, 2), x[:2])
    np.testing.assert_array_equal(x.numpy(), [0, 1, 3])


def test_data_replaced_while_the_value_is_converted():
    x = variable(3, requires_grad=False)

    class Value:
        def __array__(self, dtype=None, copy=None):
            x.data = torchlite.DoubleTensor([5, 6, 7])
            return np.array(1.0)

    x[0] = Value()
    assert numpy(x).tolist() == [1, 6, 7]
