"""The package knows nothing of JAX."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys
sys.modules["jax"] = sys.modules["jaxlib"] = None  # from here on, `import jax` raises
import jax2onnx_graph
names = [module.name for module in pkgutil.walk_packages(jax2onnx_graph.__path__, "jax2onnx_graph.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_every_module_is_imported_where_jax_cannot_be():
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 20
