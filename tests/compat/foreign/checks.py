"""Runs the checks named on the command line, or all, and prints their results as JSON: {name: "" or a traceback}.

`checks.py --list` prints the names.
"""
# ruff: noqa: F401, F403, F405

import copy
import gc
import json
import pickle
import sys
import traceback
import warnings
import weakref

import numpy as np
import torch
import torch.autograd
from torch.autograd import Arg, Expr, Function, NestedIOFunction, StochasticFunction, Variable, gradcheck
from torch.autograd import function as function_module
from torch.autograd._functions import *
from torch.autograd.gradcheck import gradgradcheck

rng = np.random.RandomState(0)


def T(*size, low=-1.0, high=1.0):
    """A DoubleTensor of distinct numbers away from the kinks at whole numbers."""
    n = int(np.prod(size))
    values = (low + (high - low) * (rng.permutation(n) + 0.5) / n + 0.0137).reshape(size)
    return torch.from_numpy(values)


def P(*size):
    return T(*size, low=0.4, high=1.7)


def L(*values):
    return torch.LongTensor(list(values))


def M(*rows):
    return torch.ByteTensor([list(row) for row in rows])


def regular(n):
    return T(n, n) + torch.from_numpy(n * np.eye(n))


def positive_definite(n):
    a = T(n, n)
    return torch.mm(a, a.t()) + torch.from_numpy(n * np.eye(n))


