"""Files that torch.save wrote in 2017. They are made here in its format, under its names."""

import pickle
import struct

import numpy as np
import pytest
from child_programs import installed

import torchlite

pytestmark = pytest.mark.no_leak_check(reason="files are written by other processes")

# Writes `obj` in the format; `views` maps the id of a storage to (base storage, offset).
WRITER = '''
import io, pickle, struct
import torch
from torch.autograd import Variable

def save(obj, path, version=1001, little=True, views={}):
    storages = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, o):
            if not torch.is_storage(o):
                return None
            base, offset = views.get(id(o), (o, 0))
            storages[str(id(base))] = base
            view = None if base is o else (str(id(o)), offset, o.size())
            return ("storage", type(o), str(id(base)), "cpu", base.size(), view)

    with open(path, "wb") as f:
        pickle.dump(0x1950a86a20f9469cfc6c, f, 2)
        pickle.dump(version, f, 2)
        pickle.dump({"protocol_version": 1001, "little_endian": little, "type_sizes": {"short": 2}}, f, 2)
        head = io.BytesIO()
        Pickler(head, 2).dump(obj)
        f.write(head.getvalue().replace(b"ctorchlite._utils", b"ctorch._utils").replace(b"ctorchlite.", b"ctorch."))
        keys = sorted(storages)
        pickle.dump(keys, f, 2)
        order = "<" if little else ">"
        for key in keys:
            s = storages[key]
            a = torch.from_numpy(__import__("numpy").array(s.tolist())).type(
                "torch." + type(s).__name__.replace("Storage", "Tensor")).numpy()
            f.write(struct.pack(order + "q", s.size()) + a.astype(a.dtype.newbyteorder(order)).tobytes())

class Tensor:
    """Pickles as a tensor did."""
    def __init__(self, storage, offset, size, stride):
        self.parts = storage, offset, torch.Size(size), stride
    def __reduce__(self):
        import torch._utils
        return torch._utils._rebuild_tensor, self.parts
'''


def write(tmp_path, body):
    path = tmp_path / "file.pth"
    installed(WRITER + f"path = {str(path)!r}\n" + body)
    assert b"torchlite" not in path.read_bytes()
    return path


TYPES = ["Double", "Float", "Half", "Long", "Int", "Short", "Char", "Byte"]


def test_tensors_of_every_type(tmp_path):
    path = write(tmp_path, f"""
save([Tensor(getattr(torch, t + 'Storage')([1, 2, 3, 4, 5, 6]), 1, (2, 2), (1, 2)) for t in {TYPES}], path)
""")
    loaded = torchlite.load(path)
    assert [t.type() for t in loaded] == [f"torchlite.{t}Tensor" for t in TYPES]
    assert all(t.tolist() == [[2, 4], [3, 5]] and t.stride() == (1, 2) for t in loaded)


def test_tensors_share_memory_again(tmp_path):
    path = write(tmp_path, """
s = torch.FloatStorage([1, 2, 3, 4])
part = torch.FloatStorage(s, 1, 2)
save({"a": Tensor(s, 0, (4,), (1,)), "b": Tensor(s, 2, (2,), (1,)), "v": Tensor(part, 0, (2,), (1,))}, path,
     views={id(part): (s, 1)})
""")
    loaded = torchlite.load(path)
    assert loaded["v"].tolist() == [2, 3]
    loaded["a"][2] = 9
    assert loaded["b"].tolist() == [9, 4] and loaded["v"].tolist() == [2, 9]


def test_a_state_dict_fits_a_module(tmp_path):
    path = write(tmp_path, """
from collections import OrderedDict
w, b = torch.FloatStorage([1, 2, 3, 4, 5, 6]), torch.FloatStorage([7, 8])
save(OrderedDict([("weight", Tensor(w, 0, (2, 3), (3, 1))), ("bias", Tensor(b, 0, (2,), (1,)))]), path)
""")
    layer = torchlite.nn.Linear(3, 2)
    layer.load_state_dict(torchlite.load(path))
    assert layer.weight.data.tolist() == [[1, 2, 3], [4, 5, 6]] and layer.bias.data.tolist() == [7, 8]


def test_variables(tmp_path):
    path = write(tmp_path, """
class V:
    def __reduce__(self):
        return Variable, (Tensor(torch.FloatStorage([3]), 0, (1,), (1,)),), (True, False, None)
save(V(), path)
""")
    v = torchlite.load(path)
    assert type(v) is torchlite.Variable and v.requires_grad and v.data.tolist() == [3]


def test_the_other_order_of_bytes(tmp_path):
    path = write(tmp_path, "save(Tensor(torch.DoubleStorage([1, 2.5]), 0, (2,), (1,)), path, little=False)")
    assert torchlite.load(path).tolist() == [1, 2.5]


def test_another_version_is_refused(tmp_path):
    path = write(tmp_path, "save([], path, version=1000)")
    with pytest.raises(RuntimeError, match=r"load: .*file\.pth' is of version 1000 .* 1001 can be read"):
        torchlite.load(path)


def test_a_file_that_ends_too_early_is_refused(tmp_path):
    path = write(tmp_path, "save(Tensor(torch.DoubleStorage([1, 2.5]), 0, (2,), (1,)), path)")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(RuntimeError, match=r"ends within storage '\d+': 13 of 16 bytes"):
        torchlite.load(path)


def test_other_files_are_refused(tmp_path):
    for content in (b"", b"\x80\x02", pickle.dumps([1], 2), b"PK\x03\x04" + bytes(40), struct.pack("q", 5) * 4):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(RuntimeError, match="is not a file that torchlite.save wrote"):
            torchlite.load(tmp_path / "f")


def test_what_was_saved_under_the_name_torch_loads_without_it(tmp_path):
    path = tmp_path / "own.pt"
    installed(f"""
        import torch
        torch.save({{"w": torch.ones(2), "net": torch.nn.Linear(2, 1)}}, {str(path)!r})
    """)
    loaded = torchlite.load(path)
    assert type(loaded["w"]) is torchlite.FloatTensor and isinstance(loaded["net"], torchlite.nn.Linear)
    np.testing.assert_array_equal(loaded["w"].numpy(), [1, 1])
