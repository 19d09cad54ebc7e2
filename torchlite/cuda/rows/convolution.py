"""Convolution and pooling in one to three dimensions, by windows: strided views of the padded planes, and products.

A convolution relates an image (N, C, ...) and a map (N, O, ...) of a window's positions in it by a weight
(O, C / groups, ...). Transposed, it makes the image of the map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from torchlite.cuda.rows.elementwise import wide

Sizes = tuple[int, ...]


def each(v: Any, n: int) -> Sizes:
    """A number for each of n dimensions."""
    values = (v,) if isinstance(v, int) else tuple(v)
    return values * n if len(values) == 1 else values


def windows(xp: Any, x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> Any:
    """(N, C, kernel..., out...): what each point of the kernel sees, a view of ``x``."""
    steps = x.strides[2:]
    points = tuple(s * d for s, d in zip(steps, dilation, strict=True))
    positions = tuple(s * d for s, d in zip(steps, stride, strict=True))
    return xp.lib.stride_tricks.as_strided(x, (*x.shape[:2], *kernel, *out), (*x.strides[:2], *points, *positions))


def padded(xp: Any, x: Any, before: Sizes, sizes: Sizes, value: Any) -> Any:
    """``x`` in planes of ``sizes``, set in by ``before``, with ``value`` around it."""
    if not any(before) and x.shape[2:] == sizes and x.flags.c_contiguous:
        return x
    out = xp.full((*x.shape[:2], *sizes), value, x.dtype)
    out[inside(before, x.shape[2:])] = x
    return out


def inside(before: Sizes, sizes: Sizes) -> tuple[Any, ...]:
    """The key of the part of padded planes that the planes take."""
    return (Ellipsis, *(slice(b, b + n) for b, n in zip(before, sizes, strict=True)))


def reached(planes: Sizes, padding: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> Sizes:
    """The size of padded planes in which every window lies."""
    return tuple(
        max(planes[d] + 2 * padding[d], (out[d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1)
        for d in range(len(planes)))


def fold(xp: Any, columns: Any, planes: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> Any:
    """The transpose of :func:`windows`: (N, C, kernel..., out...) added up in planes (N, C, ...)."""
    image = xp.zeros((*columns.shape[:2], *planes), columns.dtype)
    for point in product(*(range(k) for k in kernel)):
        at = (Ellipsis, *(
            slice(p * dilation[d], p * dilation[d] + (out[d] - 1) * stride[d] + 1, stride[d])
            for d, p in enumerate(point)))
        within = (slice(None), slice(None), *point)
        image[at] += columns[within]
    return image


class Convolution:
    def __init__(
        self, image: Sequence[int], weight: Sequence[int], map_: Sequence[int], stride: Any, padding: Any,
        dilation: Any, groups: int,
    ) -> None:
        n = len(image) - 2
        self.stride, self.padding, self.dilation = each(stride, n), each(padding, n), each(dilation, n)
        self.images, self.channels, self.features, self.groups = image[0], image[1], weight[0], groups
        self.image, self.weight, self.map = tuple(image), tuple(weight), tuple(map_)
        self.kernel, self.size, self.out = self.weight[2:], self.image[2:], self.map[2:]
        self.planes = reached(self.size, self.padding, self.kernel, self.stride, self.dilation, self.out)

    def columns(self, xp: Any, image: Any) -> Any:
        """(N, groups, C / groups kernel, positions)"""
        seen = windows(xp, padded(xp, image, self.padding, self.planes, 0), self.kernel, self.stride, self.dilation,
                       self.out)
        points = self.channels // self.groups * math.prod(self.kernel)
        return seen.reshape(self.images, self.groups, points, math.prod(self.out))

    def matrix(self, weight: Any) -> Any:
        """(groups, O / groups, C / groups kernel)"""
        points = self.channels // self.groups * math.prod(self.kernel)
        return weight.reshape(self.groups, self.features // self.groups, points)

    def grouped(self, map_: Any) -> Any:
        """(N, groups, O / groups, positions)"""
        return map_.reshape(self.images, self.groups, self.features // self.groups, math.prod(self.out))

    def map_of(self, xp: Any, image: Any, weight: Any) -> Any:
        return xp.matmul(self.matrix(weight), self.columns(xp, image)).reshape(self.map)

    def image_of(self, xp: Any, map_: Any, weight: Any) -> Any:
        columns = xp.matmul(self.matrix(weight).swapaxes(1, 2), self.grouped(map_))
        columns = columns.reshape(self.images, self.channels, *self.kernel, *self.out)
        planes = fold(xp, columns, self.planes, self.kernel, self.stride, self.dilation, self.out)
        return planes[inside(self.padding, self.size)]

    def weight_of(self, xp: Any, image: Any, map_: Any) -> Any:
        each_image = xp.matmul(self.grouped(map_), self.columns(xp, image).swapaxes(2, 3))
        return xp.sum(each_image, axis=0).reshape(self.weight)


def result_sizes(
    x: Sizes, weight: Sizes, stride: Any, padding: Any, dilation: Any, transposed: bool, more: Any, groups: int
) -> Sizes:
    n = len(x) - 2
    stride, padding, dilation, more = each(stride, n), each(padding, n), each(dilation, n), each(more, n)
    out = []
    for d in range(n):
        extent = dilation[d] * (weight[d + 2] - 1) + 1
        if transposed:
            out.append((x[d + 2] - 1) * stride[d] - 2 * padding[d] + extent + more[d])
        else:
            out.append((x[d + 2] + 2 * padding[d] - extent) // stride[d] + 1)
    return (x[0], weight[1] * groups if transposed else weight[0], *out)


def conv_nd(
    xp: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, more: Any,
    groups: int,
) -> Any:
    x, weight = wide(xp, x), wide(xp, weight)
    sizes = result_sizes(x.shape, weight.shape, stride, padding, dilation, transposed, more, groups)
    image, map_ = (sizes, x.shape) if transposed else (x.shape, sizes)
    c = Convolution(image, weight.shape, map_, stride, padding, dilation, groups)
    y = c.image_of(xp, x, weight) if transposed else c.map_of(xp, x, weight)
    return y if bias is None else y + wide(xp, bias).reshape(1, -1, *(1,) * (x.ndim - 2))


def conv_nd_backward(
    xp: Any, g: Any, other: Any, argument: int, sizes: Sequence[int], stride: Any, padding: Any, dilation: Any,
    transposed: bool, groups: int,
) -> Any:
    g, other, sizes = wide(xp, g), wide(xp, other), tuple(sizes)
    x, weight = (other.shape, sizes) if argument else (sizes, other.shape)
    image, map_ = (g.shape, x) if transposed else (x, g.shape)
    c = Convolution(image, weight, map_, stride, padding, dilation, groups)
    if argument:
        return c.weight_of(xp, g, other) if transposed else c.weight_of(xp, other, g)
    return c.map_of(xp, g, other) if transposed else c.image_of(xp, g, other)


# ---- pooling ---------------------------------------------------------------------------------------------------------


class Pool:
    def __init__(self, sizes: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> None:
        n = len(sizes) - 2
        self.size = tuple(sizes)[2:]
        self.kernel = each(kernel, n)
        self.stride = self.kernel if stride is None else each(stride, n)
        self.padding, self.dilation = each(padding, n), each(dilation, n)
        out = []
        for d in range(n):
            step, room = self.stride[d], self.size[d] + self.padding[d]
            span = room + self.padding[d] - self.dilation[d] * (self.kernel[d] - 1) - 1
            positions = (span + (step - 1 if ceil else 0)) // step + 1
            # The last window starts inside the image or its left border.
            out.append(positions - (ceil and (positions - 1) * step >= room))
        self.out = tuple(out)
        self.planes = reached(self.size, self.padding, self.kernel, self.stride, self.dilation, self.out)

    def along(self, d: int, values: Any) -> Any:
        """A vector over the positions of dimension d, in a shape that broadcasts against the result."""
        shape = [1] * len(self.out)
        shape[d] = -1
        return values.reshape(shape)

    def seen(self, xp: Any, x: Any, value: Any) -> Any:
        """(N, C, points, out...)"""
        planes = padded(xp, x, self.padding, self.planes, value)
        seen = windows(xp, planes, self.kernel, self.stride, self.dilation, self.out)
        return seen.reshape(*x.shape[:2], math.prod(self.kernel), *self.out)


def max_pool_nd(xp: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Any:
    """Maxima and their flat positions in each plane, the first at a tie; NaN is the largest."""
    x = wide(xp, x)
    p = Pool(x.shape, kernel, stride, padding, dilation, ceil)
    seen = p.seen(xp, x, -math.inf)
    first = xp.expand_dims(xp.argmax(seen, axis=2), 2)
    values = xp.take_along_axis(seen, first, 2)[:, :, 0]
    point = first[:, :, 0]
    flat = xp.zeros_like(point)
    for d, size in enumerate(p.size):
        within = math.prod(p.kernel[d + 1:])
        start = p.along(d, xp.arange(p.out[d]) * p.stride[d] - p.padding[d])
        flat = flat * size + (point // within % p.kernel[d] * p.dilation[d] + start)
    return values, flat


def _shares(xp: Any, p: Pool, include_padding: bool, kind: Any) -> Any:
    """What each element under a window counts: 1 / the number of them."""
    count: Any = None
    for d in range(len(p.out)):
        start = xp.arange(p.out[d]) * p.stride[d] - p.padding[d]
        end = xp.minimum(start + p.kernel[d], p.size[d] + p.padding[d])
        if not include_padding:
            start, end = xp.maximum(start, 0), xp.minimum(end, p.size[d])
        reach = p.along(d, end - start)
        count = reach if count is None else count * reach
    return 1 / count.astype(kind)


def avg_pool_nd(xp: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, include_padding: bool) -> Any:
    x = wide(xp, x)
    p = Pool(x.shape, kernel, stride, padding, 1, ceil)
    return xp.sum(p.seen(xp, x, 0), axis=2) * _shares(xp, p, include_padding, x.dtype)


def avg_pool_nd_backward(
    xp: Any, g: Any, sizes: Sequence[int], kernel: Any, stride: Any, padding: Any, ceil: bool, include_padding: bool
) -> Any:
    g = wide(xp, g)
    p = Pool(sizes, kernel, stride, padding, 1, ceil)
    share = g * _shares(xp, p, include_padding, g.dtype)
    columns = xp.broadcast_to(share.reshape(*g.shape[:2], *(1,) * len(p.kernel), *p.out),
                              (*g.shape[:2], *p.kernel, *p.out))
    planes = fold(xp, columns, p.planes, p.kernel, p.stride, p.dilation, p.out)
    return planes[inside(p.padding, p.size)]


FORWARD = {
    "conv_nd": conv_nd, "conv_nd_backward": conv_nd_backward, "max_pool_nd": max_pool_nd, "avg_pool_nd": avg_pool_nd,
    "avg_pool_nd_backward": avg_pool_nd_backward,
}
