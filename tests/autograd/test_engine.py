"""The engine: what run_backward refuses, the order of its work, errors, re-entry, threads and interruption."""

import gc
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Mul, Scale, new_style

from torchlite.autograd import Variable, backward, grad

run_backward = Variable._execution_engine.run_backward
ONE = constant([1.0])


def logging(log, name):
    """A Function that notes when its backward runs."""

    def step(ctx, g):
        log.append(name)
        return g

    return new_style(lambda ctx, x: x * 1, step, name)


# ---- arguments -----------------------------------------------------------------------------------------------------


def root():
    return Scale.apply(leaf([1.0]), 2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda: ([root()], (ONE,), False), "variables argument is expected to be a tuple, but got list"),
        (lambda: ((root(),), [ONE], False), "is expected to be a tuple, but got list"),
        (lambda: ((root(),), (), False), "got 1 variables and 0 gradients"),
        (lambda: ((3,), (ONE,), False), "element 0 of variables tuple is not a Variable"),
        (lambda: ((leaf([1.0], False, volatile=True),), (ONE,), False), "element 0 of variables tuple is volatile"),
        (lambda: ((constant([1.0]),), (ONE,), False), "element 0 of variables tuple does not require grad"),
        (lambda: ((root(),), (3,), False), "element 0 of gradients tuple is not a Variable or None"),
        (
            lambda: ((root(),), (None,), False),
            "element 0 of gradients tuple is None, but the corresponding Variable requires grad",
        ),
        (lambda: ((root(),), (ONE,), False, [leaf([1.0])]), "inputs argument has to be a tuple"),
        (lambda: ((root(),), (ONE,), False, (3,)), "all inputs have to be Variables, but got int"),
        (
            lambda: ((root(),), (ONE,), False, (leaf([1.0]),)),
            "One of the differentiated Variables appears to not have been used in the graph",
        ),
        (
            lambda: ((Scale.apply(constant([1.0]), 2),), (ONE,), False),
            "there are no graph nodes that require computing gradients",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(RuntimeError, match=re.escape(message)):
        run_backward(*arguments())


def test_arguments_may_be_given_by_name():
    x = leaf([1.0])
    y = Scale.apply(x, 2)
    assert run_backward(variables=(y,), grad_variables=(ONE,), keep_graph=True) is None
    (g,) = run_backward(variables=(y,), grad_variables=(ONE,), keep_graph=False, inputs=(x,), only_inputs=True)
    assert values(g) == [2] and values(x.grad) == [2]


# ---- order ---------------------------------------------------------------------------------------------------------


def test_a_diamond_chain_runs_each_node_once():
    log = []
    x = leaf([1.0])
    y = x
    for _ in range(60):
        y = logging(log, "node").apply(y)
        y = y + y
    y.backward()
    assert values(x.grad) == [2.0**60] and len(log) == 60


def test_a_node_waits_for_all_of_its_gradients():
    log = []
    x = leaf([1.0])
    shared = logging(log, "shared").apply(x)
    deep = shared
    for _ in range(5):
        deep = logging(log, "deep").apply(deep)
    (deep + shared * 3).backward()
    assert log == ["deep"] * 5 + ["shared"] and values(x.grad) == [4]


def test_the_youngest_ready_node_runs_first():
    log = []
    x = leaf([1.0])
    a = logging(log, "a").apply(x)
    b = logging(log, "b").apply(x)
    (b + a).backward()
    assert log == ["b", "a"]


def test_only_inputs_runs_nothing_off_the_path():
    log = []
    x, y = leaf([1.0]), leaf([1.0])
    z = logging(log, "x").apply(x) + logging(log, "y").apply(y)
    grad(z, x)
    assert log == ["x"]


def test_a_callback_runs_once_after_the_run():
    log = []

    def step(ctx, g):
        Variable._execution_engine.queue_callback(lambda: log.append("callback"))
        log.append("backward")
        return g

    x = leaf([1.0])
    a = new_style(lambda ctx, x: x * 1, step)
    a.apply(logging(log, "after").apply(x)).backward()
    assert log == ["backward", "after", "callback"]
    Scale.apply(x, 1).backward()
    assert log[3:] == []


# ---- errors --------------------------------------------------------------------------------------------------------


def test_the_engine_works_after_an_error_in_the_middle():
    def fail(ctx, g):
        raise LookupError("planted")

    x = leaf([2.0])
    bad = Mul.apply(new_style(lambda ctx, x: x * 1, fail).apply(x), x)
    with pytest.raises(LookupError, match="planted"):
        bad.backward()
    Mul.apply(x, x).backward()
    results = []
    thread = threading.Thread(target=lambda: results.append(values(grad(Mul.apply(x, x), x)[0])))
    thread.start()
    thread.join()
    assert values(x.grad) == [4] and results == [[4]]
    with pytest.raises((LookupError, RuntimeError), match="planted|second time"):
        bad.backward()


def test_the_traceback_leads_to_the_users_code():
    def fail(ctx, g):
        raise LookupError("planted")

    with pytest.raises(LookupError) as error:
        new_style(lambda ctx, x: x * 1, fail).apply(leaf([1.0])).backward()
    assert error.traceback[-1].name == "fail"


# ---- re-entry ------------------------------------------------------------------------------------------------------


def nested(depth):
    """A Function whose backward runs backward of a graph with `depth - 1` further levels."""

    def step(ctx, g):
        if depth > 1:
            z = leaf([1.0])
            nested(depth - 1).apply(z).backward()
            return g * z.grad
        return g * 2

    return new_style(lambda ctx, x: x * 1, step)


def test_backward_nests_sixty_deep():
    x = leaf([1.0])
    nested(60).apply(x).backward()
    assert values(x.grad) == [2]


def test_five_thousand_siblings_run_backward_within_backward():
    def step(ctx, g):
        z = leaf([3.0])
        Scale.apply(z, 2).backward()
        return g * z.grad

    inner = new_style(lambda ctx, x: x * 1, step)
    x = leaf([1.0])
    total = constant([0.0])
    for _ in range(5000):
        total = total + inner.apply(x)
    total.backward()
    assert values(x.grad) == [10_000]


def test_a_nested_run_does_only_its_own_work():
    log = []
    x = leaf([1.0])

    def step(ctx, g):
        log.append("enter")
        logging(log, "inner").apply(leaf([1.0])).backward()
        log.append("leave")
        return g

    a = new_style(lambda ctx, x: x * 1, step).apply(logging(log, "a").apply(x))
    b = logging(log, "b").apply(logging(log, "b").apply(x))
    (a + b).backward()
    start = log.index("enter")
    assert log[start : start + 3] == ["enter", "inner", "leave"]
    assert sorted(log) == ["a", "b", "b", "enter", "inner", "leave"]


def test_a_nested_run_may_go_through_the_same_graph():
    x = leaf([3.0])
    y = Mul.apply(x, x)

    def step(ctx, g):
        (inner,) = grad(y, x, retain_graph=True)
        return g * inner

    new_style(lambda ctx, x: x * 1, step).apply(y).backward()
    assert values(x.grad) == [36]


# ---- threads -------------------------------------------------------------------------------------------------------


def in_threads(n, work):
    errors = []

    def guarded():
        try:
            work()
        except BaseException as error:  # noqa: B036  (handed to the test)
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_that_share_a_leaf_lose_no_gradient():
    w = leaf([1.0])
    rounds = 100

    def work():
        for _ in range(rounds):
            Mul.apply(Scale.apply(w, 2), constant([3.0])).backward()

    in_threads(8, work)
    assert values(w.grad) == [8 * rounds * 6]


def test_threads_that_share_a_graph_lose_no_gradient():
    x = leaf([2.0])
    y = Mul.apply(Mul.apply(x, x), x)

    def work():
        for _ in range(50):
            y.backward(retain_graph=True)

    in_threads(4, work)
    assert values(x.grad) == [4 * 50 * 12]


def test_threads_collect_garbage_while_others_run_backward():
    results = []

    def work():
        for _ in range(30):
            x = leaf([2.0])
            y = Mul.apply(Scale.apply(x, 3), x)
            y.grad_fn.y = y
            y.backward()
            results.append(values(x.grad))

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        in_threads(8, work)
    finally:
        gc.set_threshold(*threshold)
    assert results == [[12]] * 240


# ---- processes -----------------------------------------------------------------------------------------------------


def run_python(source):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)


