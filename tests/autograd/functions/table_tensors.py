"""Entries for views, copies, subscripts and what works along a dimension or under a mask."""

# ruff: noqa: F405  (the classes come by the star)

from function_inputs import M, S, V, distinct, entry, indices, longs, mask

import torchlite
from torchlite import DoubleTensor, FloatTensor, Size
from torchlite.autograd._functions import *  # noqa: F403

VIEWS = [
    entry(Transpose, V(1, S, M), 0, 1),
    entry(Transpose, V(S, M), 0, 1, suffix="2d"),
    entry(Transpose, V(S, M, 2), 2, 0, suffix="3d"),
    entry(Transpose, V(S, M, 2), -1, -2, suffix="neg"),
    entry(Transpose, V(S, M), 1, 1, suffix="same"),
    entry(Permute, V(2, S, M), (2, 0, 1)),
    entry(Permute, V(2, S, M), (0, -1, 1), suffix="neg"),
    entry(View, V(S, M, S), Size([S * M, S]), contiguous=True),
    entry(View, V(S, M, S), (S, -1), suffix="inferred", contiguous=True),
    entry(View, V(S, M), (S * M,), suffix="1d", contiguous=True),
    entry(View, V(S), (1, S), suffix="of_1d", contiguous=True),
    entry(Expand, V(S, 1, S), (S, M, S)),
    entry(Expand, V(S), (M, S), suffix="new_dim"),
    entry(Expand, V(1), (S, S), suffix="one_element"),
    entry(Expand, V(S, 1), (M, -1, S), suffix="keep"),
    entry(Expand, V(1, S), Size([2, M, S]), suffix="size"),
    entry(Squeeze, V(S, 1, M, 1)),
    entry(Squeeze, V(1, S, 1), 0, suffix="dim0"),
    entry(Squeeze, V(1, S, 1), -1, suffix="dim_neg1"),
    entry(Squeeze, V(1, S, 1), 1, suffix="nothing"),
    *(entry(Unsqueeze, V(S, M), d, suffix=f"dim{d}".replace("-", "_neg")) for d in (0, 1, 2, -1, -3)),
    entry(Unsqueeze, V(S), 0, suffix="1d"),
    entry(Unfold, V(S, 6), 1, 3, 1),
    entry(Unfold, V(S, 6), 1, 2, 2, suffix="step"),
    entry(Unfold, V(6, S), 0, 3, 2, suffix="dim0"),
    entry(Unfold, V(6, S), -2, 6, 1, suffix="everything"),
    entry(Unfold, V(6), 0, 2, 3, suffix="1d_gaps"),
    entry(Resize, V(S, M, S), Size([S * M, S])),
    entry(Resize, V(S, M), (M * S,), suffix="1d"),
    entry(Chunk, V(6, S), 3),
    entry(Chunk, V(5, S), 2, suffix="uneven"),
    entry(Chunk, V(S, 6), 2, 1, suffix="dim1"),
    entry(Chunk, V(S, 5), 4, -1, suffix="fewer"),
    entry(Chunk, V(S), 1, suffix="one"),
]

COPIES = [
    entry(Clone, V(S, M, S)),
    entry(Clone, V(S), suffix="1d"),
    entry(Repeat, V(S, M), Size([2, 3])),
    entry(Repeat, V(S, M), (2, 1, 3), suffix="new_dim"),
    entry(Repeat, V(S), (2,), suffix="1d"),
    entry(Repeat, V(1), (S, 2), suffix="one_element"),
    entry(Concat, 0, V(1, S, M), V(2, S, M), V(3, S, M)),
    entry(Concat, 1, V(S, 1), V(S, 2), suffix="dim1"),
    entry(Concat, -1, V(S, 1, 2), V(S, 1, 3), suffix="dim_neg1"),
    entry(Concat, 0, V(S), V(1), suffix="1d"),
    entry(Concat, 0, V(S, S), suffix="one"),
    entry(Type, V(S, M), DoubleTensor, suffix="same"),
    entry(Type, V(S, M), "torchlite.DoubleTensor", suffix="name"),
]

