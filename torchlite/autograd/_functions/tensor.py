"""Views, copies and indexing. What views make lies on the memory of the argument and shares its version."""

from __future__ import annotations

from typing import Any

from ..function import Function, InplaceFunction
from ..variable import Variable
from .op_function import InplaceOpFunction, OpFunction, Unary

# ---- views ---------------------------------------------------------------------------------------------------


class Transpose(OpFunction, op="transpose"):
    @staticmethod
    def arguments(i, d1, d2):
        return i, d1, d2


class Reshaping(OpFunction):
    @staticmethod
    def arguments(i, sizes):
        return i, sizes


class View(Reshaping, op="view"):
    pass


class Expand(Reshaping, op="expand"):
    pass


class Permute(OpFunction, op="permute"):
    @staticmethod
    def arguments(i, dims):
        return i, dims


class Squeeze(InplaceOpFunction, op="squeeze"):
    @staticmethod
    def arguments(i, dim=None):
        return (i,) if dim is None else (i, dim)

    @classmethod
    def call(cls, i, dim=None, inplace=False):
        if isinstance(dim, bool):  # no dimension, but `inplace` right behind the tensor
            dim, inplace = None, dim
        return super().call(i, dim, inplace)


class Unsqueeze(OpFunction, op="unsqueeze"):
    @staticmethod
    def arguments(i, dim):
        return i, dim


class Unfold(OpFunction, op="unfold"):
    @staticmethod
    def arguments(i, dim, size, step):
        return i, dim, size, step


class Chunk(OpFunction):
    """Chunk.apply(i, n, dim=0)

    A tuple of at most ``n`` views of equal length along ``dim``; the last one may be shorter.
    """

    @classmethod
    def call(cls, i, n, dim=0):
        return i.chunk(n, dim)


class Resize(OpFunction):
    """Resize.apply(t, sizes)

    The elements in another shape of as many elements; RuntimeError if their numbers differ.
    """

    @classmethod
    def call(cls, t, sizes):
        return t.resize(*sizes)


class NoGrad(Function):
    """The argument as a constant on the same memory; its version is shared. An old-style Function."""

    def forward(self, i: Any) -> Any:  # type: ignore[override]
        result = i.view_as(i)
        self.mark_non_differentiable(result)
        self.mark_shared_storage((i, result))
        return result

    def backward(self, grad_output: Any) -> Any:  # type: ignore[override]
        return None


# ---- copies --------------------------------------------------------------------------------------------------


class Clone(Unary, op="clone"):
    pass


class Repeat(OpFunction, op="repeat"):
    @staticmethod
    def arguments(i, repeats):
        return i, repeats


class Concat(OpFunction, op="cat"):
    @staticmethod
    def arguments(dim, *inputs):
        return inputs, dim


class Type(OpFunction):
    """Type.apply(i, t)

    A copy in the type ``t``, a tensor class or its dotted name; on the same memory if the argument is of that type. The
    gradient is cast back; a copy in an integer type doesn't require grad.
    """

    @classmethod
    def call(cls, i, t):
        result = i.type(t)
        return i.view_as(i) if result is i else result


class CudaTransfer(OpFunction):
    """CudaTransfer.apply(i, device=None, async=False)

    A copy on a CUDA device, by default the current one. RuntimeError where CUDA is missing.
    """

    @classmethod
    def call(cls, i, device=None, async_=False, **kwargs):
        return i.cuda(device, async_, **kwargs)


# ---- subscripts ----------------------------------------------------------------------------------------------


class Index(OpFunction):
    """Index.apply(i, index)

    ``i[index]``: a view for numbers and slices, a copy for masks and index tensors.
    """

    @classmethod
    def call(cls, i, index):
        return i[index]


class SetItem(OpFunction, InplaceFunction):
    """SetItem.apply(i, index, value)

    Writes ``value``, a number or a Variable, into ``i[index]``, and returns ``i``.
    """

    @classmethod
    def call(cls, i, index, value):
        i[index] = value
        return i


class AdvancedIndexAdd(OpFunction):
    """AdvancedIndexAdd.apply(t, index, src)

    ``t`` with the elements of ``src`` added at ``t[index]``, where a place that ``index`` names twice gets both.
    ``src`` has as many elements as ``t[index]``.
    """

    @classmethod
    def call(cls, t, index, src):
        n = t.numel()
        places = Variable(t.data.new(n).fill_(1).long().cumsum(0).sub_(1).view(t.size()))[index]
        return t.contiguous().view(n).index_add(0, places.contiguous().view(-1), src.contiguous().view(-1)).view_as(t)


# ---- along a dimension ---------------------------------------------------------------------------------------


class IndexWrite(InplaceOpFunction):
    @staticmethod
    def arguments(t, dim, index, src):
        return t, dim, index, src


class IndexAdd(IndexWrite, op="index_add"):
    pass


class IndexCopy(IndexWrite, op="index_copy"):
    pass


class IndexFill(InplaceOpFunction, op="index_fill"):
    @staticmethod
    def arguments(t, dim, index, value):
        return t, dim, index, value


class IndexSelect(OpFunction, op="index_select"):
    @staticmethod
    def arguments(t, dim, index):
        return t, dim, index


class Gather(OpFunction, op="gather"):
    @staticmethod
    def arguments(i, dim, index):
        return i, dim, index


class ScatterWrite(InplaceOpFunction):
    @staticmethod
    def arguments(i, dim, index, src):
        return i, dim, index, src


class Scatter(ScatterWrite, op="scatter"):
    pass


class ScatterAdd(ScatterWrite, op="scatter_add"):
    pass


class Sort(OpFunction, op="sort"):
    @staticmethod
    def arguments(i, dim=None, descending=False, return_indices=True):
        return i, dim, descending

    @classmethod
    def call(cls, i, dim=None, descending=False, return_indices=True):
        pair = super().call(i, dim, descending)
        return pair if return_indices else pair[0]


class Topk(OpFunction, op="topk"):
    @staticmethod
    def arguments(i, k, dim=None, largest=True, sort=True, return_indices=True):
        return i, k, dim, largest, sort

    @classmethod
    def call(cls, i, k, dim=None, largest=True, sort=True, return_indices=True):
        pair = super().call(i, k, dim, largest, sort)
        return pair if return_indices else pair[0]


class Cumulative(OpFunction):
    @staticmethod
    def arguments(i, dim):
        return i, dim


class Cumsum(Cumulative, op="cumsum"):
    pass


class Cumprod(Cumulative, op="cumprod"):
    pass


# ---- masks ---------------------------------------------------------------------------------------------------


class MaskedScatter(InplaceOpFunction, op="masked_scatter"):
    @staticmethod
    def arguments(t, mask, src):
        return t, mask, src


class MaskedFill(InplaceOpFunction, op="masked_fill"):
    @staticmethod
    def arguments(t, mask, value):
        return t, mask, value


class MaskedSelect(OpFunction, op="masked_select"):
    @staticmethod
    def arguments(t, mask):
        return t, mask
