"""The engine: order, re-entrancy, errors in the middle of a run, captures, callbacks and stochastic functions."""

import re
import time

import child
import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Mul, OldMul, Scale, Split, new_style

import torchlite
from torchlite import _C
from torchlite.autograd import StochasticFunction, Variable, backward, grad

run_backward = Variable._execution_engine.run_backward
in_a_child = pytest.mark.no_leak_check(reason="the program runs in a process of its own")
FREED = "Specify retain_graph=True when calling backward the first time"


def identity(log, name):
    """A Function that writes its name when its backward runs."""

    def gradient(ctx, g):
        log.append(name)
        return g

    return new_style(lambda ctx, x: x * 1, gradient, name).apply


# ---- order --------------------------------------------------------------------------------------------------------


def test_a_chain_of_diamonds_of_operations_is_quick():
    x = y = leaf([1.0])
    for _ in range(60):
        y = y + y
    start = time.perf_counter()
    y.backward()
    assert values(x.grad) == [2.0**60] and time.perf_counter() - start < 0.1


def test_a_leaf_is_written_once_with_the_sum_over_consumers_of_different_depth():
    seen = []
    x = leaf([1.0, 1.0])
    x.register_hook(lambda g: seen.append((values(g), x.grad)))
    deep = x
    for _ in range(5):
        deep = deep * 2
    (x + x * 3 + deep + Scale.apply(deep, 10)).sum().backward()
    assert seen == [([356, 356], None)] and values(x.grad) == [356, 356]


def test_the_same_variable_in_several_places_gets_all_contributions():
    x = leaf([3.0])
    Mul.apply(x, x).backward()
    assert values(x.grad) == [6]

    def forward(ctx, a, b, c):
        assert ctx.needs_input_grad == (True, True, True)
        return a + b + c

    x.grad = None
    new_style(forward, lambda ctx, g: (g, g * 10, g * 100)).apply(x, x, x).backward()
    assert values(x.grad) == [111]


def test_a_branch_that_gets_no_gradient_gets_zeros_at_the_next_python_function():
    x, operations, functions = leaf([1.0]), leaf([1.0]), leaf([1.0])
    log = []
    a, b, c = x * 2, operations * 2, identity(log, "function")(functions) * 2
    drop = new_style(lambda ctx, a, b, c: a + b + c, lambda ctx, g: (g, None, None)).apply(a, b, c)
    drop.backward()
    assert values(x.grad) == [2] and operations.grad is None
    assert log == ["function"] and values(functions.grad) == [0]


def test_gradients_for_one_input_are_added_out_of_place():
    x = leaf([1.0])
    y = x * 1
    kept = []
    y.register_hook(lambda g: kept.append(g))
    seed = constant([1.0])
    backward([y, y], [seed, seed])
    assert values(seed) == [1] and values(kept[0]) == [2]


# ---- roots --------------------------------------------------------------------------------------------------------


def test_roots_may_depend_on_each_other():
    x = leaf([1.0, 2.0])
    y = x**2
    z = y**3
    backward([y, z], [constant([1.0, 1.0])] * 2)
    assert values(x.grad) == [8, 196]


def test_the_order_of_dependent_roots_does_not_matter():
    x = leaf([1.0, 2.0])
    y = Mul.apply(x, x)
    z = Mul.apply(y, x)
    backward([z, y, x, z], [constant([1.0, 1.0])] * 4)
    assert values(x.grad) == [2 * 3 + 2 + 1, 2 * 12 + 4 + 1]


def test_both_results_of_one_function_may_be_roots():
    x = leaf([1.0, 2.0])
    a, b = Split.apply(x)
    backward([a, b, a], [constant([1.0]), constant([10.0]), constant([100.0])])
    assert values(x.grad) == [101, 10]


def test_a_root_that_needs_no_gradient_is_ignored_beside_one_that_does():
    x, k = leaf([1.0]), constant([1.0])
    run_backward((x * 2, k * 2), (constant([1.0]), None), False)
    assert values(x.grad) == [2]


# ---- errors of the arguments --------------------------------------------------------------------------------------

one = constant([1.0])


def result():
    return leaf([1.0]) * 2


def unused_output():
    x = leaf([1.0, 2.0])
    a, _ = Split.apply(x)
    return a


