"""What is known of a size from data."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax2onnx_core import size, to_onnx
from jax2onnx_core.plugins.errors import ConversionError


def _kept(x: jax.Array, n: jax.Array) -> jax.Array:
    return x[x > 0]


def _counted(x: jax.Array, n: jax.Array) -> jax.Array:
    return jnp.arange(n)


def _nested(x: jax.Array, n: jax.Array) -> jax.Array:
    with size("inner", at_least=1):
        return x[x > 0]


@pytest.mark.parametrize(
    ("fn", "said", "name", "least", "most"),
    [
        (_kept, {}, "mask", 0, "B"),
        (_kept, {"name": "d"}, "d", 0, "B"),
        (_kept, {"at_least": 2}, "mask", 2, "B"),
        (_kept, {"at_most": 3}, "mask", 0, "3"),
        (_counted, {}, "arange", 0, None),
        (_counted, {"at_most": 7}, "arange", 0, "7"),
        (_nested, {"name": "outer", "at_least": 3, "at_most": 5}, "inner", 3, "5"),
        (_nested, {}, "inner", 1, "B"),
    ],
)
def test_the_limits_of_a_size(
    fn: Callable[..., jax.Array], said: dict[str, object], name: str, least: int, most: str | None
) -> None:
    def limited(x: jax.Array, n: jax.Array) -> jax.Array:
        with size(**said):  # type: ignore[arg-type]
            return fn(x, n)

    symbols = to_onnx(limited, [("B",), ((), "int32")]).symbols
    assert {name: symbols[name].value for name in symbols} == {"B": None, name: None}
    assert (symbols[name].minimum, symbols[name].maximum) == (least, most)


def test_a_name_of_a_size_is_an_identifier() -> None:
    with pytest.raises(ConversionError, match="not 'my size'"), size("my size"):
        pass
