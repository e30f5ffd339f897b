"""The errors of `jax.experimental.checkify`, by its private API."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping

import jax

from jax2onnx_core.jax_types import PyTree

__all__ = [
    "check_codes",
    "checkify_kind",
    "is_checkify_effect",
    "is_checkify_error",
    "is_checkify_imported",
    "with_check_codes",
]

_CHECKIFY = "jax._src.checkify"


def is_checkify_imported() -> bool:
    """Whether anybody uses `jax.experimental.checkify`; JAX alone does not."""
    return _CHECKIFY in sys.modules


def is_checkify_error(value: object) -> bool:
    """Whether a result is the error of a function of `checkify`."""
    return is_checkify_imported() and isinstance(value, sys.modules[_CHECKIFY].Error)


def is_checkify_effect(key: object) -> bool:
    """Whether a key is a kind of errors of `checkify`."""
    return is_checkify_imported() and isinstance(key, sys.modules[_CHECKIFY].ErrorEffect)


def checkify_kind(effect: PyTree) -> str:
    """The name of a kind of errors: that of its class, with the types of the arguments in its text."""
    types = ", ".join(f"{x.dtype}{list(x.shape) if x.shape else ''}" for x in effect.shape_dtypes)
    return f"{effect.error_type.__name__}({types})" if types else effect.error_type.__name__


def check_codes(error: PyTree) -> list[int]:
    """The codes of the checks that an error of `checkify` may come from, in order."""
    return sorted(error._metadata)


def with_check_codes(error: PyTree, code: Callable[[jax.Array], jax.Array], codes: Mapping[int, int]) -> PyTree:
    """An error of `checkify` with other codes.

    Args:
      error: the error.
      code: computes the new codes from its codes.
      codes: the codes of all checks → the new ones.
    """
    new = {effect: code(old) for effect, old in error._code.items()}
    return dataclasses.replace(error, _code=new, _metadata={codes[c]: kind for c, kind in error._metadata.items()})
