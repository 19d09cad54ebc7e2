"""What the tracer records, and what it refuses at the point of misuse."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from programs import agrees, closed_tracer, engine, run, trace, variable

import torchlite
from torchlite import _C
from torchlite.autograd import Function, Variable, no_grad
from torchlite.nn import functional as F


class Split(Function):
    """Three results: x, 2 x and 3 x."""

    @staticmethod
    def forward(ctx, x):
        return x.clone(), x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b, c):
        return a + b * 2 + c * 3


class Scale(Function):
    @staticmethod
    def forward(ctx, x, factor, mode="s"):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None, None


class AddOne(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, g):
        return g


class OldStyle(Function):
    def forward(self, x):
        return x * 2

    def backward(self, g):
        return g * 2


# ---- entering and leaving -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("volatile", [False, True])
def test_the_identity_returns_its_input(requires_grad: bool, volatile: bool) -> None:
    if requires_grad and volatile:
        return
    data = variable(2, 3).data
    lam = trace(lambda x: x, Variable(data, requires_grad=requires_grad, volatile=volatile))
    assert str(lam) == "lambda %0 : Float(2, 3) {\n  Ret %0\n}\n"
    x = Variable(variable(2, 3, seed=4).data, requires_grad=requires_grad, volatile=volatile)
    (y,) = engine.run_forward(lam, (x,))
    assert (y.data.numpy() == x.data.numpy()).all()
    assert (y.requires_grad, y.volatile) == (requires_grad, volatile)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "inputs argument is expected to be a tuple, but got list"),
        ((1,), "element 0 of input tuple is not a Variable"),
        (([variable(2)],), "element 0 of input tuple is not a Variable"),
    ],
)
def test_inputs_are_a_tuple_of_variables(inputs: object, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        _C._tracer_enter(inputs)
    assert _C._tracer_depth() == 0


def test_one_variable_cannot_be_two_parameters() -> None:
    x = variable(2)
    with pytest.raises(RuntimeError, match="element 1 of input tuple is the same Variable as an earlier one"):
        _C._tracer_enter((x, x))


def test_leaving_without_entering_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="attempting to exit trace, but none exist"):
        _C._tracer_exit(())


@pytest.mark.parametrize(
    ("outputs", "message"),
    [([], "outputs argument is expected to be a tuple, but got list"), ((1,), "element 0 of output tuple is not a")],
)
def test_outputs_are_a_tuple_of_variables(outputs: object, message: str) -> None:
    _C._tracer_enter((variable(2),))
    with pytest.raises(RuntimeError, match=message):
        _C._tracer_exit(outputs)
    assert _C._tracer_depth() == 0


def test_an_output_that_was_not_traced_is_an_error_or_a_capture() -> None:
    outside = variable(3)
    with pytest.raises(RuntimeError, match="element 1 of outputs was not traced: it is a leaf of type"):
        trace(lambda x: (x * 2, outside), variable(2))
    lam = trace(lambda x: (x * 2, outside), variable(2), capture=True)
    assert lam.captures == (outside,)
    assert (run(lam, variable(2))[1] == outside.data.numpy()).all()


def test_unused_inputs_stay_parameters_in_order() -> None:
    lam = trace(lambda a, b, c: c * 2, variable(1), variable(2), variable(3))
    assert [p.type.sizes for p in lam.params] == [(1,), (2,), (3,)]
    with pytest.raises(RuntimeError, match="the lambda has 3 inputs, but got 1"):
        engine.run_forward(lam, (variable(3),))


def test_the_same_output_twice() -> None:
    def f(x):
        y = x * 2
        return y, y, x

    agrees(f, variable(3))


def test_an_exception_leaves_no_trace_behind() -> None:
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: x * (1 // 0), variable(2))
    assert _C._tracer_depth() == 0
    assert str(trace(lambda x: x, variable(2))) == "lambda %0 : Float(2,) {\n  Ret %0\n}\n"


def test_variables_of_a_dead_trace_are_ordinary_values() -> None:
    x = variable(3, requires_grad=True)
    _C._tracer_enter((x,))
    y = x * 2
    assert _C._tracer_abort()
    assert not _C._tracer_abort()
    (y * 3).sum().backward()
    assert (x.grad.data.numpy() == 6).all()
    with pytest.raises(RuntimeError, match="mul: an argument .* comes from outside the trace"):
        trace(lambda x: x * y, variable(3))


def test_trace_local_says_what_stands_for_a_variable() -> None:
    x = variable(2)
    assert _C._trace_local(x) is None
    with closed_tracer():
        _C._tracer_enter((x,))
        y = x * 2
        local, outside = _C._trace_local(y), _C._trace_local(variable(2))
        assert y.trace_local is local
        lam = _C._tracer_exit((y,))
    assert local is lam.lets[0].results[0]
    assert outside is None
    assert _C._trace_local(x) is None


# ---- values from elsewhere ------------------------------------------------------------------------------------------


def test_a_leaf_from_outside_is_refused_with_the_remedy() -> None:
    w = variable(3, requires_grad=True)
    with pytest.raises(RuntimeError) as e:
        trace(lambda x: x * w, variable(3))
    assert str(e.value) == (
        "mul: an argument (a leaf that requires grad of type Float(3,)) comes from outside the trace. Make it an input "
        "of the trace, or trace with capture=True"
    )


def test_a_result_from_outside_is_refused_with_the_remedy() -> None:
    w = variable(3) * 2
    message = r"\(the result of MulConstantBackward of type .*Compute it from the trace's inputs"
    with pytest.raises(RuntimeError, match=message):
        trace(lambda x: x + w, variable(3))


def test_a_captured_variable_is_a_parameter_that_is_bound() -> None:
    w = variable(3, requires_grad=True)
    lam = trace(lambda x: x * w + w, variable(3), capture=True)
    assert len(lam.params) == 2
    assert lam.captures == (w,)
    (y,) = engine.run_forward(lam, (variable(3, seed=2),))
    y.sum().backward()
    assert (w.grad.data.numpy() == variable(3, seed=2).data.numpy() + 1).all()


def test_a_value_made_inside_from_nothing_is_refused() -> None:
    with pytest.raises(RuntimeError, match="comes from outside the trace"):
        trace(lambda x: x * Variable(torchlite.from_numpy(np.ones(3, "float32"))), variable(3))


def test_data_of_a_traced_variable_is_a_value_from_outside() -> None:
    with pytest.raises(RuntimeError, match="comes from outside the trace"):
        trace(lambda x: x * Variable(x.data), variable(3))


def test_arrays_and_numpy_numbers_are_constants_of_the_program() -> None:
    lam = agrees(lambda x: x * np.float32(0.5) + np.array([1, 2, 3], "float32"), variable(3))
    assert len(lam.captures) == 2


def test_a_value_of_another_trace_is_refused() -> None:
    kept = []

    def first(x):
        kept.append(x * 2)
        return kept[0] + 1

    trace(first, variable(3))
    with pytest.raises(RuntimeError, match="comes from outside the trace"):
        trace(lambda x: x + kept[0], variable(3))
    agrees(lambda x: x + kept[0], variable(3), capture=True)


# ---- nesting and threads --------------------------------------------------------------------------------------------


def test_a_nested_trace_is_inlined_into_the_outer_one() -> None:
    inner = []

    def f(x):
        y = x + 1
        inner.append(trace(lambda y: y * 2, y))
        return inner[0] and y * 3

    lam = agrees(f, variable(3))
    assert [t.name for t in lam.lets] == ["Add", "Mul", "Mul"]
    assert [t.name for t in inner[0].lets] == ["Mul"]
    inner[0].check()


def test_a_replay_is_inlined_into_a_trace() -> None:
    inner = trace(lambda y: torchlite.tanh(y) * 2, variable(3))
    lam = agrees(lambda x: engine.run_forward(inner, (x + 1,))[0].sum(), variable(3))
    assert [t.name for t in lam.lets] == ["Add", "Tanh", "Mul", "Sum"]


def test_a_value_of_the_outer_trace_is_refused_by_the_inner_one() -> None:
    def f(x):
        y = x * 2
        return trace(lambda z: z * y, x) and y

    with pytest.raises(RuntimeError, match="comes from outside the trace"):
        trace(f, variable(3))
    assert _C._tracer_depth() == 0


def test_threads_trace_by_themselves() -> None:
    texts: dict[int, str] = {}
    barrier = threading.Barrier(3)

    def work(k: int) -> None:
        def f(x):
            for _ in range(k):
                barrier.wait(10)
                x = x * k
            for _ in range(3 - k):
                barrier.wait(10)
            return x

        texts[k] = str(trace(f, variable(2)))

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [texts[k].count("Mul") for k in (1, 2, 3)] == [1, 2, 3]


def test_a_trace_sees_nothing_of_other_threads() -> None:
    x = variable(2)

    def f(x):
        t = threading.Thread(target=lambda: variable(2) * x.detach())
        t.start()
        t.join()
        return x * 2

    assert [t.name for t in trace(f, x).lets] == ["Mul"]


def test_a_thread_that_ends_inside_a_trace_does_no_harm() -> None:
    x = variable(2)

    def work() -> None:
        _C._tracer_enter((x,))
        x * 2

    t = threading.Thread(target=work)
    t.start()
    t.join()
    agrees(lambda x: x * 3, x)
    x = None
    gc.collect()


# ---- writing in place -----------------------------------------------------------------------------------------------


def test_writes_in_place_become_new_names() -> None:
    def f(x, y):
        a = x * 2
        a.add_(y)
        a.mul_(a)
        a[1:] = 0
        a.clamp_(-1, 1)
        return a, a + x

    lam = agrees(f, variable(3), variable(3, seed=1))
    assert [t.name for t in lam.lets] == ["Mul", "Add", "Mul", "SetItem", "Clamp", "Add"]


def test_what_was_computed_before_a_write_keeps_its_value() -> None:
    def f(x):
        a = x * 2
        b = a + 1
        a.zero_()
        return a, b

    agrees(f, variable(3))


def test_a_written_input_leaves_the_replays_input_alone() -> None:
    lam = trace(lambda x: x.add_(1), variable(3))
    x = variable(3, seed=3)
    before = x.data.numpy().copy()
    (y,) = engine.run_forward(lam, (x,))
    assert (x.data.numpy() == before).all()
    assert (y.data.numpy() == before + 1).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (lambda a: (a.view(-1).add_(1), a)[1])(x * 2),
        lambda x: (lambda a: (a[0].mul_(3), a * 1)[1])(x * 2),
        lambda x: (lambda a, b: (a.add_(1), b)[1])(*(lambda a: (a, a.t()))(x * 2)),
    ],
)
def test_a_view_and_its_base_are_not_both_used_after_a_write(f) -> None:
    with pytest.raises(RuntimeError, match="share storage|A view and its base cannot both be used"):
        trace(f, variable(2, 2))


def test_a_write_outside_the_trace_is_noticed() -> None:
    def f(x):
        a = x * 2
        other = threading.Thread(target=lambda: a.add_(1))
        other.start()
        other.join()
        return a + 1

    with pytest.raises(RuntimeError, match="was modified in place outside the trace: it was at version"):
        trace(f, variable(3))


def test_a_write_to_the_data_of_a_traced_variable_is_refused() -> None:
    def f(x):
        y = x * 2
        y.data.narrow(0, 0, 1).zero_()
        return y

    x = variable(3)
    with pytest.raises(RuntimeError, match="is written behind its back: write the Variable itself, not its .data"):
        trace(f, x)
    x.data.zero_()
    outside = variable(3)
    trace(lambda x: outside.data.zero_() is None or x * 2, x).check()


def test_a_write_keeps_the_type_of_what_it_writes() -> None:
    def f(x, y):
        a = x * 2
        return a.add_(y)

    x, y = variable(3), variable(3, dtype="float64")
    lam = trace(f, x, y)
    assert [t.name for t in lam.lets] == ["Mul", "Add", "Type"]
    assert run(lam, x, y)[0].dtype == np.float32
    assert (run(lam, x, y)[0] == f(x, y).data.numpy()).all()


def test_views_in_place_become_new_names() -> None:
    lam = agrees(lambda x: (x * 2).t_().unsqueeze_(0).squeeze_(0) + 1, variable(2, 3))
    assert [t.name for t in lam.lets] == ["Mul", "T", "Unsqueeze", "Squeeze", "Add"]


# ---- what else is recorded ------------------------------------------------------------------------------------------


def test_detach_cuts_the_graph_of_a_replay_too() -> None:
    lam = agrees(lambda x: (x.detach() * 2, x * 3), variable(3, requires_grad=True))
    assert lam.lets[0].name == "Detach"
    x = variable(3, requires_grad=True)
    a, b = engine.run_forward(lam, (x,))
    assert (a.requires_grad, b.requires_grad) == (False, True)
    with pytest.raises(RuntimeError, match="detach_: .* use detach"):
        trace(lambda x: (x * 2).detach_(), variable(3))


def test_no_grad_holds_in_a_replay() -> None:
    def f(x):
        with no_grad():
            y = x * x
        return y * 2, x + y

    agrees(f, variable(3, requires_grad=True))


def test_indices_that_are_inputs_stay_inputs() -> None:
    i = Variable(torchlite.from_numpy(np.array([2, 0])))
    lam = trace(lambda x, i: x[:, i] + x[:, [1, 0]], variable(2, 3), i)
    j = Variable(torchlite.from_numpy(np.array([1, 1])))
    x = variable(2, 3, seed=8)
    expected = x.data.numpy()[:, [1, 1]] + x.data.numpy()[:, [1, 0]]
    assert (run(lam, x, j)[0] == expected).all()


def test_a_mask_of_other_elements_selects_another_number() -> None:
    lam = trace(lambda x: x[x > 0] * 2, variable(2, 3))
    x = variable(2, 3, seed=11)
    a = x.data.numpy()
    assert (run(lam, x)[0] == a[a > 0] * 2).all()


def test_random_operations_draw_again_on_every_replay() -> None:
    lam = trace(lambda x: F.dropout(x, 0.5, True), variable(100))
    x = Variable(torchlite.ones(100))
    a, b = run(lam, x)[0], run(lam, x)[0]
    assert (a != b).any()
    torchlite.manual_seed(3)
    c = run(lam, x)[0]
    torchlite.manual_seed(3)
    assert (F.dropout(x, 0.5, True).data.numpy() == c).all()


def test_locations_say_where_a_call_stands() -> None:
    lam = trace(lambda x: x * 2, variable(2), locations=True)
    assert lam.lets[0].location.split(":")[0].endswith("test_tracer.py")
    assert lam.lets[0].location.endswith(" in <lambda>")
    assert "# " + lam.lets[0].location in lam.text(locations=True)
    assert "#" not in str(lam)


# ---- Python Functions -----------------------------------------------------------------------------------------------


def test_functions_are_one_call_with_their_constants() -> None:
    lam = agrees(lambda x: Scale.apply(x * 1, 2.5, "mode") + 1, variable(3, requires_grad=True))
    assert str(lam).splitlines()[2] == "  %2 = ^test_tracer.Scale %1, 2.5, 'mode' : Float(3,)"


def test_several_results_are_wired_as_they_are_used() -> None:
    first = agrees(lambda x: (lambda a, b, c: a - 2 * b + 3 * c)(*Split.apply(x)), variable(3))
    second = agrees(lambda x: (lambda a, b, c: c - 2 * b + 3 * a)(*Split.apply(x)), variable(3))
    assert first != second
    unused = agrees(lambda x: (lambda a, b, c: a + c)(*Split.apply(x)), variable(3))
    assert len(unused.lets[0].results) == 3


def test_a_function_class_can_be_traced_directly() -> None:
    agrees(Split.apply, variable(3)).check()


def test_a_dirty_input_becomes_a_new_name() -> None:
    def f(x):
        y = x * 2
        AddOne.apply(y)
        return y * 3

    lam = agrees(f, variable(3))
    assert lam.lets[2].args[0] is lam.lets[1].results[0]


def test_what_a_function_does_inside_is_not_recorded() -> None:
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            return (Variable(x) * Variable(torchlite.ones(3))).data

        @staticmethod
        def backward(ctx, g):
            return g

    assert len(agrees(lambda x: Inner.apply(x), variable(3)).lets) == 1


def test_old_style_functions_are_refused_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match="OldStyle is an old-style Function.*Give it static forward and backward"):
        trace(lambda x: OldStyle()(x), variable(3))


# ---- lifetime -------------------------------------------------------------------------------------------------------


def test_a_lambda_keeps_nothing_of_the_run() -> None:
    refs = []

    def f(x):
        y = x * 2
        refs.extend([weakref.ref(y), weakref.ref(y.grad_fn)])
        return torchlite.tanh(y).sum()

    x = variable(3, requires_grad=True)
    refs.append(weakref.ref(x))
    lam = trace(f, x)
    x = None
    gc.collect()
    assert [r() for r in refs] == [None, None, None]
    lam.check()


def test_an_aborted_trace_keeps_nothing() -> None:
    x = variable(3, requires_grad=True)
    _C._tracer_enter((x,))
    y = x * 2
    ref = weakref.ref(y.grad_fn)
    _C._tracer_abort()
    del y
    gc.collect()
    assert ref() is None


def test_deleting_a_lambda_frees_its_captures() -> None:
    w = variable(3)
    ref = weakref.ref(w)
    lam = trace(lambda x: x * w, variable(3), capture=True)
    _C.Program(lam)
    w = None
    assert ref() is not None
    lam = None
    gc.collect()
    assert ref() is None
