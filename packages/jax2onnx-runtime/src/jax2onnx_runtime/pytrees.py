"""Pytrees without JAX: the containers of arguments and results, with the number of an array at each leaf."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jax2onnx_graph.errors import RuntimeInputError

__all__ = ["Foreign", "Numbered", "PyTree", "Record", "Template", "build", "consists_of", "leaves", "without"]

#: Nested containers of arrays: arguments or results of a call, or one of their leaves.
PyTree: TypeAlias = Any

#: What is at the leaves of pytrees, by the numbers of these.
Numbered: TypeAlias = Mapping[int, Any] | Sequence[Any]

_PLAIN = (tuple, list, dict)
_CONTAINERS = (*_PLAIN, type(None))


@dataclasses.dataclass(frozen=True)
class Foreign:
    """A container that a class registered with JAX, which alone can open and close it.

    Attributes:
      kind: the name of the class.
    """

    kind: str


@dataclasses.dataclass(frozen=True)
class Record:
    """A named tuple. Its class is imported when a result is made, and not before.

    Attributes:
      module: the module of the class.
      kind: its qualified name there.
      fields: the names of the fields, with what is in them.
    """

    module: str
    kind: str
    fields: Mapping[str, Template]

    def made(self, values: Sequence[object]) -> object:
        """The named tuple of these values. Raises RuntimeInputError where its class has other fields now."""
        found: PyTree = importlib.import_module(self.module)
        for part in self.kind.split("."):
            found = vars(found)[part]
        if not self.is_class(found):
            raise RuntimeInputError(
                f"The program was exported with a {self.kind} of the fields {', '.join(self.fields)}, and that of {self.module} has others here."
            )
        return found(*values)

    def is_class(self, kind: type) -> bool:
        """Whether a class has the name and the fields, in their order; it may be in another module here."""
        fields: Sequence[str] = next((vars(cls)["_fields"] for cls in kind.__mro__ if "_fields" in vars(cls)), ())
        return kind.__qualname__ == self.kind and [*fields] == [*self.fields]


#: The number of a leaf; None; a tuple, list or dict of templates; a `Record`; a `Foreign` container.
Template: TypeAlias = "int | tuple[Template, ...] | list[Template] | dict[PyTree, Template] | Record | Foreign | None"


def leaves(template: Template, value: object, place: str) -> Iterator[tuple[int, PyTree]]:
    """The numbers of the leaves of a template, with what is in their places in a value.

    Args:
      template: the containers that the value should have.
      value: the arguments of a call.
      place: what messages call them: "args".

    Raises:
      RuntimeInputError: the value has other containers, keys or lengths; the place is named.
    """
    if isinstance(template, int):
        if isinstance(value, _CONTAINERS):
            raise _difference(place, value, "an array")
        yield template, value
        return
    if isinstance(template, Foreign):
        raise RuntimeInputError(
            f"{place} is a {template.kind}, a container that JAX alone opens, and this program runs without JAX. "
            "program.run({name: array, …}) takes and returns arrays by the names of inputs and outputs."
        )
    if template is None:
        if value is not None:
            raise _difference(place, value, "None")
        return
    for key, child in _children(template):
        yield from leaves(child, _opened(template, value, place)[key], f"{place}[{key!r}]")


def build(template: Template, arrays: Numbered) -> PyTree:
    """The value of these containers with an array at each leaf.

    Raises:
      RuntimeInputError: JAX alone can make one of the containers.
    """
    match template:
        case None:
            return None
        case int():
            return arrays[template]
        case Record():
            return template.made([build(child, arrays) for child in template.fields.values()])
        case Foreign():
            raise RuntimeInputError(
                f"The result has a {template.kind}, a container that JAX alone makes, and this program runs without JAX. "
                "program.run({name: array, …}) returns arrays by the names of outputs."
            )
        case dict():
            return {key: build(child, arrays) for key, child in template.items()}
    return type(template)(build(child, arrays) for child in template)


def without(template: Template, left_out: Collection[int]) -> Template:
    """The containers without some leaves: an entry of a dict that consists of them goes, elsewhere None takes their place."""
    match template:
        case int():
            return None if template in left_out else template
        case dict():
            kept = {key: child for key, child in template.items() if not consists_of(child, left_out)}
            return {key: without(child, left_out) for key, child in kept.items()}
        case Record():
            return dataclasses.replace(
                template, fields={name: without(child, left_out) for name, child in template.fields.items()}
            )
        case tuple() | list():
            return type(template)(without(child, left_out) for child in template)
    return template


def consists_of(template: Template, numbers: Collection[int]) -> bool:
    """Whether a template has leaves, and these are all among `numbers`."""
    found = list(_numbers(template))
    return bool(found) and all(number in numbers for number in found)


def _numbers(template: Template) -> Iterator[int | None]:
    """The numbers of the leaves; None for what is in a container that only JAX opens."""
    if isinstance(template, int):
        yield template
    elif isinstance(template, Foreign):
        yield None
    else:
        for _, child in _children(template):
            yield from _numbers(child)


def _children(template: Template) -> list[tuple[PyTree, Template]]:
    if isinstance(template, dict):
        return list(template.items())
    if isinstance(template, Record):
        return list(template.fields.items())
    return list(enumerate(template)) if isinstance(template, (tuple, list)) else []


def _opened(template: Template, value: object, place: str) -> Mapping[PyTree, object]:
    """The items of a container, by the keys of the template."""
    wanted = [key for key, _ in _children(template)]
    if isinstance(template, Record):
        if not isinstance(value, tuple) or not template.is_class(type(value)):
            raise _difference(place, value, f"a {template.kind} of {', '.join(template.fields)}")
        return dict(zip(wanted, value, strict=True))
    if type(value) is not type(template) or not isinstance(value, _PLAIN):
        raise _difference(place, value, f"a {type(template).__name__}")
    found = value if isinstance(value, dict) else dict(enumerate(value))
    if found.keys() != set(wanted):
        missing, unknown = ([repr(k) for k in a if k not in b] for a, b in ((wanted, found), (found, wanted)))
        parts = [f"{what} {', '.join(keys[:3])}" for what, keys in (("missing", missing), ("unknown", unknown)) if keys]
        raise RuntimeInputError(f"The arguments are not those that the program was exported for: {place} has other keys: {'; '.join(parts)}.")  # fmt: skip
    return found


def _difference(place: str, value: object, wanted: str) -> RuntimeInputError:
    kind = "None" if value is None else f"a {type(value).__name__}"
    return RuntimeInputError(
        f"The arguments are not those that the program was exported for: {place} is {kind}, but it should be {wanted}."
    )
