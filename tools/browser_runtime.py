"""Sessions of ONNX Runtime Web in a browser, which a process of Node drives (`tools/browser`)."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_runtime.runtimes import LoadedModel

__all__ = ["BrowserRuntime", "Placement", "installed", "version"]

SCRIPTS = Path(__file__).parent / "browser"


def installed(provider: str = "wasm") -> str | None:
    """The reason why no model can be run by a provider of `BrowserRuntime` here; None where it can."""
    if shutil.which("node") is None:
        return "Node.js is not installed"
    if not (SCRIPTS / "node_modules").exists():
        return f"the packages of {SCRIPTS / 'package.json'} are not installed: npm ci --prefix {SCRIPTS}"
    if provider == "node":
        return None
    found = subprocess.run(["node", "browser.mjs", "--find"], cwd=SCRIPTS, stdout=subprocess.DEVNULL, check=False)
    return "neither Chromium nor Chrome is installed ($CHROMIUM may name the program)" if found.returncode else None


def version() -> str:
    """The version of the npm package `onnxruntime-web`."""
    found: str = json.loads((SCRIPTS / "node_modules/onnxruntime-web/package.json").read_text())["version"]
    return found


class Placement(NamedTuple):
    """The placement of a model's nodes.

    Attributes:
      gpu: the number of nodes that run on the GPU.
      on_cpu: the operators of the others.
      copies: the number of copies of values between the two.
    """

    gpu: int
    on_cpu: list[str]
    copies: int


class BrowserRuntime:
    """A provider of ONNX Runtime Web, "wasm" or "webgpu", in the build that has both, `onnxruntime-web/webgpu`; "node" is WebAssembly in Node.js."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._process: subprocess.Popen[str] | None = None

    def load(self, model: ir.Model) -> LoadedModel:
        """A session on the model; it is loaded anew with every run."""
        data = ir.to_proto(model).SerializeToString()
        return lambda feeds: self.run(data, feeds)

    def run(self, model: bytes, feeds: Mapping[str, Array], *, optimise: bool = True) -> list[Array]:
        """Run a model, and return its outputs.

        Args:
          model: the model as bytes.
          feeds: the inputs by name.
          optimise: whether the runtime optimises the graph.

        Raises:
          TargetError: the runtime refuses the model.
        """
        return [_array(output) for output in self.ask(model, feeds, optimise=optimise)["outputs"]]

    def milliseconds(self, model: ir.Model, feeds: Mapping[str, Array], seconds: float) -> float:
        """The time of a run, at best, of those that are made in so many seconds."""
        data = ir.to_proto(model).SerializeToString()
        found: float = self.ask(data, feeds, time=1000 * seconds)["milliseconds"]
        return found

    def ask(
        self, model: bytes, feeds: Mapping[str, Array], *, optimise: bool = True, log: bool = False, time: float = 0
    ) -> dict[str, Any]:
        """Send a request to the browser.

        Args:
          model: the model as bytes.
          feeds: the inputs by name.
          optimise: whether the runtime optimises the graph.
          log: whether the answer has the runtime's log.
          time: the milliseconds for which it is run again and again, so that the answer has the time of a run.

        Returns:
          The answer, see `models.mjs`.

        Raises:
          TargetError: the runtime refuses the model.
        """
        request = {
            "model": base64.b64encode(model).decode(), "provider": "wasm" if self.provider == "node" else self.provider,
            "optimise": optimise, "log": log, "time": time,
            "feeds": {name: _tensor(np.asarray(array)) for name, array in feeds.items()},
        }  # fmt: skip
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self._process = None
            raise TargetError("The browser died.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            if "no answer" in answer["error"]:  # the process ends, and the browser with it
                process.wait()
                self._process = None
            raise TargetError(answer["error"])
        return answer

    def placement(self, model: bytes, feeds: Mapping[str, Array], *, optimise: bool = True) -> Placement:
        """Run a model, and count its nodes on the GPU and elsewhere.

        Args:
          model: the model as bytes.
          feeds: the inputs by name.
          optimise: whether the runtime optimises the graph.

        Raises:
          TargetError: the runtime refuses the model.
        """
        gpu, on_cpu, copies, here = 0, list[str](), 0, ""
        for line in self.ask(model, feeds, optimise=optimise, log=True)["log"]:
            if head := re.search(r"laced on \[(\w+)ExecutionProvider\]\. Number of nodes: (\d+)", line):
                here = head[1]
                gpu += 0 if here == "CPU" else int(head[2])
                if here == "CPU" and "All nodes" in line:  # which are not listed
                    on_cpu += ["any"] * int(head[2])
            elif node := re.search(r"VerifyEachNodeIsAssignedToAnEp\]? +(\w+) \(", line):
                if node[1].startswith("Memcpy"):
                    copies += 1
                    gpu -= here != "CPU"
                elif here == "CPU":
                    on_cpu.append(node[1])
        return Placement(gpu, on_cpu, copies)

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            ["node", "models.mjs", self.provider], cwd=SCRIPTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self._process


def _tensor(array: Array) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"type": array.dtype.name, "dims": list(array.shape), "data": data}


def _array(tensor: Mapping[str, Any]) -> Array:
    return np.frombuffer(base64.b64decode(tensor["data"]), tensor["type"]).reshape(tensor["dims"])
