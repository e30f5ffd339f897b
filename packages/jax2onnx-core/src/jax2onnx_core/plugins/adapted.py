"""`Adapter`: how a framework's model object becomes a pure function with named weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Adapted", "Adapter"]


@dataclasses.dataclass(frozen=True)
class Adapted:
    """What an adapter makes of one model object.

    Args:
      fresh: called inside the trace; returns an equivalent object that owns the very same arrays, so
        that whatever the call mutates is dropped and the user's object is untouched.
      weights: path ("blocks.0.attn.query.kernel") → array, the identical objects that `fresh` uses.
    """

    fresh: Callable[[], Any]
    weights: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Adapter:
    """`target` ("module:qualified.name") names the class whose instances `adapt` takes."""

    target: str
    adapt: Callable[[Any], Adapted]
