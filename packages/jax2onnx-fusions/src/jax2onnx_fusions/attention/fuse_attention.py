"""`FuseAttention`: two products around a softmax become `Attention`."""

from __future__ import annotations

__all__ = ["FuseAttention"]

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.attributes import Attribute
from jax2onnx_graph.facts.dims import Dims
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_floating

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.attention._arrangement import Arrangement, cheapest, moved
from jax2onnx_fusions.attention._attention_axes import AttentionAxes, attention_axes
from jax2onnx_fusions.attention._axes import size_of
from jax2onnx_fusions.attention._formula import FLOATS, AttentionFormula, attention_formula
from jax2onnx_fusions.attention._masks import Mask, Masks
from jax2onnx_fusions.attention._obstacles import obstacle
from jax2onnx_fusions.attention._result import Replacement, put_result, replacement
from jax2onnx_fusions.normalisation.fuse_softmax import FuseSoftmax

_FLOAT32 = np.dtype(np.float32)


@dataclasses.dataclass(frozen=True)
class _Form:
    """Query, key and value as the 3-D form (`merged`) or the 4-D form of the operator takes them."""

    merged: bool
    operands: Sequence[Arrangement]

    @property
    def cost(self) -> tuple[int, int]:
        """The cost of the moves of key and value, of which caches hold many, then that of the query's."""
        query, key, value = (operand.cost for operand in self.operands)
        return key + value, query


@dataclasses.dataclass(frozen=True)
class _Attention:
    """An attention with all that the operator takes.

    Attributes:
      operands: query, key and value.
      mask: the float mask; None for none.
      attributes: the attributes of the operator.
      dims: the dimensions of its result.
      layout: "BNT" for the 4-D form, "BT" for the 3-D one, "BTN" for that with an axis of heads put into its result, since heads have
        masks of their own behind the softmax.
      result: the moves from its result to that of the last product.
    """

    operands: Sequence[Arrangement]
    mask: Mask | None
    attributes: dict[str, Attribute]
    dims: Dims
    layout: Literal["BNT", "BTN", "BT"]
    result: Replacement


