"""`OnnxProgram`: the exported model with everything one wants to do with it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.labels import SymbolInfo, check_labels
from jax2onnx_graph.saving import save_model, save_sharing_weights
from jax2onnx_graph.targets import Session, Target

from jax2onnx_core import _compat
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.tracing import Traced
from jax2onnx_core.jax_types import Aval, Function, PyTreeDef
from jax2onnx_core.jaxprs import Dims, is_symbolic_dim
from jax2onnx_core.lowering.log import LoweringLog
from jax2onnx_core.lowering.physical import has_components, physical_array, physical_type
from jax2onnx_core.plugins.errors import RuntimeInputError, SymbolError, TargetError
from jax2onnx_core.program.report import report_text
from jax2onnx_core.program.verification import verify
from jax2onnx_core.symbols.symbols import evaluate_dim

if TYPE_CHECKING:
    import onnx

__all__ = ["OnnxProgram"]


class OnnxProgram:
    """An exported function.

    Calling it runs the model in the target runtime: it takes and returns the pytrees of the
    exported function, as NumPy arrays.

    Attributes:
      model: the `onnx_ir.Model`.
      fn: the exported function.
      inputs, traced: what was exported: names, types and pytrees of its arguments and results.
      target: the runtime that the model is for.
      opset: the version of the standard operators.
      x64: whether JAX's 64-bit types were enabled.
      log: what was lowered how.
    """

    def __init__(
        self, model: ir.Model, fn: Function, traced: Traced, inputs: Inputs, target: Target, *, opset: int,
        x64: bool, log: LoweringLog, specialized: Mapping[str, int], lower_specialized: Callable[[Mapping[str, int]], OnnxProgram],
    ) -> None:  # fmt: skip
        self.model = model
        self.fn = fn
        self.traced = traced
        self.inputs = inputs
        self.target = target
        self.opset = opset
        self.x64 = x64
        self.log = log
        self._specialized = dict(specialized)
        self._lower_specialized = lower_specialized

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message (a copy; at most 2 GiB)."""
        return ir.to_proto(self.model)

    @property
    def input_names(self) -> list[str]:
        return list(self.inputs.names)

    @property
    def output_names(self) -> list[str]:
        return [value.name or "" for value in self.model.graph.outputs]

    @property
    def input_tree(self) -> PyTreeDef:
        """The pytree structure of `(args, kwargs)`."""
        return self.inputs.tree

    @property
    def output_tree(self) -> PyTreeDef:
        """The pytree structure of the result."""
        return self.traced.out_tree

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None,
             threshold: int = 1024, data_file: str | None = None) -> Path:  # fmt: skip
        """Write the model to a file, atomically; see `save_model`."""
        return save_model(self.model, path, external_data, threshold=threshold, data_file=data_file)

    # -- symbols -----------------------------------------------------------------------------

    @functools.cached_property
    def symbols(self) -> dict[str, SymbolInfo]:
        """The symbols of the inputs: least value, the number they were fixed to, where they stand."""
        return self.inputs.symbols.table(self.inputs.names, self.inputs.avals, self._specialized)

    def check_symbols(self) -> list[str]:
        """Sentences about dimensions that lost their label or have one that no input explains; empty if none."""
        label = self.inputs.symbols.label
        outputs = [[label(d) if is_symbolic_dim(d) else None for d in a.shape] for a in self.traced.out_avals]
        return check_labels(self.model, self.symbols, outputs)

    def specialize(self, **values: int) -> OnnxProgram:
        """The program with these symbols fixed to numbers, lowered anew without a second trace.

        Each number remembers its symbol (`SpecializedDim`); the weights are shared with this program.
        """
        return self._lower_specialized(values)

    def save_variants(self, directory: str | os.PathLike[str], **variants: Mapping[str, int]) -> list[Path]:
        """Save specializations of this program that share one file of weights.

        `save_variants("out", full={"T": 6, "S": 0}, incremental={"T": 1, "S": 5})` writes `full.onnx`,
        `incremental.onnx` and their weights.
        """
        return save_sharing_weights(directory, variants, lambda values: self.specialize(**values).model)

    # -- running -----------------------------------------------------------------------------

    @functools.cached_property
    def session(self) -> Session:
        """The loaded model: named arrays → outputs in order."""
        if not self.target.can_run:
            raise TargetError(
                f"The target {self.target.name!r} cannot run models here: its runtime is not installed. The "
                "documentation of the package that supplies the target says how to install it."
            )
        return self.target.load(self.model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on the arguments of the exported function."""
        feeds = self.feeds(*args, **kwargs)
        outputs = self.session(feeds)
        leaves = [_from_physical(x, aval) for x, aval in zip(outputs, self.traced.out_avals, strict=True)]
        return jax.tree_util.tree_unflatten(self.traced.out_tree, leaves)

    def feeds(self, *args: Any, **kwargs: Any) -> dict[str, Array]:
        """The model's inputs for these arguments, checked against names, dtypes and symbols."""
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if tree != self.inputs.tree:
            raise RuntimeInputError(
                f"The arguments have the structure {tree}, but the program was exported for {self.inputs.tree}."
            )
        arrays = [
            self._physical(name, leaf, aval)
            for name, leaf, aval in zip(self.inputs.names, leaves, self.inputs.avals, strict=True)
        ]
        self._check_symbols(arrays)
        return dict(zip(self.inputs.names, arrays, strict=True))

    def _physical(self, name: str, leaf: Any, aval: jax.ShapeDtypeStruct) -> Array:
        if not isinstance(leaf, jax.Array):
            leaf = np.asarray(leaf)
            if aval.weak_type or leaf.ndim == 0:
                leaf = leaf.astype(aval.dtype)
        if leaf.dtype != aval.dtype:
            raise RuntimeInputError(
                f"Input {name!r} has dtype {leaf.dtype}, but the program was exported for {aval.dtype}."
            )
        array = physical_array(leaf)
        dims = physical_type(aval)[1]
        if array.ndim != len(dims):
            raise RuntimeInputError(
                f"Input {name!r} has shape {array.shape}, but the program was exported for {self._shape_text(dims)}."
            )
        return array

    def _shape_text(self, dims: Dims) -> str:
        return f"({', '.join(self.inputs.symbols.label(d) for d in dims)})"

    def _check_symbols(self, arrays: Sequence[Array]) -> None:
        symbols = self.inputs.symbols
        values = self.inputs.solution.values([a.shape for a in arrays])
        shown = ", ".join(f"{k} = {v}" for k, v in symbols.user_values(values).items())
        for name, array, aval in zip(self.inputs.names, arrays, self.inputs.avals, strict=True):
            dims = physical_type(aval)[1]
            for axis, (size, dim) in enumerate(zip(array.shape, dims, strict=True)):
                if evaluate_dim(dim, values) != size:
                    raise RuntimeInputError(
                        f"Input {name!r} has size {size} on axis {axis}, but it should be {symbols.label(dim)}"
                        + (f" = {evaluate_dim(dim, values)} where {shown}" if shown else "")
                        + f"; the exported shape is {self._shape_text(dims)}."
                    )
        try:
            symbols.check_constraints(symbols.user_values(values))
        except SymbolError as error:
            raise RuntimeInputError(f"The inputs do not fit: {error}") from error

    # -- verifying ---------------------------------------------------------------------------

    def verify(self, *, sizes: Sequence[Mapping[str, int]] | None = None, seed: int = 0,
               rtol: float | None = None, atol: float | None = None) -> float:  # fmt: skip
        """Compare the model with the JAX function on random inputs, at several sizes of every symbol.

        `sizes` maps symbols to numbers, one mapping per run; None chooses the smallest allowed, a prime and a
        larger one. Returns the largest absolute difference; raises VerificationError naming the worst output.
        """
        return verify(
            self.fn, self, self.inputs, self.traced.out_avals, self.output_names,
            x64=self.x64, sizes=sizes, seed=seed, rtol=rtol, atol=atol,
        )  # fmt: skip

    def report(self) -> str:
        """A readable summary: operators, how each operation was lowered, what declined and why, symbols, sizes."""
        constraints = [c.text for c in self.inputs.symbols.constraints]
        return report_text(self.model, self.opset, self.target.name, constraints, self.log)


def _from_physical(array: Array, aval: Aval) -> Any:
    if _compat.is_extended_dtype(aval.dtype):
        return _compat.wrap_key(array, aval)
    if has_components(aval.dtype):
        return np.ascontiguousarray(array).view(aval.dtype).reshape(array.shape[:-1])
    return array.astype(aval.dtype) if aval.dtype == jax.dtypes.float0 else array