BAD_CALLS = {
    "variables no tuple": (lambda: run_backward([result()], (one,), False),
                           "variables argument is expected to be a tuple, but got list"),
    "gradients no tuple": (lambda: run_backward((result(),), [one], False),
                           "variables argument is expected to be a tuple, but got list"),
    "lengths": (lambda: run_backward((result(),), (one, one), False), "got 1 variables and 2 gradients"),
    "no variable": (lambda: run_backward((result(), 1), (one, one), False),
                    "element 1 of variables tuple is not a Variable"),
    "volatile root": (lambda: run_backward((Variable(np.ones(1), volatile=True),), (one,), False),
                      "element 0 of variables tuple is volatile"),
    "root without graph": (lambda: run_backward((result(), constant([1.0])), (one, one), False),
                           "element 1 of variables tuple does not require grad"),
    "gradient no variable": (lambda: run_backward((result(),), (1.0,), False),
                             "element 0 of gradients tuple is not a Variable or None"),
    "gradient missing": (lambda: run_backward((result(),), (None,), False),
                         "element 0 of gradients tuple is None, but the corresponding Variable requires grad"),
    "gradient size": (lambda: run_backward((result(),), (constant([1.0, 1.0]),), False),
                      "element 0 of gradients tuple has size (2,), but the corresponding Variable has size (1,)"),
    "gradient type": (lambda: run_backward((result(),), (constant([1.0], np.float32),), False),
                      "element 0 of gradients tuple has data of type torchlite.FloatTensor, but the corresponding "
                      "Variable has type torchlite.DoubleTensor"),
    "inputs no tuple": (lambda: run_backward((result(),), (one,), False, [leaf([1.0])]),
                        "inputs argument has to be a tuple"),
    "inputs no variables": (lambda: run_backward((result(),), (one,), False, ("text",)),
                            "all inputs have to be Variables, but got str"),
    "input never used": (lambda: run_backward((result(),), (one,), False, (leaf([1.0]),)),
                         "One of the differentiated Variables appears to not have been used in the graph"),
    "input of another graph": (lambda: run_backward((result(),), (one,), False, (result(),)),
                               "One of the differentiated Variables appears to not have been used in the graph"),
    "input that needs no gradient": (lambda: run_backward((result(),), (one,), False, (constant([1.0]),)),
                                     "One of the differentiated Variables appears to not have been used in the graph"),
    "nothing to do": (lambda: run_backward((constant([1.0]) * 2,), (one,), False),
                      "there are no graph nodes that require computing gradients"),
    "no roots": (lambda: run_backward((), (), False), "there are no graph nodes that require computing gradients"),
}