S = slice
# Each Function class with arguments of apply; tensors of floats are made Variables that require grad.
SAMPLES = [
    ("Add", T(2, 3), T(2, 3)), ("Add", T(2, 3), T(3)), ("Add", T(2, 1), T(1, 3)), ("Sub", T(2, 3), T(2, 3)),
    ("Sub", T(2, 3), T(2, 1)), ("Mul", T(2, 3), T(2, 3)), ("Mul", T(3), T(2, 3)), ("Div", T(2, 3), P(2, 3)),
    ("Div", T(2, 3), P(3)), ("Pow", P(2, 3), P(2, 3)), ("Pow", P(2, 3), P(1)), ("AddConstant", T(2, 2), 3.14),
    ("AddConstant", 3.14, T(2, 2)), ("SubConstant", T(2, 2), 3.14), ("SubConstant", 3.14, T(2, 2)),
    ("MulConstant", T(2, 2), 3.14), ("MulConstant", 3.14, T(2, 2)), ("DivConstant", T(2, 2), 3.14),
    ("DivConstant", 3.14, P(2, 2)), ("PowConstant", P(2, 2), 3), ("PowConstant", 3.14, P(2, 2)), ("Negate", T(2, 2)),
    ("Exp", T(2, 2)), ("Tanh", T(2, 2)), ("Sigmoid", T(2, 2)), ("Rsqrt", P(2, 2)), ("Log", P(2, 2)), ("Log1p", P(2, 2)),
    ("Sinh", T(2, 2)), ("Cosh", T(2, 2)), ("Abs", T(2, 2)), ("Sqrt", P(2, 2)), ("Sin", T(2, 2)), ("Cos", T(2, 2)),
    ("Tan", T(2, 2)), ("Asin", T(2, 2, low=-.8, high=.8)), ("Acos", T(2, 2, low=-.8, high=.8)), ("Atan", T(2, 2)),
    ("Reciprocal", P(2, 2)), ("Floor", T(2, 2)), ("Ceil", T(2, 2)), ("Round", T(2, 2)), ("Sign", T(2, 2)),
    ("Trunc", T(2, 2)), ("Frac", T(2, 2)), ("Clamp", T(3, 3), -0.5, 0.6), ("CmaxConstant", T(3, 3), 0.1),
    ("CminConstant", T(3, 3), 0.1), ("Cmax", T(3, 3), T(3, 3, low=-.9)), ("Cmin", T(3, 3), T(3, 3, low=-.9)),
    ("Cmax", T(3, 3), T(3, low=-.9)), ("Atan2", P(2, 2), P(2, 2)), ("Atan2", P(2, 2), P(2)),
    ("Fmod", P(2, 2), 0.3), ("Remainder", P(2, 2), 0.3),
    ("Lerp", T(2, 2), T(2, 2), 0.4), ("Lerp", T(2, 1), T(1, 2), 0.4), ("Addcmul", T(2, 2), T(2, 2), T(2, 2)),
    ("Addcmul", T(2, 3), T(2, 3), T(2, 3), 0.3),
    ("Addcdiv", T(2, 2), T(2, 2), P(2, 2)), ("Addcdiv", T(2, 2), T(2, 2), P(2, 2), 0.3),
    ("Sum", T(2, 3)), ("Sum", T(2, 3), 1), ("Sum", T(2, 3), 0, True), ("Sum", T(3), 0), ("Prod", T(2, 3)),
    ("Prod", T(2, 3), 1), ("Prod", T(2, 3), 0, True), ("Mean", T(2, 3)), ("Mean", T(2, 3), 1),
    ("Mean", T(2, 3), -1, True), ("Max", T(2, 3)), ("Max", T(2, 3), 1), ("Max", T(2, 3), 0, True), ("Min", T(2, 3)),
    ("Min", T(2, 3), 1), ("Mode", T(2, 3)), ("Mode", T(2, 3), 0), ("Median", T(2, 3)), ("Median", T(2, 3), 1, True),
    ("Kthvalue", T(2, 3), 2), ("Kthvalue", T(2, 3), 2, 0), ("Norm", T(2, 3)), ("Norm", P(2, 3), 3),
    ("Norm", T(2, 3), 2, 1), ("Norm", P(2, 3), 1.5, 0, True), ("Addmm", T(2, 4), T(2, 3), T(3, 4)),
    ("Addmm", T(4), T(2, 3), T(3, 4), 0.4, 0.2),
    ("Addbmm", T(2, 4), T(3, 2, 5), T(3, 5, 4), 0.4, 0.2), ("Baddbmm", T(3, 2, 4), T(3, 2, 5), T(3, 5, 4), 0.4, 0.2),
    ("Addmv", T(2), T(2, 3), T(3), 0.4, 0.2), ("Addr", T(2, 3), T(2), T(3), 0.4, 0.2), ("Dot", T(3), T(3)),
    ("Diag", T(3)), ("Diag", T(3, 3)), ("Diag", T(3, 3), 1), ("Diag", T(3, 4), -1), ("Tril", T(3, 3), 1),
    ("Triu", T(3, 3), -1), ("Trace", T(3, 3)), ("Cross", T(2, 3), T(2, 3)), ("Cross", T(3, 2), T(3, 2), 0),
    ("Inverse", regular(3)), ("Gesv", T(3, 2), regular(3)),
    ("Index", T(3, 3), (S(None), 1)), ("Index", T(3, 3), 1), ("Index", T(3, 3), S(1, 3)), ("Index", T(3), 1),
    ("Index", T(3, 3), (None, Ellipsis, S(0, 2))), ("Index", T(4, 3), ([0, 0, 2], [1, 1, 0])),
    ("Index", T(4, 3, 2), (S(None), [0, 0, 2])), ("SetItem", T(3, 3), S(1, 2), 1.5),
    ("SetItem", T(3, 3), (S(None), 1), T(3)),
    ("Transpose", T(2, 3), 0, 1), ("View", T(2, 3), (3, 2)), ("Expand", T(2, 1), (2, 4)), ("Expand", T(3), (2, 3)),
    ("Permute", T(2, 3, 4), (2, 0, 1)), ("IndexAdd", T(4, 2), 0, L(0, 2, 2), T(3, 2)),
    ("IndexCopy", T(4, 2), 0, L(0, 2), T(2, 2)), ("IndexFill", T(4, 2), 0, L(0, 2), 2.0),
    ("IndexSelect", T(4, 2), 0, L(0, 2, 2)), ("Concat", 0, T(1, 3), T(2, 3)), ("Concat", -1, T(2, 1), T(2, 2), T(2, 3)),
    ("Resize", T(2, 3), (3, 2)), ("Clone", T(2, 3)), ("Squeeze", T(2, 1, 3)), ("Squeeze", T(2, 1, 3), 1),
    ("Unsqueeze", T(2, 3), 1), ("MaskedScatter", T(2, 2), M((1, 0), (1, 1)), T(5)),
    ("MaskedFill", T(2, 2), M((1, 0), (1, 1)), 3.0), ("MaskedSelect", T(2, 2), M((1, 0), (1, 1))), ("Sort", T(2, 4)),
    ("Sort", T(2, 4), 0, True), ("Sort", T(4, 2), 0, True, False), ("Topk", T(2, 4), 2), ("Topk", T(4, 2), 2, 0, False),
    ("Chunk", T(5, 2), 3), ("Chunk", T(2, 4), 2, 1), ("Gather", T(3, 2), 0, torch.LongTensor([[0, 1], [2, 2]])),
    ("Scatter", T(3, 2), 0, torch.LongTensor([[0, 1]]), T(1, 2)),
    ("ScatterAdd", T(3, 2), 0, torch.LongTensor([[0, 1], [0, 2]]), T(2, 2)), ("Repeat", T(2, 3), (2, 1, 2)),
    ("Cumsum", T(2, 3), 1), ("Cumprod", T(2, 3), 1), ("Unfold", T(7), 0, 3, 2), ("Unfold", T(2, 5), 1, 2, 1),
]  # fmt: skip
# Their first derivative can't be differentiated: it writes through an index with duplicates.
ONCE = {"Index([0, 0, 2], [1, 1, 0])", "Index(slice(None, None, None), [0, 0, 2])"}
POTRF = ("Potrf", positive_definite(3))


