"""The era's names of the IR: every expression (``Lambda``, ``Let``, an application, the returned ``Locals``) is an
``Expr``, every argument (``Local``, ``Const``) an ``Arg``. ``str(expr)`` of a Lambda is its text."""

from .. import _C

Expr = _C._ExprBase
Arg = _C._ArgBase