class FuseAttention(NodePass[_Attention]):
    """Fuse softmax(query · keyᵀ · c, ...) · value to `Attention`.

    The axes B (batch), K and G (key heads, and query heads of each), T and S (sequences) and H (features) have any order in
    operands, logits and result; the probabilities have no other reader.

    1. It is `Attention` of query, key and value, with c as its scale; c may stand at operands or logits.
    2. Keys and values that are repeated for the query heads are taken as they are before that.
    3. The form is the 3-D one, [B, ·, heads · H], or the 4-D one, [B, heads, ·, H]: whichever transposes fewer keys and
       values, then fewer of the others. Query heads of one query that share a key head are heads where there are fewer than
       `Threshold.SHARING_HEADS`, for which a kernel has no advantage of reading a key once.
    4. `Where(mask, logits, number)`, the number large and negative, and sums with biases become its mask: a float
       one, so that a row without any allowed key attends to all keys alike, as in the formula. (Masked by minus
       infinity, such a row is NaN in the formula, and zero in some runtimes.) Numbers above −10⁹ do not hide a key
       beside every logit. Several masks and biases are one mask only where that leaves such rows as they are: see
       `Masks.from_addends`.
    5. A mask that also sets probabilities to 0 behind the softmax, by `Where(mask, p, 0)` or as a factor, is a mask whose rows
       without any allowed key are 0: the result is multiplied by whether there is one.
    6. c · tanh(logits / c) is its soft cap.
    7. In half precision it is computed in single precision, as logits often are.
    """

    phase = Phase.FUSE
    produces = frozenset({"Attention"})
    after = (FuseSoftmax,)
    operators = frozenset({"MatMul", "Gemm"})

    def applies(self, opset: int) -> bool:
        return self.target.supports("Attention", _FLOAT32, opset)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        self._masks = Masks()
        super().rewrite_graph(editor)

    def match(self, node: ir.Node, editor: GraphEditor) -> _Attention | Declined | None:
        if not is_floating(node.outputs[0]):
            return None
        formula, dtype = attention_formula(node), node.outputs[0].dtype
        reason = obstacle(node) if formula is None else ""
        if not isinstance(formula, AttentionFormula) and not reason:
            return formula
        if dtype is None or dtype not in FLOATS:
            return Declined(f"it would be computed in float32, not in {dtype and dtype.numpy()}", node)
        if not isinstance(formula, AttentionFormula):
            return formula or Declined(reason, node)
        if formula.cap and formula.addends and not editor.target.keeps("Attention", _FLOAT32, "softcap_mask"):
            return Declined("the target gives masked keys a weight where the logits are capped", node)
        try:
            return _attention(node, formula, self._masks, editor.threshold(Threshold.SHARING_HEADS))
        except UnreadableError as error:
            return Declined(str(error), node)

    def rewrite(self, node: ir.Node, match: _Attention, editor: GraphEditor) -> None:
        builder, dtype = editor.before(node), node.outputs[0].dtype
        assert dtype is not None
        inputs = [_operand(builder, operand) for operand in match.operands]
        mask = [] if match.mask is None else [self._masks.value(builder, match.mask, inputs[:2])]
        (result,) = builder.emit("Attention", [*inputs, *mask], "", 1, None, match.dims, match.attributes)
        if match.mask is not None and match.mask.masks_probabilities:
            if match.layout == "BTN":
                batch, length, width = match.dims
                heads = match.attributes["q_num_heads"]
                assert isinstance(heads, int) and isinstance(width, int)
                apart = (batch, length, heads, width // heads)
                result = builder.op.Reshape(result, builder.ints([0, 0, *apart[2:]]), dims=apart)
            result = builder.op.Mul(result, self._masks.seen(builder, match.mask, match.layout))
        put_result(editor, match.result, builder.cast(result, dtype.numpy()))


def _attention(node: ir.Node, formula: AttentionFormula, masks: Masks, sharing: int) -> _Attention:
    """The operator that computes the formula which ends at `node`; for `sharing` see `attention_axes`.

    Raises:
      UnreadableError: it cannot; the message says why.
    """
    roles = attention_axes(formula, sharing)
    mask = masks.from_addends(formula.addends, roles, formula.probability_mask)
    form = _cheapest_form(formula, roles)
    scale = formula.scale * math.prod(operand.candidate.factor for operand in form.operands)
    if not scale > 0:
        raise UnreadableError("the scale is not positive")
    is_by_head = mask is not None and mask.masks_probabilities and mask.deciding.varies_with_heads
    layout: Literal["BNT", "BTN", "BT"] = "BNT" if not form.merged else "BTN" if is_by_head else "BT"
    axes, features = roles.result(merged=form.merged), size_of(roles.features)
    assert isinstance(features, int), "the roles were told only where the number of features is known"
    attributes: dict[str, Attribute] = {
        "q_num_heads": roles.query_heads if form.merged else None,
        "kv_num_heads": roles.key_heads if form.merged else None,
        "scale": None if math.isclose(scale, features**-0.5, rel_tol=1e-6) else scale,
        "softcap": formula.cap or None,
    }
    shown = roles.split_result() if layout == "BTN" else axes
    dims = labelled(list(map(size_of, axes)))
    sized = [*formula.query.candidates, *formula.key.candidates, *formula.value.candidates]
    result = replacement(node, formula.result, shown, sized)
    return _Attention(form.operands, mask, attributes, dims, layout, result)


def _cheapest_form(formula: AttentionFormula, roles: AttentionAxes) -> _Form:
    """The form with fewer transposes, the 3-D one where both have as many.

    Raises:
      UnreadableError: the operands cannot be arranged for either.
    """
    forms, reasons = list[_Form](), list[UnreadableError]()
    for merged in (True, False):
        pairs = zip((formula.query, formula.key, formula.value), roles.operands(merged=merged), strict=True)
        try:
            forms.append(_Form(merged, [cheapest(operand.candidates, target) for operand, target in pairs]))
        except UnreadableError as error:
            reasons.append(error)
        if forms and not any(forms[0].cost):
            break
    if not forms:
        raise reasons[0]
    return min(forms, key=lambda form: form.cost)


def _operand(builder: InsertionPoint, operand: Arrangement) -> ir.Value:
    """A query, key or value in single precision, as the operator takes it."""
    return moved(builder, builder.cast(operand.candidate.value, np.float32), operand.moves)
