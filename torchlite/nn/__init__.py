"""Networks: modules that hold parameters, the functions they use, initial values and gradient clipping."""

from torchlite.nn import functional, init, parallel, utils
from torchlite.nn.modules import *  # noqa: F403
from torchlite.nn.modules import __all__ as _modules
from torchlite.nn.parallel import DataParallel
from torchlite.nn.parameter import Parameter

__all__ = ["DataParallel", "Parameter", "functional", "init", "parallel", "utils", *_modules]
