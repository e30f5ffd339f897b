"""Options of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from examples import jax_decoders


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", choices=["compare", "rewrite", "rewrite-variants"], default="compare",
        help="compare the golden graphs; rewrite those that all versions of JAX share; or rewrite those of this version",
    )  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The quick suite leaves out the whole models in double precision."""
    if config.getoption("--jax2onnx-quick"):
        items[:] = [item for item in items if not ("test_models.py" in item.nodeid and "[f64" in item.nodeid)]


@pytest.fixture(scope="module")
def small_decoders() -> Iterator[ModuleType]:
    """The decoders of `examples/jax_decoders.py`, with fewer and narrower layers."""
    small = {"LAYERS": 2, "WIDTH": 64, "HIDDEN": 96, "WORDS": 80, "STATES": 4, "HEADS": 8, "KEY_HEADS": 2, "FEATURES": 16,
             "GEMMA_HEADS": 2, "GEMMA_FEATURES": 16, "WINDOW": 5, "INNER": 128, "STATE": 4, "RANK": 4}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, size in small.items():
            patch.setattr(jax_decoders, name, size)
        jax_decoders.weights.cache_clear()
        yield jax_decoders
    jax_decoders.weights.cache_clear()
