"""Variables as programs of the time used them: writing in place, volatile inference, functions, types, pickling."""

import copy
import io
import math
import pickle

import pytest
from era_package import Variable, functions, gradcheck, same_values, torch

SHARED = "in-place operations can be only used on variables that don't share storage"


def leaf(*sizes, requires_grad=True):
    return Variable(torch.randn(*sizes).double(), requires_grad=requires_grad)


def ones(*sizes):
    return torch.ones(*sizes).double()


def sample(*sizes):
    """Normal numbers in a Variable of doubles."""
    return leaf(*sizes, requires_grad=False)


# ---- in place ------------------------------------------------------------------------------------------------------


def test_values_that_backward_needs_must_not_be_overwritten():
    x, y = Variable(ones(5, 5), requires_grad=True), Variable(ones(5, 5) * 4, requires_grad=True)
    z = x * y
    q = z + y
    w = z * y
    z.add_(2)
    q.backward(ones(5, 5), retain_graph=True)  # a sum saved nothing
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w.backward(ones(5, 5))

    z = x * y
    q = z * y
    r = z + y
    w = z.add_(y)
    w.backward(ones(5, 5), retain_graph=True)
    r.backward(ones(5, 5), retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        q.backward(ones(5, 5))

    x.grad.data.zero_()
    m = x / 2
    z = m + y / 8
    q = z * y
    r = z + y
    version = z._version
    w = z.exp_()
    assert z._version > version and w is z
    r.backward(ones(5, 5), retain_graph=True)
    same_values(x.grad.data, ones(5, 5) / 2)
    w.backward(ones(5, 5), retain_graph=True)
    same_values(x.grad.data, ones(5, 5) * (1 + math.e) / 2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        q.backward(ones(5, 5))


def test_a_copy_of_a_leaf_may_be_written():
    x = Variable(ones(5, 5), requires_grad=True)
    y = x.clone()
    y.add_(10)
    same_values(y.data, ones(5, 5) * 11)
    (y + 2).backward(ones(5, 5))
    same_values(x.grad.data, ones(5, 5))
    z = y * x
    y.add_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward(ones(5, 5))


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[1], lambda x: x.view(25), lambda x: x.narrow(0, 1, 2),
                                  lambda x: x.detach(), lambda x: x.expand(2, 5, 5), lambda x: x.unsqueeze(0)],
                         ids=["t", "row", "view", "narrow", "detach", "expand", "unsqueeze"])
def test_what_shares_memory_cannot_be_written(view):
    x = Variable(ones(5, 5))
    y = view(x)
    for v in (x, y):
        with pytest.raises(RuntimeError, match=SHARED):
            v.add_(2)
    same_values(x.data, ones(5, 5))
    assert x._version == y._version == 0
    del v, y
    x.add_(2)
    same_values(x.data, ones(5, 5) * 3)


def test_a_constant_that_is_written_with_something_differentiable_requires_grad():
    x, y = Variable(ones(5, 5)), leaf(5, 5)
    x.add_(y)
    assert x.requires_grad and not x.is_leaf
    x.backward(ones(5, 5))
    same_values(y.grad.data, ones(5, 5))


def test_requires_grad_spreads_and_can_only_be_set_on_leaves():
    x, y = Variable(torch.randn(5, 5)), Variable(torch.randn(5, 5))
    z = Variable(torch.randn(5, 5), requires_grad=True)
    a = x + y
    assert not a.requires_grad and not a.is_leaf
    b = a + z
    assert b.requires_grad
    b.backward(torch.ones(5, 5))
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = 1
    for value, hint in ((True, "leaf variables."), (False, "use var_no_grad = var.detach()")):
        with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables") as e:
            b.requires_grad = value
        assert hint in str(e.value)
    x.requires_grad = True
    assert (x + y).requires_grad


def test_detach_and_detach_in_place():
    x = leaf(10, 10)
    y = x + 2
    y = y.detach()
    z = y * 4 + 2
    assert not y.requires_grad and not z.requires_grad and y.is_leaf

    y = x * 2
    y = y.detach()
    assert not y.requires_grad and y.grad_fn is None
    z = x + y
    z.sum().backward()
    same_values(x.grad.data, ones(10, 10))

    y = x * 2
    y.detach_()
    assert not y.requires_grad and y.grad_fn is None
    x.grad = None
    (x + y).sum().backward()
    same_values(x.grad.data, ones(10, 10))

    v = Variable(ones(2), volatile=True)
    assert v.detach().volatile


