"""Sizes, strides, types, conversions and the Python protocols of a tensor."""

import operator
import weakref

import numpy as np
import pytest

import torchlite
from torchlite import ByteTensor, CharTensor, DoubleTensor, FloatTensor, IntTensor, LongTensor, Size


def test_sizes_and_strides():
    t = torchlite.from_numpy(np.zeros((2, 3, 4), np.float32).transpose(2, 0, 1)[1:])
    assert t.size() == t.shape == (3, 2, 3) and type(t.size()) is Size
    assert t.stride() == (1, 12, 4) and type(t.stride()) is tuple
    assert (t.size(0), t.size(-1), t.size(dim=1), t.stride(-1), t.stride(dim=0)) == (3, 3, 2, 4, 1)
    assert t.dim() == t.ndimension() == t.ndim == 3 and t.numel() == t.nelement() == 18
    assert t.element_size() == 4 and not t.is_contiguous()


def test_offset_and_address_of_a_view():
    t = FloatTensor([[1, 2], [3, 4]])
    assert t[1].storage_offset() == 2 and t[1].data_ptr() == t.data_ptr() + 8


@pytest.mark.parametrize("dim", [2, -3, 100])
def test_a_dimension_out_of_range_is_an_error(dim):
    message = rf"dimension out of range \(expected to be in range of \[-2, 1\], but got {dim}\)"
    for method in (FloatTensor(2, 3).size, FloatTensor(2, 3).stride):
        with pytest.raises(RuntimeError, match=message):
            method(dim)


def test_wrong_arguments_of_size_are_errors():
    t = FloatTensor(2)
    for call in (lambda: t.size("a"), lambda: t.size(1, 2), lambda: t.size(dims=0), lambda: t.size(0.0)):
        with pytest.raises(TypeError):
            call()


def test_dtype_is_numpys():
    assert FloatTensor(1).dtype is np.dtype(np.float32) and LongTensor(1).dtype == np.int64


@pytest.mark.parametrize("target", [DoubleTensor, "torchlite.DoubleTensor", "DoubleTensor", np.float64, np.dtype("f8")])
def test_type_converts(target):
    t = FloatTensor([1.5]).type(target)
    assert type(t) is DoubleTensor and t.tolist() == [1.5]


def test_type_names_the_class():
    class Mine(FloatTensor):
        pass

    assert FloatTensor(1).type() == "torchlite.FloatTensor" and Mine(1).type() == f"{__name__}.Mine"


def test_type_with_the_same_class_returns_the_tensor():
    t = FloatTensor(2)
    assert t.type(FloatTensor) is t and t.float() is t and t.type_as(FloatTensor(1)) is t and t.cpu() is t


@pytest.mark.parametrize("target, error", [
    (int, None), (str, TypeError), ("NoTensor", ValueError), (complex, TypeError), (3.5, TypeError),
])
def test_type_of_no_tensor_class(target, error):
    if error is None:
        assert type(FloatTensor(1).type(target)) is LongTensor
    else:
        with pytest.raises(error):
            FloatTensor(1).type(target)


@pytest.mark.parametrize("method, cls", [
    ("float", torchlite.FloatTensor), ("double", torchlite.DoubleTensor), ("half", torchlite.HalfTensor),
    ("long", torchlite.LongTensor), ("int", torchlite.IntTensor), ("short", torchlite.ShortTensor),
    ("char", torchlite.CharTensor), ("byte", torchlite.ByteTensor),
])
def test_conversions_cut_fractions_off(method, cls):
    t = getattr(DoubleTensor([[1.75, 2]]), method)()
    assert type(t) is cls and t.shape == (1, 2) and t[0, 1] == 2 and int(t[0, 0]) == 1


@pytest.mark.parametrize("keywords", [{"async": True}, {"async_": True}, {"non_blocking": True}])
def test_conversions_take_the_asynchronous_flag(keywords):
    t = FloatTensor([1])
    assert t.double(**keywords).tolist() == t.type(DoubleTensor, **keywords).tolist() == [1]
    assert DoubleTensor(1).copy_(t, **keywords).tolist() == [1]


def test_signedness_is_that_of_the_era():
    assert [c(1).is_signed() for c in (FloatTensor, LongTensor, ByteTensor, CharTensor)] == [True, True, False, False]


def test_the_host_has_no_device_number():
    with pytest.raises(RuntimeError, match="expected a CUDA tensor, but got torchlite.FloatTensor"):
        FloatTensor(1).get_device()
    assert FloatTensor(1).is_cuda is False


def test_the_set_of_classes():
    assert FloatTensor in torchlite._tensor_classes and len(torchlite._tensor_classes) >= 8


# ---- protocols ---------------------------------------------------------------------------------------------


def test_truth_of_an_empty_tensor_is_false_and_of_others_ambiguous():
    assert not FloatTensor()
    for t in (FloatTensor([1]), FloatTensor([1, 2])):
        with pytest.raises(RuntimeError, match="bool value of non-empty torchlite.FloatTensor objects is ambiguous"):
            bool(t)


def test_one_element_converts_to_a_number():
    t = FloatTensor([[2.5]])
    assert float(t) == t.item() == 2.5 and int(t) == 2 and type(LongTensor([3]).item()) is int
    assert operator.index(LongTensor([3])) == 3


@pytest.mark.parametrize("convert", [float, int, operator.index])
def test_several_elements_do_not_convert(convert):
    with pytest.raises(TypeError, match=r"got one of size \(2,\)"):
        convert(LongTensor([1, 2]))
    with pytest.raises(ValueError, match=r"got one of size \(2,\)"):
        LongTensor([1, 2]).item()


def test_a_floating_tensor_is_no_index():
    with pytest.raises(TypeError):
        operator.index(FloatTensor([1]))


def test_length_and_iteration():
    t = FloatTensor([[1, 2], [3, 4]])
    assert len(t) == 2 and [r.tolist() for r in t] == [[1, 2], [3, 4]] and list(t[0]) == [1.0, 2.0]
    assert len(FloatTensor()) == 0 and list(FloatTensor()) == []


def test_a_0d_tensor_has_no_length_and_no_items():
    t = torchlite.from_numpy(np.array(1.0))
    for call in (lambda: len(t), lambda: iter(t)):
        with pytest.raises(TypeError, match="0-d tensor"):
            call()


def test_data_is_an_attribute_of_variables_only():
    with pytest.raises(RuntimeError, match="cannot call .data on a torchlite.Tensor: did you intend to use autograd"):
        FloatTensor(1).data  # noqa: B018


def test_tensors_hash_by_identity():
    t, u = FloatTensor([1]), FloatTensor([1])
    assert {t: 1, u: 2}[t] == 1 and hash(t) != hash(u)


def test_weak_references_die_with_the_tensor():
    t = FloatTensor(1)
    ref = weakref.ref(t)
    assert ref() is t
    del t
    assert ref() is None


def test_is_same_size_and_is_set_to():
    t = FloatTensor(2, 3)
    assert t.is_same_size(LongTensor(2, 3)) and not t.is_same_size(FloatTensor(3, 2))
    assert t.is_set_to(FloatTensor(t)) and not t.is_set_to(t.clone()) and not t.is_set_to(t[:1])
    with pytest.raises(TypeError):
        t.is_same_size(3)


def test_cdata_identifies_the_tensor():
    t = IntTensor(1)
    assert isinstance(t._cdata, int) and t._cdata != IntTensor(1)._cdata
