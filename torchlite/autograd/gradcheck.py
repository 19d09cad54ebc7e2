"""Checks of gradients against finite differences.

A jacobian here is a DoubleTensor of shape ``(elements of the input, elements of the output)``: column ``j`` is the
gradient of output element ``j``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import _C
from .._arrays import array
from .engine import grad
from .variable import Variable


def _is_tensor(x: Any) -> bool:
    return isinstance(x, _C._TensorBase)


def _is_container(x: Any) -> bool:
    return isinstance(x, (tuple, list)) or (hasattr(x, "__iter__") and not isinstance(x, (str, bytes, dict)))


def _doubles(tensor: Any) -> np.ndarray:
    """A flat float64 copy of the tensor's elements in host memory."""
    return np.array(tensor.cpu().numpy(), dtype=np.float64).reshape(-1)


def _tensor_like(tensor: Any, values: np.ndarray) -> Any:
    """A new tensor of the type, device and size of ``tensor`` that holds ``values``."""
    return tensor.new(tensor.size()).copy_(values.reshape(tensor.size()))


# ---- helpers over nested inputs ------------------------------------------------------------------------------------


def iter_tensors(x: Any, only_requiring_grad: bool = False) -> Iterator[Any]:
    """All tensors in a tensor, a Variable or nested sequences of them; of Variables, their data."""
    if _is_tensor(x):
        yield x
    elif isinstance(x, Variable):
        if x.requires_grad or not only_requiring_grad:
            yield x.data
    elif _is_container(x):
        for element in x:
            yield from iter_tensors(element, only_requiring_grad)


def iter_variables(x: Any) -> Iterator[tuple[Any, Any]]:
    """A pair (tensor of ``grad``, data) for each Variable in ``x`` that requires grad; (None, None) without grad."""
    for v in _differentiable(x):
        yield (None, None) if v.grad is None else (v.grad.data, v.data)


def _differentiable(x: Any) -> Iterator[Variable]:
    """The Variables in ``x`` that require grad, in order."""
    if isinstance(x, Variable):
        if x.requires_grad:
            yield x
    elif not _is_tensor(x) and _is_container(x):
        for element in x:
            yield from _differentiable(element)


def zero_gradients(x: Any) -> None:
    """Fills the gradients of all Variables in ``x`` with zeros and detaches them from their graph."""
    if isinstance(x, Variable):
        if x.grad is not None:
            x.grad.detach_()
            x.grad.data.zero_()
    elif not _is_tensor(x) and _is_container(x):
        for element in x:
            zero_gradients(element)


def make_jacobian(input: Any, num_out: int) -> Any:
    """Zero jacobians for the tensors and the Variables requiring grad in ``input``, nested as they are, or None."""
    if isinstance(input, Variable):
        return make_jacobian(input.data, num_out) if input.requires_grad else None
    if _is_tensor(input):
        return _C.from_numpy(np.zeros((input.numel(), num_out)))
    if not _is_container(input):
        return None
    jacobians = [j for j in (make_jacobian(element, num_out) for element in input) if j is not None]
    return (jacobians if isinstance(input, list) else tuple(jacobians)) if jacobians else None


def contiguous(input: Any) -> Any:
    """``input`` with all of its tensors and Variables contiguous."""
    if _is_tensor(input) or isinstance(input, Variable):
        return input.contiguous()
    if _is_container(input):
        return type(input)(contiguous(element) for element in input)
    return input


# ---- jacobians -----------------------------------------------------------------------------------------------------


def get_numerical_jacobian(fn: Callable, input: Any, target: Any, eps: float = 1e-3) -> Any:
    """The jacobian of ``fn(input)`` by central differences, for the tensors and Variables of ``target``.

    ``target`` is ``input`` or a part of it; its elements are changed in their own memory, one at a time, and set back.
    ``fn`` returns one tensor or Variable.
    """

    def evaluate():
        output = fn(input)
        return _doubles(output.data if isinstance(output, Variable) else output)

    jacobian = make_jacobian(target, evaluate().size)
    for tensor, columns in zip(list(iter_tensors(target, True)), list(iter_tensors(jacobian)), strict=True):
        elements, rows = array(tensor), array(columns)
        for i, index in enumerate(np.ndindex(*elements.shape)):
            original = elements[index].copy()
            try:
                elements[index] = original - eps
                below = evaluate()
                elements[index] = original + eps
                above = evaluate()
            finally:
                elements[index] = original
            rows[i] = (above - below) / (2 * eps)
    return jacobian


