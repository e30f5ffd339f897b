"""The file `bundle.json` of a folder of programs: which they are, how they are called, and what is linked."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.metadata import read_assumptions
from jax2onnx_graph.targets import Target, split_name

from jax2onnx_runtime.array_files import restored, write_arrays
from jax2onnx_runtime.call_interface import CallForm, CallInterface, LeafType, TemplateForm
from jax2onnx_runtime.pytrees import Foreign, Record, Template
from jax2onnx_runtime.runtimes import Runtime

__all__ = ["ARRAYS", "MANIFEST", "Json", "SavedProgram", "described", "files_of", "interface_of", "made", "target_of"]

#: The names of the two files beside the models.
MANIFEST = "bundle.json"
ARRAYS = "states.npz"

_FORMAT = 1

#: What a JSON file holds.
Json = Any

T = TypeVar("T", Runtime, Target)


class SavedProgram(Protocol):
    """A program, as far as the file tells of it."""

    @property
    def interface(self) -> CallInterface: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def target(self) -> Target: ...


def files_of(programs: Mapping[str, SavedProgram], links: Sequence[Mapping[str, str]]) -> dict[str, bytes]:
    """The files that describe a bundle, name → content; that with the values of states only where there are some."""
    runtime = type(next(iter(programs.values())).runtime)
    manifest = {
        "format": _FORMAT,
        "runtime": f"{runtime.__module__}:{runtime.__qualname__}",
        "links": [*map(dict, links)],
        "programs": {name: _program(name, program) for name, program in programs.items()},
    }
    held = {
        f"{name}/{state}": _row(array)
        for name, program in programs.items() for state, array in program.interface.held_states().items()
    }  # fmt: skip
    files = {}
    if held:
        stream = io.BytesIO()
        write_arrays(stream, held)
        files[ARRAYS] = stream.getvalue()
    return {**files, MANIFEST: json.dumps(manifest, indent=1).encode()}


def _program(name: str, program: SavedProgram) -> Json:
    interface = program.interface
    return {
        "file": f"{name}.onnx",
        "target": {"maker": program.target.maker, "version": split_name(program.target.name)[1]},
        "inputs": [_leaf(leaf) for leaf in interface.inputs],
        "arguments": _form(interface.call)["arguments"],
        "outputs": [_leaf(leaf) for leaf in interface.outputs],
        "result": _form(interface.call)["result"],
        "step": _form(interface.step),
        "states": {state: list(array.shape) for state, array in interface.held_states().items()},
        "x64": interface.x64,
    }  # fmt: skip


def _form(form: CallForm) -> dict[str, Json]:
    assert isinstance(form, TemplateForm), "the interface is one without JAX"
    return {
        "arguments": [*map(_template, form.given)], "result": _template(form.returned), "outputs": list(form.outputs),
    }  # fmt: skip


def _row(array: Array) -> Array:
    """The array, or one element of it if all are the same bits, as in a cache that nothing has written to."""
    bits = array.view(f"u{array.itemsize}") if array.dtype != bool else array
    return array.reshape(-1)[:1] if array.size and (bits == bits.reshape(-1)[0]).all() else array


def _leaf(leaf: LeafType) -> Json:
    element_type = None if leaf.element_type is None else leaf.element_type.name
    return {
        "name": leaf.name, "dtype": leaf.dtype.name, "perm": None if leaf.perm is None else list(leaf.perm),
        "element_type": element_type,
    }  # fmt: skip


def _template(template: Template) -> Json:
    """Containers as JSON; a dict whose keys JSON does not have becomes a container that is opened elsewhere."""
    match template:
        case int() | None:
            return template
        case Foreign():
            return {"foreign": template.kind}
        case Record():
            fields = {name: _template(child) for name, child in template.fields.items()}
            return {"record": [template.module, template.kind], "fields": fields}
        case dict():
            if not all(isinstance(key, (str, int, float, bool)) for key in template):
                return {"foreign": "dict whose keys are neither texts nor numbers"}
            return {"dict": [[key, _template(child)] for key, child in template.items()]}
    return {type(template).__name__: [_template(child) for child in template]}


# -- reading ----------------------------------------------------------------------------------


def described(text: str) -> tuple[dict[str, Json], list[dict[str, str]], str]:
    """The entries of the programs by their names, the links, and the runtime, of the text of a manifest.

    Raises `ValueError`, `KeyError` or `TypeError` where it is none.
    """
    manifest = json.loads(text)
    if manifest["format"] != _FORMAT:
        raise ValueError(f"its format is {manifest['format']}, of a later version")
    return dict(manifest["programs"]), list(manifest["links"]), manifest["runtime"]


def interface_of(entry: Json, model: ir.Model, held: Callable[[str], Array]) -> CallInterface:
    """Read the call interface of a program, by which its arguments become inputs and outputs its result.

    Args:
      entry: that of the program in the manifest.
      model: its model.
      held: reads the array of a state that is stored beside the models.
    """
    dtypes = {value.name: value.dtype.numpy() for value in model.graph.inputs if value.dtype is not None}
    outputs = range(len(entry["outputs"]))
    return CallInterface(
        [_leaf_type(leaf) for leaf in entry["inputs"]], [_leaf_type(leaf) for leaf in entry["outputs"]],
        _form_of({**entry, "outputs": [*outputs]}), _form_of(entry["step"]),
        {name: _filled(held(name), dtypes[name], shape) for name, shape in entry["states"].items()}, entry["x64"],
    )  # fmt: skip


def _form_of(entry: Json) -> TemplateForm:
    return TemplateForm(_arguments(entry["arguments"]), _containers(entry["result"]), entry["outputs"])


def _filled(array: Array, dtype: Dtype, shape: Sequence[int]) -> Array:
    found = restored(array, dtype)
    return found if found.shape == tuple(shape) else np.broadcast_to(found.reshape(()), tuple(shape))


def _leaf_type(entry: Json) -> LeafType:
    perm, element_type = entry["perm"], entry["element_type"]
    return LeafType(
        entry["name"], np.dtype(entry["dtype"]), None if perm is None else tuple(perm),
        None if element_type is None else np.dtype(element_type),
    )  # fmt: skip


def _arguments(entry: Json) -> tuple[Template, Template]:
    args, kwargs = map(_containers, entry)
    return args, kwargs


def _containers(entry: Json) -> Template:
    if entry is None or isinstance(entry, int):
        return entry
    if "foreign" in entry:
        return Foreign(entry["foreign"])
    if "record" in entry:
        module, kind = entry["record"]
        return Record(module, kind, {name: _containers(child) for name, child in entry["fields"].items()})
    if "dict" in entry:
        return {key: _containers(child) for key, child in entry["dict"]}
    ((kind, children),) = entry.items()
    return {"tuple": tuple, "list": list}[kind](map(_containers, children))


def target_of(entry: Json, model: ir.Model) -> Target:
    """The target that a program was made for, in its version and under its assumptions."""
    target = made(entry["maker"], Target)
    versioned = target.of_version(entry["version"]) if entry["version"] else target
    return versioned.assuming(map(Assumption, read_assumptions(model)))


def made(maker: str, kind: type[T]) -> T:
    """The runtime or target that a class "module:Class" makes.

    Raises:
      ReadError: there is no such class here, or it is of another kind.
    """
    module, _, name = maker.partition(":")
    try:
        found = vars(importlib.import_module(module))[name]
    except (ImportError, KeyError, ValueError) as error:
        raise ReadError(
            f"The bundle needs {maker}, which is not here ({error}). Install the distribution of {module.partition('.')[0]}, or give "
            "load_bundle a runtime."
        ) from error
    if not isinstance(found, type) or not issubclass(found, kind):
        raise ReadError(f"The bundle says {maker}, which is no {kind.__name__}.")
    return found()
