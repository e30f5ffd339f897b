"""Fingerprints: hashable values that are equal only for values that mean the same."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Hashable

import numpy as np

from jax2onnx_graph.arrays import Array

__all__ = ["ByIdentity", "array_fingerprint", "fingerprint"]


class ByIdentity:
    """A key that is equal only to that of the same object, which it keeps alive, because the id of a dead object is reused."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def array_fingerprint(array: Array) -> Hashable:
    """A key of dtype, shape and bytes: -0.0 differs from 0.0, and NaN is equal to NaN of the same bits."""
    return array.dtype, array.shape, array.tobytes()


def fingerprint(value: object, special: Callable[[object], Hashable | None]) -> Hashable:
    """A key that is equal for values of equal type and content, and different for 0.0 and -0.0, or 1, 1.0 and True.

    Numbers are compared by their bits, arrays by their bytes, containers and dataclasses by their members, other
    hashable objects as they compare themselves, and those that are not hashable by identity.

    Args:
      value: any value.
      special: the fingerprint of a value that this module knows nothing of, None for all others.
    """
    own = special(value)
    if own is not None:
        return type(value), own
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return type(value), array_fingerprint(np.asarray(value))
    if isinstance(value, complex):
        return type(value), struct.pack("dd", value.real, value.imag)
    if isinstance(value, float):
        return type(value), struct.pack("d", value)
    members = _members(value)
    if members is not None:
        return type(value), tuple(fingerprint(member, special) for member in members)
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(fingerprint(member, special) for member in value)
    try:
        hash(value)
    except TypeError:
        return ByIdentity(value)
    return type(value), value


def _members(value: object) -> list[object] | None:
    """The members of a container, in order; None for a value that is none."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, np.ndarray):
        return [value.shape, *value.flat]
    if isinstance(value, dict):
        return [member for item in value.items() for member in item]
    if isinstance(value, slice):
        return [value.start, value.stop, value.step]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return None
