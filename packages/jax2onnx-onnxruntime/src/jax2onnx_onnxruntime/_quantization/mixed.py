"""Mixed precision of weights within a tolerance: the noise of each weight alone is measured, then the cheapest choice of bits is sought.

The measurements that lead to a choice are runs of one model, which is loaded once: it computes each product in full precision and with all
quantised weights, and an input tells which result counts. With n weights there are 2n settings to measure for int4 (n for int8), and about
log2(2n) more to find the choice, each on all of the calibration data. What is chosen is then made, and measured itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.progress import steps
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.traversal import walk
from jax2onnx_runtime.mixed_bits import FULL_PRECISION, MixedBits, WeightBits
from jax2onnx_runtime.quantization import Quantization

from jax2onnx_onnxruntime._quantization.noise import Noise, fewest_steps, too_much
from jax2onnx_onnxruntime._quantization.weights import BlockedWeights, quantisable_weight, requested_bits
from jax2onnx_onnxruntime.loading import OrtModel, load

__all__ = ["chosen_bits"]

_SWITCH = "jax2onnx_bits"
_MORE = (4, 8, FULL_PRECISION)

#: How many bits each weight has, in their order.
_Setting = tuple[int, ...]


def chosen_bits(
    model: ir.Model, request: Quantization, excluded: frozenset[str], quantised: BlockedWeights,
    make: Callable[[Mapping[str, int]], ir.Model],
) -> tuple[ir.Model, MixedBits]:  # fmt: skip
    """The quantised model in which no output has more noise than the request tolerates, and the bits of its weights.

    Args:
      model: the prepared model.
      request: how it is quantised.
      excluded: the names of the nodes that stay.
      quantised: the weights in fewer bits.
      make: makes the quantised model for the bits of each weight by name.

    Raises:
      OptionError: the outputs are no numbers, or even one weight in fewer bits is too much.
    """
    assert request.tolerance is not None, "it is asked for a tolerance alone"
    weights = _weights(model, excluded)
    levels = [bits for bits in _MORE if bits >= requested_bits(request)]
    sizes = {(i, bits): _bytes(w, bits, quantised) for i, w in enumerate(weights) for bits in levels}
    noise = _SwitchedNoise(model, request, excluded, quantised, weights, levels)

    def made(setting: _Setting) -> tuple[ir.Model, float]:
        result = make({w.name or "": bits for w, bits in zip(weights, setting, strict=True)})
        return result, noise.of_model(result)

    fewest: _Setting = (levels[0],) * len(weights)
    chosen, (result, found) = fewest, made(fewest)
    uniform, alone = found, dict[tuple[int, int], float]()
    if uniform > request.tolerance:
        full = (FULL_PRECISION,) * len(weights)
        places = [(i, bits) for i in range(len(weights)) for bits in levels[:-1]]
        alone = {(i, bits): noise.worst_share(_with(full, i, bits)) for i, bits in steps("choose bits", places)}
        for chosen in _cheapest(noise.worst_share, _upgrades(alone, sizes, levels), fewest, request.tolerance):
            if chosen == full:
                fewer = " or ".join(map(str, levels[:-1]))
                raise too_much(f"weight can be in {fewer} bits", request.tolerance, min(alone.values()))
            result, found = made(chosen)
            if found <= request.tolerance:
                break
    entries = [
        WeightBits(w.name or "", bits, {b: alone[i, b] for b in levels[:-1] if (i, b) in alone}, sizes[i, bits])
        for i, (w, bits) in enumerate(zip(weights, chosen, strict=True))
    ]
    entries.sort(key=lambda entry: -max(entry.noise.values(), default=0.0))
    smallest = sum(sizes[i, levels[0]] for i in range(len(weights)))
    return result, MixedBits(request.tolerance, uniform, found, smallest, entries)


def _weights(model: ir.Model, excluded: frozenset[str]) -> list[ir.Value]:
    found = (quantisable_weight(node, excluded) for node in walk(model.graph))
    return list(dict.fromkeys(weight for weight in found if weight is not None))


def _bytes(weight: ir.Value, bits: int, quantised: BlockedWeights) -> int:
    tensor = constant_tensor(weight)
    assert tensor is not None
    return tensor.nbytes if bits == FULL_PRECISION else quantised.get(weight, bits).bytes


def _with(setting: _Setting, place: int, bits: int) -> _Setting:
    return (*setting[:place], bits, *setting[place + 1 :])


# The choice.


@dataclasses.dataclass(frozen=True)
class _Upgrade:
    """More bits for a weight, with the squared noise that they save for each further byte, if noise of weights adds up."""

    place: int
    bits: int
    gain: float


def _upgrades(
    alone: Mapping[tuple[int, int], float], sizes: Mapping[tuple[int, int], int], levels: Sequence[int]
) -> list[_Upgrade]:
    """All upgrades, those first that save most for a byte; a weight's come in the order of their bits."""
    found: list[_Upgrade] = []
    for place in sorted({i for i, _ in alone}):
        at = levels[0]
        while at != FULL_PRECISION:
            gains = {bits: _gain(alone, sizes, place, at, bits) for bits in levels if bits > at}
            at = max(gains, key=lambda bits: gains[bits])
            found.append(_Upgrade(place, at, gains[at]))
    return sorted(found, key=lambda upgrade: -upgrade.gain)


