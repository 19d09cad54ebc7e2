"""What the matrix product rows do beyond the values and derivatives of the table's test."""

import numpy as np
import pytest

import torchlite
from torchlite.autograd import Variable


def tensor(*shape, dtype=np.float32):
    return torchlite.from_numpy(np.random.default_rng(0).uniform(-1, 1, shape).astype(dtype))


@pytest.mark.parametrize(
    "name,a,b,message",
    [
        ("mm", (2, 3), (4, 5), r"size mismatch, m1: \(2, 3\), m2: \(4, 5\)"),
        ("mm", (2, 3), (3,), "matrices expected, got 2D, 1D tensors"),
        ("mv", (2, 3), (4,), r"size mismatch, m1: \(2, 3\), v2: \(4,\)"),
        ("mv", (2,), (2,), "matrix and vector expected, got 1D, 1D tensors"),
        ("bmm", (2, 3, 4), (3, 4, 5), "equal number of batches expected, got 2, 3"),
        ("bmm", (2, 3, 4), (2, 3, 5), "size mismatch"),
        ("dot", (2,), (3,), "inconsistent tensor size"),
        ("ger", (2, 1), (3,), "vectors expected, got 2D, 1D tensors"),
        ("matmul", (2, 3), (4, 5), "size mismatch"),
        ("matmul", (), (3,), "at least 1 dimension"),
    ],
)
def test_sizes_that_do_not_fit_are_named(name, a, b, message):
    with pytest.raises(RuntimeError, match=f"{name}: .*{message}"):
        getattr(tensor(*a), name)(tensor(*b))


def test_the_sum_must_have_the_size_of_the_product():
    with pytest.raises(RuntimeError, match=r"addmm: .*\(5,\).*\(2, 4\)"):
        tensor(5).addmm(tensor(2, 3), tensor(3, 4))
    target = tensor(4)
    before = target.numpy().copy()
    with pytest.raises(RuntimeError, match="addmm: .*does not expand"):
        target.addmm_(tensor(2, 3), tensor(3, 4))
    assert (target.numpy() == before).all()


def test_beta_zero_does_not_read_self():
    self = torchlite.from_numpy(np.full((2, 4), np.nan, np.float32))
    a, b = tensor(2, 3), tensor(3, 4)
    np.testing.assert_allclose(self.addmm_(0, 1, a, b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5)


def test_optional_factors_lead():
    self, a, b = tensor(2, 4), tensor(2, 3), tensor(3, 4)
    product = a.numpy() @ b.numpy()
    for got, beta, alpha in [
        (self.addmm(a, b), 1, 1),
        (self.addmm(2, a, b), 2, 1),
        (self.addmm(2, 3, a, b), 2, 3),
        (torchlite.addmm(2, self, 3, a, b), 2, 3),
        (self.addmm(a, b, beta=2, alpha=3), 2, 3),
    ]:
        np.testing.assert_allclose(got.numpy(), beta * self.numpy() + alpha * product, rtol=1e-5)


@pytest.mark.parametrize("size", [3, 40])
def test_transposed_operands_give_the_same_product(size):
    a, b = tensor(size, size + 1), tensor(size + 1, size)
    expected = a.numpy() @ b.numpy()
    at = torchlite.from_numpy(np.ascontiguousarray(a.numpy().T)).t()
    bt = torchlite.from_numpy(np.ascontiguousarray(b.numpy().T)).t()
    for x in (a, at):
        for y in (b, bt):
            np.testing.assert_allclose(x.mm(y).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_dot_is_a_number_of_tensors_and_of_size_one_of_variables():
    t = torchlite.from_numpy(np.array([1.0, 2.0]))
    assert t.dot(t) == 5.0
    assert tuple(Variable(t).dot(Variable(t)).size()) == (1,)


def test_a_dot_product_accumulates_in_double():
    x = np.full(1_000_001, 0.1, np.float32)
    t = torchlite.from_numpy(x)
    assert t.dot(t) == pytest.approx(float(x.astype(np.float64) @ x.astype(np.float64)), rel=1e-7)


def test_the_at_operator_is_matmul():
    a, b = tensor(2, 3), tensor(3, 4)
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5)
    v = Variable(a, requires_grad=True)
    (v @ Variable(b)).sum().backward()
    np.testing.assert_allclose(v.grad.data.numpy(), np.tile(b.numpy().sum(1), (2, 1)), rtol=1e-5)


def test_in_place_products_write_self():
    self, a, b = tensor(2, 4), tensor(2, 3), tensor(3, 4)
    memory, expected = self.numpy(), self.numpy() + a.numpy() @ b.numpy()
    assert self.addmm_(a, b) is self
    np.testing.assert_allclose(memory, expected, rtol=1e-5)
