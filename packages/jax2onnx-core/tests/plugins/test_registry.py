"""A copy of a registry is independent of it."""

import pytest
from jax2onnx_core import Registry
from jax2onnx_core.plugins.rules import Rule


@pytest.mark.parametrize("name", sorted(name for name in vars(Registry()) if not name.startswith("_")))
def test_a_copy_has_containers_of_its_own(name):
    registry = Registry()
    copy = registry.copy()
    assert vars(copy)[name] == vars(registry)[name]
    assert vars(copy)[name] is not vars(registry)[name]


def test_a_copy_has_what_was_added():
    registry = Registry()
    registry.rules["a"], registry.suppliers["b"], registry.owners["c"] = [], "x", "y"
    copy = registry.copy()
    assert (copy.rules, copy.suppliers, copy.owners) == ({"a": []}, {"b": "x"}, {"c": "y"})
    copy.rules["a"].append(Rule(lambda ctx, x: x))
    assert registry.rules == {"a": []}
