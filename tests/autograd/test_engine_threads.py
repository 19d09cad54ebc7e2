"""Several threads in the engine: shared leaves and graphs, kernels without the GIL, finalizers, fork and signals."""

import threading

import child
import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Mul, Scale

import torchlite
from torchlite.autograd import Variable, grad

# Kernels above this many elements let other threads run.
LARGE = 50_000
in_a_child = pytest.mark.no_leak_check(reason="the program runs in a process of its own")


def in_threads(n, body):
    """Runs ``body(i)`` in ``n`` threads that start together, and returns the results."""
    results, errors, start = [None] * n, [], threading.Barrier(n)

    def work(i):
        try:
            start.wait()
            results[i] = body(i)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.excepthook = hook
    if errors:
        raise errors[0]
    return results


KERNELS = {
    "contiguous": lambda w: w * 2,
    "broadcast": lambda w: w + constant(np.zeros(1)) + w,
    "transposed": lambda w: w.view(250, -1).t() * 2,
    "saved result": lambda w: (w * 0).exp() + w * 2,
    "list": lambda w: torchlite.cat([w, w]),
    "reduced": lambda w: w.view(-1, 2).sum(1) * 2,
    "several consumers": lambda w: (w + 0) * 3 - w,
}


@pytest.mark.parametrize("size", [10, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_no_update_of_a_shared_leaf_is_lost(kernel, size):
    size = 500 if size == 10 else size
    w = leaf(np.ones(size))
    expected = leaf(np.ones(size))
    kernel(expected).sum().backward()
    threads, rounds = 8, 5

    def body(i):
        for _ in range(rounds):
            kernel(w).sum().backward()

    in_threads(threads, body)
    np.testing.assert_array_equal(w.grad.data.numpy(), expected.grad.data.numpy() * threads * rounds)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_no_update_through_a_cast_is_lost(dtype):
    w = leaf(np.ones(LARGE), dtype=dtype)
    wide = constant(np.ones(LARGE))

    def body(i):
        for _ in range(5):
            (w * wide).sum().backward()

    in_threads(4, body)
    assert w.grad.data.numpy().dtype == dtype and (w.grad.data.numpy() == 20).all()


def test_no_update_with_history_is_lost():
    w = leaf(np.ones(LARGE))
    seed = constant(np.ones(LARGE))

    def body(i):
        for _ in range(5):
            (w * 2).backward(seed)

    in_threads(4, body)
    assert (w.grad.data.numpy() == 40).all() and w.grad.grad_fn is not None
    w.grad = None


def test_first_gradients_that_arrive_together_are_all_counted():
    for _ in range(20):
        w = leaf(np.ones(LARGE))
        in_threads(4, lambda i, w=w: (w * (i + 1)).sum().backward())
        assert (w.grad.data.numpy() == 10).all()


def test_a_graph_may_be_run_by_several_threads_at_once():
    x = leaf(np.full(LARGE, 2.0))
    y = Mul.apply(x * x, x).sum()

    def body(i):
        return [values(grad(y, x, retain_graph=True)[0])[0] for _ in range(5)]

    assert in_threads(4, body) == [[12.0] * 5] * 4


def test_a_graph_that_one_thread_frees_is_an_error_for_the_others_and_no_crash():
    outcomes = []

    def body(i):
        try:
            y.backward()
            outcomes.append("done")
        except RuntimeError as error:
            assert "Specify retain_graph=True" in str(error)
            outcomes.append("freed")

    for _ in range(10):
        x = leaf(np.full(LARGE, 1.0))
        y = x
        for _ in range(5):
            y = y * x * x.exp()
        y = y.sum()
        in_threads(4, body)
    assert len(outcomes) == 40 and "done" in outcomes


def test_data_and_grad_may_be_replaced_while_another_thread_computes_with_them():
    x = leaf(np.ones(LARGE))
    done = threading.Event()

    def replace():
        while not done.is_set():
            x.data = torchlite.DoubleTensor(LARGE).fill_(1)
            x.grad = None
            grad_data = x.grad
            if grad_data is not None:
                grad_data.data = torchlite.DoubleTensor(LARGE).fill_(0)

    def compute():
        try:
            for _ in range(50):
                y = (x * x).exp().sum()
                y.backward()
                x.add(1).mul(x).sum()
        finally:
            done.set()

    in_threads(2, lambda i: replace() if i else compute())
    assert values(x.sum()) == [LARGE]


def test_gradient_data_may_be_replaced_while_it_is_added_to():
    x = leaf(np.ones(LARGE))
    (x * 2).sum().backward()
    g = x.grad
    done = threading.Event()

    def replace():
        while not done.is_set():
            g.data = torchlite.DoubleTensor(LARGE).fill_(0)

    def accumulate():
        try:
            for _ in range(100):
                (x * 2).sum().backward()
        finally:
            done.set()

    in_threads(2, lambda i: replace() if i else accumulate())
    assert x.grad is g and g.data.numel() == LARGE


def test_a_graph_under_construction_is_not_disturbed_by_a_backward_that_ends():
    w = leaf([3.0])

    def build(i):
        for _ in range(100):
            y = w
            for _ in range(10):
                y = Scale.apply(y, 1) * w
            (g,) = grad(y, w)
            assert values(g) == [11 * 3.0**10]

    in_threads(4, build)
    assert w.grad is None


def test_hooks_of_a_shared_leaf_see_every_gradient():
    w = leaf([1.0])
    seen = []
    w.register_hook(lambda g: seen.append(values(g)[0]))
    in_threads(8, lambda i: [(w * (i + 1)).backward() for _ in range(50)])
    assert len(seen) == 400 and values(w.grad) == [50 * 36]


def test_errors_stay_in_their_thread():
    x = leaf([1.0])

    def body(i):
        y = x * 2
        if i % 2:
            y.register_hook(lambda g: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                y.backward()
        else:
            y.backward()
        return i

    assert in_threads(8, body) == list(range(8)) and values(x.grad) == [8]


def test_recording_is_switched_off_for_one_thread_only():
    x = leaf(np.ones(LARGE))

    def body(i):
        for _ in range(10):
            if i % 2:
                with torchlite.no_grad():
                    assert (x * 2).grad_fn is None
            else:
                assert (x * 2).grad_fn is not None

    in_threads(4, body)


def test_callbacks_belong_to_the_thread_that_runs_backward():
    log = []

    def body(i):
        x = leaf(np.ones(LARGE))
        x.register_hook(lambda g: Variable._execution_engine.queue_callback(lambda: log.append((i, me()))))
        me = threading.get_ident
        (x * 2).sum().backward()
        return me()

    idents = in_threads(4, body)
    assert sorted(log) == sorted(enumerate(idents))


# ---- in a process of their own ------------------------------------------------------------------------------------


@in_a_child
def test_finalizers_of_what_backward_frees_may_take_locks():
    answer = child.run("""
        lock, log = threading.Lock(), []
        class Payload:
            def __del__(self):
                with lock:
                    log.append(threading.get_ident())
        class Holding(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.payload = Payload()
                ctx.save_for_backward(x)
                return x * 1
            @staticmethod
            def backward(ctx, g):
                return g
        def body():
            for i in range(500):
                x = leaf([1.0])
                y = Holding.apply(x)
                y.backward()
                with lock:
                    pass
                del y
        threads = [threading.Thread(target=body) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(len(log))
    """, 20)
    assert answer == ["2000"]


@in_a_child
def test_a_finalizer_of_a_replaced_gradient_may_wait_for_a_thread_that_accumulates():
    answer = child.run("""
        lock = threading.Lock()
        entered = threading.Event()
        class Payload:
            def __del__(self):
                entered.set()
                with lock:
                    pass
        w, v = leaf(np.ones(50_000)), leaf(np.ones(50_000))
        seed = constant(np.ones(50_000))
        payload = Payload()
        (w * 2).backward(seed)
        w.grad.payload = payload
        del payload
        def holder():
            with lock:
                ready.set()
                entered.wait(10)
                time.sleep(0.05)
                (v * 2).sum().backward()
        ready = threading.Event()
        thread = threading.Thread(target=holder)
        thread.start()
        ready.wait()
        (w * 2).backward(seed)
        thread.join()
        print(v.grad.data.numpy()[0], w.grad.data.numpy()[0])
    """, 20)
    assert answer == ["2.0", "4.0"]


@in_a_child
def test_ctrl_c_reaches_the_caller_of_a_backward_of_operations_alone():
    answer = child.run("""
        x = leaf(np.ones(100_000))
        y = x
        for _ in range(100):
            y = y.tanh()
        y = y.sum()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.perf_counter()
        caught = False
        try:
            while time.perf_counter() - start < 10:
                y.backward(retain_graph=True)
        except KeyboardInterrupt:
            caught = time.perf_counter() - start < 3
        x.grad = None
        (x * 2).sum().backward()
        print(caught, x.grad.data.numpy()[0])
    """)
    assert answer == ["True", "2.0"]


@in_a_child
@pytest.mark.filterwarnings("ignore")
def test_a_child_forked_while_threads_run_backward_can_run_backward():
    answer = child.run("""
        import warnings
        warnings.simplefilter("ignore")
        w = leaf(np.ones(50_000))
        stop = threading.Event()
        def body():
            while not stop.is_set():
                (w * 2).exp().sum().backward()
        threads = [threading.Thread(target=body) for _ in range(3)]
        for t in threads: t.start()
        codes = []
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                x = leaf(np.ones(50_000))
                (x * 3).sum().backward()
                (x * 3).sum().backward()
                os._exit(0 if x.grad.data.numpy()[0] == 6 else 1)
            codes.append(os.waitpid(pid, 0)[1])
        stop.set()
        for t in threads: t.join()
        print(sum(codes))
    """)
    assert answer == ["0"]


@in_a_child
def test_threads_that_are_in_backward_at_exit_are_harmless():
    answer = child.run("""
        def body():
            x = leaf(np.ones(50_000))
            while True:
                (x * 2).exp().sum().backward()
        for _ in range(3):
            threading.Thread(target=body, daemon=True).start()
        time.sleep(0.2)
        print("end")
    """)
    assert answer == ["end"]
