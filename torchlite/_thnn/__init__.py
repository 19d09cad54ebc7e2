"""Kernels under the names of the era's library of network functions, by tensor type.

``type2backend[type(t)].Tanh_updateGradInput(state, None, grad_output, grad_input, output)``: results are written into
an argument, which is resized. Only what autograd itself called is here; the layers are ``torchlite.nn``.
"""

from __future__ import annotations

from typing import Any

from .. import _C

__all__ = ["Backend", "type2backend"]


class Backend:
    """The kernels for one tensor class. Each takes ``library_state`` first, which they have no use for.

    TypeError if a tensor argument is not of that class.
    """

    library_state = 0

    def __init__(self, tensor_class: type):
        self.tensor_class = tensor_class

    def __repr__(self):
        return f"<kernels of {self.tensor_class.__name__}>"

    def _write(self, name: str, target: Any, op: str, **arguments: Any) -> None:
        """``target`` becomes the result of ``op``, in its size."""
        for argument, value in arguments.items():
            if type(value) is not self.tensor_class:
                raise TypeError(
                    f"{name}: {argument} must be a {self.tensor_class.__name__}, but got {type(value).__name__}"
                )
        *inputs, _ = arguments.values()
        result = _C._find_op(op)(*inputs)
        target.resize_as_(result).copy_(result)

    def Tanh_updateOutput(self, state: Any, input: Any, output: Any) -> None:
        """``output`` becomes ``tanh(input)``."""
        self._write("Tanh_updateOutput", output, "tanh", input=input, output=output)

    def Tanh_updateGradInput(self, state: Any, input: Any, grad_output: Any, grad_input: Any, output: Any) -> None:
        """``grad_input`` becomes ``grad_output * (1 - output ** 2)``; ``input`` is not looked at."""
        self._write(
            "Tanh_updateGradInput", grad_input, "tanh_backward",
            grad_output=grad_output, output=output, grad_input=grad_input,
        )  # fmt: skip

    def Sigmoid_updateOutput(self, state: Any, input: Any, output: Any) -> None:
        """``output`` becomes ``1 / (1 + exp(-input))``."""
        self._write("Sigmoid_updateOutput", output, "sigmoid", input=input, output=output)

    def Sigmoid_updateGradInput(self, state: Any, input: Any, grad_output: Any, grad_input: Any, output: Any) -> None:
        """``grad_input`` becomes ``grad_output * output * (1 - output)``; ``input`` is not looked at."""
        self._write(
            "Sigmoid_updateGradInput", grad_input, "sigmoid_backward",
            grad_output=grad_output, output=output, grad_input=grad_input,
        )  # fmt: skip


class _Backends(dict):
    """Backends by tensor class or its dotted name, made when first asked for. KeyError for types without kernels."""

    def __missing__(self, key: Any) -> Backend:
        for cls in _C._tensor_classes:
            if cls.__name__ in ("FloatTensor", "DoubleTensor") and key in (cls, f"{cls.__module__}.{cls.__name__}"):
                backend = self[key] = Backend(cls)
                return backend
        raise KeyError(f"there are no kernels for {key}: they are for FloatTensor and DoubleTensor")


type2backend = _Backends()
