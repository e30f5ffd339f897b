"""`DecoderSignature`: which inputs and outputs of a model are tokens, positions, mask, logits and caches."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.metadata import StatePair, read_states
from jax2onnx_graph.traversal import given_inputs

from jax2onnx_generation.decoders.declaration import Roles, declared_roles

__all__ = ["DecoderSignature", "decoder_signature"]

# The usual names, in lower case without what stands before the last point or slash; the first found counts.
_TOKENS = (
    "input_ids",
    "token_ids",
    "tokens",
    "ids",
    "decoder_input_ids",
    "token",
    "token_id",
    "input_tokens",
    "characters",
)
_POSITIONS = (
    "position_ids", "positions", "position", "cache_position", "cache_positions", "segment_pos", "pos", "input_pos", "pos_ids", "offset",
    "start", "start_pos", "start_position", "start_index", "cache_index", "cur_index", "decode_step", "past_length",
    "place", "places",
)  # fmt: skip
_MASK = ("attention_mask", "attn_mask", "mask", "decoder_attention_mask", "causal_mask", "attention_bias", "attn_bias")
_LOGITS = ("logits", "lm_logits", "output_logits", "logit", "scores")

_INPUT_ROLES = ("tokens", "positions", "mask", "bias")
_SAY = 'Say it by roles={"%s": "…"}.'


@dataclasses.dataclass(frozen=True)
class DecoderSignature:
    """The names by which a decoder is fed and read.

    Attributes:
      tokens: the input of the token ids: integers of shape [B, T], [T], [B, 1], [B] or [].
      logits: the output of the logits: floats of shape [B, T, V], or [B, V] for the last token only; without the axes that
        the tokens lack.
      positions: the input of the tokens' positions, [B, T], [T], [B] or [] (that of the first token); None without one.
      mask: the input that tells which keys each token sees; None without one.
      mask_adds: whether the mask is added to the scores of attention, rather than being 1 for a key that is seen.
      states: the states: caches, counters and recurrent states.
      others: the inputs that have no role; the caller gives their arrays.
    """

    tokens: str
    logits: str
    positions: str | None = None
    mask: str | None = None
    mask_adds: bool = False
    states: tuple[StatePair, ...] = ()
    others: tuple[str, ...] = ()


def decoder_signature(model: ir.Model, roles: Roles | None = None) -> DecoderSignature:
    """Recognise the inputs and outputs of a decoder by what is declared, and by their names, element types and ranks.

    Args:
      model: the model; its states are those that its metadata names.
      roles: the inputs and outputs of roles that are not recognised, or wrongly: `{"tokens": "x", "mask": None}`; the others are as
        the metadata declares. A mask of floats has the role "bias" if it is added to the scores of attention.

    Raises:
      OptionError: a role is unknown or names no such input or output, or the model has no tokens or no logits, or
        several candidates for them.
    """
    states = tuple(read_states(model))
    inputs = [v for v in given_inputs(model.graph) if v.name not in {pair.input for pair in states}]
    outputs = [v for v in model.graph.outputs if v.name not in {pair.output for pair in states}]
    given = _checked_roles({**declared_roles(model), **(roles or {})}, inputs, outputs)
    found: dict[str, str | None] = {}
    if given.get("bias"):
        given["mask"] = given["bias"]
    for role, names, fits in (("mask", _MASK, _is_mask), ("positions", _POSITIONS, _are_positions)):
        rest = [v for v in inputs if v.name not in {*given.values(), *found.values()}]
        found[role] = given[role] if role in given else _named([v for v in rest if fits(v)], names)
    rest = [v for v in inputs if v.name not in {*given.values(), *found.values()}]
    tokens = given.get("tokens") or _tokens(rest, inputs)
    logits = given.get("logits") or _logits(outputs)
    taken = {tokens, *found.values()}
    others = tuple(str(v.name) for v in inputs if v.name not in taken)
    adds = _mask_adds(next((v for v in inputs if v.name == found["mask"]), None), given)
    return DecoderSignature(tokens, logits, found["positions"], found["mask"], adds, states, others)


def _mask_adds(mask: ir.Value | None, given: Roles) -> bool:
    """Whether a mask is added to the scores: as it is declared, or as its name says."""
    if mask is None or mask.dtype is None or not mask.dtype.is_floating_point():
        return False
    if given.get("bias") == mask.name or given.get("mask") == mask.name:
        return given.get("bias") == mask.name
    if "bias" in str(mask.name).lower():
        return True
    raise OptionError(
        f"The mask {mask.name!r} is {type_text(mask)}, and may be added to the scores of attention, or be 1 for what is seen: say "
        f'roles={{"bias": {mask.name!r}}} or roles={{"mask": {mask.name!r}}}, let the function take booleans, or call it attention_bias '
        "if it is added."
    )


def _checked_roles(roles: Roles, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> dict[str, str | None]:
    for role, name in roles.items():
        if role not in (*_INPUT_ROLES, "logits"):
            raise OptionError(
                f"roles: there is no role {role!r}; the roles are tokens, positions, mask, bias and logits."
            )
        if name is None and role in ("tokens", "logits"):
            raise OptionError(f"roles: a decoder has {role}, so that None cannot stand for them.")
        kind, values = ("output", outputs) if role == "logits" else ("input", inputs)
        value = next((v for v in values if v.name == name), None)
        if value is None and name is not None:
            raise OptionError(f"roles: {role} = {name!r}, but the {kind}s that are no states are {_shown(values)}.")
        fits = {
            "tokens": _are_tokens,
            "positions": _are_positions,
            "mask": _is_mask,
            "bias": _is_bias,
            "logits": _are_logits,
        }[role]
        if value is not None and not fits(value):
            raise OptionError(f"roles: {role} = {name!r}, but this {kind} is {type_text(value)}. {_WANTED[role]}")
    if roles.get("mask") and roles.get("bias"):
        raise OptionError("roles: a decoder has a mask or a bias, not both.")
    if twice := [name for name in roles.values() if name is not None and list(roles.values()).count(name) > 1]:
        raise OptionError(f"roles: {twice[0]!r} cannot have two roles.")
    return dict(roles)


_WANTED = {
    "tokens": "Tokens are integers of rank 0 to 2: [B, T].",
    "positions": "Positions are integers of rank 0 to 2: [B, T], [T], [B] or [].",
    "mask": "A mask is of booleans, integers or floats, of rank 2 to 4: [B, S + T] or [B, 1, T, S + T].",
    "bias": "A bias is a mask of floats that are added to the scores of attention, of rank 2 to 4: [B, 1, T, S + T].",
    "logits": "Logits are floats of rank 1 to 3: [B, T, V] or [B, V].",
}


def _tokens(candidates: Sequence[ir.Value], inputs: Sequence[ir.Value]) -> str:
    """The input of tokens: one with a usual name, else the only one that can be it."""
    fitting = [value for value in candidates if _are_tokens(value)]
    if named := _named(fitting, _TOKENS):
        return named
    shaped = [value for value in fitting if len(value.shape or ()) > 0] or fitting
    if len(shaped) == 1:
        return str(shaped[0].name)
    if shaped:
        raise OptionError(
            f"Several inputs could be the tokens: {_shown(shaped)}. {_SAY % 'tokens'} A model whose tokens are called "
            "input_ids or tokens needs no roles."
        )
    raise OptionError(
        f"The model takes no tokens: no input of integers is left among {_shown(inputs)}. {_WANTED['tokens']} If one of these "
        f"is the tokens: {_SAY % 'tokens'}"
    )


def _logits(outputs: Sequence[ir.Value]) -> str:
    """The output of logits: one with a usual name, else the only one that can be it."""
    fitting = [value for value in outputs if _are_logits(value)]
    if named := _named(fitting, _LOGITS):
        return named
    if len(fitting) == 1:
        return str(fitting[0].name)
    if fitting:
        raise OptionError(f"Several outputs could be the logits: {_shown(fitting)}. {_SAY % 'logits'}")
    raise OptionError(f"The model returns no logits: the outputs that are no states are {_shown(outputs)}. {_WANTED['logits']}")  # fmt: skip


def _named(values: Sequence[ir.Value], names: Sequence[str]) -> str | None:
    """The name of the value that has the first of some usual names; None if there is none."""
    known: dict[str, str] = {}
    for value in values:
        known.setdefault(re.split(r"[./]", str(value.name))[-1].lower(), str(value.name))
    return next((known[name] for name in names if name in known), None)


def _are_tokens(value: ir.Value) -> bool:
    return _is(value, "i", 0, 2)


_are_positions = _are_tokens


def _is_mask(value: ir.Value) -> bool:
    return _is(value, "bif", 2, 4)


def _is_bias(value: ir.Value) -> bool:
    return _is(value, "f", 2, 4)


def _are_logits(value: ir.Value) -> bool:
    return _is(value, "f", 1, 3)


def _is(value: ir.Value, kinds: str, least: int, most: int) -> bool:
    """Whether a value is a tensor of a kind ("b"oolean, "i"nteger, "f"loat) and its rank is between two numbers."""
    if value.dtype is None or value.shape is None or not isinstance(value.type, ir.TensorType):
        return False
    kind = "b" if value.dtype == ir.DataType.BOOL else "f" if value.dtype.is_floating_point() else "i" if value.dtype.is_integer() else "?"  # fmt: skip
    return kind in kinds and least <= len(value.shape) <= most


def _shown(values: Sequence[ir.Value]) -> str:
    return ", ".join(f"{value.name}: {type_text(value)}" for value in values) or "none"