def strided(tensor):
    """The same values, on memory that is not contiguous."""
    wide = tensor.new(*(tuple(tensor.size()) + (2,))).zero_()
    wide.select(wide.dim() - 1, 1).copy_(tensor)
    return wide.select(wide.dim() - 1, 1)


def is_float(value):
    return torch.is_tensor(value) and "Double" in type(value).__name__


def arguments(sample, layout=lambda t: t.clone()):
    return [Variable(layout(a), requires_grad=True) if is_float(a) else Variable(a) if torch.is_tensor(a) else a
            for a in sample[1:]]


def name_of(sample):
    index = sample[2] if sample[0] == "Index" else ""
    return sample[0] + (str(index) if isinstance(index, tuple) else "")


def check_sample(sample):
    cls = globals()[sample[0]]
    numbers = [i for i, a in enumerate(sample[1:]) if is_float(a)]
    layout = (lambda t: t.clone()) if sample[0] in ("View", "Resize") else strided
    args = arguments(sample, layout)

    def call(*variables):
        full = list(args)
        for place, v in zip(numbers, variables, strict=True):
            # A Function that writes its argument gets one that is no leaf.
            full[place] = v.clone() if sample[0] == "SetItem" else v
        outputs = cls.apply(*full)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        assert all(type(o) is Variable for o in outputs)
        return tuple(o for o in outputs if is_float(o.data) and o.requires_grad)

    variables = [args[i] for i in numbers]
    outputs = call(*variables)
    assert type(outputs[0].grad_fn).__name__ == cls.__name__ + "Backward"
    assert gradcheck(call, variables, atol=1e-4)
    if name_of(sample) not in ONCE:
        seeds = [Variable(strided(T(*o.size())), requires_grad=True) for o in outputs]
        assert gradgradcheck(call, variables, seeds, atol=1e-3)
    stretched = any(o.size() != args[numbers[0]].size() for o in outputs)
    if issubclass(cls, function_module.InplaceFunction) and sample[0] != "SetItem" and not stretched:
        check_in_place(cls, sample, numbers)


