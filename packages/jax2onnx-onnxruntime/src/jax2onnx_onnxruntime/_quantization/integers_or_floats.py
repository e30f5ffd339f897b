"""Integers within a tolerance: the products and convolutions that hurt most stay in floats, which an NPU computes in 16 bits.

Each node alone is put into integers, and the noise that it brings is measured on the calibration data. Of those that hurt most so many
stay in floats that the tolerance holds, which is found by halving: n nodes take about n + log2(n) models in integers.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.progress import steps
from jax2onnx_graph.traversal import walk
from jax2onnx_runtime.mixed_bits import FULL_PRECISION, MixedBits, WeightBits
from jax2onnx_runtime.quantization import Quantization

from jax2onnx_onnxruntime._quantization.noise import Noise
from jax2onnx_onnxruntime._quantization.selection import CONVOLUTIONS

__all__ = ["chosen_products", "weights_of"]

_BITS = 8


def weights_of(model: ir.Model, excluded: frozenset[str]) -> dict[str, ir.Value]:
    """The nodes with products of weights, by name, with the weight of each."""
    found = {}
    for node in walk(model.graph):
        weight = node.inputs[1] if node.op_type in ("MatMul", *CONVOLUTIONS) and len(node.inputs) > 1 else None
        if weight is not None and node.name not in excluded and constant_tensor(weight) is not None:
            found[node.name or ""] = weight
    return found


def chosen_products(
    model: ir.Model, request: Quantization, excluded: frozenset[str], make: Callable[[frozenset[str]], ir.Model]
) -> tuple[ir.Model, MixedBits]:
    """The model in integers in which no output has more noise than the request tolerates, and the bits of its weights.

    Args:
      model: the prepared model.
      request: how it is quantised.
      excluded: the names of the nodes that stay in floats anyway.
      make: makes the model in integers but for the nodes with these names.

    Raises:
      OptionError: even one product in integers is too much.
    """
    assert request.tolerance is not None, "it is asked for a tolerance alone"
    noise, weights = Noise(model, request.calibration or ()), weights_of(model, excluded)
    result = make(frozenset())
    uniform = found = noise.of_model(result)
    kept, alone = 0, dict[str, float]()
    order = list(weights)
    if uniform > request.tolerance:
        alone = {name: noise.of_model(make(frozenset(weights) - {name})) for name in steps("choose products", order)}
        order.sort(key=lambda name: -alone[name])
        low, kept = 0, len(order)  # too much noise; none at all
        while kept - low > 1:
            middle = (low + kept) // 2
            tried = make(frozenset(order[:middle]))
            share = noise.of_model(tried)
            if share <= request.tolerance:
                kept, result, found = middle, tried, share
            else:
                low = middle
        if kept == len(order):
            raise OptionError(
                f"No product can be in integers with a tolerance of {request.tolerance:g}: the least noise is "
                f"{min(alone.values()):.2g}. Give a higher tolerance, or another mode."
            )
    entries = [_entry(weights[name], i < kept, alone.get(name)) for i, name in enumerate(order)]
    smallest = sum(_bytes(weight) for weight in weights.values()) // 4
    return result, MixedBits(request.tolerance, uniform, found, smallest, entries)


def _entry(weight: ir.Value, is_kept: bool, alone: float | None) -> WeightBits:
    noise = {} if alone is None else {_BITS: alone}
    bits = FULL_PRECISION if is_kept else _BITS
    return WeightBits(weight.name or "", bits, noise, _bytes(weight) * bits // FULL_PRECISION)


def _bytes(weight: ir.Value) -> int:
    tensor = constant_tensor(weight)
    assert tensor is not None, "weights are constants"
    return tensor.nbytes
