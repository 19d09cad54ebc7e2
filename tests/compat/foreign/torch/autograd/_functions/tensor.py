import torch

from ..function import Function, InplaceFunction
from .utils import target, unexpand


def _variable(tensor):
    return torch.autograd.Variable(tensor)


def _zeros(g, size):
    return _variable(g.data.new(*size).zero_())


class Index(Function):
    @staticmethod
    def forward(ctx, i, index):
        ctx.size, ctx.index = i.size(), index
        ctx.advanced = i._check_advanced_indexing(index)
        result = i.index(index)
        if not ctx.advanced and not torch.is_tensor(index):
            ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        if ctx.advanced:
            return AdvancedIndexAdd.apply(_zeros(g, ctx.size), ctx.index, g), None
        return SetItem.apply(_zeros(g, ctx.size), ctx.index, g), None


class SetItem(InplaceFunction):
    @staticmethod
    def forward(ctx, i, index, value):
        ctx.index, ctx.is_tensor = index, torch.is_tensor(value)
        ctx.mark_dirty(i)
        if ctx.is_tensor:
            ctx.value_size = value.size()
        i._set_index(index, value)
        return i

    @staticmethod
    def backward(ctx, g):
        by_old = g.clone()
        by_old = SetItem.apply(by_old, ctx.index, 0)
        by_value = Index.apply(g, ctx.index).contiguous().view(ctx.value_size) if ctx.is_tensor else None
        return by_old, None, by_value


class AdvancedIndexAdd(InplaceFunction):
    @staticmethod
    def forward(ctx, t, index, src):
        ctx.index, ctx.size = index, src.size()
        ctx.mark_dirty(t)
        return t._advanced_index_add(index, src)

    @staticmethod
    def backward(ctx, g):
        selected = _variable(g.data._advanced_index_select(ctx.index).view(ctx.size))
        return g, None, selected


class NoGrad(Function):
    def forward(self, i):
        result = i.new(i)
        self.mark_non_differentiable(result)
        self.mark_shared_storage((i, result))
        return result

    def backward(self, g):
        raise AssertionError("no gradient flows here")


class Transpose(Function):
    @staticmethod
    def forward(ctx, i, d1, d2):
        result = i.transpose(d1, d2)
        ctx.dims = d1, d2
        ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        return g.transpose(*ctx.dims), None, None


class View(Function):
    @staticmethod
    def forward(ctx, i, sizes):
        ctx.size = i.size()
        result = i.view(*sizes)
        ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        return g.contiguous().view(ctx.size), None


class Expand(Function):
    @staticmethod
    def forward(ctx, i, sizes):
        ctx.size = i.size()
        result = i.expand(*sizes)
        ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        return unexpand(g, ctx.size), None


class Type(Function):
    @staticmethod
    def forward(ctx, i, t):
        ctx.type = type(i)
        return i.type(t)

    @staticmethod
    def backward(ctx, g):
        return g.type(ctx.type), None


class Permute(Function):
    @staticmethod
    def forward(ctx, i, dims):
        ctx.back = [0] * len(dims)
        for place, dim in enumerate(dims):
            ctx.back[dim] = place
        result = i.permute(*dims)
        ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        return g.permute(*ctx.back), None


class IndexAdd(InplaceFunction):
    @staticmethod
    def forward(ctx, t, dim, index, src, inplace=False):
        ctx.dim, ctx.index = dim, index
        return target(ctx, t, inplace).index_add_(dim, index, src)

    @staticmethod
    def backward(ctx, g):
        return g, None, None, g.index_select(ctx.dim, _variable(ctx.index)), None


class IndexCopy(InplaceFunction):
    @staticmethod
    def forward(ctx, t, dim, index, src, inplace=False):
        ctx.dim, ctx.index = dim, index
        return target(ctx, t, inplace).index_copy_(dim, index, src)

    @staticmethod
    def backward(ctx, g):
        index = _variable(ctx.index)
        return g.clone().index_fill_(ctx.dim, index, 0), None, None, g.index_select(ctx.dim, index), None


class IndexFill(InplaceFunction):
    @staticmethod
    def forward(ctx, t, dim, index, value, inplace=False):
        ctx.dim, ctx.index = dim, index
        return target(ctx, t, inplace).index_fill_(dim, index, value)

    @staticmethod
    def backward(ctx, g):
        return g.clone().index_fill_(ctx.dim, _variable(ctx.index), 0), None, None, None, None


