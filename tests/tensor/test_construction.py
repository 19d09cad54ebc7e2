"""What a call of a tensor class makes."""

import numpy as np
import pytest

import torchlite
from torchlite import ByteTensor, DoubleTensor, FloatTensor, IntTensor, LongTensor, Size

CLASSES = {
    torchlite.ByteTensor: np.uint8, torchlite.CharTensor: np.int8, torchlite.ShortTensor: np.int16,
    torchlite.IntTensor: np.int32, torchlite.LongTensor: np.int64, torchlite.HalfTensor: np.float16,
    torchlite.FloatTensor: np.float32, torchlite.DoubleTensor: np.float64,
}
each_class = pytest.mark.parametrize("cls, dtype", CLASSES.items(), ids=lambda p: p.__name__)


@pytest.mark.parametrize("args, shape", [
    ((), (0,)), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 0), (2, 0)), ((np.int64(2), 3), (2, 3)), ((Size([4, 1]),), (4, 1)),
    ((Size([]),), ()), ((1,) * 64, (1,) * 64),
])
def test_sizes_give_uninitialised_memory_of_that_size(args, shape):
    t = FloatTensor(*args)
    assert t.shape == shape and t.is_contiguous() and t.numel() == np.prod(shape)


@each_class
def test_nested_sequences_are_copied(cls, dtype):
    t = cls([[1, 2, 3], (4, 5, 6)])
    assert t.shape == (2, 3) and t.dtype == dtype and t.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("data, shape", [([], (0,)), ([[], []], (2, 0)), ([[[]]], (1, 1, 0)), ((), (0,))])
def test_empty_sequences_keep_their_shape(data, shape):
    assert FloatTensor(data).shape == shape


def test_numpy_scalars_are_items():
    assert FloatTensor([np.float32(1.5), np.int64(2), True]).tolist() == [1.5, 2, 1]
    assert LongTensor([np.int8(1), np.bool_(True)]).tolist() == [1, 1]


def test_arrays_and_tensors_in_a_list_are_stacked():
    assert FloatTensor([np.arange(2), np.ones(2)]).tolist() == [[0, 1], [1, 1]]
    assert LongTensor([LongTensor([1, 2]), LongTensor([3, 4])]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("cls, data, error, message", [
    (FloatTensor, [[1, 2], [3]], RuntimeError, r"inconsistent sequence length at index \(1\) - expected 2 but got 1"),
    (FloatTensor, [[[1], [1, 2]]], RuntimeError,
     r"inconsistent sequence length at index \(0, 1\) - expected 1 but got 2"),
    (FloatTensor, [1, "a"], RuntimeError,
     r"tried to construct a tensor from a float sequence, but found an item of type str at index \(1\)"),
    (LongTensor, [[1], [2.5]], RuntimeError,
     r"tried to construct a tensor from a nested int sequence, but found an item of type float at index \(1, 0\)"),
    (FloatTensor, [1, [2]], RuntimeError, r"found an item of type list at index \(1\)"),
    (FloatTensor, [[1], 2], RuntimeError, r"found an item of type int at index \(1\)"),
    (ByteTensor, [256], OverflowError, "256 is out of the range of a ByteTensor"),
    (IntTensor, [2**31], OverflowError, "out of the range of a IntTensor"),
])
def test_bad_sequences_are_refused(cls, data, error, message):
    with pytest.raises(error, match=message):
        cls(data)


def test_a_self_containing_list_is_refused():
    data = []
    data.append(data)
    with pytest.raises(RuntimeError, match="nested more than 64 deep"):
        FloatTensor(data)
    data.clear()


@pytest.mark.parametrize("args", [("abc",), (1.5,), (2, 1.5), (None,), ([1], [2]), ({1: 2},), (np.zeros(2), 3)])
def test_other_arguments_are_refused(args):
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        FloatTensor(*args)


def test_negative_sizes_are_refused():
    with pytest.raises(RuntimeError, match=r"sizes must not be negative, but got \(2, -1\)"):
        FloatTensor(2, -1)


def test_impossible_sizes_are_refused():
    with pytest.raises(RuntimeError, match="too many elements"):
        FloatTensor(2**40, 2**40)
    with pytest.raises(MemoryError):
        FloatTensor(2**59)
    with pytest.raises(RuntimeError, match=r"\(2305843009213693952,\) has too many elements"):
        torchlite.zeros(1).expand(2**61)


def test_keywords_are_refused():
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        FloatTensor(size=3)


def test_a_tensor_of_the_same_class_is_aliased():
    t = FloatTensor([1, 2])
    u = FloatTensor(t)
    u[0] = 5
    assert u is not t and t.tolist() == [5, 2] and u.is_set_to(t)


def test_a_tensor_of_another_class_is_converted():
    t = DoubleTensor([1.75, -2.75])
    assert LongTensor(t).tolist() == [1, -2]


def test_a_storage_is_aliased():
    t = FloatTensor([[1, 2], [3, 4]])
    u = FloatTensor(t.storage())
    assert u.tolist() == [1, 2, 3, 4] and u.data_ptr() == t.data_ptr()
    with pytest.raises(TypeError):
        LongTensor(t.storage())


@each_class
def test_an_array_of_the_same_dtype_shares_memory(cls, dtype):
    a = np.arange(6, dtype=dtype).reshape(2, 3)
    t = cls(a)
    a[0, 0] = 9
    t[1, 2] = 8
    assert t[0, 0] == 9 and a[1, 2] == 8


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.float16, np.uint16, np.uint64, np.longdouble, bool])
def test_an_array_of_another_real_dtype_is_copied(dtype):
    a = np.array([0, 1], dtype)
    t = FloatTensor(a)
    a[0] = 1
    assert t.tolist() == [0, 1]


@pytest.mark.parametrize("array", [np.zeros(2, complex), np.zeros(2, "M8[s]"), np.array(["a"]), np.array([None])])
def test_arrays_of_other_dtypes_are_refused(array):
    with pytest.raises(TypeError, match="can't convert a given np.ndarray to a tensor"):
        FloatTensor(array)


def test_buffers_are_read_as_arrays():
    assert ByteTensor(bytearray(b"ab")).tolist() == [97, 98]
    assert FloatTensor(memoryview(np.ones((2, 2), np.float32))).shape == (2, 2)


def test_new_makes_a_tensor_of_the_same_class():
    t = LongTensor(3)
    assert t.new(2, 2).type() == "torchlite.LongTensor" and t.new([1]).tolist() == [1] and t.new().numel() == 0


def test_the_base_class_has_no_instances():
    with pytest.raises(TypeError, match="use a typed class"):
        torchlite._C._TensorBase(3)


class Named(FloatTensor):
    def __init__(self, data, name=None):
        super().__init__(data)
        self.name = name


def test_a_subclass_adds_attributes():
    t = Named([1, 2], name="n")
    assert isinstance(t, FloatTensor) and t.name == "n" and t.tolist() == [1, 2] and t.shape == (2,)


def test_a_subclass_instance_of_many_dimensions_keeps_them():
    assert Named(np.zeros((1, 2, 3, 4, 5), np.float32)).shape == (1, 2, 3, 4, 5)
