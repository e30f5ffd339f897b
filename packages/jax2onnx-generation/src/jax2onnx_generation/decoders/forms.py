"""The forms in which a decoder takes tokens, positions and masks, and returns logits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.facts.expressions import evaluate, is_expression
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.labels import symbols_in
from jax2onnx_runtime.states import StateType

from jax2onnx_generation.decoders.signature import DecoderSignature

__all__ = ["DecoderForms", "LogitsForm", "MaskForm", "PositionsForm", "TokensForm", "decoder_forms"]

#: A dimension: a number or a label.
Axis = int | str

_BATCH, _TIME, _ONE, _KEYS = "batch", "time", "one", "keys"


@dataclasses.dataclass(frozen=True)
class TokensForm:
    """Form of the input of the tokens [B, T].

    Attributes:
      name: the input.
      dtype: its element type.
      axes: its axes, "batch" and "time", in this order, where they are there.
      batch: the dimension of the sequences; 1 where there is no such axis.
      time: that of the tokens of a run; 1 where there is no such axis.
    """

    name: str
    dtype: Dtype
    axes: tuple[str, ...]
    batch: Axis
    time: Axis

    def made(self, tokens: Array) -> Array:
        """The input for tokens [B, T]."""
        shape = [size for axis, size in zip((_BATCH, _TIME), tokens.shape, strict=True) if axis in self.axes]
        return tokens.astype(self.dtype).reshape(shape)


@dataclasses.dataclass(frozen=True)
class _TokenwiseForm:
    """Form of an input that may have entries for each sequence and for each token of a run."""

    name: str
    dtype: Dtype
    axes: tuple[str, ...]

    @property
    def is_of_rows(self) -> bool:
        """Whether each sequence has entries of its own."""
        return _BATCH in self.axes

    @property
    def is_of_tokens(self) -> bool:
        """Whether each token of a run has entries of its own."""
        return _TIME in self.axes


@dataclasses.dataclass(frozen=True)
class PositionsForm(_TokenwiseForm):
    """Form of the input of the positions [B, T].

    Attributes:
      name: the input.
      dtype: its element type.
      axes: "batch", "time" or "one" for each of its axes; without "time" it is the position of the first token.
    """

    def made(self, positions: Array) -> Array:
        """The input for positions [B, T]."""
        rows = positions if _BATCH in self.axes else positions[:1]
        kept = rows if _TIME in self.axes else rows[:, :1]
        sizes = {_BATCH: kept.shape[0], _TIME: kept.shape[1], _ONE: 1}
        return kept.astype(self.dtype).reshape([sizes[axis] for axis in self.axes])


@dataclasses.dataclass(frozen=True)
class MaskForm(_TokenwiseForm):
    """Form of the input of the mask, the keys that each token sees.

    Attributes:
      name: the input.
      dtype: its element type: booleans, integers (1 for a key that is seen), or floats.
      axes: "batch", "time", "keys" or "one" for each of its axes.
      dims: its dimensions, for the size of those that are "one".
      cache: the state whose entries are the keys, and their axis; None where the keys are the tokens of the run.
      grows: whether the tokens of the run are further keys, after those of the cache.
      adds: whether it is added to the scores; otherwise it is 1 for a key that is seen.
    """

    dims: tuple[Axis, ...]
    cache: tuple[str, int] | None
    grows: bool
    adds: bool = False

    def made(self, visible: Array) -> Array:
        """The input for booleans [B, T, keys]; of the last token where the form has no tokens, of the first sequence where it has none."""
        rows = visible if _BATCH in self.axes else visible[:1]
        kept = rows if _TIME in self.axes else rows[:, -1:]
        sizes = {_BATCH: kept.shape[0], _TIME: kept.shape[1], _KEYS: kept.shape[2], _ONE: 1}
        made = self._typed(kept).reshape([sizes[axis] for axis in self.axes])
        return np.broadcast_to(made, self._shape(kept.shape))

    def made_of_all(self, shape: tuple[int, ...]) -> Array:
        """The input where all keys are seen, of as many sequences, tokens and keys."""
        return (np.zeros if self.adds else np.ones)(self._shape(shape), self.dtype)

    def _shape(self, shape: tuple[int, ...]) -> list[int]:
        """The shape of the input for booleans of a shape [B, T, keys]."""
        sizes = dict(zip((_BATCH, _TIME, _KEYS), shape, strict=True))
        return [int(dim) if axis == _ONE else sizes[axis] for axis, dim in zip(self.axes, self.dims, strict=True)]

    def _typed(self, visible: Array) -> Array:
        if self.adds:
            return np.where(visible, self.dtype.type(0), ml_dtypes.finfo(self.dtype).min).astype(self.dtype)
        return visible.astype(self.dtype)


@dataclasses.dataclass(frozen=True)
class LogitsForm:
    """Form of the output of the logits.

    Attributes:
      name: the output.
      number: that of the output among those that are no states.
      axes: the axes that have to be added for [B, T, V].
      has_all: whether there are logits for each token of a run, rather than for the last one.
      vocabulary: how many tokens there are, if that is known.
    """

    name: str
    number: int
    axes: tuple[int, ...]
    has_all: bool
    vocabulary: int | None

    def read(self, outputs: Sequence[Array]) -> Array:
        """The logits [B, T, V], or [B, 1, V] of the last token, among the outputs of a run."""
        return outputs[self.number][self._index]

    def check(self, logits: Array, tokens: Array) -> None:
        """Raise RuntimeInputError where logits are not those of tokens [B, T], as their label may not show."""
        if logits.shape[0] != tokens.shape[0] or logits.shape[1] not in (1, tokens.shape[1]):
            raise RuntimeInputError(
                f"The output {self.name!r} is no logits [B, T, V] or [B, 1, V]: it has shape {logits.shape} for tokens of shape {tokens.shape}."
            )

    @functools.cached_property
    def _index(self) -> tuple[slice | None, ...]:
        return tuple(None if axis in self.axes else slice(None) for axis in range(3))


@dataclasses.dataclass(frozen=True)
class DecoderForms:
    """The forms of a decoder's inputs and of its logits."""

    tokens: TokensForm
    logits: LogitsForm
    positions: PositionsForm | None
    mask: MaskForm | None