class IndexSelect(Function):
    @staticmethod
    def forward(ctx, t, dim, index):
        ctx.size, ctx.dim, ctx.index = t.size(), dim, index
        return t.index_select(dim, index)

    @staticmethod
    def backward(ctx, g):
        return _zeros(g, ctx.size).index_add_(ctx.dim, _variable(ctx.index), g), None, None


class Concat(Function):
    @staticmethod
    def forward(ctx, dim, *inputs):
        ctx.dim, ctx.sizes = dim, [i.size(dim) for i in inputs]
        return torch.cat(inputs, dim)

    @staticmethod
    def backward(ctx, g):
        start, parts = 0, []
        for n in ctx.sizes:
            parts.append(g.narrow(ctx.dim, start, n))
            start += n
        return (None,) + tuple(parts)


class Resize(Function):
    @staticmethod
    def forward(ctx, t, sizes):
        ctx.size = t.size()
        if torch.Size(sizes).numel() != t.numel():
            raise RuntimeError("requested resize to {} ({} elements in total), but the given tensor has {}".format(
                "x".join(map(str, sizes)), torch.Size(sizes).numel(), t.numel()))
        result = t.contiguous().view(*sizes)
        ctx.mark_shared_storage((t, result))
        return result

    @staticmethod
    def backward(ctx, g):
        return g.contiguous().view(ctx.size), None


class Clone(Function):
    @staticmethod
    def forward(ctx, i):
        return i.clone()

    @staticmethod
    def backward(ctx, g):
        return g


class Squeeze(InplaceFunction):
    @staticmethod
    def forward(ctx, i, dim=None, inplace=False):
        ctx.size = i.size()
        args = () if dim is None else (dim,)
        if inplace:
            ctx.mark_dirty(i)
            return i.squeeze_(*args)
        result = i.squeeze(*args)
        ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        return g.contiguous().view(ctx.size), None, None


class Unsqueeze(Function):
    @staticmethod
    def forward(ctx, i, dim):
        ctx.dim = dim
        result = i.unsqueeze(dim)
        ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        return g.squeeze(ctx.dim), None


class MaskedScatter(InplaceFunction):
    @staticmethod
    def forward(ctx, t, mask, src, inplace=False):
        ctx.mask, ctx.size = mask, src.size()
        return target(ctx, t, inplace).masked_scatter_(mask, src)

    @staticmethod
    def backward(ctx, g):
        mask = _variable(ctx.mask)
        selected = g.masked_select(mask)
        spare = torch.Size(ctx.size).numel() - selected.numel()
        if spare:
            selected = torch.cat([selected, _zeros(g, (spare,))], 0)
        return g.clone().masked_fill_(mask, 0), None, selected.view(ctx.size), None


class MaskedFill(InplaceFunction):
    @staticmethod
    def forward(ctx, t, mask, value, inplace=False):
        ctx.mask = mask
        return target(ctx, t, inplace).masked_fill_(mask, value)

    @staticmethod
    def backward(ctx, g):
        return g.clone().masked_fill_(_variable(ctx.mask), 0), None, None, None


class MaskedSelect(Function):
    @staticmethod
    def forward(ctx, t, mask):
        ctx.size, ctx.common = t.size(), torch._C._infer_size(t.size(), mask.size())
        ctx.mask = mask.expand(ctx.common)
        return t.masked_select(mask)

    @staticmethod
    def backward(ctx, g):
        everywhere = _zeros(g, ctx.common).masked_scatter_(_variable(ctx.mask), g)
        return unexpand(everywhere, ctx.size), None


class _Ordering(Function):
    """(values, indices) or the values alone; the gradient goes where the value stood."""

    @staticmethod
    def backward(ctx, g, g_index=None):
        zeros = _zeros(g, ctx.size)
        return (zeros.scatter(ctx.dim, _variable(ctx.index), g),) + (None,) * ctx.others


class Sort(_Ordering):
    @staticmethod
    def forward(ctx, i, dim=None, descending=False, return_indices=True):
        ctx.size, ctx.dim, ctx.others = i.size(), i.dim() - 1 if dim is None else dim, 3
        values, ctx.index = i.sort(ctx.dim, descending)
        if not return_indices:
            return values
        ctx.mark_non_differentiable(ctx.index)
        return values, ctx.index


