"""Notes on errors of a trace: what they mean in an export, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

import jax

from jax2onnx_core._compat_dims import LESS_ONE
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.sizes import advice_on_sizes
from jax2onnx_core.symbols._extremes import deciding_constraints
from jax2onnx_core.symbols._inconclusive_dims import place_of
from jax2onnx_core.symbols._multiples import multiples_that_agree
from jax2onnx_core.symbols.symbols import without_traced_symbols

__all__ = ["advise"]

# Errors of code that wants the numbers in an array, the special ones first, and what to write instead.
_NEEDS_VALUE = {
    jax.errors.TracerBoolConversionError: "An array has no numbers while a function is traced, so Python's if, while, and, or, not "
    "cannot look at them. jax.numpy.where chooses between results, jax.lax.cond and jax.lax.while_loop between computations.",
    jax.errors.TracerArrayConversionError: "NumPy computes with numbers, which an array does not have while a function is traced. "
    "Write jax.numpy in the place of numpy there.",
    jax.errors.TracerIntegerConversionError: "An array has no numbers while a function is traced, so range() and lists of Python "
    "cannot take them. jax.lax.fori_loop counts to such a number, and an array of jax.numpy can be indexed by it.",
    jax.errors.ConcretizationTypeError: "An array has no numbers while a function is traced, so int() and float() cannot take "
    "them. Leave it an array, x.astype(...), or take a number that is known from outside.",
}

# JAX says so of a value that it computed from no input: of sizes or of constants.
_FROM_NO_INPUT = "This value became a tracer due to JAX operations"

# Parts of errors about inputs that were meant otherwise, and what to write instead.
_MISTAKEN_INPUTS = dict.fromkeys(
    ("got <class 'tuple'>", "got <class 'dict'>", "got <class 'list'>"),
    "An input is a container of arrays where the function takes one array. The shape of an array is a tuple of whole numbers and names.",
) | dict.fromkeys(
    ("must be an integer", "must be integers", "must have integer or boolean type", "must have an integer type"),
    "Inputs are of floating point unless their dtype is given: (('B', 'T'), 'int32').",
) | {
    "Non-hashable static arguments": "A static argument is no input of the model: bind it, functools.partial(fn, n=3).",
}  # fmt: skip

_MAY_BE_EMPTY = (
    "Sizes that may be 0 leave open how they compare to others: leave out what allows it, {}, if no input is empty."
)
_TRACED = re.compile(rf"(\w+){LESS_ONE}")

# Parts of errors about sizes in arrays of NumPy, which are arrays of Python's objects then.
_IN_NUMPY = re.compile("interpreting argument .*'numpy.ndarray'|scalar arrays can be converted")

_MEETING = re.compile("broadcasting|same shape|incompatible")
_REMAINDER = re.compile(r"not result in an equal division: rest is (.+)")
_DIVISION = re.compile(r"but (\d+) does not evenly divide (.+)")
_WORD = re.compile(r"[A-Za-z_]\w*")


def advise(error: Exception, inputs: Inputs, place: str) -> None:
    """Add notes to an error of a trace.

    Args:
      error: the error.
      inputs: the inputs of the function.
      place: where an error arose that is in no line of the user.
    """
    line = place_of(error, place)
    notes = [
        *_on_weights(error), *_on_sizes(error, inputs, line), *_on_inputs(error, inputs, line), *_on_values(error, inputs, line),
        *_on_mesh(error, inputs),
    ]  # fmt: skip
    text = str(error.args[0]) if error.args else ""
    shown = without_traced_symbols(text)
    if shown != text:
        error.args = (shown, *error.args[1:])
        from_data = {size.name for size in inputs.symbols.from_data.values()}
        allowing = [f"'{name} >= 0'" for name in dict.fromkeys(_TRACED.findall(text)) if name not in from_data]
        notes += [_MAY_BE_EMPTY.format(" and ".join(allowing))] if allowing else []
    for note in notes:
        error.add_note(without_traced_symbols(note))


def _on_weights(error: Exception) -> Iterator[str]:
    if jax.ShapeDtypeStruct.__name__ in str(error):
        yield (
            "A weight that is a type only is given its place in models of frameworks, and in closures, globals, arguments of "
            "functools.partial, and pytrees of lists, tuples and dicts there. Hand it to the function in one of these ways."
        )


def _on_inputs(error: Exception, inputs: Inputs, line: str) -> Iterator[str]:
    if advice := next((text for part, text in _MISTAKEN_INPUTS.items() if part in str(error)), None):
        yield f"{advice} {_given(inputs)} It is at {line}"


def _on_values(error: Exception, inputs: Inputs, line: str) -> Iterator[str]:
    """The form to write in the place of code that wants the numbers in an array; how an argument becomes static."""
    advice = next((text for kind, text in _NEEDS_VALUE.items() if isinstance(error, kind)), None)
    if advice is not None:
        yield f"{advice} It is at {line}"
    symbols = inputs.symbols.names(dim for aval in inputs.avals for dim in aval.shape)
    if advice is not None and symbols and _FROM_NO_INPUT in str(error):
        yield (
            "What is computed from a symbolic size is such an array: numpy.arange, int() and if cannot take it, jax.numpy.arange can. "
            f"Or give a number for the symbol, specialize={{{symbols[0]!r}: …}}."
        )
    if inputs.symbols.known and _IN_NUMPY.search(str(error)):
        yield f"NumPy takes no symbolic size as a number. Write jax.numpy in the place of numpy there, jax.numpy.array(x.shape). It is at {line}"
    numbers = [name for name, aval in zip(inputs.names, inputs.avals, strict=True) if aval.weak_type]
    if numbers and isinstance(error, jax.errors.ConcretizationTypeError):
        yield (
            f"The inputs given as Python numbers ({', '.join(numbers)}) are inputs of the model. One that is to be fixed "
            f"in it is not listed, but bound: functools.partial(fn, {numbers[0]}=value)."
        )


def _on_sizes(error: Exception, inputs: Inputs, line: str) -> Iterator[str]:
    """How sizes that meet become equal, if the code combines shapes of which JAX does not know that they fit."""
    text = str(error).partition("\n")[0]
    if advice := advice_on_sizes(error, inputs.symbols):
        yield advice
        return
    if remainder := _REMAINDER.search(text):
        label, _ = inputs.symbols.shown(remainder[1])
        yield f"Say that the parts are equal: constraints=('{label} == 0',). It is at {line}"
    multiples = {} if LESS_ONE in text else multiples_that_agree(text)
    if multiples:
        yield (
            f"The two shapes agree where {' and '.join(multiples)} are multiples of a number: give the input's dimensions as "
            f"{', '.join(repr(text) for text in multiples.values())}, or as a larger multiple where later layers halve them again."
        )
    if constraints := deciding_constraints(text, inputs.symbols):
        yield (
            f"The sizes that meet at {line} may be equal where {' and '.join(constraints)}. Say so, if it is meant: "
            f"constraints=({', '.join(map(repr, constraints))},)."
        )
        return
    shown = without_traced_symbols(str(error))
    is_about_shapes = any(word in str(error) for word in ("shape", "broadcasting", "dimension size"))
    symbols = sorted(inputs.symbols.known.intersection(_WORD.findall(shown))) if is_about_shapes else []
    if len(symbols) > 1:
        yield (
            f"{' and '.join(symbols)} are symbols of different names, so their sizes may differ. Give dimensions that are always equal "
            "one name."
        )
    elif not symbols and is_about_shapes and not isinstance(error, tuple(_NEEDS_VALUE)):
        yield f"{_given(inputs)} It is at {line}"
    elif symbols and not multiples and _MEETING.search(text):
        yield (
            f"{symbols[0]} may have any size, so it fits no number: give the dimension of the input as a number if it always has that size. "
            f"It is at {line}"
        )


def _on_mesh(error: Exception, inputs: Inputs) -> Iterator[str]:
    """By which constraint a symbolic size is divided over devices, or how an input has the sharding that is wanted."""
    if "does not match the specs of the input" in str(error):
        yield (
            "The axes of the mesh are explicit, so shardings are part of the types of the inputs: give an example array that has one, "
            "or jax.ShapeDtypeStruct(shape, dtype, sharding=…). Or make the mesh with axis_types=(jax.sharding.AxisType.Auto, …)."
        )
    found = _DIVISION.search(str(error))
    if found is not None and not found[2].isdigit():
        label, _ = inputs.symbols.shown(found[2])
        yield (
            f"{label} elements are divided over {found[1]} devices. Say that they can be: "
            f"constraints=('mod({label}, {found[1]}) == 0',)."
        )


def _given(inputs: Inputs) -> str:
    """The names and types of the inputs, in a sentence."""
    given = ", ".join(
        f"{name} {aval.dtype}[{', '.join(map(inputs.symbols.label, aval.shape))}]"
        for name, aval in zip(inputs.names, inputs.avals, strict=True)
    )
    return f"The inputs are {given}."
