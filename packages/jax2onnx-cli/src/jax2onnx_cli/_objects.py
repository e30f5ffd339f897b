"""Objects that a command line names: `module:object`, `file.py:object`, and functions that build a model."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType

from jax2onnx_cli._terminal import BadInput

__all__ = ["Subject", "load_object", "load_subject"]

_FORM = "write module:object or file.py:object, such as digits.py:build"


@dataclasses.dataclass(frozen=True)
class Subject:
    """The object of an export, as the command line names it.

    Attributes:
      value: a function or a model.
      inputs: its inputs as `to_onnx` takes them, where the function that built it returned them.
      name: the last part of its name.
    """

    value: object
    inputs: Sequence[object] | None
    name: str

    def parameters(self) -> Sequence[inspect.Parameter]:
        """The parameters of the function or model; none where nothing says what they are."""
        try:
            return [*inspect.signature(self.value).parameters.values()] if callable(self.value) else []
        except (TypeError, ValueError):  # some callables have no signature
            return []


def load_subject(text: str) -> Subject:
    """The function or model that a text names.

    A function that can be called without arguments builds it, and returns the model, or the model and a list of its inputs.
    """
    value, name = load_object(text), text.rpartition(":")[2].rpartition(".")[2]
    inputs: Sequence[object] | None = None
    if inspect.isfunction(value) and _takes_nothing(value):
        value = value()
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], list):
            value, inputs = value
    if inspect.isclass(value):
        raise BadInput(
            f"{text} is the class {value.__qualname__}, not a model: write a function without parameters that "
            "returns an object of it, and name the function here."
        )
    if isinstance(value, ModuleType):
        raise BadInput(f"{text} is a module, not a function or a model: {_FORM}.")
    return Subject(value, inputs, name)


def _takes_nothing(function: FunctionType) -> bool:
    """Whether a function can be called without arguments, and not with any number of them."""
    parameters = inspect.signature(function).parameters.values()
    return all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in parameters)


def load_object(text: str) -> object:
    """The object that a text names; modules in the current directory are found."""
    home, separator, path = text.rpartition(":")
    if not separator or not home or not path:
        raise BadInput(f"{text!r} names no object: {_FORM}.")
    module = _load_file(Path(home)) if home.endswith(".py") else _load_module(home)
    found: object = module
    for name in path.split("."):
        found = _member(home, found, name)
    return found


def _member(home: str, owner: object, name: str) -> object:
    try:
        return getattr(owner, name)
    except AttributeError:
        known = [known for known in vars(owner) if not known.startswith("_")] if isinstance(owner, ModuleType) else []
        close = difflib.get_close_matches(name, known, n=1)
        where = home if isinstance(owner, ModuleType) else f"the {type(owner).__name__} in {home}"
        raise BadInput(f"{where} has no {name!r}" + (f"; did you mean {close[0]!r}?" if close else ".")) from None


def _load_file(file: Path) -> ModuleType:
    """The module in a file, which finds its neighbours as a script does."""
    if not file.is_file():
        raise BadInput(f"There is no file {file}.")
    _find_modules_in(file.resolve().parent)
    # A module that is imported already, such as one of Python's, is not replaced by a file of the same name.
    name = file.stem if file.stem not in sys.modules else f"jax2onnx_file_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _importing(str(file)):
        spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> ModuleType:
    _find_modules_in(Path.cwd())
    with _importing(name):
        return importlib.import_module(name)


@contextlib.contextmanager
def _importing(home: str) -> Iterator[None]:
    """Turn errors of an import that are not the fault of the module's own lines into BadInput with an explanation."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and f"{home}.".startswith(f"{error.name}."):
            raise BadInput(
                f"There is no module {home!r}, neither installed nor in the current directory; {_FORM}."
            ) from None
        raise BadInput(
            f"{home} imports {error.name!r}, which is not installed in the Python of this command, {sys.executable}."
        ) from error
    except SystemExit as error:
        raise BadInput(
            f"{home} ends the program while it is imported; put what it runs under `if __name__ == '__main__':`."
        ) from error


def _find_modules_in(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
