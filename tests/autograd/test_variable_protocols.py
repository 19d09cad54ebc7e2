"""Subclasses of Variable, deepcopy, pickling and weak references."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Scale

from torchlite.autograd import Variable


class Named(Variable):
    """A subclass with attributes and without a constructor."""


class WithNew(Variable):
    def __new__(cls, data=None, requires_grad=True):
        return super().__new__(cls, data, requires_grad=requires_grad)


class Extra(Variable):
    """Takes more arguments than Variable, in both constructors."""

    def __new__(cls, label, data, *, flag):
        return super().__new__(cls, data, requires_grad=flag)

    def __init__(self, label, data, *, flag):
        super().__init__(data, requires_grad=flag)
        self.label = label


class Slotted(Variable):
    __slots__ = ("plain", "__private")

    def set(self, a, b):
        self.plain, self.__private = a, b

    def get(self):
        return self.plain, self.__private


class Mixin:
    def twice(self):
        return self * 2


class Mixed(Named, Mixin):
    pass


def named(array, **flags):
    v = Named(np.array(array), **flags)
    v.name = "w"
    v.tags = ["a"]
    return v


# ---- construction --------------------------------------------------------------------------------------------------


def test_subclasses_may_override_new_only():
    v = WithNew(np.array([1.0]))
    assert v.requires_grad and values(v) == [1]


def test_subclasses_may_take_other_arguments():
    v = Extra("x", np.array([1.0]), flag=True)
    assert v.label == "x" and v.requires_grad


def test_a_subclass_may_have_a_mixin():
    v = Mixed(np.array([1.0]), requires_grad=True)
    v.twice().backward()
    assert values(v.grad) == [2]


def test_an_init_that_forgets_its_base_is_harmless():
    class Forgetful(Variable):
        def __init__(self, *args):
            pass

    assert values(Forgetful(np.array([1.0]))) == [1]


def test_results_are_plain_variables():
    v = named([1.0], requires_grad=True)
    assert type(v * 2) is Variable and type(Scale.apply(v, 2)) is Variable


def test_attributes_of_a_leaf_live_with_it():
    v = leaf([1.0])
    v.label = "x"
    assert v.label == "x" and v.__dict__ == {"label": "x"}
    del v.label
    with pytest.raises(AttributeError):
        v.label  # noqa: B018


def test_a_variable_can_be_resurrected_by_its_finalizer():
    kept = []

    class Undead(Variable):
        deaths = 0

        def __del__(self):
            Undead.deaths += 1
            kept.append(self)

    v = Undead(np.ones(2))
    del v
    assert values(kept[0].sum()) == [2]
    kept.clear()
    gc.collect()
    assert Undead.deaths == 1


def test_weak_references_die_with_the_variable():
    v = leaf([1.0])
    reference = weakref.ref(v)
    assert reference() is v
    del v
    gc.collect()
    assert reference() is None


def test_variables_are_hashed_by_identity():
    a, b = leaf([1.0]), leaf([1.0])
    assert hash(a) == hash(a) and len({a, b, a}) == 2 and {a: 1}[a] == 1


def test_iteration_gives_differentiable_slices():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    first, second = x
    assert values(first) == [1, 2]
    second.sum().backward()
    assert values(x.grad) == [[0, 0], [1, 1]]
    assert [tuple(v.size()) for v in leaf([1.0, 2.0])] == [(1,), (1,)]
    assert list(leaf(np.ones((0, 2)))) == []


def test_a_0d_variable_cannot_be_iterated():
    with pytest.raises(TypeError, match="0-d"):
        iter(leaf(3.0))


def test_repr_shows_the_data():
    text = repr(leaf([1.5]))
    assert text.startswith("Variable containing:\n") and "1.5" in text


# ---- deepcopy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags", [{"requires_grad": True}, {"requires_grad": False}, {"volatile": True}], ids=lambda f: str(f)
)
def test_deepcopy_keeps_class_flags_and_attributes(flags):
    v = named([1.0, 2.0], **flags)
    c = copy.deepcopy(v)
    assert type(c) is Named and c is not v
    assert (c.requires_grad, c.volatile) == (v.requires_grad, v.volatile)
    assert c.name == "w" and c.tags == ["a"] and c.tags is not v.tags
    assert values(c) == [1, 2] and type(c.data) is type(v.data)


def test_deepcopy_has_its_own_data_and_no_gradient():
    v = leaf([1.0])
    Scale.apply(v, 2).backward()
    c = copy.deepcopy(v)
    c.data.fill_(5)
    assert values(v) == [1] and c.grad is None and c.is_leaf


def test_deepcopy_copies_a_shared_variable_once():
    v = leaf([1.0])
    a, b = copy.deepcopy([v, v])
    assert a is b and a is not v


def test_deepcopy_follows_a_cycle_through_attributes():
    v = named([1.0])
    v.itself = v
    c = copy.deepcopy(v)
    assert c.itself is c
    del v.itself, c.itself


def test_deepcopy_needs_no_constructor_arguments():
    c = copy.deepcopy(Extra("x", np.array([1.0]), flag=True))
    assert type(c) is Extra and c.label == "x" and c.requires_grad
    assert type(copy.deepcopy(WithNew(np.array([1.0]), False))) is WithNew


def test_deepcopy_copies_slots():
    v = Slotted(np.array([1.0]))
    v.set([1], [2])
    c = copy.deepcopy(v)
    assert c.get() == ([1], [2]) and c.get()[0] is not v.get()[0]


def test_deepcopy_of_an_interior_variable_is_refused():
    with pytest.raises(RuntimeError, match="Only Variables created explicitly by the user"):
        copy.deepcopy(Scale.apply(leaf([1.0]), 2))


# ---- pickling ------------------------------------------------------------------------------------------------------

protocols = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))


@protocols
@pytest.mark.parametrize("flags", [{"requires_grad": True}, {}, {"volatile": True}], ids=lambda f: str(f))
def test_pickling_keeps_data_flags_class_and_attributes(protocol, flags):
    for v in (named([[1.0, 2.0], [3.0, 4.0]], **flags), Variable(np.arange(3), **{**flags, "requires_grad": False})):
        c = pickle.loads(pickle.dumps(v, protocol))
        assert type(c) is type(v) and type(c.data) is type(v.data)
        assert values(c) == values(v)
        assert (c.requires_grad, c.volatile, c.is_leaf) == (v.requires_grad, v.volatile, True)
        assert c.__dict__ == v.__dict__


@protocols
def test_pickling_needs_no_constructor_arguments(protocol):
    c = pickle.loads(pickle.dumps(Extra("x", np.array([1.0]), flag=True), protocol))
    assert type(c) is Extra and c.label == "x" and c.requires_grad
    v = Slotted(np.array([1.0]))
    v.set(1, 2)
    assert pickle.loads(pickle.dumps(v, protocol)).get() == (1, 2)


@protocols
def test_pickling_keeps_a_shared_variable_shared(protocol):
    v = leaf([1.0])
    a, b = pickle.loads(pickle.dumps([v, v], protocol))
    assert a is b


def tenfold(g):
    return g * 10


def test_pickling_keeps_hooks_that_can_be_pickled():
    v = leaf([1.0])
    handle = v.register_hook(tenfold)
    c, c_handle = pickle.loads(pickle.dumps((v, handle)))
    Scale.apply(c, 2).backward()
    assert values(c.grad) == [20]
    c_handle.remove()
    c.grad = None
    Scale.apply(c, 2).backward()
    assert values(c.grad) == [2]


def test_the_state_of_a_leaf_cannot_be_given_to_an_interior_variable():
    y = Scale.apply(leaf([1.0]), 2)
    with pytest.raises(RuntimeError, match="__setstate__ can be only called on leaf variables"):
        y.__setstate__((False, False, None))
    assert y.requires_grad


def test_an_unpickled_variable_takes_part_in_a_graph():
    c = pickle.loads(pickle.dumps(leaf([2.0])))
    Scale.apply(c, 3).backward()
    assert values(c.grad) == [3]


def test_constants_stay_constants():
    assert not pickle.loads(pickle.dumps(constant([1.0]))).requires_grad
