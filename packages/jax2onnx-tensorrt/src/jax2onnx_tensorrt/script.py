"""`build_script`: a Python program that builds engines with TensorRT's API, where TensorRT is."""

from __future__ import annotations

import pprint
from collections.abc import Mapping

from jax2onnx_tensorrt.profiles import EngineProfiles

__all__ = ["build_script"]

_TEMPLATE = '''"""Build the TensorRT engines of the models beside this file: python build_engine.py. Written by jax2onnx-tensorrt."""

from pathlib import Path

import tensorrt as trt

FOLDER = Path(__file__).parent
LOGGER = trt.Logger(trt.Logger.WARNING)
MAJOR = int(trt.__version__.split(".")[0])
FP16 = {fp16}

# Model -> optimisation profile, in the order of their numbers -> input -> its least, usual and largest shape.
ENGINES = {engines}


def build(name, profiles):
    builder = trt.Builder(LOGGER)
    # From version 10 on all networks have explicit batch dimensions.
    flags = 0 if MAJOR >= 10 else 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    network = builder.create_network(flags)
    parser = trt.OnnxParser(network, LOGGER)
    if not parser.parse_from_file(str(FOLDER / f"{{name}}.onnx")):
        raise SystemExit("\\n".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    if FP16:
        if MAJOR >= 11:
            raise SystemExit("TensorRT 11 computes in the model's own types: export a model in float16 instead.")
        config.set_flag(trt.BuilderFlag.FP16)
    for shapes in profiles.values():
        profile = builder.create_optimization_profile()
        for input_name, (least, usual, largest) in shapes.items():
            profile.set_shape(input_name, least, usual, largest)
        config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise SystemExit(f"TensorRT could not build the engine of {{name}}.onnx.")
    (FOLDER / f"{{name}}.engine").write_bytes(engine)


if __name__ == "__main__":
    for name, profiles in ENGINES.items():
        build(name, profiles)
'''


def build_script(engines: Mapping[str, EngineProfiles], *, fp16: bool = False) -> str:
    """The text of a Python program that builds an engine of each model in its folder, `NAME.engine` of `NAME.onnx`.

    It needs Python and TensorRT from version 8.6 on, nothing else.

    Args:
      engines: the names of the models, without suffix → the profiles of their engines.
      fp16: whether TensorRT may compute in float16; up to version 10.
    """
    shapes = {
        name: {profile: dict(found.shapes) for profile, found in profiles.shapes.items()}
        for name, profiles in engines.items()
    }
    return _TEMPLATE.format(fp16=fp16, engines=pprint.pformat(shapes, width=120, sort_dicts=False))
