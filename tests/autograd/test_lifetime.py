"""Who keeps whom alive: cycles of every shape, finalizers, long chains, and memory that comes back to the byte."""

import gc
import weakref

import child
import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Exp, Mul, OldMul, Scale, Split, ones_like

import torchlite
from torchlite import _C
from torchlite.autograd import Variable, backward, grad

# A child process counts nothing here, and running it twice takes twice as long.
in_a_child = pytest.mark.no_leak_check(reason="the program runs in a process of its own")


class Token:
    pass


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- freed at once, without the collector ------------------------------------------------------------------------

OPERATIONS = {
    "nothing saved": lambda x: x + 1,
    "input saved": lambda x: x * x,
    "result saved": lambda x: x.exp(),
    "result saved by a reduction": lambda x: x.max(0)[0],
    "view": lambda x: x.view(-1),
    "list": lambda x: torchlite.cat([x, x, x * 2]),
    "several results": lambda x: x.max(0)[0],
    "index": lambda x: x[0],
    "constant": lambda x: x**3,
    "in place": lambda x: (x * 1).mul_(x),
    "in place with its own result saved": lambda x: (x * 1).exp_(),
    "python function": lambda x: Exp.apply(x),
    "old-style function": lambda x: OldMul(2)(x),
    "delayed error": _C._functions.DelayedError("later"),
}
operations = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


@operations
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_dropped_result_frees_its_function_at_once(no_gc, operation, requires_grad):
    x = leaf([1.0, 2.0], requires_grad)
    y = operation(x)
    function = weakref.ref(y.grad_fn)
    del y
    assert function() is None


@operations
def test_a_dropped_graph_frees_its_leaf_at_once(no_gc, operation):
    x = leaf([1.0, 2.0])
    reference = weakref.ref(x)
    y = operation(x)
    if operation is not OPERATIONS["delayed error"]:
        y.sum().backward()
    del x, y
    assert reference() is None


@operations
def test_a_graph_that_was_run_with_a_graph_of_its_own_is_collected(operation):
    x = leaf([1.0, 2.0])
    reference = weakref.ref(x)
    try:
        operation(x).sum().backward(create_graph=True)
    except RuntimeError as error:
        assert "later" in str(error)
    del x
    gc.collect()
    assert reference() is None


def test_dropping_a_gradient_frees_its_graph_at_once(no_gc):
    x = leaf([3.0])
    y = Mul.apply(x, x)
    y.backward(create_graph=True)
    function = weakref.ref(y.grad_fn)
    del y
    x.grad = None
    assert function() is None


# ---- cycles -------------------------------------------------------------------------------------------------------


def hooked_leaf():
    x = leaf([1.0])
    x.register_hook(lambda g, x=x: None)
    return x


def hooked_result():
    y = leaf([1.0]) * 2
    y.register_hook(lambda g, y=y: None)
    return y


def hooked_function():
    y = leaf([1.0]) * 2
    y.grad_fn.register_hook(lambda gi, go, y=y: None)
    return y


def replaced_hooks():
    y = leaf([1.0]) * 2
    y._backward_hooks = {0: lambda g, y=y: None}
    y.grad_fn._register_hook_dict(y)
    return y


def own_attribute():
    x = leaf([1.0])
    x.itself = x
    return x


def attribute_of_the_function():
    y = Scale.apply(leaf([1.0]), 2)
    y.grad_fn.out = y
    return y


def gradient_in_the_graph():
    x = leaf([3.0])
    (x * x * x).backward(create_graph=True)
    return x


def gradients_of_each_other():
    x, y = leaf([1.0]), leaf([1.0])
    x.grad, y.grad = y, x
    return x


def gradient_of_a_result():
    y = leaf([1.0]) * 2
    y.grad = y * 3
    return y


def saved_leaf_that_holds_the_result():
    x = leaf([1.0])
    x.result = x * x
    return x


def saved_result_on_a_leaf():
    x = leaf([1.0])
    x.result = x.exp()
    return x


def list_operation():
    x = leaf([1.0])
    x.result = torchlite.cat([x, x])
    return x


