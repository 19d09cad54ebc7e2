"""Entries for arithmetic, comparisons and elementwise functions."""

# ruff: noqa: F405  (the classes come by the star)

from function_inputs import M, S, V, away, between_steps, distinct, entry

from torchlite.autograd._functions import *  # noqa: F403


def broadcasts(cls, make, other=None):
    """Two operands in every way that they can broadcast. In place only the second one may be the smaller."""
    other = other or make
    return [
        entry(cls, make(S, S, S), other(S, S, S)),
        entry(cls, make(S, S, S), other(S, S), suffix="broadcast_rhs"),
        entry(cls, make(S, S), other(S, S, S), suffix="broadcast_lhs", in_place=False),
        entry(cls, make(S, 1, S), other(M, S), suffix="broadcast_all", in_place=False),
        entry(cls, make(S, S), other(1), suffix="broadcast_one"),
        entry(cls, make(S), other(S), suffix="1d"),
        entry(cls, make(1), other(1), suffix="one_element"),
    ]


def constants(cls, make, number, number_first=None):
    """A tensor and a number, either way round."""
    first = number if number_first is None else number_first
    return [
        entry(cls, make(S, S), number),
        entry(cls, first, make(S, S), suffix="number_first"),
        entry(cls, make(S), number, suffix="1d"),
        entry(cls, first, make(1), suffix="number_first_one_element"),
    ]


def positive(*size):
    return V(*size, low=0.3, high=2.0)


ARITHMETIC = [
    *broadcasts(Add, V),
    *broadcasts(Sub, V),
    *broadcasts(Mul, V),
    *broadcasts(Div, V, away),
    *broadcasts(Pow, positive, V),
    *constants(AddConstant, V, 3.14),
    *constants(SubConstant, V, 3.14),
    *constants(MulConstant, V, 3.14),
    *constants(DivConstant, away, 3.14),
    entry(AddConstant, V(S, S), 2, suffix="integer"),
    entry(MulConstant, V(S, S), 0, suffix="zero"),
    entry(PowConstant, positive(S, S), 3.14),
    entry(PowConstant, 3.14, positive(S, S), suffix="number_first"),
    entry(PowConstant, V(S, S), 2, suffix="square"),
    entry(PowConstant, V(S, S), 3, suffix="cube"),
    entry(PowConstant, V(S, S), 1, suffix="identity"),
    entry(PowConstant, V(S, S), 0, suffix="zero"),
    entry(PowConstant, away(S), -1, suffix="negative_1d"),
    entry(Negate, V(S, S, S)),
    entry(Negate, V(S), suffix="1d"),
]

COMPARISONS = [
    e
    for cls in (Eq, Ne, Gt, Ge, Lt, Le)
    for e in (
        entry(cls, distinct(S, S), V(S, S)),
        entry(cls, distinct(S, S), V(1, S), suffix="broadcast_rhs"),
        entry(cls, distinct(S, S), 0.01, suffix="number"),
    )
]

POINTWISE = [
    entry(Exp, V(S, S, S)),
    entry(Exp, V(S), suffix="1d"),
    entry(Log, positive(S, S, S)),
    entry(Log1p, V(S, S, S, low=-0.5)),
    entry(Tanh, V(S, S, S)),
    entry(Tanh, V(1), suffix="one_element"),
    entry(Sigmoid, V(S, S, S)),
    entry(Sigmoid, V(S), suffix="1d"),
    entry(Sinh, V(S, S, S)),
    entry(Cosh, V(S, S, S)),
    entry(Abs, away(S, S, S)),
    entry(Sqrt, positive(S, S, S)),
    entry(Sin, V(S, S, S)),
    entry(Cos, V(S, S, S)),
    entry(Tan, V(S, S, S)),
    entry(Asin, V(S, S, S, low=-0.9, high=0.9)),
    entry(Acos, V(S, S, S, low=-0.9, high=0.9)),
    entry(Atan, V(S, S, S)),
    entry(Reciprocal, away(S, S, S)),
    entry(Reciprocal, away(S), suffix="1d"),
    entry(Rsqrt, positive(S, S, S)),
    entry(Floor, between_steps(S, S)),
    entry(Ceil, between_steps(S, S)),
    entry(Round, between_steps(S, S)),
    entry(Trunc, between_steps(S, S)),
    entry(Frac, between_steps(S, S)),
    entry(Sign, away(S, S)),
    entry(Clamp, distinct(S, S, S), -0.5, 0.5),
    entry(Clamp, distinct(S), 0.0, 0.5, suffix="1d"),
    entry(Clamp, distinct(S, S), 5.0, 6.0, suffix="everything"),
    entry(CmaxConstant, distinct(S, S, S), 0.0),
    entry(CmaxConstant, distinct(S), 0.0, suffix="1d"),
    entry(CminConstant, distinct(S, S, S), 0.0),
    entry(CminConstant, distinct(S), 0.0, suffix="1d"),
    *broadcasts(Cmax, distinct, V),
    *broadcasts(Cmin, distinct, V),
    *broadcasts(Atan2, away),
    entry(Fmod, between_steps(S, S, S), 1.5),
    entry(Fmod, between_steps(S), 1.5, suffix="1d"),
    entry(Fmod, V(S, S, S), V(S, S, S, low=1.5, high=2.0), suffix="tensor"),
    entry(Fmod, V(S, S, S), V(S, low=1.5, high=2.0), suffix="tensor_broadcast_rhs"),
    entry(Fmod, V(S), V(S, S, S, low=1.5, high=2.0), suffix="tensor_broadcast_lhs"),
    entry(Fmod, V(S, 1, S), V(S, S, low=1.5, high=2.0), suffix="tensor_broadcast_all"),
    entry(Remainder, between_steps(S, S, S), 1.5),
    entry(Remainder, between_steps(S), 1.5, suffix="1d"),
    entry(Remainder, V(S, S, S), V(S, S, S, low=1.5, high=2.0), suffix="tensor"),
    entry(Remainder, V(S, S, S), V(S, low=1.5, high=2.0), suffix="tensor_broadcast_rhs"),
    entry(Remainder, V(S), V(S, S, S, low=1.5, high=2.0), suffix="tensor_broadcast_lhs"),
    entry(Remainder, V(S, 1, S), V(S, S, low=1.5, high=2.0), suffix="tensor_broadcast_all"),
    entry(Lerp, V(S, S, S), V(S, S, S), 0.2),
    entry(Lerp, V(S, S, S), V(S), 0.2, suffix="broadcast_rhs"),
    entry(Lerp, V(S), V(S, S, S), 0.2, suffix="broadcast_lhs"),
    entry(Lerp, V(S, 1, S), V(S, S), 1.5, suffix="broadcast_all"),
    *(
        e
        for cls, divisor in ((Addcmul, V), (Addcdiv, positive))
        for e in (
            entry(cls, V(S, S), V(S, S), divisor(S, S)),
            entry(cls, V(S, S), V(S, 1), divisor(1, S), suffix="broadcast_rhs"),
            entry(cls, V(1), V(S, S, 1), divisor(1, S), suffix="broadcast_all", in_place=False),
            entry(cls, V(S, S), V(S, S), divisor(S, S), 0.5, suffix="scale"),
            entry(cls, V(S, S), V(S, 1), divisor(1, S), 0.5, suffix="scale_broadcast_rhs"),
            entry(cls, V(1), V(S, S, 1), divisor(1, S), 0.5, suffix="scale_broadcast_all", in_place=False),
            entry(cls, V(S), V(S), divisor(S), -1, suffix="1d"),
        )
    ),
]

ENTRIES = ARITHMETIC + COMPARISONS + POINTWISE
