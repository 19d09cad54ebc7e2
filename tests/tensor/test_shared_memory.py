"""Memory that several processes see: share_memory_, _new_shared, files, and what `torchlite.multiprocessing` sends."""

import gc
import os
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest

import torchlite
from torchlite import DoubleStorage, DoubleTensor, FloatStorage, FloatTensor, LongStorage, _shared_memory


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def in_child(work):
    """Runs `work` in a forked child; its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # BLAS has threads, which the child does not use
        pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() is not False else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_tensor_moves_with_its_storage_and_all_views():
    t = FloatTensor([[1, 2], [3, 4]])
    view, address = t[1], t.data_ptr()
    np.exp(view)  # an idle cached array is no obstacle
    assert not t.is_shared() and t.share_memory_() is t and t.is_shared() and view.is_shared()
    assert t.data_ptr() != address and t.tolist() == [[1, 2], [3, 4]]
    view[0] = 9
    assert t.tolist() == [[1, 2], [9, 4]] and t.storage()[2:].is_shared()
    np.testing.assert_array_equal(view.numpy(), [9, 4])
    address = t.data_ptr()
    assert t.share_memory_().data_ptr() == address


@pytest.mark.parametrize("make", [
    lambda: FloatTensor([1, 2, 3]).share_memory_(), lambda: FloatTensor(FloatStorage._new_shared(3)),
    lambda: FloatTensor(100).fill_(1).share_memory_()[:3],
], ids=["moved", "new", "view"])
def test_a_forked_child_writes_into_the_same_memory(make):
    t = make()
    assert in_child(lambda: t.fill_(7)) == 0
    assert t.tolist() == [7, 7, 7]


def test_memory_that_is_not_shared_is_the_childs_own():
    t = FloatTensor([1])
    assert in_child(lambda: t.fill_(7)) == 0
    assert t.tolist() == [1]


def test_new_shared_storages_are_zeroed_and_have_the_size():
    s = DoubleStorage._new_shared(3)
    assert type(s) is DoubleStorage and s.tolist() == [0, 0, 0] and s.is_shared()
    assert len(LongStorage._new_shared(0)) == 0


@pytest.mark.parametrize("hold", [lambda t: t.numpy(), memoryview, lambda t: t.storage()[:1]])
def test_memory_that_others_hold_addresses_of_does_not_move(hold):
    t = FloatTensor([1, 2, 3])
    other = hold(t)
    with pytest.raises(RuntimeError, match="cannot move .*: arrays or buffers use its memory"):
        t.share_memory_()
    assert t.tolist() == [1, 2, 3] and not t.is_shared()
    del other
    assert t.share_memory_().tolist() == [1, 2, 3]


@pytest.mark.parametrize("memory, why", [
    (bytes(64), "read-only"), (bytearray(3), "3 bytes"), (memoryview(bytearray(64))[::-1], "non-contiguous"),
    (memoryview(bytearray(65))[1:], "not aligned"), (np.array([None] * 8), "references"),
])
def test_elements_move_only_into_memory_that_takes_them(memory, why):
    s = FloatStorage([1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match=f"cannot move a storage .*{why}"):
        s._move_into(memory)
    assert s.tolist() == [1, 2, 3, 4, 5]


def test_a_cycle_through_memory_that_a_storage_moved_to_is_collected():
    class Memory(bytearray):
        pass

    memory = Memory(64)
    s = FloatStorage(4)
    s._move_into(memory)
    memory.storage = s
    seen = weakref.ref(memory)
    del memory, s
    gc.collect()
    assert seen() is None


def test_who_releases_the_owner_does_not_free_the_memory():
    s = FloatStorage([1, 2, 3]).share_memory_()
    s.owner.release()
    assert s.tolist() == [1, 2, 3] and s.is_shared()


@pytest.mark.parametrize("size, error", [(-1, ValueError), ("x", TypeError), (None, TypeError), (2**70, ValueError)])
def test_a_size_that_is_none_is_named(size, error, tmp_path):
    with pytest.raises(error, match="_new_shared: size must be"):
        FloatStorage._new_shared(size)
    with pytest.raises(error, match="from_file: size must be"):
        FloatStorage.from_file(str(tmp_path / "f"), True, size)
    assert not (tmp_path / "f").exists()


def test_a_part_of_a_storage_does_not_move_by_itself():
    s = FloatStorage([1, 2, 3])
    with pytest.raises(RuntimeError, match="part of a storage"):
        s[1:].share_memory_()


def test_memory_of_an_array_is_left_when_it_is_shared():
    a = np.arange(3.0)
    t = torchlite.from_numpy(a).share_memory_()
    t.fill_(5)
    assert t.is_shared() and a.tolist() == [0, 1, 2]


def test_shared_memory_does_not_grow():
    t = FloatTensor([1, 2, 3]).share_memory_()
    with pytest.raises(RuntimeError, match="cannot resize .*: its memory belongs to a memoryview"):
        t.resize_(100)
    assert t.resize_(2).tolist() == [1, 2] and t.is_shared()


def test_blocks_and_descriptors_are_freed_with_the_last_view():
    before = descriptors()
    t = FloatTensor(1000).share_memory_()
    view, part = t[:10], t.storage()[5:]
    assert descriptors() == before + 2  # the file's own, and the mapping's
    del t, view
    assert descriptors() == before + 2 and part.is_shared()
    del part
    assert descriptors() == before


def test_a_failing_mapping_leaves_no_descriptor():
    before = descriptors()
    with pytest.raises((OSError, OverflowError, ValueError)):
        _shared_memory.allocate(2**62)
    assert descriptors() == before


def test_copies_of_shared_memory_are_private():
    import copy
    import pickle

    t = FloatTensor([1, 2]).share_memory_()
    for other in (t.clone(), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert not other.is_shared() and other.tolist() == [1, 2]


# ---- files ----


def test_a_shared_file_is_written_through(tmp_path):
    path = tmp_path / "numbers"
    s = DoubleStorage.from_file(path, shared=True, size=4)
    assert s.is_shared() and s.tolist() == [0] * 4
    s[1] = 2.5
    assert np.fromfile(path).tolist() == [0, 2.5, 0, 0]
    again = DoubleStorage.from_file(str(path), True)
    again[3] = 1
    assert s.tolist() == [0, 2.5, 0, 1]


def test_a_private_file_is_read_and_never_written(tmp_path):
    path = tmp_path / "numbers"
    np.arange(5.0).tofile(path)
    s = DoubleStorage.from_file(path, size=3)
    t = DoubleTensor(s).mul_(2)
    assert t.tolist() == s.tolist() == [0, 2, 4] and not s.is_shared()
    assert np.fromfile(path).tolist() == [0, 1, 2, 3, 4] and len(DoubleStorage.from_file(path)) == 5
    with pytest.raises(ValueError, match="holds 5 elements, but 6 were asked for"):
        DoubleStorage.from_file(path, size=6)
    assert len(DoubleStorage.from_file(path, size=0)) == 5


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        FloatStorage.from_file(tmp_path / "none")
    assert len(FloatStorage.from_file(tmp_path / "new", shared=True)) == 0


# ---- torchlite.multiprocessing, in processes of its own: it changes what the standard library pickles ----

PROGRAM = """
import torchlite
from torchlite import multiprocessing, Variable

