"""The arguments of Variable.backward, autograd.backward and autograd.grad."""

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Mul, Scale

from torchlite import autograd
from torchlite.autograd import Variable, backward, grad

SCALAR = "grad can be implicitly created only for scalar outputs"


def by_method(y, *args, **kwargs):
    y.backward(*args, **kwargs)


def by_function(y, *args, **kwargs):
    backward(y, *args, **kwargs)



either = pytest.mark.parametrize("run", [by_method, by_function])


# ---- gradients -----------------------------------------------------------------------------------------------------


@either
@pytest.mark.parametrize("shape", [(1,), (1, 1), ()])
def test_a_single_element_needs_no_gradient(run, shape):
    x = leaf(np.full(shape, 3.0))
    run(Scale.apply(x, 2))
    assert values(x.grad) == np.full(shape, 2.0).tolist()


@either
@pytest.mark.parametrize("shape", [(2,), (1, 2), (0,)])
def test_several_elements_need_a_gradient(run, shape):
    x = leaf(np.ones(shape))
    with pytest.raises(RuntimeError, match=SCALAR):
        run(Scale.apply(x, 2))
    assert x.grad is None


@either
@pytest.mark.parametrize(
    "gradient",
    [
        lambda a: Variable(a),
        lambda a: Variable(a, volatile=True),
        lambda a: Variable(a).data,
        lambda a: a,
    ],
    ids=["variable", "volatile", "tensor", "array"],
)
def test_a_gradient_may_be_a_variable_tensor_or_array(run, gradient):
    x = leaf([1.0, 1.0])
    run(Scale.apply(x, 2), gradient(np.array([1.0, 10.0])))
    assert values(x.grad) == [2, 20]


@either
@pytest.mark.parametrize("gradient, name", [("text", "str"), (2.0, "float"), (object(), "object")])
def test_a_gradient_of_another_type_is_refused(run, gradient, name):
    with pytest.raises(TypeError, match=f"gradients can be either Tensors, Variables or None, but got {name}"):
        run(Scale.apply(leaf([1.0]), 2), gradient)


@either
@pytest.mark.parametrize("kind", [Variable, np.asarray, lambda a: Variable(a).data], ids=["var", "array", "tensor"])
@pytest.mark.parametrize("shape, wrong", [((2,), (3,)), ((20,), (1,)), ((1, 3), (3,)), ((2, 3), (6,))])
def test_a_gradient_of_another_size_is_refused_naming_both(run, kind, shape, wrong):
    x = leaf(np.ones(shape))
    with pytest.raises(RuntimeError) as error:
        run(Scale.apply(x, 2), kind(np.ones(wrong)))
    assert str(shape) in str(error.value) and str(wrong) in str(error.value)
    assert x.grad is None


def test_several_outputs_each_get_their_gradient():
    x = leaf([1.0, 2.0])
    backward([Scale.apply(x, 2), Scale.apply(x, 3)], [constant([1.0, 1.0]), np.array([10.0, 10.0])])
    assert values(x.grad) == [32, 32]


def test_outputs_and_gradients_are_paired():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="got 2 variables and 1 gradients"):
        backward([Scale.apply(x, 2), Scale.apply(x, 3)], [constant([1.0])])
    with pytest.raises(RuntimeError, match="got 1 variables and 2 gradients"):
        grad([Scale.apply(x, 2)], [x], [None, None])
    assert x.grad is None


@pytest.mark.parametrize("outputs", [["text"], [None], [3]])
def test_an_output_that_is_no_variable_is_refused(outputs):
    with pytest.raises(RuntimeError, match="element 0 of variables tuple is not a Variable"):
        backward(outputs)


@either
def test_an_output_that_requires_no_grad_is_refused(run):
    for y in (constant([1.0]), Scale.apply(constant([1.0]), 2)):
        with pytest.raises(RuntimeError, match="does not require grad|no graph nodes that require computing gradients"):
            run(y)


@either
def test_a_volatile_output_is_refused(run):
    with pytest.raises(RuntimeError, match="element 0 of variables tuple is volatile"):
        run(leaf([1.0], False, volatile=True))


@either
def test_backward_from_a_leaf_stores_the_gradient(run):
    x = leaf([1.0])
    run(x)
    assert values(x.grad) == [1]


def test_a_repeated_output_counts_twice():
    x = leaf([1.0])
    y = Scale.apply(x, 2)
    backward([y, y])
    assert values(x.grad) == [4]


def test_outputs_may_depend_on_each_other():
    x = leaf([1.0, 2.0])
    y = Mul.apply(x, x)
    z = Mul.apply(y, y)
    ones = constant([1.0, 1.0])
    backward([y, z], [ones, ones])
    assert values(x.grad) == [6, 36]


def test_a_leaf_among_the_outputs_adds_its_gradient():
    x = leaf([2.0])
    backward([Mul.apply(x, x), x])
    assert values(x.grad) == [5]


