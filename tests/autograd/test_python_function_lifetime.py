"""Who keeps whom alive around a Python Function, and what the collector can see."""

import gc
import threading
import weakref

import numpy as np
import pytest
from python_functions import AddInPlace, Exp, Mul, OldMul, Scale, Split, array, new_style, ones_like, variable

from torchlite.autograd import Function, Variable


class Token:
    pass


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def with_token(*saved):
    """A Function that saves results or inputs by position and hangs a Token on its context."""

    def forward(ctx, x):
        y = x * 2
        ctx.token = Token()
        ctx.save_for_backward(*[{"x": x, "y": y}[s] for s in saved])
        return y

    return new_style(forward, lambda ctx, g: g * 2)


@pytest.mark.parametrize("saved", [(), ("x",), ("y",), ("x", "y"), ("y", "y")], ids=str)
def test_dropped_result_frees_the_context_at_once(no_gc, saved):
    y = with_token(*saved).apply(variable([1.0]))
    token = weakref.ref(y.grad_fn.token)
    del y
    assert token() is None


def test_dropped_in_place_result_frees_the_context_at_once(no_gc):
    def forward(ctx, a):
        a += 1
        ctx.token = Token()
        ctx.mark_dirty(a)
        ctx.save_for_backward(a)
        return a

    y = new_style(forward).apply(Scale.apply(variable([1.0]), 1))
    token = weakref.ref(y.grad_fn.token)
    del y
    assert token() is None


def test_failed_call_frees_the_context_at_once(no_gc):
    tokens = []

    def forward(ctx, x):
        ctx.token = Token()
        tokens.append(weakref.ref(ctx.token))
        ctx.save_for_backward(x)
        return None

    with pytest.raises(TypeError):
        new_style(forward).apply(variable([1.0]))
    assert tokens[0]() is None


def test_saved_result_knows_its_function():
    y = Exp.apply(variable([1.0]))
    (saved,) = y.grad_fn.saved_variables
    assert saved.grad_fn is y.grad_fn and saved.output_nr == 0 and saved.requires_grad


def test_result_stored_on_its_context_is_collected():
    y = Scale.apply(variable([1.0]), 2)
    y.grad_fn.out = y
    r = weakref.ref(y)
    del y
    gc.collect()
    assert r() is None


def test_context_in_its_own_pending_attribute_is_collected():
    f = OldMul(1)
    f.to_save = (f,)
    r = weakref.ref(f)
    del f
    gc.collect()
    assert r() is None


def test_hook_that_holds_its_function_is_collected():
    y = Scale.apply(variable([1.0]), 2)
    fn = y.grad_fn
    fn.register_hook(lambda gi, go, fn=fn: None)
    r = weakref.ref(fn)
    del y, fn
    gc.collect()
    assert r() is None


def test_two_results_of_one_node_survive_the_collector():
    x = variable([1.0, 2.0])
    for _ in range(20):
        a, b = Split.apply(x)
        ring = [a]
        ring.append(ring)
        ring.append(b)
        gc.collect()
        y = Mul.apply(a, b)
        y.backward(ones_like(y))
        del ring
    np.testing.assert_array_equal(array(x.grad), [40.0, 20.0])


def test_saved_leaf_of_a_subclass_comes_back_as_itself():
    class Weight(Variable):
        pass

    p = Weight(np.array([2.0]), requires_grad=True)
    p.name = "w"
    y = Mul.apply(p, variable([3.0]))
    identity = id(p)
    del p
    leaf = y.grad_fn.saved_variables[0]
    assert type(leaf) is Weight and leaf.name == "w" and id(leaf) == identity
    y.backward(ones_like(y))
    np.testing.assert_array_equal(array(leaf.grad), [3.0])


def test_collection_from_a_finalizer_of_a_function_that_never_ran():
    class CollectOnDelete(Function):
        def __del__(self):
            gc.collect()

    for _ in range(5):
        Variable(np.ones((4, 4)), _grad_fn=CollectOnDelete())


def test_finalizer_may_use_the_function():
    seen = []

    class Final(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    def finalize(self):
        seen.append((self.next_functions, len(self.saved_tensors), self.needs_input_grad, self.requires_grad))

    Final._backward_cls.__del__ = finalize
    x = variable([1.0])
    y = Final.apply(x)
    y.grad_fn.ring = y
    del y
    gc.collect()
    assert len(seen) == 1 and seen[0][1:] == (1, (True,), True)


def test_release_runs_finalizers_of_what_was_saved_safely():
    y = Mul.apply(Scale.apply(variable([1.0]), 1), variable([2.0]))
    y.backward(ones_like(y))
    del y
    gc.collect()


def test_long_chain_is_freed_without_recursion():
    y = variable([1.0])
    for _ in range(20000):
        y = Scale.apply(y, 1)
    del y


def test_long_chain_that_saves_is_freed_without_recursion():
    y, k = variable([1.0]), variable([1.0], False)
    for _ in range(20000):
        y = Mul.apply(y, k)
    y.backward(ones_like(y))
    del y


def test_loop_without_gradient_keeps_nothing(no_gc):
    y = variable([1.0], False)
    functions = []
    for _ in range(3):
        y = Mul.apply(y, y)
        functions.append(weakref.ref(y.grad_fn))
    assert [f() is None for f in functions] == [True, True, False]


def test_in_place_chain_keeps_its_history():
    x = variable([1.0])
    a = Scale.apply(x, 2)
    for _ in range(3):
        a = AddInPlace.apply(a, 1)
    a.backward(ones_like(a))
    np.testing.assert_array_equal(array(x.grad), [2.0])


def test_collections_during_the_backward_of_several_threads():
    results = [None] * 4

    def work(i):
        x = variable([1.0, 2.0])
        for _ in range(20):
            y = Mul.apply(Scale.apply(x, 2), Scale.apply(x, 3))
            y.backward(ones_like(y))
        results[i] = array(x.grad).tolist()

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*threshold)
    assert results == [[240.0, 480.0]] * len(results)


def test_finalizers_of_what_a_context_holds_may_take_locks():
    lock, finished = threading.Lock(), []

    class Payload:
        def __del__(self):
            with lock:
                finished.append(1)

    def forward(ctx, x):
        ctx.payload = Payload()
        ctx.save_for_backward(x)
        return x * 1

    fn = new_style(forward, lambda ctx, g: g)

    def work():
        for _ in range(50):
            y = fn.apply(variable([1.0]))
            y.backward(ones_like(y))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(finished) == 200
