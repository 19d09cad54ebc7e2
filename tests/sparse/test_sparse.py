"""Sparse tensors stand for dense ones, and give what those give."""

import copy
import pickle

import numpy as np
import pytest

import torchlite
from torchlite import Function, Variable, sparse

SIZE = (4, 3, 2)


def make(cls=sparse.DoubleTensor, seed=0, size=SIZE, sparse_dims=2, nnz=5):
    """A sparse tensor with repeated places."""
    rng = np.random.RandomState(seed)
    indices = np.stack([rng.randint(0, n, nnz) for n in size[:sparse_dims]]).astype(np.int64)
    indices[:, -1] = indices[:, 0]
    values = rng.randint(1, 9, (nnz, *size[sparse_dims:])).astype(np.int64)
    dense_class = getattr(torchlite, cls.__name__)
    return cls(torchlite.from_numpy(indices), dense_class(values.tolist()), torchlite.Size(size))


def expected(s):
    """The dense array, element by element."""
    dense = np.zeros(tuple(s.size()))
    for place, value in zip(s._indices().numpy().T, s._values().numpy(), strict=True):
        dense[tuple(place)] += value
    return dense


def dense(x):
    return (x.to_dense() if x.is_sparse else x).numpy()


@pytest.mark.parametrize("name", sparse.__all__[:8])
def test_to_dense_adds_repeated_places_up(name):
    s = make(getattr(sparse, name))
    assert type(s.to_dense()).__name__ == name and not s.to_dense().is_sparse
    np.testing.assert_array_equal(s.to_dense().numpy(), expected(s))


@pytest.mark.parametrize("name", sparse.__all__[:8])
def test_metadata(name):
    s = make(getattr(sparse, name))
    assert s.type() == f"torchlite.sparse.{name}" and s.is_sparse and not s.is_cuda
    assert (s.size(), s.dim(), s.numel(), s.size(-1)) == (torchlite.Size(SIZE), 3, 24, 2)
    assert (s._nnz(), s._dimI(), s._dimV()) == (5, 2, 1)
    assert torchlite.is_tensor(s)
    assert not torchlite.FloatTensor(2).is_sparse


def test_coalesce_sorts_and_adds():
    s = make()
    c = s.coalesce()
    assert not s.is_coalesced() and c.is_coalesced() and c.coalesce() is c
    flat = (c._indices().numpy() * [[3], [1]]).sum(0)
    assert (np.diff(flat) > 0).all() and c._nnz() == len(set(map(tuple, s._indices().numpy().T)))
    np.testing.assert_array_equal(dense(c), expected(s))


def test_a_tensor_without_elements():
    for s in (sparse.FloatTensor(2, 3), sparse.FloatTensor(torchlite.Size([2, 3])), make().new(2, 3)):
        assert s.size() == (2, 3) and s._nnz() == 0 and s.is_coalesced() and (dense(s) == 0).all()
    assert sparse.FloatTensor().dim() == 0
    s, d = sparse.DoubleTensor(*SIZE), make()
    np.testing.assert_array_equal(dense(s + d), expected(d))
    np.testing.assert_array_equal(dense(d + s), expected(d))
    assert dense(s + s).sum() == 0 and (s * d)._nnz() == 0


def test_the_size_may_be_left_out():
    s = sparse.DoubleTensor(torchlite.LongTensor([[0, 2], [1, 0]]), torchlite.DoubleTensor([3, 4]))
    assert s.size() == (3, 2)


L, D = torchlite.LongTensor, torchlite.DoubleTensor


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((D([[0]]), D([1]), (2,)), TypeError, "indices must be a LongTensor, but got torchlite.DoubleTensor"),
        ((L([[0]]), L([1]), (2,)), TypeError, "values must be a DoubleTensor, but got torchlite.LongTensor"),
        ((L([[0]]), 3, (2,)), TypeError, "values must be a DoubleTensor, but got int"),
        ((L([[0, 1]]), D([1]), (2,)), RuntimeError, r"sizes \(1, 2\) and \(1,\)"),
        ((L([[0]]), D([1]), (2, 3)), RuntimeError, r"size \(2, 3\) does not fit 1 sparse dimensions"),
        ((L([[2]]), D([1]), (2,)), RuntimeError, r"out of range: the largest are \[2\].*size is \(2,\)"),
        ((L([[-1]]), D([1]), (2,)), RuntimeError, "out of range.*least is -1"),
        (("x",), TypeError, r"expected \(indices, values\[, size\]\) or sizes, but got \(str\)"),
        ((2.5,), TypeError, r"but got \(float\)"),
    ],
)
def test_bad_parts_are_refused(arguments, error, text):
    with pytest.raises(error, match="^DoubleTensor: .*" + text):
        sparse.DoubleTensor(*arguments)


