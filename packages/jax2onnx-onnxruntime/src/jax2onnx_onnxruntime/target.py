"""`OnnxRuntime`: the target, which answers from measured tables and imports the runtime only to run a model."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.deployment.keeper import RuntimeOptions, StateKeeper
from jax2onnx_graph.deployment.quantization import Quantization
from jax2onnx_graph.errors import OptionError, TargetError
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.targets import PassFactory, Property, Session, Target

__all__ = ["OnnxRuntime"]


class OnnxRuntime(Target):
    """ONNX Runtime with its CPU provider: what `to_onnx` exports for unless told otherwise.

    The tables and passes come at first use, so that registering the target is cheap.
    """

    name = "onnxruntime"
    is_default = True

    def __init__(self, version: str = "") -> None:
        self._version = version
        if version:
            from jax2onnx_onnxruntime.kernels import measured_opsets

            self.name, self.is_default, self.opsets = f"{type(self).name}=={version}", False, measured_opsets(version)

    def of_version(self, version: str) -> OnnxRuntime:
        """The target for a version such as "1.18" or "1.18.1".

        Raises:
          OptionError: it was not measured.
        """
        from jax2onnx_onnxruntime.kernels import measured_versions

        known = measured_versions()
        found = ".".join(version.split(".")[:2])
        if found not in known:
            raise OptionError(
                f"ONNX Runtime {version} was not measured; those that were are {', '.join(known)}. Models for one of them run "
                "in later versions too."
            )
        return OnnxRuntime(known[found])

    def supports(self, op_type: str, dtype: np.dtype[Any], opset: int) -> bool:
        """Whether the operator is computed exactly on this element type, natively or after legalisation."""
        from jax2onnx_onnxruntime.support import supports

        return supports(op_type, dtype, opset, self._version)

    def runs_as_well(self, node: ir.Node, opset: int, lower: int) -> bool:
        """Whether there is a kernel for a node at a lower opset, if there is one at this opset."""
        from jax2onnx_onnxruntime.support import runs_as_well

        return runs_as_well(node, opset, lower, self._version)

    def guarantees(self, op_type: str, dtype: np.dtype[Any], kept: Property) -> bool:
        """Whether the kernel that computes the operator keeps the property; see `guarantees.json`."""
        from jax2onnx_onnxruntime.guarantees import guarantees

        return guarantees(op_type, dtype, kept, self._version)

    def prefers(self, *forms: str) -> str:
        """The fastest of several forms of equal meaning, by the names of `jax2onnx_onnxruntime.forms`."""
        from jax2onnx_onnxruntime.forms import preferred

        return preferred(forms)

    def passes(self) -> Sequence[PassFactory]:
        """What older versions lose, forms of attention, legalisation, then the passes that keep the runtime's own optimiser from mistakes."""
        from jax2onnx_onnxruntime.attention_forms import AttentionFormsPass
        from jax2onnx_onnxruntime.fusions import TransposedProductsPass
        from jax2onnx_onnxruntime.legalise import LegalisePass
        from jax2onnx_onnxruntime.neutral_constants import NeutralConstantsPass
        from jax2onnx_onnxruntime.partly_filled import PartlyFilledPass
        from jax2onnx_onnxruntime.repairs import RepairsPass
        from jax2onnx_onnxruntime.scalar_fusions import ScalarFusionsPass

        repairs = [RepairsPass] if self._version else []
        legalise = partial(LegalisePass, version=self._version)
        attention = (AttentionFormsPass, PartlyFilledPass)
        return (*repairs, *attention, legalise, TransposedProductsPass, NeutralConstantsPass, ScalarFusionsPass)

    @property
    def can_run(self) -> bool:
        """Whether `onnxruntime` can be imported: which of its builds is installed is the user's choice."""
        return importlib.util.find_spec("onnxruntime") is not None

    def load(self, model: ir.Model | Path) -> Session:
        """Open a session on a model, or on the file of one.

        Raises:
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        from jax2onnx_onnxruntime.runner import load

        with _explained():
            return load(model)

    def open(self, model: ir.Model, states: Sequence[StatePair], options: RuntimeOptions) -> StateKeeper:
        """Open a session on a model whose states stay in the runtime.

        Raises:
          OptionError: an option is impossible.
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        from jax2onnx_onnxruntime.keeper import OrtKeeper

        with _explained():
            return OrtKeeper(model, states, options)

    def times(self, model: ir.Model, feeds: Mapping[str, Array], runs: int) -> dict[str, float]:
        """The median of the seconds that nodes take in `runs` runs; those of a node with bodies include what is in them.

        Raises:
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        from jax2onnx_onnxruntime.profiling import node_times

        with _explained():
            return node_times(model, feeds, runs)

    def quantize(self, model: ir.Model, request: Quantization) -> ir.Model:
        """A copy of a model in fewer bits, by ONNX Runtime's own quantizers.

        Raises:
          OptionError: the request does not fit the model.
          TargetError: ONNX Runtime is not installed, or its quantizer fails.
        """
        from jax2onnx_onnxruntime.quantization.convert import quantize

        with _explained():
            return quantize(model, request, self)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raise TargetError where ONNX Runtime is missing or refuses a model."""
    from jax2onnx_onnxruntime._compat import refusals

    try:
        yield
    except ModuleNotFoundError as error:
        raise TargetError(str(error)) from error
    except refusals() as error:
        raise TargetError(f"ONNX Runtime cannot load the model: {error}") from error
