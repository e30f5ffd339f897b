"""`Quantization`: the options of a model in fewer bits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal, TypeVar, cast, get_args

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.options import check_flag, check_list
from jax2onnx_graph.saving.contents import Contents

__all__ = ["Mode", "Quantization", "WeightMemory"]

#: "int4", "int8": weights in blocks; "dynamic_int8": products of integers, activations scaled as they come;
#: "static_int8": the same with scales from calibration; "float16", "bfloat16": weights and activations in half precision;
#: "int4_qdq", "float8": weights behind DequantizeLinear, in standard operators.
Mode = Literal["int4", "int8", "dynamic_int8", "static_int8", "float16", "bfloat16", "int4_qdq", "float8"]

T = TypeVar("T")

_BLOCKED = ("int4", "int8")
_HALF = ("float16", "bfloat16")
_BLOCK_SIZES = (16, 32, 64, 128, 256)
_BLOCK_SIZE = 32


class WeightMemory:
    """Results computed from weights, each once however many models have the weight."""

    def __init__(self) -> None:
        self._contents = Contents()
        self._made: dict[Hashable, object] = {}

    def get(self, tensor: ir.TensorProtocol, how: Hashable, make: Callable[[], T]) -> T:
        """Return the result for a weight with the same numbers, type and shape, made in the same way; make it where there is none.

        Args:
          tensor: the weight.
          how: the way, such as the bits and the block size; the type of what is made follows from it.
          make: makes it.
        """
        key = self._contents.content(tensor), tensor.dtype, tuple(tensor.shape.numpy()), how
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])


@dataclasses.dataclass(frozen=True)
class Quantization:
    """Options of quantization.

    Attributes:
      mode: what becomes of weights and activations.
      block_size: how many weights of a column share a scale in the modes "int4" and "int8"; 32 by default.
      exclude: patterns of names of nodes, weights or modules that stay as they are.
      calibration: inputs by name, from which the ranges of activations are read ("static_int8"), or on which noise is measured.
      keep_io_types: whether inputs and outputs stay float32 in half precision.
      tolerance: the largest share of noise in an output, for weights in blocks and "static_int8": what hurts most has more bits until it is held.
      bits: the bits of each weight by name, where they were chosen before.
      memory: what was made of the weights of other models, and is taken for equal ones.

    Raises:
      OptionError: the mode is unknown, or an option is not one of its.
    """

    mode: Mode
    block_size: int | None = None
    exclude: Sequence[str] = ()
    calibration: Sequence[Mapping[str, Array]] | None = None
    keep_io_types: bool = True
    tolerance: float | None = None
    bits: Mapping[str, int] | None = None
    memory: WeightMemory | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise OptionError(
                f"There is no mode {self.mode!r} of quantisation; the modes are {', '.join(get_args(Mode))}."
            )
        if self.block_size is not None and self.mode not in (*_BLOCKED, "int4_qdq"):
            raise OptionError(
                f"block_size is for weights in blocks: for {' and '.join(_BLOCKED)} and int4_qdq, not for {self.mode}."
            )
        if self.block_size is not None and (
            not isinstance(self.block_size, int) or self.block_size not in _BLOCK_SIZES
        ):
            raise OptionError(f"block_size is one of {', '.join(map(str, _BLOCK_SIZES))}, not {self.block_size!r}.")
        if isinstance(self.exclude, str):
            raise OptionError(f"exclude is a list of patterns; write exclude=[{self.exclude!r}].")
        check_list("exclude", self.exclude, "patterns")
        if others := [pattern for pattern in self.exclude if not isinstance(pattern, str)]:
            raise OptionError(f"exclude is a list of patterns such as 'head', and {others[0]!r:.80} is no text.")
        check_flag("keep_io_types", self.keep_io_types)
        if not self.keep_io_types and self.mode not in _HALF:
            raise OptionError(
                f"keep_io_types is for {' and '.join(_HALF)}: inputs and outputs stay as they are in {self.mode}."
            )
        if self.mode == "static_int8" and not self.calibration:
            raise OptionError(
                "static_int8 reads the ranges of activations from examples, and there are none: give some typical inputs, "
                "calibration=[(x,), …], tens to hundreds of them."
            )
        self._check_tolerance()
        if self.mode != "static_int8" and self.tolerance is None and self.calibration is not None:
            raise OptionError(
                f"calibration is for static_int8, and for {' and '.join(_BLOCKED)} with a tolerance; {self.mode} has no use for it."
            )

    def _check_tolerance(self) -> None:
        if self.tolerance is None:
            return
        if self.mode not in (*_BLOCKED, "static_int8"):
            raise OptionError(f"tolerance is for {', '.join(_BLOCKED)} and static_int8, not for {self.mode}.")
        if (
            isinstance(self.tolerance, bool)
            or not isinstance(self.tolerance, int | float)
            or not 0 < self.tolerance < 1
        ):
            raise OptionError(
                f"tolerance={self.tolerance!r}: it is the share of noise that an output may have, a number between 0 and 1: 0.1 is 20 dB."
            )
        if not self.calibration:
            raise OptionError(
                "A tolerance is measured on examples, and there are none: give some typical inputs, calibration=[(x,), …]."
            )

    @property
    def weights_per_scale(self) -> int:
        """The block size, given or not."""
        return self.block_size or _BLOCK_SIZE
