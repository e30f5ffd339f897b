"""`Complex`: the components of complex values, as complex rules get and return them."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Complex"]


class Complex(NamedTuple):
    """The real and imaginary parts of a complex array, two real arrays of one shape and dtype."""

    real: Any
    imag: Any
