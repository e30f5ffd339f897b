"""Cases of `conv`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_equinox._mapped import mapped

__all__ = ["cases"]

_IMAGES, _ANY_SIZE = [("B", 4, 7, 8)], [("B", 4, "H", "W")]


def _layer(kind: Any, *sizes: int, maps: int = 1, **options: Any) -> Callable[[jax.Array], jax.Array]:
    return mapped(kind(*sizes, key=jax.random.key(0), **options), maps)


def _case(
    name: str, inputs: Any, kind: Any, *sizes: int, expect: str, counts: Mapping[str, int] | None = None,
    **options: Any,
) -> Case:  # fmt: skip
    """The case of a layer that becomes exactly the operators of the path `expect`, and so many of those in `counts`."""
    fn = construct(_layer, kind, *sizes, dtype=with_dtype(), **options)
    return Case(name, fn, inputs, expect=expect_graph(expect, counts=counts, match="exact"))


cases = [
    _case("conv", _IMAGES, eqx.nn.Conv2d, 4, 6, 3, expect="Conv"),
    _case("conv_same", _ANY_SIZE, eqx.nn.Conv2d, 4, 6, 3, padding="SAME", expect="Conv"),
    _case("conv_same_lower", _IMAGES, eqx.nn.Conv2d, 4, 6, 2, padding="SAME_LOWER", stride=2, expect="Conv"),
    _case("conv_of_groups", _IMAGES, eqx.nn.Conv2d, 4, 6, 3, padding=((2, 1), (0, 2)), dilation=2, groups=2,
          use_bias=False, expect="Conv"),
    _case("conv_of_signals", [("B", 4, "T")], eqx.nn.Conv1d, 4, 6, 3, padding=1, stride=2, expect="Conv"),
    _case("conv_of_volumes", [("B", 4, 3, 4, 5)], eqx.nn.Conv3d, 4, 6, 3, padding=1, expect="Conv"),
    _case("conv_of_one_image", [(4, 7, 8)], eqx.nn.Conv2d, 4, 6, 3, maps=0,
          expect="Unsqueeze -> Conv -> Squeeze"),
    _case("conv_mapped_twice", [(2, 3, 4, 7, 8)], eqx.nn.Conv2d, 4, 6, 3, maps=2,
          expect="Reshape:6x4x7x8 -> Conv -> Reshape"),
    _case("conv_circular", _IMAGES, eqx.nn.Conv2d, 4, 6, 3, padding="SAME", padding_mode="CIRCULAR",
          expect="Slice -> Concat:Bx4x9x8 -> Slice -> Concat:Bx4x9x10 -> Conv", counts={"Slice": 4}),
    _case("conv_reflect", _IMAGES, eqx.nn.Conv2d, 4, 6, 3, padding=1, padding_mode="REFLECT",
          expect="Pad:Bx4x9x10 -> Conv"),
    _case("conv_transpose", _ANY_SIZE, eqx.nn.ConvTranspose2d, 4, 6, 3, stride=2, padding=1, output_padding=1,
          expect="ConvTranspose"),
    _case("conv_transpose_same", _IMAGES, eqx.nn.ConvTranspose2d, 4, 6, 3, stride=2, padding="SAME",
          expect="ConvTranspose"),
    _case("conv_transpose_same_lower", _IMAGES, eqx.nn.ConvTranspose2d, 4, 6, 2, stride=3, padding="SAME_LOWER",
          expect="ConvTranspose"),
    _case("conv_transpose_of_groups", _IMAGES, eqx.nn.ConvTranspose2d, 4, 6, 3, stride=2, groups=2, dilation=2,
          expect="ConvTranspose"),
    _case("conv_transpose_circular", _IMAGES, eqx.nn.ConvTranspose2d, 4, 6, 3, stride=2, padding="SAME",
          padding_mode="CIRCULAR",
          expect="Slice -> Concat:Bx4x8x8 -> Slice -> Concat:Bx4x8x9 -> ConvTranspose"),
    _case("conv_transpose_mapped_twice", [(2, 3, 4, 9)], eqx.nn.ConvTranspose1d, 4, 6, 3, stride=2, maps=2,
          expect="Reshape:6x4x9 -> ConvTranspose -> Reshape"),
]  # fmt: skip