def test_grad_can_be_assigned():
    x = leaf(5, 5)
    with pytest.raises(RuntimeError):
        x.grad = leaf(2, 2)
    with pytest.raises(RuntimeError, match="different type"):
        x.grad = Variable(torch.randn(5, 5).float().long())
    with pytest.raises(RuntimeError, match="its own grad"):
        x.grad = x
    with pytest.raises(RuntimeError, match="expected Variable or None"):
        x.grad = 0
    assert x.grad is None
    g = sample(5, 5)
    x.grad = g
    assert x.grad is g
    x.grad = None
    x.sum().backward()
    same_values(x.grad.data, ones(5, 5))


# ---- volatile ------------------------------------------------------------------------------------------------------


def test_volatile_wins():
    x, y = leaf(5, 5), Variable(torch.randn(5, 5).double(), volatile=True)
    z = x ** 2
    assert not z.volatile and z.requires_grad and z.grad_fn is not None
    z.backward(ones(5, 5))
    same_values(x.grad.data, x.data * 2)

    w = z + y
    assert w.volatile and not w.requires_grad and w.grad_fn is None
    with pytest.raises(RuntimeError, match="is volatile"):
        w.backward(ones(5, 5))
    for v in (y.t(), y[0], y * 2, y.clone(), y.sum()):
        assert v.volatile and v.grad_fn is None
    with pytest.raises(RuntimeError, match="can't be volatile and require_grad at the same time"):
        Variable(ones(1), requires_grad=True, volatile=True)


def test_volatile_is_set_on_leaves():
    x = sample(2)
    x.volatile = True
    assert (x + 1).volatile
    x.volatile = False
    assert not (x + 1).volatile
    with pytest.raises(RuntimeError, match="volatile can only be set on leaf variables"):
        (x + 1).volatile = True
    with pytest.raises(RuntimeError, match="volatile must be a bool"):
        x.volatile = "yes"


def test_assigning_something_volatile_makes_volatile():
    x, y = sample(5), Variable(torch.randn(2).double(), volatile=True)
    assert not x.volatile
    x[:2] = y
    assert x.volatile and not x.requires_grad and x.grad_fn is None
    z = Variable(torch.randn(5).double(), volatile=True)
    z[0] = leaf(1)
    assert z.volatile and not z.requires_grad


# ---- values at the edges -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent, expected", [(0, [0, 0]), (1, [1, 1]), (2, [0, 6]), (3, [0, 27])])
def test_powers_at_zero(exponent, expected):
    x = Variable(torch.DoubleTensor([0, 3]), requires_grad=True)
    (x ** exponent).sum().backward()
    same_values(x.grad.data, torch.DoubleTensor(expected))


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3])
def test_norms_at_zero_have_no_nan_in_the_gradient_elsewhere(p):
    x = Variable(torch.DoubleTensor([3, 4]), requires_grad=True)
    x.norm(p).backward()
    assert gradcheck(lambda v: v.norm(p), (x,))
    assert gradcheck(lambda v: v.norm(p, 0, True), (x,))


@pytest.mark.parametrize("values", [[1, 0, 3], [0, 0, 3], [1, 2, 3], [0, 0, 0]])
def test_products_with_zeros(values):
    x = Variable(torch.DoubleTensor(values), requires_grad=True)
    assert gradcheck(lambda v: v.prod(), (x,))
    assert gradcheck(lambda v: v.prod(0), (x,))
    assert gradcheck(lambda v: v.cumprod(0), (x,))


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_cat(dim):
    parts = [leaf(*[n if d == dim % 2 else 5 for d in range(2)]) for n in (1, 3, 2)]
    result = torch.cat(parts, dim)
    gradient = torch.randn(*result.size()).double()
    result.backward(gradient)
    start = 0
    for part, n in zip(parts, (1, 3, 2), strict=True):
        same_values(part.grad.data, gradient.narrow(dim % 2, start, n))
        start += n


def test_unequal_sizes_of_the_same_number_of_elements_are_paired_in_order():
    for operation in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b):
        x, b = leaf(4, 6), Variable(torch.rand(12, 2).double() + 0.5, requires_grad=True)
        with pytest.warns(UserWarning, match="not broadcastable"):
            y = operation(x, b)
            y.backward(ones(4, 6))
        assert y.size() == torch.Size([4, 6])
        same_values(y.data, operation(x.data, b.data.view(4, 6)))
        assert x.grad.size() == x.size() and b.grad.size() == b.size()