# ---- flags ---------------------------------------------------------------------------------------------------------


@either
def test_a_plain_backward_makes_volatile_gradients_without_history(run):
    x = leaf([2.0])
    run(Mul.apply(x, x))
    assert x.grad.grad_fn is None and not x.grad.requires_grad


@either
def test_a_variable_as_gradient_builds_the_graph_of_the_gradient(run):
    x = leaf([2.0])
    run(Mul.apply(x, x), constant([1.0]))
    assert x.grad.grad_fn is not None
    (second,) = grad(x.grad, x, constant([1.0]))
    assert values(second) == [2]
    x.grad = None


@either
@pytest.mark.parametrize("gradient", [None, "tensor", "volatile", "variable"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_create_graph_decides_whatever_the_gradient_is(run, gradient, create_graph):
    one = np.array([1.0])
    gradient = {None: None, "tensor": constant(one).data, "volatile": leaf(one, False, volatile=True),
                "variable": constant(one)}[gradient]
    x = leaf([2.0])
    run(Mul.apply(x, x), gradient, create_graph=create_graph)
    assert values(x.grad) == [4]
    assert (x.grad.grad_fn is not None) is create_graph
    x.grad = None


@either
@pytest.mark.parametrize("flags, retained", [
    ({}, False),
    ({"retain_graph": True}, True),
    ({"retain_graph": False}, False),
    ({"create_graph": True}, True),
    ({"create_graph": True, "retain_graph": False}, False),
    ({"create_graph": False}, False),
])
def test_the_graph_is_kept_as_asked(run, flags, retained):
    x = leaf([2.0])
    y = Mul.apply(x, x)
    run(y, **flags)
    x.grad = None
    if retained:
        run(y)
        assert values(x.grad) == [4]
    else:
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            run(y)


@either
def test_the_former_name_of_retain_graph_warns(run):
    x = leaf([2.0])
    y = Mul.apply(x, x)
    with pytest.warns(UserWarning, match="retain_variables"):
        run(y, retain_variables=True)
    run(y)
    assert values(x.grad) == [8]


@either
def test_both_names_of_retain_graph_are_refused(run):
    with pytest.raises(ValueError, match="only one of retain_graph and retain_variables can be specified"):
        run(Mul.apply(leaf([1.0]), leaf([1.0])), retain_graph=True, retain_variables=True)


# ---- grad ----------------------------------------------------------------------------------------------------------


def test_grad_returns_a_tuple_and_changes_no_grad():
    x, y = leaf([2.0]), leaf([3.0])
    z = Mul.apply(x, y)
    result = grad(z, x, retain_graph=True)
    assert isinstance(result, tuple) and values(result[0]) == [3]
    gx, gy = grad([z], [x, y])
    assert values(gx) == [3] and values(gy) == [2]
    assert x.grad is None and y.grad is None


def test_grad_of_an_interior_variable():
    x = leaf([2.0])
    y = Mul.apply(x, x)
    z = Scale.apply(y, 3)
    gy, gx = grad(z, [y, x])
    assert values(gy) == [3] and values(gx) == [12]


def test_grad_runs_no_leaf_hook():
    calls = []
    x = leaf([2.0])
    x.register_hook(calls.append)
    grad(Mul.apply(x, x), x)
    assert calls == []


def test_without_only_inputs_other_leaves_accumulate():
    x, y = leaf([2.0]), leaf([3.0])
    (gx,) = grad(Mul.apply(x, y), x, only_inputs=False)
    assert values(gx) == [3] and x.grad is None and values(y.grad) == [2]


def test_an_input_that_is_not_part_of_the_graph_is_refused():
    x = leaf([2.0])
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph|unreachable"):
        grad(Mul.apply(x, x), leaf([1.0]))


def test_an_input_that_is_no_variable_is_refused():
    x = leaf([2.0])
    with pytest.raises(RuntimeError, match="all inputs have to be Variables, but got"):
        grad(Mul.apply(x, x), ["text"])


def test_a_gradient_of_a_gradient_penalty_is_right():
    x = leaf([2.0, 3.0])
    y = Mul.apply(Mul.apply(x, x), x)
    (gx,) = grad(y, x, constant([1.0, 1.0]), create_graph=True)
    Mul.apply(gx, gx).backward(np.array([1.0, 1.0]))  # (3x^2)^2
    assert values(x.grad) == [36 * 8, 36 * 27]


def test_the_engine_can_be_replaced():
    calls = []

    class Engine:
        def run_backward(self, *args, **kwargs):
            calls.append(args[0])

    original = Variable._execution_engine
    Variable._execution_engine = Engine()
    try:
        y = Scale.apply(leaf([1.0]), 2)
        y.backward()
        autograd.backward(y)
    finally:
        Variable._execution_engine = original
    assert [c[0] is y for c in calls] == [True, True]
