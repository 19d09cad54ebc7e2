"""What the pointwise rows do beyond the values and derivatives of the table's test."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import torchlite
from torchlite import _C
from torchlite.autograd import Variable

FLOAT = np.float32


def tensor(values, dtype=FLOAT):
    return torchlite.from_numpy(np.array(values, dtype))


def leaf(values, dtype=np.float64):
    return Variable(tensor(values, dtype), requires_grad=True)


# ---- element types --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 2.5, True, 1e300])
def test_a_number_does_not_change_the_type_of_a_float_tensor(number):
    for t in (tensor([1, 2]), tensor([[1, 2], [3, 4]]).t(), tensor(1.0)):
        assert (t * number).numpy().dtype == FLOAT
        assert (number - t).numpy().dtype == FLOAT


def test_an_integer_tensor_with_a_float_gives_double():
    assert (tensor([1, 2], np.int64) * 0.5).numpy().tolist() == [0.5, 1.0]
    assert (tensor([1, 2], np.int32) / 2.0).numpy().dtype == np.float64


def test_mixed_tensors_promote_as_numpy_does():
    assert (tensor([1], np.int64) + tensor([0.5])).numpy().dtype == np.float64
    assert (tensor([1], np.int8) + tensor([1], np.int32)).numpy().dtype == np.int32
    assert (tensor([1], np.float16) + tensor([1])).numpy().dtype == FLOAT


def test_in_place_keeps_the_type_and_refuses_to_lose_a_fraction():
    t = tensor([1, 2], np.int64)
    with pytest.raises(TypeError, match="add_: a result of type Double cannot be written into a tensor of type Long"):
        t.add_(0.5)
    with pytest.raises(TypeError, match="mul_: a result of type Double cannot be written into a tensor of type Long"):
        t.mul_(tensor([0.5, 0.5]))
    with pytest.raises(TypeError, match="exp_: a result of type Double cannot be written into a tensor of type Long"):
        t.exp_()
    assert t.numpy().tolist() == [1, 2]
    f = tensor([1, 2])
    f.add_(tensor([0.5, 0.5], np.float64))
    assert f.numpy().dtype == FLOAT and f.numpy().tolist() == [1.5, 2.5]


# ---- integers -------------------------------------------------------------------------------------------------------


def test_integer_division_truncates_toward_zero():
    a, b = tensor([7, -7, 7, -7, 6], np.int64), tensor([2, 2, -2, -2, 3], np.int64)
    assert (a / b).numpy().tolist() == [3, -3, -3, 3, 2]
    assert (a / 2).numpy().tolist() == [3, -3, 3, -3, 3]
    assert (-7 / b).numpy().tolist() == [-3, -3, 3, 3, -2]
    assert a.div_(4).numpy().tolist() == [1, -1, 1, -1, 1]


@pytest.mark.parametrize("name", ["div", "remainder", "fmod"])
def test_an_integer_divisor_of_zero_raises_and_changes_nothing(name):
    t = tensor([4, 6], np.int64)
    for divisor in (0, tensor([2, 0], np.int64)):
        with pytest.raises(ZeroDivisionError, match=f"{name}: integer division by zero"):
            getattr(t, name)(divisor)
    with pytest.raises(ZeroDivisionError):
        t.div_(0)
    assert t.numpy().tolist() == [4, 6]


def test_float_division_by_zero_is_silent():
    for t in (tensor([1, 0, -1]), tensor([[1, 0, -1]] * 2).t()):
        t = t / 0
        assert np.isinf(t.numpy()).sum() * 3 == 2 * t.numel() and np.isnan(t.numpy()).sum() * 3 == t.numel()
    assert tensor([[0.0, 1], [0, 1]]).t().log().numpy()[0, 0] == -np.inf


# ---- shapes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "a,b", [((), ()), ((), (1,)), ((1,), ()), ((1,), (1, 1)), ((3,), ()), ((0,), (1,)), ((2, 0), (1, 1))]
)
def test_results_have_the_shape_of_numpys_and_are_tensors(a, b):
    x, y = np.ones(a, FLOAT), np.ones(b, FLOAT)
    result = torchlite.from_numpy(x) + torchlite.from_numpy(y)
    assert isinstance(result, _C._TensorBase)
    assert tuple(result.size()) == np.add(x, y).shape


def test_sizes_that_do_not_broadcast_are_named():
    with pytest.raises(RuntimeError, match=r"add: .*\(2, 3\).*\(4,\)"):
        tensor(np.ones((2, 3))) + tensor(np.ones(4))


def test_in_place_broadcasts_the_operand_only():
    t = tensor(np.ones((2, 3)))
    t.add_(tensor([1, 2, 3]))
    assert t.numpy().tolist() == [[2, 3, 4]] * 2
    with pytest.raises(RuntimeError, match=r"add_: .*\(2, 2, 3\).*\(2, 3\)"):
        t.add_(tensor(np.ones((2, 2, 3))))
    assert t.numpy().tolist() == [[2, 3, 4]] * 2


def test_as_many_elements_in_other_sizes_are_paired_with_a_warning():
    x, y = leaf(np.arange(6).reshape(2, 3)), leaf(np.arange(6).reshape(3, 2))
    with pytest.warns(UserWarning, match="not broadcastable, but have the same number of elements"):
        z = x * y
    assert z.data.numpy().tolist() == [[0, 1, 4], [9, 16, 25]]
    z.sum().backward()
    assert x.grad.data.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert y.grad.data.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]


# ---- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [lambda a, b: a.add_(b), lambda a, b: a.sub_(b), lambda a, b: a.mul_(b)])
def test_operands_that_overlap_in_part_are_read_before_they_are_written(f):
    base = np.arange(1, 9, dtype=FLOAT)
    expected = base.copy()
    f(torchlite.from_numpy(expected[1:]), torchlite.from_numpy(expected[:-1].copy()))
    f(torchlite.from_numpy(base[1:]), torchlite.from_numpy(base[:-1]))
    assert base.tolist() == expected.tolist()


def test_scaled_add_writes_in_place():
    p, g = tensor(np.ones(1000)), tensor(np.arange(1000))
    memory = p.numpy()
    p.add_(-0.5, g)
    assert memory.tolist() == (1 - 0.5 * np.arange(1000)).tolist()


@pytest.mark.parametrize("name", ["add_", "exp_", "zero_", "tanh_", "clamp_", "masked_fill_"])
def test_read_only_memory_is_refused(name):
    a = np.ones(3, FLOAT)
    a.flags.writeable = False
    arguments = {"add_": (1,), "clamp_": (0, 1), "masked_fill_": (tensor([1, 0, 1], np.uint8), 2)}.get(name, ())
    with pytest.raises(RuntimeError, match="read-only"):
        getattr(torchlite.from_numpy(a), name)(*arguments)
    assert a.tolist() == [1, 1, 1]


@pytest.mark.parametrize("n", [16, 17000, 300001])
def test_every_length_gives_numpys_values(n):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, n)).astype(FLOAT)
    x, y = torchlite.from_numpy(a), torchlite.from_numpy(b)
    for got, expected in [(x + y, a + b), (x * 3, a * FLOAT(3)), (x.tanh(), np.tanh(a)), (x.exp(), np.exp(a)),
                          (x > y, a > b), (x.clamp(-1, 1), a.clip(-1, 1))]:
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6, atol=1e-7)


def test_threads_may_compute_at_the_same_time():
    a = np.random.default_rng(0).uniform(-2, 2, 50000).astype(FLOAT)
    x = torchlite.from_numpy(a)
    expected = (x.tanh() * x + 1).numpy()

    def work(_):
        return all((x.tanh() * x + 1).numpy().tobytes() == expected.tobytes() for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


# ---- kinks and special values ---------------------------------------------------------------------------------------


def test_where_sends_no_gradient_into_what_it_did_not_choose():
    x = leaf([0.0, 4.0])
    torchlite.where(x > 1, x.sqrt(), x * 3).sum().backward()
    assert x.grad.data.numpy()[1] == 0.25


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_tie_of_two_tensors_splits_the_gradient(name):
    x, y = leaf([1.0, 2.0, 5.0]), leaf([1.0, 3.0, 4.0])
    getattr(torchlite, name)(x, y).sum().backward()
    gx, gy = x.grad.data.numpy(), y.grad.data.numpy()
    assert (gx + gy).tolist() == [1, 1, 1]
    assert gx[0] == 0.5


def test_nan_wins_in_maximum_and_minimum():
    x, y = tensor([np.nan, 1.0]), tensor([0.0, np.nan])
    assert np.isnan(torchlite.maximum(x, y).numpy()).all()
    assert np.isnan(torchlite.minimum(x, y).numpy()).all()
    assert np.isnan(tensor([np.nan]).clamp(0, 1).numpy()).all()
    assert np.isnan(tensor([np.nan]).relu().numpy()).all()


def test_power_of_zero_has_a_finite_gradient():
    x = leaf([0.0, 2.0])
    (x ** leaf([0.0, 3.0])).sum().backward()
    assert x.grad.data.numpy().tolist() == [0, 12]
    y = leaf([0.0, -1.0])
    (y**2 + y**0 + y**1).sum().backward()
    assert y.grad.data.numpy().tolist() == [1, -1]


def test_abs_and_relu_have_gradient_zero_at_zero():
    x = leaf([0.0])
    (x.abs() + x.relu()).backward()
    assert x.grad.data.numpy().tolist() == [0]


def test_clamp_without_limits_is_an_error():
    with pytest.raises(ValueError, match="clamp requires specifying at least one of min and max arguments"):
        tensor([1.0]).clamp()


def test_clamp_of_integers_promotes_as_numpy_does():
    t = tensor([0, 2, 5], np.int64)
    assert t.clamp(1, 3).numpy().tolist() == [1, 2, 3]
    assert t.clamp(1, 2.5).numpy().tolist() == [1, 2, 2.5]
    assert t.clamp_(1, 3) is t and t.numpy().tolist() == [1, 2, 3]
    with pytest.raises(TypeError):
        t.clamp_(1, 2.5)
    assert t.numpy().tolist() == [1, 2, 3]


def test_rounding_halves_go_away_from_zero():
    assert tensor([0.5, 1.5, -0.5, -2.5]).round().numpy().tolist() == [1, 2, -1, -3]


def test_the_opposite_of_a_mask():
    mask = tensor([0, 1], np.uint8)
    assert (~mask).numpy().tolist() == [1, 0]
    assert (mask & 1 | mask ^ 1).numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="supported on ByteTensors only"):
        ~tensor([1], np.int64)


def test_half_goes_through_float():
    x = tensor([-1.0, 0.5, 2.0], np.float16)
    for f, g in [("tanh", np.tanh), ("exp", np.exp), ("sigmoid", lambda a: 1 / (1 + np.exp(-a)))]:
        got = getattr(x, f)().numpy()
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, g(x.numpy().astype(FLOAT)), rtol=1e-3)


def test_the_in_place_form_saves_what_its_gradient_needs():
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    z = x * 1
    z.mul_(y)
    z.exp_().sum().backward()
    expected = np.exp(np.array([10.0, 21.0]))
    np.testing.assert_allclose(x.grad.data.numpy(), expected * [5, 7])
    np.testing.assert_allclose(y.grad.data.numpy(), expected * [2, 3])


def test_arrays_and_numpy_scalars_are_operands():
    v = leaf([1.0, 2.0])
    for z in (v * np.array([3.0, 4.0]), np.array([3.0, 4.0]) * v):
        assert isinstance(z, Variable)
        assert z.data.numpy().tolist() == [3, 8]
    assert (np.float64(2) * v).data.numpy().tolist() == [2, 4]


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "lshift", "rshift"])
@pytest.mark.parametrize("left, right", [([1.0], [1.0]), ([1.0], 1)], ids=["tensors", "number"])
def test_fractions_have_no_bits(name, left, right):
    t = torchlite.DoubleTensor(left)
    other = torchlite.DoubleTensor(right) if isinstance(right, list) else right
    for call in (getattr(t, name), getattr(t, name + "_")):
        with pytest.raises(RuntimeError, match=f"{name}.*: logical operations are supported on ByteTensors only"):
            call(other)
    assert t.tolist() == left
