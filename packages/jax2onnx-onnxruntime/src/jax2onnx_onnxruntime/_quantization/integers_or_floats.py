"""Integers within a tolerance: the products and convolutions that hurt most stay in floats, which an NPU computes in 16 bits.

Each node alone is put into integers, and the noise that it brings is measured on the calibration data. Of those that hurt most so many
stay in floats that the tolerance holds, which is found by halving: n nodes take about n + log2(n) models in integers.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
from jax2onnx_graph.facts.values import constant_tensor, operand
from jax2onnx_graph.progress import steps
from jax2onnx_graph.traversal import walk
from jax2onnx_runtime.mixed_bits import FULL_PRECISION, MixedBits, WeightBits
from jax2onnx_runtime.quantization import Quantization

from jax2onnx_onnxruntime._quantization.noise import Noise, fewest_steps, too_much
from jax2onnx_onnxruntime._quantization.selection import CONVOLUTIONS

__all__ = ["chosen_products", "weights_of"]

_BITS = 8


def weights_of(model: ir.Model, excluded: frozenset[str]) -> dict[str, ir.Value]:
    """The nodes with products of weights, by name, with the weight of each."""
    found = {}
    for node in walk(model.graph):
        weight = operand(node, 1) if node.op_type in ("MatMul", *CONVOLUTIONS) else None
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
    tolerance = request.tolerance
    noise, weights = Noise(model, request.calibration or ()), weights_of(model, excluded)
    result = make(frozenset())
    uniform = found = noise.of_model(result)
    kept, alone = 0, dict[str, float]()
    order = list(weights)
    if uniform > tolerance:
        alone = {name: noise.of_model(make(frozenset(weights) - {name})) for name in steps("choose products", order)}
        order.sort(key=lambda name: -alone[name])

        def share(count: int) -> float:
            nonlocal result, found
            tried = make(frozenset(order[:count]))
            noisy = noise.of_model(tried)
            if noisy <= tolerance:  # the last one that is within it is the one that is sought
                result, found = tried, noisy
            return noisy

        kept = fewest_steps(share, len(order), tolerance)
        if kept == len(order):
            raise too_much("product can be in integers", tolerance, min(alone.values()))
    entries = [_entry(weights[name], i < kept, alone.get(name)) for i, name in enumerate(order)]
    smallest = sum(_bytes(weight) for weight in weights.values()) // 4
    return result, MixedBits(tolerance, uniform, found, smallest, entries)


def _entry(weight: ir.Value, is_kept: bool, alone: float | None) -> WeightBits:
    noise = {} if alone is None else {_BITS: alone}
    bits = FULL_PRECISION if is_kept else _BITS
    return WeightBits(weight.name or "", bits, noise, _bytes(weight) * bits // FULL_PRECISION)


def _bytes(weight: ir.Value) -> int:
    tensor = constant_tensor(weight)
    assert tensor is not None, "weights are constants"
    return tensor.nbytes
