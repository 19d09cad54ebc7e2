"""Helpers of the formulas."""

from functools import reduce


def unexpand(x, size):
    """`x` summed over the dimensions that were added or stretched to make it from `size`."""
    while x.dim() > len(size):
        x = x.sum(0, keepdim=False)
    for dim, n in enumerate(size):
        if n == 1 and x.size(dim) != 1:
            x = x.sum(dim, keepdim=True)
    return x


def maybe_unexpand(x, size):
    return x if x.size() == size else unexpand(x, size)


def maybe_unexpand_or_view(x, size):
    if x.size() == size:
        return x
    # A flattened pair of operands has as many elements as the result; broadcasting would have changed the number.
    if x.numel() == reduce(lambda a, b: a * b, size, 1) and not _broadcasts(size, x.size()):
        return x.contiguous().view(size)
    return unexpand(x, size)


def _broadcasts(small, large):
    return len(small) <= len(large) and all(s in (1, n) for s, n in zip(reversed(small), reversed(large), strict=False))


def target(ctx, tensor, inplace):
    """What an operation writes: the tensor itself, marked as dirty, or a copy."""
    if not inplace:
        return tensor.clone()
    ctx.mark_dirty(tensor)
    return tensor
