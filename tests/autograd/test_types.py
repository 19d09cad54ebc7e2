"""Every type of the extension, taken from the module itself: the collector's slots, leaks, construction, mutability."""

import gc
import sys
import weakref
from types import ModuleType

import numpy as np
import pytest
from leaves import leaf
from python_functions import Scale

import torchlite
from torchlite import _C
from torchlite.autograd import Variable

HAVE_GC = 1 << 14
HEAP_TYPE = 1 << 9
BASE_TYPE = 1 << 10


def types_of(module):
    found = {}
    for name, value in sorted(vars(module).items()):
        if isinstance(value, type):
            found[f"{module.__name__}.{name}"] = value
        elif isinstance(value, ModuleType) and value.__name__.startswith(module.__name__ + "."):
            found.update(types_of(value))
    return found


TYPES = types_of(_C)
each_type = pytest.mark.parametrize("cls", TYPES.values(), ids=TYPES)

FLOAT = _C.TensorType("float32", (2,))
PARAMETER, RESULT = _C.Local(FLOAT), _C.Local(FLOAT)
APPLY = "add", (PARAMETER, _C.Const(1), PARAMETER)
LAMBDA = (PARAMETER,), (_C.Let((RESULT,), _C.CppApply(*APPLY)),), _C.Locals((RESULT,))

# Arguments that make an instance; every type that is not here must refuse to be made.
ARGUMENTS = {
    _C.Size: ((2, 3),),
    _C.Generator: (),
    _C._VariableBase: (np.ones(2),),
    _C._FunctionBase: (),
    _C._ImperativeEngine: (),
    _C._functions.DelayedError: ("message",),
    _C._functions.ConvNd: ((1,), (0,), (1,), False, (0,), 1, False, False),
    _C._functions.BatchNorm: (torchlite.zeros(2), torchlite.ones(2), True, 0.1, 1e-5, False),
    _C.TensorType: ("float32", (2,)),
    _C.Local: (FLOAT,),
    _C.Const: (1,),
    _C.Locals: ((PARAMETER,),),
    _C.CppApply: APPLY,
    _C.PyApply: (Scale, (PARAMETER, _C.Const(2))),
    _C.Let: ((RESULT,), _C.CppApply(*APPLY)),
    _C.Lambda: LAMBDA,
    _C.Program: (_C.Lambda(*LAMBDA),),
    **{cls: (3,) for cls in TYPES.values() if cls.__module__ == "torchlite" and cls.__name__.endswith("Tensor")},
    **{cls: (3,) for cls in TYPES.values() if cls.__module__ == "torchlite" and cls.__name__.endswith("Storage")},
}
CONSTRUCTIBLE = [cls for cls in TYPES.values() if cls in ARGUMENTS]
ABSTRACT = [cls for cls in TYPES.values() if cls not in ARGUMENTS]


def test_the_module_has_the_types_that_the_tests_are_for():
    assert len(TYPES) > 150 and len(CONSTRUCTIBLE) >= 6 + 2 * 8 and len(ABSTRACT) > 100
    assert {_C._TensorBase, _C._StorageBase, _C._functions.AccumulateGrad, _C.Op} <= set(ABSTRACT)


@each_type
def test_the_name_and_module_of_a_type_are_where_it_is_found(cls):
    assert cls.__module__ in ("torchlite", "torchlite._C", "torchlite._C._functions")
    assert any(getattr(place, cls.__name__, None) is cls for place in (torchlite, _C, _C._functions))


@each_type
def test_a_type_is_immutable(cls):
    assert not cls.__flags__ & HEAP_TYPE
    with pytest.raises(TypeError):
        cls.new_attribute = 1
    assert not hasattr(cls, "new_attribute")


@pytest.mark.parametrize("cls", ABSTRACT, ids=lambda c: c.__name__)
def test_an_abstract_type_says_that_it_cannot_be_made(cls):
    with pytest.raises((TypeError, RuntimeError), match="[Cc]annot (create|construct)|cannot be instantiated|abstract"):
        cls()
    with pytest.raises((TypeError, RuntimeError)):
        object.__new__(cls)
    with pytest.raises((TypeError, RuntimeError)):
        cls.__new__(cls)


@pytest.mark.parametrize("cls", CONSTRUCTIBLE, ids=lambda c: c.__name__)
def test_instances_leave_nothing_behind(cls):
    arguments = ARGUMENTS[cls]

    def rounds(n):
        for _ in range(n):
            cls(*arguments)

    rounds(10)
    gc.collect()
    objects, references, memory = len(gc.get_objects()), sys.getrefcount(cls), _C._memory_stats()
    rounds(1000)
    gc.collect()
    assert sys.getrefcount(cls) == references
    assert abs(len(gc.get_objects()) - objects) <= 2
    assert _C._memory_stats()["allocated_bytes"] == memory["allocated_bytes"]


