"""The package under test: torchlite, or the one that the environment variable TORCHLITE_ERA_PACKAGE names.

The tests here use only what a PyTorch of June 2017 had, so that they can also be run with another autograd package
on top of torchlite's extension and tensors.
"""

import importlib
import os

import numpy as np

torch = importlib.import_module(os.environ.get("TORCHLITE_ERA_PACKAGE", "torchlite"))
autograd = importlib.import_module(torch.__name__ + ".autograd")
functions = importlib.import_module(torch.__name__ + ".autograd._functions")
gradients = importlib.import_module(torch.__name__ + ".autograd.gradcheck")

Function = autograd.Function
Variable = autograd.Variable
gradcheck = gradients.gradcheck
gradgradcheck = gradients.gradgradcheck


def same_values(left, right, tolerance=1e-9):
    """Requires equal types, sizes and, within `tolerance`, elements of Variables, tensors or numbers, or of tuples."""
    if isinstance(left, (tuple, list)) or isinstance(right, (tuple, list)):
        for a, b in zip(left, right, strict=True):
            same_values(a, b, tolerance)
        return
    left, right = (x.data if isinstance(x, Variable) else x for x in (left, right))
    if torch.is_tensor(left) or torch.is_tensor(right):
        assert type(left) is type(right)
        assert left.size() == right.size()
        left, right = left.numpy(), right.numpy()
    np.testing.assert_allclose(left, right, tolerance, tolerance)
