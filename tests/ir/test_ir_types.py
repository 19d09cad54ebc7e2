"""The type rule of every row against what its forward really returns, and what the rules refuse."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from op_samples import ENTRIES, ROWS, map_arrays, tensor

import torchlite
from torchlite import _C
from torchlite.autograd import Variable

DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def traced_let(name: str, args: list, kwargs: dict) -> tuple:
    """The let that a call of the row is traced as, and its results. The end of a trace checks the rule against them."""
    variables: list = []

    def variable(a: np.ndarray) -> Variable:
        variables.append(Variable(tensor(a)))
        return variables[-1]

    args = map_arrays(variable, args)
    kwargs = {k: map_arrays(variable, v) for k, v in kwargs.items()}
    _C._tracer_enter(tuple(variables))
    try:
        out = ROWS[name](*args, **kwargs)
        out = out if isinstance(out, tuple) else (out,)
    except BaseException:
        _C._tracer_abort()
        raise
    return _C._tracer_exit(out), out


def type_of(v: Variable) -> _C.TensorType:
    return _C.TensorType(type(v.data).__name__.removesuffix("Tensor"), v.size())


def fits(rule: _C.TensorType, given: _C.TensorType) -> bool:
    same = (rule.dtype, rule.device, len(rule.sizes)) == (given.dtype, given.device, len(given.sizes))
    return same and all(a in (-1, b) for a, b in zip(rule.sizes, given.sizes, strict=True))


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in ENTRIES])
def test_rules_say_what_the_forward_returns(entry) -> None:
    for s in entry.samples:
        for dtype in {*entry.dtypes, *(DTYPES if entry.reference is not None else ())}:
            args, kwargs = s.make(dtype)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ROWS[entry.name](*map_arrays(lambda a: Variable(tensor(a)), args), **kwargs)
            except Exception:
                assert dtype not in entry.dtypes
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lam, out = traced_let(entry.name, args, kwargs)
            assert len(lam.lets) == 1
            inferred = lam.lets[0].rhs.infer()
            given = tuple(map(type_of, out))
            assert len(inferred) == len(given), (inferred, given)
            assert all(map(fits, inferred, given)), (dtype, lam.text(), inferred, given)


NUMPY_PAIRS = ["add", "mul", "div", "atan2", "maximum", "remainder"]


@pytest.mark.parametrize("name", NUMPY_PAIRS)
@pytest.mark.parametrize("a", DTYPES)
def test_element_types_promote_as_the_forward_does(name: str, a: str) -> None:
    for b in DTYPES:
        lam, out = traced_let(name, [np.ones((2, 1), a), np.ones(3, b)], {})
        assert lam.lets[0].rhs.infer() == (type_of(out[0]),)


@pytest.mark.parametrize("number", [2, 2.5, True, np.float32(1.5), np.float64(1.5), np.int8(3)])
@pytest.mark.parametrize("a", DTYPES)
def test_numbers_take_the_type_of_the_tensor_beside_them(number: object, a: str) -> None:
    for name in ("mul", "div", "pow"):
        lam, out = traced_let(name, [np.ones(2, a), number], {})
        assert lam.lets[0].rhs.infer() == (type_of(out[0]),), (name, number)


class T(NamedTuple):
    dtype: str
    sizes: tuple


def apply(name: str, *args: object) -> _C.CppApply:
    def arg(a: object) -> object:
        if isinstance(a, T):
            return _C.Local(_C.TensorType(*a))
        if isinstance(a, list):
            return [arg(e) for e in a]
        return _C.Const(a)

    return _C.CppApply(name, [arg(a) for a in args])


REFUSED = [
    (("mm", T("Float", (2, 3)), T("Float", (4, 5))), r"mm: size mismatch, m1 and m2: \(2, 3\) and \(4, 5\)"),
    (("mul", T("Float", (2, 3)), T("Float", (4,))), r"mul.*\(2, 3\).*\(4,\)|mul.*3.*4"),
    (("linear", T("Float", (2, 3)), T("Float", (4, 5)), None), r"linear: input of size \(2, 3\).*\(4, 5\)"),
    (("linear", T("Float", (2, 5)), T("Double", (4, 5)), None), "linear: all tensors must have one type.*Double"),
    (("cat", [T("Float", (2, 3)), T("Float", (2, 4))], 0), r"cat: .*\(2, 4\).*\(2, 3\)"),
    (("stack", [], 0), "stack expects a non-empty sequence"),
    (("view", T("Float", (2, 3)), (4, -1)), "size '.*4.*' is invalid for input of with 6 elements"),
    (("gather", T("Float", (2, 3)), 0, T("Float", (2, 3))), "gather: expected an index of type Long, but got Float"),
    (("mul", 2, T("Float", (2, 3))), None),
    (("mm", 2, T("Float", (2, 3))), "mm: argument 'self' must be a local, but is a constant"),
    (("sum", T("Float", (2, 3)), 0, 1), "sum: the constant for argument 'keepdim' does not fit the signature.*int"),
    (("cat", T("Float", (2, 3)), 0), "cat: argument 'tensors' must be a list of locals, but is a local"),
    (("transpose", T("Float", (2, 3)), "a", 1), "transpose: the constant for argument 'dim0'.*str"),
    (("mul", T("Float", (2,))), "mul takes 2 arguments, but is given 1"),
    (("embedding", T("Float", (2,)), T("Float", (4, 5)), None, None, 2, False, False), "expected an index of type"),
    (("index", T("Float", (2, 3)), (0, 0, 0), []), "too many indices"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_rules_refuse_what_the_forward_refuses(call: tuple, message: str | None) -> None:
    if message is None:
        assert apply(*call).infer() == (_C.TensorType("Float", (2, 3)),)
        return
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError), match=message):
        apply(*call).infer()


def test_rules_allocate_nothing_of_the_size_that_they_speak_of() -> None:
    huge = T("Float", (10**6, 10**6))
    assert apply("mm", huge, huge).infer() == (_C.TensorType("Float", (10**6, 10**6)),)
    assert apply("add", huge, 1, 2.0).infer() == (_C.TensorType("Float", (10**6, 10**6)),)


KEYS = [
    (slice(None), 1),
    (Ellipsis, None, 0),
    (slice(None, None, 2), slice(3, 0, -1)),
    ("@0", slice(None)),
    (slice(None), "@0"),
    ("@0", slice(None), "@1"),
    ("@0", None, "@1"),
    (0, "@0"),
    ("@0", 0),
    (0, slice(None), "@0"),
    ("@2",),
    (),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_sizes_of_keys_are_numpys(key: tuple) -> None:
    a = np.zeros((3, 4, 5))
    indices = [np.array([0, 2, 1]), np.array([[1], [0]]), np.zeros((2, 2, 2), np.int64)]
    expected = a[tuple(indices[int(k[1:])] if isinstance(k, str) else k for k in key)]
    lists = [T("Long", i.shape) for i in indices]
    assert tuple(apply("index", T("Double", a.shape), key, lists).infer()[0].sizes) == expected.shape


def test_elements_decide_the_size_that_a_mask_selects() -> None:
    assert apply("masked_select", T("Float", (2, 3)), T("Byte", (2, 3))).infer()[0].sizes == (-1,)
    assert apply("index", T("Float", (2, 3)), ("@0",), [T("Byte", (2,))]).infer()[0].sizes == (-1, 3)


def test_every_row_names_itself_in_print() -> None:
    names = [op.display_name for op in _C._ops]
    assert len(set(names)) == len(names)
    assert torchlite._C._ops.max_pool_nd.display_name == "MaxPoolNd"
