"""An export loads the engine and the plugins that are concerned, and nothing that happens to a model later."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.sampled(None)

EXPORTS = {
    "a function": "import jax.numpy as jnp; to_onnx(jnp.tanh, [('B', 3)])",
    "an NNX model": "from flax import nnx; to_onnx(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), [('B', 3)])",
}
# What runs, measures or shows a finished model, or writes with it.
LATER = (
    "jax2onnx_report", "jax2onnx_generation", "jax2onnx_runtime.adapters", "jax2onnx_runtime.benchmarks", "jax2onnx_runtime.bisection",
    "jax2onnx_runtime.bundles", "jax2onnx_runtime.profiles", "jax2onnx_runtime.session", "jax2onnx_runtime.stages",
    "jax2onnx_graph.saving.writing", "jax2onnx_onnxruntime._quantization", "onnxruntime", "openvino",
)  # fmt: skip

# What neither export has an equation for.
UNUSED = (
    "jax2onnx_lax.recurrence.cell_scans",
    "jax2onnx_lax.recurrence.linear_scans",
    "jax2onnx_lax.sharding.interpreter",
)


@pytest.fixture(scope="module", params=EXPORTS)
def loaded(request):
    code = f"from jax2onnx_core import to_onnx\n{EXPORTS[request.param]}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return request.param, json.loads(run.stdout.splitlines()[-1])


def test_nothing_of_what_happens_later_is_loaded(loaded):
    _, modules = loaded
    assert [name for name in modules for later in LATER if name == later or name.startswith(f"{later}.")] == []


def test_what_no_equation_needs_is_not_loaded(loaded):
    _, modules = loaded
    assert [name for name in UNUSED if name in modules] == []


def test_the_runtime_is_the_program_alone(loaded):
    _, modules = loaded
    assert sum(name.startswith("jax2onnx_runtime") for name in modules) <= 18


def test_a_framework_package_is_loaded_with_its_framework(loaded):
    export, modules = loaded
    of_nnx, of_equinox = (
        [name for name in modules if name.startswith(f"jax2onnx_{framework}.")] for framework in ("nnx", "equinox")
    )
    assert of_equinox == ["jax2onnx_equinox.plugin"]
    assert (of_nnx == ["jax2onnx_nnx.plugin"]) == (export == "a function")
