"""Scans that add up no products stay as they are."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from jax import lax
from jax2onnx_core import to_onnx
from reasons import Declining, reasons_of

_OTHERS = [
    Declining(
        "it has no inputs, or may have no steps",
        lambda x: lax.scan(lambda carry, _: (jnp.sin(carry), None), x, length=9)[0],
        [(3,)],
    ),
    Declining(
        "it adds up no products", lambda x: lax.scan(lambda carry, row: (jnp.sin(carry + row), None), x[0], x)[0], [(9, 3)]
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", _OTHERS, ids=str)
def test_other_scans_stay_as_they_are(case: Declining) -> None:
    assert case.reason in reasons_of(case)
    to_onnx(case.fn, case.inputs).verify()
