"""Pooling over one to three dimensions."""

from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module
from torchlite.nn.modules.utils import n_tuple

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]


class _Pool(Module):
    """A window of `kernel_size` that moves in steps of `stride`, by default its own size."""

    _dims: int
    _options: tuple[str, ...] = ()

    def __init__(self, kernel_size, stride, padding, ceil_mode):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode

    def __repr__(self):
        options = [f"{name}={n_tuple(getattr(self, name), self._dims)}" for name in self._options]
        return f"{type(self).__name__} (size={n_tuple(self.kernel_size, self._dims)}, {', '.join(options)})"


class _MaxPool(_Pool):
    _options = ("stride", "padding", "dilation")

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = dilation
        self.return_indices = return_indices

    def _apply_to(self, function, input):
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool1d(_MaxPool):
    """Largest element under a window that moves over each row of (N, C, L): (N, C, L'). See `MaxPool2d`."""

    _dims = 1

    def forward(self, input):
        return self._apply_to(F.max_pool1d, input)


class MaxPool2d(_MaxPool):
    """Largest element under a window that moves over each plane of (N, C, H, W): (N, C, H', W').

    `kernel_size`, `stride` (default: the kernel's), `padding` and `dilation` are ints or pairs. With `ceil_mode` a last
    window may reach beyond the border. `return_indices` adds the flat position of each maximum in its plane.
    """

    _dims = 2

    def forward(self, input):
        return self._apply_to(F.max_pool2d, input)


class MaxPool3d(_MaxPool):
    """Largest element under a window that moves over each volume of (N, C, D, H, W). See `MaxPool2d`."""

    _dims = 3

    def forward(self, input):
        return self._apply_to(F.max_pool3d, input)


class _AvgPool(_Pool):
    _options = ("stride", "padding")

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def _apply_to(self, function, input):
        return function(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool1d(_AvgPool):
    """Mean under a window that moves over each row of (N, C, L): (N, C, L'). See `AvgPool2d`."""

    _dims = 1

    def forward(self, input):
        return self._apply_to(F.avg_pool1d, input)


class AvgPool2d(_AvgPool):
    """Mean under a window that moves over each plane of (N, C, H, W): (N, C, H', W').

    `kernel_size`, `stride` (default: the kernel's) and `padding` are ints or pairs. With `ceil_mode` a last window may
    reach beyond the border. The padding counts as zeros if `count_include_pad`, else not at all.
    """

    _dims = 2

    def forward(self, input):
        return self._apply_to(F.avg_pool2d, input)


class AvgPool3d(_AvgPool):
    """Mean under a window that moves over each volume of (N, C, D, H, W). See `AvgPool2d`."""

    _dims = 3

    def forward(self, input):
        return self._apply_to(F.avg_pool3d, input)
