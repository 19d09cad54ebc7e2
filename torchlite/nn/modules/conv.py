"""Convolution and pooling over images."""

import math

import torchlite
from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module
from torchlite.nn.parameter import Parameter

__all__ = ["Conv2d", "MaxPool2d"]


def _pair(value):
    """(a, b), or (value, value) for an int."""
    return (value, value) if isinstance(value, int) else tuple(value)


class Conv2d(Module):
    """Cross-correlation of (N, in_channels, H, W) with `out_channels` kernels, plus a bias: (N, out_channels, H', W').

    `kernel_size`, `stride`, `padding` and `dilation` are ints or pairs; channels are connected within `groups` groups.
    `weight` (out_channels, in_channels / groups, h, w) and `bias` (out_channels,) start uniform in +-1/sqrt(fan-in).

    ValueError if the channels cannot be divided into the groups.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        super().__init__()
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(stride)
        self.padding = _pair(padding)
        self.dilation = _pair(dilation)
        self.groups = groups
        self.weight = Parameter(torchlite.Tensor(out_channels, in_channels // groups, *self.kernel_size))
        self.register_parameter("bias", Parameter(torchlite.Tensor(out_channels)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values."""
        bound = 1 / math.sqrt(self.in_channels // self.groups * self.kernel_size[0] * self.kernel_size[1])
        self.weight.data.uniform_(-bound, bound)
        if self.bias is not None:
            self.bias.data.uniform_(-bound, bound)

    def forward(self, input):
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def __repr__(self):
        text = f"{type(self).__name__}({self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text + (")" if self.bias is not None else ", bias=False)")


class MaxPool2d(Module):
    """Largest element under a window that moves over each plane of (N, C, H, W): (N, C, H', W').

    `kernel_size`, `stride` (default: the kernel's), `padding` and `dilation` are ints or pairs. With `ceil_mode` a last
    window may reach beyond the border. `return_indices` adds the flat position of each maximum in its plane.
    """

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return F.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def __repr__(self):
        return (
            f"{type(self).__name__} (size={_pair(self.kernel_size)}, stride={_pair(self.stride)}, "
            f"padding={_pair(self.padding)}, dilation={_pair(self.dilation)})"
        )