def check_in_place(cls, sample, numbers):
    args = arguments(sample)
    full = list(args)
    full[numbers[0]] = args[numbers[0]].clone()
    expected = cls.apply(*args)
    parameters = ALL_PARAMETERS.get(cls.__name__, len(sample) - 1)
    full += [DEFAULTS.get(cls.__name__)] * (parameters - len(full))
    target = full[numbers[0]]
    version = target._version
    result = cls.apply(*full, True)
    assert result is target and target._version == version + 1
    assert (result.data - expected.data).abs().max() < 1e-12
    assert type(result.grad_fn).__name__ == cls.__name__ + "Backward"
    seed = T(*expected.size())
    wanted = [args[i] for i in numbers]
    first = torch.autograd.grad(expected, wanted, seed)
    reached = [args[i] for i in numbers]
    second = torch.autograd.grad(result, reached, seed)
    for a, b in zip(first, second, strict=True):
        assert (a.data - b.data).abs().max() < 1e-12


# Arguments before `inplace`, and what stands for those that a sample leaves out.
PRODUCTS = ("Addmm", "Addbmm", "Baddbmm", "Addmv", "Addr")
ALL_PARAMETERS = {"Addcmul": 4, "Addcdiv": 4, "Squeeze": 2, **{name: 5 for name in PRODUCTS}}
DEFAULTS = {name: 1 for name in ("Addcmul", "Addcdiv", *PRODUCTS)}


# ---- what the extension does with the classes of this package -------------------------------------------------------


def leaf(*size):
    return Variable(T(*size), requires_grad=True)


def check_autograd_init_takes_no_arguments_and_can_be_repeated():
    incomplete = {"_C": torch._C, "Variable": Variable}
    exec("result = _C._autograd_init()", incomplete)
    assert incomplete["result"] is False and type(leaf(1) + leaf(1)) is Variable
    namespace = {"Variable": Variable, "Function": Function, "StochasticFunction": StochasticFunction, "Expr": Expr,
                 "Arg": Arg, "_C": torch._C}  # fmt: skip
    exec("result = _C._autograd_init()", namespace)
    assert namespace["result"] is True
    try:
        torch._C._autograd_init(1)
    except TypeError:
        return
    raise AssertionError("an argument was taken")


def check_the_last_call_wins():
    class Other(Variable):
        pass

    names = {"Function": Function, "StochasticFunction": StochasticFunction, "Expr": Expr, "Arg": Arg, "_C": torch._C}
    x = leaf(2)
    try:
        exec("_C._autograd_init()", {"Variable": Other, **names})
        assert type(Add.apply(x, x)) is Other and type(x + x) is Other
    finally:
        exec("_C._autograd_init()", {"Variable": Variable, **names})
    assert type(Add.apply(x, x)) is Variable


def check_a_class_of_the_wrong_kind_is_refused():
    for name, wrong in [("Variable", int), ("Function", Variable), ("Expr", Function), ("Arg", 3)]:
        names = {"Variable": Variable, "Function": Function, "StochasticFunction": StochasticFunction, "Expr": Expr,
                 "Arg": Arg, "_C": torch._C, name: wrong}  # fmt: skip
        try:
            exec("_C._autograd_init()", names)
        except TypeError as e:
            assert name in str(e)
        else:
            raise AssertionError(name)
    assert type(leaf(1) + leaf(1)) is Variable


def check_results_of_the_extension_are_of_this_class():
    x = leaf(2, 3)
    (x.mul(2)).sum().backward()
    assert type(x.grad) is Variable and type(x.grad.grad_fn).__name__ in ("NoneType", "Identity")
    gradient, = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    assert type(gradient) is Variable and gradient.requires_grad
    assert type(torch._C._functions.DelayedError("no")(x)) is Variable
    y = Mul.apply(x, x)
    assert all(type(v) is Variable for v in y.grad_fn.saved_variables)


def check_graph_names():
    x = leaf(2)
    y = Mul.apply(x, x)
    assert type(y.grad_fn).__name__ == "MulBackward"
    accumulator = y.grad_fn.next_functions[0][0]
    assert type(accumulator).__name__ == "AccumulateGrad" and accumulator.variable is x
    y.sum().backward(create_graph=True)
    assert type(x.grad.grad_fn).__name__ == "Identity"