@pytest.mark.parametrize("case", BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_bad_call_says_what_is_wrong(case):
    call, message = case
    with pytest.raises(RuntimeError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("engine", [_C._ImperativeEngine, type("Mine", (_C._ImperativeEngine,), {})])
def test_any_instance_of_the_engine_will_do(engine):
    x = leaf([1.0])
    engine().run_backward((x * 2,), (constant([1.0]),), False)
    assert values(x.grad) == [2]


# ---- errors in the middle -----------------------------------------------------------------------------------------


class Planned(Exception):
    pass


def failing(x, error=Planned):
    def gradient(ctx, g):
        raise error("planned")

    return new_style(lambda ctx, x: x * 1, gradient).apply(x)


def wrong(make):
    """A Function of a vector of two whose backward returns ``make(gradient)``."""
    return new_style(lambda ctx, x: x * 1, lambda ctx, g: make(g), "Wrong").apply


WRONG_GRADIENTS = {
    "size": (lambda g: constant([1.0, 1.0, 1.0]), RuntimeError, re.escape(
        "function WrongBackward returned a gradient of size (3,) at position 1, but the corresponding forward input "
        "has size (2,)")),
    "one element": (lambda g: constant([1.0]), RuntimeError, re.escape("of size (1,) at position 1")),
    "dimensions": (lambda g: constant([[1.0, 1.0]]), RuntimeError, re.escape("of size (1, 2) at position 1")),
    "type": (lambda g: constant([1.0, 1.0], np.float32), RuntimeError, "returned a gradient of type .*FloatTensor"),
    "too many": (lambda g: (g, g), RuntimeError, re.escape(
        "function WrongBackward returned an incorrect number of gradients (expected 1, got 2)")),
    "too few": (lambda g: (), RuntimeError, re.escape("(expected 1, got 0)")),
    "no variable": (lambda g: 1.0, RuntimeError, re.escape("expected Variable or None (got float)")),
    "tensor": (lambda g: g.data, RuntimeError, re.escape("expected Variable or None (got torchlite.DoubleTensor)")),
}


@pytest.mark.parametrize("case", WRONG_GRADIENTS.values(), ids=WRONG_GRADIENTS)
def test_a_wrong_gradient_ends_the_run_and_writes_nothing(case):
    make, error, message = case
    x, other = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    with pytest.raises(error, match=message):
        (wrong(make)(x * 1) + other * 0).sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("error", [Planned, KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit])
def test_an_error_reaches_the_caller_as_it_is_and_the_engine_goes_on(error):
    x = leaf([2.0])
    y = failing(x, error) * 2
    with pytest.raises(error, match="planned") as caught:
        y.backward()
    assert any(entry.name == "gradient" for entry in caught.traceback)
    with pytest.raises(error, match="planned"):
        y.backward(retain_graph=True)
    assert x.grad is None
    (x * 3).backward()
    assert values(x.grad) == [3]


def test_after_an_error_the_failed_graph_says_that_it_is_freed():
    x = leaf([2.0])
    y = failing(x)
    z = y * y
    with pytest.raises(Planned):
        z.backward()
    with pytest.raises(RuntimeError, match=FREED):
        z.backward()
    assert x.grad is None


def test_leaves_that_were_complete_before_the_error_keep_their_gradient():
    early, late = leaf([1.0]), leaf([1.0])
    y = failing(late) + early * 2
    with pytest.raises(Planned):
        y.backward()
    assert late.grad is None and (early.grad is None or values(early.grad) == [2])


def test_an_error_in_a_nested_run_passes_through_the_outer_one():
    x = leaf([1.0])

    def gradient(ctx, g):
        failing(leaf([1.0])).backward()

    y = new_style(lambda ctx, x: x * 1, gradient).apply(x)
    with pytest.raises(Planned):
        y.backward()
    (x * 2).backward()
    assert values(x.grad) == [2]


def test_a_nested_error_that_is_caught_does_not_disturb_the_outer_run():
    x = leaf([1.0])

    def gradient(ctx, g):
        with pytest.raises(Planned):
            failing(leaf([1.0])).backward()
        return g * 5

    new_style(lambda ctx, x: x * 1, gradient).apply(x).backward()
    assert values(x.grad) == [5]


@pytest.mark.parametrize("where", ["leaf", "result", "function"])
def test_an_error_of_a_hook_reaches_the_caller(where):
    def hook(*args):
        raise Planned("hook")

    x = leaf([1.0])
    y = x * 2
    {"leaf": x, "result": y, "function": y.grad_fn}[where].register_hook(hook)
    with pytest.raises(Planned, match="hook"):
        (y * 3).backward()
    assert x.grad is None


# ---- a second run -------------------------------------------------------------------------------------------------

SAVING = {
    "python function": lambda x: Mul.apply(x, x),
    "old-style function": lambda x: OldMul(2)(x),
    "operation": lambda x: x * x,
    "saved result": lambda x: x.exp(),
    "list": lambda x: torchlite.cat([x * x]),
}


@pytest.mark.parametrize("operation", SAVING.values(), ids=SAVING)
def test_a_second_run_needs_the_graph_to_be_retained(operation):
    x = leaf([1.0, 2.0])
    y = operation(x).sum()
    y.backward(retain_graph=True)
    first = values(x.grad)
    y.backward()
    assert values(x.grad) == [2 * v for v in first]
    if operation is SAVING["old-style function"]:
        return  # its own backward reads nothing that was saved
    with pytest.raises(RuntimeError, match=FREED):
        y.backward()
    assert values(x.grad) == [2 * v for v in first]


def test_a_second_run_of_a_graph_that_saved_nothing_works():
    x = leaf([1.0])
    y = (x + 1) - x * 3
    y.backward()
    y.backward()
    assert values(x.grad) == [-4]


def test_saved_values_are_refused_after_their_release():
    x = leaf([1.0])
    y = Mul.apply(x, x)
    y.backward()
    for name in ("saved_tensors", "saved_variables"):
        with pytest.raises(RuntimeError, match=FREED):
            getattr(y.grad_fn, name)


def test_grad_frees_only_what_it_ran():
    x, w = leaf([1.0]), leaf([3.0])
    a, b = Mul.apply(x, x), Mul.apply(w, w)
    y = a + b
    grad(y, x)
    assert b.grad_fn.saved_tensors[0] is w.data
    with pytest.raises(RuntimeError, match=FREED):
        _ = a.grad_fn.saved_tensors


# ---- re-entrancy --------------------------------------------------------------------------------------------------


@in_a_child
def test_endless_nesting_is_a_recursion_error():
    answer = child.run("""
        class Endless(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1
            @staticmethod
            def backward(ctx, g):
                Endless.apply(leaf([1.0])).backward()
                return g
        sys.setrecursionlimit(500)
        try:
            Endless.apply(leaf([1.0])).backward()
        except RecursionError:
            print("recursion")
        x = leaf([1.0])
        (x * 2).backward()
        print(*values(x.grad))
    """)
    assert answer == ["recursion", "2.0"]


@pytest.mark.parametrize("retain", [True, False])
def test_a_nested_run_over_the_functions_of_the_outer_run(retain):
    x = leaf([2.0])
    shared = Mul.apply(x, x)

    def gradient(ctx, g):
        shared.backward(retain_graph=retain)
        return g

    y = new_style(lambda ctx, x: x * 1, gradient).apply(shared)
    if retain:
        y.backward()
        assert values(x.grad) == [8]
    else:
        with pytest.raises(RuntimeError, match=FREED):
            y.backward()
        assert values(x.grad) == [4]


def test_nested_grad_over_the_whole_outer_graph():
    x = leaf([2.0])
    shared = x * x * x
    seen = []

    def gradient(ctx, g):
        seen.extend(values(v)[0] for v in grad(shared, [x, shared], retain_graph=True))
        return g

    new_style(lambda ctx, x: x * 1, gradient).apply(shared).backward()
    assert seen == [12, 1] and values(x.grad) == [12]


def test_a_hook_may_run_backward():
    x, w = leaf([2.0]), leaf([3.0])
    y = x * w
    z = y * y
    calls = []

    def hook(g):
        calls.append(1)
        if len(calls) == 1:
            z.backward(retain_graph=True)

    y.register_hook(hook)
    z.backward(retain_graph=True)
    assert values(x.grad) == [2 * 36] and values(w.grad) == [2 * 24]


def test_a_function_added_to_the_graph_by_a_hook_does_not_disturb_the_run():
    x = leaf([2.0])
    a = x * 1
    b = a * 2

    def hook(g):
        a.add_(1)  # rebases a onto a new function, in front of the one that is waiting

    b.register_hook(hook)
    (b + a).backward()
    assert values(x.grad) == [3]


# ---- unused results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("used", [0, 1])
def test_the_gradient_of_an_unused_result_is_zeros_of_its_kind(used, dtype):
    seen = []

    def gradient(ctx, a, b):
        seen.append([(values(g), type(g.data), g.volatile) for g in (a, b)])
        return a + b.sum()

    two = new_style(lambda ctx, x: (x * 1, torchlite.cat([x, x])), gradient)
    x = leaf([1.0], dtype=dtype)
    results = two.apply(x)
    results[1 - used].register_hook(lambda g: hooked.append(g))
    hooked = []
    results[used].sum().backward()
    zeros = [[0.0], [0.0, 0.0]]
    assert seen[0][1 - used][0] == zeros[1 - used] and seen[0][0][1] is seen[0][1][1] is type(x.data)
    assert hooked == [None] or hooked == []


# ---- inputs -------------------------------------------------------------------------------------------------------


def test_a_capture_sees_the_gradient_after_the_hooks_of_a_result():
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: g * 10)
    gy, gx = grad(y * 3, [y, x])
    assert values(gy) == [30] and values(gx) == [60]


def test_a_captured_leaf_runs_no_hooks_and_keeps_its_grad():
    x = leaf([1.0])
    x.register_hook(lambda g: g * 10)
    x.grad = constant([7.0])
    (g,) = grad(x * 2, x)
    assert values(g) == [2] and values(x.grad) == [7]


def test_an_input_may_be_asked_for_twice():
    x = leaf([1.0])
    y = x * 2
    grads = grad(y * 3, [x, y, x, y])
    assert [values(g)[0] for g in grads] == [6, 3, 6, 3]


def test_both_results_of_a_function_may_be_inputs():
    a, b = Split.apply(leaf([1.0, 2.0]))
    ga, gb = grad(a * 2 + b * 3, [a, b])
    assert values(ga) == [2] and values(gb) == [3]


def test_a_root_may_be_an_input():
    y = leaf([1.0]) * 2
    (g,) = grad(y, y, constant([5.0]))
    assert values(g) == [5]


def test_an_input_that_gets_no_gradient_gives_none():
    a, b = Split.apply(leaf([1.0, 2.0]))
    ga, gb = grad(a * 2, [a, b])
    assert values(ga) == [2] and gb is None


def test_with_only_inputs_nothing_else_is_run():
    log = []
    x, w = leaf([1.0]), leaf([1.0])
    y = identity(log, "on the path")(x) + identity(log, "aside")(w)
    z = identity(log, "behind the input")(leaf([1.0]))
    (gx, gz) = grad(y + z, [x, z])
    assert log == ["on the path"] and values(gx) == values(gz) == [1] and w.grad is None


def test_grad_with_respect_to_a_result_leaves_the_graph_behind_it_alone():
    x = leaf([3.0])
    y = x * x
    (g,) = grad(y * 2, y)
    y.backward(g)
    assert values(x.grad) == [12]


def test_an_input_behind_another_input_is_reached_through_it():
    x = leaf([3.0])
    y = x * x
    z = y * 2
    gz, gy, gx = grad(z.sum(), [z, y, x])
    assert [values(g)[0] for g in (gz, gy, gx)] == [1, 2, 12]


def test_without_only_inputs_other_leaves_accumulate_and_the_inputs_do_not():
    x, w = leaf([2.0]), leaf([3.0])
    y = x * w
    gx, gy = run_backward((y * 2,), (constant([1.0]),), False, (x, y), False)
    assert values(gx) == [6] and values(gy) == [2] and x.grad is None and values(w.grad) == [4]


def test_many_inputs_take_linear_time():
    leaves = [leaf([float(i)]) for i in range(20_000)]
    y = torchlite.cat(leaves).sum()
    start = time.process_time()
    grads = grad(y, leaves)
    assert time.process_time() - start < 2
    assert len(grads) == 20_000 and values(grads[-1]) == [1]


@pytest.mark.parametrize("n", [65_535, 65_536, 70_000])
def test_an_operation_may_have_any_number_of_arguments(n):
    x = leaf([1.0], dtype=np.float32)
    torchlite.cat([x] * n).sum().backward()
    assert values(x.grad) == [n]


# ---- callbacks ----------------------------------------------------------------------------------------------------


def queue(callback):
    Variable._execution_engine.queue_callback(callback)


def test_a_callback_runs_once_after_the_run_that_queued_it():
    log = []
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: queue(lambda: log.append(values(x.grad))))
    y.backward(retain_graph=True)
    assert log == [[2]]
    y._backward_hooks.clear()
    y.backward()
    assert log == [[2]]


