"""save and load."""

import io
import os
import sys
from collections import OrderedDict

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn


class Sub(Variable):
    pass


def net():
    return nn.Sequential(nn.Linear(3, 2), nn.LSTM(2, 2))


def same(state, other):
    assert list(state) == list(other)
    for name in state:
        np.testing.assert_array_equal(state[name].numpy(), other[name].numpy())


def test_a_state_dict_comes_back_through_a_path(tmp_path):
    state = net().state_dict()
    torchlite.save(state, tmp_path / "model.pt")
    loaded = torchlite.load(str(tmp_path / "model.pt"))
    assert isinstance(loaded, OrderedDict)
    same(loaded, state)


def test_a_module_comes_back_through_a_file_object():
    file, module = io.BytesIO(), net()
    torchlite.save(module, file)
    file.seek(0)
    same(torchlite.load(file).state_dict(), module.state_dict())


def test_several_objects_in_one_file():
    file = io.BytesIO()
    torchlite.save(1, file)
    torchlite.save(torchlite.FloatTensor([2.0]), file)
    file.seek(0)
    assert torchlite.load(file) == 1
    assert torchlite.load(file).numpy()[0] == 2


def test_objects_in_one_save_keep_sharing_memory(tmp_path):
    t = torchlite.FloatTensor([1.0, 2.0, 3.0])
    torchlite.save([t, t.narrow(0, 1, 2)], tmp_path / "x")
    whole, part = torchlite.load(tmp_path / "x")
    part.fill_(9)
    np.testing.assert_array_equal(whole.numpy(), np.array([1, 9, 9], "f4"))


def test_variables_keep_class_flags_and_attributes(tmp_path):
    v = Sub(np.arange(3.0), requires_grad=True)
    v.note = "x"
    torchlite.save({"v": v, "w": Variable(np.ones(1), volatile=True)}, tmp_path / "x")
    loaded = torchlite.load(tmp_path / "x")
    assert type(loaded["v"]) is Sub and loaded["v"].requires_grad and loaded["v"].note == "x"
    assert loaded["w"].volatile


def test_a_foreign_file_is_refused(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"something else")
    with pytest.raises(RuntimeError, match="x' is not a file that torchlite.save wrote"):
        torchlite.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    torchlite.save("old", path)
    with pytest.raises(Exception, match="pickle|local"):
        torchlite.save(lambda: None, path)
    assert torchlite.load(path) == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_saved_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "x"
    torchlite.save(1, path)
    path.chmod(0o640)
    torchlite.save(2, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_saving_through_a_link_writes_its_target(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    torchlite.save(1, target)
    link.symlink_to(target)
    torchlite.save(2, link)
    assert link.is_symlink() and torchlite.load(target) == 2


@pytest.mark.parametrize("map_location", [None, "cpu", lambda storage, location: storage])
def test_map_location_may_ask_for_the_cpu(tmp_path, map_location):
    torchlite.save(1, tmp_path / "x")
    assert torchlite.load(tmp_path / "x", map_location=map_location) == 1


def test_another_map_location_is_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="map_location has to be 'cpu', 'cuda', .* or None, but is 'tpu'"):
        torchlite.load(tmp_path / "x", map_location="tpu")


# ---- safetensors ----


def test_safetensors_round_trip(tmp_path):
    pytest.importorskip("safetensors")
    state = net().state_dict()
    torchlite.save(state, tmp_path / "x.safetensors")
    loaded = torchlite.load(tmp_path / "x.safetensors")
    assert set(loaded) == set(state)
    same(OrderedDict((name, loaded[name]) for name in state), state)
    other = net()
    other.load_state_dict(loaded)
    same(other.state_dict(), state)


def test_safetensors_takes_variables_and_arrays_of_any_layout(tmp_path):
    pytest.importorskip("safetensors")
    a = np.arange(6, dtype="f4").reshape(2, 3)
    values = {"v": Variable(a), "a": a.T, "i": torchlite.from_numpy(np.array([1, 2]))}
    torchlite.save(values, tmp_path / "x.safetensors")
    loaded = torchlite.load(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(loaded["a"].numpy(), a.T)
    np.testing.assert_array_equal(loaded["i"].numpy(), [1, 2])


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ([1], "a .safetensors file holds a dictionary of tensors, but got a list"),
        ({"x": 1}, "'x' has to be a tensor in a .safetensors file, but is a int"),
        ({1: torchlite.FloatTensor([1.0])}, "names in a .safetensors file are strings, but got the int 1"),
    ],
)
def test_safetensors_refuses_what_it_cannot_hold(tmp_path, obj, message):
    pytest.importorskip("safetensors")
    with pytest.raises(TypeError, match=message):
        torchlite.save(obj, tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("use", [lambda path: torchlite.save({}, path), torchlite.load], ids=["save", "load"])
def test_a_missing_safetensors_says_what_to_install(monkeypatch, tmp_path, use):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        use(tmp_path / "x.safetensors")
