"""Storages, classes and memory of tensors on a device: what the host's have, where it makes sense."""

import copy
import pickle

import numpy as np
import pytest
from devices import tensor

import torchlite
from torchlite import cuda

pytestmark = pytest.mark.usefixtures("lib")


def test_classes_know_that_they_are_on_a_device():
    t = tensor(np.arange(3, dtype=np.float32))
    assert cuda.FloatTensor.is_cuda is t.is_cuda is True and cuda.FloatTensor.is_sparse is False
    assert torchlite.FloatTensor.is_cuda is False and t.type() == torchlite.typename(t) == "torchlite.cuda.FloatTensor"
    assert t.storage_type() is cuda.FloatTensor.storage_type() is type(t.storage()) is cuda.FloatStorage


def test_growing_keeps_the_elements():
    t = tensor(np.arange(3, dtype=np.float32))
    t.add(1)  # leaves a cached array
    assert t.resize_(100).size() == (100,) and t[:3].cpu().tolist() == [0, 1, 2]
    assert t.resize_(2).cpu().tolist() == [0, 1]


def test_storages_convert_copy_and_print():
    s = tensor(np.array([1, 2.5], np.float32)).storage()
    assert s.type() == "torchlite.cuda.FloatStorage" and s.is_cuda
    assert s.cpu().tolist() == [1, 2.5] and type(s.cpu()) is torchlite.FloatStorage
    assert type(s.double()) is cuda.DoubleStorage and s.double().cpu().tolist() == [1, 2.5] and s.float() is s
    assert torchlite.FloatStorage([3]).cuda().cpu().tolist() == [3]
    assert repr(s) == " 1.0000\n 2.5000\n[torchlite.cuda.FloatStorage of size 2]"
    assert not s.is_shared() and not s.is_pinned()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["copy", "pickle"])
def test_duplicates_keep_sharing(duplicate):
    t = tensor(np.arange(4, dtype=np.float32))
    a, b = duplicate([t, t[1:]])
    assert a.is_cuda and b.storage() is a.storage()
    a.fill_(7)
    assert b.cpu().tolist() == [7, 7, 7] and t.cpu().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("factory", ["zeros", "ones", "rand", "eye"])
def test_the_default_class_can_be_on_a_device(factory):
    torchlite.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        assert torchlite.Tensor is cuda.FloatTensor and torchlite.Storage is cuda.FloatStorage
        assert type(getattr(torchlite, factory)(3)) is cuda.FloatTensor
        assert torchlite.arange(0, 3).cpu().tolist() == [0, 1, 2]
    finally:
        torchlite.set_default_tensor_type("torch.FloatTensor")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
def test_the_methods_of_the_eras_autograd_layer(dtype):
    a = np.arange(6, dtype=dtype).reshape(2, 3)
    t = tensor(a)
    assert t.index((0, 1)).cpu().tolist() == [1] and t._check_advanced_indexing([0])
    assert t._advanced_index_select([1]).cpu().tolist() == [3, 4, 5]
    assert t._advanced_index_add([0, 0], tensor(np.ones((2, 3), dtype))) is t
    assert t.cpu().tolist() == [[2, 3, 4], [3, 4, 5]]
    t._set_index((1, slice(1, 3)), 9)
    assert t.cpu().tolist() == [[2, 3, 4], [3, 9, 9]]
    with pytest.raises(TypeError, match="like self, but got a torchlite"):
        t._advanced_index_add([0], torchlite.from_numpy(a[:1]))


def test_memory_on_a_device_is_not_shared():
    t = tensor(np.zeros(2))
    with pytest.raises(RuntimeError, match="share_memory_: a torchlite.cuda.DoubleStorage lies on a CUDA device"):
        t.share_memory_()
    assert not t.is_shared()
