"""Functions that replay their traces: arguments, results, parameters, caches, gradients."""

import collections
import concurrent.futures
import gc
import weakref

import numpy as np
import pytest

import torchlite
import torchlite.nn.functional as F
from torchlite import _C, jit, nn
from torchlite.autograd import Variable

Pair = collections.namedtuple("Pair", "left right")


def variable(*sizes, seed=0, **flags):
    return Variable(np.random.RandomState(seed).randn(*sizes).astype(np.float32), **flags)


def bits(v):
    return v.data.numpy().tobytes()


@pytest.fixture(autouse=True)
def _no_open_trace():
    yield
    assert _C._tracer_depth() == 0


STRUCTURES = {
    "a Variable": lambda x: x * 2,
    "tuple": lambda x: (x * 2, x + 1),
    "1-tuple": lambda x: (x * 2,),
    "empty tuple": lambda x: (),
    "None": lambda x: None,
    "list": lambda x: [x * 2, [x]],
    "dict": lambda x: {"b": x * 2, "a": {"c": (x + 1,)}},
    "namedtuple": lambda x: Pair(x * 2, None),
    "one result twice": lambda x: (lambda y: (y, y))(x * 2),
    "constants": lambda x: (x * 2, 3, "s", True),
    "an argument": lambda x: x,
}


@pytest.mark.parametrize("fn", STRUCTURES.values(), ids=STRUCTURES)
def test_results_have_the_structure_of_the_eager_ones(fn):
    compiled = jit.compile(fn)

    def shape(obj):
        if isinstance(obj, Variable):
            return bits(obj)
        if isinstance(obj, dict):
            return type(obj), [(k, shape(v)) for k, v in obj.items()]
        if isinstance(obj, (tuple, list)):
            return type(obj), [shape(v) for v in obj]
        return type(obj), obj

    for seed in (1, 2):
        x = variable(2, 3, seed=seed)
        assert shape(compiled(x)) == shape(fn(x))


def test_arguments_nest_in_tuples_lists_dicts_and_None():
    def fn(a, b, *, c=None):
        return a[0] * b["x"] + b["y"][1].left if c is None else a[0] * c

    compiled = jit.compile(fn)
    x, y, z = (variable(3, seed=s) for s in range(3))
    args = ([x], {"x": y, "y": (None, Pair(z, 4))})
    assert bits(compiled(*args)) == bits(fn(*args))
    assert bits(compiled(*args, c=2.5)) == bits(fn(*args, c=2.5))
    assert bits(compiled(*args)) == bits(fn(*args))


@pytest.mark.parametrize("bad", [np.zeros(2), torchlite.ones(2), {1, 2}, object()], ids=lambda b: type(b).__name__)
def test_other_arguments_and_results_are_a_type_error_that_names_them(bad):
    with pytest.raises(TypeError, match=type(bad).__name__):
        jit.compile(lambda x: x)(bad)
    with pytest.raises(TypeError, match=type(bad).__name__):
        jit.compile(lambda x: bad)(variable(2))


def test_one_variable_may_be_passed_for_two_parameters():
    compiled = jit.compile(lambda a, b: a * 2 + b)
    x, y = variable(3, requires_grad=True), variable(3, seed=1)
    assert bits(compiled(x, x)) == bits(x * 2 + x)
    assert bits(compiled(x, y)) == bits(x * 2 + y)
    compiled(x, x).sum().backward()
    assert x.grad.data.tolist() == [3, 3, 3]


KINDS = {
    "sizes": (variable(2, 3), variable(5, 3)),
    "rank": (variable(3), variable(1, 3)),
    "element type": (variable(3), Variable(np.arange(3.0))),
    "requires_grad": (variable(3), variable(3, requires_grad=True)),
    "volatile": (variable(3), variable(3, volatile=True)),
}


@pytest.mark.parametrize("first, second", KINDS.values(), ids=KINDS)
def test_each_kind_of_argument_has_its_own_trace(first, second):
    calls = []

    def fn(x):
        calls.append(1)
        return x * 2 / x.size(0)

    compiled = jit.compile(fn)
    for x in (first, second, first, second):
        expected, result = x * 2 / x.size(0), compiled(x)
        assert bits(result) == bits(expected)
        assert (result.requires_grad, result.volatile) == (expected.requires_grad, expected.volatile)
        assert result.data.type() == expected.data.type()
    assert len(calls) == 2