def check_functions_of_the_package_take_these_variables():
    a, b = leaf(2, 3), leaf(3, 2)
    for result in (torch.mm(a, b), torch.exp(a), torch.cat([a, a], 0), torch.add(a, a)):
        assert type(result) is Variable and result.requires_grad
        a.grad = None
        result.sum().backward()
        assert type(a.grad) is Variable


def check_leaf_hooks_and_interior_hooks():
    seen = []
    x = leaf(2)
    x.register_hook(lambda g: seen.append(("x", type(g))))
    y = x * 2
    y.register_hook(lambda g: seen.append(("y", g.data.sum())) or g * 3)
    y.grad_fn.register_hook(lambda gi, go: seen.append(("fn", len(gi), len(go))))
    y.sum().backward()
    assert seen == [("y", 2.0), ("fn", 1, 1), ("x", Variable)], seen
    assert x.grad.data.tolist() == [6, 6]


def check_the_engine_attribute_is_what_backward_calls():
    calls = []

    class Engine(torch._C._ImperativeEngine):
        def run_backward(self, *args, **kwargs):
            calls.append(len(args))
            return super().run_backward(*args, **kwargs)

    x, engine = leaf(2), Variable._execution_engine
    try:
        Variable._execution_engine = Engine()
        (x * x).sum().backward()
        torch.autograd.grad((x * x).sum(), x)
    finally:
        Variable._execution_engine = engine
    assert calls == [3, 5] and x.grad is not None


def check_volatile():
    v = Variable(T(2), volatile=True)
    y = v * leaf(2) + 1
    assert y.volatile and y.grad_fn is None and not y.requires_grad and type(y) is Variable
    x = leaf(2)
    (x * x).sum().backward()
    assert x.grad.volatile
    data = x.grad.data
    (x * x).sum().backward()
    assert x.grad.data is data


def check_tanh_of_a_volatile_gradient_uses_the_backend():
    for method in ("tanh", "sigmoid"):
        x = leaf(3)
        getattr(x, method)().sum().backward()
        first = x.grad.data.clone()
        again, = torch.autograd.grad(getattr(x, method)().sum(), x, create_graph=True)
        assert (first - again.data).abs().max() < 1e-12


def check_once_differentiable():
    class Cube(Function):
        @staticmethod
        def forward(ctx, i):
            ctx.save_for_backward(i)
            return i * i * i

        @staticmethod
        @function_module.once_differentiable
        def backward(ctx, g):
            i, = ctx.saved_tensors
            assert torch.is_tensor(g) and torch.is_tensor(i)
            return g * i * i * 3

    x = leaf(2)
    Cube.apply(x).sum().backward()
    assert (x.grad.data - 3 * x.data * x.data).abs().max() < 1e-12
    gradient, = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    try:
        gradient.sum().backward()
    except RuntimeError as e:
        assert "once_differentiable" in str(e)
    else:
        raise AssertionError("differentiated twice")


def check_legacy_functions():
    class Twice(Function):
        def forward(self, a, b):
            assert torch.is_tensor(a)
            self.save_for_backward(a, b)
            return a * b, a + b

        def backward(self, g1, g2):
            a, b = self.saved_tensors
            return g1 * b + g2, g1 * a + g2

    assert Twice._is_legacy and not Add._is_legacy and NoGrad._is_legacy
    x, y = leaf(2), leaf(2)
    p, s = Twice()(x, y)
    assert p.grad_fn is s.grad_fn and type(p.grad_fn) is Twice and (p.output_nr, s.output_nr) == (0, 1)
    (p + s).sum().backward()
    assert (x.grad.data - (y.data + 1)).abs().max() < 1e-12
    try:
        Twice()(T(2), x)
    except RuntimeError as e:
        assert "expected a Variable argument" in str(e)
    else:
        raise AssertionError("a tensor was taken")


