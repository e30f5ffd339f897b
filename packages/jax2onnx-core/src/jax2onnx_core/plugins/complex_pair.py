"""Values that no ONNX tensor type can hold: carried as one tensor with a trailing axis of components."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Complex"]


class Complex(NamedTuple):
    """The real and imaginary parts of a complex array, two real arrays of one shape and dtype."""

    real: Any
    imag: Any
