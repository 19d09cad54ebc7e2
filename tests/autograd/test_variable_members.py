"""What Variables take from their data, how their methods may be called, and what they refuse."""

import itertools
import re

import numpy as np
import pytest
from leaves import constant, leaf, values

import torchlite
from torchlite import Variable


def matrix():
    return leaf([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]])


def cube():
    return leaf(np.arange(24.0).reshape(2, 3, 4))


def index(*numbers):
    return Variable(torchlite.LongTensor(numbers))


def sizes(result):
    return [tuple(r.size()) for r in (result if isinstance(result, (tuple, list)) else (result,))]


# ---- what comes from the data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["size", "stride", "nelement", "numel", "ndimension", "dim", "element_size",
                                  "is_contiguous", "is_signed"])
def test_a_method_of_the_data(name):
    for v in (matrix(), matrix().t(), leaf([1.0]), index(1, 2)):
        assert getattr(v, name)() == getattr(v.data, name)()


@pytest.mark.parametrize("name", ["size", "stride"])
def test_a_method_of_the_data_takes_a_dimension(name):
    v = cube()
    assert getattr(v, name)(-1) == getattr(v.data, name)(2)
    assert getattr(v, name)(dim=0) == getattr(v.data, name)(0)


@pytest.mark.parametrize("name", ["shape", "is_cuda", "dtype", "ndim"])
def test_a_property_of_the_data(name):
    assert getattr(matrix(), name) == getattr(matrix().data, name)


@pytest.mark.parametrize("name", ["storage", "data_ptr", "set_", "no_such_thing"])
def test_other_attributes_are_not_found(name):
    with pytest.raises(AttributeError, match=name):
        getattr(matrix(), name)


@pytest.mark.parametrize("name", ["is_set_to", "is_same_size"])
def test_variables_are_compared_with_variables_and_tensors(name):
    v = matrix()
    same, other = v.view(2, 3), v.t()
    for convert in (lambda x: x, lambda x: x.data):
        assert getattr(v, name)(convert(same)) is True
        assert getattr(v, name)(convert(other)) is False


def test_the_hash_is_the_id():
    v = matrix()
    assert hash(v) == id(v) and {v: 1}[v] == 1


def test_comparisons_with_other_things_are_about_identity():
    v = matrix()
    assert (v == None) is False and (v != "text") is True  # noqa: E711
    with pytest.raises(TypeError):
        v < None  # noqa: B015


def test_the_truth_of_a_variable_is_ambiguous_unless_it_is_empty():
    assert not Variable(torchlite.FloatTensor())
    for v in (leaf([0.0]), leaf([[1.0, 2.0]])):
        with pytest.raises(RuntimeError, match="bool value of Variable objects containing non-empty "
                                               "torchlite.DoubleTensor is ambiguous"):
            bool(v)


def test_iteration_gives_the_slices_as_variables():
    v = matrix()
    rows = list(v)
    assert len(v) == 2 and sizes(rows) == [(3,), (3,)]
    rows[1].sum().backward()
    assert values(v.grad) == [[0, 0, 0], [1, 1, 1]]
    assert sizes(list(leaf([1.0, 2.0]))) == [(1,), (1,)]
    empty = Variable(torchlite.FloatTensor())
    assert len(empty) == 0 and list(empty) == []


# ---- the forms of calls --------------------------------------------------------------------------------------------

REDUCTIONS = ["sum", "prod", "mean", "max", "min", "var", "std", "norm"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keywords, size", [
    ({}, (1,)), ({"dim": None}, (1,)), ({"dim": None, "keepdim": None}, (1,)), ({"dim": 1}, (2, 4)),
    ({"dim": 1, "keepdim": None}, (2, 4)), ({"dim": 1, "keepdim": False}, (2, 4)),
    ({"dim": -2, "keepdim": True}, (2, 1, 4)), ({"dim": 1, "keepdim": 1}, (2, 1, 4)),
])
def test_reductions_take_dim_and_keepdim_by_name(name, keywords, size):
    assert sizes(getattr(cube(), name)(**keywords))[0] == size


