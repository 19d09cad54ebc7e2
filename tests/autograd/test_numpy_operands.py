"""Variables beside NumPy: arrays and scalars as operands, types and sizes of results and gradients, conversions."""

import time

import numpy as np
import pytest
from leaves import constant, leaf, values

import torchlite
from torchlite.autograd import Variable, grad


def array(v):
    return v.data.numpy()


def same(v, expected):
    """``v`` has the values, the size and the element type of an array."""
    assert isinstance(v, Variable)
    expected = np.asarray(expected)
    np.testing.assert_array_equal(array(v), expected)
    assert array(v).dtype == expected.dtype and array(v).shape == expected.shape


OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "%": lambda a, b: a % b,
}
operators = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}

# ---- operands -----------------------------------------------------------------------------------------------------


@operators
@pytest.mark.parametrize("shape", [(2,), (1,), (), (3, 2)], ids=str)
def test_an_array_is_an_operand_on_either_side(operator, shape):
    a, b = np.array([1.5, 2.5]), np.full(shape, 2.0)
    same(operator(leaf(a), b), operator(a, b))
    same(operator(b, leaf(a)), operator(b, a))


@pytest.mark.parametrize("compare", COMPARISONS.values(), ids=COMPARISONS)
def test_an_array_is_compared_element_by_element_from_either_side(compare):
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0])
    for result in (compare(leaf(a), b), compare(a, leaf(b))):
        assert isinstance(result, Variable) and not result.requires_grad
        np.testing.assert_array_equal(array(result).astype(bool), compare(a, b))


SCALARS = [2, 2.5, True, np.float32(2.5), np.float64(2.5), np.float16(2.5), np.int64(3), np.int8(3), np.bool_(True)]


@operators
@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_type_of_a_result_is_numpys_and_that_of_a_gradient_the_datas(operator, scalar, dtype):
    if operator is OPERATORS["%"] and isinstance(scalar, (bool, np.bool_)):
        return  # remainders of bools are no operation of NumPy's
    a = np.array([1.5, 2.5], dtype)
    expected = operator(a, scalar)
    for x, y in ((leaf(a, dtype=dtype), None), (None, leaf(a, dtype=dtype))):
        v = x if x is not None else y
        result = operator(v, scalar) if x is not None else operator(scalar, v)
        reference = expected if x is not None else operator(scalar, a)
        assert array(result).dtype == reference.dtype
        np.testing.assert_allclose(array(result), reference, rtol=2e-3 if dtype == np.float16 else 1e-6)
        result.sum().backward()
        assert array(v.grad).dtype == dtype and array(v.grad).shape == (2,)


