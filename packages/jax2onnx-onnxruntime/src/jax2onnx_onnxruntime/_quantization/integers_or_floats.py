"""Integers within a tolerance: products and convolutions whose weights hurt most have activations in 16 bits, or stay in floats.

Each weight alone is put into 8 bits, and the noise that it brings is measured on the calibration data. Those that hurt most get more
until the tolerance holds, which is found by halving: first activations in 16 bits, where the target likes these better than floats, then
floats, which an NPU computes in 16 bits. n weights take about n + log2(2n) models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.forms import Form
from jax2onnx_graph.progress import steps
from jax2onnx_graph.targets import Target
from jax2onnx_runtime.mixed_bits import FULL_PRECISION, MixedBits, WeightBits
from jax2onnx_runtime.quantization import Quantization

from jax2onnx_onnxruntime._quantization.integers import FEWEST, WIDE, can_be_wide, weights_in_integers
from jax2onnx_onnxruntime._quantization.noise import Noise, fewest_steps, too_much

__all__ = ["chosen_products"]


def chosen_products(
    model: ir.Model, request: Quantization, excluded: frozenset[str], target: Target,
    make: Callable[[Mapping[str, int]], ir.Model],
) -> tuple[ir.Model, MixedBits]:  # fmt: skip
    """The model in integers in which no output has more noise than the request tolerates, and the bits of its weights.

    Args:
      model: the prepared model.
      request: how it is quantised.
      excluded: the names of the nodes that stay in floats anyway.
      target: the target, which may like activations in 16 bits better than floats.
      make: makes the model in integers for the bits of each weight by name; 8 where there are none.

    Raises:
      OptionError: even one product in integers is too much.
    """
    assert request.tolerance is not None, "it is asked for a tolerance alone"
    tolerance = request.tolerance
    noise = Noise(model, request.calibration or ())
    weights = {w.name or "": w for w in weights_in_integers(model, excluded).values()}
    result = make({})
    uniform = found = noise.of_model(result)
    levels, chosen, alone = _levels(model, target), dict.fromkeys(weights, FEWEST), dict[str, float]()
    if uniform > tolerance:
        floats = dict.fromkeys(weights, FULL_PRECISION)
        alone = {n: noise.of_model(make({**floats, n: FEWEST})) for n in steps("choose products", list(weights))}
        order = sorted(weights, key=lambda name: -alone[name])

        def share(count: int) -> float:
            nonlocal result, found, chosen
            bits = _after(count, order, levels)
            tried = make(bits)
            noisy = noise.of_model(tried)
            if noisy <= tolerance:  # the last one that is within it is the one that is sought
                result, found, chosen = tried, noisy, bits
            return noisy

        most = len(order) * (len(levels) - 1)
        if fewest_steps(share, most, tolerance) == most:
            raise too_much("product can be in integers", tolerance, min(alone.values()))
    entries = [_entry(weight, chosen[name], alone.get(name)) for name, weight in weights.items()]
    entries.sort(key=lambda entry: -max(entry.noise.values(), default=0.0))
    smallest = sum(_bytes(weight, FEWEST) for weight in weights.values())
    return result, MixedBits(tolerance, uniform, found, smallest, entries)


def _levels(model: ir.Model, target: Target) -> Sequence[int]:
    """The bits that products may have, the fewest first."""
    wide = target.prefers(Form.FLOAT_PRODUCT, Form.PRODUCT_OF_16_BITS) is Form.PRODUCT_OF_16_BITS
    return (FEWEST, WIDE, FULL_PRECISION) if wide and can_be_wide(model) else (FEWEST, FULL_PRECISION)


def _after(count: int, order: Sequence[str], levels: Sequence[int]) -> dict[str, int]:
    """The bits of each weight after so many upgrades: each of the order gets the next level before the first one gets the one after it."""
    last = len(order) - 1
    return {name: levels[(count + last - place) // len(order)] for place, name in enumerate(order)}


def _entry(weight: ir.Value, bits: int, alone: float | None) -> WeightBits:
    noise = {} if alone is None else {FEWEST: alone}
    return WeightBits(weight.name or "", bits, noise, _bytes(weight, bits))


def _bytes(weight: ir.Value, bits: int) -> int:
    """The bytes of a weight, which has 8 bits where its activations have 16."""
    tensor = constant_tensor(weight)
    assert tensor is not None, "weights are constants"
    return tensor.nbytes if bits == FULL_PRECISION else tensor.nbytes * FEWEST // FULL_PRECISION
