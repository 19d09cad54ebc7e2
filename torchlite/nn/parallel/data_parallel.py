"""One module over several devices, each with a part of the batch."""

from torchlite import cuda
from torchlite.cuda._transfer import device_index
from torchlite.nn.modules.module import Module
from torchlite.nn.parallel.parallel_apply import parallel_apply
from torchlite.nn.parallel.replicate import replicate
from torchlite.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """`module(*inputs, **module_kwargs)` with the batch, dimension `dim` of all Variables, split over `device_ids`.

    The module has to lie on `device_ids[0]` (all devices by default); it is copied to the others for this call, and the
    results are joined on `output_device` (by default the first one; -1 is the host). Gradients arrive in the module's
    parameters, and are those of one device up to the order of sums.

    RuntimeError if a parameter or buffer lies elsewhere.
    """
    if not isinstance(inputs, tuple):
        inputs = (inputs,)
    device_ids = list(range(cuda.device_count())) if device_ids is None else [device_index(d) for d in device_ids]
    if not device_ids:
        return module(*inputs, **(module_kwargs or {}))
    output_device = device_ids[0] if output_device is None else output_device
    _require_on(module, device_ids[0])
    inputs, kwargs = scatter_kwargs(inputs, module_kwargs, device_ids, dim)
    if len(inputs) <= 1:
        args, named = (inputs[0], kwargs[0]) if inputs else ((), {})
        with cuda.device(device_ids[0]):
            return gather([module(*args, **named)], output_device, dim)
    used = device_ids[:len(inputs)]
    return gather(parallel_apply(replicate(module, used), inputs, kwargs, used), output_device, dim)


def _require_on(module, device):
    for name, tensor in module.state_dict().items():
        if not tensor.is_cuda or tensor.get_device() != device:
            place = f"device {tensor.get_device()}" if tensor.is_cuda else "the host"
            raise RuntimeError(
                f"data_parallel: the module has to lie on the first device, {device}, but '{name}' lies on {place}"
            )


class DataParallel(Module):
    """Runs a module on several devices, each with a part of the batch.

    DataParallel(module, device_ids=None, output_device=None, dim=0): see `data_parallel`. The module is moved to the
    first device. Without a device it runs where it is.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.dim = dim
        self.module = module
        self.device_ids = list(range(cuda.device_count())) if device_ids is None else list(device_ids)
        self.output_device = output_device
        if output_device is None and self.device_ids:
            self.output_device = self.device_ids[0]
        if self.device_ids:
            module.cuda(self.device_ids[0])

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        return data_parallel(self.module, inputs, self.device_ids, self.output_device, self.dim, kwargs)
