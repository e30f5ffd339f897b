"""`onnx_ir`, imported without the symbolic algebra that this project never uses.

`onnx_ir` imports `sympy` (about 1.5 s) for arithmetic on its symbolic dimensions. JAX does that
arithmetic here, so the import is deferred until something really asks for it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["ir"]


class _Deferring:
    """A meta path finder that makes the named modules load at their first attribute access."""

    names = frozenset({"sympy", "onnx_ir._symbolic_shapes"})

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in cls.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


sys.meta_path.insert(0, _Deferring)
try:
    import onnx_ir as ir
finally:
    sys.meta_path.remove(_Deferring)