def test_callbacks_run_in_order_and_may_queue_more():
    log = []

    def hook(g):
        queue(lambda: log.append("first"))
        queue(lambda: (log.append("second"), queue(lambda: log.append("third"))))

    x = leaf([1.0])
    x.register_hook(hook)
    (x * 2).backward()
    assert log == ["first", "second", "third"]


def test_the_callback_of_a_nested_run_runs_with_it():
    log = []
    inner = leaf([1.0])
    inner.register_hook(lambda g: queue(lambda: log.append("inner")))

    def hook(g):
        queue(lambda: log.append("outer"))
        (inner * 2).backward()
        log.append("hook")

    x = leaf([1.0])
    x.register_hook(hook)
    (x * 2).backward()
    assert log == ["inner", "hook", "outer"]


def test_a_failed_run_drops_its_callbacks():
    log = []
    x = leaf([1.0])
    y = failing(x) * 2
    y.register_hook(lambda g: queue(lambda: log.append("called")))
    with pytest.raises(Planned):
        y.backward()
    (x * 2).backward()
    assert log == []


def test_the_error_of_a_callback_reaches_the_caller():
    def fail():
        raise Planned("callback")

    x = leaf([1.0])
    x.register_hook(lambda g: queue(fail))
    with pytest.raises(Planned, match="callback"):
        (x * 2).backward()
    assert values(x.grad) == [2]
    x._backward_hooks.clear()
    (x * 2).backward()