@pytest.mark.parametrize("a", [np.float16, np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("b", [np.float16, np.float32, np.float64, np.int64, np.uint8])
def test_types_are_promoted_as_numpy_promotes_them(a, b):
    x, y = np.array([1, 2], a), np.array([3, 4], b)
    floating = [np.issubdtype(d, np.floating) for d in (a, b)]
    v, w = leaf(x, floating[0], dtype=a), leaf(y, floating[1], dtype=b)
    result = v * w
    same(result, x * y)
    if any(floating):
        result.sum().backward()
    for u, d, needs in ((v, a, floating[0]), (w, b, floating[1])):
        assert (u.grad is not None) == needs and (not needs or array(u.grad).dtype == d)


def test_a_0d_array_counts_as_an_array_not_as_a_number():
    x = leaf([1.0, 2.0], dtype=np.float32)
    assert array(x * np.array(2.0)).dtype == (np.ones(2, np.float32) * np.array(2.0)).dtype
    assert array(x * 2.0).dtype == np.float32


@pytest.mark.parametrize("operand", ["text", None, [1.0, 2.0], (1.0,), object(), {}], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("operator", [OPERATORS["+"], OPERATORS["*"], OPERATORS["/"]])
def test_other_operands_are_type_errors(operator, operand):
    for call in (lambda: operator(leaf([1.0, 2.0]), operand), lambda: operator(operand, leaf([1.0, 2.0]))):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("dtype", [np.complex128, np.dtype("M8[s]"), object, "U3"], ids=str)
def test_arrays_of_other_types_are_type_errors(dtype):
    with pytest.raises(TypeError):
        leaf([1.0, 2.0]) + np.zeros(2, dtype)


def test_ufuncs_leave_variables_alone():
    with pytest.raises(TypeError):
        np.exp(leaf([1.0]))
    with pytest.raises(TypeError):
        np.add(np.ones(1), leaf([1.0]))


def test_an_array_written_in_place_with_a_variable_is_refused_or_a_variable():
    a = np.ones(2)
    b = a
    try:
        b += leaf([1.0, 2.0])
    except TypeError:
        return
    assert isinstance(b, Variable) and a.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_variable_is_written_in_place_with_arrays_and_scalars(dtype):
    v = leaf([1.0, 2.0], dtype=dtype) * 1
    for operand in (np.ones(2, dtype), np.float32(2), 3, np.array(1, dtype)):
        v += operand
    assert values(v) == [8, 9] and array(v).dtype == dtype


def test_matmul_takes_arrays():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2)
    same(leaf(a) @ b, a @ b)
    same(a @ leaf(b), a @ b)


def test_an_operation_with_an_array_has_the_arrays_memory_as_a_constant():
    x, a = leaf([1.0, 2.0]), np.array([3.0, 4.0])
    (x * a).sum().backward()
    assert values(x.grad) == [3, 4]


# ---- 0-d, broadcast, zero-size ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_0d_values_stay_0d(dtype):
    a, b = leaf(3.0, dtype=dtype), leaf(4.0, dtype=dtype)
    y = a + b * a
    same(y, np.array(15, dtype))
    for _ in range(2):
        (a + b * a).backward()
    same(a.grad, np.array(10, dtype))
    same(b.grad, np.array(6, dtype))
    assert isinstance(array(a.grad), np.ndarray)


def test_a_full_reduction_has_one_element():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert tuple(x.sum().size()) == (1,) and values(x.sum()) == [10]
    x.sum().backward()
    assert values(x.grad) == [[1, 1], [1, 1]]


SHAPES = [((), (1,)), ((), (2, 3)), ((3, 1), (1, 4)), ((0,), (1,)), ((2, 0, 3), (3,)), ((1, 1), (5, 4, 3)),
          ((2, 1, 3), (4, 1)), ((1,), (0, 2)), ((0, 1), (1, 0))]  # fmt: skip


@pytest.mark.parametrize("operator", [OPERATORS["+"], OPERATORS["-"], OPERATORS["*"], OPERATORS["/"]])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_the_gradient_of_a_broadcast_operand_has_its_size(operator, shapes, dtype):
    a, b = leaf(np.full(shapes[0], 2.0), dtype=dtype), leaf(np.full(shapes[1], 4.0), dtype=dtype)
    y = operator(a, b)
    assert array(y).shape == np.broadcast_shapes(*shapes)
    y.backward(np.ones(array(y).shape, dtype))
    da, db = (operator(2.0 + e, 4.0 + f) for e, f in ((1e-6, 0), (0, 1e-6)))
    for v, moved in ((a, da), (b, db)):
        expected = np.full(v.data.size(), (moved - operator(2.0, 4.0)) / 1e-6 * y.data.numel() / max(v.data.numel(), 1))
        assert array(v.grad).shape == tuple(v.size()) and array(v.grad).dtype == dtype
        np.testing.assert_allclose(array(v.grad), expected, rtol=1e-2)


EMPTY = {
    "mm": lambda x: x.mm(constant(np.ones((3, 2)))),
    "mm from the right": lambda x: constant(np.ones((2, 0))).mm(x),
    "sum": lambda x: x.sum(),
    "sum of a dimension": lambda x: x.sum(0),
    "cat": lambda x: torchlite.cat([x, x, constant(np.ones((2, 3)))]),
    "exp": lambda x: x.exp(),
    "view": lambda x: x.view(3, 0),
    "transpose": lambda x: x.t(),
    "slice": lambda x: x[:0],
    "mask": lambda x: x[x.data.gt(0)],
    "expand": lambda x: x.expand(4, 0, 3),
    "pow": lambda x: x**2,
    "clamp": lambda x: x.clamp(0, 1),
}


@pytest.mark.parametrize("operation", EMPTY.values(), ids=EMPTY)
def test_gradients_of_nothing_are_zeros_of_the_right_size(operation):
    x = leaf(np.ones((0, 3)))
    y = operation(x)
    y.backward(np.ones(tuple(y.size())))
    assert tuple(x.grad.size()) == (0, 3)


def test_an_index_that_selects_nothing_gives_zeros():
    for key in ([], slice(3, 3), np.zeros(4, bool), np.array([], int)):
        x = leaf([1.0, 2.0, 3.0, 4.0])
        y = x[key]
        assert tuple(y.size()) == (0,)
        y.backward(np.ones(0))
        assert values(x.grad) == [0, 0, 0, 0]


@pytest.mark.parametrize("shapes", [((2,), (1,)), ((1,), (2,)), ((1,), (1,)), ((2, 3), (3,)), ((2, 3), (1, 1))])
def test_a_distance_of_broadcast_operands_has_gradients_of_their_sizes(shapes):
    a, b = leaf(np.full(shapes[0], 2.0)), leaf(np.full(shapes[1], 5.0))
    n = np.prod(np.broadcast_shapes(*shapes))
    a.dist(b).backward()
    for v, sign in ((a, -1), (b, 1)):
        np.testing.assert_allclose(array(v.grad), np.full(v.data.size(), sign * n / v.data.numel() / np.sqrt(n)))


def test_a_mask_that_requires_grad_gets_none():
    x, mask = constant([1.0, 2.0]), leaf([1.0, 0.0])
    y = x.masked_fill(mask, 7.0)
    assert values(y) == [7, 2]
    y.sum().backward()
    assert mask.grad is None


# ---- indexing -----------------------------------------------------------------------------------------------------

KEYS = {
    "repeated": ((3,), [1, 1, 0]),
    "negative": ((3,), [-1, -1, 0]),
    "array": ((3,), np.array([2, 2, 2, 0])),
    "tensor": ((3,), torchlite.LongTensor([0, 0])),
    "mask": ((3,), np.array([True, False, True])),
    "tuple of arrays": ((3, 4), (np.array([0, 0, 2]), np.array([1, 1, 3]))),
    "array and slice": ((3, 4), (np.array([0, 0]), slice(None, None, 2))),
    "slice and array": ((3, 4), (slice(1, None), np.array([3, 3, 0]))),
    "array and number": ((3, 4), (np.array([0, 0]), 1)),
    "new axis": ((3, 4), (None, np.array([1, 1]), None)),
    "ellipsis": ((2, 3, 4), (..., np.array([0, 0, 3]))),
    "negative step": ((5,), slice(None, None, -2)),
    "2-d array": ((3, 4), np.array([[0, 0], [2, 0]])),
    "mask of rows": ((3, 4), np.array([True, False, True])),
    "mask of all": ((2, 2), np.array([[True, False], [True, True]])),
    "number": ((3, 4), 1),
    "numpy number": ((3, 4), np.int64(-1)),
    "arrays apart": ((3, 4, 2), (np.array([0, 0]), slice(None), np.array([1, 1]))),
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("case", KEYS.values(), ids=KEYS)
def test_the_gradient_of_an_index_adds_up_what_was_picked_repeatedly(case, dtype):
    shape, key = case
    key_of_numpy = key.numpy() if isinstance(key, torchlite.LongTensor) else key
    a = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    x = leaf(a, dtype=dtype)
    y = x[key]
    picked = a[key_of_numpy]
    same(y, picked)
    weights = (np.arange(picked.size).reshape(picked.shape) + 1).astype(dtype)
    y.backward(weights)
    expected = np.zeros(shape, dtype)
    np.add.at(expected, key_of_numpy, weights)
    same(x.grad, expected)


# ---- kinks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 1, 3])
def test_the_norm_of_a_zero_vector_has_gradient_zero(p):
    x = leaf([0.0, 0.0])
    x.norm(p).backward()
    assert values(x.grad) == [0, 0]
    x.grad = None
    (x.norm(p) ** 2).backward()
    assert values(x.grad) == [0, 0]


def test_a_hand_written_norm_of_a_zero_vector_stays_undefined():
    x = leaf([0.0, 0.0])
    (x * x).sum().sqrt().backward()
    assert np.isnan(array(x.grad)).all()


@pytest.mark.parametrize("bad", [np.inf, np.nan, -np.inf])
def test_unselected_places_get_exactly_nothing(bad):
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    mask = Variable(np.array([1, 0], np.uint8))
    y = torchlite.where(mask, a, b)
    y.backward(np.array([bad, 1.0]))
    assert values(b.grad) == [0, 1] and values(a.grad)[1] == 0
    for x in (leaf([1.0, 2.0]), leaf([1.0, bad])):
        x.clamp(0, 1.5).backward(np.array([1.0, bad]))
        assert values(x.grad)[0] == 1
    x = leaf([1.0, 2.0])
    x.masked_fill(mask, 0).backward(np.array([bad, 1.0]))
    assert values(x.grad) == [0, 1]


def test_the_gradients_of_a_tie_sum_to_one():
    a, b = leaf([1.0, 2.0]), leaf([1.0, 5.0])
    torchlite.max(a, b).sum().backward()
    assert (array(a.grad) + array(b.grad)).tolist() == [1, 1]
    x = leaf([3.0, 3.0, 1.0])
    x.max().backward()
    assert array(x.grad).sum() == 1


# ---- float16 ------------------------------------------------------------------------------------------------------


def test_half_precision_reductions_do_not_overflow_on_the_way():
    x = leaf(np.ones(70_000), dtype=np.float16)
    mean = x.mean()
    assert values(mean) == [1.0]
    mean.backward()
    assert array(x.grad).dtype == np.float16 and (array(x.grad) > 0).all()
    assert np.isinf(values(x.sum())[0]) or values(x.sum())[0] > 60_000


def test_half_precision_gradients_accumulate_in_half_precision():
    x = leaf([1.0, 2.0], dtype=np.float16)
    for _ in range(3):
        (x * x).sum().backward()
    same(x.grad, np.array([6, 12], np.float16))


# ---- strides ------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "reversed rows, transposed": lambda a: a[::-1].T,
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "every other": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "Fortran": np.asfortranarray,
    "broadcast": lambda a: np.broadcast_to(a[0], (2, 3)),
    "swapped bytes": lambda a: a.astype(">f8"),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), offset=1).reshape(2, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_order_in_memory_changes_no_value(layout):
    a = layout(np.arange(6.0).reshape(2, 3))
    weights = np.arange(6.0).reshape(a.shape)
    x = Variable(a, requires_grad=True)
    np.testing.assert_array_equal(array(x), a)
    y = (x * weights).sum()
    assert values(y) == [(a * weights).sum()]
    y.backward()
    np.testing.assert_array_equal(array(x.grad), weights)
    plain = leaf(np.array(a))
    operations = [
        lambda v: v * 2,
        lambda v: v.t(),
        lambda v: v.sum(0),
        lambda v: v.contiguous().view(-1),
        lambda v: v @ v.t(),
        lambda v: torchlite.cat([v, v]),
        lambda v: v[0],
        lambda v: v.max(1)[0],
    ]
    for f in operations:
        np.testing.assert_array_equal(array(f(x)), array(f(plain)))
        seed = np.arange(1.0, 1 + f(x).data.numel()).reshape(f(x).size())
        got, expected = grad(f(x), x, seed), grad(f(plain), plain, seed)
        np.testing.assert_array_equal(array(got[0]), array(expected[0]))


def test_huge_virtual_sizes_are_counted_in_64_bits():
    v = Variable(np.broadcast_to(np.float32(1), (2**33,)), requires_grad=True)
    assert v.numel() == 2**33 and tuple(v.size()) == (2**33,) and v._version == 0
    assert "8589934592" in repr(v)
    assert v[2**32 :].numel() == 2**32 and values(v[2**33 - 1]) == [1]
    with pytest.raises(RuntimeError, match="8589934592"):
        v.grad = constant([1.0], np.float32)
    with pytest.raises((RuntimeError, IndexError)):
        v + constant([1.0, 2.0], np.float32)


# ---- np.asarray ---------------------------------------------------------------------------------------------------


def test_a_variable_that_needs_no_gradient_is_an_array_on_the_same_memory():
    v = constant([1.0, 2.0])
    a = np.asarray(v)
    assert a.dtype == np.float64 and np.shares_memory(a, array(v))
    assert np.asarray(v, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda v: np.asarray(v, dtype=np.float32), np.stack])
def test_a_variable_that_requires_grad_is_no_array(convert):
    with pytest.raises((RuntimeError, TypeError), match="requires grad|its .data|Variable"):
        convert(leaf([1.0, 2.0]))


def test_the_copy_argument_is_honoured():
    v = constant([1.0, 2.0])
    assert not np.shares_memory(np.array(v, copy=True), array(v))
    assert np.shares_memory(np.array(v, copy=None), array(v))
    assert np.shares_memory(np.array(v, copy=False), array(v))
    with pytest.raises(ValueError):
        np.array(v, dtype=np.float32, copy=False)
    assert not np.shares_memory(v.__array__(copy=True), array(v))


def test_a_list_of_variables_becomes_an_array_in_no_time():
    start = time.perf_counter()
    a = np.asarray([constant(np.ones(1000)) for _ in range(100)])
    assert a.shape == (100, 1000) and a.dtype == np.float64
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        np.asarray([leaf(np.ones(1000)) for _ in range(100)])
    assert time.perf_counter() - start < 2


def test_iteration_stops():
    assert [values(v) for v in leaf([1.0, 2.0])] == [[1.0], [2.0]]
    with pytest.raises(TypeError):
        iter(leaf(1.0))
