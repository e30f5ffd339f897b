"""Shapes that are not known: the table of situations, at the smallest sizes allowed, at primes and at larger ones."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_testing.checks import check_at_sizes
from symbolic_situations import SITUATIONS, Situation

pytestmark = pytest.mark.sampled(20)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.name)
def test_it_is_jax_at_every_size_and_labelled_everywhere(situation: Situation) -> None:
    program = to_onnx(situation.fn, list(situation.inputs), constraints=situation.constraints)
    assert program.check_symbols() == []
    check_at_sizes(program, situation.sizes)


def test_every_situation_has_its_own_name() -> None:
    names = [s.name for s in SITUATIONS]
    assert len(names) == len(set(names))


class TestDimensionsOfJaxExport:
    """Specifications that come from `jax.export` keep their scope, with its constraints."""

    def test_symbolic_shape(self) -> None:
        b, t = jax.export.symbolic_shape("b, t", constraints=["t >= 2"])
        # Only the constraint says that the slice is not empty, so its mean needs no guard and no ambiguity arises.
        program = to_onnx(lambda x: x[:, 1:].mean(1), [jax.ShapeDtypeStruct((b, t), np.float32)])
        assert program.check_symbols() == []
        assert [str(d) for d in program.model.graph.inputs[0].shape] == ["b", "t"]
        program.verify(sizes=[{"b": 1, "t": 2}, {"b": 3, "t": 7}])

    def test_symbolic_args_specs(self) -> None:
        examples = {"x": np.zeros((3, 4), np.float32)}, np.zeros(4, np.float32)
        specs = jax.export.symbolic_args_specs(examples, ({"x": "b, 2*k"}, "2*k"))
        program = to_onnx(lambda d, y: (d["x"] + y).reshape(-1, 2), list(specs))
        assert [str(d) for d in program.model.graph.outputs[0].shape] == ["b*k", "2"]
        program.verify()

    def test_beside_texts_of_the_same_scope(self) -> None:
        (b,) = jax.export.symbolic_shape("b")
        program = to_onnx(jnp.add, [jax.ShapeDtypeStruct((b, 3), np.float32), ("b", 3)])
        assert list(program.symbols) == ["b"]
        program.verify()


@pytest.mark.parametrize("names", list(itertools.permutations(["A", "B", "C"])))
def test_names_do_not_matter(names: tuple[str, ...]) -> None:
    a, b, c = names
    program = to_onnx(lambda x, y: jnp.einsum("ab,bc->ca", x, y), [(a, b), (b, c)])
    assert [str(d) for d in program.model.graph.outputs[0].shape] == [c, a]
    program.verify()
