"""`Context`: what a lowering rule sees of the export."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np
from jax2onnx_graph import ir

from jax2onnx_core import _compat
from jax2onnx_core.lowering.emitter import Emitter
from jax2onnx_core.lowering.physical import physical, to_numpy
from jax2onnx_core.lowering.scope import Scope
from jax2onnx_core.plugins.errors import Declined, RuleError
from jax2onnx_core.symbols.symbols import Dim

if TYPE_CHECKING:
    from jax2onnx_core.lowering.engine import Engine, Operation

__all__ = ["Context"]


class Context:
    """The one argument that every rule gets.

    Attributes:
      op: emits nodes: `ctx.op.Add(x, y)`.
      avals_in, avals_out: JAX's abstract values of the operands and results.
      primitive, params: the name and the parameters of the operation.
      opset: the version of the standard operators to export for.
      target: the name of the runtime to export for.
    """

    def __init__(self, engine: Engine, scope: Scope, operation: Operation) -> None:
        self._engine = engine
        self._operation = operation
        self.scope = scope
        self.op = Emitter(engine, scope)

    @property
    def avals_in(self) -> Sequence[Any]:
        return self._operation.avals_in

    @property
    def avals_out(self) -> Sequence[Any]:
        return self._operation.avals_out

    @property
    def primitive(self) -> str:
        return self._operation.name

    @property
    def params(self) -> Mapping[str, Any]:
        return self._operation.params

    @property
    def opset(self) -> int:
        return self._engine.opset

    @property
    def target(self) -> str:
        return self._engine.target.name

    def supports(self, op_type: str, dtype: Any) -> bool:
        """Whether the target computes the operator exactly at this element type."""
        return self._engine.target.supports(op_type, np.dtype(dtype), self.opset)

    def decline(self, reason: str) -> NoReturn:
        """Leave this operation to the next rule, or to its decomposition; the report keeps the reason."""
        raise Declined(reason)

    # -- constants and what is known of values -----------------------------------------------

    def constant(self, value: Any, dtype: Any = None, *, like: ir.Value | None = None) -> ir.Value:
        """A constant; its element type is `dtype`, that of the value `like`, or that of the array."""
        if like is not None:
            dtype = self.dtype(like)
        array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
        return self._engine.constants.constant(array)

    def ints(self, values: Sequence[int]) -> ir.Value:
        """An int64 vector: axes, shapes, repeats."""
        return self._engine.constants.constant(np.array(list(values), np.int64).reshape(-1))

    def weight(self, array: Any) -> ir.Value:
        """The value of a JAX array, stored once however often it is asked for."""
        return self._engine.constants.weight(array)

    def known(self, value: ir.Value) -> np.ndarray[Any, Any] | None:
        """The array that a value is at export time, None if it depends on the inputs."""
        return None if value.const_value is None else value.const_value.numpy()

    def dtype(self, value: ir.Value) -> np.dtype[Any]:
        assert value.dtype is not None
        return value.dtype.numpy()

    def dims(self, value: ir.Value) -> tuple[Dim, ...] | None:
        """The dimensions of a value, ints or JAX's symbolic ones; None if nothing is known."""
        return self._engine.dims.get(value)

    def _known_dims(self, value: ir.Value) -> tuple[Dim, ...]:
        dims = self.dims(value)
        if dims is None:
            raise RuleError(f"The shape of {value.name} is not known here; give dims=… to ctx.op.")
        return dims

    def with_dims(self, value: ir.Value, dims: Sequence[Dim]) -> ir.Value:
        """Label a value with its dimensions, where they could not be inferred."""
        self._engine.set_dims(value, dims)
        return value

    # -- dimensions --------------------------------------------------------------------------

    def dim(self, dim: Dim) -> ir.Value:
        """A dimension as an int64 scalar."""
        return self._dims_of_root().scalar(dim)

    def shape(self, dims: Sequence[Dim]) -> ir.Value:
        """Dimensions as an int64 vector."""
        return self._dims_of_root().shape(dims)

    def dim_vector(self, symbol: str) -> ir.Value:
        """The value of a (traced) symbol as an int64 tensor of shape [1]."""
        return self._dims_of_root().symbol(symbol)

    def _dims_of_root(self) -> Any:
        lowerer = self.scope.root.dims
        assert lowerer is not None
        return lowerer

    # -- generic helpers: they emit nothing when there is nothing to do ------------------------

    def reshape(self, x: ir.Value, dims: Sequence[Dim]) -> ir.Value:
        """`x` with the dimensions `dims`, in row-major order."""
        dims, old = tuple(dims), self._known_dims(x)
        if old == dims:
            return x
        known = self.known(x)
        if known is not None and _static(dims):
            return self._engine.constants.constant(known.reshape([int(d) for d in dims]), x.name or "const")
        return self.op("Reshape", x, self._reshape_target(old, dims), dims=dims,
                       allowzero=1 if 0 in [d for d in dims if not _compat.is_symbolic_dim(d)] else None)  # fmt: skip

    def _reshape_target(self, old: tuple[Dim, ...], dims: tuple[Dim, ...]) -> ir.Value:
        """The shape operand; constant where ONNX's 0 (copy) and -1 (infer) allow it."""
        target = [-1 if _compat.is_symbolic_dim(d) else int(d) for d in dims]
        for i, d in enumerate(dims):
            if target.count(-1) <= 1:
                break
            if target[i] == -1 and i < len(old) and old[i] == d and _compat.bounds(d)[0] > 0:
                target[i] = 0
        nonzero = all(_compat.bounds(d)[0] > 0 for d in dims)
        if target.count(-1) == 0 or (target.count(-1) == 1 and nonzero):
            return self.ints(target)
        return self.shape(dims)

    def broadcast(self, x: ir.Value, dims: Sequence[Dim]) -> ir.Value:
        """`x` expanded to `dims` by NumPy's rule (aligned at the right)."""
        if self.dims(x) == tuple(dims):
            return x
        return self.op("Expand", x, self.shape(dims), dims=tuple(dims))

    def broadcast_in_dim(self, x: ir.Value, dims: Sequence[Dim], broadcast_dimensions: Sequence[int]) -> ir.Value:
        """XLA's broadcast: axis i of `x` becomes axis `broadcast_dimensions[i]` of the result."""
        old = self._known_dims(x)
        aligned: list[Dim] = [1] * len(dims)
        for size, axis in zip(old, broadcast_dimensions, strict=True):
            aligned[axis] = size
        first = min(broadcast_dimensions, default=len(dims))
        return self.broadcast(self.reshape(x, aligned[first:]), dims)

    def cast(self, x: ir.Value, dtype: Any) -> ir.Value:
        """`x` converted by ONNX's Cast (whose rounding and saturation are not JAX's everywhere)."""
        dtype = np.dtype(dtype)
        return x if self.dtype(x) == dtype else self.op("Cast", x, to=dtype)

    def transpose(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Axis i of the result is axis `perm[i]` of `x`."""
        perm = [int(p) for p in perm]
        if perm == sorted(perm):
            return x
        dims, known = self.dims(x), self.known(x)
        if known is not None:
            return self._engine.constants.constant(known.transpose(perm), f"{x.name}.transpose")
        return self.op("Transpose", x, perm=perm, dims=dims and tuple(dims[p] for p in perm))

    def squeeze(self, x: ir.Value, axes: Sequence[int]) -> ir.Value:
        """`x` without the given axes of size 1."""
        if not axes:
            return x
        dims = self._known_dims(x)
        gone = {a % len(dims) for a in axes}
        kept = tuple(d for i, d in enumerate(dims) if i not in gone)
        if self.known(x) is not None:
            return self.reshape(x, kept)
        return self.op("Squeeze", x, self.ints(sorted(gone)), dims=kept)

    def unsqueeze(self, x: ir.Value, axes: Sequence[int]) -> ir.Value:
        """`x` with axes of size 1 so that they are at these places of the result."""
        if not axes:
            return x
        dims = self._known_dims(x)
        rank = len(dims) + len(axes)
        new = sorted(a % rank for a in axes)
        rest = iter(dims)
        wide = tuple(1 if i in new else next(rest) for i in range(rank))
        if self.known(x) is not None:
            return self.reshape(x, wide)
        return self.op("Unsqueeze", x, self.ints(new), dims=wide)

    def slice(
        self, x: ir.Value, starts: Sequence[Any] | ir.Value, ends: Sequence[Any] | ir.Value, axes: Sequence[int],
        steps: Sequence[int] | None = None, *, dims: Sequence[Dim] | None = None,
    ) -> ir.Value:  # fmt: skip
        """ONNX's Slice; bounds are dimensions or int64 vectors, `dims` the result's shape if it is to be known."""
        bounds = [b if isinstance(b, ir.Value) else self.shape(b) for b in (starts, ends)]
        operands = [x, *bounds, self.ints(axes)]
        if steps is not None and any(s != 1 for s in steps):
            operands.append(self.ints(steps))
        return self.op("Slice", *operands, dims=None if dims is None else tuple(dims))

    def concat(self, xs: Sequence[ir.Value], axis: int) -> ir.Value:
        """The values one after another along `axis`."""
        if len(xs) == 1:
            return xs[0]
        shapes = [self.dims(x) for x in xs]
        dims = None
        if all(s is not None for s in shapes):
            first = list(shapes[0] or ())
            axis %= len(first)
            first[axis] = sum((s or ())[axis] for s in shapes)
            dims = tuple(first)
        return self.op("Concat", *xs, axis=axis, dims=dims)

    # -- nested computations -----------------------------------------------------------------

    def inline(self, jaxpr: Any, *operands: ir.Value) -> tuple[ir.Value, ...]:
        """Lower a jaxpr (closed, or open without constants) here; the values of its results."""
        return tuple(self._engine.lower_jaxpr(self.scope, jaxpr, operands))

    def jax(self, fn: Callable[..., Any], *operands: ir.Value, **static: Any) -> Any:
        """Trace the JAX function `fn(*operands, **static)` on the operands' types and lower it here.

        Returns a value, or a tuple where `fn` returns several.
        """
        avals = [jax.ShapeDtypeStruct(self._known_dims(x), self.dtype(x)) for x in operands]
        traced = jax.make_jaxpr(lambda *xs: fn(*xs, **static))(*avals)
        results = self.inline(traced, *operands)
        return results[0] if len(results) == 1 else results

    @property
    def body(self) -> tuple[Any, Sequence[ir.Value]]:
        """The jaxpr of the original call behind a composite, and its operands (which include what it closed over)."""
        if self._operation.body is None:
            raise RuleError(f"{self.primitive!r} is a primitive of JAX, which has no jaxpr of its own.")
        return self._operation.body

    def operation(self, name: str, jaxpr: Any, *operands: ir.Value, **params: Any) -> tuple[ir.Value, ...]:
        """Lower this operation as the one called `name` where some plugin has rules for that, else inline `jaxpr`."""
        named = dataclasses.replace(self._operation, name=name, params=params, body=(jaxpr, operands))
        return tuple(self._engine.lower_named(self, named, operands))

    def subgraph(self, name: str) -> Subgraph:
        """A context that builds the body of an If, Loop or Scan; values from outside may be used in it."""
        return Subgraph(self._engine, Scope(name, self.scope), self._operation)

    def function(self, jaxpr: Any, *operands: ir.Value, name: str, domain: str = "jax2onnx") -> tuple[ir.Value, ...]:
        """Call the ONNX function whose body is `jaxpr`; equal bodies are stored once."""
        return self._engine.functions.call(self, jaxpr, operands, name, domain)

    # -- parity with the reference documents; rules of this project return their results --------

    def get_value_for_var(self, var: Any) -> ir.Value:
        """The constant behind a literal of a nested jaxpr."""
        if not isinstance(var, _compat.Literal):
            raise RuleError("Only literals have a value outside their jaxpr; operands are passed to the rule.")
        return self._engine.constants.constant(to_numpy(np.asarray(var.val, var.aval.dtype)))

    def fresh_name(self, base: str) -> str:
        """A name that no other value or node of the model has."""
        return self._engine.names.unique(base)


class Subgraph(Context):
    """A `Context` for a body under construction."""

    def input(self, name: str, dtype: Any, dims: Sequence[Dim]) -> ir.Value:
        """Add an input of the body."""
        value = self._engine.new_value(f"{self.scope.name}.{name}", np.dtype(dtype), dims)
        self.scope.inputs.append(value)
        return value

    def input_like(self, value: ir.Value, dims: Sequence[Dim] | None = None, name: str = "") -> ir.Value:
        """An input of the type of `value`, with its dimensions or others."""
        dims = self._known_dims(value) if dims is None else dims
        return self.input(name or (value.name or "in"), self.dtype(value), dims)

    def input_for(self, aval: Any, name: str = "in") -> ir.Value:
        """An input that carries a value of a JAX aval."""
        return self.input(name, *physical(aval))

    def graph(self, outputs: Sequence[ir.Value]) -> ir.Graph:
        """The finished body. An output that the body does not compute itself goes through Identity."""
        own = {v for node in self.scope.nodes for v in node.outputs}
        finished: list[ir.Value] = []
        for value in outputs:
            if value not in own or value in finished:
                value = self._engine.identity(self.scope, value)
            finished.append(value)
        return ir.Graph(
            self.scope.inputs, finished, nodes=self.scope.nodes, name=self._engine.names.unique(self.scope.name)
        )


def _static(dims: Sequence[Dim]) -> bool:
    return not any(_compat.is_symbolic_dim(d) for d in dims)
