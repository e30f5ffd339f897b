"""Build engines by TensorRT's Python API, of TensorRT or of TensorRT for RTX: no GPU is needed to build by the second.

`build_engine.py` in a folder for TensorRT is this module with the engines of the folder below it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

__all__ = ["MODULES", "BuildError", "build", "tensorrt"]

#: Input -> its least, usual and largest shape; of a scalar or vector that decides sizes, such numbers.
Shapes = Mapping[str, Sequence[Sequence[int]]]

#: The modules that have the API, the first that is installed is used.
MODULES = ("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings")


class BuildError(RuntimeError):
    """TensorRT is missing, or does not build an engine."""


def tensorrt() -> ModuleType:
    """The Python module of TensorRT.

    Raises:
      BuildError: it is not installed.
    """
    for name in MODULES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise BuildError(
        "TensorRT is not installed here. `pip install tensorrt` installs it, and "
        "`pip install tensorrt-rtx-cu13-libs tensorrt-rtx-cu13-bindings` TensorRT for RTX, whose builder needs no GPU."
    )


def build(trt: ModuleType, model: Path | bytes, profiles: Mapping[str, Shapes], *, fp16: bool = False) -> bytes:
    """The serialised engine of a model.

    Args:
      trt: the module `tensorrt()`.
      model: the ONNX file, or its bytes.
      profiles: the optimisation profiles, in the order of their numbers. An input that decides sizes or positions, such as the start
        of a slice, may be any number of int32 where a profile does not name it.
      fp16: whether TensorRT may compute in float16; up to version 10.

    Raises:
      BuildError: it does not parse the model, or does not build the engine.
    """
    errors: list[str] = []
    logger = error_log(trt, errors)
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(trt))
    parser = trt.OnnxParser(network, logger)
    if not (parser.parse(model) if isinstance(model, bytes) else parser.parse_from_file(str(model))):
        found = [str(parser.get_error(i)) for i in range(parser.num_errors)]
        raise BuildError("\n".join(["TensorRT does not parse the model:", *errors, *found]))
    config = builder.create_builder_config()
    if fp16:
        if "FP16" not in trt.BuilderFlag.__members__:
            raise BuildError("This TensorRT computes in the model's own types: export a model in float16 instead.")
        config.set_flag(trt.BuilderFlag.FP16)
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    numbers = {tensor.name: number_range(tensor.shape) for tensor in inputs if tensor.is_shape_tensor}
    for shapes in profiles.values() or ([{}] if numbers else []):
        profile = builder.create_optimization_profile()
        for name, (least, usual, largest) in {**numbers, **shapes}.items():
            set_range = profile.set_shape_input if name in numbers else profile.set_shape
            set_range(name, least, usual, largest)
        config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise BuildError("\n".join(["TensorRT does not build the engine:", *errors]))
    return bytes(engine)


def number_range(shape: Sequence[int]) -> Sequence[Sequence[int]]:
    """The least, the usual and the largest numbers of an input of some shape that may be any of int32."""
    return [[number] * math.prod(shape) for number in (-(2**31), 0, 2**31 - 1)]


def error_log(trt: ModuleType, errors: list[str]) -> object:
    """A logger that keeps errors."""

    class Logger(trt.ILogger):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: int, message: str) -> None:
            if int(severity) <= int(trt.ILogger.Severity.ERROR):
                errors.append(message)

    return Logger()


def network_flags(trt: ModuleType) -> int:
    """Flags of a network; up to version 9 explicit batch dimensions are one of them."""
    flag = trt.NetworkDefinitionCreationFlag.__members__.get("EXPLICIT_BATCH")
    return 0 if flag is None else 1 << int(flag)
