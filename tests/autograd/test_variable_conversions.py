"""Variables in other types and shapes, the functions of `Variable._torch`, and how many objects are alive."""

import gc
import sys

import numpy as np
import pytest
from leaves import constant, leaf, values

import torchlite
from torchlite import _C
from torchlite.autograd import Variable

TYPES = {
    "byte": _C.ByteTensor,
    "char": _C.CharTensor,
    "short": _C.ShortTensor,
    "int": _C.IntTensor,
    "long": _C.LongTensor,
    "half": _C.HalfTensor,
    "float": _C.FloatTensor,
    "double": _C.DoubleTensor,
}
FLOATING = {"half", "float", "double"}


@pytest.mark.parametrize("name", TYPES)
def test_the_method_of_each_type_converts(name):
    x = leaf([1.0, 2.0], dtype=np.float32 if name == "double" else np.float64)
    y = getattr(x, name)()
    assert type(y.data) is TYPES[name] and values(y) == [1, 2]
    assert y.requires_grad == (name in FLOATING)


@pytest.mark.parametrize("name", sorted(FLOATING - {"double"}))
def test_gradients_are_cast_back(name):
    x = leaf([1.0, 2.0])
    (getattr(x, name)() * 3).sum().backward()
    assert type(x.grad.data) is _C.DoubleTensor and values(x.grad) == [3, 3]


@pytest.mark.parametrize("t", [_C.FloatTensor, "torchlite.FloatTensor", np.float32, np.dtype("f4")], ids=str)
def test_type_takes_classes_names_and_dtypes(t):
    assert type(leaf([1.0]).type(t).data) is _C.FloatTensor


def test_the_same_type_gives_the_variable_itself():
    x = leaf([1.0])
    assert x.double() is x and x.type(_C.DoubleTensor) is x and x.type_as(constant([1])) is x and x.cpu() is x


def test_type_as_takes_variables_and_tensors():
    x = leaf([1.5])
    for other in (constant([1], np.int64), constant([1], np.int64).data):
        assert type(x.type_as(other).data) is _C.LongTensor


def test_integers_from_a_differentiable_variable_end_the_graph():
    index = leaf([0.0, 1.0]).long()
    assert not index.requires_grad
    x = leaf([5.0, 6.0])
    x.index_select(0, index).sum().backward()
    assert values(x.grad) == [1, 1]


@pytest.mark.parametrize("make", [leaf, lambda v: leaf(v).data], ids=["Variable", "tensor"])
def test_without_cupy_the_error_names_the_packages(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"which is not installed: .* extra cuda13 \(pip install cupy-cuda13x\)"):
        make([1.0]).cuda()


def test_without_cupy_cuda_is_not_available_and_says_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert torchlite.cuda.is_available() is False and torchlite.cuda.device_count() == 0


def test_numpy_is_the_same_memory_and_refuses_what_requires_grad():
    x = constant([1.0, 2.0])
    x.numpy()[0] = 7
    assert values(x) == [7, 2]
    with pytest.raises(RuntimeError, match=r"use its \.data"):
        leaf([1.0]).numpy()


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_resize_changes_the_shape_only():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = x.resize(2, 2)
    assert values(y) == [[1, 2], [3, 4]] and values(x.resize((4, 1))) == [[1], [2], [3], [4]]
    assert tuple(x.resize_as(y).size()) == (2, 2)
    y.sum().backward()
    assert values(x.grad) == [1, 1, 1, 1]
    with pytest.raises(RuntimeError, match=r"requested resize to 3x2 \(6 elements in total\).*size 4 \(4 elements\)"):
        x.resize(3, 2)


# ---- Variable._torch -------------------------------------------------------------------------------------------------


def test_torch_holds_functions_of_the_methods_names():
    x, y = leaf([[1.0, 2.0]]), leaf([[3.0], [4.0]])
    assert values(Variable._torch.add(x, 1)) == [[2, 3]]
    assert values(Variable._torch.cat([x, x], 1)) == [[1, 2, 1, 2]]
    assert values(Variable._torch.addmm(2, constant([[1.0]]), 3, x, y)) == [[35]]
    assert {"exp", "mm", "detach", "addmm"} <= set(dir(Variable._torch))


@pytest.mark.parametrize("name", ["add_", "__add__", "_version", "shape", "nothing"])
def test_torch_holds_no_other_names(name):
    assert not hasattr(Variable._torch, name)


# ---- counts ----------------------------------------------------------------------------------------------------------


def live():
    gc.collect()
    return torchlite._C._live_objects()


def test_live_variables_and_functions_are_counted():
    before = live()
    x = leaf([1.0])
    y = (x * 2).exp()
    after = live()
    # The leaf and the result; its function, that of the product and the accumulator.
    assert after["Variable"] - before["Variable"] == 2
    assert after["Function"] - before["Function"] == 3
    y.backward()
    del x, y
    assert live() == before


def test_a_function_that_is_called_counts_once():
    class Double(torchlite.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return g * 2

    before = live()
    x = leaf([1.0])
    y = Double()(x)
    assert live()["Function"] - before["Function"] == 2
    del x, y
    assert live() == before