def check_nested_io():
    class Nested(NestedIOFunction):
        def forward_extended(self, pair, single):
            a, b = pair
            return [a + b, (a * 2, single)]

        def backward_extended(self, nested):
            g1, (g2, g3) = nested
            return (g1 + g2 * 2, g1), g3

    a, b, c = leaf(2), leaf(2), leaf(2)
    total, (double, same) = Nested()((a, b), c)
    (total + double).sum().backward()
    assert a.grad.data.tolist() == [3, 3] and b.grad.data.tolist() == [1, 1] and c.grad.data.tolist() == [0, 0]


def check_multinomial():
    torch.manual_seed(3)
    probs = Variable(torch.DoubleTensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), requires_grad=True)
    action = probs.multinomial()
    assert type(action) is Variable and action.size() == torch.Size([2, 1])
    assert isinstance(action.grad_fn, StochasticFunction)
    action.reinforce(2)
    torch.autograd.backward([action], [None])
    assert probs.grad.data.size() == probs.size() and (probs.grad.data != 0).sum() > 0


def check_normal_and_bernoulli():
    mean = leaf(3)
    sample = Variable._torch.normal(mean, 0.5)
    sample.reinforce(T(3))
    (sample * 2).sum().backward()
    assert mean.grad is not None
    try:
        mean.sigmoid().bernoulli().sum().backward()
    except RuntimeError as e:
        assert "requires providing a reward" in str(e)
    else:
        raise AssertionError("no reward was needed")


def check_bernoulli_is_unbiased():
    """The mean of reward * gradient over many samples is the gradient of the expected reward."""
    torch.manual_seed(0)
    p = Variable(torch.DoubleTensor([0.3]).expand(20000).contiguous(), requires_grad=True)
    sample = p.bernoulli()
    sample.reinforce(-sample.data * 5)
    sample.backward()
    assert abs(p.grad.data.mean() - 5) < 0.5


def check_detach():
    x = leaf(2)
    y = x * 2
    d = y.detach()
    assert type(d) is Variable and d.is_leaf and not d.requires_grad
    d.data[0] = 7
    assert y.data[0] == 7
    y.detach_()
    assert y.is_leaf and not y.requires_grad


def check_views_share_versions():
    x = leaf(2, 2)
    y = x * 1
    z = y.t()
    try:
        y.add_(1)
    except RuntimeError as e:
        assert "share" in str(e)
    else:
        raise AssertionError("a view is alive")
    del z
    before = y._version
    y += 1
    assert y._version == before + 1
    w = y * y
    y.mul_(2)
    try:
        w.sum().backward()
    except RuntimeError as e:
        assert "modified by an inplace operation" in str(e)
    else:
        raise AssertionError("the saved value was changed")


def check_leaf_that_requires_grad_is_not_written():
    x = leaf(2)
    try:
        x.add_(1)
    except RuntimeError as e:
        assert "leaf Variable that requires grad" in str(e)
    else:
        raise AssertionError


def check_pickle_and_deepcopy():
    x = leaf(2, 2)
    for protocol in range(3):
        copied = pickle.loads(pickle.dumps(x, protocol))
        assert type(copied) is Variable and copied.requires_grad and copied.data.tolist() == x.data.tolist()
    again = copy.deepcopy([x, x])
    assert again[0] is again[1] and again[0].data.tolist() == x.data.tolist() and again[0].requires_grad
    try:
        copy.deepcopy(x * 2)
    except RuntimeError as e:
        assert "deepcopy" in str(e)
    else:
        raise AssertionError


def check_attributes_and_weakrefs():
    x = leaf(2)
    x.label = "w"
    y = Mul.apply(x, x)
    assert y.grad_fn.saved_variables[0] is x or y.grad_fn.saved_variables[0].data is x.data
    assert y.grad_fn.next_functions[0][0].variable.label == "w"
    ref = weakref.ref(y)
    del y
    assert ref() is None


def check_cycles_are_collected():
    class Token:
        pass

    refs = []
    for make in ("hook", "ctx", "attribute"):
        x = leaf(2)
        y = Mul.apply(x, x)
        token = Token()
        refs.append(weakref.ref(token))
        if make == "hook":
            y.register_hook(lambda g, y=y, token=token: None)
        elif make == "ctx":
            y.grad_fn.output, y.grad_fn.token = y, token
        else:
            y.me, y.token = y, token
        del x, y, token
    gc.collect()
    assert [r() for r in refs] == [None] * 3