@pytest.mark.parametrize("constants", [(1, 2), (1, 1.0), (1, True), (0.0, -0.0), ("sum", "mean"), (None, 0)], ids=str)
def test_python_constants_are_part_of_the_key(constants):
    seen = []
    compiled = jit.compile(lambda x, c: seen.append(c) or x + 1)
    for c in constants * 2:
        compiled(variable(2), c)
    assert [repr(c) for c in seen] == [repr(c) for c in constants]


def test_a_nan_constant_is_traced_once():
    compiled = jit.compile(lambda x, c: x * c)
    for _ in range(3):
        compiled(variable(2), float("nan"))
    assert len(compiled._cache) == 1


def test_whether_gradients_are_enabled_is_part_of_the_key():
    compiled = jit.compile(lambda x: x * 2)
    x = variable(3, requires_grad=True)
    assert compiled(x).requires_grad
    with torchlite.autograd.no_grad():
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.double = False

    def forward(self, x):
        y = self.second(self.drop(F.tanh(self.first(x))))
        return y * 2 if self.double else y


def gradients(model, call):
    model.zero_grad()
    for p in model.parameters():
        p.grad = None
    call().sum().backward()
    return [bits(p.grad) for p in model.parameters()]


def test_gradients_reach_the_parameters_of_a_module_bit_by_bit():
    model = Net().eval()
    compiled = jit.trace(model)
    x = variable(3, 4)
    assert gradients(model, lambda: compiled(x)) == gradients(model, lambda: model(x))


def test_parameters_are_read_at_each_call():
    model = Net().eval()
    compiled = jit.jit(model)
    x = variable(3, 4)
    compiled(x)
    model.first.weight.data.mul_(2)
    assert bits(compiled(x)) == bits(model(x))
    model.second.weight = nn.Parameter(torchlite.randn(4, 4))
    assert bits(compiled(x)) == bits(model(x))
    assert len(compiled._cache) == 1


def test_a_tied_parameter_is_one_input_and_gets_the_sum_of_its_gradients():
    model = Net().eval()
    model.second.weight = model.first.weight
    compiled = jit.trace(model)
    x = variable(3, 4)
    assert len(compiled.lambda_for(x).params) == 1 + 3
    assert gradients(model, lambda: compiled(x)) == gradients(model, lambda: model(x))


@pytest.mark.parametrize("how", ["module", "method", "argument", "closure", "global"])
def test_train_and_eval_and_other_flags_are_part_of_the_key(how):
    model = Net()
    globals()["_the_model"] = model
    fn, args = {
        "module": (model, ()),
        "method": (model.forward, ()),
        "argument": (lambda x, m: m(x), (model,)),
        "closure": (lambda x: model(x), ()),
        "global": (lambda x: _the_model(x), ()),  # noqa: F821
    }[how]
    compiled = jit.compile(fn)
    x = variable(3, 4)
    for change in (lambda: None, model.eval, lambda: setattr(model, "double", True), model.train):
        change()
        torchlite.manual_seed(1)
        result = compiled(x, *args)
        torchlite.manual_seed(1)
        assert bits(result) == bits(model(x))


def test_random_operations_draw_anew_and_tracing_draws_nothing():
    compiled = jit.compile(lambda x: F.dropout(x, 0.5, True))
    x = variable(50)
    torchlite.manual_seed(3)
    ours = [bits(compiled(x)) for _ in range(3)]
    torchlite.manual_seed(3)
    assert ours == [bits(F.dropout(x, 0.5, True)) for _ in range(3)]
    assert len(set(ours)) == 3


def test_results_of_two_calls_are_independent():
    compiled = jit.compile(lambda x: (x * 2, x))
    x, y = variable(3), variable(3, seed=1)
    first = compiled(x)
    kept = [bits(v) for v in first]
    compiled(y)
    assert [bits(v) for v in first] == kept
    assert bits(compiled(compiled(x)[0])[0]) == bits(x * 2 * 2)


def test_a_jit_function_inside_another_is_a_part_of_it():
    inner = jit.compile(lambda x: x * 2)
    outer = jit.compile(lambda x: inner(x) + inner(inner(x)))
    for seed in range(2):
        x = variable(3, seed=seed)
        assert bits(outer(x)) == bits(x * 2 + x * 2 * 2)
    assert not inner._cache
    assert [let.name for let in outer.lambda_for(x).lets] == ["Mul", "Mul", "Mul", "Add"]


def test_an_exception_while_tracing_ends_the_trace_and_caches_nothing():
    def fn(x, fail):
        y = x * 2
        if fail[0]:
            raise KeyError("no")
        return y

    fail = [True]
    compiled = jit.compile(lambda x: fn(x, fail))
    with pytest.raises(KeyError):
        compiled(variable(2))
    assert _C._tracer_depth() == 0 and not compiled._cache
    fail[0] = False
    assert bits(compiled(variable(2))) == bits(variable(2) * 2)


