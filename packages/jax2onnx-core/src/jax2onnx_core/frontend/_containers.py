"""`Containers`: the user's lists, dicts and objects, which hold after a call the arrays that they held before it."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import jax

__all__ = ["Containers", "Slots", "attributes_of", "items_of"]


class Slots:
    """The attributes that an object holds in slots of its class, by name."""

    def __init__(self, holder: object) -> None:
        self._holder = holder

    def items(self) -> list[tuple[str, object]]:
        """The names and values of those that are there."""
        names = dict.fromkeys(name for cls in type(self._holder).__mro__ for name in _slots_of(cls))
        return [(name, object.__getattribute__(self._holder, name)) for name in names if self._has(name)]

    def _has(self, name: str) -> bool:
        try:
            object.__getattribute__(self._holder, name)
        except AttributeError:  # nothing was put there
            return False
        return True

    def __setitem__(self, name: str, value: object) -> None:
        object.__setattr__(self._holder, name, value)

    def __delitem__(self, name: str) -> None:
        object.__delattr__(self._holder, name)


def _slots_of(cls: type) -> list[str]:
    return [name for name, value in vars(cls).items() if isinstance(value, types.MemberDescriptorType)]


def _has_dict(value: object) -> bool:
    """Whether a class of an object has the attribute `__dict__`, which extensions may leave out."""
    descriptors = types.GetSetDescriptorType, types.MemberDescriptorType
    return any(isinstance(vars(cls).get("__dict__"), descriptors) for cls in type(value).__mro__)


def _has_slots(value: object) -> bool:
    """Whether a class of an object, written in Python, has slots."""
    return any("__slots__" in vars(cls) and _slots_of(cls) for cls in type(value).__mro__)


def attributes_of(value: object) -> list[dict[str, object] | Slots]:
    """The attributes that an object holds itself, whatever its class makes of `dir`: those of its dict, and those in slots."""
    return [*([vars(value)] if _has_dict(value) else []), *([Slots(value)] if _has_slots(value) else [])]


#: With places that are numbers, keys, or names.
_Container: TypeAlias = "list[object] | collections.deque[object] | dict[Any, object] | Slots"


class Containers:
    """The lists, the dicts and the attributes of objects that a callable reaches."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[str, _Container]] = {}

    def add(self, value: object, name: str) -> None:
        """Add a container or the attributes of an object, and the containers in it.

        Args:
          value: the container, or attributes of an object.
          name: what messages call it.
        """
        if not isinstance(value, list | collections.deque | dict | tuple | Slots) or id(value) in self._found:
            return
        if not isinstance(value, tuple):
            self._found[id(value)] = name, value
        for key, item in items_of(value):
            self.add(item, f"{name}.{key}" if name else str(key))

    def remembered(self) -> Callable[[], dict[str, jax.Array]]:
        """Remember what they hold now.

        Returns:
          A function that puts it back in the places where arrays were stored since, and gives these arrays by their names.
        """
        held = [(name, container, dict(items_of(container))) for name, container in self._found.values()]

        def put_back() -> dict[str, jax.Array]:
            stored: dict[str, jax.Array] = {}
            for name, container, before in held:
                new = _put_back(container, before)
                stored |= {f"{name}.{key}" if name else str(key): array for key, array in new.items()}
            return stored

        return put_back


def items_of(container: _Container | tuple[object, ...]) -> Iterable[tuple[Any, object]]:
    """The places of a container with what they hold now, whatever its class makes of iteration."""
    if isinstance(container, dict):
        return [*dict.items(container)]
    if isinstance(container, Slots):
        return container.items()
    if isinstance(container, collections.deque):
        return enumerate(collections.deque.__iter__(container))
    return enumerate(list.__iter__(container) if isinstance(container, list) else tuple.__iter__(container))


def _put_back(container: _Container, old: Mapping[Any, object]) -> dict[Any, jax.Array]:
    """Put back what a container held where it holds another array now; these arrays by their places."""
    new = {key: one for key, one in items_of(container) if isinstance(one, jax.Array) and one is not old.get(key)}
    for key in reversed(list(new)):
        if key in old:
            container[key] = old[key]
        else:
            del container[key]
    return new
