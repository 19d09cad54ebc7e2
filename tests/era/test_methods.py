"""Every method of Variable agrees with its twin on tensors, is differentiated rightly, and has function and in-place
forms that agree with it."""

import copy
from collections import Counter

import numpy as np
import pytest
from era_package import Variable, gradcheck, gradgradcheck, same_values, torch
from method_table import LAYOUTS, TABLE, Drawn, Entry

# Their functions take the coefficients in other places than their methods.
COEFFICIENTS_BETWEEN = {"addmm", "addbmm", "baddbmm", "addmv", "addr"}


def entries(chosen):
    return pytest.mark.parametrize("entry", [pytest.param(e, id=e.id) for e in TABLE if chosen(e)])


def layouts(entry: Entry) -> list[str]:
    """The memory layouts that the method takes: a view needs memory in order."""
    return ["contiguous"] if entry.name in ("view", "view_as") else list(LAYOUTS)


def entries_in_each_layout(chosen):
    return pytest.mark.parametrize("entry, layout", [
        pytest.param(e, layout, id=f"{e.id}-{layout}") for e in TABLE if chosen(e) for layout in layouts(e)])


def as_variables_are(result):
    """A tensor method's result as Variables have it: a number is a tensor of one element."""
    if isinstance(result, (tuple, list)):
        return tuple(result)
    return result if torch.is_tensor(result) else torch.DoubleTensor((result,))


def differentiable(entry: Entry) -> bool:
    """Whether the results are floating point numbers that depend on the arguments."""
    return entry.name.strip("_") not in ("eq", "ne", "gt", "ge", "lt", "le")


def test_no_entry_stands_for_another():
    repeated = [name for name, n in Counter(e.id for e in TABLE).items() if n > 1]
    assert not repeated


METHODS = """
    add sub mul div pow neg fmod remainder atan2 lerp max min dist eq ne gt ge lt le addcmul addcdiv clamp
    abs sign exp log log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid floor ceil round
    trunc frac sum prod mean median mode kthvalue var std norm cumsum cumprod renorm sort topk
    mm bmm mv ger dot matmul addmm addbmm baddbmm addmv addr trace diag tril triu cross inverse gesv potrf
    view view_as expand expand_as t transpose permute select narrow squeeze unsqueeze unfold repeat split chunk clone
    contiguous index_add index_copy index_fill index_select gather scatter scatter_add masked_fill masked_scatter
    masked_select
""".split()


def test_every_method_of_the_time_is_in_the_table():
    assert set(METHODS) <= {e.name for e in TABLE}


@entries_in_each_layout(lambda e: True)
def test_method_agrees_with_the_tensors(entry, layout):
    variable, *args = entry.variables(layout)
    tensor, *tensor_args = entry.tensors(layout)
    expected = as_variables_are(getattr(tensor, entry.name)(*tensor_args))
    result = getattr(variable, entry.name)(*args)
    same_values(result if isinstance(result, tuple) else (result,),
                expected if isinstance(expected, tuple) else (expected,))


@entries(lambda e: not (e.name.startswith("__") or e.name in COEFFICIENTS_BETWEEN) and hasattr(torch, e.name))
def test_function_agrees_with_the_method(entry):
    function = getattr(torch, entry.name)
    variables = entry.variables(requires_grad=True)
    tensors = entry.tensors()
    same_values(function(*variables), getattr(variables[0], entry.name)(*variables[1:]))
    same_values(as_variables_are(function(*tensors)), as_variables_are(getattr(tensors[0], entry.name)(*tensors[1:])))


def random_gradients(result):
    """Gradients for each result, in memory that is not in order."""
    draw = np.random.default_rng(0).standard_normal
    results = result if isinstance(result, tuple) else (result,)
    return tuple(Variable(LAYOUTS["strided"](draw(tuple(r.size())).astype(r.data.numpy().dtype)),
                          requires_grad=r.requires_grad) for r in results)


def check_gradients(function, inputs):
    result = function(*inputs)
    assert gradcheck(function, inputs)
    if any(v.requires_grad for v in inputs):
        assert gradgradcheck(function, inputs, random_gradients(result))


@entries(differentiable)
def test_gradients(entry):
    inputs = entry.variables("strided" if "strided" in layouts(entry) else "contiguous", requires_grad=True)
    drawn = [isinstance(a, Drawn) for a in (entry.self, *entry.args)]

    def function(*variables):
        given = iter(variables)
        variable, *args = [next(given) if d else a for d, a in zip(drawn, inputs, strict=True)]
        return getattr(variable, entry.name)(*args)

    check_gradients(function, tuple(v for d, v in zip(drawn, inputs, strict=True) if d))


def in_place_name(entry: Entry) -> str:
    return entry.name + "_"


def has_in_place_form(entry: Entry) -> bool:
    return entry.in_place and not entry.name.startswith("__") and hasattr(Variable, in_place_name(entry))


def call_in_place(variable, entry, args):
    try:
        return getattr(variable, in_place_name(entry))(*args)
    except RuntimeError as e:
        if "only supports scalar" not in str(e):
            raise
        pytest.skip("the in-place form of Variables takes numbers only")


@entries_in_each_layout(has_in_place_form)
def test_in_place_form_agrees_with_the_tensors(entry, layout):
    variable, *args = entry.variables(layout)
    tensor, *tensor_args = entry.tensors(layout)
    data, version = variable.data, variable._version
    result = call_in_place(variable, entry, args)
    assert getattr(tensor, in_place_name(entry))(*tensor_args) is tensor
    assert result is variable and variable.data is data and variable._version > version
    same_values(variable, tensor)


@entries(lambda e: has_in_place_form(e) and differentiable(e))
def test_in_place_form_has_the_gradients_of_the_method(entry):
    inputs = entry.variables("strided", requires_grad=True)
    drawn = [isinstance(a, Drawn) for a in (entry.self, *entry.args)]

    def function(*variables):
        given = iter(variables)
        variable, *args = [next(given) if d else a for d, a in zip(drawn, inputs, strict=True)]
        return call_in_place(variable.clone(), entry, args)

    check_gradients(function, tuple(v for d, v in zip(drawn, inputs, strict=True) if d))


@pytest.mark.parametrize("name", sorted(n for n in dir(Variable) if n.endswith("_") and not n.startswith("_")
                                        and n != "detach_"))
def test_every_in_place_method_has_a_twin_on_tensors(name):
    assert callable(getattr(torch.DoubleTensor, name))


@pytest.mark.parametrize("make", [lambda t: t, copy.deepcopy], ids=["itself", "deepcopy"])
def test_methods_leave_their_arguments_alone(make):
    for entry in TABLE:
        variables = entry.variables()
        before = [make(v.data).clone() if isinstance(v, Variable) else v for v in variables]
        getattr(variables[0], entry.name)(*variables[1:])
        for kept, v in zip(before, variables, strict=True):
            if isinstance(v, Variable):
                same_values(kept, v.data)
                assert v._version == 0