def two_results_of_one_function():
    a, b = Split.apply(leaf([1.0, 2.0]))
    a.other, b.other = b, a
    return a


def data_of_a_subclass():
    class Mine(np.ndarray):
        pass

    array = np.ones(2).view(Mine)
    x = Variable(array, requires_grad=True)
    array.owner = x
    return x


def view_of_a_foreign_array():
    class Mine(np.ndarray):
        pass

    array = np.ones(4).view(Mine)
    y = Variable(array)[1:].view(-1, 1)
    array.owner = y
    return y


def weight_in_its_own_constant_argument():
    class Index(int):
        pass

    x = leaf([[1.0], [2.0]])
    key = Index(1)
    y = Scale.apply(x, 2)
    y.grad_fn.k = key
    key.owner = y
    return y


CYCLES = [
    hooked_leaf, hooked_result, hooked_function, replaced_hooks, own_attribute, attribute_of_the_function,
    gradient_in_the_graph, gradients_of_each_other, gradient_of_a_result, saved_leaf_that_holds_the_result,
    saved_result_on_a_leaf, list_operation, two_results_of_one_function, data_of_a_subclass, view_of_a_foreign_array,
    weight_in_its_own_constant_argument,
]  # fmt: skip


@pytest.mark.parametrize("make", CYCLES, ids=lambda f: f.__name__)
def test_a_cycle_is_collected(make):
    v = make()
    reference = weakref.ref(v)
    del v
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("make", CYCLES, ids=lambda f: f.__name__)
def test_a_cycle_with_a_finalizer_is_collected_and_the_finalizer_sees_it_whole(make):
    seen = []

    class Final:
        def __init__(self, variable):
            self.variable = variable

        def __del__(self):
            v = self.variable
            seen.append((values(v), repr(v), v.grad_fn and v.grad_fn.next_functions))
            v.sum()

    v = make()
    v.final = Final(v)
    expected = values(v)
    del v
    gc.collect()
    assert len(seen) == 1 and seen[0][0] == expected


def test_a_cycle_in_use_survives_the_collector():
    for make in CYCLES:
        v = make()
        for _ in range(2):
            gc.collect()
        assert values(v * 1) == values(v)


def test_gradients_with_history_do_not_pile_up():
    def round_trip():
        x = leaf([3.0])
        Mul.apply(x, x).backward(create_graph=True)

    def count():
        gc.collect()
        return len(gc.get_objects())

    round_trip()
    before = count()
    for _ in range(500):
        round_trip()
    assert count() <= before + 10


def test_a_loop_of_gradient_penalties_stays_flat():
    counts = {}
    for i in range(301):
        x = leaf([1.0, 2.0])
        (gx,) = grad([Mul.apply(x, x)], [x], [constant([1.0, 1.0])], create_graph=True)
        Mul.apply(gx, gx).backward(constant([1.0, 1.0]))
        if i in (100, 300):
            gc.collect()
            counts[i] = len(gc.get_objects()), _C._memory_stats()["allocated_bytes"]
    assert abs(counts[300][0] - counts[100][0]) <= 10
    assert counts[300][1] == counts[100][1]


# ---- subclasses ---------------------------------------------------------------------------------------------------


class Weight(Variable):
    pass


@pytest.mark.parametrize("multiply", [Mul.apply, lambda a, b: a * b], ids=["python function", "operation"])
def test_a_subclass_instance_that_only_the_graph_holds_comes_back_as_itself(multiply):
    p = Weight(np.array([2.0]), requires_grad=True)
    p.name = "w"
    identity = id(p)
    y = multiply(p, leaf([3.0]))
    del p
    accumulator = y.grad_fn.next_functions[0][0]
    p = accumulator.variable
    assert type(p) is Weight and p.name == "w" and id(p) == identity
    y.backward()
    assert values(p.grad) == [3]


def test_an_accumulator_does_not_keep_its_leaf():
    p = Weight(np.array([2.0]), requires_grad=True)
    y = p + 1
    del p
    assert y.grad_fn.next_functions[0][0].variable is None
    y.backward()