@pytest.mark.parametrize(
    "callback, error, message",
    [(1, TypeError, "must be callable, not int"), (print, RuntimeError, "no backward is running on this thread")],
)
def test_a_callback_needs_a_run_and_has_to_be_callable(callback, error, message):
    with pytest.raises(error, match=message):
        queue(callback)


# ---- stochastic functions -----------------------------------------------------------------------------------------


class Draw(StochasticFunction):
    def forward(self, x):
        return x.clone()

    def backward(self, reward):
        return reward * 10


def test_stochastic_functions_are_found_from_the_roots_and_ignore_gradients():
    x = leaf([1.0, 2.0])
    y = Draw()(x * 3)
    y.reinforce(1)
    (y * 5).sum().backward()
    assert values(x.grad) == [30, 30]


def test_several_stochastic_functions_in_a_row_each_get_their_reward():
    x = leaf([1.0])
    a = Draw()(x)
    b = Draw()(a * 2)
    a.reinforce(1)
    b.reinforce(100)
    b.backward()
    assert values(x.grad) == [10]


def test_a_run_may_have_stochastic_functions_only():
    x = leaf([1.0])
    y = Draw()(x)
    y.reinforce(2)
    run_backward((y,), (constant([0.0]),), False)
    assert values(x.grad) == [20]
