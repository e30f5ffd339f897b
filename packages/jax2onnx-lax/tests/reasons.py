"""The reasons for which rules decline, read from the log of an export."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax2onnx_core import Call, bind_composite, to_onnx

__all__ = ["Declining", "composite", "reasons_of"]


@dataclasses.dataclass(frozen=True)
class Declining:
    """A program in which a rule declines.

    Attributes:
      reason: why.
      fn: the program.
      inputs: as `to_onnx` takes them.
      options: its options.
    """

    reason: str
    fn: Callable[..., object]
    inputs: Sequence[object]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.reason


def reasons_of(case: Declining) -> set[str]:
    """All reasons for which rules decline in the program."""
    return {reason for _, reason in to_onnx(case.fn, case.inputs, **case.options).log.reasons}


def composite(name: str, original: Callable[..., object], *further: object, **params: object) -> Callable[..., Any]:
    """A function that is traced as one operation, with these operands behind its own and these parameters, and as `original` otherwise."""
    return lambda *args: bind_composite(name, Call(*args, *further, **params), lambda: original(*args))
