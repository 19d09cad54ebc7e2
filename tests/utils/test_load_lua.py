"""Files of Torch 7, written here in their format."""

import struct

import numpy as np
import pytest

import torchlite
from torchlite.utils.serialization import T7ReaderException, TorchObject, load_lua

NIL, NUMBER, STRING, TABLE, TORCH, BOOLEAN, FUNCTION = range(7)


def i(n):
    return struct.pack("<i", n)


def q(*n):
    return struct.pack(f"<{len(n)}q", *n)


def string(text):
    return i(len(text)) + text.encode()


def value(x):
    if x is None:
        return i(NIL)
    if isinstance(x, bool):
        return i(BOOLEAN) + i(x)
    if isinstance(x, str):
        return i(STRING) + string(x)
    if isinstance(x, bytes):  # written already
        return x
    return i(NUMBER) + struct.pack("<d", x)


def table(index, pairs):
    return i(TABLE) + i(index) + i(len(pairs)) + b"".join(value(k) + value(v) for k, v in pairs)


def torch_object(index, name, content, version="V 1"):
    return i(TORCH) + i(index) + (string(version) if version else b"") + string(name) + content


def storage(index, name, values, dtype):
    a = np.array(values, dtype)
    return torch_object(index, f"torch.{name}Storage", q(a.size) + a.tobytes())


def tensor(index, name, sizes, strides, offset, contents):
    return torch_object(index, f"torch.{name}Tensor", i(len(sizes)) + q(*sizes, *strides, offset) + contents)


def load(tmp_path, content, **options):
    (tmp_path / "file.t7").write_bytes(content)
    return load_lua(tmp_path / "file.t7", **options)


DAMAGED = {
    "a long text": (i(STRING) + i(2**31 - 1) + b"x", "2147483647 bytes expected, but 1 are left"),
    "a negative length": (i(STRING) + i(-1), "-1 bytes expected"),
    "a storage without end": (torch_object(1, "torch.FloatStorage", q(2**61)), "bytes expected"),
    "a size": (tensor(1, "Float", [4], [1], 1, storage(2, "Float", [1, 2, 3], "f4")), "outside a storage of 3"),
    "an offset": (tensor(1, "Float", [1], [1], -5, storage(2, "Float", [1, 2, 3], "f4")), "outside a storage of 3"),
    "too many dimensions": (tensor(1, "Float", [1] * 65, [1] * 65, 1, storage(2, "Float", [1], "f4")), "dimensions"),
    "another storage": (tensor(1, "Float", [1], [1], 1, storage(2, "Long", [1], "i8")), "lies on a .*LongStorage"),
    "no storage": (tensor(1, "Float", [1], [1], 1, value("x")), "a FloatTensor lies on a str"),
}


@pytest.mark.parametrize("content, why", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named(tmp_path, content, why):
    with pytest.raises(T7ReaderException, match=f"file.t7' is damaged or no Torch 7 file: .*{why}"):
        load(tmp_path, content)


@pytest.mark.parametrize("x", [None, True, False, 3, -2.5, "text", ""])
def test_simple_values(tmp_path, x):
    result = load(tmp_path, value(x))
    assert result == x and type(result) is type(x)


def test_tables(tmp_path):
    assert load(tmp_path, table(1, [("a", 1), (2, "b"), (True, table(2, []))])) == {"a": 1, 2: "b", True: {}}
    assert load(tmp_path, table(1, [(2, "b"), (1, "a")])) == ["a", "b"]


def test_an_object_that_occurs_twice_is_read_once(tmp_path):
    shared = table(2, [("x", 1)])
    result = load(tmp_path, table(1, [("a", shared), ("b", i(TABLE) + i(2))]))
    assert result["a"] is result["b"]
    itself = load(tmp_path, table(1, [("me", i(TABLE) + i(1))]))
    assert itself["me"] is itself


TYPES = {"Byte": "u1", "Char": "i1", "Short": "<i2", "Int": "<i4", "Long": "<i8", "Float": "<f4", "Double": "<f8"}


@pytest.mark.parametrize("name", TYPES)
def test_tensors(tmp_path, name):
    content = tensor(1, name, (2, 2), (1, 3), 2, storage(2, name, [1, 2, 3, 4, 5, 6], TYPES[name]))
    result = load(tmp_path, content)
    assert type(result).__name__ == name + "Tensor" and result.stride() == (1, 3)
    assert result.tolist() == [[2, 5], [3, 6]]


def test_tensors_share_their_storage(tmp_path):
    first = tensor(2, "Float", (2,), (1,), 1, storage(3, "Float", [1, 2, 3], "<f4"))
    second = tensor(4, "Float", (2,), (1,), 2, i(TORCH) + i(3))
    a, b = load(tmp_path, table(1, [(1, first), (2, second)]))
    a[1] = 9
    assert b.tolist() == [9, 3]


@pytest.mark.parametrize("name, expected", [("Cuda", "FloatTensor"), ("CudaDouble", "DoubleTensor")])
def test_cuda_tensors_come_to_the_host(tmp_path, name, expected):
    dtype = "<f4" if name == "Cuda" else "<f8"
    result = load(tmp_path, tensor(1, name, (2,), (1,), 1, storage(2, name, [1, 2], dtype)))
    assert type(result).__name__ == expected and result.tolist() == [1, 2]


def test_empty_tensors_and_storages(tmp_path):
    assert load(tmp_path, tensor(1, "Int", (), (), 1, value(None))).numel() == 0
    empty = load(tmp_path, storage(1, "Int", [], "<i4"))
    assert type(empty) is torchlite.IntStorage and empty.size() == 0


def test_objects_of_other_classes(tmp_path):
    weight = tensor(3, "Float", (1,), (1,), 1, storage(4, "Float", [7], "<f4"))
    content = torch_object(1, "nn.Linear", table(2, [("weight", weight), ("train", True)]))
    with pytest.raises(T7ReaderException, match="class 'nn.Linear'.*unknown_classes=True"):
        load(tmp_path, content)
    layer = load(tmp_path, content, unknown_classes=True)
    assert isinstance(layer, TorchObject) and layer.torch_typename() == "nn.Linear"
    assert layer.weight.tolist() == [7] and layer.train is True and "nn.Linear" in repr(layer)
    with pytest.raises(AttributeError, match="nn.Linear has no field 'bias'"):
        layer.bias  # noqa: B018


def test_files_of_the_first_version_have_no_version_string(tmp_path):
    content = torch_object(1, "torch.IntStorage", q(1) + np.array([5], "<i4").tobytes(), version=None)
    assert load(tmp_path, content).tolist() == [5]


def test_functions_keep_their_code(tmp_path):
    result = load(tmp_path, i(FUNCTION) + i(1) + string("code") + table(2, [("a", 1)]))
    assert result.dumped == b"code" and result.upvalues == {"a": 1}


@pytest.mark.parametrize("content, text", [
    (b"", "4 bytes expected, but 0 are left"),
    (i(77), "there is no tag 77"),
    (i(STRING) + i(100) + b"short", "100 bytes expected, but 5"),
    (i(STRING) + i(-4), "-4 bytes expected"),
    (storage(1, "Double", [1, 2], "<f8")[:-1], "16 bytes expected, but 15"),
])  # fmt: skip
def test_damaged_files_are_refused(tmp_path, content, text):
    with pytest.raises(T7ReaderException, match="load_lua: .*file.t7' .*" + text):
        load(tmp_path, content)