FAMILIES = {
    "addmm": ((2, 4), (2, 3), (3, 4)),
    "addbmm": ((2, 4), (5, 2, 3), (5, 3, 4)),
    "baddbmm": ((5, 2, 4), (5, 2, 3), (5, 3, 4)),
    "addmv": ((2,), (2, 3), (3,)),
    "addr": ((3, 4), (3,), (4,)),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("form", ["t, a, b", "0.4, t, a, b", "0.5, t, 0.6, a, b"])
def test_functions_with_coefficients(name, form):
    t, a, b = (leaf(*sizes) for sizes in FAMILIES[name])
    arguments = [v.strip() for v in form.split(",")]

    def call(t, a, b):
        known = {"t": t, "a": a, "b": b}
        return getattr(torch, name)(*[known[v] if v in known else float(v) for v in arguments])

    same_values(call(t, a, b).data, call(t.data, a.data, b.data))
    assert gradcheck(call, (t, a, b))


@pytest.mark.parametrize("call", [
    lambda x, y: torch.mm(x, y), lambda x, y: torch.mv(x, y[:, 0]), lambda x, y: torch.dot(x[0], y[:, 0]),
    lambda x, y: torch.ger(x[0], y[0]), lambda x, y: torch.matmul(x, y), lambda x, y: torch.add(x, 3, x),
    lambda x, y: torch.addcmul(x, 0.2, x, x), lambda x, y: torch.bmm(x.unsqueeze(0), y.unsqueeze(0)),
], ids=["mm", "mv", "dot", "ger", "matmul", "add", "addcmul", "bmm"])
def test_functions_of_variables_are_those_of_tensors(call):
    x, y = leaf(3, 4), leaf(4, 3)
    expected = call(x.data, y.data)
    same_values(call(x, y).data, expected if torch.is_tensor(expected) else torch.DoubleTensor([expected]))
    assert gradcheck(call, (x, y))


# ---- shapes, types, copies -----------------------------------------------------------------------------------------


def test_resize_only_changes_the_shape():
    x = leaf(2, 3)
    assert x.resize(3, 2).size() == torch.Size([3, 2])
    assert x.resize_as(sample(6)).size() == torch.Size([6])
    with pytest.raises(RuntimeError, match="requested resize to"):
        x.resize(2, 2)
    x.resize(3, 2).sum().backward()
    same_values(x.grad.data, ones(2, 3))


def test_unbind_and_iteration():
    x = leaf(3, 4)
    rows = torch.unbind(x)
    assert len(rows) == len(list(x)) == len(x) == 3
    (rows[1] * 2).sum().backward()
    expected = torch.zeros(3, 4).double()
    expected[1] = 2
    same_values(x.grad.data, expected)


TYPES = {"float": torch.FloatTensor, "double": torch.DoubleTensor, "int": torch.IntTensor, "long": torch.LongTensor,
         "short": torch.ShortTensor, "byte": torch.ByteTensor, "char": torch.CharTensor}


@pytest.mark.parametrize("name", TYPES)
def test_type_conversions(name):
    cls = TYPES[name]
    x = Variable(torch.randn(5, 5))
    assert type(getattr(x, name)().data) is cls
    assert type(x.type(cls).data) is cls
    for y in (Variable(cls(5, 5).fill_(1)), cls(5, 5).fill_(1)):
        assert type(x.type_as(y).data) is cls
    assert x.type(torch.FloatTensor) is x and x.cpu() is x
    same_values(x.type(cls).data, x.data.type(cls))


def test_the_gradient_goes_back_through_a_conversion():
    x = Variable(torch.randn(5).float(), requires_grad=True)
    x.double().mul(3).sum().backward()
    assert type(x.grad.data) is torch.FloatTensor
    same_values(x.grad.data, torch.ones(5) * 3, 1e-6)


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_pickling(protocol):
    x = Variable(torch.randn(10, 10).double(), requires_grad=True)
    y = Variable(torch.randn(10, 10).double(), volatile=True)
    z = Variable(torch.randn(10, 10).double(), requires_grad=False)
    file = io.BytesIO()
    pickle.dump([x, y, z], file, protocol)
    file.seek(0)
    for v, copied in zip((x, y, z), pickle.load(file), strict=True):
        same_values(v.data, copied.data)
        assert (copied.requires_grad, copied.volatile) == (v.requires_grad, v.volatile)
        assert copied.data.data_ptr() != v.data.data_ptr()


def test_the_state_of_a_result_cannot_be_set():
    x = leaf(2)
    with pytest.raises(RuntimeError, match="__setstate__ can be only called on leaf variables"):
        (x * 2).__setstate__((True, False, None))


def test_deepcopy_copies_leaves_without_their_gradient():
    class Named(Variable):
        pass

    x = Named(ones(3), requires_grad=True)
    (x * 2).sum().backward()
    y = copy.deepcopy([x, x])
    assert type(y[0]) is Named and y[0] is y[1] and y[0].requires_grad and y[0].grad is None
    same_values(y[0].data, x.data)
    y[0].data.fill_(0)
    same_values(x.data, ones(3))
    with pytest.raises(RuntimeError, match="Only Variables created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_data_is_the_same_object_each_time_and_can_be_replaced():
    tensor = torch.randn(3)
    x = Variable(tensor, requires_grad=True)
    assert x.data is tensor and x.data is x.data
    other = torch.randn(4).double()
    version = x._version
    x.data = other
    assert x.data is other and x._version == version
    x.sum().backward()
    same_values(x.grad.data, ones(4))
    with pytest.raises(RuntimeError, match="Variable data has to be a tensor, but got int"):
        x.data = 3


def test_a_result_has_a_grad_fn_also_where_nothing_requires_grad():
    y = sample(3) * 2
    assert y.grad_fn is not None and not y.is_leaf and not y.requires_grad
    assert y.grad_fn.next_functions[0][0] is None


def test_no_grad_as_a_function():
    x, y = leaf(5, 5), leaf(5, 5)
    z = functions.NoGrad()(x) * y
    assert not functions.NoGrad()(x).requires_grad and z.requires_grad
    z.sum().backward()
    same_values(y.grad.data, x.data)
    assert x.grad is None


def test_reductions_of_variables_have_one_element_and_of_tensors_are_numbers():
    x = leaf(3, 4)
    for name in ("sum", "prod", "mean", "max", "min", "var", "std", "norm"):
        assert getattr(x, name)().size() == torch.Size([1])
        assert isinstance(getattr(x.data, name)(), float)
    assert x.dist(x).size() == torch.Size([1]) and isinstance(x.data.dist(x.data), float)
    assert x[0].dot(x[1]).size() == torch.Size([1])
    for name in ("sum", "mean", "std"):
        assert getattr(x[0], name)(0).size() == getattr(x.data[0], name)(0).size() == torch.Size([1])


def test_comparisons_give_bytes_without_a_gradient():
    x, y = leaf(3), sample(3)
    for mask in (x < y, x <= 0, x == y, x != 1, x > y, x >= y, torch.eq(x, y), x.gt(0)):
        assert type(mask.data) is torch.ByteTensor and not mask.requires_grad
    with pytest.raises(AssertionError, match="can't compare Variable and tensor"):
        x < y.data  # noqa: B015


def test_masked_copy_is_an_old_name():
    x, mask = sample(3), Variable(torch.ByteTensor([0, 1, 1]))
    with pytest.warns(UserWarning):
        y = x.masked_copy(mask, sample(2))
    same_values(y[0].data, x[0].data)


REDUCTIONS = {name: getattr(torch, name, None) for name in
              ("sum", "prod", "mean", "max", "min", "mode", "median", "kthvalue", "var", "std")}
REDUCTIONS["norm"] = lambda x, *args, **kwargs: torch.norm(x, 2, *args, **kwargs)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_leaving_keepdim_out_warns_once_where_that_is_asked_for(name):
    reduce, x = REDUCTIONS[name], leaf(3, 4)
    torch.utils.backcompat.keepdim_warning.enabled = True
    try:
        with pytest.warns(UserWarning, match="keepdim") as caught:
            left_out = reduce(x, 1)
        assert len(caught) == 1
        without, kept = reduce(x, 1, keepdim=False), reduce(x, 1, keepdim=True)
    finally:
        torch.utils.backcompat.keepdim_warning.enabled = False
    first = [r[0] if isinstance(r, tuple) else r for r in (left_out, without, kept)]
    same_values(first[0].data, first[1].data)
    same_values(first[0].data, first[2].data.squeeze(1))
    for r in first:
        r.backward(torch.ones(*r.size()).double())