@pytest.mark.parametrize("cls", [c for c in CONSTRUCTIBLE if c.__flags__ & BASE_TYPE], ids=lambda c: c.__name__)
def test_instances_of_a_subclass_leave_nothing_behind(cls):
    class Derived(cls):
        pass

    class Slotted(cls):
        __slots__ = ()

    arguments = ARGUMENTS[cls]
    for derived in (Derived, Slotted):
        derived(*arguments)
        references, memory = sys.getrefcount(derived), _C._memory_stats()["allocated_bytes"]
        for _ in range(1000):
            instance = derived(*arguments)
            if derived is Derived:
                instance.itself = instance
        del instance
        gc.collect()
        assert sys.getrefcount(derived) == references
        assert _C._memory_stats()["allocated_bytes"] == memory


@pytest.mark.parametrize("cls", [c for c in TYPES.values() if not c.__flags__ & BASE_TYPE], ids=lambda c: c.__name__)
def test_a_final_type_cannot_be_derived_from(cls):
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (cls,), {})


# ---- the collector ------------------------------------------------------------------------------------------------


def instances():
    """An instance of every kind of object that a graph is made of."""
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    seen, stack = {}, []
    for operation in _C._ops:
        for arguments in ((x,), (x, x), (x, 2), (x, 0), ([x, x],), (x, 0, 1), (x, x, x), (x, 0, 0, 1)):
            try:
                result = operation(*arguments)
            except (TypeError, RuntimeError, IndexError, ValueError, AssertionError):
                continue
            stack.extend(result if isinstance(result, tuple) else [result])
            break
    stack.append(_C._functions.DelayedError("message")(x))
    while stack:
        o = stack.pop()
        if id(o) in seen or not type(o).__module__.startswith("torchlite"):
            continue
        seen[id(o)] = o
        stack.extend(gc.get_referents(o))
    return list(seen.values())


def test_the_graphs_of_all_operations_are_seen_by_the_collector():
    objects = instances()
    kinds = {type(o) for o in objects}
    assert len([k for k in kinds if k.__name__.endswith("Backward")]) > 60
    assert {_C._functions.AccumulateGrad, _C._functions.Error, Variable, torchlite.DoubleTensor} <= kinds
    for o in objects:
        if isinstance(o, _C._functions.Node):
            functions = [f for f, _ in o.next_functions if f is not None]
            referents = gc.get_referents(o)
            for f in functions:
                # Each reference is shown as often as it is held.
                assert sum(r is f for r in referents) == sum(g is f for g in functions)


def test_types_that_hold_references_take_part_in_collection():
    for o in instances():
        assert not gc.get_referents(o) or type(o).__flags__ & HAVE_GC
        if type(o).__flags__ & HAVE_GC and isinstance(o, (_C._VariableBase, _C._functions.Node)):
            # An accumulator without hooks holds nothing.
            assert gc.is_tracked(o) or (isinstance(o, _C._functions.AccumulateGrad) and not gc.get_referents(o))


def test_an_accumulator_with_hooks_is_tracked_and_collected_in_a_cycle():
    x = Variable(torchlite.ones(2), requires_grad=True)
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]
    assert not gc.is_tracked(accumulator)

    def hook(inputs, outputs, held=(accumulator,)):
        return None

    accumulator.register_hook(hook)
    assert gc.is_tracked(accumulator)
    alive = weakref.ref(accumulator)
    del accumulator, y, hook
    gc.collect()
    assert alive() is None


def test_a_graph_of_all_operations_leaves_nothing_behind():
    instances()
    gc.collect()
    memory = _C._memory_stats()["allocated_bytes"]
    references = [sys.getrefcount(cls) for cls in TYPES.values()]
    instances()
    gc.collect()
    assert _C._memory_stats()["allocated_bytes"] == memory
    assert [sys.getrefcount(cls) for cls in TYPES.values()] == references


def test_functions_and_variables_take_weak_references():
    for o in instances():
        if isinstance(o, (_C._VariableBase, _C._functions.Node, _C._TensorBase)):
            assert weakref.ref(o)() is o


def test_the_size_of_an_object_is_reported():
    for o in instances():
        assert sys.getsizeof(o) >= 16


class Named(Variable):
    pass


@pytest.mark.parametrize("cls", [Variable, Named])
def test_a_long_chain_of_gradients_dies_without_a_reference_to_its_class(cls):
    def chain():
        v = cls(np.ones(1))
        for _ in range(1000):
            outer = cls(np.ones(1))
            outer.grad = v
            v = outer

    chain()
    before = sys.getrefcount(cls)
    chain()
    assert sys.getrefcount(cls) == before
