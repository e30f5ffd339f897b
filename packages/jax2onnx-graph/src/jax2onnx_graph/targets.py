"""`Target`: what the engine needs to know about the runtime that it exports for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Session", "Target", "standard_target"]

Session = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


def _everything(op_type: str, dtype: np.dtype[Any], opset: int) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class Target:
    """A runtime.

    Args:
      name: what users write in `to_onnx(..., target=name)`.
      supports: `(op_type, dtype of the first typed operand, opset)` → whether the runtime computes
        it exactly, natively or after `passes`.
      passes: factories of `onnx_ir` passes that legalise a finished model.
      load: an `onnx_ir.Model` or a path → a session, a function from named arrays to the outputs in
        order; None where the target cannot run here.
      default: whether `to_onnx` exports for it unless told otherwise.
    """

    name: str
    supports: Callable[[str, np.dtype[Any], int], bool] = _everything
    passes: tuple[Callable[[], ir.passes.PassBase], ...] = ()
    load: Callable[[Any], Session] | None = None
    default: bool = False


standard_target = Target(name="onnx")