def test_the_saved_leaf_is_one_object_for_all_who_saved_it():
    p = Weight(np.array([2.0]), requires_grad=True)
    a, b = Mul.apply(p, p), Mul.apply(p, leaf([1.0]))
    p = None
    saved = [*a.grad_fn.saved_variables, b.grad_fn.saved_variables[0]]
    assert all(s is saved[0] for s in saved)


def test_a_resurrected_variable_is_whole_and_can_be_resurrected_once():
    kept = []

    class Undead(Variable):
        deaths = 0

        def __del__(self):
            Undead.deaths += 1
            kept.append(self)

    v = Undead(np.ones(2), requires_grad=True)
    v.label = "x"
    reference = weakref.ref(v)
    loss = (v * 2).sum()
    del v
    v = kept.pop()
    assert v.label == "x" and values(v) == [1, 1] and v.requires_grad
    loss.backward()
    assert values(v.grad) == [2, 2]
    assert values(grad((v * v).sum(), v)[0]) == [2, 2]
    del v, reference
    gc.collect()
    assert Undead.deaths == 1 and kept == []


def test_a_resurrected_context_is_whole():
    kept = []

    class Context(Scale._backward_cls):
        def __del__(self):
            kept.append(self)

    class Resurrecting(Scale):
        pass

    Resurrecting._backward_cls = Context
    Context._forward_cls = Resurrecting
    x = leaf([1.0])
    y = Resurrecting.apply(x, 3)
    del y
    context = kept.pop()
    assert context.k == 3 and context.next_functions[0][0].variable is x
    y = Variable(np.ones(1), _grad_fn=context)
    assert y.requires_grad and y.grad_fn is context


def test_a_leaf_that_is_being_freed_is_gone_for_its_accumulator():
    seen = []

    class Attribute:
        def __del__(self):
            seen.append(accumulator.variable)
            backward(loss, retain_graph=True)

    x = leaf([1.0])
    loss = x + 1
    accumulator = loss.grad_fn.next_functions[0][0]
    x.attribute = Attribute()
    del x
    assert seen == [None]


# ---- memory -------------------------------------------------------------------------------------------------------


def test_allocated_bytes_return_exactly():
    def program():
        x = Variable(np.ones((64, 64), np.float32), requires_grad=True)
        w = Variable(torchlite.FloatTensor(64, 64).fill_(0.5), requires_grad=True)
        h = x.mm(w).tanh()
        y = torchlite.cat([h, h.t(), h.exp()]).sum()
        y.backward(create_graph=True)
        (x.grad * w).sum().backward()

    gc.collect()
    before = _C._memory_stats()
    program()
    gc.collect()
    after = _C._memory_stats()
    assert after["total_allocations"] > before["total_allocations"]
    for counter in ("allocated_bytes", "allocated_blocks"):
        assert after[counter] == before[counter]


def test_backward_frees_what_was_saved_while_it_runs():
    x = Variable(np.ones(100_000), requires_grad=True)
    k = Variable(np.full(100_000, 1.0))
    y = x
    for _ in range(20):
        y = (y * k).exp().log()
    _C._reset_peak_memory()
    held = _C._memory_stats()["allocated_bytes"]
    y.sum().backward()
    stats = _C._memory_stats()
    # The peak is a few gradients above what the graph held, not one for every function.
    assert stats["peak_bytes"] < held + 8 * 100_000 * 8
    assert stats["allocated_bytes"] < held


def test_a_failed_backward_frees_its_gradients():
    def fail(gradient):
        raise ValueError("no")

    x = Variable(np.ones(50_000), requires_grad=True)
    gc.collect()
    before = _C._memory_stats()["allocated_bytes"]
    y = x * 2
    y.register_hook(fail)
    z = (y * 3 + y.exp()).sum()
    with pytest.raises(ValueError, match="no"):
        z.backward()
    del y, z
    gc.collect()
    assert _C._memory_stats()["allocated_bytes"] == before


def test_a_volatile_loop_keeps_nothing(no_gc):
    y = leaf(np.ones(1000), False, volatile=True)
    y = y * 1.0
    held = _C._memory_stats()["allocated_blocks"]
    for _ in range(10):
        y = (y * 2).tanh()
    assert _C._memory_stats()["allocated_blocks"] == held


# ---- long chains --------------------------------------------------------------------------------------------------

