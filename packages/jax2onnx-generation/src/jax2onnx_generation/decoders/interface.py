"""`DecoderInterface`: an exported decoder with the inputs and outputs that runtimes of text models feed and read: those of Hugging Face's decoders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim
from jax2onnx_graph.metadata import LAYOUTS_KEY, SYMBOLS_KEY, StatePair, read_constraints, write_states
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.passes import optimise
from jax2onnx_graph.passes.structural.attention_layout import AttentionLayout
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.patterns import operation, permutation_of, source_of
from jax2onnx_graph.targets import Target
from jax2onnx_runtime.feeds import symbol_space

from jax2onnx_generation.decoders.caches import Cache, Counter, Layer, layers_of, states_of
from jax2onnx_generation.decoders.declaration import DECODER_KEY
from jax2onnx_generation.decoders.rotary_layout import RotaryLayout
from jax2onnx_generation.decoders.signature import DecoderSignature
from jax2onnx_generation.decoders.step_inputs import StepInputs
from jax2onnx_generation.decoders.traits import known_positions

__all__ = ["LOGITS", "PAST", "POSITIONS", "PRESENT", "TOKENS", "DecoderInterface", "decoder_interface"]

TOKENS = "input_ids"
"""The name of the input with the tokens."""
POSITIONS = "position_ids"
"""The name of the input with the positions, where there is one."""
LOGITS = "logits"
"""The name of the output with the logits."""
PAST = "past_key_values"
"""The beginning of the names of inputs with caches."""
PRESENT = "present"
"""The beginning of the names of outputs with caches."""


@dataclasses.dataclass(frozen=True)
class DecoderInterface:
    """A decoder with the inputs and outputs of Hugging Face's decoders.

    Attributes:
      model: the model, whose inputs are input_ids, attention_mask, position_ids where it needs them, and the caches of each layer;
        its outputs the logits and the caches.
      batch: the number of texts, or the symbol of it.
      layers: the number of layers.
      heads: the number of heads of a cache.
      features: the features of a head.
      vocabulary: the number of logits of a token.
      is_shared: whether the caches have a fixed capacity, so that the new ones may be written into the memory of the old ones.
      capacity: the number of places of such caches, where it is fixed.
      positions: the number of positions, where it looks them up in a table.
      takes_one_token: whether a step takes one token only.
      hides_padding: whether texts of different lengths can be filled up to one: it has positions [B, T] and a mask for each text.
    """

    model: ir.Model
    batch: LabelledDim
    layers: int
    heads: int
    features: int
    vocabulary: int
    is_shared: bool
    capacity: int | None
    positions: int | None
    takes_one_token: bool
    hides_padding: bool

    def context_length(self, given: int | None, stated: int | None) -> int | None:
        """The most tokens of a text: as given, else as many as there are places and positions, else what files state.

        Args:
          given: what the user asks for.
          stated: what the files of the tokenizer say.

        Raises:
          OptionError: it is no number of tokens, or the decoder does not have so many places or positions.
        """
        most = min((number for number in (self.capacity, self.positions) if number is not None), default=None)
        if given is None:
            return stated if most is None else most
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise OptionError(f"context_length is a number of tokens, not {given!r}.")
        if most is not None and given > most:
            raise OptionError(f"context_length is {given}, and the model has {most} positions or places in its caches.")
        return given


def decoder_interface(
    model: ir.Model, signature: DecoderSignature, target: Target, *, fuse: Callable[[ir.Model], None] | None = None,
    beside: Collection[str] = (),
) -> DecoderInterface:  # fmt: skip
    """The decoder with other inputs and outputs; the model is changed.

    Args:
      model: the model of a decoder.
      signature: its inputs and outputs.
      target: what the model was made for.
      fuse: makes operators of a runtime's own of the finished interface, before transposes move.
      beside: inputs that stay as they are, and come last: what a runtime has from an encoder.

    Raises:
      OptionError: its inputs or states are none that runtimes have.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    tokens = _checked_tokens(inputs[signature.tokens], signature, beside)
    caches, counters = states_of(model, signature)
    layers = layers_of(caches)
    logits = next(value for value in model.graph.outputs if value.name == signature.logits)
    vocabulary = (dims_of(logits) or (None,))[-1]
    if not isinstance(vocabulary, int):
        raise OptionError(f"The logits {logits.name}: {type_text(logits)} have no number of words as their last axis.")
    capacity = layers[0].key.capacity
    _check_lengths(model, tokens, inputs[layers[0].key.pair.input], layers[0].key)
    given = [] if signature.positions is None else [signature.positions]
    positions = known_positions(model, [*given, *(counter.pair.input for counter in counters)])
    mask = None if signature.mask is None else inputs[signature.mask]
    is_by_text = mask is not None and same_dim((dims_of(mask) or ())[0], (dims_of(tokens) or ())[0])
    rewriter = _Rewriter(model, target, tokens, caches)
    rewriter.rewrite(signature, counters, layers, logits)
    # Before transposes move: attention takes the caches as they are now.
    AttentionLayout(target)(model)
    RemoveDeadNodes(target)(model)
    if fuse is not None:
        fuse(model)
    RotaryLayout(target)(model)
    optimise(model, target)
    takes_one_token = (dims_of(tokens) or (0, 0))[1] == 1
    first = layers[0].key
    hides_padding = is_by_text and POSITIONS in {value.name for value in model.graph.inputs}
    return DecoderInterface(
        model, (dims_of(tokens) or ())[0], len(layers), first.heads, first.features, vocabulary, capacity is not None,
        capacity if isinstance(capacity, int) else None, positions, takes_one_token, hides_padding,
    )  # fmt: skip


