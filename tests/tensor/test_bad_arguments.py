"""Every method of tensors and Variables with arguments that do not fit: the error is of a documented class and names
the method, and nothing has changed."""

import re
import warnings

import numpy as np
import pytest

import torchlite
from torchlite import Variable

BAD = {
    "text": "text", "None": None, "an object": object(), "a list of texts": ["a"], "9": 9, "-9": -9,
    "a tensor of another size": torchlite.ones(7), "a Variable of another size": Variable(torchlite.ones(7)),
    "1.5": 1.5, "a dict": {}, "an array of texts": np.array(["a"]), "a huge int": 10**30, "1j": 1j, "NaN": float("nan"),
}
CLASSES = (TypeError, RuntimeError, ValueError, IndexError, OverflowError, AssertionError, ZeroDivisionError,
           NotImplementedError)
# Texts of the era, which did not name the method.
ERA = re.compile(
    r"dimension out of range|invalid argument \d: |invalid size|out of range for dimension|is ambiguous|"
    r"Maximum allowed size|Performing basic indexing|tried to construct a tensor from|cannot resize a storage|"
    r"only tensors of one element are numbers|is too large for a size"
)
# What runs a callable or a backward, or has no argument that could be wrong.
OTHER = {"register_hook", "apply_", "map_", "map2_", "backward", "reinforce", "share_memory_", "retain_grad", "detach_"}
# Methods that are another under an old name: the error names that one.
ALIASES = {"masked_copy": "masked_scatter", "masked_copy_": "masked_scatter", "expand_as": "expand", "view_as": "view",
           "btrisolve": "btrifact", "resize_as": "resize"}


def make(kind):
    x = torchlite.from_numpy(np.array([[1.0, 2, 3], [4, 5, 6]]))
    return x if kind == "tensor" else Variable(x)


def methods(kind):
    x = make(kind)
    names = [n for n in dir(x) if not n.startswith("_") and n != "data" and n not in OTHER]
    return [n for n in names if hasattr(x, n) and callable(getattr(x, n))]


def state(x):
    data = x if isinstance(x, torchlite._C._TensorBase) else x.data
    return data.tolist(), tuple(data.size()), data.stride(), getattr(x, "_version", 0)


@pytest.mark.parametrize("kind,name", [(kind, name) for kind in ("tensor", "Variable") for name in methods(kind)])
def test_a_wrong_argument_is_named_and_changes_nothing(kind, name):
    accepted = (name.rstrip("_"), ALIASES.get(name, name))
    for before in ([], [0], [make(kind)]):
        for what, value in BAD.items():
            x = make(kind)
            unchanged = state(x)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    getattr(x, name)(*before, value)
            except CLASSES as error:
                text = str(error)
                assert any(n in text for n in accepted) or ERA.search(text), f"{name}({before}, {what}): {error!r}"
                assert state(x) == unchanged, f"{name}({before}, {what})"
