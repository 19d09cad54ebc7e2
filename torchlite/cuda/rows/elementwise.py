"""Numbers and pairs of numbers: arithmetic, functions, activations, comparisons and masks.

A str stands for the array library's function of that name, called with the row's arguments as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def is_integral(value: Any) -> bool:
    return isinstance(value, int) if not hasattr(value, "dtype") else value.dtype.kind != "f"


def wide(xp: Any, x: Any) -> Any:
    """``x`` in the type that the row's kernel computes in: Half in float, integers in double."""
    kind = np.float32 if x.dtype == np.float16 else np.float64 if x.dtype.kind != "f" else x.dtype
    return x if x.dtype == kind else x.astype(kind)


def scaled(alpha: Any, x: Any) -> Any:
    return x if alpha == 1 else x * alpha


def add(xp: Any, a: Any, alpha: Any, b: Any, out: Any = None) -> Any:
    return xp.add(a, scaled(alpha, b), out=out)


def sub(xp: Any, a: Any, alpha: Any, b: Any, out: Any = None) -> Any:
    return xp.subtract(a, scaled(alpha, b), out=out)


def refuse_zero(name: str, a: Any, b: Any) -> None:
    """An integer divided by the number 0. A device's own elements are not looked at: there the result is 0."""
    if is_integral(a) and not hasattr(b, "dtype") and isinstance(b, int) and b == 0:
        raise ZeroDivisionError(f"{name}: integer division by zero")


def div(xp: Any, a: Any, b: Any, out: Any = None) -> Any:
    if not (is_integral(a) and is_integral(b)):
        return xp.true_divide(a, b, out=out)
    refuse_zero("div", a, b)
    return xp.floor_divide(xp.subtract(a, xp.fmod(a, b)), b, out=out)  # toward zero


def remainder(xp: Any, a: Any, b: Any) -> Any:
    refuse_zero("remainder", a, b)
    return xp.remainder(a, b)


def fmod(xp: Any, a: Any, b: Any) -> Any:
    refuse_zero("fmod", a, b)
    return xp.fmod(a, b)


def lerp(xp: Any, a: Any, end: Any, weight: Any) -> Any:
    return a + (end - a) * weight


def addcmul(xp: Any, a: Any, value: Any, x: Any, y: Any) -> Any:
    return a + scaled(value, x * y)


def addcdiv(xp: Any, a: Any, value: Any, x: Any, y: Any) -> Any:
    return a + scaled(value, xp.true_divide(x, y))


# ---- functions -------------------------------------------------------------------------------------------------------


def rounding(name: str) -> Any:
    """Leaves integers as they are."""
    return lambda xp, x: getattr(xp, name)(x) if x.dtype.kind == "f" else x


def round_(xp: Any, x: Any) -> Any:
    """Half away from zero."""
    if x.dtype.kind != "f":
        return x
    whole = xp.trunc(x)
    return whole + xp.copysign((xp.absolute(x - whole) >= 0.5).astype(x.dtype), x)


def frac(xp: Any, x: Any) -> Any:
    return x - xp.trunc(x)


def reciprocal(xp: Any, x: Any) -> Any:
    return xp.true_divide(1, x)


def rsqrt(xp: Any, x: Any) -> Any:
    return xp.true_divide(1, xp.sqrt(x))


# ---- activations -----------------------------------------------------------------------------------------------------


def sigmoid_of(xp: Any, x: Any) -> Any:
    return xp.true_divide(1, 1 + xp.exp(-x))


def tanh(xp: Any, x: Any) -> Any:
    return xp.tanh(wide(xp, x))


def tanh_backward(xp: Any, g: Any, y: Any) -> Any:
    return g * (1 - y * y)


def sigmoid(xp: Any, x: Any) -> Any:
    return sigmoid_of(xp, wide(xp, x))


def sigmoid_backward(xp: Any, g: Any, y: Any) -> Any:
    return g * (y * (1 - y))


def relu(xp: Any, x: Any) -> Any:
    return xp.maximum(x, 0)


def relu_backward(xp: Any, g: Any, y: Any) -> Any:
    return xp.where(y > 0, g, 0)


def leaky_relu(xp: Any, x: Any, slope: Any) -> Any:
    x = wide(xp, x)
    return xp.where(x > 0, x, x * slope)


def leaky_relu_backward(xp: Any, g: Any, x: Any, slope: Any) -> Any:
    return xp.where(x > 0, g, g * slope)


def elu(xp: Any, x: Any, alpha: Any) -> Any:
    x = wide(xp, x)
    return xp.where(x > 0, x, alpha * xp.expm1(xp.minimum(x, 0)))


def elu_backward(xp: Any, g: Any, x: Any, alpha: Any) -> Any:
    return xp.where(x > 0, g, g * alpha * xp.exp(xp.minimum(x, 0)))


def softplus(xp: Any, x: Any, beta: Any, threshold: Any) -> Any:
    x = wide(xp, x)
    z = x * beta
    return xp.where(z > threshold, x, xp.log1p(xp.exp(xp.minimum(z, threshold))) / beta)


def softplus_backward(xp: Any, g: Any, x: Any, beta: Any, threshold: Any) -> Any:
    z = x * beta
    return xp.where(z > threshold, g, g * sigmoid_of(xp, z))


# ---- masks -----------------------------------------------------------------------------------------------------------


def bitwise_not(xp: Any, x: Any) -> Any:
    return xp.subtract(1, x)


def where(xp: Any, condition: Any, a: Any, b: Any) -> Any:
    return xp.where(condition != 0, a, b)


def masked_fill(xp: Any, x: Any, mask: Any, value: Any) -> Any:
    return xp.where(mask != 0, x.dtype.type(value), x)


def clamp(xp: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


FORWARD = {
    "add": add, "sub": sub, "mul": "multiply", "div": div, "pow": "power", "remainder": remainder, "fmod": fmod,
    "atan2": "arctan2", "maximum": "maximum", "minimum": "minimum", "lerp": lerp, "addcmul": addcmul,
    "addcdiv": addcdiv, "neg": "negative", "abs": "absolute", "sign": "sign", "exp": "exp", "expm1": "expm1",
    "log": "log", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": rsqrt, "square": "square", "reciprocal": reciprocal,
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh",
    "cosh": "cosh", "floor": rounding("floor"), "ceil": rounding("ceil"), "trunc": rounding("trunc"), "round": round_,
    "frac": frac, "tanh": tanh, "tanh_backward": tanh_backward, "sigmoid": sigmoid,
    "sigmoid_backward": sigmoid_backward, "relu": relu, "relu_backward": relu_backward, "leaky_relu": leaky_relu,
    "leaky_relu_backward": leaky_relu_backward, "elu": elu, "elu_backward": elu_backward, "softplus": softplus,
    "softplus_backward": softplus_backward, "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "bitwise_not": bitwise_not, "lshift": "left_shift", "rshift": "right_shift",
    "where": where, "masked_fill": masked_fill, "clamp": clamp,
}
