"""Everything in this package that depends on Haiku's version or on its private API."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

__all__ = ["original_function", "parameters_are_intercepted"]


def original_function(value: object) -> Callable[..., Any] | None:
    """The function whose apply function `value` is, as `hk.transform` made it; None for anything else."""
    if not isinstance(value, FunctionType) or value.__name__ != "apply_fn":
        return None
    return vars(value).get("_original_fn")


def parameters_are_intercepted() -> bool:
    """Whether `hk.custom_getter` is in effect, so that layers may use other parameters than they have."""
    from haiku._src import base

    return bool(base.param_getter_stack)
