"""`build_script`: a Python program that builds engines with TensorRT's API, where TensorRT is."""

from __future__ import annotations

import importlib.resources
import pprint
from collections.abc import Mapping

from jax2onnx_tensorrt.profiles import EngineProfiles

__all__ = ["build_script"]

_TAIL = """

# Whether TensorRT, up to version 10, may compute in float16.
FP16 = {fp16}

# Model -> optimisation profile, in the order of their numbers -> input -> its least, usual and largest shape.
ENGINES: dict[str, dict[str, Shapes]] = {engines}


if __name__ == "__main__":
    folder = Path(__file__).parent
    try:
        for name, profiles in ENGINES.items():
            engine = build(tensorrt(), folder / f"{{name}}.onnx", profiles, fp16=FP16)
            (folder / f"{{name}}.engine").write_bytes(engine)
    except BuildError as error:
        raise SystemExit(f"No engine of {{name}}.onnx: {{error}}") from None
"""


def build_script(engines: Mapping[str, EngineProfiles], *, fp16: bool = False) -> str:
    """The text of a Python program that builds an engine of each model in its folder, `NAME.engine` of `NAME.onnx`.

    It is the module `jax2onnx_tensorrt.building` with the engines below it, and needs Python and TensorRT from version 8.6 on, or
    TensorRT for RTX, and nothing else.

    Args:
      engines: the names of the models, without suffix → the profiles of their engines.
      fp16: whether TensorRT may compute in float16; up to version 10.
    """
    shapes = {
        name: {profile: dict(found.shapes) for profile, found in profiles.shapes.items()}
        for name, profiles in engines.items()
    }
    module = importlib.resources.files("jax2onnx_tensorrt").joinpath("building.py").read_text(encoding="utf-8")
    return module + _TAIL.format(fp16=fp16, engines=pprint.pformat(shapes, width=120, sort_dicts=False))