@pytest.mark.no_leak_check(reason="the work is done in a child process")
def test_an_interrupt_reaches_the_caller_and_the_engine_goes_on():
    result = run_python("""
import signal, threading, time
import numpy as np
from torchlite.autograd import Function, Variable
class Slow(Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g):
        time.sleep(0.005)
        return g
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts without one
x = Variable(np.ones(1), requires_grad=True)
y = x
for _ in range(1000): y = Slow.apply(y)
threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
start = time.perf_counter()
try:
    y.backward()
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - start < 3)
Slow.apply(x).backward()
print(x.grad.data[0])
""")
    assert result.stdout.split() == ["interrupted", "True", "1.0"], result.stderr


@pytest.mark.no_leak_check(reason="the work is done in a child process")
def test_a_deep_graph_is_built_run_and_freed_on_a_small_stack():
    result = run_python("""
import threading
import numpy as np
from torchlite.autograd import Variable
def work():
    x = Variable(np.ones(1), requires_grad=True)
    y = x
    for _ in range(200_000): y = y + 1
    y.backward()
    del y
    y = x
    for _ in range(200_000): y = y * 1
    del y
    print(x.grad.data[0])
threading.stack_size(256 * 1024)
thread = threading.Thread(target=work)
thread.start(); thread.join()
""")
    assert (result.returncode, result.stdout) == (0, "1.0\n"), result.stderr


