"""`Link`: an output of one program that is an input of another, and the steps of programs that are linked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.metadata import read_states

from jax2onnx_runtime.call_interface import CallSteps, TemplateForm
from jax2onnx_runtime.program import Program
from jax2onnx_runtime.pytrees import PyTree
from jax2onnx_runtime.sizes import Sizes

__all__ = ["Link", "LinkedSteps", "check_common_states", "read_by", "read_links", "written_links"]

_FORM = "links map outputs to inputs of other programs, {'encode.memory': 'decode.memory'}"


@dataclasses.dataclass(frozen=True)
class Link:
    """An output of one program that is an input, perhaps a state, of another.

    Attributes:
      source: the program that computes it.
      output: the output.
      target: the program that takes it.
      input: the input.
    """

    source: str
    output: str
    target: str
    input: str

    def __str__(self) -> str:
        return f"{self.source}.{self.output} -> {self.target}.{self.input}"


def read_links(given: object, programs: Mapping[str, Program]) -> list[Link]:
    """The links that the user gave: "program.output" → "program.input", or several inputs.

    Raises:
      OptionError: there is no such output or input, an input has two links, or the types differ.
    """
    if not isinstance(given, Mapping):
        raise OptionError(f"{_FORM}; {given!r:.80} does not.")
    links: list[Link] = []
    outputs = {name: _outputs(program) for name, program in programs.items()}
    known = {name: _inputs(program) for name, program in programs.items()}
    for output, inputs in given.items():
        source, result = _place(output, outputs, "output")
        for one in inputs if isinstance(inputs, Iterable) and not isinstance(inputs, str) else [inputs]:
            target, name = _place(one, known, "input")
            links.append(Link(source, result, target, name))
    for link in links:
        _check(link, programs)
    targets = [(link.target, link.input) for link in links]
    if twice := next((f"{program}.{name}" for program, name in targets if targets.count((program, name)) > 1), None):
        raise OptionError(f"links: the input {twice!r} is linked to several outputs; it can be one.")
    return links


def written_links(links: Iterable[Link]) -> dict[str, list[str]]:
    """The links as the user gives them: "program.output" → "program.input" of all that take it."""
    found: dict[str, list[str]] = {}
    for link in links:
        found.setdefault(f"{link.source}.{link.output}", []).append(f"{link.target}.{link.input}")
    return found


def _place(text: object, values: Mapping[str, Mapping[str, ir.Value]], what: str) -> tuple[str, str]:
    """The program and the name of an input or output that is written "program.name"."""
    if not isinstance(text, str):
        raise OptionError(f"{_FORM}; {text!r:.80} is no {what}.")
    found = [name for name in values if text.startswith(f"{name}.") and text.removeprefix(f"{name}.") in values[name]]
    if not found:
        known = ", ".join(f"{program}.{name}" for program, own in values.items() for name in own)
        raise OptionError(f"links: there is no {what} {text!r}; there are {known}.")
    if len(found) > 1:
        raise OptionError(
            f"links: {text!r} is an {what} of several programs, {', '.join(found)}, of which one has the name of another before a point: "
            "name one of them otherwise."
        )
    return found[0], text.removeprefix(f"{found[0]}.")


def _inputs(program: Program) -> dict[str, ir.Value]:
    return {str(value.name): value for value in program.model.graph.inputs}


def _outputs(program: Program) -> dict[str, ir.Value]:
    return {str(value.name): value for value in program.model.graph.outputs}


def _check(link: Link, programs: Mapping[str, Program]) -> None:
    source, target = programs[link.source], programs[link.target]
    if link.source == link.target:
        raise OptionError(f"links: {link} is within one program; to_onnx(..., states=…) says what comes back to it.")
    if link.output in {pair.output for pair in read_states(source.model)}:
        raise OptionError(
            f"links: {link.output!r} of {link.source} is a state of it. Programs share the states that have the same names."
        )
    before, after = _outputs(source)[link.output], _inputs(target)[link.input]
    if (reason := _difference(before, after)) is not None:
        raise OptionError(f"links: {link} does not fit, {type_text(before)} and {type_text(after)}: {reason}.")


def _difference(one: ir.Value, other: ir.Value) -> str | None:
    """Reason that two values cannot be the same array; None if they can."""
    if one.dtype != other.dtype:
        return "the element types differ"
    if one.shape is None or other.shape is None:
        return None
    if len(one.shape) != len(other.shape):
        return "the ranks differ"
    for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)):
        if isinstance(a, int) and isinstance(b, int) and a != b:
            return f"axis {axis} has {a} entries or {b}"
    return None


def read_by(name: str, programs: Mapping[str, Program], links: Sequence[Link]) -> list[str]:
    """The inputs of a program that are states of others, which it reads: those with the names of these and without a link."""
    own = {pair.input for pair in read_states(programs[name].model)}
    apart = own | {link.input for link in links if link.target == name}
    states = {pair.input for program in programs.values() for pair in read_states(program.model)}
    return [given for given in _inputs(programs[name]) if given in states - apart]


def check_common_states(programs: Mapping[str, Program], links: Sequence[Link]) -> None:
    """Raise OptionError where two programs have states of one name that cannot be one state."""
    known: dict[str, tuple[str, ir.Value, bool]] = {}
    for name, program in programs.items():
        inputs = _inputs(program)
        for pair in read_states(program.model):
            value, grows = inputs[pair.input], pair.grows is not None
            other, first, other_grows = known.setdefault(pair.input, (name, value, grows))
            reason = _difference(first, value) or ("it grows in one only" if grows != other_grows else None)
            if reason is not None:
                raise OptionError(
                    f"The state {pair.input!r} of {other} and of {name} is one state of the bundle, but it is {type_text(first)} and "
                    f"{type_text(value)}: {reason}. Export the programs with the same state, or name one of them otherwise "
                    "(input_names of to_onnx)."
                )
    for name, program in programs.items():
        for given in read_by(name, programs, links):
            other, first, _ = known[given]
            if (reason := _difference(first, _inputs(program)[given])) is not None:
                raise OptionError(
                    f"The input {given!r} of {name} has the name of a state of {other}, which it would read, but it is "
                    f"{type_text(_inputs(program)[given])} and not {type_text(first)}: {reason}. Name one of them otherwise "
                    "(input_names of to_onnx), or link it."
                )


class LinkedSteps:
    """The steps of a program whose linked inputs come from other programs, as a `StepInterface`.

    Args:
      name: that of the program.
      program: the program.
      links: those to its inputs that are no states.
      reads: its inputs that are states of other programs.
      shape: the shape of a state now.
      arrays: the arrays that came over links, by the program and the input.
      deliver: is called with the outputs of each step, by name.
    """

    def __init__(
        self, name: str, program: Program, links: Sequence[Link], reads: Sequence[str], shape: Callable[[str], tuple[int, ...]],
        arrays: Mapping[tuple[str, str], Array], deliver: Callable[[str, Mapping[str, Array]], None],
    ) -> None:  # fmt: skip
        self._name, self._links, self._arrays, self._deliver = name, links, arrays, deliver
        self._reads, self._shape = reads, shape
        interface, linked = program.interface, {link.input for link in links} | {*reads}
        assert isinstance(interface.step, TemplateForm), "programs of a bundle are without their functions"
        form = interface.step.without({i for i, leaf in enumerate(interface.inputs) if leaf.name in linked})
        self._steps = CallSteps(interface, interface.sizes_in(program.model), form)
        self._outputs = [interface.outputs[number].name for number in form.outputs]

    def feeds(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], states: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, Array], Sizes]:
        """The inputs that are no states, those that are linked among them, and the sizes of the symbols."""
        linked = {link.input: self._linked(link) for link in self._links}
        shapes = {name: tuple(array.shape) for name, array in linked.items()}
        shapes |= {name: self._shape(name) for name in self._reads}
        arrays, sizes = self._steps.feeds(args, kwargs, {**states, **shapes})
        return {**arrays, **linked}, sizes

    def _linked(self, link: Link) -> Array:
        if (link.target, link.input) not in self._arrays:
            raise RuntimeInputError(
                f"{self._name} takes {link.input!r} from {link.source}, which has not run yet: session.step({link.source!r}, …)."
            )
        return self._arrays[link.target, link.input]

    def result(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function without the states."""
        self._deliver(self._name, dict(zip(self._outputs, outputs, strict=True)))
        return self._steps.result(outputs)
