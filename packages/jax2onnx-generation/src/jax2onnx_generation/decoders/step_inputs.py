"""`StepInputs`: what a decoder takes besides caches, computed in its graph from the inputs that runtimes feed."""

from __future__ import annotations

import functools

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled

__all__ = ["StepInputs"]


class StepInputs:
    """The tokens of a step, the mask of all tokens until now, and what follows from them.

    The mask has as many columns as there are tokens before and in the step: 1 for a token, 0 for one that pads a sequence of
    a batch. The number of tokens before the step is the place in the caches where it writes.

    Attributes:
      tokens: the tokens, [B, T].
      mask: the mask, [B, total].
      positions: the positions of the tokens, [B, T]; None where the decoder asks for none.
    """

    def __init__(self, editor: GraphEditor, tokens: Value, total: LabelledDim) -> None:
        self.tokens = tokens
        self.positions: Value | None = None
        self._dims = dims_of(tokens) or ()
        self.mask = self._input("attention_mask", (self._dims[0], total))
        self._at = editor.after(tokens)

    def _input(self, name: str, dims: tuple[LabelledDim, ...]) -> Value:
        assert self.tokens.dtype is not None, "the inputs of a finished model have types"
        return Value(name=name, type=ir.TensorType(self.tokens.dtype), shape=ir.Shape(dims))

    @functools.cached_property
    def before(self) -> Value:
        """The number of tokens before the step, [1]."""
        total = self._at.op.Shape(self.mask, start=1, end=2)
        return self._at.op.Sub(total, self._at.op.Shape(self.tokens, start=1, end=2))

    @functools.cached_property
    def _places(self) -> Value:
        """The places in the caches of the tokens of the step, [T]."""
        count = self._at.op.Squeeze(self._at.op.Shape(self.tokens, start=1, end=2))
        steps = self._range(count, self._dims[1])
        return self._at.op.Add(steps, self.before, dims=labelled([self._dims[1]]))

    def _range(self, count: Value, dim: LabelledDim) -> Value:
        zero, one = (self._at.constant(number, np.int64) for number in (0, 1))
        return self._at.op.Range(zero, count, one, dims=labelled([dim]))

    def axis_size(self, value: Value, axis: int) -> Value:
        """The size of an input along an axis, [1]."""
        size = (dims_of(value) or ())[axis]
        return self._at.ints([size]) if isinstance(size, int) else self._at.op.Shape(value, start=axis, end=axis + 1)

    def counter(self, like: Value) -> Value:
        """The number of tokens before the step, as a number or for each sequence, of the type and shape of a value."""
        return self._typed(self._number_or_batch(like, self.before), like)

    def positions_like(self, like: Value) -> Value:
        """The positions of the tokens, or of the first one, of the type and shape of a value.

        Raises:
          OptionError: it has another shape than [B, T], [T], [B] or [].
        """
        dims = dims_of(like) or ()
        batch, length = self._dims
        if len(dims) == 2 and self._is(dims[1], length) and self._is(dims[0], batch):
            return self._typed(self._positions(), like)
        if len(dims) == 2 and dims[0] == 1 and self._is(dims[1], length):
            return self._typed(self._at.unsqueeze(self._places, [0]), like)
        if len(dims) == 1 and self._is(dims[0], length) and not self._is(dims[0], batch):
            return self._typed(self._places, like)
        if len(dims) == 1 and self._is(dims[0], batch):
            first = self._at.op.Gather(
                self._positions(), self._at.constant(0, np.int64), axis=1, dims=labelled([batch])
            )
            return self._typed(first, like)
        if not dims:
            return self.counter(like)
        raise OptionError(
            f"The positions {like.name}: {type_text(like)} have another shape than [{batch}, {length}], [{length}], [{batch}] and []."
        )

    def _positions(self) -> Value:
        if self.positions is None:
            self.positions = self._input("position_ids", self._dims)
        return self.positions

    def _number_or_batch(self, like: Value, vector: Value) -> Value:
        """A vector of one number with the shape of a value: [], [1] or [B]."""
        dims = dims_of(like)
        if not dims:
            return self._at.squeeze(vector, [0])
        if dims[0] == 1:
            return vector
        size = self._at.op.Shape(self.tokens, start=0, end=1)
        return self._at.op.Expand(vector, size, dims=labelled(dims))

    def _typed(self, value: Value, like: Value) -> Value:
        assert like.dtype is not None, "the inputs of a finished model have types"
        return self._at.cast(value, like.dtype.numpy())

    @staticmethod
    def _is(dim: LabelledDim, other: LabelledDim) -> bool:
        return same_dim(dim, other)

    # -- masks --------------------------------------------------------------------------------------

    def mask_like(self, like: Value, keys: LabelledDim, capacity: Value | None, *, adds: bool) -> Value:
        """The mask that says which keys each token sees, of the type and shape of a value.

        A token sees those before it that are no padding, and itself.

        Args:
          like: the decoder's own input: axes of the batch, of heads (of size 1), of the tokens, and of the keys, the last one;
            each of the others may be missing or 1.
          keys: the label of the axis of the keys.
          capacity: the number of places, [1], where there are more than tokens; None where there are as many.
          adds: whether it is added to the scores of attention.

        Raises:
          OptionError: an axis is none of these, or the type is none of a mask.
        """
        dims = dims_of(like) or ()
        roles = self._roles(dims, keys)
        if roles is None:
            raise OptionError(
                f"The mask {like.name}: {type_text(like)} has other axes than the sequences ({self._dims[0]}), heads (1), tokens "
                f"({self._dims[1]}) and keys ({keys})."
            )
        by_token = "tokens" in roles
        visible = self._visible(keys, capacity, by_token=by_token, by_sequence="batch" in roles)
        missing = [axis for axis, role in enumerate(roles) if role == "one"]
        return self._as_mask(self._at.unsqueeze(visible, missing), like, adds=adds)

    def _roles(self, dims: tuple[LabelledDim, ...], keys: LabelledDim) -> list[str] | None:
        """The use of each axis of a mask; None if one is for nothing, or all texts and tokens have one row."""
        batch, length = self._dims
        if not dims or not self._is(dims[-1], keys):
            return None
        front = list(dims[:-1])
        roles: list[str] = []
        if front and self._is(front[-1], length) and (len(front) > 1 or not self._is(front[-1], batch)):
            roles.insert(0, "tokens")
            front.pop()
        elif len(front) > 1 and front[-1] == 1:
            roles.insert(0, "one")
            front.pop()
        if len(front) == 2 and front[-1] == 1:
            roles.insert(0, "one")
            front.pop()
        if front and self._is(front[-1], batch):
            roles.insert(0, "batch")
            front.pop()
        elif front and front[-1] == 1:
            roles.insert(0, "one")
            front.pop()
        return None if front or not {"tokens", "batch"}.intersection(roles) else [*roles, "keys"]

    def _visible(self, keys: LabelledDim, capacity: Value | None, *, by_token: bool, by_sequence: bool) -> Value:
        """Booleans [B, T, keys], without the axes that are not asked for."""
        batch, length = self._dims
        seen = self._seen(keys, capacity) if by_sequence else None
        if not by_token:
            assert seen is not None, "one of the two is asked for"
            return seen
        count = self._at.op.Shape(self.mask, start=1, end=2) if capacity is None else capacity
        columns = self._at.unsqueeze(self._range(self._at.op.Squeeze(count), keys), [0])
        rows = self._at.unsqueeze(self._places, [1])
        past = self._at.op.LessOrEqual(columns, rows, dims=labelled([length, keys]))
        if seen is None:
            return past
        # A token that pads sees itself: a row of nothing but hidden keys would be NaN in some kernels.
        itself = self._at.op.Equal(columns, rows, dims=labelled([length, keys]))
        real = self._at.op.Or(itself, self._at.unsqueeze(seen, [1]), dims=labelled([batch, length, keys]))
        return self._at.op.And(past, real, dims=labelled([batch, length, keys]))

    def _seen(self, keys: LabelledDim, capacity: Value | None) -> Value:
        """Mask of the keys that are no padding, booleans [B, keys]."""
        mask = self._at.cast(self.mask, np.bool_)
        if capacity is None:
            return mask
        rest = self._at.op.Sub(capacity, self._at.op.Shape(self.mask, start=1, end=2))
        pads = self._at.op.Concat(self._at.ints([0, 0, 0]), rest, axis=0)
        return self._at.op.Pad(mask, pads, dims=labelled([self._dims[0], keys]))

    def _as_mask(self, visible: Value, like: Value, *, adds: bool) -> Value:
        """Booleans as the type of a mask: themselves, 1 and 0, or 0 and the least number for one that is added."""
        assert like.dtype is not None, "the inputs of a finished model have types"
        if not adds:
            return self._typed(visible, like)
        dtype = like.dtype.numpy()
        least = ir.DataType.from_numpy(dtype).min
        return self._at.op.Where(visible, self._at.constant(0, dtype), self._at.constant(least, dtype))
