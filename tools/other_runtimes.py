"""Sessions in other runtimes than the installed one: a process of their environment runs the models."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_runtime.runtimes import LoadedModel

__all__ = ["OtherRuntime"]

ROOT = Path(__file__).parent.parent
SOURCES = [
    str(ROOT / "packages" / f"jax2onnx-{name}" / "src")
    for name in ("graph", "runtime", "onnxruntime", "openvino", "qnn", "tensorrt")
]


class OtherRuntime:
    """A runtime that is installed in another environment.

    Args:
      python: the interpreter of that environment.
      worker: the script that runs models there.
      module: the module whose `load` opens sessions there.
    """

    def __init__(
        self, python: str, worker: str = "runtime_worker.py", module: str = "jax2onnx_onnxruntime.loading"
    ) -> None:
        self.python, self.worker, self.module = python, worker, module
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def load(self, model: ir.Model) -> LoadedModel:
        """A session on the model; it is loaded anew with every run."""
        data = ir.to_proto(model).SerializeToString()
        return lambda feeds: self._run(data, feeds)[0]

    def milliseconds(self, model: ir.Model, feeds: Mapping[str, Array], seconds: float) -> float:
        """The time of a run, at best, of those that are made in so many seconds."""
        return self._run(ir.to_proto(model).SerializeToString(), feeds, seconds)[1]

    def _run(self, model: bytes, feeds: Mapping[str, Array], seconds: float = 0.0) -> tuple[list[Array], float]:
        connection = self._connection or self._start()
        try:
            connection.send((model, dict(feeds), seconds))
            outputs, milliseconds, error = connection.recv()
        except BaseException as interruption:  # such as one that took too long: the model would run on
            self._stop()
            if isinstance(interruption, EOFError | OSError):
                raise TargetError("The process of the runtime died.") from interruption
            raise
        if error is not None:
            raise TargetError(error)
        return outputs, milliseconds

    def _start(self) -> Connection:
        key = secrets.token_hex(16)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES), "RUNTIME_WORKER_KEY": key}
        with Listener(authkey=key.encode()) as listener:
            command = [self.python, str(ROOT / "tools" / self.worker), str(listener.address), self.module]
            self._process = subprocess.Popen(command, env=environment)
            self._connection = listener.accept()
            return self._connection

    def _stop(self) -> None:
        """End the process; the next run starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None
