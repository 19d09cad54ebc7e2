"""Convolutions over one to three dimensions."""

import math

import torchlite
from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module
from torchlite.nn.modules.utils import n_tuple
from torchlite.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(Module):
    """A convolution over `_dims` dimensions; `_transposed` ones give the gradient of one."""

    _dims: int
    _transposed = False

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias
    ):
        super().__init__()
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = n_tuple(kernel_size, self._dims)
        self.stride = n_tuple(stride, self._dims)
        self.padding = n_tuple(padding, self._dims)
        self.dilation = n_tuple(dilation, self._dims)
        self.transposed = self._transposed
        self.output_padding = n_tuple(output_padding, self._dims)
        self.groups = groups
        channels = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        self.weight = Parameter(torchlite.Tensor(channels[0], channels[1] // groups, *self.kernel_size))
        self.register_parameter("bias", Parameter(torchlite.Tensor(out_channels)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values."""
        bound = 1 / math.sqrt(self.in_channels // self.groups * math.prod(self.kernel_size))
        self.weight.data.uniform_(-bound, bound)
        if self.bias is not None:
            self.bias.data.uniform_(-bound, bound)

    def __repr__(self):
        text = f"{type(self).__name__}({self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        zeros, ones = (0,) * self._dims, (1,) * self._dims
        for name, default in (("padding", zeros), ("dilation", ones), ("output_padding", zeros), ("groups", 1)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text + (")" if self.bias is not None else ", bias=False)")


class _Conv(_ConvNd):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias)

    def _apply_to(self, function, input):
        return function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Cross-correlation of (N, in_channels, L) with `out_channels` kernels, plus a bias: (N, out_channels, L').

    The arguments are those of `Conv2d`, with one number in place of pairs; `weight` is
    (out_channels, in_channels / groups, l).
    """

    _dims = 1

    def forward(self, input):
        return self._apply_to(F.conv1d, input)


class Conv2d(_Conv):
    """Cross-correlation of (N, in_channels, H, W) with `out_channels` kernels, plus a bias: (N, out_channels, H', W').

    `kernel_size`, `stride`, `padding` and `dilation` are ints or pairs; channels are connected within `groups` groups.
    `weight` (out_channels, in_channels / groups, h, w) and `bias` (out_channels,) start uniform in +-1/sqrt(fan-in).

    ValueError if the channels cannot be divided into the groups.
    """

    _dims = 2

    def forward(self, input):
        return self._apply_to(F.conv2d, input)


class Conv3d(_Conv):
    """Cross-correlation of (N, in_channels, D, H, W) with `out_channels` kernels: (N, out_channels, D', H', W').

    The arguments are those of `Conv2d`, with triples in place of pairs; `weight` is
    (out_channels, in_channels / groups, d, h, w).
    """

    _dims = 3

    def forward(self, input):
        return self._apply_to(F.conv3d, input)


class _ConvTranspose(_ConvNd):
    _transposed = True

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1,
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias
        )

    def _output_padding(self, input, output_size):
        """The output padding that gives `output_size`; ValueError where none does."""
        if output_size is None:
            return self.output_padding
        sizes = tuple(output_size)
        if len(sizes) == self._dims + 2:
            sizes = sizes[2:]
        if len(sizes) != self._dims:
            raise ValueError(
                f"output_size must have {self._dims} or {self._dims + 2} elements (got {len(output_size)})"
            )
        least = tuple(
            (input.size(d + 2) - 1) * self.stride[d] - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1) + 1
            for d in range(self._dims)
        )
        most = tuple(size + stride - 1 for size, stride in zip(least, self.stride, strict=True))
        if any(not low <= size <= high for low, size, high in zip(least, sizes, most, strict=True)):
            raise ValueError(
                f"requested an output size of {sizes}, but valid sizes range from {least} to {most} "
                f"(for an input of {tuple(input.size())[2:]})"
            )
        return tuple(size - low for size, low in zip(sizes, least, strict=True))

    def _apply_to(self, function, input, output_size):
        padding = self._output_padding(input, output_size)
        return function(
            input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTranspose):
    """The gradient of a `Conv1d` for its input, as a layer: (N, in_channels, L) gives (N, out_channels, L').

    The arguments are those of `ConvTranspose2d`, with one number in place of pairs.
    """

    _dims = 1

    def forward(self, input, output_size=None):
        return self._apply_to(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTranspose):
    """The gradient of a `Conv2d` for its input, as a layer: (N, in_channels, H, W) gives (N, out_channels, H', W').

    H' = (H - 1) stride - 2 padding + dilation (kernel_size - 1) + 1 + output_padding, which `forward` can be asked for
    instead as `output_size`, with or without (N, C). `weight` is (in_channels, out_channels / groups, h, w).

    ValueError if the channels cannot be divided into the groups, or if no output padding gives `output_size`.
    """

    _dims = 2

    def forward(self, input, output_size=None):
        return self._apply_to(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTranspose):
    """The gradient of a `Conv3d` for its input, as a layer: (N, in_channels, D, H, W) to (N, out_channels, D', H', W').

    The arguments are those of `ConvTranspose2d`, with triples in place of pairs.
    """

    _dims = 3

    def forward(self, input, output_size=None):
        return self._apply_to(F.conv_transpose3d, input, output_size)
