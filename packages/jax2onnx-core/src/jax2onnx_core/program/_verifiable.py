"""`VerifiableProgram`: a program beside the function that it was made of, with which it is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.comparison import output_error
from jax2onnx_runtime.sizes import Ranges, Sizes

from jax2onnx_core.program._base import Program, Run

__all__ = ["VerifiableProgram"]


class VerifiableProgram(Program):
    """A program whose function is at hand."""

    def verify(
        self, *, sizes: Sequence[Sizes] | None = None, inputs: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None, ranges: Ranges | None = None, seed: int = 0,
        rtol: float | None = None, atol: float | None = None,
    ) -> float:  # fmt: skip
        """Compare the model with the function, at several sizes of every symbol.

        Model objects in the function are copied for it, so that what a call changes is changed in the copy.

        Args:
          sizes: symbols → numbers, one mapping per run. By default the smallest allowed, a prime and a larger one,
            and up to two more at which windows and slices of the model just fit or do not.
          inputs: the arguments to compare with, one entry per positional argument; by default random ones.
          kwargs: the keyword arguments that belong to `inputs`.
          ranges: input name → `(low, high)`, random numbers from `low` up to, for integers without, `high`. By default
            integers that index an axis are within it, others from 0 to 4.
          seed: that of the random arguments.
          rtol: the relative tolerance; by default that of each output's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the output.

        Returns:
          The largest absolute difference.

        Raises:
          VerificationError: an output differs; it is named.
          WeightsError: weights are absent.
        """
        runs = self.random_calls(sizes, ranges or {}, seed)
        if inputs is not None or kwargs is not None:
            if sizes is not None or ranges is not None:
                raise OptionError("verify takes either inputs and kwargs, or sizes and ranges for random ones.")
            runs = [Run("the given inputs", inputs or (), kwargs or {})]
        self.check_complete("verified")
        self.verified.clear()
        for run in runs:
            actual, expected = self.loaded(self.feeds(*run.args, **run.kwargs)), self.expected(run)
            for name, got, want in zip(self.output_names, actual, expected, strict=True):
                self.verified.append(output_error(name, got, want, run.where, rtol=rtol, atol=atol))
                self.verified[-1].check()
        return max((error.largest for error in self.verified), default=0.0)

    def expected(self, run: Run) -> Sequence[Array]:
        """The outputs that the model should have in a run: what the function computes."""
        raise NotImplementedError
