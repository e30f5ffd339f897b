"""Errors of `jax.experimental.checkify` among the results of a function: numbers of checks, and names of parts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx_core import _compat_checkify
from jax2onnx_core.frontend._pytrees import path_name
from jax2onnx_core.jax_types import KeyPath, PyTree

__all__ = ["error_part_name", "with_numbered_checks"]

_PARTS = ("failed", "code", "payload")  # in the order of the leaves of an error


def with_numbered_checks(result: PyTree) -> PyTree:
    """The results with the checks of each error numbered from 1 on, in the order in which they are made.

    JAX numbers the checks of a process, so that a function has other codes each time that it is traced.
    """
    if not _compat_checkify.is_checkify_imported():
        return result
    return jax.tree.map(_numbered, result, is_leaf=_compat_checkify.is_checkify_error)


def _numbered(leaf: PyTree) -> PyTree:
    if not _compat_checkify.is_checkify_error(leaf):
        return leaf
    numbers = {code: number for number, code in enumerate(_compat_checkify.check_codes(leaf), 1)}
    known = np.array([*numbers], np.int32)

    def number(code: jax.Array) -> jax.Array:
        code = jnp.asarray(code)
        found = jnp.sum(code[..., None] >= known, -1, dtype=code.dtype)
        return jnp.where(code < 0, code, found)  # -1 stands for no check

    return _compat_checkify.with_check_codes(leaf, number, numbers)


def error_part_name(path: KeyPath) -> str | None:
    """The name of a part of an error, by its path in the results: `error.failed.NaNError`; None for what is no such part.

    The kinds of errors, which are the keys in an error, have the types of their arguments in their names, if there are some.
    """
    for i, key in enumerate(path[1:], 1):
        if isinstance(key, jax.tree_util.DictKey) and _compat_checkify.is_checkify_effect(key.key):
            where = path_name(path[: i - 1])
            kind = _compat_checkify.checkify_kind(key.key)
            name = "error" if not where or where.isdigit() else where
            return ".".join(filter(None, [name, _PARTS[path[i - 1].key], kind, path_name(path[i + 1 :])]))
    return None