def _gain(
    alone: Mapping[tuple[int, int], float], sizes: Mapping[tuple[int, int], int], place: int, before: int, after: int
) -> float:
    saved = alone[place, before] ** 2 - alone.get((place, after), 0.0) ** 2
    return saved / max(sizes[place, after] - sizes[place, before], 1)


def _cheapest(
    noise: Callable[[_Setting], float], upgrades: Sequence[_Upgrade], fewest: _Setting, tolerance: float
) -> list[_Setting]:
    """The settings that upgrades make one after another, from the first that holds the tolerance, which is found by halving."""
    settings = [fewest]
    for upgrade in upgrades:
        settings.append(_with(settings[-1], upgrade.place, upgrade.bits))
    return settings[fewest_steps(lambda steps: noise(settings[steps]), len(settings) - 1, tolerance) :]


# The measurement.


class _SwitchedNoise(Noise):
    """The noise of settings, measured on the calibration data of a request.

    Args:
      model: the prepared model.
      request: the request for its quantisation.
      excluded: the names of the nodes that stay.
      quantised: the weights in fewer bits.
      weights: the weights of the products.
      levels: the bits that a weight may have.
    """

    def __init__(
        self, model: ir.Model, request: Quantization, excluded: frozenset[str], quantised: BlockedWeights,
        weights: Sequence[ir.Value], levels: Sequence[int],
    ) -> None:  # fmt: skip
        super().__init__(model, request.calibration or ())
        self._levels, self._excluded, self._quantised, self._weights = list(levels), excluded, quantised, weights

    def worst_share(self, setting: _Setting) -> float:
        """The share of noise in the worst output: the size of the difference relative to that of the output."""
        switch = np.array([self._levels.index(bits) for bits in setting], np.int64)
        return self._share(self._outputs(self._switched, {_SWITCH: switch}))

    @functools.cached_property
    def _switched(self) -> OrtModel:
        copy = self._model.clone()
        copy.opset_imports["com.microsoft"] = 1
        place = {weight.name or "": i for i, weight in enumerate(self._weights)}
        _Switched(self._excluded, self._quantised, place, self._levels[:-1])(copy)
        return load(copy)


class _Switched(GraphPass):
    """Products with weights in all precisions, one of which is chosen.

    1. `MatMul(x, w)` becomes `Where(bits[i] == 0, MatMulNBits of 4 bits, Where(bits[i] == 1, MatMulNBits of 8 bits, MatMul(x, w)))`,
       where `bits` is a new input and i the number of the weight. In the branches of an If, ONNX Runtime would compute another product:
       there it does not lay out weights anew, and without that it does not round activations.
    """

    def __init__(
        self, excluded: frozenset[str], quantised: BlockedWeights, place: Mapping[str, int], levels: Sequence[int]
    ) -> None:
        super().__init__()
        self._excluded, self._quantised, self._place, self._levels = excluded, quantised, place, list(levels)
        self._switch: ir.Value | None = None

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        if self._switch is None:  # the main graph comes first
            self._switch = ir.Value(
                name=_SWITCH, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([len(self._place)])
            )
            editor.graph.inputs.append(self._switch)
        for node in list(editor.nodes()):
            weight = quantisable_weight(node, self._excluded)
            if weight is not None:
                self._choose(editor, node, weight)

    def _choose(self, editor: GraphEditor, node: ir.Node, weight: ir.Value) -> None:
        builder, result = editor.before(node), node.outputs[0]
        assert self._switch is not None
        number = builder.op.Gather(self._switch, editor.constant(np.array(self._place[weight.name or ""], np.int64)))
        chosen = builder.op.MatMul(*node.inputs)
        for index in reversed(range(len(self._levels))):
            quantised = self._quantised.get(weight, self._levels[index])
            operands = [
                editor.derived(weight, t, f"{what}{self._levels[index]}") for what, t in quantised.operands.items()
            ]
            (few,) = builder.emit(
                "MatMulNBits", [node.inputs[0], *operands], "com.microsoft", 1, [np.float32],
                labelled(dims_of(result) or ()), dict(quantised.attributes),
            )  # fmt: skip
            chosen = builder.op.Where(builder.op.Equal(number, editor.constant(np.array(index, np.int64))), few, chosen)
        name = result.name
        editor.replace(node, chosen)
        chosen.name = name
