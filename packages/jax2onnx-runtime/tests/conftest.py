"""A space of symbols whose dimensions are names, for models given as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from jax2onnx_graph.errors import SymbolError
from jax2onnx_graph.facts.dims import Dim
from jax2onnx_runtime.sizes import Shape, Sizes, SymbolSpace

Space = Callable[..., SymbolSpace]


@pytest.fixture
def space_of() -> Space:
    """`space_of(["B", 3], minimum={"B": 1})`: the symbols of these shapes; a dimension is a number or an expression."""

    def make(*inputs: Shape, names: Sequence[str] = ("B",), minimum: Sizes | None = None) -> SymbolSpace:
        least = dict.fromkeys(names, 1) | dict(minimum or {})

        def check(sizes: Sizes) -> None:
            for name, size in sizes.items():
                if size < least[name]:
                    raise SymbolError(f"{name} = {size}, but {name} >= {least[name]}.")

        def evaluate(dim: Dim | str, sizes: Sizes) -> int:
            return int(eval(str(dim), {}, dict(sizes)))

        return SymbolSpace(names, least.__getitem__, check, evaluate, str, inputs)

    return make
