"""`MixedBits`: how many bits each weight of a model got so that a tolerance is held, and why."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.metadata import BITS_KEY

__all__ = ["FULL_PRECISION", "MixedBits", "WeightBits", "read_mixed_bits", "write_mixed_bits"]

#: The bits of a weight that stays as it is.
FULL_PRECISION = 32


@dataclasses.dataclass(frozen=True)
class WeightBits:
    """A weight, and how many bits it got.

    Attributes:
      name: that of the weight.
      bits: how many bits its numbers have; 16 of "static_int8" are those of the activations, while the weight has 8.
      noise: the share of noise in the worst output where this weight alone has so many bits, by their number; empty where nothing
        had to be chosen.
      bytes: how much it takes, scales included.
    """

    name: str
    bits: int
    noise: Mapping[int, float]
    bytes: int


@dataclasses.dataclass(frozen=True)
class MixedBits:
    """Numbers of bits that were chosen for the weights of a model so that a tolerance is held.

    Attributes:
      tolerance: the share of noise that an output may have.
      uniform_noise: the share of noise in the worst output where all weights have the fewest bits.
      noise: the same with the chosen bits.
      uniform_bytes: how much the weights take with the fewest bits.
      weights: the weights, those that hurt most first.
    """

    tolerance: float
    uniform_noise: float
    noise: float
    uniform_bytes: int
    weights: Sequence[WeightBits]

    @property
    def bytes(self) -> int:
        """Bytes of all weights."""
        return sum(weight.bytes for weight in self.weights)

    @property
    def fewest(self) -> int:
        """The fewest bits of a weight that were possible."""
        return min((bits for weight in self.weights for bits in (weight.bits, *weight.noise)), default=FULL_PRECISION)

    @property
    def kept(self) -> list[WeightBits]:
        """The weights that have more bits than the fewest."""
        return [weight for weight in self.weights if weight.bits > self.fewest]

    def __str__(self) -> str:
        before = f"with {self.fewest} bits everywhere"
        noise = f"{_percent(self.noise)} of the worst output ({_decibels(self.noise)})"
        noise_before = f"{_percent(self.uniform_noise)} ({_decibels(self.uniform_noise)})"
        lines = [f"noise {noise}, tolerance {_percent(self.tolerance)}; {before} {noise_before}"]
        more = f"more bits for {len(self.kept)} of {len(self.weights)}{':' if self.kept else ''}"
        lines.append(f"weights {_size(self.bytes)}, {before} {_size(self.uniform_bytes)}; {more}")
        for weight in self.kept:
            alone = ", ".join(f"{_percent(noise)} of noise with {bits}" for bits, noise in sorted(weight.noise.items()))
            lines.append(f"  {weight.name}: {weight.bits} bits, {_size(weight.bytes)}; alone, {alone}")
        return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _decibels(share: float) -> str:
    return f"{-20 * math.log10(share):.0f} dB" if share > 0 else "exact"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def write_mixed_bits(model: ir.Model, chosen: MixedBits) -> None:
    """Keep what was chosen in the model's metadata."""
    model.metadata_props[BITS_KEY] = json.dumps(dataclasses.asdict(chosen))


def read_mixed_bits(model: ir.Model) -> MixedBits | None:
    """The choice for a model; None where nothing was chosen.

    Raises:
      ReadError: something else is in the metadata.
    """
    if BITS_KEY not in model.metadata_props:
        return None
    try:
        entry = json.loads(model.metadata_props[BITS_KEY])
        weights = [
            WeightBits(**{**weight, "noise": {int(bits): noise for bits, noise in weight["noise"].items()}})
            for weight in entry.pop("weights")
        ]
        return MixedBits(weights=weights, **entry)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReadError(
            f"The entry {BITS_KEY!r} in the model's metadata is not what quantising writes there ({type(error).__name__}: {error}). "
            "Quantise the model anew, or remove the entry."
        ) from error
