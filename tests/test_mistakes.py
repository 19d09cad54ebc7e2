"""What beginners get wrong: the error names the function, the argument and what was expected."""

import re

import numpy as np
import pytest

import torchlite
from torchlite import Function, Variable, nn, optim


def leaf(*sizes):
    return Variable(np.ones(sizes), requires_grad=True)


def single(*sizes):
    return Variable(np.ones(sizes, np.float32))


class NoBackward(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def backward_twice():
    y = (leaf(3) ** 2).sum()
    y.backward()
    y.backward()


def changed_after_saving():
    y = leaf(3) * 2
    z = y ** 2
    y.add_(1)
    z.sum().backward()


MISTAKES = {
    "a list instead of an array": (
        lambda: Variable([1.0]), RuntimeError,
        "Variable data has to be a tensor, but got list",
    ),
    "integers that require grad": (
        lambda: Variable(np.arange(3), requires_grad=True), RuntimeError,
        "Variable: .*Long",
    ),
    "a misspelt argument": (
        lambda: Variable(np.ones(3), require_grad=True), TypeError,
        "Variable.*'require_grad'|'require_grad'.*Variable",
    ),
    "requires_grad = 1": (lambda: setattr(leaf(3), "requires_grad", 1), RuntimeError, "requires_grad.*bool, not int"),
    "NumPy's axis": (lambda: leaf(3).sum(axis=0), TypeError, r"sum .*expected one of: sum\(.*dim=None.*'axis'"),
    "np.sum of a Variable": (lambda: np.sum(leaf(3)), TypeError, "sum .*keyword argument 'axis'"),
    "an array of a Variable with a graph": (lambda: leaf(3).numpy(), RuntimeError, "requires grad.*\\.data"),
    "a dimension that does not exist": (
        lambda: leaf(3, 4).sum(2), RuntimeError,
        r"sum: dimension.*\[-2, 1\], but got 2",
    ),
    "a dimension that is no int": (lambda: leaf(3).mean("x"), TypeError, "mean: dim must be .*str"),
    "unsqueeze beyond the end": (lambda: leaf(3).unsqueeze(4), RuntimeError, r"unsqueeze: .*\[-2, 1\], but got 4"),
    "a size that is no int": (lambda: leaf(4).view(2.0, 2), TypeError, "view .*element 0 of argument 'sizes'.*float"),
    "matrices that do not fit": (lambda: leaf(3, 4).mm(leaf(3, 4)), RuntimeError, r"mm: .*\(3, 4\).*\(3, 4\)"),
    "sizes that do not broadcast": (lambda: leaf(3, 4) + leaf(2, 4), RuntimeError, r"add: .*\(3, 4\).*\(2, 4\)"),
    "tensors of different sizes": (
        lambda: torchlite.cat([leaf(3, 4), leaf(3, 5)]), RuntimeError,
        r"cat: .*\(3, 5\).*\(3, 4\)",
    ),
    "a tensor among Variables": (lambda: leaf(3) + torchlite.ones(3), AssertionError, "add: .*wrap the tensor"),
    "backward of a vector": (lambda: (leaf(3) * 2).backward(), RuntimeError, "only for scalar outputs"),
    "backward twice": (backward_twice, RuntimeError, "second time.*retain_graph=True"),
    "a write to what was saved": (
        changed_after_saving, RuntimeError,
        "PowConstantBackward saved it at version 0, it is now at",
    ),
    "len of a number": (lambda: len(Variable(np.array(1.0))), TypeError, r"len\(\) of a 0-d Variable"),
    "a hook that is no function": (
        lambda: leaf(3).register_hook(3), TypeError,
        "register_hook: .*callable, but got int",
    ),
    "no backward": (lambda: NoBackward.apply(leaf(3)).sum().backward(), NotImplementedError, "NoBackward: .*backward"),
    "an instance instead of apply": (lambda: NoBackward()(leaf(3)), RuntimeError, r"NoBackward\.apply"),
    "a layer of another width": (lambda: nn.Linear(3, 2)(single(4, 5)), RuntimeError, r"linear: .*\(4, 5\).*\(2, 3\)"),
    "double data for a layer": (lambda: nn.Linear(3, 2)(leaf(4, 3)), TypeError, "linear: .*Double.*Float"),
    "a pair as a GRU's state": (
        lambda: nn.GRU(3, 4)(single(2, 1, 3), (1, 2)), TypeError,
        "GRU: the hidden state.*tuple",
    ),
    "a class out of range": (lambda: nn.CrossEntropyLoss()(single(2, 3), Variable(np.array([0, 7]))), IndexError,
                             "cross_entropy: target 7 at position 1.*3 classes"),
    "a state dict that is none": (lambda: nn.Linear(3, 2).load_state_dict(3), TypeError, "load_state_dict: .*int"),
    "a Module instead of its parameters": (
        lambda: optim.SGD(nn.Linear(3, 2), lr=0.1), TypeError,
        r"Linear; pass its parameters\(\)",
    ),
    "a learning rate in quotes": (lambda: optim.SGD([leaf(3)], lr="0.1"), TypeError, "SGD: lr.*number.*'0.1'"),
    "a misspelt group": (lambda: optim.SGD([{"param": [leaf(3)]}], lr=0.1), KeyError, "'params'.*'param'"),
    "one beta": (lambda: optim.Adam([leaf(3)], betas=0.9), TypeError, "Adam: betas.*0.9"),
    "another optimiser's state": (lambda: optim.SGD([leaf(3)], lr=0.1).load_state_dict({}), KeyError, "'param_groups'"),
    "a norm in quotes": (lambda: nn.utils.clip_grad_norm([leaf(3)], "1"), TypeError, "clip_grad_norm: max_norm.*'1'"),
    "sizes in quotes": (lambda: torchlite.ones("3"), TypeError, r"sizes.*\('3',\)"),
    "ones like a list": (lambda: torchlite.ones_like([1]), TypeError, "ones_like.*list"),
    "a seed in quotes": (lambda: torchlite.manual_seed("1"), TypeError, "manual_seed: argument 'seed'.*str"),
    "a trace of no sequence": (
        lambda: torchlite.jit.make_lambda(abs, leaf(3)), TypeError,
        "make_lambda: inputs.*sequence",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_says_what_is_wrong(name):
    make, error, message = MISTAKES[name]
    with pytest.raises(error) as raised:
        make()
    assert re.search(message, str(raised.value)), str(raised.value)


def test_one_element_is_formatted_as_a_number():
    assert f"{leaf(1):.2f} {torchlite.ones(1):.2f}" == "1.00 1.00"
    with pytest.raises(TypeError):
        format(leaf(2), ".2f")
