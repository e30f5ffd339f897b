"""`application`: a program behind Ray Serve, which runs requests that come at about the same time as one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import ray
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import RuntimeInputError
from jax2onnx_runtime.program import Program
from ray import serve

from jax2onnx_ray.rows import BatchedProgram, Row, RowFailure, row_of

__all__ = ["Request", "Server", "application"]


class Request(Protocol):
    """A request of HTTP, as Ray Serve hands it over."""

    async def json(self) -> object:
        """Its body."""
        ...


class Server:
    """A replica of the application.

    Args:
      batched: the reference of a `BatchedProgram`.
      max_batch_size: how many requests are run together at most.
      wait: how many seconds a request waits for others.
    """

    def __init__(self, batched: ray.ObjectRef[BatchedProgram], max_batch_size: int, wait: float) -> None:
        self._batched: BatchedProgram = ray.get(batched)
        self._sizes: list[int] = []
        self._types = {leaf.name: leaf.dtype for leaf in self._batched.program.interface.inputs}
        self.run_together.set_max_batch_size(max_batch_size)
        self.run_together.set_batch_wait_timeout_s(wait)

    @serve.batch  # type: ignore[untyped-decorator]  # Ray is not installed where types are checked
    async def run_together(self, rows: list[Row]) -> list[dict[str, Array] | RowFailure]:
        """The outcomes of requests that came at about the same time; one that fails does not keep others from running."""
        self._sizes.append(len(rows))
        return self._batched.outcomes(rows)

    async def predict(self, row: Row) -> dict[str, Array]:
        """Run one row: its arrays by the names of inputs → those of the outputs. Raises RuntimeInputError."""
        outcome = await self.run_together(row)
        if isinstance(outcome, RowFailure):
            raise RuntimeInputError(outcome.error)
        return outcome

    async def batch_sizes(self) -> list[int]:
        """Number of requests of each batch so far."""
        return self._sizes

    async def __call__(self, request: Request) -> dict[str, list[object]]:
        """Answer a request of HTTP: a JSON object of nested lists by the names of inputs → one by those of outputs."""
        row = row_of(await request.json(), self._types)
        return {name: array.tolist() for name, array in (await self.predict(row)).items()}


def application(
    program: Program, *, replicas: int = 1, max_batch_size: int = 32, wait: float = 0.005,
    constants: Mapping[str, Array] | None = None, cpus: int = 1,
) -> serve.Application:  # fmt: skip
    """An application of Ray Serve that runs a program: `serve.run(application(program))`.

    Its handle takes a row, `handle.predict.remote({"x": array})`, and HTTP a JSON object. Rows have no axis for the batch.

    Args:
      program: the program, whose inputs have the batch as their first axis.
      replicas: how many processes run it.
      max_batch_size: how many requests are run together at most.
      wait: how many seconds a request waits for others.
      constants: the inputs that are the same for all requests, as the program takes them.
      cpus: how many processors a replica has; so many threads compute one operator.

    Raises:
      OptionError: the program has no axis for a batch, or an option is impossible.
    """
    batched = ray.put(BatchedProgram(program.portable(), constants or {}, cpus))
    deployment = serve.deployment(Server).options(num_replicas=replicas, ray_actor_options={"num_cpus": cpus})
    return deployment.bind(batched, max_batch_size, wait)
