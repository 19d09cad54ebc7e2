"""What the reducing rows do beyond the values and derivatives of the table's test."""

import numpy as np
import pytest

import torchlite
from torchlite.autograd import Variable


def tensor(values, dtype=np.float32):
    return torchlite.from_numpy(np.array(values, dtype))


def leaf(values):
    return Variable(tensor(values, np.float64), requires_grad=True)


def gradient(f, x):
    f(x).sum().backward()
    return x.grad.data.numpy()


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std", "norm"])
def test_a_full_reduction_is_a_number_of_a_tensor_and_of_size_one_of_a_variable(name):
    t = tensor([[1, 2], [3, 4]])
    assert isinstance(getattr(t, name)(), float)
    assert tuple(getattr(Variable(t), name)().size()) == (1,)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "norm"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_vector_reduced_along_its_dimension_has_size_one(name, keepdim):
    t = tensor([1, 2, 3])
    arguments = (2, 0) if name == "norm" else (0,)
    assert tuple(getattr(t, name)(*arguments, keepdim=keepdim).size()) == (1,)


def test_sums_of_integers_are_integers():
    t = tensor([[200, 100], [1, 2]], np.uint8)
    assert t.sum() == 303 and isinstance(t.sum(), int)
    assert tensor([1, 2], np.int32).prod() == 2


def test_half_accumulates_in_float():
    ones = tensor(np.ones(70000), np.float16)
    assert ones.mean() == 1.0
    assert ones.sum() == np.inf  # 70000 is beyond what half holds
    assert tensor(np.full((4096, 2), 1), np.float16).sum(0).numpy().tolist() == [4096, 4096]
    assert ones.mean(0).numpy().dtype == np.float16


def test_long_float_sums_are_accurate():
    x = np.full(10_000_001, 0.1, np.float32)
    assert torchlite.from_numpy(x).sum() == pytest.approx(float(x.astype(np.float64).sum()), rel=1e-7)


def test_nan_wins_in_max_and_min_as_in_numpy():
    t = tensor([[1, np.nan, 3], [4, 5, 6]])
    for name in ("max", "min"):
        values, indices = getattr(t, name)(1)
        assert np.isnan(values.numpy()[0]) and indices.numpy()[0] == 1
        assert np.isnan(getattr(t, name)())


def test_the_first_of_equal_elements_takes_the_gradient():
    assert gradient(lambda x: x.max(), leaf([1, 3, 3])).tolist() == [0, 1, 0]
    assert gradient(lambda x: x.min(1)[0], leaf([[2, 2], [3, 1]])).tolist() == [[1, 0], [0, 1]]


def test_indices_of_max_are_long_and_carry_no_gradient():
    values, indices = leaf([[1, 2], [4, 3]]).max(1)
    assert indices.data.numpy().dtype == np.int64 and indices.data.numpy().tolist() == [1, 0]
    assert values.requires_grad and not indices.requires_grad


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_to_choose_from_is_an_error(name):
    with pytest.raises(RuntimeError, match=rf"{name}: cannot reduce .*\(0, 3\)"):
        getattr(tensor(np.ones((0, 3))), name)()
    with pytest.raises(RuntimeError, match=rf"{name}: cannot reduce .*\(0, 3\)"):
        getattr(tensor(np.ones((0, 3))), name)(0)


@pytest.mark.parametrize("dim", [2, -3, (0, 5)])
def test_a_dimension_out_of_range_is_an_error(dim):
    with pytest.raises(RuntimeError, match="dimension out of range"):
        tensor([[1, 2]]).sum(dim)


@pytest.mark.parametrize("dim", ["a", 1.5, (0, "a")])
def test_a_dimension_that_is_no_int_is_an_error(dim):
    with pytest.raises(TypeError):
        tensor([[1, 2]]).sum(dim)


@pytest.mark.parametrize("values", [[], [3]])
def test_the_variance_of_too_few_elements_is_nan(values):
    assert np.isnan(tensor(values).var())


def test_a_dimension_named_twice_is_an_error():
    with pytest.raises(RuntimeError, match="dim 1 appears more than once"):
        tensor([[1, 2]]).sum((1, -1))


@pytest.mark.parametrize("p", [2, 1, 3, np.inf])
def test_the_norm_of_the_zero_vector_has_gradient_zero(p):
    assert gradient(lambda x: x.norm(p), leaf([0, 0, 0])).tolist() == [0, 0, 0]


def test_ties_of_the_infinity_norm_share_the_gradient():
    assert gradient(lambda x: x.norm(np.inf), leaf([2, -2, 1])).tolist() == [0.5, -0.5, 0]


def test_std_of_equal_elements_has_gradient_zero():
    assert gradient(lambda x: x.std(), leaf([2, 2, 2])).tolist() == [0, 0, 0]


def test_unbiased_may_stand_alone():
    t = tensor([1, 2, 3, 6])
    assert t.var(False) == pytest.approx(np.var([1, 2, 3, 6]))
    assert t.var(True) == t.var() == pytest.approx(np.var([1, 2, 3, 6], ddof=1))


def test_logsumexp_neither_overflows_nor_spreads_nan():
    assert tensor([1000.0, 1000.0]).logsumexp(0).numpy()[0] == pytest.approx(1000 + np.log(2))
    x = leaf([[-np.inf, -np.inf], [0, 0]])
    assert gradient(lambda v: v.logsumexp(1), x).tolist() == [[0, 0], [0.5, 0.5]]


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_the_gradient_of_a_product_is_exact_at_zeros(zeros):
    values = np.array([2.0, 3, 5])
    values[:zeros] = 0
    expected = [np.delete(values, k).prod() for k in range(3)]
    assert gradient(lambda x: x.prod(), leaf(values)).tolist() == expected


def test_max_of_two_tensors_is_elementwise():
    a, b = tensor([1, 5]), tensor([4, 2])
    assert a.max(b).numpy().tolist() == [4, 5]
    assert a.min(b).numpy().tolist() == [1, 2]


def test_all_and_any_of_masks():
    mask = tensor([[1, 0], [1, 1]], np.uint8)
    assert mask.any() and not mask.all()
    assert mask.all(1).numpy().tolist() == [0, 1]
