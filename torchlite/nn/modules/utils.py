"""What the layers of one to three dimensions share."""

import operator
from typing import Any


def n_tuple(value: Any, n: int) -> tuple:
    """`value` n times for an int, else its elements; ValueError for another number of them."""
    if hasattr(value, "__index__"):
        return (operator.index(value),) * n
    values = tuple(value)
    if len(values) != n:
        raise ValueError(f"expected an int or {n} of them, but got {values}")
    return values