SUBSCRIPTS = [
    entry(Index, V(S, M, S), 1, suffix="int"),
    entry(Index, V(S, M, S), -1, suffix="negative_int"),
    entry(Index, V(S), 1, suffix="int_1d"),
    entry(Index, V(S, M, S), (1, 2), suffix="ints"),
    entry(Index, V(S, M, S), (1, 2, 0), suffix="element"),
    entry(Index, V(S, M, S), slice(0, 2), suffix="slice"),
    entry(Index, V(S, M, S), slice(None, None, 2), suffix="step"),
    entry(Index, V(S, M, S), (slice(0, 2), 1), suffix="slice_int"),
    entry(Index, V(S, M, S), (1, slice(1, None)), suffix="int_slice"),
    entry(Index, V(S, M, S), (Ellipsis, 1), suffix="ellipsis"),
    entry(Index, V(S, M, S), (None, 1), suffix="none"),
    entry(Index, V(S, M, S), (slice(None), None, 1), suffix="none_between"),
    entry(Index, V(S, M), mask(S, M), suffix="mask"),
    entry(Index, V(S, M), longs([0, 2, 2]), suffix="longs"),
    entry(Index, V(S, M), torchlite.LongTensor([0, 2, 2]), suffix="tensor"),
    entry(Index, V(S, M), [0, 2], suffix="list"),
    entry(Index, V(S, M), ([0, 2], [1, 1]), suffix="lists"),
    entry(Index, V(S, M, S), (slice(None), [0, 3, 0]), suffix="slice_list"),
    entry(Index, V(S, M, S), (Ellipsis, [0, 2], [1, 1]), suffix="ellipsis_lists"),
]

