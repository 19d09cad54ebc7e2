"""Text of the IR: what is printed is read back, and what cannot be read says where."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import ENTRIES, ROWS, map_arrays, tensor
from programs import random_program, trace, variable

import torchlite
from torchlite import _C
from torchlite.autograd import Function, Variable
from torchlite.jit import ParseError, parse


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in ENTRIES])
def test_every_operation_is_read_back(entry) -> None:
    for s in entry.samples:
        args, kwargs = s.make(entry.dtypes[0])
        inputs: list[Variable] = []

        def variable_of(a: np.ndarray, inputs: list = inputs) -> Variable:
            inputs.append(Variable(tensor(a)))
            return inputs[-1]

        args = map_arrays(variable_of, args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lam = trace(lambda *_, a=args, k=kwargs: ROWS[entry.name](*a, **k), *inputs)
        again = parse(str(lam))
        assert again == lam
        assert str(again) == str(lam)
        assert hash(again) == hash(lam)


CONSTANTS = [
    None, True, False, Ellipsis, 0, -3, 10**30, 0.0, -0.0, 1.5, 1e300, 5e-324, math.inf, -math.inf, math.nan, "", "a'b",
    'a"b', "a\\n\n\t%1 # [", "é\u2028\U0001f600\ud800", b"\x00\xff'", (), (1,), (1, (2.0, None)), [], [1, [2]],
    slice(None), slice(1, None, -2), (slice(0, 5, None), Ellipsis, None, "@0"), np.float32(1.5), np.float64(math.inf),
    np.int8(-3), np.bool_(True), np.dtype("float32"), torchlite.Size([2, 3]), torchlite.FloatTensor, int, Variable,
]


class Identity(Function):
    @staticmethod
    def forward(ctx, x, *constants):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g, *[None] * 10


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_every_kind_of_constant_is_read_back(value: object) -> None:
    x = _C.Local(_C.TensorType("Float", (2,)))
    y = _C.Local(_C.TensorType("Float", (2,)))
    lam = _C.Lambda([x], [_C.Let([y], _C.PyApply(Identity, [x, _C.Const(value)]))], [y])
    again = parse(str(lam))
    assert again == lam
    read = again.lets[0].args[1].value
    assert type(read) is type(value)
    assert repr(read) == repr(value)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(Ellipsis)
NESTED = st.recursive(SCALARS, lambda s: st.lists(s) | st.lists(s).map(tuple), max_leaves=8)


@given(NESTED)
def test_nested_constants_are_read_back(value: object) -> None:
    x = _C.Local(_C.TensorType("Float", (2,)))
    let = _C.Let([_C.Local(x.type)], _C.PyApply(Identity, [x, _C.Const(value)]))
    lam = _C.Lambda([x], [let], [x])
    assert parse(str(lam)) == lam


@given(st.integers(0, 10**6), st.integers(1, 25))
def test_random_programs_are_read_back(seed: int, size: int) -> None:
    lam = trace(random_program(seed, size), variable(3, 3), variable(3, 3, seed=1))
    assert parse(str(lam), lam.captures) == lam


def test_captures_are_handed_in() -> None:
    w = variable(3)
    lam = trace(lambda x: x * w, variable(2, 3), capture=True)
    assert "%1 = captured : Float(3,)" in str(lam)
    assert parse(str(lam), [w]) == lam
    with pytest.raises(ParseError, match="the lambda has 1 captured parameters, but 0 captures are given"):
        parse(str(lam))


def test_functions_are_found_by_name_or_handed_in() -> None:
    class Local(Identity):
        pass

    lam = trace(lambda x: Local.apply(x, 2, "s"), variable(2))
    text = str(lam)
    assert "<locals>.Local %0, 2, 's' : Float(2,)" in text
    with pytest.raises(ParseError, match="there is no .*Local: import its module, or hand it in"):
        parse(text)
    assert parse(text, functions=[Local]) == lam
    name = f"{Local.__module__}.{Local.__qualname__}"
    assert parse(text, functions={name: Identity}).lets[0].op is Identity


def test_locations_are_read_back_as_comments() -> None:
    lam = trace(lambda x: x * 2, variable(2), locations=True)
    again = parse(lam.text(locations=True))
    assert again == lam
    assert again.lets[0].location == lam.lets[0].location
    assert "test_parser.py" in again.lets[0].location


def test_a_mask_has_its_size_written_behind_it() -> None:
    x, m = variable(4), Variable(torchlite.from_numpy(np.array([1, 0, 1, 1], "uint8")))
    lam = trace(lambda x, m: x.masked_select(m) * 2, x, m)
    assert "%2 = MaskedSelect %0, %1 : Float(3,)" in str(lam)
    assert parse(str(lam)) == lam
    with pytest.raises(ParseError, match="elements decide the size of MaskedSelect's result"):
        parse(str(lam).replace(" : Float(3,)\n  %3", "\n  %3"))


TEXT = """lambda %0 : Float(2, 3), %1 : Float(3,) {
  %2 = Mul %0, %1
  Ret %2
}
"""
FAULTS = [
    (("%1\n", "%7\n"), 2, 16, "%7 is used before it is bound"),
    (("%2 = Mul", "%1 = Mul"), 2, 3, "%1 is bound a second time"),
    (("Mul", "Mol"), 2, 8, "there is no operation Mol"),
    (("%0, %1", "%0"), 2, 8, "mul takes 2 arguments, but is given 1"),
    (("Float(3,)", "Float(4,)"), 2, 8, "size"),
    (("%1 : Float", "%1 : Flaot"), 1, 31, "expected an element type such as Float, but got 'Flaot'"),
    (("{\n", "\n"), 1, 41, "expected '{', but got the end of the line"),
    (("Ret %2", "Ret %2, 3"), 3, 11, "expected the end of the line, but got '3'"),
    (("Ret", "Return"), 3, 3, "expected 'Ret', but got 'Return'"),
    (("\n}", "\n"), 5, 1, "expected '}', but got the end of the text"),
    (("%0, %1\n", "%0, ?\n"), 2, 16, "unexpected character '?'"),
    (("%0, %1\n", "%0, foo\n"), 2, 16, "foo is no constant that can be read back"),
    (("%0, %1\n", "%0, (1)\n"), 2, 16, "a tuple of one is written with a comma"),
    (("%0, %1\n", "%0, slice()\n"), 2, 16, "slice: "),
    (("%2 = Mul", "%2, %3 = Mul"), 2, 12, "Mul has 1 results, but 2 locals are bound"),
    (("lambda", "lamda"), 1, 1, "expected 'lambda', but got 'lamda'"),
    (("}\n", "}\nx"), 5, 1, "expected the end of the text, but got 'x'"),
    (("%2 = Mul %0, %1", "%2 = ^no.such %0"), 2, 8, "there is no no.such"),
]


@pytest.mark.parametrize(("change", "line", "column", "message"), FAULTS, ids=[f[3] for f in FAULTS])
def test_a_fault_says_line_and_column(change: tuple[str, str], line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as info:
        parse(TEXT.replace(*change, 1))
    e = info.value
    assert message in e.msg
    assert (e.lineno, e.offset) == (line, column)
    assert str(e).startswith(f"line {line}, column {column}: ")
    assert isinstance(e, SyntaxError)


def test_an_empty_lambda_is_read_back() -> None:
    lam = _C.Lambda([], [], [])
    assert parse(str(lam)) == lam


def test_devices_are_read_back() -> None:
    x = _C.Local(_C.TensorType("Half", (), 1))
    lam = _C.Lambda([x], [], [x])
    assert "cuda:1 Half()" in str(lam)
    assert parse(str(lam)) == lam


def test_the_text_has_to_be_a_str() -> None:
    with pytest.raises(TypeError, match="argument 'text' must be a str, not bytes"):
        parse(b"lambda")