def test_a_function_that_writes_its_argument_is_refused():
    with pytest.raises(RuntimeError, match=r"argument \[1\]"):
        jit.compile(lambda x, y: y.add_(x))(variable(2), variable(2))


def test_check_names_the_first_result_that_differs():
    compiled = jit.compile(lambda x: {"a": x + 1, "b": x * 2 if x.data[0] > 0 else x * 3}, check=True)
    with pytest.warns(RuntimeWarning, match="traced Variable's .data .* is converted to a number"):
        compiled(Variable(torchlite.ones(2)))
    with pytest.raises(RuntimeError, match=r"result\['b'\]"):
        compiled(Variable(-torchlite.ones(2)))


def test_check_passes_for_random_functions():
    compiled = jit.compile(lambda x: F.dropout(x, 0.5, True), check=True)
    for _ in range(3):
        compiled(variable(20))


def test_other_variables_are_captured_and_read_at_each_call():
    w = variable(3, seed=4, requires_grad=True)
    compiled = jit.compile(lambda x: x * w)
    x = variable(3)
    compiled(x)
    w.data.fill_(2)
    assert bits(compiled(x)) == bits(x * 2)
    compiled(x).sum().backward()
    assert bits(w.grad) == bits(x)


def test_it_decorates_functions_and_methods():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torchlite.ones(2))

        @jit.compile(check=True)
        def forward(self, x):
            """Twice."""
            return x * self.weight

    model = Twice()
    assert bits(model(variable(2))) == bits(variable(2))
    assert Twice.forward.__doc__ == "Twice." and Twice.forward.__name__ == "forward"


def test_trace_with_examples_has_its_trace_at_once():
    calls = []
    compiled = jit.trace(lambda x: calls.append(1) or x * 2, variable(2))
    assert calls == [1]
    compiled(variable(2))
    assert calls == [1]


def test_a_module_keeps_its_attributes():
    model = Net()
    compiled = jit.jit(model)
    assert list(compiled.parameters()) == list(model.parameters())
    compiled.eval()
    assert not model.training


def test_the_graph_prints_as_a_trace():
    text = str(jit.compile(lambda x: torchlite.tanh(x) * 2).graph_for(variable(2)))
    assert "%1 = Tanh %0\n" in text and "%2 = Mul %1, 2\n" in text and "Ret %2\n" in text


def test_a_number_that_changes_at_each_call_is_warned_about():
    compiled = jit.compile(lambda x, c: x * c)
    with pytest.warns(UserWarning, match="pass it as a Variable"):
        for c in range(65):
            compiled(variable(1), c)
    assert len(compiled._cache) == 64


def test_threads_share_a_jit_function():
    compiled = jit.compile(lambda x, n: (x * n).tanh().exp())
    inputs = [(variable(50, seed=s), s % 5) for s in range(40)]
    expected = [bits((x * n).tanh().exp()) for x, n in inputs]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert [bits(r) for r in pool.map(lambda args: compiled(*args), inputs)] == expected


def test_a_dropped_jit_module_frees_its_parameters():
    model = Net()
    compiled = jit.jit(model)
    compiled(variable(3, 4)).sum().backward()
    parameter = weakref.ref(model.first.weight)
    del model, compiled
    gc.collect()
    assert parameter() is None


@pytest.mark.parametrize("volatile", [False, True])
def test_identity_gives_the_value_of_each_new_input(volatile):
    compiled = jit.compile(lambda x: x)
    for seed in range(3):
        x = variable(3, seed=seed, volatile=volatile)
        assert bits(compiled(x)) == bits(x)


def test_unused_arguments_keep_their_place():
    compiled = jit.compile(lambda a, b, c: [c, a])
    a, b, c = (variable(2, seed=s) for s in range(3))
    assert [bits(v) for v in compiled(a, b, c)] == [bits(c), bits(a)]
    assert len(compiled.lambda_for(a, b, c).params) == 3


def test_a_variable_made_of_traced_data_is_refused_and_detach_is_not():
    with pytest.raises(RuntimeError, match=r"Use .detach\(\)"):
        jit.compile(lambda x: Variable((x * 2).data) * x)(variable(3))
    compiled = jit.compile(lambda x: (x * 2).detach() * Variable(x.data.new(x.size()).fill_(3)))
    for seed in range(2):
        x = variable(3, seed=seed)
        assert bits(compiled(x)) == bits(x * 2 * 3)
