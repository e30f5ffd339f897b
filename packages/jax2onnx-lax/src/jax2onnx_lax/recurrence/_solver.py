"""`Solver`: chooses how a state that is linear in itself is computed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Context, Dim

from jax2onnx_lax.recurrence._affine_updates import AffineUpdate
from jax2onnx_lax.recurrence._carries import Solution
from jax2onnx_lax.recurrence._chunks import ChunkSolution
from jax2onnx_lax.recurrence._convolution import Convolution, ConvolutionSolution
from jax2onnx_lax.recurrence._elementwise import ElementwiseSolution, SumSolution
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._kernel import KernelSolution
from jax2onnx_lax.recurrence._values import size_of
from jax2onnx_lax.recurrence.linear_attention import is_taken

__all__ = ["FEWEST_OF_SYMBOLIC", "FEWEST_STEPS", "AnySolution", "Solver"]

#: A step on a larger state takes as long as the loop around it. More where the step also computes products along the axes of the state.
_MOST_ELEMENTS, _MOST_OF_PRODUCTS = 1024, 4096

#: Of fewer steps the loop is faster than blocks and chunks.
FEWEST_STEPS = 32

#: The same where their number is symbolic, of elementwise recurrences (32 steps took 0.10 ms in place of 0.08, 64 took 0.10 in place of
#: 0.14) and of convolutions (4 steps of 64 channels took 0.2 ms in place of 1, 32 took 0.6, 64 0.9).
FEWEST_OF_SYMBOLIC = 64

_DTYPES = (jnp.float32, jnp.float64, jnp.complex64, jnp.complex128)

Whole = KernelSolution | ChunkSolution | ElementwiseSolution | SumSolution
AnySolution = Whole | ConvolutionSolution


class Solver:
    """Solves the states of a scan, and keeps the conditions under which the results equal those of the scan.

    Args:
      ctx: the context of the scan.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.solved: list[AnySolution] = []

    @property
    def conditions(self) -> list[jax.Array]:
        """Bool scalars: the results are those of the scan where all hold."""
        return [condition for solution in self.solved for condition in solution.conditions]

    def __call__(self, form: AffineUpdate, init: jax.Array, length: Dim) -> Solution:
        """The state of a form, from its first value on.

        Raises:
          UnsuitableError: it is best computed step by step.
        """
        solution = self._chosen(form, init, length)
        self.solved.append(solution)
        return solution

    def _chosen(self, form: AffineUpdate, init: jax.Array, length: Dim) -> AnySolution:
        convolution = Convolution.from_form(form)
        if convolution is None or init.dtype not in _DTYPES:
            return self._whole(form, init, length)
        return ConvolutionSolution(convolution, init, length, lambda: self._whole(form, init, length))

    def _whole(self, form: AffineUpdate, init: jax.Array, length: Dim) -> Whole:
        if init.dtype not in _DTYPES:
            raise UnsuitableError(f"its state is of {init.dtype}, in which each step rounds")
        size = size_of(form.shape)
        limit = _MOST_ELEMENTS if form.is_plain else _MOST_OF_PRODUCTS
        if form.low is None and size <= limit:
            if SumSolution.takes(form):
                return SumSolution(form, init, length)
            return ElementwiseSolution(form, init, length)
        if is_taken(self._ctx, init.dtype) and KernelSolution.takes(form, init, length):
            return KernelSolution(form, init, length)
        return ChunkSolution(form, init, length)