class Topk(_Ordering):
    @staticmethod
    def forward(ctx, i, k, dim=None, largest=True, sort=True, return_indices=True):
        ctx.size, ctx.dim, ctx.others = i.size(), i.dim() - 1 if dim is None else dim, 5
        values, ctx.index = i.topk(k, ctx.dim, largest, sort)
        if not return_indices:
            return values
        ctx.mark_non_differentiable(ctx.index)
        return values, ctx.index


class Chunk(Function):
    @staticmethod
    def forward(ctx, i, n, dim=0):
        ctx.dim = dim
        parts = i.chunk(n, dim)
        ctx.mark_shared_storage(*((i, part) for part in parts))
        return parts

    @staticmethod
    def backward(ctx, *gs):
        return torch.cat(gs, ctx.dim), None, None


class Gather(Function):
    @staticmethod
    def forward(ctx, i, dim, index):
        ctx.size, ctx.dim, ctx.index = i.size(), dim, index
        return i.gather(dim, index)

    @staticmethod
    def backward(ctx, g):
        return _zeros(g, ctx.size).scatter_add_(ctx.dim, _variable(ctx.index), g), None, None


class Scatter(InplaceFunction):
    @staticmethod
    def forward(ctx, i, dim, index, src, inplace=False):
        ctx.dim, ctx.index, ctx.is_tensor = dim, index, torch.is_tensor(src)
        return target(ctx, i, inplace).scatter_(dim, index, src)

    @staticmethod
    def backward(ctx, g):
        index = _variable(ctx.index)
        by_source = g.gather(ctx.dim, index) if ctx.is_tensor else None
        return g.clone().scatter_(ctx.dim, index, 0), None, None, by_source, None


class ScatterAdd(InplaceFunction):
    @staticmethod
    def forward(ctx, i, dim, index, src, inplace=False):
        ctx.dim, ctx.index = dim, index
        return target(ctx, i, inplace).scatter_add_(dim, index, src)

    @staticmethod
    def backward(ctx, g):
        return g, None, None, g.gather(ctx.dim, _variable(ctx.index)), None


class Repeat(Function):
    @staticmethod
    def forward(ctx, i, repeats):
        ctx.repeats, ctx.size = repeats, i.size()
        return i.repeat(*repeats)

    @staticmethod
    def backward(ctx, g):
        for dim, times in enumerate(ctx.repeats):
            if times > 1:
                parts = g.chunk(times, dim)
                g = parts[0]
                for part in parts[1:]:
                    g = g + part
        return g.contiguous().view(ctx.size), None


class Cumsum(Function):
    @staticmethod
    def forward(ctx, i, dim):
        ctx.dim = dim
        return torch.cumsum(i, dim)

    @staticmethod
    def backward(ctx, g):
        total = g.sum(ctx.dim, keepdim=True)
        return total.expand_as(g) - g.cumsum(ctx.dim) + g, None


class Cumprod(Function):
    @staticmethod
    def forward(ctx, i, dim):
        ctx.dim = dim
        ctx.save_for_backward(i)
        return torch.cumprod(i, dim)

    @staticmethod
    def backward(ctx, g):
        i, = ctx.saved_variables
        columns = [i.narrow(ctx.dim, k, 1) for k in range(i.size(ctx.dim))]
        gradients = [g.narrow(ctx.dim, k, 1) for k in range(len(columns))]
        parts = []
        for j in range(len(columns)):
            product = None
            for k in range(j):
                product = columns[k] if product is None else product * columns[k]
            part = gradients[j] if product is None else gradients[j] * product
            for k in range(j + 1, len(columns)):
                product = columns[k] if product is None else product * columns[k]
                part = part + gradients[k] * product
            parts.append(part)
        return torch.cat(parts, ctx.dim), None


class Unfold(Function):
    @staticmethod
    def forward(ctx, i, dim, size, step):
        ctx.args, ctx.size = (dim, size, step), i.size()
        result = i.unfold(dim, size, step)
        ctx.mark_shared_storage((i, result))
        return result

    @staticmethod
    def backward(ctx, g):
        places = torch.arange(0, torch.Size(ctx.size).numel()).long().view(ctx.size).unfold(*ctx.args)
        flat = _zeros(g, (torch.Size(ctx.size).numel(),))
        flat = flat.index_add(0, _variable(places.contiguous().view(-1)), g.contiguous().view(-1))
        return flat.view(ctx.size), None, None, None
