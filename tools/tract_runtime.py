"""Models in tract, a runtime in Rust, from the environment that has its wheel."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import tract
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.runtimes import LoadedModel

__all__ = ["load"]

_TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "bool"}


def load(model: bytes) -> LoadedModel:
    """A model that is prepared at its first run, for the shapes that it gets there; one for which the file has sizes needs no other."""
    names = [value.name for value in onnx.load_from_string(model).graph.input]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        inferred = tract.onnx().load(path)
    prepared: list[tract.Runnable] = []

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        arrays = [np.asarray(feeds[name], order="C") for name in names]
        if not prepared:
            for place, array in enumerate(arrays):
                inferred.set_input_fact(place, ",".join([*map(str, array.shape), _type(array)]))
            prepared.append(inferred.into_model().into_runnable())
        return [output.to_numpy() for output in prepared[0].run(arrays)]

    return run


def _type(array: Array) -> str:
    """tract's name of an element type: i32 for int32."""
    name = array.dtype.name
    return _TYPES.get(name) or name.replace("uint", "u").replace("int", "i")