@pytest.mark.no_leak_check(reason="the work is done in a child process")
def test_a_graph_that_lives_at_exit_is_harmless():
    result = run_python("""
import numpy as np
from torchlite.autograd import Variable
x = Variable(np.ones(1), requires_grad=True)
x.register_hook(lambda g: print(g))
y = x * 2
y.grad_fn.register_hook(lambda i, o: None)
y.backward(create_graph=True)
print("end")
""")
    assert result.returncode == 0 and result.stdout.endswith("end\n"), result.stderr


@pytest.mark.no_leak_check(reason="the work is done in a child process")
def test_backward_works_in_a_forked_child():
    result = run_python("""
import os
import numpy as np
from torchlite.autograd import Variable
x = Variable(np.ones(1000), requires_grad=True)
(x * 2).backward(np.ones(1000))
pid = os.fork()
if pid == 0:
    (x * 3).backward(np.ones(1000))
    os._exit(0 if x.grad.data[0] == 5 else 1)
print(os.waitpid(pid, 0)[1], x.grad.data[0])
""")
    assert result.stdout.split() == ["0", "2.0"], result.stderr


def test_outputs_of_different_graphs_are_summed_into_one_leaf():
    x = leaf([1.0])
    backward([Scale.apply(x, k) for k in range(1, 11)])
    assert values(x.grad) == [55]


def test_large_gradients_are_summed_without_touching_what_was_handed_out():
    seen = []
    x = leaf(np.ones(10_000))
    a = Scale.apply(x, 1)
    a.register_hook(lambda g: seen.append(g))
    (a + a + Scale.apply(x, 5)).backward(np.ones(10_000))
    assert set(values(seen[0])) == {2} and set(values(x.grad)) == {7}


@pytest.mark.no_leak_check(reason="the work is done in a child process")
def test_a_finalizer_that_takes_a_lock_runs_when_a_graph_is_freed_on_any_thread():
    result = run_python("""
import threading
import numpy as np
from torchlite.autograd import Function, Variable
lock, log = threading.Lock(), []
class Payload:
    def __del__(self):
        with lock: log.append(threading.get_ident())
class Carry(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.payload = Payload()
        return x * 1
    @staticmethod
    def backward(ctx, g): return g
def work():
    for _ in range(200):
        Carry.apply(Variable(np.ones(1), requires_grad=True)).backward()
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads:
    while t.is_alive():
        with lock: pass
        t.join(0.001)
print(len(log))
""")
    assert result.stdout == "800\n", result.stderr
