"""What is known of the classes of tensors and storages themselves."""

import copy
import pickle

import numpy as np
import pytest

import torchlite
from torchlite import _C, ByteTensor, DoubleTensor, FloatTensor, LongTensor, Variable

KINDS = ["Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"]
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_a_class_knows_its_storages_and_that_it_is_dense_and_on_the_host(kind):
    cls, storage = getattr(torchlite, kind + "Tensor"), getattr(torchlite, kind + "Storage")
    assert cls in torchlite._tensor_classes and storage in torchlite._storage_classes
    assert cls.storage_type() is cls(2).storage_type() is type(cls(2).storage()) is storage
    assert cls.is_cuda is cls(1).is_cuda is False and cls.is_sparse is cls(1).is_sparse is False
    assert cls.__module__ == storage.__module__ == "torchlite" and cls.__name__ == kind + "Tensor"
    assert cls(1).type() == torchlite.typename(cls(1)) == torchlite.typename(cls) == f"torchlite.{kind}Tensor"
    assert storage(1).type() == torchlite.typename(storage(1)) == f"torchlite.{kind}Storage"


def test_the_base_class_has_no_storages():
    with pytest.raises(TypeError, match="use a typed class"):
        _C._TensorBase.storage_type()
    assert _C._TensorBase.is_cuda is False


class Mine(DoubleTensor):
    label = "class"


def test_a_subclass_in_python_is_a_class_of_its_own():
    t = Mine([1, 2])
    t.label = "mine"
    assert t.type() == f"{__name__}.Mine" and t.storage_type() is torchlite.DoubleStorage and Mine.is_cuda is False
    assert type(t.new(2)) is DoubleTensor and torchlite.is_tensor(t)
    assert type(FloatTensor([1]).type(Mine)) is Mine and t.type(Mine) is t
    for other in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert type(other) is Mine and other.label == "mine" and other.tolist() == [1, 2]


@pytest.mark.parametrize("o, tensor, storage", [
    (FloatTensor(1), True, False), (torchlite.FloatStorage(1), False, True), (np.zeros(1), False, False),
    (Variable(FloatTensor(1)), False, False), (FloatTensor, False, False), (None, False, False), (1.0, False, False),
], ids=lambda o: type(o).__name__)
def test_is_tensor_and_is_storage(o, tensor, storage):
    assert torchlite.is_tensor(o) is tensor and torchlite.is_storage(o) is storage


@pytest.mark.parametrize("name", ["torch.DoubleTensor", "torchlite.DoubleTensor", "DoubleTensor"])
def test_a_dotted_name_means_this_package_whether_it_is_called_torch_or_not(name):
    assert type(FloatTensor([1.5]).type(name)) is DoubleTensor


@pytest.mark.parametrize("name, error", [("torch.NoTensor", AttributeError), ("no_module.Tensor", ImportError)])
def test_a_dotted_name_of_nothing(name, error):
    with pytest.raises(error):
        FloatTensor(1).type(name)


NEW = {
    "nothing": ((), (0,)), "sizes": ((2, 3), (2, 3)), "Size": ((torchlite.Size([4]),), (4,)), "list": (([5, 6],), (2,)),
    "nested": (([[5], [6]],), (2, 1)), "tuple is data": (((2, 3),), (2,)), "array": ((np.ones((2, 2)),), (2, 2)),
    "tensor": ((FloatTensor(3, 1),), (3, 1)), "storage": ((torchlite.FloatStorage(6),), (6,)),
}


@pytest.mark.parametrize("args, size", NEW.values(), ids=NEW)
def test_new_takes_what_the_class_takes(args, size):
    t = FloatTensor(7).new(*args)
    assert type(t) is FloatTensor and t.size() == size


@pytest.mark.parametrize("make", [FloatTensor, FloatTensor(1).new], ids=["class", "new"])
@pytest.mark.parametrize("args", [("a",), (1.5,), ([1], 2), (torchlite.DoubleStorage(1),), (None,)], ids=repr)
def test_invalid_arguments_are_named_by_their_types(make, args):
    with pytest.raises(TypeError) as raised:
        make(*args)
    got = ", ".join(torchlite.typename(a) for a in args)
    assert f"received an invalid combination of arguments - got ({got}), but expected one of: " in str(raised.value)


def test_calls_on_each_element():
    t = DoubleTensor([[1, 2], [3, 4]])
    assert t.map2_(DoubleTensor([10, 20]), DoubleTensor([[1], [2]]), lambda a, b, c: a + b * c) is t
    assert t.tolist() == [[11, 22], [23, 44]]
    assert t.map_(DoubleTensor([1, 2]), lambda a, b: a - b).apply_(lambda a: 2 * a).tolist() == [[20, 40], [44, 84]]
    with pytest.raises(ZeroDivisionError):
        t.map2_(t, t, lambda a, b, c: 1 / 0)
    with pytest.raises(TypeError, match="map2_: 'y' must be a tensor, but is int"):
        t.map2_(t, 3, max)
    assert t.tolist() == [[20, 40], [44, 84]]


@pytest.mark.parametrize("args, expected", [
    ((), []), ((FloatTensor([7, 8]),), [7, 8]), ((torchlite.FloatStorage([1, 2, 3]),), [1, 2, 3]),
    ((torchlite.FloatStorage([1, 2, 3]), 1), [2, 3]), ((torchlite.FloatStorage([1, 2, 3]), 1, (2,)), [2, 3]),
    ((torchlite.FloatStorage([1, 2, 3, 4]), 0, torchlite.Size([2, 2])), [[1, 2], [3, 4]]),
    ((torchlite.FloatStorage([1, 2, 3, 4]), 0, (2, 2), (1, 2)), [[1, 3], [2, 4]]),
])
def test_set_re_points_the_tensor(args, expected):
    t = FloatTensor([[5, 6]])
    assert t.set_(*args) is t and t.tolist() == expected
    assert not args or t.storage() is (args[0] if torchlite.is_storage(args[0]) else args[0].storage())


@pytest.mark.parametrize("args, error", [
    ((DoubleTensor(2),), TypeError), ((torchlite.DoubleStorage(2),), TypeError), ((3,), TypeError),
    ((torchlite.FloatStorage(2), 3), ValueError), ((torchlite.FloatStorage(2), 0, (3,)), ValueError),
    ((torchlite.FloatStorage(4), 1, (2, 2), (2, 1)), ValueError),
    ((torchlite.FloatStorage(4), 0, (2, 2), (1,)), ValueError),
])
def test_set_to_what_is_not_there_changes_nothing(args, error):
    t = FloatTensor([[5, 6]])
    with pytest.raises(error):
        t.set_(*args)
    assert t.tolist() == [[5, 6]]


def test_half_tensors_compute():
    t = torchlite.HalfTensor([1, 2.5])
    assert (t + t).tolist() == [2, 5] and t.mul_(2).tolist() == [2, 5] and t.sum() == 7 and t[0] == 2


def test_a_byte_tensor_is_a_mask_and_a_long_tensor_an_index():
    t = FloatTensor([5, 6, 7])
    assert t[ByteTensor([1, 0, 1])].tolist() == [5, 7] and t[LongTensor([1, 0, 1])].tolist() == [6, 5, 6]
