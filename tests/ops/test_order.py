"""sort, topk, kthvalue, median, mode, nonzero, histc beyond their values: ties, NaN, types, sizes, traces, mistakes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import torchlite
from torchlite import ByteTensor, DoubleTensor, FloatTensor, HalfTensor, LongTensor, Variable, jit
from torchlite.cuda.rows import order as over_arrays

NAN = float("nan")
TYPES = torchlite._tensor_classes


def lists(pair):
    assert type(pair[1]) is LongTensor
    return pair[0].tolist(), pair[1].tolist()


PAIRS = [
    (lambda t: t.sort(), ([[1, 2, 3], [4, 4, 5]], [[1, 2, 0], [0, 2, 1]])),
    (lambda t: t.sort(0), ([[3, 1, 2], [4, 5, 4]], [[0, 0, 0], [1, 1, 1]])),
    (lambda t: t.sort(-1, True), ([[3, 2, 1], [5, 4, 4]], [[0, 2, 1], [1, 0, 2]])),
    (lambda t: t.topk(2), ([[3, 2], [5, 4]], [[0, 2], [1, 0]])),
    (lambda t: t.topk(1, 0, largest=False), ([[3, 1, 2]], [[0, 0, 0]])),
    (lambda t: t.topk(2, sorted=False), ([[3, 2], [4, 5]], [[0, 2], [0, 1]])),
    (lambda t: t.kthvalue(2), ([2, 4], [2, 0])),
    (lambda t: t.kthvalue(1, 0, keepdim=True), ([[3, 1, 2]], [[0, 0, 0]])),
    (lambda t: t.median(1), ([2, 4], [2, 0])),
    (lambda t: t.median(0), ([3, 1, 2], [0, 0, 0])),
    (lambda t: t.mode(), ([1, 4], [1, 2])),
]


@pytest.mark.parametrize("cls", sorted(TYPES, key=lambda c: c.__name__))
@pytest.mark.parametrize("call, expected", PAIRS)
def test_pairs_of_values_and_indices_on_every_type(call, expected, cls):
    t = cls([[3, 1, 2], [4, 5, 4]])
    assert lists(call(t)) == expected and type(call(t)[0]) is cls


@pytest.mark.parametrize("name, args", [("sort", ()), ("topk", (2,)), ("kthvalue", (2,)), ("median", (1,)),
                                        ("mode", ())])
def test_functions_and_variables_give_what_the_methods_of_tensors_give(name, args):
    t = DoubleTensor([[3, 1, 2], [4, 5, 4]])
    expected = lists(getattr(t, name)(*args))
    assert lists(getattr(torchlite, name)(t, *args)) == expected
    values, indices = getattr(Variable(t, requires_grad=True), name)(*args)
    assert lists((values.data, indices.data)) == expected
    assert values.requires_grad and not indices.requires_grad
    assert type(values.grad_fn).__name__ == f"{name.capitalize()}Backward"


def test_a_1d_tensor_keeps_its_dimension():
    t = DoubleTensor([3, 1, 2])
    for keepdim in (False, True):
        assert lists(t.median(0, keepdim)) == ([2], [2])
        assert lists(t.kthvalue(1, 0, keepdim)) == ([1], [1])
        assert lists(t.mode(0, keepdim)) == ([1], [1])


def test_the_median_of_all_is_the_lower_one():
    t = DoubleTensor([[4, 1], [3, 2]])
    assert t.median() == 2.0 and type(t.median()) is float and type(LongTensor([1, 2]).median()) is int
    v = Variable(t, requires_grad=True).median()
    assert v.size() == (1,) and v.data[0] == 2


@pytest.mark.parametrize("f, expected", [
    (lambda x: x.median(), [0, 1, 0, 0, 0]),
    (lambda x: x.median(0)[0], [0, 1, 0, 0, 0]),
    (lambda x: x.kthvalue(5)[0], [1, 0, 0, 0, 0]),
    (lambda x: x.kthvalue(2)[0], [0, 1, 0, 0, 0]),
    (lambda x: x.mode()[0], [0, 0, 0, 0, 1]),
    (lambda x: x.topk(2, largest=False)[0], [0, 1, 0, 1, 0]),
    (lambda x: x.topk(3, largest=False)[0], [0, 1, 1, 1, 0]),
])
def test_of_equal_elements_one_gets_the_gradient(f, expected):
    x = Variable(DoubleTensor([5, 2, 2, 1, 2]), requires_grad=True)
    f(x).sum().backward()
    assert x.grad.data.tolist() == expected


def test_the_gradient_of_an_infinite_element_is_finite():
    x = Variable(DoubleTensor([float("inf"), 1, NAN]), requires_grad=True)
    (x.sort()[0] * Variable(DoubleTensor([1, 2, 3]))).sum().backward()
    assert x.grad.data.tolist() == [2, 1, 3]


def test_nan_is_larger_than_every_number():
    t = FloatTensor([2, NAN, float("inf"), 1, NAN])
    assert t.sort()[1].tolist() == [3, 0, 2, 1, 4] and t.sort(descending=True)[1].tolist() == [1, 4, 2, 0, 3]
    assert t.topk(3)[1].tolist() == [1, 4, 2] and t.topk(1)[1].tolist() == [1]
    assert t.topk(4, largest=False)[1].tolist() == [3, 0, 2, 1]
    assert t.kthvalue(3)[0].tolist() == [float("inf")] and t.kthvalue(4)[1].tolist() == [1]


def test_a_median_of_nan_is_nan_and_the_first_of_them():
    t = FloatTensor([[2, NAN, 1, NAN], [4, 3, 2, 1]])
    values, indices = t.median(1)
    assert np.isnan(values[0]) and values[1] == 2 and indices.tolist() == [1, 2]
    assert np.isnan(t.median())


def test_nans_are_alike_to_mode():
    values, indices = FloatTensor([1, NAN, 2, 1, NAN, NAN]).mode()
    assert np.isnan(values[0]) and indices.tolist() == [5]


@pytest.mark.parametrize("k", [1, 7, 50, 199, 200])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_many_equal_elements_is_the_head_of_sort(k, largest):
    t = torchlite.from_numpy(np.random.default_rng(k).integers(0, 9, (3, 200)))
    values, indices = t.topk(k, 1, largest)
    expected = t.sort(1, largest)
    assert values.tolist() == expected[0][:, :k].tolist() and indices.tolist() == expected[1][:, :k].tolist()


def test_a_0d_tensor_is_sorted_as_its_element():
    t = torchlite.from_numpy(np.array(2.0))
    assert [x.shape for x in t.sort()] == [(), ()] and t.median() == 2.0
    assert [x.shape for x in t.topk(1)] == [(), ()] and [x.shape for x in t.mode()] == [(1,), (1,)]


def test_results_are_copies():
    t = DoubleTensor([1, 2, 3])
    for call in (t.sort, lambda: t.topk(3), lambda: t.kthvalue(1), t.mode):
        call()[0].fill_(9)
    assert t.tolist() == [1, 2, 3]


def test_nonzero():
    places = ByteTensor([[0, 1], [2, 0]]).nonzero()
    assert type(places) is LongTensor and places.tolist() == [[0, 1], [1, 0]]
    assert torchlite.nonzero(HalfTensor([0, NAN])).tolist() == [[1]]


def test_nonzero_of_zeros_is_empty():
    for t in (FloatTensor([0, 0]), FloatTensor([[0], [0]]), FloatTensor()):
        places = t.nonzero()
        assert type(places) is LongTensor and places.numel() == 0 and places.size() == LongTensor().size()


def test_histc_counts_in_equal_intervals():
    t = FloatTensor([0, 0.5, 1, 1.5, 2, 3, -1])
    assert type(t.histc()) is FloatTensor and t.histc().size() == (100,)
    assert t.histc(4, 0, 2).tolist() == [1, 1, 1, 2]
    assert t.histc(bins=2).tolist() == [3, 4]
    assert LongTensor([7, 7]).histc(4).tolist() == [0, 0, 2, 0]
    assert FloatTensor().histc(2).tolist() == [0, 0]


MATRIX = FloatTensor([[3, 1, 2], [4, 5, 4]])


@pytest.mark.parametrize("call, message", [
    (lambda t: t.sort(2), r"dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"),
    (lambda t: t.median(-3), r"dimension out of range \(expected to be in range of \[-2, 1\], but got -3\)"),
    (lambda t: t.mode(2), "dimension out of range"), (lambda t: t.topk(1, 2), "dimension out of range"),
    (lambda t: t.topk(4), "topk: k must be between 0 and the size 3 of dimension 1, but got 4"),
    (lambda t: t.topk(-1), "topk: k must be between 0 and the size 3 of dimension 1, but got -1"),
    (lambda t: t.kthvalue(0), "kthvalue: k must be between 1 and the size 3 of dimension 1, but got 0"),
    (lambda t: t.kthvalue(3, 0), "kthvalue: k must be between 1 and the size 2 of dimension 0, but got 3"),
    (lambda t: t[:, :0].median(1), r"median: dimension 1 of a tensor of size \(2, 0\) has no elements"),
    (lambda t: t[:0].median(), "median: the tensor has no elements"),
    (lambda t: t[:, :0].mode(), r"mode: dimension 1 of a tensor of size \(2, 0\) has no elements"),
    (lambda t: t.histc(0), "histc: bins must be positive, but got 0"),
    (lambda t: t.histc(3, 2, 1), "histc: max must not be smaller than min, but got min 2 and max 1"),
    (lambda t: t.histc(3, 0, NAN), "histc: max must not be smaller than min"),
    (lambda t: (t / 0).histc(), "histc: the range of the elements is not finite"),
])
@pytest.mark.parametrize("variable", [False, True])
def test_wrong_values_are_refused(call, message, variable):
    with pytest.raises(RuntimeError, match=message):
        call(Variable(MATRIX) if variable else MATRIX)


@pytest.mark.parametrize("call", [
    lambda t: t.topk(), lambda t: t.kthvalue(), lambda t: t.topk(1.5), lambda t: t.sort("0"),
    lambda t: t.median(0, 1, 2), lambda t: t.sort(largest=True), lambda t: torchlite.sort([1, 2]),
    lambda t: torchlite.sort(),
])
def test_arguments_of_other_types_are_refused(call):
    with pytest.raises(TypeError):
        call(MATRIX)


def test_they_are_traced_and_replayed():
    x = Variable(DoubleTensor([[3, 1, 2], [4, 5, 6]]), requires_grad=True)
    lam = jit.make_lambda(lambda v: v.sort(0)[0] + v.topk(3)[0] * v.median() + v.kthvalue(2, 0)[0], (x,))
    assert jit.parse(str(lam)) == lam and "= Topk %0, 3, None, True, True" in str(lam)
    y = Variable(DoubleTensor([[1, 7, 3], [2, 0, 5]]))
    (out,) = Variable._execution_engine.run_forward(lam, (y,))
    expected = y.sort(0)[0] + y.topk(3)[0] * y.median() + y.kthvalue(2, 0)[0]
    assert out.data.tolist() == expected.data.tolist()


# ---- compared with the same operations over arrays ------------------------------------------------------------------

DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
CALLS = [
    ("sort", (None, False)), ("sort", (0, True)), ("topk", (3, -1, True, True)), ("topk", (400, None, False, True)),
    ("topk", (300, 1, True, False)), ("kthvalue", (1, None, False)), ("kthvalue", (350, 1, True)),
    ("median", (0, False)), ("median", (1, True)), ("median", (None, True)), ("mode", (None, False)),
    ("mode", (0, True)),
]


def assert_same(name, args, a):
    """The row gives bit for bit what the function over arrays gives."""
    # A Variable keeps a result of one element, with the bits of its NaN.
    found = getattr(Variable(torchlite.from_numpy(a)), name)(*args)
    expected = [x for x in over_arrays.FORWARD[name](np, a, *args)[:2] if x is not None]
    for ours, theirs in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        values = ours.data.numpy()
        assert (values.shape, values.dtype) == (theirs.shape, theirs.dtype)
        assert values.tobytes() == theirs.tobytes()


def bits_of(generator, dtype, shape):
    """Elements of any bits: denormals, infinities, NaN, zeros of both signs."""
    return np.frombuffer(generator.bytes(math.prod(shape) * np.dtype(dtype).itemsize), dtype).reshape(shape)


@pytest.mark.parametrize("name, args", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_give_what_the_functions_over_arrays_give(dtype, name, args):
    generator = np.random.default_rng(3)
    a = bits_of(generator, dtype, (3, 500)).copy()
    a[1, ::3] = 0
    if np.dtype(dtype).kind == "f":
        a[1, ::9] = -0.0
    assert_same(name, args, a)
    assert_same(name, args, a[::-1, ::-1])
    wide = bits_of(generator, dtype, (1000, 6))[:, 1::2]
    assert_same(name, args, np.concatenate([wide.T, wide.T[:, :7]], 1).T[::2].T)


SPREADS = {
    "the highest half": lambda g, n: g.integers(-50, 50, n) << 40,
    "the lowest half": lambda g, n: g.integers(-50, 50, n),
    # The leading 32 of the differing bits agree for many elements, and the rest decides.
    "both ends": lambda g, n: (g.integers(0, 3, n) << 60) + g.integers(0, 1000, n),
    "one bit": lambda g, n: g.integers(0, 2, n) << 33,
    "one element": lambda g, n: np.where(np.arange(n) == n // 3, -1, 5),
    "none": lambda g, n: np.full(n, 7),
    "order": lambda g, n: np.arange(n),
    "opposite order": lambda g, n: -np.arange(n) * 2**35,
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 5000])
def test_long_lines_of_keys_that_differ_in_some_bits(spread, n):
    a = SPREADS[spread](np.random.default_rng(n), n).astype("int64")
    for values in (a, a.astype("float64")):
        for name, args in [("sort", (0, False)), ("sort", (0, True)), ("topk", (n // 2, 0, True, True)),
                           ("topk", (n // 3, 0, False, False)), ("kthvalue", ((n + 1) // 2, 0, False)),
                           ("median", (None, False)), ("mode", (0, False))]:
            assert_same(name, args, values)


@pytest.mark.parametrize("shape, dim", [((2, 40000), 1), ((40000, 3), 0), ((2000, 50), 1), ((50, 40, 30), 1)])
def test_lines_shared_out_among_threads(shape, dim):
    a = np.random.default_rng(0).integers(0, 999, shape).astype("float32")
    threads = torchlite.get_num_threads()
    try:
        for n in (1, 3):
            torchlite.set_num_threads(n)
            for name, args in [("sort", (dim, False)), ("topk", (9, dim, True, True)), ("median", (dim, False)),
                               ("mode", (dim, False))]:
                assert_same(name, args, a)
    finally:
        torchlite.set_num_threads(threads)


# ---- made-up arrays: few different elements, so many are equal ------------------------------------------------------


@st.composite
def arrays_with_a_dim(draw):
    shape = draw(hnp.array_shapes(max_dims=3, max_side=6))
    elements = st.sampled_from([0.0, -1.0, 2.0, 0.5, float("inf"), float("-inf"), NAN])
    a = draw(hnp.arrays(draw(st.sampled_from([np.float32, np.float64, np.float16])), shape, elements=elements))
    return a, draw(st.integers(-len(shape), len(shape) - 1))


def key(x):
    return (x != x, 0 if x != x else x)


@given(arrays_with_a_dim(), st.booleans(), st.data())
def test_lines_are_ordered_as_python_orders_them(array_and_dim, largest, data):
    a, dim = array_and_dim
    t = torchlite.from_numpy(a)
    n = a.shape[dim]
    k = data.draw(st.integers(1, n))
    results = {
        "sort": t.sort(dim, largest), "topk": t.topk(k, dim, largest), "kthvalue": t.kthvalue(k, dim, True),
        "median": t.median(dim, True), "mode": t.mode(dim, True),
    }
    for name, (values, indices) in results.items():
        np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy(), dim), values.numpy(), err_msg=name)
    lines = np.moveaxis(a, dim, -1).reshape(-1, n)
    places = {name: np.moveaxis(i.numpy(), dim, -1).reshape(len(lines), -1) for name, (_, i) in results.items()}
    for r, line in enumerate(lines.tolist()):
        keys = [key(x) for x in line]
        ascending = sorted(range(n), key=keys.__getitem__)
        order = sorted(range(n), key=keys.__getitem__, reverse=True) if largest else ascending
        assert places["sort"][r].tolist() == order
        assert places["topk"][r].tolist() == order[:k]
        assert places["kthvalue"][r].tolist() == [keys.index(keys[ascending[k - 1]])]
        middle = (True, 0) if (True, 0) in keys else keys[ascending[(n - 1) // 2]]
        assert places["median"][r].tolist() == [keys.index(middle)]
        most = max(map(keys.count, keys))
        common = min(x for x in keys if keys.count(x) == most)
        assert places["mode"][r].tolist() == [n - 1 - keys[::-1].index(common)]
