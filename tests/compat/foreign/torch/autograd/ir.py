"""The classes that traces are made of."""

import torch


class Expr(torch._C._ExprBase):
    pass


class Arg(torch._C._ArgBase):
    pass