def work(method_queue, argument):
    t, same, v = method_queue.get()
    assert t.is_shared() and t.storage() is same.storage() and v.requires_grad
    t[0] = 10
    v.data.add_(1)
    argument.fill_(3)
    held = method_queue.get()
    held.fill_(0)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    queue, argument = context.SimpleQueue(), torchlite.zeros(2).share_memory_()
    t, v = torchlite.FloatTensor([1, 2, 3]), Variable(torchlite.ones(2), requires_grad=True)
    held = torchlite.ones(2)
    array = held.numpy()
    child = context.Process(target=work, args=(queue, argument))
    child.start()
    queue.put((t, t[1:], v))
    queue.put(held)
    child.join()
    assert child.exitcode == 0, child.exitcode
    assert t.tolist() == [10, 2, 3] and v.data.tolist() == [2, 2], (t, v)
    assert argument.tolist() == [3, 3], argument
    assert held.tolist() == [1, 1] and not held.is_shared()
"""


@pytest.mark.no_leak_check(reason="runs a program in other processes")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_tensors_that_are_sent_are_the_same_memory_on_both_sides(method, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(method=method))
    root = os.path.dirname(os.path.dirname(torchlite.__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_module_whose_memory_is_shared_is_trained_by_a_child():
    from torchlite import nn

    layer = nn.Linear(2, 1)
    assert layer.share_memory() is layer and layer.weight.data.is_shared() and layer.bias.data.is_shared()
    assert in_child(lambda: [p.data.fill_(3) for p in layer.parameters()]) == 0
    assert layer.weight.data.tolist() == [[3, 3]] and layer.bias.data.tolist() == [3]