CHAINS = {
    "operation": "y = y + 1",
    "operation that saves": "y = y * y",
    "saved result": "y = y.tanh()",
    "in place": "y = (y * 1).add_(1) if i == 0 else y.add_(1)",
    "list": "y = torchlite.cat([y])",
    "view": "y = y.view(-1)",
    "python function": "y = Scale.apply(y, 1)",
    "delayed error": "y = error(y)",
    "alternating": "y = (Scale.apply(y, 1) * y if i % 2 else error(y + 1))",
    "detached from history": "y = (y * 2).detach()",
}


@in_a_child
@pytest.mark.parametrize("step", CHAINS.values(), ids=CHAINS)
def test_a_long_chain_is_built_run_and_freed_on_a_small_stack(step):
    n = 30_000 if "Scale" in step else 100_000
    answer = child.run(f"""
        error = _C._functions.DelayedError("not differentiable")
        def body():
            x = leaf([0.5], dtype=np.float32)
            y = x
            for i in range({n}):
                {step}
            try:
                y.backward()
            except RuntimeError as e:
                assert "not differentiable" in str(e) or "does not require grad" in str(e), e
            del y
            gc.collect()
            print("freed")
        threading.stack_size(256 * 1024)
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    """)
    assert answer == ["freed"]


@in_a_child
def test_a_long_chain_of_gradients_is_freed_on_a_small_stack():
    answer = child.run("""
        def body():
            v = first = leaf([1.0])
            for i in range(100_000):
                v.grad = constant([1.0])
                v = v.grad
            reference = weakref.ref(v)
            del v, first
            print(reference() is None)
        threading.stack_size(256 * 1024)
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    """)
    assert answer == ["True"]


@in_a_child
def test_a_long_chain_is_collected_as_garbage_on_a_small_stack():
    answer = child.run("""
        def body():
            x = leaf([0.5])
            y = x
            for i in range(100_000):
                y = y * x
            x.ring = y
            reference = weakref.ref(x)
            del x, y
            gc.collect()
            print(reference() is None)
        threading.stack_size(256 * 1024)
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    """)
    assert answer == ["True"]


# ---- the collector in the middle of things ------------------------------------------------------------------------


@pytest.fixture
def eager_gc():
    """The collector runs at every allocation."""
    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*threshold)


def test_collections_during_forward_and_backward_change_nothing(eager_gc):
    x = leaf([1.0, 2.0])
    for _ in range(20):
        a, b = Split.apply(x)
        ring = [a, b]
        ring.append(ring)
        y = Mul.apply(a, b) + a * b + torchlite.cat([a, b]).sum()
        y.register_hook(lambda g, y=y: None)
        y.backward()
        del ring, y
    assert values(x.grad) == [20 * (2 * 2 + 1), 20 * (1 + 1 + 1)]


def test_a_finalizer_that_uses_a_leaf_while_the_leaf_enters_a_graph(eager_gc):
    x = leaf([1.0])

    class Garbage:
        def __init__(self):
            self.ring = self

        def __del__(self):
            sums.append(x + 1)

    sums = []
    for _ in range(50):
        Garbage()
        y = x * 2
        accumulators = {v.grad_fn.next_functions[0][0] for v in [y, *sums]}
        assert len(accumulators) == 1
        y.backward()
        sums.clear()
        del accumulators
    assert values(x.grad) == [100]


def test_a_finalizer_may_run_backward_through_what_is_being_freed():
    x = leaf([2.0])
    y = Mul.apply(x, x)

    class Payload:
        def __del__(self):
            try:
                y.backward()
            except RuntimeError as error:
                errors.append(str(error))

    errors = []
    y.grad_fn.saved_payload = Payload()
    z = y * 1
    del z
    function = y.grad_fn
    del function.saved_payload
    assert errors == [] and values(x.grad) == [4]


def test_ones_like_the_result_may_be_reused_as_a_seed():
    x = leaf([1.0, 2.0])
    y = x * 2
    seed = ones_like(y)
    for _ in range(3):
        (x * 2).backward(seed)
    assert values(seed) == [1, 1] and values(x.grad) == [6, 6]