A, B = make(seed=1), make(seed=2)
DENSE = torchlite.from_numpy(np.random.RandomState(3).rand(*SIZE))
OPERATIONS = {
    "sparse + sparse": lambda a, b, d: a + b,
    "sparse + dense": lambda a, b, d: a + d,
    "dense + sparse": lambda a, b, d: d + a,
    "dense - sparse": lambda a, b, d: d - a,
    "sparse - dense": lambda a, b, d: a - d,
    "sparse - sparse": lambda a, b, d: a - b,
    "add with a factor": lambda a, b, d: a.add(3, b),
    "dense add with a factor": lambda a, b, d: d.add(3, b),
    "sub with a factor": lambda a, b, d: a.sub(3, b),
    "times a number": lambda a, b, d: a * 3,
    "a number times": lambda a, b, d: 3 * a,
    "sparse * sparse": lambda a, b, d: a * b,
    "by a number": lambda a, b, d: a / 4,
    "negated": lambda a, b, d: -a,
    "power": lambda a, b, d: a**2,
    "transposed": lambda a, b, d: a.transpose(0, 1),
    "transposed from the end": lambda a, b, d: a.transpose(-2, -3),
    "cloned": lambda a, b, d: a.clone(),
    "function form": lambda a, b, d: torchlite.add(a, b),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_what_dense_ones_give(name):
    f = OPERATIONS[name]
    result = f(A, B, DENSE)
    np.testing.assert_allclose(dense(result), f(A.to_dense(), B.to_dense(), DENSE).numpy())
    has_dense = "dense" in name and name != "sparse + sparse"
    assert result.is_sparse is not has_dense


IN_PLACE = {
    "sparse.add_(sparse)": (lambda a, b: a.add_(b), True),
    "sparse.add_(2, sparse)": (lambda a, b: a.add_(2, b), True),
    "sparse.sub_": (lambda a, b: a.sub_(b), True),
    "sparse.mul_": (lambda a, b: a.mul_(3), True),
    "sparse.div_": (lambda a, b: a.div_(4), True),
    "sparse.neg_": (lambda a, b: a.neg_(), True),
    "sparse.zero_": (lambda a, b: a.zero_(), True),
    "sparse.copy_": (lambda a, b: a.copy_(b), True),
    "dense.add_(sparse)": (lambda a, b: a.add_(b), False),
    "dense.add_(2, sparse)": (lambda a, b: a.add_(2, b), False),
    "dense.sub_(sparse)": (lambda a, b: a.sub_(b), False),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms(name):
    f, on_sparse = IN_PLACE[name]
    target = A.clone() if on_sparse else DENSE.clone()
    want = f(target.to_dense() if on_sparse else target.clone(), B.to_dense())
    assert f(target, B) is target and target.is_sparse is on_sparse
    np.testing.assert_allclose(dense(target), want.numpy())


def test_matrices():
    a = make(size=(3, 4), nnz=6)
    b = torchlite.from_numpy(np.random.RandomState(0).rand(4, 2))
    np.testing.assert_allclose(torchlite.mm(a, b).numpy(), dense(a) @ b.numpy())
    np.testing.assert_array_equal(dense(a.t()), dense(a).T)
    with pytest.raises(RuntimeError, match=r"size mismatch, m1: \[3, 4\], m2: \[3, 4\]"):
        torchlite.mm(a, a.to_dense())
    with pytest.raises(RuntimeError, match="expects a 2D tensor, but self is 3D"):
        A.t()


def test_sparse_mask_takes_the_places_of_the_mask():
    for source in (DENSE, make(seed=4)):
        masked = source._sparse_mask(A)
        want = np.where(dense(A) != 0, dense(source), 0)
        np.testing.assert_array_equal(dense(masked), want)
        assert masked.is_coalesced() and masked._nnz() == A.coalesce()._nnz()
    with pytest.raises(RuntimeError, match=r"sizes \(2, 2\) and \(4, 3, 2\)"):
        torchlite.ones(2, 2).double()._sparse_mask(A)
    with pytest.raises(TypeError, match="expected a sparse tensor"):
        DENSE._sparse_mask(DENSE)


def test_resize_as_loses_the_elements():
    s = A.clone()
    assert s.resize_as_(torchlite.ones(2, 5)) is s and s.size() == (2, 5) and s._nnz() == 0


def test_conversions():
    f = A.float()
    assert type(f) is sparse.FloatTensor and f.double().type() == A.type()
    assert A.type("torchlite.sparse.DoubleTensor") is A and A.type(torchlite.FloatTensor).type() == f.type()
    assert A.type_as(torchlite.LongTensor(1)).type() == "torchlite.sparse.LongTensor" and A.cpu() is A


def test_copies_share_nothing():
    for other in (copy.deepcopy(A), pickle.loads(pickle.dumps(A)), A.clone()):
        assert type(other) is type(A) and other.is_coalesced() == A.is_coalesced()
        np.testing.assert_array_equal(dense(other), dense(A))
        other._values().zero_()
        assert dense(A).sum() != 0
    pair = copy.deepcopy([A, A])
    assert pair[0] is pair[1]


def test_repr_shows_the_parts():
    text = repr(sparse.FloatTensor(L([[1]]), torchlite.FloatTensor([5]), (3,)))
    assert text.startswith("torchlite.sparse.FloatTensor of size 3 with indices:\n") and "\n 5\n" in text


REFUSED = {
    "exp": lambda s: s.exp(),
    "sum": lambda s: s.sum(),
    "view": lambda s: s.view(-1),
    "__getitem__": lambda s: s[0],
    "numpy": lambda s: s.numpy(),
    "add": lambda s: s + 1,
    "gt": lambda s: s > 0,
    "cat": lambda s: torchlite.cat([s, s], 0),
    "div": lambda s: DENSE / s,
    "pow": lambda s: s**0,
    "matmul": lambda s: s @ DENSE,
    "storage": lambda s: s.storage(),
    "add_": lambda s: s.add_(DENSE),
    "__setitem__": lambda s: s.__setitem__(0, 1),
    "copy_": lambda s: s.copy_(DENSE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused_by_name(name):
    s = A.clone()
    with pytest.raises(TypeError, match=name):
        REFUSED[name](s)
    np.testing.assert_array_equal(dense(s), dense(A))


@pytest.mark.parametrize("size", [SIZE, (1,)])
def test_elements_are_never_read_where_strides_point(size):
    s = make(size=size, sparse_dims=len(size), nnz=2)
    target = torchlite.zeros(*size).double()
    for read in (lambda: target.copy_(s), lambda: np.asarray(s), lambda: memoryview(s), lambda: s.item(),
                 lambda: s.tolist(), lambda: float(s), lambda: s.__dlpack__()):  # fmt: skip
        with pytest.raises((TypeError, BufferError, RuntimeError)):
            read()
    assert target.sum() == 0


@pytest.mark.parametrize("call, text", [
    (lambda: A + make(size=(4, 3)), r"add: sizes \(4, 3, 2\) and \(4, 3\)"),
    (lambda: A + make(sparse_dims=3), "add: operands have 2 and 3 sparse dimensions"),
    (lambda: A.transpose(0, 2), "transpose: dimensions 0 and 2 can't be swapped: only 2 are sparse"),
    (lambda: A.transpose(0, 3), r"out of range \(expected to be in range of \[-3, 2\], but got 3\)"),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_named(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


# ---- Variables ------------------------------------------------------------------------------------------------------


class Gradient(Function):
    """The identity, with a gradient of one's choice."""

    def __init__(self, gradient):
        super().__init__()
        self.gradient = gradient

    def forward(self, x):
        return x.clone()

    def backward(self, _):
        return self.gradient


@pytest.mark.parametrize("kinds", ["s", "ss", "sd", "ds", "sds", "dss", "ssd"])
@pytest.mark.parametrize("runs", [1, 2])
def test_gradients_of_a_leaf_add_up(kinds, runs):
    parts = [make(seed=i) if kind == "s" else torchlite.from_numpy(np.random.RandomState(i).rand(*SIZE))
             for i, kind in enumerate(kinds)]
    x = Variable(torchlite.zeros(*SIZE).double(), requires_grad=True)
    for _ in range(runs):
        total = Gradient(parts[0])(x)
        for part in parts[1:]:
            total = total + Gradient(part)(x)
        total.sum().backward()
    assert x.grad.data.is_sparse is ("d" not in kinds)
    np.testing.assert_allclose(dense(x.grad.data), runs * sum(dense(part) for part in parts))


def test_a_dense_gradient_replaces_the_data_of_a_sparse_one():
    x = Variable(torchlite.zeros(*SIZE).double(), requires_grad=True)
    Gradient(A)(x).sum().backward()
    grad = x.grad
    assert grad.data.is_sparse and grad.data is not A
    Gradient(DENSE)(x).sum().backward()
    assert x.grad is grad and not grad.data.is_sparse
    np.testing.assert_allclose(dense(grad.data), dense(A) + DENSE.numpy())


def test_a_sparse_gradient_can_be_assigned_and_used_for_a_step():
    x = Variable(torchlite.zeros(*SIZE).double(), requires_grad=True)
    x.grad = Variable(A)
    assert x.grad.data is A
    x.data.add_(-0.5, x.grad.data)
    np.testing.assert_allclose(x.data.numpy(), -0.5 * dense(A))


def test_operations_on_variables_follow_the_tensors():
    v = Variable(A, requires_grad=True)
    assert type((v * 2).data) is sparse.DoubleTensor and (v + Variable(DENSE)).data.is_sparse is False
    assert v.size() == torchlite.Size(SIZE)
    (v + Variable(DENSE)).backward(DENSE)
    np.testing.assert_array_equal(v.grad.data.numpy(), DENSE.numpy())
    with pytest.raises(TypeError, match="exp: not defined on sparse tensors"):
        v.exp()


@pytest.mark.parametrize("call", [
    lambda s: s.copy_(3), lambda s: torchlite.ones(4, 3, 2)._sparse_mask(3), lambda s: s.type(3), lambda s: s.type("x"),
    lambda s: s.type_as(3),
])
def test_what_is_no_tensor_is_named(call):
    with pytest.raises(TypeError, match="expected a .*, but got (int|3|'x'|<class 'int'>)"):
        call(make())
