"""Handles that take a hook off again."""

import weakref
from collections import OrderedDict

__all__ = ["RemovableHandle"]


def _reference(hooks_dict):
    """A function that returns `hooks_dict`, or None once nobody else has it, if that can be found out."""
    try:
        return weakref.ref(hooks_dict)
    except TypeError:
        return lambda: hooks_dict


class RemovableHandle:
    """Returned where a hook is registered; `remove()` takes the hook off, and so does leaving its `with` block.

    `hooks_dict` belongs to the hooked object and is held weakly: a handle keeps neither the object nor its hooks alive.
    Only a plain dict, to which there are no weak references, lives as long as the handle. `id` is the hook's key in it,
    unique across handles.
    A handle pickles as (dict, id), so one that is pickled together with its object still removes the hook of the copy.
    """

    next_id = 0

    def __init__(self, hooks_dict):
        self.hooks_dict_ref = _reference(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self):
        """Takes the hook off. Does nothing if it is off already or its object is gone."""
        hooks_dict = self.hooks_dict_ref()
        if hooks_dict is not None:
            hooks_dict.pop(self.id, None)

    def __getstate__(self):
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state):
        hooks_dict, self.id = state
        self.hooks_dict_ref = _reference(OrderedDict() if hooks_dict is None else hooks_dict)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()