def _backward_once(leaves: list[Variable], output: Variable, seed: np.ndarray, create_graph: bool) -> list[Any]:
    """Runs backward from ``output`` and returns what arrived at each of ``leaves`` (None where nothing did)."""
    for v in leaves:
        v.grad = None
    output.backward(_tensor_like(output.data, seed), retain_graph=True, create_graph=create_graph)
    gradients = [v.grad for v in leaves]
    for v in leaves:
        v.grad = None  # a gradient with a graph refers to the leaf that refers to it
    return gradients


def _analytical(input: Any, output: Variable, create_graph: bool) -> tuple[Any, bool]:
    leaves = list(_differentiable(input))
    jacobian = make_jacobian(input, output.data.numel())
    # A tensor has a jacobian too, of zeros: no gradient flows to it.
    slots = [x for x in _flat(input) if _is_tensor(x) or (isinstance(x, Variable) and x.requires_grad)]
    pairs = zip(slots, iter_tensors(jacobian), strict=True)
    columns = [array(j) for x, j in pairs if isinstance(x, Variable)]
    right_sizes = True
    seed = np.zeros(output.data.numel())
    for i in range(seed.size):
        seed[i] = 1
        gradients = _backward_once(leaves, output, seed, create_graph)
        for v, column, g in zip(leaves, columns, gradients, strict=True):
            if g is None:
                continue
            if g.data.size() != v.data.size():
                right_sizes = False
            else:
                column[:, i] = _doubles(g.data)
        seed[i] = 0
    return jacobian, right_sizes


def get_analytical_jacobian(input: Any, output: Variable) -> tuple[Any, bool, bool]:
    """The jacobian of ``output`` by one backward per element, for the Variables in ``input`` that require grad.

    Returns it with two flags: whether a second run gave the same bits, and whether all gradients had the size of their
    Variable. ``grad`` of the Variables is cleared.
    """
    jacobian, right_sizes = _analytical(input, output, create_graph=False)
    again, right_sizes_again = _analytical(input, output, create_graph=False)
    same = all(
        np.array_equal(array(a), array(b), equal_nan=True)
        for a, b in zip(iter_tensors(jacobian), iter_tensors(again), strict=True)
    )
    return jacobian, same, right_sizes and right_sizes_again


# ---- the checks ----------------------------------------------------------------------------------------------------


class _Failure(Exception):
    pass


def _compare(numerical: Any, analytical: Any, atol: float, rtol: float, what: str) -> None:
    for i, (n, a) in enumerate(zip(iter_tensors(numerical), iter_tensors(analytical), strict=True)):
        n, a = array(n), array(a)
        wrong = ~(np.abs(a - n) <= atol + rtol * np.abs(n))  # negated so that NaN is wrong
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise _Failure(
                f"{what} of input {i} differ in {int(wrong.sum())} of {wrong.size} entries; first at input "
                f"element {row}, output element {column}: numerical {n[row, column]:.9g}, "
                f"analytical {a[row, column]:.9g}"
            )


def _check_output(fn: Callable, inputs: tuple, output: Variable, eps: float, atol: float, rtol: float) -> None:
    leaves = list(_differentiable(inputs))
    numerical = get_numerical_jacobian(fn, inputs, leaves, eps)
    if not output.requires_grad:
        zero = make_jacobian(leaves, output.data.numel())
        _compare(numerical, zero, atol, rtol, "the output requires no grad; derivatives")
        return
    analytical, same, right_sizes = get_analytical_jacobian(leaves, output)
    if not right_sizes:
        raise _Failure("a gradient has a different size than its input")
    if not same:
        raise _Failure("backward is not deterministic: two runs gave different gradients")
    _compare(numerical, analytical, atol, rtol, "derivatives")

    recorded, right_sizes = _analytical(leaves, output, create_graph=True)
    if not right_sizes:
        raise _Failure("with create_graph, a gradient has a different size than its input")
    _compare(numerical, recorded, atol, rtol, "with create_graph, derivatives")

    for i, g in enumerate(_backward_once(leaves, output, np.zeros(output.data.numel()), create_graph=True)):
        if g is not None and _doubles(g.data).any():
            raise _Failure(f"backward of a zero gradient gave a nonzero gradient of input {i}")


