"""clone, copy_, fill_, resize_, set_; copies by the copy module and pickles."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import torchlite
from torchlite import ByteTensor, DoubleTensor, FloatTensor, HalfTensor, LongTensor, from_numpy

each_protocol = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))


def views():
    a = np.arange(24.0).reshape(2, 3, 4)
    return {"contiguous": a, "transposed": a.T, "reversed": a[:, ::-1], "0-d": a[0, 0, 0, ...].reshape(()),
            "no items": a[:0], "broadcast": np.broadcast_to(a[0, 0], (3, 4))}


each_view = pytest.mark.parametrize("name", views())


@each_view
def test_clone_is_a_contiguous_copy(name):
    a = views()[name]
    t = from_numpy(a)
    u = t.clone()
    np.testing.assert_array_equal(u.numpy(), a)
    assert u.is_contiguous() and not u.readonly and u.shape == t.shape
    assert u.numel() == 0 or not np.shares_memory(u.numpy(), a)


def test_contiguous_aliases_where_it_can():
    t = FloatTensor([[1, 2], [3, 4]])
    assert t.contiguous().is_set_to(t) and t[:, 0].contiguous().stride() == (1,)


@pytest.mark.parametrize("src, expected", [
    (DoubleTensor([1.5, 2]), [[1.5, 2], [1.5, 2]]), (LongTensor([[1], [2]]), [[1, 1], [2, 2]]),
    (np.array(3), [[3, 3], [3, 3]]), (np.arange(4).reshape(2, 2)[::-1], [[2, 3], [0, 1]]),
])
def test_copy_casts_and_broadcasts(src, expected):
    t = FloatTensor(2, 2)
    assert t.copy_(src) is t and t.tolist() == expected


def test_copy_of_as_many_elements_goes_in_order_with_a_warning():
    t = FloatTensor(2, 3)
    with pytest.warns(UserWarning, match="not broadcastable to dst, but they have the same number of elements"):
        t.copy_(FloatTensor([1, 2, 3, 4, 5, 6]))
    assert t.tolist() == [[1, 2, 3], [4, 5, 6]]
    t.copy_(LongTensor([[6, 5], [4, 3], [2, 1]])[::-1], broadcast=False)
    assert t.tolist() == [[2, 1, 4], [3, 6, 5]]


@pytest.mark.parametrize("src, error", [(FloatTensor(4), RuntimeError), (FloatTensor(2, 1, 3), RuntimeError),
                                        ([1, 2], TypeError), (1, TypeError)])
def test_copy_of_something_else_is_an_error(src, error):
    t = FloatTensor([1, 2])
    with pytest.raises(error, match="copy_"):
        t.copy_(src)
    assert t.tolist() == [1, 2]


def test_copy_without_broadcasting_is_strict():
    with pytest.raises(RuntimeError, match=r"inconsistent tensor size, expected \(2, 2\) and \(2,\)"):
        FloatTensor(2, 2).copy_(FloatTensor(2), broadcast=False)


def test_copy_onto_itself_shifted():
    t = FloatTensor([1, 2, 3, 4])
    t[1:].copy_(t[:-1])
    assert t.tolist() == [1, 1, 2, 3]


@pytest.mark.parametrize("cls", [ByteTensor, LongTensor, HalfTensor, FloatTensor, DoubleTensor])
@pytest.mark.parametrize("part", [lambda t: t, lambda t: t[::2], lambda t: t[:0]])
def test_fill_and_zero(cls, part):
    t = cls(5).fill_(7)
    part(t).zero_()
    a = np.full(5, 7)
    part(a)[...] = 0
    assert t.tolist() == a.tolist()


@pytest.mark.parametrize("cls, value, error", [
    (LongTensor, 1.5, TypeError), (ByteTensor, 256, OverflowError), (FloatTensor, "a", TypeError),
    (FloatTensor, None, TypeError), (FloatTensor, FloatTensor(2), ValueError),
])
def test_fill_refuses_what_is_no_number_of_the_type(cls, value, error):
    t = cls([1, 2])
    with pytest.raises(error):
        t.fill_(value)
    assert t.tolist() == [1, 2]


# ---- re-pointing -------------------------------------------------------------------------------------------


def test_resize_keeps_the_leading_elements():
    t = FloatTensor([[1, 2], [3, 4]])
    assert t.resize_(3) is t and t.tolist() == [1, 2, 3]
    assert t.resize_(2, 4).tolist()[0] == [1, 2, 3, 4] and t.is_contiguous()
    assert t.resize_as_(LongTensor(1, 2, 1, 2)).tolist() == [[[[1, 2]], [[3, 4]]]]
    assert t.resize_([2]).tolist() == [1, 2] and t.resize_(torchlite.Size([1, 1])).tolist() == [[1]]


HOLDERS = {
    "array": lambda t: t.numpy(), "array of a view that died": lambda t: t[1:].numpy(), "asarray": np.asarray,
    "memoryview": memoryview, "view of an array": lambda t: t.numpy()[:1], "DLPack capsule": lambda t: t.__dlpack__(),
    "array through DLPack": np.from_dlpack, "part of the storage": lambda t: t.storage()[1:2],
    "bytes as another type": lambda t: from_numpy(t.numpy().view(np.int32)),
}


@pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)
def test_growing_memory_that_others_hold_addresses_of_is_refused(make):
    t = FloatTensor([1, 2, 3, 4, 5])
    view = t[1:]
    other = make(t)
    with pytest.raises(RuntimeError, match="cannot resize .* of 20 bytes to 4000: arrays or buffers use its memory"):
        t.resize_(1000)
    assert t.tolist() == [1, 2, 3, 4, 5] and view.tolist() == [2, 3, 4, 5]
    del other
    assert t.resize_(1000).numel() == 1000


def test_an_array_interface_holds_the_memory_for_good():
    t = FloatTensor([1, 2, 3, 4, 5])
    address = t.__array_interface__["data"][0]
    with pytest.raises(RuntimeError, match="arrays or buffers"):
        t.resize_(1000)
    assert t.data_ptr() == address


def test_other_tensors_on_growing_memory_see_the_new_block():
    t = FloatTensor([1, 2, 3, 4, 5])
    views = [t[1:], t.view(5), FloatTensor(t.storage())]
    for view in views:
        np.add(view, 0)  # leaves a cached array with the tensor, which nobody else has
    t.resize_(1000)[1] = 9
    assert [v.tolist() for v in views] == [[9, 3, 4, 5], [1, 9, 3, 4, 5], [1, 9, 3, 4, 5]]
    assert views[0].storage() is t.storage() and t.storage().size() == 1000
    np.testing.assert_array_equal(views[0].numpy(), [9, 3, 4, 5])


def test_memory_that_a_value_grows_while_it_is_assigned():
    t = FloatTensor(8).zero_()

    class Growing(float):
        def __float__(self):
            with pytest.raises(RuntimeError, match="arrays or buffers"):
                t.resize_(10_000)
            return 1.0

    t[:2] = [Growing(), Growing()]
    t[[0, 1]] = [Growing(), 2.0]
    assert t.numel() == 8


def test_memory_grows_while_kernels_of_other_threads_run():
    t = FloatTensor(1_000_000).fill_(1)
    results = []

    def work():
        for _ in range(5):
            results.append((t[:500_000] + 1).sum())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for size in range(1_000_001, 1_000_011):
        t.resize_(size * 2)
    for thread in threads:
        thread.join()
    assert results == [1_000_000] * 10


def test_growing_foreign_memory_is_refused():
    t = from_numpy(np.zeros(3))
    with pytest.raises(RuntimeError, match="belongs to a numpy.ndarray"):
        t.resize_(4)
    assert t.resize_(2).shape == (2,)


@pytest.mark.parametrize("sizes", [(-1,), (2, -3), (2**40, 2**40), (2**59,)])
def test_impossible_sizes_change_nothing(sizes):
    t = FloatTensor([1, 2])
    with pytest.raises((RuntimeError, MemoryError)):
        t.resize_(*sizes)
    assert t.tolist() == [1, 2]


def test_set_repoints():
    t, u = FloatTensor([1, 2]), FloatTensor([[3, 4], [5, 6]])
    assert t.set_(u[1]) is t and t.tolist() == [5, 6]
    t.set_(u.storage())
    assert t.tolist() == [3, 4, 5, 6]
    t.set_(u.storage(), 1, (2,), (2,))
    t[1] = 9
    assert t.tolist() == [4, 9] and u[1, 1] == 9
    assert t.set_(u.storage(), 0, (2, 2), (0, 1)).tolist() == [[3, 4], [3, 4]]
    assert t.set_().shape == (0,)


@pytest.mark.parametrize("args", [
    (0, (5,)), (4, (1,)), (-1, (1,)), (0, (2,), (4,)), (0, (2,), (-1,)), (0, (2, 2), (1,)), (0, (-1,)),
    (0, (2**62, 2**62), (0, 2**62)), (0, (2**31,), (2**62,)),
])
def test_set_outside_the_storage_is_refused(args):
    t, storage = FloatTensor([1]), FloatTensor([1, 2, 3, 4]).storage()
    with pytest.raises(ValueError, match="set_"):
        t.set_(storage, *args)
    assert t.tolist() == [1]


def test_set_to_another_type_is_refused():
    for other in (LongTensor(1), LongTensor(1).storage(), 3):
        with pytest.raises(TypeError, match="set_"):
            FloatTensor(1).set_(other)


# ---- copy and pickle ---------------------------------------------------------------------------------------


class Named(FloatTensor):
    pass


class Slotted(FloatTensor):
    __slots__ = ("name", "__private")

    def hide(self, value):
        self.__private = value
        return self

    def hidden(self):
        return self.__private


@each_protocol
@each_view
def test_pickles_restore_elements_and_sizes(protocol, name):
    a = views()[name]
    t = pickle.loads(pickle.dumps(from_numpy(a), protocol))
    np.testing.assert_array_equal(t.numpy(), a)
    assert type(t) is DoubleTensor and t.shape == a.shape and not t.readonly


@pytest.mark.parametrize("cls", sorted(torchlite._tensor_classes, key=repr))
def test_pickles_restore_every_class(cls):
    t = pickle.loads(pickle.dumps(cls([1, 2])))
    assert type(t) is cls and t.tolist() == [1, 2]


@pytest.mark.parametrize("restore", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_tensors_that_share_memory_share_it_afterwards(restore):
    t = FloatTensor([[1, 2], [3, 4]])
    u, v = restore((t, t[1]))
    v[0] = 9
    assert u.tolist() == [[1, 2], [9, 4]] and t[1, 0] == 3
    one, same = restore([t, t])
    assert one is same


def test_pickling_a_huge_virtual_tensor_stores_one_element():
    t = from_numpy(np.broadcast_to(np.float32(1), (2**33,)))
    data = pickle.dumps(t)
    assert len(data) < 1000 and pickle.loads(data).shape == (2**33,)


@pytest.mark.parametrize("restore", [
    *[lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)], copy.deepcopy,
    copy.copy,
])
def test_subclasses_keep_class_and_attributes(restore):
    t = Named([1, 2])
    t.name = ["n"]
    u = restore(t)
    assert type(u) is Named and u.name == ["n"] and u.tolist() == [1, 2]
    s = Slotted([3]).hide(4)
    s.name = "s"
    r = restore(s)
    assert type(r) is Slotted and r.name == "s" and r.hidden() == 4 and r.tolist() == [3]


class Stateful(FloatTensor):
    def __getstate__(self):
        return {"half": self.name[:1]}

    def __setstate__(self, state):
        self.name = state["half"]


@pytest.mark.parametrize("restore", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy])
def test_subclasses_may_say_what_their_state_is(restore):
    t = Stateful([1])
    t.name = "name"
    assert restore(t).name == "n"


def test_deepcopy_follows_attributes_back_to_the_tensor():
    t = Named([1])
    t.me = [t]
    u = copy.deepcopy(t)
    assert u.me[0] is u
    t.me = u.me = None


def test_copy_shares_the_memory():
    t = FloatTensor([1, 2])
    u = copy.copy(t)
    u[0] = 5
    assert u is not t and t[0] == 5


# ---- lifetime ----------------------------------------------------------------------------------------------


def live():
    gc.collect()
    return torchlite._C._live_objects()


def test_live_objects_are_counted():
    before = live()
    t, s = FloatTensor(2), Named([1])
    assert live()["Tensor"] == before["Tensor"] + 2 and live()["Storage"] == before["Storage"] + 2
    del t, s
    assert live() == before


def test_memory_is_returned_exactly():
    before = torchlite._C._memory_stats()["allocated_bytes"]
    t = FloatTensor(1000)
    assert torchlite._C._memory_stats()["allocated_bytes"] - before >= 4000
    u = t[10:].numpy()
    del t
    assert torchlite._C._memory_stats()["allocated_bytes"] > before
    del u
    assert torchlite._C._memory_stats()["allocated_bytes"] == before


def test_the_peak_is_recorded_until_reset():
    torchlite._C._reset_peak_memory()
    start = torchlite._C._memory_stats()["peak_bytes"]
    FloatTensor(100_000)
    assert torchlite._C._memory_stats()["peak_bytes"] >= start + 400_000
    torchlite._C._reset_peak_memory()
    assert torchlite._C._memory_stats()["peak_bytes"] == torchlite._C._memory_stats()["allocated_bytes"]


def test_a_cycle_through_a_subclass_instance_is_collected():
    t = Named([1])
    t.me, ref = t, weakref.ref(t)
    del t
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("use", [lambda t: None, lambda t: t[[0]]], ids=["plain", "with a cached view"])
def test_a_cycle_through_the_owner_of_the_memory_is_collected(use):
    class Array(np.ndarray):
        pass

    a = np.zeros(3).view(Array)
    a.tensor = from_numpy(a)
    use(a.tensor)
    ref = weakref.ref(a)
    del a
    gc.collect()
    assert ref() is None


def test_failed_allocations_are_memory_errors():
    torchlite._C._fail_allocations_after(0)
    try:
        for call in (lambda: FloatTensor(1000), lambda: LongTensor([1] * 100), lambda: FloatTensor([1]).resize_(1000)):
            with pytest.raises(MemoryError):
                call()
    finally:
        torchlite._C._fail_allocations_after(-1)
    assert FloatTensor(1000).numel() == 1000
