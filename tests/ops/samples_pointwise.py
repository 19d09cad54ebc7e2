"""Samples of the pointwise rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from samples import FLOATING, INTEGER, NUMERIC, Array, exactly, mask, op, positive, real, sample

SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (5,), (), (0, 3), (1,), (2, 1, 3, 2))


def unary(name: str, reference: Callable[..., Any], make: Callable[..., Array] = real, **options: Any):
    """A row of one tensor, over all kinds of shapes."""
    return op(name, *(sample(make(*shape)) for shape in SHAPES), reference=reference, **options)


def binary(
    name: str,
    reference: Callable[..., Any],
    make: Callable[..., Array] = real,
    number: float = 1.5,
    left_number: float | None = 1.5,
    **options: Any,
):
    """A row of two tensors: equal sizes, every way of broadcasting, numbers on either side."""
    samples = [sample(make(*shape), make(*shape)) for shape in SHAPES]
    samples += [
        sample(make(3, 4), make(4)),
        sample(make(4), make(3, 4)),
        sample(make(3, 1), make(1, 4)),
        sample(make(2, 3, 4), make(3, 1)),
        sample(make(2, 3), make(1)),
        sample(make(2, 3), make()),
        sample(make(), make(1)),
        sample(make(1, 1), make(4)),
    ]
    samples += [sample(make(3, 4), number), sample(make(), number)] if number is not None else []
    samples += [sample(left_number, make(3, 4))] if left_number is not None else []
    return op(name, *samples, reference=reference, **options)


def compare(name: str, reference: Callable[..., Any]):
    return op(
        name,
        sample(exactly([1, 2, 3, 2]), exactly([2, 2, 2, 2])),
        sample(exactly([[1, 2], [3, 4]]), exactly([3, 2])),
        sample(exactly([1, 2, 3]), 2),
        sample(exactly([1, 2, 3]), 2.5),
        sample(2, exactly([1, 2, 3])),
        sample(real(), real()),
        sample(real(0, 2), 1),
        reference=reference,
        dtypes=NUMERIC,
        grad=False,
    )


def inside(*shape: int) -> Array:
    return real(*shape, low=-0.9, high=0.9)


def above_minus_one(*shape: int) -> Array:
    return real(*shape, low=-0.8, high=2)


def whole_gap(*shape: int) -> Array:
    """Away from whole numbers and halves, where rounding jumps."""
    return real(*shape, avoid=(-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2), gap=0.06)


def divide(a: Any, b: Any) -> Any:
    result = np.true_divide(a, b)
    integral = all(isinstance(x, int) or np.asarray(x).dtype.kind in "iu" for x in (a, b))
    return np.trunc(result).astype(np.int64) if integral else result


def round_half_away(x: Any) -> Any:
    return np.trunc(x + np.copysign(0.5, x)).astype(x.dtype)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta).astype(x.dtype)


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    low = x if min is None else np.maximum(x, min)
    return low if max is None else np.minimum(low, max)


def filled(x: Any, m: Any, value: Any) -> Any:
    return np.where(m != 0, np.asarray(value, x.dtype), x)


SAMPLES = [
    op(
        "add",
        *binary("add", np.add, number=2).samples,
        sample(real(3, 4), 2.5, real(3, 4)),
        sample(real(3, 4), -1, real(4)),
        sample(real(3, 4), 3, 2),
        reference=lambda a, b, c=None: np.add(a, b) if c is None else np.add(a, b * c),
        dtypes=NUMERIC,
    ),
    op(
        "sub",
        *binary("sub", np.subtract, number=2).samples,
        sample(real(3, 4), 2.5, real(3, 4)),
        sample(real(3, 4), -1, real(4)),
        reference=lambda a, b, c=None: np.subtract(a, b) if c is None else np.subtract(a, b * c),
        dtypes=NUMERIC,
    ),
    binary("mul", np.multiply, number=3, dtypes=NUMERIC),
    binary("div", divide, lambda *s: real(*s, low=1, high=9), number=2, left_number=7, dtypes=NUMERIC),
    op(
        "pow",
        *binary("pow", np.power, positive, number=3, left_number=2).samples,
        sample(real(3, 4), 2),
        sample(real(3, 4), 3),
        sample(positive(3, 4), 0.5),
        sample(positive(3, 4), -1.5),
        sample(real(3, 4), 1),
        sample(real(3, 4), 0),
        reference=np.power,
    ),
    binary("remainder", np.remainder, lambda *s: real(*s, low=1.1, high=9.7), number=2.3, left_number=7.7),
    binary("fmod", np.fmod, lambda *s: real(*s, low=1.1, high=9.7), number=2.3, left_number=7.7),
    binary("atan2", np.arctan2, number=None, left_number=None),
    binary("maximum", np.maximum, dtypes=NUMERIC, number=1, left_number=1),
    binary("minimum", np.minimum, dtypes=NUMERIC, number=1, left_number=1),
    op(
        "lerp",
        sample(real(2, 3), real(2, 3), 0.25),
        sample(real(2, 3), real(3), -1.5),
        sample(real(), real(), 0.5),
        sample(real(0), real(0), 0.5),
        reference=lambda a, b, w: a + w * (b - a),
    ),
    op(
        "addcmul",
        sample(real(2, 3), real(2, 3), real(2, 3)),
        sample(real(2, 3), 0.5, real(3), real(2, 1)),
        sample(real(), 0.5, real(), real()),
        reference=lambda t, *a: t + a[-2] * a[-1] * (a[0] if len(a) == 3 else 1),
    ),
    op(
        "addcdiv",
        sample(real(2, 3), real(2, 3), positive(2, 3)),
        sample(real(2, 3), 0.5, real(3), positive(2, 1)),
        sample(real(), 0.5, real(), positive()),
        reference=lambda t, *a: t + a[-2] / a[-1] * (a[0] if len(a) == 3 else 1),
    ),
    unary("neg", np.negative, dtypes=NUMERIC),
    unary("abs", np.abs, dtypes=NUMERIC),
    unary("sign", np.sign, dtypes=NUMERIC),
    unary("exp", np.exp),
    unary("expm1", np.expm1),
    unary("log", np.log, positive),
    unary("log1p", np.log1p, above_minus_one),
    unary("sqrt", np.sqrt, positive),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), positive),
    unary("square", np.square, dtypes=NUMERIC),
    unary("reciprocal", lambda x: 1 / x, positive),
    unary("sin", np.sin),
    unary("cos", np.cos),
    unary("tan", np.tan, lambda *s: real(*s, low=-1.2, high=1.2)),
    unary("asin", np.arcsin, inside),
    unary("acos", np.arccos, inside),
    unary("atan", np.arctan),
    unary("sinh", np.sinh),
    unary("cosh", np.cosh),
    unary("floor", np.floor, whole_gap),
    unary("ceil", np.ceil, whole_gap),
    unary("round", round_half_away, whole_gap),
    unary("trunc", np.trunc, whole_gap),
    unary("frac", lambda x: x - np.trunc(x), whole_gap),
    unary("tanh", np.tanh),
    op(
        "tanh_backward",
        sample(real(3, 4), inside(3, 4)),
        sample(real(), inside()),
        sample(real(0), inside(0)),
        reference=lambda g, y: g * (1 - y * y),
    ),
    unary("sigmoid", sigmoid),
    op(
        "sigmoid_backward",
        sample(real(3, 4), positive(3, 4, low=0.1, high=0.9)),
        sample(real(), positive(low=0.1, high=0.9)),
        reference=lambda g, y: g * y * (1 - y),
    ),
    unary("relu", lambda x: np.maximum(x, 0), dtypes=NUMERIC),
    op("relu_backward", sample(real(3, 4), real(3, 4)), sample(real(), real()), reference=lambda g, x: g * (x > 0)),
    op(
        "leaky_relu",
        sample(real(3, 4)),
        sample(real(3, 4), 0.2),
        sample(real(3, 4), -0.5),
        sample(real()),
        sample(real(0)),
        reference=lambda x, s=0.01: np.where(x > 0, x, x * np.asarray(s, x.dtype)),
    ),
    op(
        "leaky_relu_backward",
        sample(real(3, 4), real(3, 4), 0.2),
        reference=lambda g, x, s: np.where(x > 0, g, g * np.asarray(s, x.dtype)),
    ),
    op(
        "elu",
        sample(real(3, 4)),
        sample(real(3, 4), 0.7),
        sample(real()),
        sample(real(0)),
        reference=lambda x, a=1.0: np.where(x > 0, x, np.asarray(a, x.dtype) * np.expm1(x)),
    ),
    op(
        "elu_backward",
        sample(real(3, 4), real(3, 4), 0.7),
        reference=lambda g, x, a: np.where(x > 0, g, g * np.asarray(a, x.dtype) * np.exp(x)),
    ),
    op(
        "softplus",
        sample(real(3, 4)),
        sample(real(3, 4), 2.0, 1.5),
        sample(real(), 0.5),
        sample(real(0)),
        reference=softplus,
    ),
    op(
        "softplus_backward",
        sample(real(3, 4), real(3, 4, avoid=(0.75,)), 2.0, 1.5),
        reference=lambda g, x, b, t: np.where(x * b > t, g, g * sigmoid(x * b)).astype(x.dtype),
    ),
    compare("eq", np.equal),
    compare("ne", np.not_equal),
    compare("lt", np.less),
    compare("le", np.less_equal),
    compare("gt", np.greater),
    compare("ge", np.greater_equal),
    *(
        op(
            name,
            sample(exactly([0, 1, 6, 3]), exactly([1, 1, 3, 2])),
            sample(exactly([[0, 1], [6, 3]]), exactly([1, 2])),
            sample(exactly([0, 1, 6]), 3),
            reference=reference,
            dtypes=INTEGER,
            grad=False,
        )
        for name, reference in [
            ("bitwise_and", np.bitwise_and),
            ("bitwise_or", np.bitwise_or),
            ("bitwise_xor", np.bitwise_xor),
            ("lshift", np.left_shift),
            ("rshift", np.right_shift),
        ]
    ),
    op("bitwise_not", sample(mask(3, 4)), reference=lambda x: 1 - x, dtypes=("uint8",), grad=False),
    op(
        "where",
        sample(mask(3, 4), real(3, 4), real(3, 4)),
        sample(mask(3, 4), real(3, 4), 0.5),
        sample(mask(3, 4), 2, real(3, 4)),
        sample(mask(3, 1), real(4), real(3, 4)),
        sample(mask(), real(), real()),
        sample(mask(0), real(0), real(0)),
        reference=lambda m, a, b: np.where(m != 0, a, b),
    ),
    op(
        "masked_fill",
        sample(real(3, 4), mask(3, 4), 1.5),
        sample(real(3, 4), mask(4), -2),
        sample(real(), mask(), 1),
        sample(real(0, 2), mask(0, 2), 1),
        reference=filled,
    ),
    op(
        "clamp",
        sample(real(3, 4, avoid=(-1, 1)), -1, 1),
        sample(real(3, 4, avoid=(0.5,)), min=0.5),
        sample(real(3, 4, avoid=(0.5,)), max=0.5),
        sample(real(avoid=(-1, 1)), -1, 1),
        sample(real(0), -1, 1),
        reference=clamp,
    ),
    op("fill", sample(real(3, 4), 2), sample(real(), 1), sample(real(0), 1), reference=np.full_like, dtypes=NUMERIC),
    op("zero", sample(real(3, 4)), sample(real()), sample(real(0)), reference=np.zeros_like, dtypes=NUMERIC),
    op(
        "copy",
        sample(real(3, 4), real(3, 4)),
        sample(real(3, 4), real(4)),
        sample(real(3, 4), real()),
        reference=lambda a, b: np.broadcast_to(b, a.shape),
        dtypes=NUMERIC,
    ),
    unary("clone", np.copy, dtypes=NUMERIC),
    unary("detach", np.copy, dtypes=NUMERIC, grad=False),
    op(
        "to_device",
        sample(real(3, 4), -1),
        sample(real(), -1),
        reference=lambda a, device: np.copy(a),
        dtypes=NUMERIC,
    ),
    op(
        "zeros_of",
        sample(real(3, 4), (2, 5)),
        reference=lambda a, sizes: np.zeros(sizes, a.dtype),
        dtypes=NUMERIC,
        grad=False,
    ),
    op(
        "cast",
        sample(real(3, 4), 7),
        sample(real(), 7),
        reference=lambda x, t: x.astype(np.float64),
        dtypes=FLOATING,
    ),
    op(
        "fused_elementwise",
        sample([real(2, 3), real(2, 3)], "mul 0 1; add 2 #0.5; -> 3"),
        sample([real(2, 3), positive(2, 3)], "log 1; sub_scaled 0 2 #2.0; div #1.0 3; -> 3, 4"),
        sample([real(70, 50)], "tanh 0; mul 1 1; sub #1.0 2; -> 3"),
        dtypes=FLOATING,
        reference=lambda inputs, code: {
            "mul": lambda: inputs[0] * inputs[1] + inputs[0].dtype.type(0.5),
            "log": lambda: (inputs[0] - 2 * np.log(inputs[1]), 1 / (inputs[0] - 2 * np.log(inputs[1]))),
            "tan": lambda: 1 - np.tanh(inputs[0]) ** 2,
        }[code[:3]](),
    ),
]
