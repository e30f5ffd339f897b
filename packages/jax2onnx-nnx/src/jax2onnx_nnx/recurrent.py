"""`nnx.RNN` over `LSTMCell`, `OptimizedLSTMCell`, `GRUCell` and `SimpleCell`: ONNX's `LSTM`, `GRU` and `RNN`.

As a loop over the cell ONNX Runtime takes 1.5 times (hidden 256) to 15 times (hidden 32) as long.
"""

from __future__ import annotations

__all__ = ["composites", "rules"]

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn.activations import is_float, needs

from jax2onnx_nnx.layer import parameter

composites = Composites()
rules = Rules()

# Flax's gates in ONNX's order: LSTM i f g o → i o f c, GRU r z n → z r h.
_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


@composites.call("flax.nnx:RNN.__call__", name="nnx.rnn")
def rnn(
    self: Any,
    inputs: Any,
    *,
    initial_carry: Any = None,
    seq_lengths: Any = None,
    return_carry: bool | None = None,
    time_major: bool | None = None,
    reverse: bool | None = None,
    keep_order: bool | None = None,
    rngs: Any = None,
) -> Call | None:
    from flax import nnx

    reverse, keep_order = (_either(*pair) for pair in ((reverse, self.reverse), (keep_order, self.keep_order)))
    found = _weights(self.cell)
    if found is None or seq_lengths is not None or inputs.ndim != 3 or (reverse and not keep_order):
        return None
    op_type, *weights = found
    carry = () if initial_carry is None else initial_carry
    carry = carry if isinstance(carry, tuple) else (carry,)
    if not _one_type(self.cell, inputs, *jax.tree.leaves((weights, carry))):
        return None
    if initial_carry is None and self.cell.carry_init is not None:
        return None
    options = {"return_carry": _either(return_carry, self.return_carry), "reverse": reverse, "keep_order": keep_order}
    options["time_major"] = _either(time_major, self.time_major)
    call = Call(
        inputs,
        *weights,
        carry,
        op_type=op_type,
        reverse=reverse,
        time_major=options["time_major"],
        return_carry=options["return_carry"],
    )
    return call.with_arguments(lambda: ((nnx.clone(self), inputs), {"initial_carry": initial_carry, **options}))


def _either(given: bool | None, default: bool) -> bool:
    return bool(default if given is None else given)


def _one_type(cell: Any, *arrays: Any) -> bool:
    dtypes = {x.dtype for x in arrays} | ({np.dtype(cell.dtype)} if cell.dtype is not None else set())
    return is_float(*arrays) and len(dtypes) == 1 and np.dtype(cell.param_dtype) in dtypes


def _weights(cell: Any) -> tuple[str, Sequence[Any], Sequence[Any], Sequence[Any]] | None:
    """The operator of a cell and its kernels of the input, of the hidden state, and biases, gate by gate or joined;
    None for a cell that is none of ONNX's."""
    from flax import nnx

    if cell.activation_fn is not jnp.tanh:
        return None
    kind = type(cell)
    if kind is nnx.SimpleCell:
        return None if cell.residual else ("RNN", *_joined(cell.dense_i, cell.dense_h, cell.dense_i))
    if cell.gate_fn is not jax.nn.sigmoid:
        return None
    if kind is nnx.GRUCell:
        return "GRU", *_joined(cell.dense_i, cell.dense_h, cell.dense_i)
    if kind is nnx.OptimizedLSTMCell:
        return "LSTM", *_joined(cell.dense_i, cell.dense_h, cell.dense_h)
    if kind is nnx.LSTMCell:
        inputs, hidden = (cell.ii, cell.if_, cell.ig, cell.io), (cell.hi, cell.hf, cell.hg, cell.ho)
        first, second = ([parameter(layer.kernel) for layer in layers] for layers in (inputs, hidden))
        return "LSTM", first, second, [parameter(layer.bias) for layer in hidden]
    return None


def _joined(inputs: Any, hidden: Any, biased: Any) -> tuple[list[Any], list[Any], list[Any]]:
    return [parameter(inputs.kernel)], [parameter(hidden.kernel)], [parameter(biased.bias)]


@rules.lower("nnx.rnn")
def lower_rnn(
    ctx: Any,
    x: Any,
    input_kernels: Sequence[Any],
    hidden_kernels: Sequence[Any],
    biases: Sequence[Any],
    carry: Sequence[Any],
    *,
    op_type: str,
    reverse: bool,
    time_major: bool,
    return_carry: bool,
) -> Any:
    """x [B, T, I] (or [T, B, I]): the hidden states [B, T, H], after the last carry where that is returned."""
    needs(ctx, op_type, x)
    w, r = (_gates(ctx, kernels, op_type).transpose(0, 2, 1) for kernels in (input_kernels, hidden_kernels))
    bias = _gates(ctx, biases, op_type)
    hidden = r.shape[-1]
    # One of the two biases that ONNX adds: the other is zero. For GRU it has to be that of the input.
    both = np.concatenate([bias, np.zeros_like(bias)], -1)
    x = x if time_major else ctx.transpose(x, (1, 0, 2))
    length, batch = ctx.dims(x)[:2]
    states = [ctx.unsqueeze(state, [0]) for state in reversed(carry)]
    outputs = ctx.op(
        op_type,
        x,
        *(ctx.constant(np.ascontiguousarray(v), like=x) for v in (w, r, both)),
        *([None, *states] if states else []),
        outputs=3 if op_type == "LSTM" else 2,
        hidden_size=hidden,
        dims=(length, 1, batch, hidden),
        **({"direction": "reverse"} if reverse else {}),
        **({"linear_before_reset": 1} if op_type == "GRU" else {}),
    )
    y = ctx.squeeze(outputs[0], [1])
    y = y if time_major else ctx.transpose(y, (1, 0, 2))
    if not return_carry:
        return y
    final = [ctx.squeeze(ctx.with_dims(state, (1, batch, hidden)), [0]) for state in reversed(outputs[1:])]
    return [*final, y]


def _gates(ctx: Any, arrays: Sequence[Any], op_type: str) -> np.ndarray[Any, Any]:
    """Kernels [I, gates · H] or biases [gates · H], in one or several pieces, as one with ONNX's order of gates and a
    leading axis of directions."""
    known = [ctx.known(array) for array in arrays]
    if any(array is None for array in known):
        ctx.decline("the weights are not constants")
    order = _ORDER[op_type]
    gates = np.split(np.concatenate(known, -1), len(order), -1)
    return np.concatenate([gates[i] for i in order], -1)[None]
