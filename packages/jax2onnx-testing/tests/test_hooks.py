"""Every hook of the plugin contract is documented and tested."""

from __future__ import annotations

import pathlib

import pytest
from jax2onnx_core.plugins.discovery import Hooks

REPOSITORY = pathlib.Path(__file__).parents[3]
HOOKS = sorted(name for name in vars(Hooks) if name.startswith("jax2onnx_"))


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hook_says_what_it_is_for(hook):
    assert vars(Hooks)[hook].__doc__


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hook_is_in_the_tutorial_for_plugin_authors(hook):
    assert hook in (REPOSITORY / "docs" / "plugin-authors.md").read_text()


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hook_has_a_test(hook):
    tests = [p for p in REPOSITORY.glob("packages/*/tests/**/test_*.py") if p != pathlib.Path(__file__)]
    assert any(hook in path.read_text() for path in tests)
