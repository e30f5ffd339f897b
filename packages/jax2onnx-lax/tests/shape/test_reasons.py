"""Rules of padding decline for the reasons that they name."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from reasons import Declining, reasons_of


def _padded(width: int, mode: str) -> Callable[..., jax.Array]:
    return lambda x: jnp.pad(x, ((width, 0), (0, 0)), mode=mode)


_SHORT = "an axis may be shorter than its padding"
CASES = [
    Declining(_SHORT, _padded(4, "reflect"), [(4, 3)]),
    Declining(_SHORT, _padded(5, "symmetric"), [(4, 3)]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_of_padding_declines(case: Declining):
    assert case.reason in reasons_of(case)


@pytest.mark.parametrize(("width", "mode"), [(3, "reflect"), (4, "symmetric")])
@pytest.mark.parametrize("size", [4, "N"])
def test_padding_of_the_greatest_width_is_made_of_elements(width, mode, size):
    options = {"constraints": ("N >= 4",)} if size == "N" else {}
    assert _SHORT not in reasons_of(Declining(_SHORT, _padded(width, mode), [(size, 3)], options))