def decoder_forms(model: ir.Model, signature: DecoderSignature, states: Mapping[str, StateType]) -> DecoderForms:
    """The forms of a decoder's inputs and of its logits.

    Args:
      model: the model.
      signature: which inputs and outputs they are.
      states: the states by the names of their inputs.

    Raises:
      OptionError: one has a form that decoders do not have; the message tells which there are.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    outputs = [v for v in model.graph.outputs if v.name not in {pair.output for pair in signature.states}]
    logits = next(value for value in outputs if value.name == signature.logits)
    tokens = _tokens_form(inputs[signature.tokens], logits, states)
    return DecoderForms(
        tokens,
        _logits_form(logits, outputs.index(logits), tokens),
        None if signature.positions is None else _positions_form(inputs[signature.positions], tokens),
        None
        if signature.mask is None
        else _mask_form(inputs[signature.mask], tokens, states, adds=signature.mask_adds),
    )


def _tokens_form(value: ir.Value, logits: ir.Value, states: Mapping[str, StateType]) -> TokensForm:
    dims = _dims(value)
    if len(dims) == 1:
        is_batch = any(dims[0] in state.dims for state in states.values()) if isinstance(dims[0], str) else dims[0] > 1
        axes: tuple[str, ...] = (_BATCH,) if is_batch else (_TIME,)
    else:
        axes = (_BATCH, _TIME)[: len(dims)]
    sizes = dict(zip(axes, dims, strict=True))
    form = TokensForm(str(value.name), _dtype(value), axes, sizes.get(_BATCH, 1), sizes.get(_TIME, 1))
    if isinstance(form.time, int) and form.time != 1:
        raise OptionError(
            f"The model takes {form.time} tokens in each run ({value.name}: {type_text(value)}), but writing goes on by one token. "
            "Export it with a symbol for their number, ('B', 'T'), or for one token."
        )
    return form


def _logits_form(value: ir.Value, number: int, tokens: TokensForm) -> LogitsForm:
    dims = _dims(value)
    of_tokens = tokens.time == 1 or tokens.time in dims[:-1]
    axes = {1: (0, 1), 2: (0,) if dims[0] == tokens.time != tokens.batch and tokens.time != 1 else (1,), 3: ()}[
        len(dims)
    ]
    sizes = iter(dims)
    batch, time = (1 if axis in axes else next(sizes) for axis in range(2))
    known = symbols_in(str(tokens.batch)) | symbols_in(str(tokens.time))
    is_of_others = batch != tokens.batch and (
        symbols_in(str(batch)) & known or {type(batch), type(tokens.batch)} == {int}
    )
    if is_of_others or (isinstance(time, int) and time not in (1, tokens.time)):
        raise OptionError(
            f"The logits {value.name!r} are {type_text(value)}; where the tokens are {_shown(tokens)}, they can be [B, T, V], or [B, V] or "
            '[B, 1, V] of the last token. If another output is the logits: roles={"logits": …}.'
        )
    return LogitsForm(str(value.name), number, axes, of_tokens, dims[-1] if isinstance(dims[-1], int) else None)


def _positions_form(value: ir.Value, tokens: TokensForm) -> PositionsForm:
    def role(dim: Axis, place: int) -> str | None:
        if dim == 1:
            return _ONE
        return {tokens.time: _TIME, tokens.batch: _BATCH}.get(dim)

    dims = _dims(value)
    axes = [role(dim, place) for place, dim in enumerate(dims)]
    known = tuple(axis for axis in axes if axis is not None)
    if len(known) != len(dims) or known in ((_TIME, _BATCH), (_TIME, _TIME), (_BATCH, _BATCH)):
        raise OptionError(
            f"The positions {value.name!r} are {type_text(value)}; where the tokens are {_shown(tokens)}, they can be [B, T], [T], [B], "
            'or [] for that of the first token. If it is something else: roles={"positions": None} and inputs={…}.'
        )
    return PositionsForm(str(value.name), _dtype(value), known)


def _mask_form(value: ir.Value, tokens: TokensForm, states: Mapping[str, StateType], *, adds: bool) -> MaskForm:
    dims, found = _dims(value), _keys(_dims(value)[-1], tokens, states)
    axes = (*(_leading_role(dim, place, dims, tokens) for place, dim in enumerate(dims[:-1])), _KEYS)
    dtype = _dtype(value)
    known = tuple(axis for axis in axes if axis is not None)
    is_float = dtype != np.bool_ and "int" not in dtype.name
    if (
        found is None
        or len(known) != len(axes)
        or _TIME in known[:-2]
        or (is_float and _TIME not in known and len(dims) == 2)
    ):
        raise OptionError(
            f"The mask {value.name!r} is {type_text(value)}; where the tokens are {_shown(tokens)}, it can be of booleans or integers [B, S + T], "
            "or of booleans, integers or floats [T, S + T], [B, T, S + T] or [B, 1, T, S + T], for S entries of the caches, or C "
            'for S + T where caches have a fixed number of C entries. If it is no such mask: roles={"mask": None} and inputs={…}.'
        )
    return MaskForm(str(value.name), dtype, known, dims, *found, adds)


def _leading_role(dim: Axis, place: int, dims: Sequence[Axis], tokens: TokensForm) -> str | None:
    """The subject of an axis of a mask before that of the keys."""
    is_next_to_keys, is_heads = place == len(dims) - 2, len(dims) == 4 and place == 1
    if (is_heads and isinstance(dim, int)) or dim == 1:
        return _ONE
    if is_next_to_keys and dim == tokens.time:
        return _TIME
    return _BATCH if place == 0 and dim == tokens.batch else None


def _keys(dim: Axis, tokens: TokensForm, states: Mapping[str, StateType]) -> tuple[tuple[str, int] | None, bool] | None:
    """The state that holds the keys of a mask and their axis, and whether the tokens of a run come after them."""
    axes = [(state, axis) for state in states.values() for axis in range(len(state.dims))]
    growing = [(state.name, axis) for state, axis in axes if axis == state.grows]
    fixed = [
        (state.name, axis) for state, axis in axes if state.grows is None and state.dims[axis] == dim != tokens.batch
    ]
    label = str(dim)
    for name, axis in growing:
        entries = str(states[name].dims[axis])
        if symbols_in(label) >= symbols_in(entries) and _is_sum(label, entries, tokens.time):
            return (name, axis), True
    if fixed:
        return fixed[0], False
    if dim == tokens.time and isinstance(dim, str):
        return None, False
    known = symbols_in(str(tokens.time)) | symbols_in(str(tokens.batch)) | {s for t in states.values() for d in t.dims for s in symbols_in(str(d))}  # fmt: skip
    if not isinstance(dim, str) or symbols_in(label) & known:
        return None
    return (growing[0], True) if growing else (None, False) if not states else None


def _is_sum(label: str, entries: str, time: Axis) -> bool:
    """Whether a label is that of the entries of a cache and the tokens of a run together."""
    symbols = sorted(symbols_in(label) | symbols_in(entries) | symbols_in(str(time)))
    if not symbols or not all(map(is_expression, (label, entries, str(time)))):
        return False
    sizes = {symbol: 11 + 7 * number**2 for number, symbol in enumerate(symbols)}
    return evaluate(label, sizes) == evaluate(entries, sizes) + evaluate(str(time), sizes)


def _dims(value: ir.Value) -> tuple[Axis, ...]:
    """The dimensions of an input or output; one without a label has one of its own."""
    labels = [dim.value if isinstance(dim, ir.SymbolicDim) else dim for dim in value.shape or ()]
    return tuple(f"{value.name}_dim{axis}" if label is None else label for axis, label in enumerate(labels))


def _dtype(value: ir.Value) -> Dtype:
    assert value.dtype is not None, "the inputs of a finished model have types"
    return value.dtype.numpy()


def _shown(tokens: TokensForm) -> str:
    return f"[{', '.join(str(tokens.batch if axis == _BATCH else tokens.time) for axis in tokens.axes)}]"
