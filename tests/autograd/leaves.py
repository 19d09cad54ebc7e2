"""Short ways to make Variables and to read them."""

import numpy as np

from torchlite.autograd import Variable


def leaf(values, requires_grad=True, dtype=np.float64, **flags):
    return Variable(np.array(values, dtype=dtype), requires_grad=requires_grad, **flags)


def constant(values, dtype=np.float64):
    return leaf(values, False, dtype)


def values(variable):
    """The numbers of a Variable or tensor as nested lists."""
    tensor = variable.data if isinstance(variable, Variable) else variable
    return np.array(tensor.numpy()).tolist()
