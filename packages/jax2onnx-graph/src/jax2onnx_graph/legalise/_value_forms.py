"""`ValueForms`: the casts of the values of a graph to carrier types and back, each written once."""

from __future__ import annotations

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dtypes import is_exact_cast, type_name
from jax2onnx_graph.legalise._carriers import Carrier, Embedding
from jax2onnx_graph.metadata import note_reason
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.traversal import is_value_read
from jax2onnx_graph.weights.absent import computed

__all__ = ["ValueForms"]

_SMALL = 64
"""Constants with up to this many elements are converted at export; a Cast of larger ones is folded by
runtimes when they load the model, and the file holds them once."""

_FLOAT8 = (ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E4M3FNUZ, ir.DataType.FLOAT8E5M2, ir.DataType.FLOAT8E5M2FNUZ)


class ValueForms:
    """The forms of the values of one root graph and its subgraphs, and the casts between them.

    A form of a value is another value: one of a carrier type, together with how the first stands in it.
    """

    def __init__(self) -> None:
        self._editors: dict[ir.Graph, GraphEditor] = {}
        self._forms: dict[ir.Value, dict[tuple[ir.DataType, Embedding], ir.Value]] = {}
        self._casts_back: dict[ir.Value, ir.Node] = {}
        self._converted_constants: dict[ir.Value, None] = {}

    def add_graph(self, editor: GraphEditor) -> None:
        """Let casts be written into this graph."""
        self._editors[editor.graph] = editor

    # -- reading a value in another type ----------------------------------------------------------

    def find(self, value: ir.Value, dtype: ir.DataType) -> ir.Value | None:
        """The value of another type that is the same number, if there is one."""
        return self._forms.get(value, {}).get((dtype, Embedding.EXACT))

    def find_source(self, value: ir.Value) -> ir.Value | None:
        """The same number in the carrier in which `value` was computed; None where it was not."""
        if value not in self._casts_back:
            return None
        return next(
            (form for (_, embedding), form in self._forms.get(value, {}).items() if embedding is Embedding.EXACT), None
        )

    def note_cast(self, value: ir.Value, result: ir.Value) -> None:
        """Record a Cast of the model's own that changes no number."""
        assert value.dtype is not None and result.dtype is not None
        self._forms.setdefault(result, {})[value.dtype, Embedding.EXACT] = value
        if _home(result) is _home(value):
            self._forms.setdefault(value, {})[result.dtype, Embedding.EXACT] = result

    def carried(self, value: ir.Value, carrier: Carrier, reader: ir.Node) -> tuple[ir.Value, Embedding]:
        """A value in a carrier type; a cast is written where there is none yet.

        Args:
          value: the value, of the narrow type.
          carrier: the carrier, which says the embeddings that will do.
          reader: the node that needs it, which the new cast takes its place and metadata from.

        Returns:
          The value in the carrier, and its embedding.
        """
        forms = self._forms.setdefault(value, {})
        for embedding in carrier.operands:
            known = forms.get((carrier.dtype, embedding))
            if known is not None:
                return known, embedding
        embedding = _embedding(value, carrier)
        result = self._widened(value, carrier.dtype, reader)
        if embedding is Embedding.FLIPPED:
            result = self._flipped(result, reader)
        forms[carrier.dtype, embedding] = result
        return result, embedding

    def _widened(self, value: ir.Value, dtype: ir.DataType, reader: ir.Node) -> ir.Value:
        constant, editor = value.const_value, self._editors[_home(value)]
        if constant is not None and value.is_initializer() and constant.size <= _SMALL and not value.is_graph_input():
            self._converted_constants[value] = None
            tensor = computed(lambda array: array.astype(dtype.numpy()), [constant], dtype, constant.shape.numpy())
            return editor.derived(value, tensor, dtype.short_name())
        assert value.dtype is not None
        result = self._cast(value, dtype, reader, value.dtype)
        result.name = editor.value_name(f"{value.name}_{dtype.short_name()}")
        return result

    def _cast(self, value: ir.Value, dtype: ir.DataType, reader: ir.Node, missing: ir.DataType) -> ir.Value:
        """A Cast of `value`, with the reason for the report: the runtime has no kernel of `reader` for the type `missing`."""
        editor = self._editors[_home(value)]
        builder = editor.after(value, reader)
        if dtype in _FLOAT8:  # saturation would turn infinities into the largest number
            result = builder.op("Cast", value, to=dtype, saturate=0)
        else:
            result = builder.op("Cast", value, to=dtype)
        note_reason(result, f"{editor.target.name} has no {reader.op_type} for {type_name(missing)}")
        return result

    def _flipped(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        """`value`, of a signed integer type, with the sign bit inverted."""
        assert value.dtype is not None
        editor = self._editors[_home(value)]
        builder = editor.after(value, reader)
        result = builder.op(
            "BitwiseXor", value, builder.constant(np.iinfo(value.dtype.numpy()).min, dtype=value.dtype.numpy())
        )
        result.name = editor.value_name(f"{value.name}_flipped")
        return result

    # -- computing a value in another type --------------------------------------------------------

    def cast_back(self, value: ir.Value, carrier: Carrier, embedding: Embedding | None, maker: ir.Node) -> None:
        """Let a node compute its result in a carrier; its readers read the cast back, which takes the name.

        Args:
          value: the result, so far of the narrow type.
          carrier: the carrier.
          embedding: the embedding of the result in the carrier; None where it has to be rounded before other nodes read it.
          maker: the node.
        """
        narrow, editor = value.dtype, self._editors[_home(value)]
        assert narrow is not None
        value.type = ir.TensorType(carrier.dtype)

        def narrowed(wide: ir.Value) -> ir.Value:
            source = self._flipped(wide, maker) if embedding is Embedding.FLIPPED else wide
            return self._cast(source, narrow, maker, narrow)

        result = editor.reroute(value, narrowed)
        value.name = editor.value_name(f"{result.name}_{carrier.dtype.short_name()}")
        cast = result.producer()
        assert cast is not None
        self._casts_back[result] = cast
        if embedding is not None:
            self._forms[result] = {(carrier.dtype, embedding): value}

    # -- the end ----------------------------------------------------------------------------------

    def finish(self) -> bool:
        """Drop casts back and converted constants that nobody reads; returns whether a graph was modified."""
        for result, cast in reversed(self._casts_back.items()):
            if not is_value_read(result):
                self._drop(cast)
        for value in self._converted_constants:
            if not is_value_read(value):
                assert value.name is not None
                del _home(value).initializers[value.name]
        for editor in self._editors.values():
            editor.finish()
        return any(editor.modified for editor in self._editors.values())

    def _drop(self, cast: ir.Node) -> None:
        source = cast.inputs[0]
        assert source is not None and cast.graph is not None
        editor = self._editors[cast.graph]
        editor.discard(cast)
        flip = source.producer()
        if flip is not None and flip.op_type == "BitwiseXor" and not source.uses():
            editor.discard(flip)


def _embedding(value: ir.Value, carrier: Carrier) -> Embedding:
    """The embedding that a value has in the carrier when it is cast to it."""
    if Embedding.FLIPPED in carrier.operands:
        return Embedding.FLIPPED
    assert value.dtype is not None
    is_truth = carrier.dtype == ir.DataType.BOOL
    return Embedding.EXACT if is_truth or is_exact_cast(value.dtype, carrier.dtype) else Embedding.RESIDUE


def _home(value: ir.Value) -> ir.Graph:
    """The graph that a value is defined in."""
    producer = value.producer()
    graph = value.graph if producer is None else producer.graph
    assert isinstance(graph, ir.Graph), f"{value} belongs to no graph"
    return graph
