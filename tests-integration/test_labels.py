"""Symbols are used again: nearly all symbolic dimensions of a model have a label of symbols of its inputs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jax2onnx_graph.labels import LabelCount, count_labels
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.errors import KnownLimitationError
from jax2onnx_testing.targets import explain_refusals
from jax2onnx_testing.variants import build, quick_variants_of

# Of so many cases of a distribution, one is exported.
SAMPLE = 60


def counts(cases: list[CollectedCase], target: str) -> Iterator[LabelCount]:
    """The symbolic dimensions in the models of cases, without what the target refuses."""
    for found in cases:
        for variant in quick_variants_of(found, ["f32"], 1, target):
            if variant.skip_reason is None:
                try:
                    with explain_refusals(target):
                        program = build(variant).export()
                except KnownLimitationError:
                    continue
                yield count_labels(program.model)


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_symbolic_dimensions_are_labelled(target: str) -> None:
    cases: dict[str, list[CollectedCase]] = {}
    for found in find_cases():
        if isinstance(found, CollectedCase):
            cases.setdefault(found.distribution, []).append(found)
    counted = {name: list(counts(some[::SAMPLE], target)) for name, some in cases.items()}
    symbolic = sum(one.symbolic for some in counted.values() for one in some)
    labelled = sum(one.labelled for some in counted.values() for one in some)
    assert symbolic > 100
    assert labelled / symbolic >= 0.95, counted