def _checked_tokens(tokens: ir.Value, signature: DecoderSignature, beside: Collection[str]) -> ir.Value:
    dims = dims_of(tokens) or ()
    if len(dims) != 2 or tokens.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        raise OptionError(
            f"The tokens {tokens.name}: {type_text(tokens)} are no int32 or int64 of shape [B, T], which the runtime feeds: export "
            "the function for batches, such as (('B', 'T'), 'int32')."
        )
    if isinstance(dims[1], int) and dims[1] != 1:
        raise OptionError(
            f"The tokens {tokens.name}: {type_text(tokens)} are always {dims[1]}; the runtime feeds a whole prompt, and then one token "
            "after the other: export with a symbol, such as (('B', 'T'), 'int32')."
        )
    if unknown := [name for name in signature.others if name not in beside]:
        raise OptionError(
            f"The runtime feeds the tokens, their positions, a mask and caches, but not {', '.join(unknown)}: "
            "export a function without them; or say what they are by roles={'positions': …, 'mask': …}."
        )
    return tokens


def _check_lengths(model: ir.Model, tokens: ir.Value, cache: ir.Value, first: Cache) -> None:
    """Raise OptionError unless a step may take one token and several, and caches that grow may begin empty."""
    space, length = symbol_space(model), (dims_of(tokens) or ())[1]
    refused = [n for n in (1, 2) if isinstance(length, ir.SymbolicDim) and not space.allows({str(length): n})]
    if refused:
        why = " and ".join(read_constraints(model)) or "more"
        raise OptionError(
            f"The runtime feeds a whole prompt, and then one token after the other, but the model is for {why}. Where the "
            f"function asks whether there is one token, export one for that, specialize={{'{length}': 1}}: prompts are fed to it token by token."
        )
    places = (dims_of(cache) or ())[first.places_axis]
    if first.capacity is None and not space.allows({str(places): 0}):
        raise OptionError(
            f"The cache {cache.name}: {type_text(cache)} is empty before the first step, and the model was not exported for that: "
            f"constraints=['{places} >= 0']."
        )