@pytest.mark.parametrize("call, size", [
    (lambda v: v.sum(1, None), (2, 4)), (lambda v: v.var(1, None, None), (2, 4)), (lambda v: v.norm(2, 1), (2, 4)),
    (lambda v: v.std(1, unbiased=False, keepdim=True), (2, 1, 4)), (lambda v: v.norm(p=3, dim=1), (2, 4)),
    (lambda v: v.cumsum(dim=1), (2, 3, 4)), (lambda v: v.select(dim=1, index=2), (2, 4)),
    (lambda v: v.squeeze(dim=0), (2, 3, 4)), (lambda v: v.unsqueeze(dim=-1), (2, 3, 4, 1)),
    (lambda v: v.view(torchlite.Size([4, 6])), (4, 6)), (lambda v: v.view([4, -1]), (4, 6)),
    (lambda v: v.resize(4, 6), (4, 6)), (lambda v: v.resize((4, 6)), (4, 6)),
    (lambda v: v.transpose(0, 1).resize(torchlite.Size([24])), (24,)), (lambda v: v.resize_as(v.view(4, 6)), (4, 6)),
    (lambda v: v.resize_as(v.view(4, 6).data), (4, 6)), (lambda v: v.view_as(v.view(4, 6).data), (4, 6)),
    (lambda v: v.repeat(torchlite.Size([1, 2, 1])), (2, 6, 4)), (lambda v: v.clamp(None, 5), (2, 3, 4)),
    (lambda v: v.max(v), (2, 3, 4)), (lambda v: v.dist(v, p=3), (1,)), (lambda v: v.dist(v), (1,)),
])
def test_arguments_may_be_given_by_position_and_name(call, size):
    assert sizes(call(cube())) == [size]


@pytest.mark.parametrize("call, expected", [
    (lambda v: v.add(2, v), [3, -6]), (lambda v: v.sub(2, v), [-1, 2]), (lambda v: v.addcmul(v, v), [2, 2]),
    (lambda v: v.addcmul(2, v, v), [3, 6]), (lambda v: v.addcdiv(v, v), [2, -1]),
    (lambda v: v.addcdiv(0.5, v, v), [1.5, -1.5]), (lambda v: 1 + v, [2, -1]), (lambda v: 1 - v, [0, 3]),
    (lambda v: 2 * v, [2, -4]), (lambda v: 2 / v, [2, -1]), (lambda v: 2 ** v, [2, 0.25]), (lambda v: v % 1.5, [1, 1]),
    (lambda v: v ** 2, [1, 4]), (lambda v: -v, [-1, 2]), (lambda v: v @ v, [5]),
])
def test_operators_and_scaled_forms(call, expected):
    assert values(call(leaf([1.0, -2.0]))) == expected


@pytest.mark.parametrize("operator, same, expected", [
    ("v += w", True, [4, 2]), ("v -= w", True, [-2, -6]), ("v *= 2", True, [2, -4]), ("v /= 2", False, [0.5, -1]),
    ("v %= 1.5", False, [1, 1]),
])
def test_assignment_operators(operator, same, expected):
    names = {"v": constant([1.0, -2.0]), "w": constant([3.0, 4.0])}
    before = names["v"]
    exec(operator, names)
    assert (names["v"] is before) == same and values(names["v"]) == expected


def test_there_is_no_power_in_place():
    v = constant([1.0])
    with pytest.raises(NotImplementedError, match="in-place pow not implemented"):
        v **= 2


# ---- what is refused -----------------------------------------------------------------------------------------------

