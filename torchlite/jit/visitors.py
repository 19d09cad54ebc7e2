"""Base classes of visitors of the IR: dispatch on the kind of an expression or argument, arguments handed on.

    class Count(ExprVisitor):
        def visit_let(self, let, counts):
            counts[let.name] += 1

        def visit_locals(self, ret, counts):
            return counts

    Count().visit(lambda_, Counter())

A long program costs no stack: ``visit_lambda`` walks the lets in a loop.
"""

from __future__ import annotations

from typing import Any

from .. import _C


class ExprVisitor:
    """``visit(expr, *args)`` calls ``visit_lambda``, ``visit_let``, ``visit_locals``, ``visit_cpp_apply`` or
    ``visit_py_apply``.

    Without being overridden, ``visit_lambda`` visits each let, and returns what the visit of the returned Locals gives;
    ``visit_let`` visits the right-hand side; the applications go to ``visit_apply``; the others return None.
    """

    def visit(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        name = _EXPRS.get(type(expr))
        if name is None:
            raise TypeError(f"expected an expression of the IR, but got {type(expr).__name__}")
        return getattr(self, name)(expr, *args, **kwargs)

    def visit_lambda(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        for let in expr.lets:
            self.visit(let, *args, **kwargs)
        return self.visit(expr.ret, *args, **kwargs)

    def visit_let(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return self.visit(expr.rhs, *args, **kwargs)

    def visit_locals(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return None

    def visit_apply(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return None

    def visit_cpp_apply(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return self.visit_apply(expr, *args, **kwargs)

    def visit_py_apply(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return self.visit_apply(expr, *args, **kwargs)


class ArgVisitor:
    """``visit(arg, *args)`` calls ``visit_local``, ``visit_const`` or, for a list of tensors, ``visit_list``.

    Without being overridden, ``visit_list`` returns the tuple of its elements' visits and the others return None.
    """

    def visit(self, arg: Any, *args: Any, **kwargs: Any) -> Any:
        name = _ARGS.get(type(arg))
        if name is None:
            raise TypeError(f"expected an argument of the IR, but got {type(arg).__name__}")
        return getattr(self, name)(arg, *args, **kwargs)

    def visit_local(self, arg: Any, *args: Any, **kwargs: Any) -> Any:
        return None

    def visit_const(self, arg: Any, *args: Any, **kwargs: Any) -> Any:
        return None

    def visit_list(self, arg: tuple, *args: Any, **kwargs: Any) -> Any:
        return tuple(self.visit(a, *args, **kwargs) for a in arg)


_EXPRS = {
    _C.Lambda: "visit_lambda",
    _C.Let: "visit_let",
    _C.Locals: "visit_locals",
    _C.CppApply: "visit_cpp_apply",
    _C.PyApply: "visit_py_apply",
}
_ARGS = {_C.Local: "visit_local", _C.Const: "visit_const", tuple: "visit_list"}
