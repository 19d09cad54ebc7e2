"""Takes this package's Function classes through the table of arguments that torchlite's own are tested with, and prints
the failures as JSON."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.autograd._functions
import torch.autograd.gradcheck
from torch.autograd import Variable

import torchlite

gradients = sys.modules["torch.autograd.gradcheck"]

# The table imports its classes and Variable by these names.
torchlite.autograd = sys.modules["torchlite.autograd"] = sys.modules["torch.autograd"]
sys.modules["torchlite.autograd._functions"] = torch.autograd._functions
sys.path.insert(0, str(Path(__file__).parents[2] / "autograd" / "functions"))

import table_arithmetic  # noqa: E402
import table_reductions  # noqa: E402
import table_tensors  # noqa: E402
from function_inputs import make_inputs  # noqa: E402

# What this package does otherwise: it gives divisors no gradient, keys that are tensors count as one-to-one, and
# AdvancedIndexAdd always writes its argument.
OTHERWISE = ("Fmod_tensor", "Remainder_tensor", "Index_longs", "Index_tensor", "AdvancedIndexAdd")


def function_of_variables(entry):
    """The differentiable results as a function of the Variables among the arguments, and these."""
    inputs = make_inputs(entry)

    def function(*variables):
        given = iter(variables)
        result = entry.cls.apply(*(next(given) if isinstance(i, Variable) else i for i in inputs))
        results = result if isinstance(result, tuple) else (result,)
        return tuple(r for r in results if r.requires_grad)

    return function, tuple(i for i in inputs if isinstance(i, Variable))


def problem(entry):
    """What is wrong with the derivatives of an entry, or None."""
    function, variables = function_of_variables(entry)
    outputs = function(*variables)
    if not outputs:
        return None
    if not gradients.gradcheck(function, variables, atol=1e-4):
        return "first derivative"
    draw = np.random.RandomState(0).randn
    seeds = [Variable(torch.from_numpy(draw(*o.size(), 2)[..., 0]), requires_grad=True) for o in outputs]
    return None if gradients.gradgradcheck(function, variables, seeds, atol=1e-3) else "second derivative"


def main():
    warnings.simplefilter("ignore")  # operands that are paired in order warn
    entries = table_arithmetic.ENTRIES + table_reductions.ENTRIES + table_tensors.ENTRIES
    failures = {}
    for entry in entries:
        if entry.id.startswith(OTHERWISE):
            continue
        try:
            found = problem(entry)
        except Exception as e:
            found = f"{type(e).__name__}: {e}"
        if found:
            failures[entry.id] = found
    json.dump({"entries": len(entries), "failures": failures}, sys.stdout)


main()