def check_a_long_graph():
    x = leaf(1)
    y = x
    for _ in range(20000):
        y = AddConstant.apply(y, 1e-9)
    y.backward()
    assert x.grad.data[0] == 1
    del y


def check_double_backward_through_python_functions():
    x = leaf(3)
    y = (x.exp() * x.sin()).sum()
    g, = torch.autograd.grad(y, x, create_graph=True)
    h, = torch.autograd.grad(g.sum(), x)
    a = x.data.numpy()
    assert np.allclose(h.data.numpy(), 2 * np.exp(a) * np.cos(a))


def check_errors_name_the_functions_of_this_package():
    class Bad(Function):
        @staticmethod
        def forward(ctx, a):
            return a.clone()

        @staticmethod
        def backward(ctx, g):
            return g, g

    try:
        Bad.apply(leaf(2)).sum().backward()
    except RuntimeError as e:
        assert "BadBackward returned an incorrect number of gradients (expected 1, got 2)" in str(e)
    else:
        raise AssertionError


# ---- traces -------------------------------------------------------------------------------------------------------


def check_a_trace_is_an_expr_of_this_package():
    x, y = leaf(2), leaf(2)
    torch._C._tracer_enter((x, y))
    z = Mul.apply(Add.apply(x, y), x)
    z = AddConstant.apply(z, 2.5)
    expr = torch._C._tracer_exit((z,))
    assert isinstance(expr, Expr) and isinstance(expr, torch._C._ExprBase)
    text = str(expr)
    for part in ("torch.autograd._functions.basic_ops.Add %0, %1", "Mul %2, %0", "AddConstant %3, 2.5", "Ret %4"):
        assert part in text, text
    assert all(isinstance(a, Arg) for a in expr.params) and not isinstance(3, Expr) and not isinstance(expr, Arg)
    assert issubclass(type(expr), Expr) and not issubclass(int, Expr)


def check_a_trace_is_replayed():
    x, y = leaf(2), leaf(2)
    torch._C._tracer_enter((x, y))
    z = Exp.apply(Mul.apply(x, y))
    expr = torch._C._tracer_exit((z,))
    a, b = leaf(2), leaf(2)
    result, = Variable._execution_engine.run_forward(expr, (a, b))
    assert type(result) is Variable
    assert np.allclose(result.data.numpy(), np.exp(a.data.numpy() * b.data.numpy()))
    result.sum().backward()
    assert np.allclose(a.grad.data.numpy(), result.data.numpy() * b.data.numpy())
    try:
        Variable._execution_engine.run_forward(3, (a, b))
    except RuntimeError as e:
        assert "expected to be an Expr" in str(e)
    else:
        raise AssertionError


def check_misuse_of_traces():
    x = leaf(2)
    for inputs, word in [([x], "tuple"), ((3,), "element 0")]:
        try:
            torch._C._tracer_enter(inputs)
        except (RuntimeError, TypeError) as e:
            assert word in str(e), e
        else:
            torch._C._tracer_exit(())
            raise AssertionError(word)
    try:
        torch._C._tracer_exit((x,))
    except RuntimeError as e:
        assert "attempting to exit trace, but none exist" in str(e)
    else:
        raise AssertionError


def check_expr_and_arg_cannot_be_made():
    for cls in (Expr, Arg):
        try:
            cls()
        except (TypeError, RuntimeError):
            continue
        raise AssertionError(cls)


CHECKS = {name[6:]: value for name, value in list(globals().items())
          if name.startswith("check_") and value.__code__.co_argcount == 0}
for number, sample in enumerate([*SAMPLES, POTRF]):
    CHECKS[f"{number:03d}-{sample[0]}"] = lambda sample=sample: check_sample(sample)


def main(names):
    results = {}
    warnings.simplefilter("error")
    for name in names or CHECKS:
        try:
            CHECKS[name]()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CHECKS))
    else:
        main(sys.argv[1:])
