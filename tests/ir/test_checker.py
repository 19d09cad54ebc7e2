"""check(): planted faults, each red with the let it stands in."""

from __future__ import annotations

import pytest
from programs import trace, variable

import torchlite
from torchlite import _C

F23 = _C.TensorType("Float", (2, 3))


def local(*sizes: int, dtype: str = "Float") -> _C.Local:
    return _C.Local(_C.TensorType(dtype, sizes))


def let(result: _C.Local | list, name: str, *args: object) -> _C.Let:
    results = result if isinstance(result, list) else [result]
    return _C.Let(results, _C.CppApply(name, [a if isinstance(a, (_C.Local, list)) else _C.Const(a) for a in args]))


def chain(fault: int, broken: _C.Let) -> _C.Lambda:
    """x * 1, * 2, ... with let number ``fault`` replaced by ``broken``."""
    x = local(2, 3)
    lets, last = [], x
    for i in range(7):
        if i == fault:
            lets.append(broken)
        new = local(2, 3)
        lets.append(let(new, "mul", last, i))
        last = new
    return _C.Lambda([x], lets, [last])


def refused(lam: _C.Lambda, message: str) -> str:
    with pytest.raises(RuntimeError, match=message) as info:
        lam.check()
    return str(info.value)


def test_a_traced_program_passes() -> None:
    trace(lambda x: torchlite.tanh(x).sum(1), variable(2, 3)).check()


def test_an_unbound_local_is_named_with_its_neighbours() -> None:
    text = refused(chain(3, let(local(2, 3), "neg", local(2, 3))), r"of type Float\(2, 3\) is used before it is bound")
    lines = text.splitlines()
    assert [line[:1] for line in lines[1:]] == [" ", " ", " ", ">", " ", " "]
    assert "Negate" in lines[4]
    assert "Mul" in lines[3]
    assert "Mul" in lines[5]


def test_a_result_is_not_bound_before_its_own_let() -> None:
    y = local(2, 3)
    refused(chain(2, let(y, "neg", y)), "used before it is bound")


def test_a_twice_bound_local_is_named() -> None:
    y = local(2, 3)
    x = local(2, 3)
    text = refused(_C.Lambda([x], [let(y, "neg", x), let(y, "abs", x)], [y]), "result of a let is bound a second time")
    assert "> " in text and "Abs" in text.split("> ")[1].splitlines()[0]


def test_a_parameter_is_bound_once() -> None:
    x = local(2, 3)
    refused(_C.Lambda([x, x], [], [x]), "a parameter is bound a second time")


def test_a_parameter_is_not_bound_again() -> None:
    x = local(2, 3)
    refused(_C.Lambda([x], [let(x, "neg", x)], [x]), "bound a second time")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (local(3, 2), r"Float\(2, 3\), but is bound as Float\(3, 2\)"),
        (local(2, 3, dtype="Double"), r"Float\(2, 3\), but is bound as Double\(2, 3\)"),
        (_C.Local(_C.TensorType("Float", (2, 3), 0)), r"Float\(2, 3\), but is bound as cuda:0 Float\(2, 3\)"),
    ],
)
def test_a_wrong_type_is_said_with_the_right_one(result: _C.Local, said: str) -> None:
    x = local(2, 3)
    refused(_C.Lambda([x], [let(result, "neg", x)], [result]), "result 0 of neg has type " + said)


def test_arguments_that_do_not_fit_are_the_operations_own_complaint() -> None:
    x, y, z = local(2, 3), local(4, 5), local(2, 5)
    refused(_C.Lambda([x, y], [let(z, "mm", x, y)], [z]), r"mm: size mismatch, m1 and m2: \(2, 3\) and \(4, 5\)")


def test_a_wrong_number_of_arguments_is_said() -> None:
    x, y = local(2, 3), local(2, 3)
    refused(_C.Lambda([x], [let(y, "mul", x)], [y]), "mul takes 2 arguments, but is given 1")


def test_a_wrong_number_of_results_is_said() -> None:
    x, y, z = local(2, 3), local(2, 3), local(2, 3)
    refused(_C.Lambda([x], [let([y, z], "neg", x)], [y]), "neg has 1 results, but 2 locals are bound")


def test_hidden_results_may_be_bound() -> None:
    x, y, mask, more = local(2, 3), local(2, 3), local(2, 3), local(2, 3)
    _C.Lambda([x], [let([y, mask], "dropout", x, 0.5, True)], [mask]).check()
    refused(_C.Lambda([x], [let([y, mask, more], "dropout", x, 0.5, True)], [y]), "3 locals are bound")


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("sum", (None, 1), "argument 'keepdim' does not fit the signature"),
        ("transpose", ("0", 1), "argument 'dim0' does not fit the signature"),
        ("view", (None,), "argument 'sizes' does not fit the signature"),
        ("mul", ("two",), "argument 'other' does not fit the signature"),
        ("mm", (2,), "argument 'mat2' must be a local, but is a constant"),
    ],
)
def test_a_constant_of_the_wrong_kind_is_said(name: str, args: tuple, message: str) -> None:
    x, y = local(2, 3), local(2, 3)
    refused(_C.Lambda([x], [let(y, name, x, *args)], [y]), message)


def test_a_local_in_place_of_a_constant_is_said() -> None:
    x, n, y = local(2, 3), local(1, dtype="Long"), local(2, 3)
    refused(_C.Lambda([x, n], [let(y, "cumsum", x, n)], [y]), "argument 'dim' must be a constant, but is a local")


def test_a_capture_of_another_type_is_said() -> None:
    x = local(2, 3)
    lam = _C.Lambda([x], [], [x], captures=[variable(3, 2)])
    refused(lam, r"capture 0 has type Float\(3, 2\), its parameter has type Float\(2, 3\)")


def test_a_returned_local_has_to_be_bound() -> None:
    refused(_C.Lambda([local(2, 3)], [], [local(2, 3)]), "used before it is bound")


def test_the_rule_is_not_asked_where_a_size_is_open() -> None:
    x, y = _C.Local(_C.TensorType("Float", (-1, 3))), local(2, 3)
    _C.Lambda([x], [let(y, "neg", x)], [y]).check()
    with pytest.raises(RuntimeError, match="a size is open"):
        _C.CppApply("neg", [x]).infer()
    refused(_C.Lambda([x], [let(y, "mul", x)], [y]), "mul takes 2 arguments, but is given 1")


def test_the_interpreter_refuses_what_is_not_well_formed() -> None:
    lam = chain(3, let(local(2, 3), "neg", local(2, 3)))
    with pytest.raises(RuntimeError, match="is used before it is bound"):
        _C.Program(lam)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("fused_elementwise", (0, "x")),
        ("nll_loss_backward", ((1,), 0, 0, (1,), False, 5)),
        ("mm", (0, 2)),
        ("exp", (None,)),
    ],
)
def test_no_program_is_made_of_an_operation_with_arguments_that_its_kernel_cannot_take(name, arguments) -> None:
    x, y = local(2, 3), local(2, 3)
    args = tuple(x if a == 0 and a is not False else _C.Const(a) for a in arguments)
    lam = _C.Lambda((x,), (_C.Let((y,), _C.CppApply(name, args)),), _C.Locals((y,)))
    with pytest.raises((RuntimeError, TypeError)):
        _C.Program(lam)
