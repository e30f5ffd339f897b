"""`AdapterPair`: two matrices of low rank that are optional inputs of a model, as its metadata names them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import ReadError

__all__ = ["ADAPTERS_KEY", "AdapterPair", "read_adapters", "write_adapters"]

ADAPTERS_KEY = "jax2onnx.adapters"


@dataclasses.dataclass(frozen=True)
class AdapterPair:
    """Two matrices that add `scale * (x @ a) @ b` to a result, and are optional inputs of a model.

    Attributes:
      a: the input for the matrix that is multiplied first.
      b: the input for the other one.
      rank: the symbol of their rank, of this pair alone.
      a_axis: the axis of `a` that is the rank: of its two, or of the three of the matrices of all layers of a loop [L, …].
      b_axis: the axis of `b` that is the rank.
      exported: the rank that they had in the exported function.
    """

    a: str
    b: str
    rank: str
    a_axis: int
    b_axis: int
    exported: int

    @property
    def axes(self) -> dict[str, int]:
        """The axis that is the rank, by the name of the input."""
        return {self.a: self.a_axis, self.b: self.b_axis}


def write_adapters(model: ir.Model, pairs: Sequence[AdapterPair]) -> None:
    """Keep the pairs in the model's metadata, for whoever runs it."""
    model.metadata_props[ADAPTERS_KEY] = json.dumps([dataclasses.asdict(pair) for pair in pairs])


def read_adapters(model: ir.Model) -> list[AdapterPair]:
    """The pairs in the metadata of a model; none where it takes no adapters.

    Raises:
      ReadError: the metadata are not what an export writes, or the model has no such inputs.
    """
    inputs = {value.name for value in model.graph.inputs}

    def pairs(entries: Iterable[dict[str, object]]) -> list[AdapterPair]:
        found = [AdapterPair(**entry) for entry in entries]  # type: ignore[arg-type]
        if lost := [name for pair in found for name in (pair.a, pair.b) if name not in inputs]:
            raise ValueError(f"the model has no input {lost[0]!r}")
        return found

    try:
        return pairs(json.loads(model.metadata_props.get(ADAPTERS_KEY, "[]")))
    except (ValueError, TypeError, AttributeError) as error:
        raise ReadError(
            f"The entry {ADAPTERS_KEY!r} in the model's metadata is not what an export writes there ({type(error).__name__}: "
            f"{error}). Export the model anew, or remove the entry."
        ) from error
