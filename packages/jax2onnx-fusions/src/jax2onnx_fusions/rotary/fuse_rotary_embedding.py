"""`FuseRotaryEmbedding`: rotations of pairs of features (Su et al., RoFormer, 2021) become `RotaryEmbedding`."""

from __future__ import annotations

__all__ = ["FuseRotaryEmbedding"]

from collections.abc import Set as AbstractSet

from jax2onnx_graph import ir
from jax2onnx_graph.facts.dims import is_static
from jax2onnx_graph.facts.values import dims_of, same_dim
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase

from jax2onnx_fusions._reasons import no_operator
from jax2onnx_fusions.rotary._doubled_angles import Halves, LookedUp, Unrepeated
from jax2onnx_fusions.rotary._features import Features
from jax2onnx_fusions.rotary._rotations import (
    Rotation,
    angle_of_turn,
    rotation_of_halves,
    rotation_of_pairs,
)

_PARTS = frozenset({"Add", "Sub", "Concat", "Unsqueeze", "Reshape"})
_NO_TURN = "what the sines multiply is not known to be the other element of each pair that the cosines multiply"

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class FuseRotaryEmbedding(NodePass[Rotation]):
    """Fuse the rotation of features by cos and sin to `RotaryEmbedding`, where these are the same for all heads.

    Formulas in half precision stay: they round each product before the sum, and a kernel that computes in single precision does not.

    1. `concat(x₁·c − x₂·s, x₂·c + x₁·s)`, x₁ and x₂ the halves of x [B, T, N, H], is `RotaryEmbedding` of x as
       [B, T, N · H].
    2. So is `x · concat(c, c) + concat(−x₂, x₁) · concat(s, s)`.
    3. `stack(x₁·c − x₂·s, x₁·s + x₂·c)`, x₁ and x₂ the features with even and with odd numbers, is its
       interleaved form.
    4. So is `x · repeat(c, 2) + stack(−x₂, x₁) · repeat(s, 2)`.
    5. In 2 and 4, the halves or neighbours may be swapped by joining or by reading pairs backwards, and a constant factor −1, 1 of
       them or of the sines, or a mask, gives the signs.
    6. For x [B, N, T, H] it is the 4-D form. x [B, T, H] is one head, x [T, N, H] a batch of one.
    """

    phase = Phase.LAY_OUT
    produces = frozenset({"RotaryEmbedding"})
    after = (FoldTransposes,)
    operators = frozenset({"Concat", "Transpose", "Add"})

    def rewrite_graph(self, editor: GraphEditor) -> None:
        self._halves = Halves()
        self._writer = _Writer(editor, self._halves)
        super().rewrite_graph(editor)
        self.declined.extend(_turns_that_stay(editor, {declined.node for declined in self.declined}))

    def match(self, node: ir.Node, editor: GraphEditor) -> Rotation | Declined | None:
        found = rotation_of_halves(node, self._halves) if node.op_type == "Add" else rotation_of_pairs(node)
        if isinstance(found, Rotation) and not editor.supports("RotaryEmbedding", node.outputs[0]):
            return Declined(no_operator("RotaryEmbedding", node.outputs[0]), node)
        if isinstance(found, Rotation) and node.outputs[0].dtype in _HALF:
            return Declined("in half precision, the formula rounds the products, and the operator may not", node)
        return found

    def rewrite(self, node: ir.Node, match: Rotation, editor: GraphEditor) -> None:
        self._writer.write(node, match)


def _turns_that_stay(editor: GraphEditor, told: AbstractSet[ir.Node]) -> list[Declined]:
    """The sums x · cos(a) ± y · sin(a) of at least three axes that are left, one of each angles, except parts of a formula that is told.

    Args:
      editor: the graph, once rotations are operators.
      told: the nodes of which a reason is known.
    """
    nodes = list(editor.nodes())
    if not any(node.op_type == "Sin" for node in nodes):
        return []
    living, known_of = set[ir.Node](), set(told)
    found: dict[ir.Value, ir.Node] = {}
    for node in reversed(nodes):
        users = [user for output in node.outputs for user, _ in output.uses()]
        if node.domain or not (
            any(o.is_graph_output() for o in node.outputs) or any(_is_used(u, living, editor) for u in users)
        ):
            continue
        living.add(node)
        if any(user in known_of for user in users) and node.op_type in _PARTS:
            known_of.add(node)
        is_left = node.op_type in ("Add", "Sub") and node not in known_of and len(dims_of(node.outputs[0]) or ()) > 2
        angles = angle_of_turn(node) if is_left else None
        if angles is not None:
            found[angles] = node
    return [Declined(_NO_TURN, node) for node in found.values()]


