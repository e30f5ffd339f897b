"""Packages whose modules are imported when one of their names is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names come at their first use.

    >>> __getattr__, __dir__ = lazy_names("jax2onnx_ray", {"jax2onnx_ray.datasets": ("calls", "results")})

    Args:
      package: the name of the package.
      homes: the modules → the names that they give to the package; one may be that of a module in the home.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(home_of[name])
        value = vars(home)[name] if name in vars(home) else importlib.import_module(f"{home.__name__}.{name}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, names
