"""Entries for reductions, cumulative functions and matrix products."""

# ruff: noqa: F405  (the classes come by the star)

from function_inputs import M, S, V, away, distinct, entry, fixed, invertible, positive_definite

from torchlite.autograd._functions import *  # noqa: F403


def dims(cls, make, *before):
    """A reduction over everything and over each dimension, from either end, with keepdim and on one dimension."""
    return [
        entry(cls, make(S, M, S), *before),
        *(entry(cls, make(S, M, S), *before, d, suffix=f"dim{d}".replace("-", "_neg")) for d in (0, 1, 2, -1, -3)),
        *(
            entry(cls, make(S, M, S), *before, d, keep, suffix=f"{name}_dim{d}".replace("-", "_neg"))
            for keep, name in ((True, "keepdim"), (False, "no_keepdim"))
            for d in (1, -1)
        ),
        entry(cls, make(S), *before, suffix="1d"),
        entry(cls, make(S), *before, 0, suffix="1d_dim0"),
        entry(cls, make(S), *before, -1, True, suffix="1d_keepdim"),
        entry(cls, make(1), *before, suffix="one_element"),
    ]


REDUCTIONS = [
    *dims(Sum, V),
    *dims(Mean, V),
    *dims(Prod, away),
    *dims(Max, distinct),
    *dims(Min, distinct),
    *dims(Median, distinct),
    *dims(Mode, distinct),
    *dims(Kthvalue, distinct, 1),
    *(entry(Kthvalue, distinct(S, M, S), 2, d, suffix=f"second_dim{d}") for d in (0, 1, 2)),
    *(
        e
        for p in (2, 1, 3, 1.5)
        for e in (
            entry(Norm, away(S, S, S), p, suffix=f"{p}"),
            entry(Norm, away(S, S, S), p, 1, suffix=f"{p}_dim1"),
            entry(Norm, away(S, S, S), p, -1, suffix=f"{p}_dim_neg1"),
            entry(Norm, away(S, S, S), p, 1, True, suffix=f"{p}_keepdim"),
            entry(Norm, away(S), p, 0, suffix=f"{p}_1d"),
        )
    ),
    entry(Norm, away(S, S)),
    entry(Prod, fixed([[1.0, 2.0, 3.0], [4.0, 0.0, 6.0]]), suffix="one_zero"),
    entry(Prod, fixed([[1.0, 0.0, 3.0], [4.0, 0.0, 6.0]]), suffix="two_zeros"),
    entry(Prod, fixed([[1.0, 0.0, 3.0], [0.0, 0.0, 6.0]]), 1, suffix="zeros_dim1"),
]

CUMULATIVE = [
    *(entry(Cumsum, V(S, M, S), d, suffix=f"dim{d}".replace("-", "_neg")) for d in (0, 1, 2, -1)),
    entry(Cumsum, V(S), 0, suffix="1d"),
    *(entry(Cumprod, away(S, M, S), d, suffix=f"dim{d}".replace("-", "_neg")) for d in (0, 1, 2, -1)),
    entry(Cumprod, away(S), 0, suffix="1d"),
    entry(Cumprod, fixed([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]), 1, suffix="zeros"),
    entry(Cumprod, fixed([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]), 0, suffix="zeros_dim0"),
]


def products(cls, t, x, y, smaller):
    """``alpha * t + beta * (x @ y)`` with and without weights, and with a ``t`` that is expanded."""
    return [
        entry(cls, V(*t), V(*x), V(*y)),
        entry(cls, V(*t), V(*x), V(*y), 0.2, 0.6, suffix="weights"),
        entry(cls, V(*t), V(*x), V(*y), 0, 2, suffix="zero_weight"),
        entry(cls, V(*smaller), V(*x), V(*y), suffix="broadcast_lhs", in_place=False),
        entry(cls, V(*smaller), V(*x), V(*y), 0.2, 0.6, suffix="weights_broadcast_lhs", in_place=False),
        entry(cls, V(1), V(*x), V(*y), suffix="broadcast_one", in_place=False),
    ]


PRODUCTS = [
    *products(Addmm, (S, M), (S, S), (S, M), (M,)),
    *products(Addbmm, (S, M), (2, S, S), (2, S, M), (1, M)),
    *products(Baddbmm, (2, S, M), (2, S, S), (2, S, M), (S, 1)),
    *products(Addmv, (S,), (S, M), (M,), (1,)),
    *products(Addr, (S, M), (S,), (M,), (S, 1)),
    entry(Dot, V(M), V(M)),
    entry(Dot, V(1), V(1), suffix="one_element"),
]

MATRICES = [
    *(
        entry(Diag, V(*size), k, suffix=f"{'x'.join(map(str, size))}_{k}".replace("-", "neg"))
        for size in ((S, S), (S, M), (M, S), (S,))
        for k in (0, 1, -1, 2)
        if not (size == (S, S) and k == 2)
    ),
    *(
        entry(cls, V(S, M), k, suffix=f"{k}".replace("-", "neg"))
        for cls in (Tril, Triu)
        for k in (0, 1, -1, 5)
    ),
    entry(Tril, V(S, S), suffix="default"),
    entry(Triu, V(S, S), suffix="default"),
    entry(Diag, V(S, S), suffix="default"),
    entry(Cross, V(S, M), V(S, M)),
    entry(Cross, V(M, 3, S), V(M, 3, S), 1, suffix="dim1"),
    entry(Cross, V(M, 2, 3), V(M, 2, 3), 2, suffix="dim2"),
    entry(Cross, V(3), V(3), suffix="1d"),
    entry(Inverse, invertible(S)),
    entry(Inverse, invertible(1), suffix="one_element"),
    entry(Gesv, V(S, S), invertible(S)),
    entry(Gesv, V(M, 2), invertible(M), suffix="columns"),
    entry(Potrf, positive_definite(S)),
    entry(Potrf, positive_definite(M), False, suffix="lower"),
    entry(Potrf, positive_definite(1), suffix="one_element"),
    entry(Trace, V(S, S)),
    entry(Trace, V(S, M), suffix="wide"),
]

ENTRIES = REDUCTIONS + CUMULATIVE + PRODUCTS + MATRICES