def _as_tuple(x: Any) -> tuple:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _check(func: Callable, inputs: tuple, eps: float, atol: float, rtol: float) -> None:
    outputs = _as_tuple(func(*inputs))
    variables = [i for i, output in enumerate(outputs) if isinstance(output, Variable)]
    required = [i for i in variables if outputs[i].requires_grad]
    for i in required or variables:

        def fn(arguments: tuple, i: int = i) -> Any:
            return _as_tuple(func(*arguments))[i]

        try:
            _check_output(fn, inputs, outputs[i], eps, atol, rtol)
        except _Failure as failure:
            raise _Failure(f"output {i}: {failure}" if len(outputs) > 1 else str(failure)) from None


def gradcheck(
    func: Callable,
    inputs: Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = False,
) -> bool:
    """Whether the gradients of ``func(*inputs)`` agree with central differences of step ``eps``.

    ``func`` takes ``inputs``, a sequence of Variables, nested sequences of them and other values, and returns a
    Variable or a tuple of them. Derivatives are compared entry by entry: ``|analytical - numerical| <= atol + rtol *
    |numerical|``, with and without ``create_graph``. The check also fails if two runs of backward differ in a bit, if
    a gradient's size is not its input's, or if a zero gradient gives anything but zeros. If no output requires grad,
    the numerical derivatives must be zero.

    The inputs that require grad should be DoubleTensors. Their data and ``grad`` are as before when it returns.
    ``raise_exception`` turns a failure into RuntimeError that says what differed.
    """
    inputs = _as_tuple(inputs)
    leaves = list(_differentiable(inputs))
    if not any(isinstance(v, Variable) for v in _flat(inputs)):
        raise RuntimeError("no Variables found in input")
    if any(array(v.data).dtype != np.float64 for v in leaves):
        warnings.warn("gradcheck: an input that requires grad is not a DoubleTensor; differences will be inexact",
                      stacklevel=2)
    for v in leaves:
        if not v.is_leaf:
            v.retain_grad()
    kept = [v.grad for v in leaves]
    try:
        _check(func, inputs, eps, atol, rtol)
    except _Failure as failure:
        if raise_exception:
            raise RuntimeError(f"gradcheck: {failure}") from None
        return False
    finally:
        for v, g in zip(leaves, kept, strict=True):
            v.grad = g
    return True


def _flat(x: Any) -> Iterator[Any]:
    if not isinstance(x, Variable) and not _is_tensor(x) and _is_container(x):
        for element in x:
            yield from _flat(element)
    else:
        yield x


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = False,
) -> bool:
    """Whether the second derivatives of ``func(*inputs)`` agree with differences of its gradients.

    ``grad_outputs``: for each output a Variable of its size, with which the gradients are formed and for which they are
    differentiated too, if it requires grad. If left out they are drawn from a normal distribution with a fixed seed.
    All else is as in :func:`gradcheck`.
    """
    inputs = _as_tuple(inputs)
    outputs = [o for o in _as_tuple(func(*inputs)) if isinstance(o, Variable)]
    if grad_outputs is None:
        draw = np.random.default_rng(0).standard_normal
        grad_outputs = tuple(
            Variable(_tensor_like(o.data, draw(tuple(o.size()))), requires_grad=o.requires_grad) for o in outputs
        )
    grad_outputs = _as_tuple(grad_outputs)
    if len(grad_outputs) != len(outputs):
        raise RuntimeError(f"gradgradcheck: got {len(outputs)} outputs and {len(grad_outputs)} grad_outputs")
    n = len(grad_outputs)

    def gradients(*arguments):
        results = [o for o in _as_tuple(func(*arguments[:-n])) if isinstance(o, Variable)]
        pairs = [(o, g) for o, g in zip(results, arguments[-n:], strict=True) if o.requires_grad]
        leaves = tuple(_differentiable(arguments[:-n]))
        found = grad([o for o, _ in pairs], leaves, [g for _, g in pairs], create_graph=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(gradients, inputs + grad_outputs, eps, atol, rtol, raise_exception)