RAW = torchlite.DoubleTensor([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("name", ["add", "add_", "sub", "sub_", "mul", "div", "pow", "atan2", "fmod", "remainder",
                                  "max", "min", "dist", "mm", "__add__", "__radd__", "__sub__", "__mul__",
                                  "__truediv__", "__pow__", "__matmul__", "__mod__"])
def test_a_tensor_is_no_operand_of_a_variable(name):
    v = constant(np.ones((2, 3)))
    with pytest.raises(AssertionError, match="Variable"):
        getattr(v, name)(RAW)
    assert values(v) == np.ones((2, 3)).tolist() and v._version == 0


@pytest.mark.parametrize("name", ["eq", "ne", "gt", "ge", "lt", "le", "__eq__", "__ne__", "__gt__", "__ge__", "__lt__",
                                  "__le__"])
def test_a_tensor_is_not_compared_with_a_variable(name):
    with pytest.raises(AssertionError, match="can't compare Variable and tensor"):
        getattr(matrix(), name)(RAW)


@pytest.mark.parametrize("call, error, message", [
    (lambda v: v.clamp(), ValueError, "clamp requires specifying at least one of min and max arguments"),
    (lambda v: v.view(5, 5), RuntimeError, "size '[5 x 5]' is invalid for input of with 24 elements"),
    (lambda v: v.transpose(0, 2).view(24), RuntimeError, "input is not contiguous"),
    (lambda v: v.view(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (lambda v: v.t(), RuntimeError, "t() expects a 2D"),
    (lambda v: v.resize(5, 5), RuntimeError, "requested resize to 5x5 (25 elements in total)"),
    (lambda v: v.expand(2, 3, 5), RuntimeError, "The expanded size of the tensor (5) must match the existing size (4)"),
    (lambda v: v.permute(0, 0, 1), RuntimeError, "Invalid permutation"),
    (lambda v: v.sum(3), RuntimeError, "dimension out of range (expected to be in range of [-3, 2], but got 3)"),
    (lambda v: v.max(-4), RuntimeError, "dimension out of range (expected to be in range of [-3, 2], but got -4)"),
    (lambda v: v.unsqueeze(4), RuntimeError, "dimension out of range (expected to be in range of [-4, 3], but got 4)"),
    (lambda v: v[2], IndexError, "index 2 is out of range for dimension 0 (of size 2)"),
    (lambda v: v["a"], TypeError, "Performing basic indexing on a tensor and encountered an error indexing dim"),
    (lambda v: v.sum("a"), TypeError, "sum"),
    (lambda v: v.sum(1, keepdims=True), TypeError, "(unexpected keyword argument 'keepdims')"),
    (lambda v: v.type(), TypeError, "type"),
    (lambda v: v.type(torchlite.FloatTensor, sync=True), TypeError, "type() got an unexpected keyword argument 'sync'"),
    (lambda v: v.cuda(0, sync=True), TypeError, "cuda() got an unexpected keyword argument 'sync'"),
    (lambda v: v.mm(v), RuntimeError, "matrices expected, got 3D, 3D tensors"),
    (lambda v: v.addmm(1, 2, 3, v[0], v[0]), TypeError, "addmm received an invalid combination of arguments"),
])
def test_wrong_arguments_are_refused(call, error, message):
    v = cube()
    with pytest.raises(error, match=re.escape(message)):
        call(v)
    assert v._version == 0 and values(v) == np.arange(24.0).reshape(2, 3, 4).tolist()


@pytest.mark.parametrize("name, replacement", [("masked_copy", "masked_scatter"), ("masked_copy_", "masked_scatter_")])
@pytest.mark.parametrize("of", [lambda v: v, lambda v: v.data], ids=["Variable", "tensor"])
def test_masked_copy_is_a_deprecated_name(name, replacement, of):
    v = of(constant([1.0, 2.0]))
    mask, source = of(Variable(torchlite.ByteTensor([0, 1]))), of(constant([9.0]))
    with pytest.warns(UserWarning, match=f"{name} is deprecated and renamed to {replacement}"):
        result = getattr(v, name)(mask, source)
    assert values(result) == [1, 9] and (result is v) == (name[-1] == "_")


@pytest.mark.parametrize("keywords", [{"async_": True}, {"async": True}], ids=str)
def test_type_takes_async_under_both_names(keywords):
    assert type(matrix().type(torchlite.FloatTensor, **keywords).data) is torchlite.FloatTensor


# ---- static methods ------------------------------------------------------------------------------------------------


def test_every_public_method_has_a_function():
    functions = dir(Variable._torch)
    assert {"exp", "max", "split", "cat", "addmm", "view"} <= set(functions)
    assert not [name for name in functions if name.startswith("_") or name.endswith("_")]
    assert all(callable(getattr(Variable._torch, name)) for name in functions)


@pytest.mark.parametrize("name", ["exp_", "_torch", "data", "no_such_thing"])
def test_nothing_else_has_one(name):
    with pytest.raises(AttributeError):
        getattr(Variable._torch, name)


@pytest.mark.parametrize("make", [list, tuple, iter, lambda parts: itertools.chain(parts)])
def test_cat_takes_any_iterable(make):
    v = matrix()
    result = Variable._torch.cat(make([v, v]), 1)
    assert sizes(result) == [(2, 6)]
    result.sum().backward()
    assert values(v.grad) == [[2] * 3] * 2
    assert sizes(Variable._torch.cat(make([v, v]), dim=-2)) == [(4, 3)]


@pytest.mark.parametrize("name, out, left, right", [
    ("addmm", (2, 4), (2, 3), (3, 4)), ("addbmm", (2, 4), (5, 2, 3), (5, 3, 4)),
    ("baddbmm", (5, 2, 4), (5, 2, 3), (5, 3, 4)), ("addmv", (2,), (2, 3), (3,)), ("addr", (3, 4), (3,), (4,)),
])
def test_functions_with_coefficients_take_them_in_front_of_what_they_multiply(name, out, left, right):
    t, a, b = (leaf(np.random.default_rng(0).standard_normal(s)) for s in (out, left, right))
    function, method = getattr(Variable._torch, name), getattr(t, name)
    for arguments, expected in {(t, a, b): method(a, b), (0.5, t, a, b): method(0.5, a, b),
                                (0.5, t, 2, a, b): method(0.5, 2, a, b)}.items():
        assert values(function(*arguments)) == values(expected)
        assert values(getattr(torchlite, name)(*arguments)) == values(expected)


@pytest.mark.parametrize("other", [3, "text", None, [2, 3]])
def test_resize_as_names_what_is_no_tensor(other):
    with pytest.raises(TypeError, match=f"resize_as: 'other' must be a Variable .*, but is {type(other).__name__}"):
        Variable(torchlite.DoubleTensor([1, 2])).resize_as(other)
