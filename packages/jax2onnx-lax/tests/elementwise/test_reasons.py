"""Rules of elementwise operations decline for the reasons that they name."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import UnsupportedError
from reasons import Declining, reasons_of

_BYTES = ((3,), "uint8")
CASES = [
    *(Declining("not booleans", fn, [(3,), (3,)]) for fn in (lax.mul, lax.max, lax.lt)),
    Declining("not keys", lax.eq, [((3,), "complex64")] * 2),
    Declining("signed", lax.neg, [(3,)]),
    Declining("the product has the type of its operands", lax.mul, [(3,), (3,)]),
    Declining("onnxruntime multiplies in a wider type", lax.mulhi, [_BYTES, _BYTES]),
    Declining("onnxruntime has double precision", lax.nextafter, [(3,), (3,)]),
    Declining("onnxruntime has double precision", lax.cbrt, [(3,)]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_elementwise_rule_declines(case: Declining):
    assert case.reason in reasons_of(case)


@pytest.mark.parametrize("fn", [lax.max, lax.lt])
def test_the_rules_of_booleans_take_booleans(fn):
    assert "not booleans" not in reasons_of(Declining("", fn, [((3,), "bool")] * 2))


@pytest.mark.parametrize(
    ("reason", "fn", "x"),
    [
        ("bitcast between int4 and uint2", lambda x: lax.bitcast_convert_type(x, jnp.uint2), ((3,), jnp.int4)),
        (
            "platform_dependent has neither a branch for the CPU nor a default",
            lambda x: lax.platform_dependent(x, tpu=jnp.sin, cuda=jnp.cos),
            ((3,), np.float32),
        ),
    ],
)
def test_what_no_other_rule_takes_is_refused_with_the_reason(reason, fn, x):
    with pytest.raises(UnsupportedError, match=f"Its rules declined: {reason}"):
        to_onnx(fn, [x])
