"""Quantising a model: prepared, given to the quantizer of the mode, and read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import onnx_ir as ir
from jax2onnx_graph.errors import TargetError
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.targets import Target
from jax2onnx_runtime.mixed_bits import write_mixed_bits
from jax2onnx_runtime.quantization import Mode, Quantization, WeightMemory
from onnx_ir.passes.common import RemoveUnusedNodesPass

from jax2onnx_onnxruntime._quantization.dequantised import dequantised_weights
from jax2onnx_onnxruntime._quantization.half import half_precision
from jax2onnx_onnxruntime._quantization.integers import dynamic_integers, static_integers
from jax2onnx_onnxruntime._quantization.integers_or_floats import chosen_products
from jax2onnx_onnxruntime._quantization.mixed import chosen_bits
from jax2onnx_onnxruntime._quantization.prepare import prepared
from jax2onnx_onnxruntime._quantization.selection import excluded_nodes
from jax2onnx_onnxruntime._quantization.shapes import add_shapes
from jax2onnx_onnxruntime._quantization.weights import BlockedWeights, blocked_weights

__all__ = ["quantize"]

#: Makes the quantised model of a prepared one, but for the nodes with these names, for a target.
_Quantizer = Callable[[ir.Model, Quantization, frozenset[str], Target], ir.Model]


def _anywhere(quantizer: Callable[[ir.Model, Quantization, frozenset[str]], ir.Model]) -> _Quantizer:
    """A quantizer that does the same for all targets."""
    return lambda model, request, excluded, _: quantizer(model, request, excluded)


_QUANTIZERS: Mapping[Mode, _Quantizer] = {
    "int4": _anywhere(blocked_weights),
    "int8": _anywhere(blocked_weights),
    "dynamic_int8": _anywhere(dynamic_integers),
    "static_int8": static_integers,
    "float16": half_precision,
    "bfloat16": half_precision,
    "int4_qdq": dequantised_weights,
    "float8": dequantised_weights,
}


def quantize(model: ir.Model, request: Quantization, target: Target) -> ir.Model:
    """A quantised copy of a model in float32, for a version of ONNX Runtime.

    Raises:
      OptionError: a pattern of `exclude` matches nothing, nothing is left to quantise, or weights are not finite.
      TargetError: ONNX Runtime's quantizer fails.
    """
    if request.tolerance is not None:
        return _mixed(model, request, target)
    to_half = _QUANTIZERS[request.mode] is half_precision
    copy = prepared(model, plain_products=not to_half)
    excluded = excluded_nodes(copy, request)
    return _finished(model, copy, request, excluded, target)


def _finished(
    model: ir.Model, copy: ir.Model, request: Quantization, excluded: frozenset[str], target: Target
) -> ir.Model:
    """The prepared copy of a model in the mode of a request, but for some nodes, with the model's name and metadata."""
    to_half = _QUANTIZERS[request.mode] is half_precision
    try:
        result = _QUANTIZERS[request.mode](copy, request, excluded, target)
    except TargetError:
        raise
    except Exception as error:
        raise TargetError(
            f"ONNX Runtime cannot quantise the model to {request.mode} ({type(error).__name__}: {error})."
        ) from error
    if request.mode in ("dynamic_int8", "static_int8"):
        add_shapes(result)
    for factory in target.passes() if to_half else ():
        factory(target)(result)
    RemoveUnusedNodesPass()(result)
    make_names_unique(result)
    result.metadata_props.clear()
    result.metadata_props.update(model.metadata_props)
    result.graph.name = model.graph.name
    return result


def _mixed(model: ir.Model, request: Quantization, target: Target) -> ir.Model:
    """The model with as few bits in each weight as the tolerance of the request allows, which its metadata tell."""
    copy = prepared(model, plain_products=True)
    if request.mode == "static_int8":
        excluded = excluded_nodes(copy, request)

        def integers(bits: Mapping[str, int]) -> ir.Model:
            return _finished(model, copy.clone(), dataclasses.replace(request, bits=bits), excluded, target)

        result, chosen = chosen_products(copy, request, excluded, target, integers)
        write_mixed_bits(result, chosen)
        return result
    memory = request.memory or WeightMemory()
    plain = dataclasses.replace(request, tolerance=None, calibration=None, memory=memory)

    def make(bits: Mapping[str, int]) -> ir.Model:
        return quantize(model, dataclasses.replace(plain, bits=bits), target)

    weights = BlockedWeights(request.weights_per_scale, memory)
    result, chosen = chosen_bits(copy, request, excluded_nodes(copy, request), weights, make)
    write_mixed_bits(result, chosen)
    return result
