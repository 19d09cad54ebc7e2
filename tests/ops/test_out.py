"""`out=` of every function form: results are written into given tensors, which take their sizes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from test_table import ENTRIES, ROWS, map_arrays, tensor

import torchlite
from torchlite import Variable

FUNCTIONS = [e for e in ENTRIES if hasattr(torchlite, e.name) and e.reference is not None]
F = torchlite.FloatTensor


def calls(entry):
    for s in entry.samples:
        args, kwargs = s.make(entry.dtypes[0])
        yield map_arrays(tensor, args), kwargs


def results(value):
    """The results of a plain call as tensors; None for a number."""
    values = value if isinstance(value, tuple) else (value,)
    return values if all(torchlite.is_tensor(v) for v in values) else None


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in FUNCTIONS])
def test_every_function_writes_its_results_into_out(entry):
    function = ROWS[entry.name]
    for args, kwargs in calls(entry):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = results(function(*args, **kwargs))
            if plain is None:
                continue
            for make in (lambda r: type(r)(), lambda r: r.clone().zero_(), lambda r: type(r)(7)):
                outs = tuple(make(r) for r in plain)
                out = outs if len(outs) > 1 else outs[0]
                returned = function(*args, out=out, **kwargs)
                assert returned is out if len(outs) == 1 else all(a is b for a, b in zip(returned, outs, strict=True))
                for got, expected in zip(outs, plain, strict=True):
                    assert got.size() == expected.size()
                    np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_a_full_reduction_goes_into_a_tensor_of_one_element():
    out = F()
    assert torchlite.sum(F([1, 2]), out=out) is out
    assert out.size() == (1,) and out[0] == 3


def test_out_may_be_an_argument():
    a, b = F([[1, 2], [3, 4]]), F([[5, 6], [7, 8]])
    assert torchlite.mm(a, b, out=a) is a
    assert a.tolist() == [[19, 22], [43, 50]]
    c = F([[1, 2, 3], [4, 5, 6]])
    torchlite.t(c, out=c)
    assert c.tolist() == [[1, 4], [2, 5], [3, 6]]
    torchlite.expand(c, 2, 3, 2, out=c)
    assert c.tolist() == 2 * [[[1, 4], [2, 5], [3, 6]]]
    d = F([1, 2, 3])
    torchlite.add(d, F([[1], [2]]), out=d)
    assert d.tolist() == [[2, 3, 4], [3, 4, 5]]
    e = F([1, 2, 3])
    torchlite.cat([e, e], out=e)
    assert e.tolist() == [1, 2, 3, 1, 2, 3]


def test_out_may_be_a_view():
    a = F(4).zero_()
    torchlite.add(F([1, 2]), 1, out=a[::2])
    assert a.tolist() == [2, 0, 3, 0]
    b = F([1, 2, 3])
    torchlite.add(b[:2], 10, out=b[1:])
    assert b.tolist() == [1, 11, 12]


def test_out_none_is_not_given():
    assert torchlite.add(F([1]), 1, out=None).tolist() == [2]
    assert torchlite.sum(F([1, 2]), out=None) == 3


def test_comparisons_also_go_into_the_operands_type():
    a = F([1, 2])
    assert torchlite.gt(a, 1, out=F()).tolist() == [0, 1]
    assert torchlite.gt(a, 1, out=torchlite.ByteTensor()).tolist() == [0, 1]
    with pytest.raises(TypeError, match="gt: 'out' must be a torchlite.ByteTensor, as result 0 is, not a .*IntTensor"):
        torchlite.gt(a, 1, out=torchlite.IntTensor())


def test_sums_of_integers_also_go_into_the_operands_type():
    a = torchlite.IntTensor([[1, 2], [3, 4]])
    assert torchlite.sum(a, 0, out=torchlite.IntTensor()).tolist() == [4, 6]
    assert torchlite.sum(a, 0, out=torchlite.LongTensor()).tolist() == [4, 6]


X, Y = F([[1, 2], [3, 4]]), F([[5, 6], [7, 8]])


@pytest.mark.parametrize("call, error, text", [
    (lambda out: torchlite.add(X.double(), Y.double(), out=out), TypeError,
     "add: 'out' must be a torchlite.DoubleTensor, as result 0 is, not a torchlite.FloatTensor"),
    (lambda out: torchlite.add(X, F(3), out=out), RuntimeError, "add"),
    (lambda out: torchlite.mm(X, F(3, 3), out=out), RuntimeError, "mm"),
    (lambda out: torchlite.add(X, out=out), TypeError, "add received an invalid combination of arguments"),
    (lambda out: torchlite.max(X, 0, out=out), TypeError, "max: 'out' must be a tuple of 2 tensors"),
    (lambda out: torchlite.max(X, 0, out=(out, out)), RuntimeError, "max: 'out' has the same tensor twice"),
    (lambda out: torchlite.max(X, 0, out=(out, F())), TypeError,
     "max: 'out' must be a torchlite.LongTensor, as result 1 is, not a torchlite.FloatTensor"),
    (lambda out: torchlite.max(X, 0, out=(out, 3)), TypeError,
     "max: 'out' must be a tensor or a tuple of them, not int"),
    (lambda out: torchlite.add(X, Y, out=(out,)), TypeError, "add: 'out' must be 1 tensor, since there is as many"),
    (lambda out: torchlite.add(X, Y, out=(out, F())), TypeError, "add: 'out' must be 1 tensor.* a sequence of 2"),
    (lambda out: torchlite.add(Variable(X), Y, out=out), TypeError, "'out' takes the results of tensors only"),
    (lambda out: torchlite.add(Variable(X), Variable(Y), out=out), TypeError,
     "'out' takes the results of tensors only"),
    (lambda out: torchlite.cat([Variable(X)], out=out), TypeError, "'out' takes the results of tensors only"),
    (lambda out: torchlite.add(X, Y, out=Variable(out)), TypeError, "'out' takes the results of tensors only"),
])
def test_a_refused_call_changes_nothing(call, error, text):
    out = F([9, 9, 9])
    with pytest.raises(error, match=text):
        call(out)
    assert out.tolist() == [9, 9, 9] and out.stride() == (1,)
    assert X.tolist() == [[1, 2], [3, 4]]


def test_memory_that_cannot_grow_is_refused_and_the_other_out_keeps_its_size():
    values, foreign = F([9, 9, 9]), torchlite.from_numpy(np.zeros(1, np.int64))
    with pytest.raises(RuntimeError):
        torchlite.max(X, 0, out=(values, foreign))
    assert values.tolist() == [9, 9, 9] and foreign.tolist() == [0]


def test_read_only_memory_is_refused():
    array = np.zeros(2, np.float32)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="add"):
        torchlite.add(F([1, 2]), 1, out=torchlite.from_numpy(array))


def test_methods_take_no_out():
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        X.add(Y, out=F())
