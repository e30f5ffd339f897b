"""The release check: the form of requirements that docs/versions.md asks for."""

from __future__ import annotations

import check_release
import pytest
from packaging.requirements import Requirement
from packaging.version import Version


@pytest.mark.parametrize("requirement", ["jax2onnx-core>=0.1,<1", "jax2onnx-core>=0.2,<1.0", "jax2onnx-core>=0,<1"])
def test_the_oldest_minor_release_and_the_next_major_one_are_right(requirement):
    assert list(check_release.requirement_problems("lax", Requirement(requirement), Version("0.2.0"))) == []


@pytest.mark.parametrize(
    "requirement",
    [
        "jax2onnx-core",
        "jax2onnx-core>=0.1",
        "jax2onnx-core>=0.1,<0.3",
        "jax2onnx-core>=0.1.1,<1",
        "jax2onnx-core==0.2.0",
    ],
)
def test_other_requirements_are_named_with_the_right_form(requirement):
    (problem,) = check_release.requirement_problems("lax", Requirement(requirement), Version("0.2.0"))
    assert problem.endswith("it has to be of the form jax2onnx-core>=0.2,<1")


def test_a_requirement_that_does_not_admit_the_version_here_is_named():
    (problem,) = check_release.requirement_problems("lax", Requirement("jax2onnx-core>=0.3,<1"), Version("0.2.0"))
    assert problem == "lax: needs jax2onnx-core<1,>=0.3, but the version here is 0.2.0"


def test_a_plugin_of_another_api_is_named(tmp_path):
    plugin = tmp_path / "src" / "jax2onnx_lax" / "plugin.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("JAX2ONNX_API = 99\n")
    (problem,) = check_release.api_problems("jax2onnx-lax", tmp_path)
    assert problem.startswith("jax2onnx-lax: its plugin says JAX2ONNX_API = 99, but core supports")