ALONG = [
    entry(Sort, distinct(S, M, S)),
    *(entry(Sort, distinct(S, M, S), d, suffix=f"dim{d}".replace("-", "_neg")) for d in (0, 1, -1)),
    entry(Sort, distinct(S, M, S), 1, True, suffix="descending"),
    entry(Sort, distinct(S, M), -1, False, False, suffix="values"),
    entry(Sort, distinct(S), suffix="1d"),
    entry(Topk, distinct(S, M, S), 2),
    *(entry(Topk, distinct(S, M, S), 2, d, suffix=f"dim{d}".replace("-", "_neg")) for d in (0, 1, -1)),
    entry(Topk, distinct(S, M, S), 2, 1, False, suffix="smallest"),
    entry(Topk, distinct(S, M, S), 2, 1, True, True, suffix="sorted"),
    entry(Topk, distinct(S, M), 3, -1, True, True, False, suffix="values"),
    entry(Topk, distinct(S), 2, suffix="1d"),
    *(
        entry(IndexSelect, V(S, M, S), d, longs([0, 2, 1, 2]), suffix=f"dim{d}".replace("-", "_neg"))
        for d in (0, 1, -1)
    ),
    entry(IndexSelect, V(S), 0, longs([2]), suffix="1d"),
    entry(IndexSelect, V(S, M), 0, torchlite.LongTensor([1, 1]), suffix="tensor"),
    entry(IndexAdd, V(S, M), 0, longs([2, 0]), V(2, M)),
    entry(IndexAdd, V(S, M), 1, longs([3, 1]), V(S, 2), suffix="dim1"),
    entry(IndexAdd, V(S, M), -1, longs([3, 1]), V(S, 2), suffix="dim_neg1"),
    entry(IndexAdd, V(S, M), 0, longs([1, 1, 0]), V(S, M), suffix="repeated"),
    entry(IndexAdd, V(S), 0, longs([1, 2]), V(2), suffix="1d"),
    entry(IndexCopy, V(S, M), 0, longs([2, 0]), V(2, M)),
    entry(IndexCopy, V(S, M), 1, longs([3, 1]), V(S, 2), suffix="dim1"),
    entry(IndexCopy, V(S, M), -2, longs([1]), V(1, M), suffix="dim_neg2"),
    entry(IndexCopy, V(S), 0, longs([1, 2]), V(2), suffix="1d"),
    entry(IndexFill, V(S, M), 0, longs([2, 0]), 2.0),
    entry(IndexFill, V(S, M), 1, longs([3, 1, 3]), -1, suffix="dim1"),
    entry(IndexFill, V(S), -1, longs([1]), 0.5, suffix="1d"),
    entry(Gather, V(M, S), 0, indices(2, S, below=M)),
    entry(Gather, V(M, S), 1, indices(M, 2, below=S), suffix="dim1"),
    entry(Gather, V(M, S), -1, indices(M, 5, below=S), suffix="repeated"),
    entry(Gather, V(M), 0, indices(2, below=M), suffix="1d"),
    entry(Gather, V(S, M, S), 1, indices(S, 2, S, below=M), suffix="3d"),
    entry(Scatter, V(M, S), 0, indices(2, S, below=M, distinct_along=0), V(2, S)),
    entry(Scatter, V(M, S), 1, indices(M, 2, below=S, distinct_along=1), V(M, 2), suffix="dim1"),
    entry(Scatter, V(M, S), -1, indices(M, 2, below=S, distinct_along=1), V(M, 2), suffix="dim_neg1"),
    entry(Scatter, V(M), 0, indices(2, below=M, distinct_along=0), V(2), suffix="1d"),
    entry(Scatter, V(M, S), 0, indices(2, S, below=M, distinct_along=0), 3.0, suffix="number"),
    entry(ScatterAdd, V(M, S), 0, indices(2, S, below=M), V(2, S)),
    entry(ScatterAdd, V(M, S), 1, indices(M, 2, below=S), V(M, 2), suffix="dim1"),
    entry(ScatterAdd, V(M, S), 0, longs([[1, 1, 1], [1, 1, 1]]), V(2, S), suffix="repeated"),
    entry(ScatterAdd, V(M), -1, indices(2, below=M), V(2), suffix="1d"),
    entry(AdvancedIndexAdd, V(S, M), longs([0, 0, 2]), V(S, M), suffix="repeated"),
    entry(AdvancedIndexAdd, V(S, M), ([0, 0], [1, 1]), V(2), suffix="lists"),
    entry(AdvancedIndexAdd, V(S, M), (slice(None), [1, 3]), V(S, 2), suffix="slice_list"),
]

MASKS = [
    entry(MaskedFill, V(S, M), mask(S, M), 10.0),
    entry(MaskedFill, V(S, M), mask(M), 10.0, suffix="broadcast_rhs"),
    entry(MaskedFill, V(S, M), mask(S, 1), -1, suffix="broadcast_column"),
    entry(MaskedFill, V(S), mask(S), 0.5, suffix="1d"),
    entry(MaskedScatter, V(S, M), mask(S, M), V(S, M)),
    entry(MaskedScatter, V(S, M), mask(M), V(S, M), suffix="broadcast_rhs"),
    entry(MaskedScatter, V(S), mask(S), V(S), suffix="1d"),
    entry(MaskedSelect, V(S, M), mask(S, M)),
    entry(MaskedSelect, V(S, M), mask(M), suffix="broadcast_rhs"),
    entry(MaskedSelect, V(M), mask(S, M), suffix="broadcast_lhs"),
    entry(MaskedSelect, V(S, 1, S), mask(M, 1), suffix="broadcast_all"),
    entry(MaskedSelect, V(S), mask(S), suffix="1d"),
]

# A cast to another type rounds, so the gradient cannot be compared with differences.
CASTS = [entry(Type, V(S, M), FloatTensor, suffix="float")]

ENTRIES = VIEWS + COPIES + SUBSCRIPTS + ALONG + MASKS