def _is_used(user: ir.Node, living: AbstractSet[ir.Node], editor: GraphEditor) -> bool:
    """Whether a reader of a value is needed itself; one in a loop or branch is taken to be."""
    return user in living or user.graph is not editor.graph


class _Writer:
    """Puts `RotaryEmbedding` into one graph; rotations by the same angles share the operands made of these."""

    def __init__(self, editor: GraphEditor, halves: Halves) -> None:
        self._editor, self._halves = editor, halves
        self._made: dict[tuple[ir.Value, bool], ir.Value] = {}
        self._caches: dict[object, ir.Value] = {}

    def write(self, node: ir.Node, found: Rotation) -> None:
        """Put `RotaryEmbedding` in the place of `node`."""
        dims, editor, axis = labelled(found.features.dims), self._editor, found.heads_axis
        features, heads = dims[-1], 1 if axis is None else dims[axis]
        assert is_static(features) and is_static(heads)
        angles = [found.cos, found.sin]
        if found.is_doubled:
            angles = [self._half(node, value, found.features.interleaved) for value in angles]
        builder = editor.before(node)
        merged = axis != 1  # [B, T, N · H]; with heads first the 4-D form takes the operand as it is
        shape = (*dims[:2], heads * features) if merged else dims
        length = 0 if found.batched else -1
        source = found.features.source
        if not found.batched or len(builder.known_dims(source)) != len(shape):
            target = [0 if found.batched else 1, length, heads * features] if merged else [0, 0, 0, features]
            source = builder.op.Reshape(source, builder.ints(target), dims=shape)
        rotated = builder.op.RotaryEmbedding(
            source,
            *(self._cache(builder, value, axis, found.features) for value in angles),
            dims=shape,
            interleaved=1 if found.features.interleaved else None,
            num_heads=heads if merged else None,
        )
        rows = [length] if not found.batched else [0, 0]
        rows += [] if axis is None else [heads if merged else 0]
        is_stacked = len(dims_of(node.outputs[0]) or ()) > len(rows) + 1
        last = [features // 2, 2] if is_stacked else [features]
        editor.put(node, "Reshape", [rotated, builder.ints([*rows, *last])])

    def _half(self, node: ir.Node, value: ir.Value, pairs: bool) -> ir.Value:
        """The first half of the features of `value`, or every second one (`pairs`), which the others equal, made before `node`."""
        if (value, pairs) not in self._made:
            self._made[value, pairs] = self._new_half(node, value, pairs)
        return self._made[value, pairs]

    def _new_half(self, node: ir.Node, value: ir.Value, pairs: bool) -> ir.Value:
        half = self._halves.source(value, pairs=pairs)
        assert half is not None, "the formula was read only where the halves are equal"
        if isinstance(half, ir.Value):
            return half
        if not isinstance(half, (ir.Node, LookedUp, Unrepeated)):
            return self._editor.constant(half)
        builder, dims = self._editor.before(node), labelled(dims_of(value) or ())
        size = dims[-1]
        assert is_static(size)
        dims = (*dims[:-1], size // 2)
        if isinstance(half, Unrepeated):
            op_type, argument = half.view
            return builder.op(op_type, half.value, builder.ints(argument), dims=dims)
        if isinstance(half, LookedUp):
            operands = [self._editor.constant(half.table), *half.gather.inputs[1:]]
            return builder.variant(half.gather, operands, dims=dims)
        assert half.inputs[0] is not None
        inner = self._half(node, half.inputs[0], pairs)
        return builder.variant(half, [inner, *half.inputs[1:]], dims=dims)

    def _cache(self, builder: InsertionPoint, angles: ir.Value, axis: int | None, features: Features) -> ir.Value:
        """Angles without the axis of the heads, as [B, T, H / 2]."""
        batch = features.dims[0]
        key = (angles, axis, str(batch))
        if key not in self._caches:
            value, rank = angles, len(dims_of(angles) or ())
            if axis is not None and rank >= 5 - axis:
                value = builder.squeeze(value, [rank - 4 + axis])
            value = builder.unsqueeze(value, range(3 - len(builder.known_dims(value))))
            if not same_dim((dims_of(value) or ())[0], batch):
                full = labelled((batch, *(dims_of(value) or ())[1:]))
                value = builder.op.Expand(value, self._batch(builder, features), dims=full)
            self._caches[key] = value
        return self._caches[key]

    def _batch(self, builder: InsertionPoint, features: Features) -> ir.Value:
        """The shape [B, 1, 1] as an int64 vector."""
        batch = features.dims[0]
        if isinstance(batch, int):
            return builder.ints([batch, 1, 1])
        if ("batch", str(batch)) not in self._caches:
            size = builder.op.Shape(features.source, start=0, end=1, dims=(1,))
            self._caches["batch", str(batch)] = builder.concat([size, builder.ints([1, 1])], 0)
        return self._caches["batch", str(batch)]
