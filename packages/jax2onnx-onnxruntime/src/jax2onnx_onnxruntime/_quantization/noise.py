"""`Noise`: how much the outputs of a model differ from those of another, relative to their size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.accuracy import accuracy

from jax2onnx_onnxruntime.loading import OrtModel, default_options

__all__ = ["Noise", "fewest_steps", "too_much"]


class Noise:
    """The noise of models in fewer bits.

    Args:
      model: the model in full precision.
      runs: the inputs on which it is measured.

    Raises:
      OptionError: no output is of floating-point numbers.
    """

    def __init__(self, model: ir.Model, runs: Sequence[Mapping[str, Array]]) -> None:
        self._model, self._runs = model, list(runs)
        full = self._outputs(_as_written(model))
        self._floats = [i for i, array in enumerate(full[0]) if array.dtype.kind not in "biuOSU"]
        if not self._floats:
            raise OptionError(
                "A tolerance is about noise in numbers, and no output of the model is of floating-point numbers."
            )
        self._full = [self._chosen(outputs) for outputs in full]

    def of_model(self, model: ir.Model) -> float:
        """The share of noise in the worst output: the size of the difference relative to that of the output."""
        return self._share(self._outputs(_as_written(model)))

    def _share(self, outputs: Sequence[Sequence[Array]]) -> float:
        names = [self._model.graph.outputs[i].name or "" for i in self._floats]
        worst = accuracy(names, zip(self._full, map(self._chosen, outputs), strict=True)).worst.snr
        return float(10 ** (-worst / 20))

    def _chosen(self, outputs: Sequence[Array]) -> list[Array]:
        return [outputs[i] for i in self._floats]

    def _outputs(self, run: OrtModel, more: Mapping[str, Array] | None = None) -> list[list[Array]]:
        return [run({**feeds, **(more or {})}) for feeds in self._runs]


def _as_written(model: ir.Model) -> OrtModel:
    """A session that computes floats in float32, where by itself ONNX Runtime puts activations of a product with 8-bit weights into 8 bits."""
    options = default_options()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return OrtModel(model, options=options)


def fewest_steps(share: Callable[[int], float], most: int, tolerance: float) -> int:
    """After how many steps, each of which leaves less noise, the share of noise is within a tolerance, found by halving.

    Args:
      share: the share of noise after so many steps, between none, which leave too much, and the most.
      most: after so many steps there is no noise.
      tolerance: the largest share.
    """
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if share(middle) <= tolerance else (middle, high)
    return high


def too_much(what: str, tolerance: float, least: float) -> OptionError:
    """The error where a tolerance allows nothing in fewer bits; `what` is what cannot be in them."""
    return OptionError(
        f"No {what} with a tolerance of {tolerance:g}: the least noise is {least:.2g}. Give a higher tolerance, or another mode."
    )
