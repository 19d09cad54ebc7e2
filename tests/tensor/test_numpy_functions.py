"""NumPy's functions and operators on tensors."""

import numpy as np
import pytest

import torchlite
from torchlite.autograd import Variable


def tensor(values, dtype=np.float64):
    return torchlite.from_numpy(np.array(values, dtype))


@pytest.mark.parametrize("function", [np.exp, np.sqrt, np.negative, np.isnan])
def test_universal_function_gives_a_tensor(function):
    t = tensor([[1.0, 4.0], [9.0, 16.0]])
    result = function(t.t())
    assert isinstance(result, torchlite._C._TensorBase)
    np.testing.assert_array_equal(result.numpy(), function(t.numpy().T))


def test_universal_function_of_a_0_d_tensor_stays_0_d():
    result = np.exp(tensor(0.0, np.float32))
    assert result.numpy().shape == () and result.numpy().dtype == np.float32


def test_universal_function_with_several_results():
    quotient, remainder = np.divmod(tensor([7.0]), 2)
    assert (quotient[0], remainder[0]) == (3.0, 1.0)


def test_universal_function_writes_into_a_tensor():
    t = tensor([1.0, 2.0])
    assert np.add(t, 1, out=t) is t
    np.testing.assert_array_equal(t.numpy(), [2.0, 3.0])


def test_universal_function_method():
    assert np.add.reduce(tensor([1.0, 2.0])).numpy() == 3.0


def test_result_without_a_tensor_type_stays_an_array():
    assert np.multiply(tensor([1.0]), 1j, dtype=complex).dtype == complex


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "**", "==", "<", ">="])
@pytest.mark.parametrize("left", [np.array([1.0, 2.0]), np.float64(2.0)], ids=["array", "scalar"])
def test_operator_with_numpy_on_the_left_gives_a_tensor(operator, left):
    t = tensor([3.0, 4.0])
    result = eval(f"left {operator} t", {"left": left, "t": t})
    expected = eval(f"left {operator} t", {"left": left, "t": t.numpy()})
    np.testing.assert_array_equal(result.numpy() if hasattr(result, "numpy") else result, expected)
    assert not isinstance(result, np.ndarray)


@pytest.mark.parametrize(
    "function", [np.sum, np.mean, np.max, np.prod, np.cumsum, np.transpose, lambda t: np.sum(t, axis=0)]
)
def test_other_functions_give_what_they_give_for_arrays(function):
    t = tensor([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(function(t), function(t.numpy()))


def test_other_functions_find_tensors_in_sequences():
    t = tensor([1.0])
    assert isinstance(np.concatenate([t, t]), np.ndarray)
    np.testing.assert_array_equal(np.concatenate([t, np.ones(1), t]), [1.0, 1.0, 1.0])


def test_variables_are_not_taken_for_tensors():
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.multiply(tensor([1.0]), Variable(np.ones(1)))


def test_copy_is_a_contiguous_copy():
    t = tensor([[1.0, 2.0], [3.0, 4.0]])
    c = t.t().copy()
    assert c.is_contiguous()
    c.fill_(0)
    assert t.numpy()[0, 0] == 1.0
