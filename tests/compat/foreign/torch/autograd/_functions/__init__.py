# ruff: noqa: F401, F403, F405
from functools import reduce

from ..function import Function, InplaceFunction, once_differentiable
from ..stochastic_function import StochasticFunction
from .basic_ops import *
from .blas import Addbmm, Addmm, Addmv, Addr, Baddbmm, Dot
from .compare import Eq, Ge, Gt, Le, Lt, Ne
from .linalg import Cross, Diag, Gesv, Inverse, Potrf, Trace, Tril, Triu
from .pointwise import *
from .reduce import Kthvalue, Max, Mean, Median, Min, Mode, Norm, Prod, Sum
from .stochastic import Bernoulli, Multinomial, Normal
from .tensor import *
from .utils import maybe_unexpand, maybe_unexpand_or_view

__all__ = sorted(
    name for name, value in globals().items()
    if isinstance(value, type) and issubclass(value, Function) and not name.startswith("_")
) + ["maybe_unexpand", "maybe_unexpand_or_view", "once_differentiable"]
