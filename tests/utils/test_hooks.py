"""RemovableHandle."""

import gc
import pickle
import weakref
from collections import OrderedDict

from torchlite.utils.hooks import RemovableHandle


def test_remove_takes_only_its_own_hook_off():
    hooks = OrderedDict()
    first, second = RemovableHandle(hooks), RemovableHandle(hooks)
    hooks[first.id], hooks[second.id] = "first", "second"
    first.remove()
    assert list(hooks.values()) == ["second"]


def test_remove_twice_does_nothing():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = "hook"
    handle.remove()
    handle.remove()
    assert not hooks


def test_leaving_the_with_block_removes_the_hook():
    hooks = OrderedDict()
    with RemovableHandle(hooks) as handle:
        hooks[handle.id] = "hook"
    assert not hooks


def test_ids_are_unique_across_dictionaries():
    one, other = OrderedDict(), OrderedDict()
    assert RemovableHandle(one).id != RemovableHandle(other).id


def test_a_handle_does_not_keep_the_dictionary_alive():
    class Hooks(OrderedDict):
        pass

    hooks = Hooks()
    handle = RemovableHandle(hooks)
    alive = weakref.ref(hooks)
    del hooks
    gc.collect()
    assert alive() is None
    handle.remove()


def test_a_handle_pickled_with_its_dictionary_removes_the_hook_of_the_copy():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = "hook"
    copied_hooks, copied_handle = pickle.loads(pickle.dumps((hooks, handle)))
    copied_handle.remove()
    assert not copied_hooks
    assert len(hooks) == 1


def test_a_handle_whose_dictionary_is_gone_can_be_pickled():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    del hooks
    pickle.loads(pickle.dumps(handle)).remove()


def test_ids_stay_unique_after_unpickling():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    handle.__setstate__((hooks, RemovableHandle.next_id + 10))
    assert RemovableHandle(hooks).id == handle.id + 1


def test_a_plain_dictionary_is_held_itself():
    hooks = {}
    handle = RemovableHandle(hooks)
    hooks[handle.id] = "hook"
    copied_hooks, copied_handle = pickle.loads(pickle.dumps((hooks, handle)))
    copied_handle.remove()
    assert not copied_hooks and hooks
    handle.remove()
    assert not hooks
