"""Matrices of low rank as optional inputs of a model, with the rank as a symbol."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.traversal import all_values
from onnx_ir.passes.common import RemoveUnusedNodesPass

from jax2onnx_runtime.adapters.finding import LowRankPair, chosen_pairs, is_stacked, low_rank_pairs
from jax2onnx_runtime.adapters.pairs import AdapterPair, read_adapters, write_adapters
from jax2onnx_runtime.adapters.stacks import entry_of

__all__ = ["adapter_pairs", "exported_matrices", "with_optional_adapters"]

_WORD = re.compile(r"[A-Za-z_]\w*")


def adapter_pairs(model: ir.Model, patterns: Sequence[str]) -> list[LowRankPair]:
    """The pairs of matrices that patterns of names choose, or, without any, those that the algebra tells.

    Raises:
      OptionError: there are none, or a pattern does not fit.
    """
    found = chosen_pairs(model, patterns) if patterns else low_rank_pairs(model)
    if not found:
        raise OptionError(
            "The model has no adapter that shows by itself, x @ w + x @ a @ b with a rank below the sizes of w. Choose the matrices by "
            'their names or by the type of variable: with_adapters("*lora_a"), with_adapters(nnx.LoRAParam).'
        )
    return found


def exported_matrices(pairs: Iterable[LowRankPair]) -> dict[str, ir.TensorProtocol]:
    """The matrices of pairs as they are in the model, by name."""
    values = [value for pair in pairs for value in (pair.a, pair.b)]
    return {value.name or "": value.const_value for value in values if value.const_value is not None}


def with_optional_adapters(model: ir.Model, patterns: Sequence[str]) -> ir.Model:
    """A copy of a model that takes the matrices of adapters as inputs, of any rank.

    Each is an input with an initializer of rank 0, which a runtime takes where nothing is given: then the adapter adds
    nothing. The metadata name the pairs, and every pair has a symbol of its own, because layers may have different ranks.

    Args:
      model: the model, which stays as it is.
      patterns: which matrices; see `adapter_pairs`.

    Raises:
      OptionError: there are none, or a pattern does not fit.
    """
    copy = model.clone()
    pairs, symbols = adapter_pairs(copy, patterns), _Symbols(copy)
    known = read_adapters(copy)
    for pair in pairs:
        known.append(_opened(copy.graph, pair, symbols.next(alone=len(pairs) == 1 and not known)))
    RemoveUnusedNodesPass()(copy)
    write_adapters(copy, known)
    return copy


class _Symbols:
    """Names of symbols that a model does not have."""

    def __init__(self, model: ir.Model) -> None:
        dims = (dim for value in all_values(model) for dim in dims_of(value) or ())
        self._taken = {
            name for dim in dims if isinstance(dim, ir.SymbolicDim) for name in _WORD.findall(dim.value or "")
        }
        self._number = 0

    def next(self, *, alone: bool) -> str:
        """`R` for a pair that is alone, else `R0`, `R1`, …"""
        name = "R"
        while not alone or name in self._taken:
            alone, name = False, f"R{self._number}"
            self._number += 1
            if name not in self._taken:
                break
        self._taken.add(name)
        return name


def _opened(graph: ir.Graph, pair: LowRankPair, symbol: str) -> AdapterPair:
    """Make the matrices of a pair optional inputs of the graph."""
    stacked = [int(is_stacked(matrix)) for matrix in (pair.a, pair.b)]
    axes = [axis + stack for axis, stack in zip((pair.a_axis, pair.b_axis), stacked, strict=True)]
    described = AdapterPair(pair.a.name or "", pair.b.name or "", symbol, axes[0], axes[1], pair.rank)
    for matrix, axis in zip((pair.a, pair.b), axes, strict=True):
        tensor = matrix.const_value
        assert tensor is not None, "it is a constant"
        for copied, its_axis in _copies(matrix, axis):
            _relabel(copied, its_axis, symbol)
        sizes = [0 if i == axis else size for i, size in enumerate(tensor.shape.numpy())]
        matrix.const_value = ir.Tensor(np.zeros(sizes, tensor.dtype.numpy()), tensor.dtype, name=matrix.name)
        graph.inputs.append(matrix)
    for flattening in pair.flattenings:
        _unflatten(flattening)
    for value, axis in pair.between:
        _relabel(value, axis, symbol)
    return described


def _unflatten(flattening: ir.Node) -> None:
    """Let products read what a Reshape would make a matrix of: it names the rank, and they take any number of axes."""
    before = flattening.inputs[0]
    assert before is not None
    for product, index in list(flattening.outputs[0].uses()):
        product.replace_input_with(index, before)
        result = product.outputs[0]
        result.shape = ir.Shape([*(dims_of(before) or ())[:-1], *(dims_of(result) or ())[-1:]])


def _copies(value: ir.Value, axis: int) -> Iterable[tuple[ir.Value, int]]:
    """A matrix, what is the same in another type, and the entries of matrices of all layers, each with the axis that an axis is in it."""
    yield value, axis
    for node, index in value.uses():
        entry = entry_of(node, index)
        if entry is not None:
            yield from _copies(entry, axis - 1)
        elif node.op_type in ("Cast", "Identity") and not node.domain:
            yield from _copies(node.outputs[0], axis)


def _relabel(value: ir.Value, axis: int, symbol: str) -> None:
    dims = dims_of(value)
    if dims is not None:
        value.shape = ir.Shape([ir.SymbolicDim(symbol) if i == axis else dim for i, dim in enumerate(dims)])
