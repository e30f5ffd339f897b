"""Cases of `embedding`."""

from __future__ import annotations

import haiku as hk
import numpy as np

from jax2onnx_haiku._layer_case import layer_case

__all__ = ["cases"]

_INDICES = np.array([[0, 6, -1], [-7, 99, -99]], np.int32)
_TOKENS = [(("B", "T"), "int32")]
_GATHER = "Clip -> Gather"

cases = [
    layer_case("embed", lambda x: hk.Embed(7, 4)(x), _TOKENS, expect=_GATHER),
    layer_case(
        "embed_in_and_out_of_range",
        lambda x: hk.Embed(7, 4)(x + _INDICES),
        [((2, 3), "int32")],
        expect="Add -> Clip -> Gather",
    ),
    layer_case("embed_vmapped", lambda x: hk.vmap(hk.Embed(7, 4), split_rng=False)(x), _TOKENS, expect=_GATHER),
    layer_case(
        "embed_by_one_hot",
        lambda x: hk.Embed(7, 4, lookup_style="ONE_HOT")(x),
        _TOKENS,
        expect="Unsqueeze -> Equal:BxTx7 -> Cast -> MatMul",
    ),
]