class _Rewriter:
    """One decoder whose inputs and outputs are exchanged."""

    def __init__(self, model: ir.Model, target: Target, tokens: ir.Value, caches: Sequence[Cache]) -> None:
        self._model, self._graph = model, model.graph
        self._editor = GraphEditor(model.graph, opset=opset_of(model), target=target)
        self._inputs = {value.name: value for value in model.graph.inputs}
        self._outputs = {value.name: value for value in model.graph.outputs}
        self._tokens = tokens
        first = caches[0]
        self._capacity = first.capacity
        after = dims_of(self._outputs[first.pair.output]) or ()
        self._total: LabelledDim = ir.SymbolicDim("total") if self._capacity is not None else after[first.places_axis]

    def rewrite(
        self, signature: DecoderSignature, counters: Sequence[Counter], layers: Sequence[Layer], logits: ir.Value
    ) -> None:
        """Exchange the inputs and outputs."""
        # Nodes go to the front of the graph in the order in which they are made: caches first, which others measure.
        kept = [(f"{i}.{kind}", *self._cache(cache)) for i, layer in enumerate(layers) for kind, cache in layer.named()]
        steps = StepInputs(self._editor, self._tokens, self._total)
        for counter in counters:
            old = self._inputs[counter.pair.input]
            self._editor.replace_value(old, steps.counter(old))
        if signature.positions is not None:
            old = self._inputs[signature.positions]
            self._editor.replace_value(old, steps.positions_like(old))
        if signature.mask is not None:
            old = self._inputs[signature.mask]
            self._editor.replace_value(old, self._mask(steps, old, kept[0][1], adds=signature.mask_adds))
        new_logits = self._logits(logits)
        given = [self._tokens, steps.mask, *([] if steps.positions is None else [steps.positions])]
        beside = [self._inputs[name] for name in signature.others]
        self._exchange(
            [*given, *(past for _, past, _ in kept), *beside], [new_logits, *(present for _, _, present in kept)]
        )
        self._tokens.name, new_logits.name = TOKENS, LOGITS
        for name, past, present in kept:
            past.name, present.name = f"{PAST}.{name}", f"{PRESENT}.{name}"
        for key in (SYMBOLS_KEY, LAYOUTS_KEY, DECODER_KEY):
            self._model.metadata_props.pop(key, None)
        grows = 2 if self._capacity is None else None
        write_states(self._model, [StatePair(f"{PAST}.{name}", f"{PRESENT}.{name}", grows) for name, _, _ in kept])
        self._editor.finish()

    def _exchange(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> None:
        weights = [value for value in self._graph.inputs if value.name in self._graph.initializers]
        self._graph.inputs[:] = [*inputs, *weights]
        self._graph.outputs[:] = outputs

    def _mask(self, steps: StepInputs, old: ir.Value, cache: ir.Value, *, adds: bool) -> ir.Value:
        if self._capacity is None:
            return steps.mask_like(old, self._total, None, adds=adds)
        return steps.mask_like(old, self._capacity, steps.axis_size(cache, 2), adds=adds)

    def _logits(self, logits: ir.Value) -> ir.Value:
        """The logits as [B, T, V]; those of the last token alone stand for all."""
        dims = dims_of(logits) or ()
        if len(dims) == 3:
            return logits
        at = self._editor.after(logits)
        sizes = at.op.Concat(
            at.op.Shape(self._tokens), at.ints([dims[-1]] if isinstance(dims[-1], int) else []), axis=0
        )
        token_dims = dims_of(self._tokens) or ()
        return at.op.Expand(at.unsqueeze(logits, [1]), sizes, dims=labelled([*token_dims, dims[-1]]))

    def _cache(self, cache: Cache) -> tuple[ir.Value, ir.Value]:
        """The cache before and after the step, as [batch, heads, places, features]."""
        before, after = self._inputs[cache.pair.input], self._outputs[cache.pair.output]
        if cache.perm == (0, 1, 2, 3):
            return before, self._updated_as_it_is(before, after) or after
        old, back = dims_of(before) or (), sorted(range(4), key=lambda axis: cache.perm[axis])
        new = ir.Value(name=before.name, type=before.type, shape=ir.Shape([old[axis] for axis in cache.perm]))
        present = self._updated(before, after, new, cache.perm)
        if present is None:
            present = self._editor.after(after).transpose(after, cache.perm)
        else:
            self._editor.replace_value(after, self._editor.after(present).transpose(present, back))
        self._measure(before, new, cache.perm)
        self._editor.replace_value(before, self._editor.after(new).transpose(new, back))
        return new, present

    def _measure(self, before: ir.Value, new: ir.Value, perm: Sequence[int]) -> None:
        """Let what reads the size of a cache along an axis read it of the cache with its axes in another order."""
        for use in before.uses():
            node = use.node
            if node.op_type != "Shape" or "start" not in node.attributes or "end" not in node.attributes:
                continue
            start, end = (node.attributes[name].as_int() for name in ("start", "end"))
            if 0 <= start == end - 1:
                axis = perm.index(start)
                self._editor.replace(node, self._editor.after(new).op.Shape(new, start=axis, end=axis + 1))

    def _updated_as_it_is(self, before: ir.Value, after: ir.Value) -> ir.Value | None:
        """The update of a cache that the function turns to write into it, and turns back, without that; None for another one."""
        turn = operation(after, "Transpose")
        perm = None if turn is None else permutation_of(turn)
        written = None if turn is None else turn.inputs[0]
        node = None if written is None else written.producer()
        source = None if node is None else operation(node.inputs[0], "Transpose")
        if node is None or written is None or perm is None or source is None or source.inputs[0] is not before:
            return None
        back = tuple(sorted(range(4), key=lambda axis: perm[axis]))
        if permutation_of(source) != back:
            return None
        present = self._updated(source.outputs[0], written, before, perm)
        if present is not None:
            self._editor.replace_value(after, present)
            self._editor.replace_value(written, self._editor.after(present).transpose(present, back))
        return present

    def _updated(self, before: ir.Value, after: ir.Value, new: ir.Value, perm: Sequence[int]) -> ir.Value | None:
        """The update of a cache, on the cache with its axes in another order; None where no one operator is the update."""
        node = after.producer()
        operands = None if node is None or node.inputs[0] is not before else _operands_with_axes(node)
        if node is None or operands is None:
            return None
        at, given = self._editor.before(node), list(node.inputs)
        turned = [at.transpose(x, perm) if i in operands and x is not None else x for i, x in enumerate(given)]
        if node.op_type == "TensorScatter" and perm[0] != 0:  # it has a place for each entry of the first axis
            one = source_of(given[2], "Expand")
            if one is None or dims_of(one) not in ((), (1,)):
                return None
            turned[2] = at.op.Expand(one, at.op.Shape(new, start=0, end=1), dims=labelled((dims_of(new) or ())[:1]))
        attributes = {**attribute_values(node), "axis": perm.index(axis_of(node, len(perm)))}
        dims = dims_of(after) or ()
        (present,) = at.emit(
            node.op_type, [new, *turned[1:]], "", 1, None, labelled([dims[axis] for axis in perm]), attributes
        )
        return present


def _operands_with_axes(node: ir.Node) -> range | None:
    """Indices of the operands, the first left out, that have the axes of the cache; None for a node that updates no cache."""
    return {"Concat": range(1, len(node.inputs)), "ScatterElements": range(1, 3), "TensorScatter": range(1, 2)}.get(
        node.op_type
    )
