"""`Containers`: the user's lists, dicts and objects, which hold after a call the arrays that they held before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import jax

__all__ = ["Containers"]

#: With places that are numbers, or keys.
_Container: TypeAlias = "list[object] | dict[Any, object]"


class Containers:
    """The lists, the dicts and the attributes of objects that a callable reaches."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[str, _Container]] = {}

    def add(self, value: object, name: str) -> None:
        """Add a container or the attributes of an object, and the containers in it.

        Args:
          value: the container, or `vars` of an object.
          name: what messages call it.
        """
        if not isinstance(value, list | dict | tuple) or id(value) in self._found:
            return
        if not isinstance(value, tuple):
            self._found[id(value)] = name, value
        for key, item in _items(value):
            self.add(item, f"{name}.{key}" if name else str(key))

    def remembered(self) -> Callable[[], dict[str, jax.Array]]:
        """Remember what they hold now.

        Returns:
          A function that puts it back in the places where arrays were stored since, and gives these arrays by their names.
        """
        held = [(name, container, dict(_items(container))) for name, container in self._found.values()]

        def put_back() -> dict[str, jax.Array]:
            stored: dict[str, jax.Array] = {}
            for name, container, before in held:
                new = _put_back(container, before)
                stored |= {f"{name}.{key}" if name else str(key): array for key, array in new.items()}
            return stored

        return put_back


def _items(container: _Container | tuple[object, ...]) -> Iterable[tuple[Any, object]]:
    """The places of a container with what they hold now, whatever its class makes of iteration."""
    if isinstance(container, dict):
        return [*dict.items(container)]
    return enumerate(list.__iter__(container) if isinstance(container, list) else tuple.__iter__(container))


def _put_back(container: _Container, old: Mapping[Any, object]) -> dict[Any, jax.Array]:
    """Put back what a container held where it holds another array now; these arrays by their places."""
    new = {key: one for key, one in _items(container) if isinstance(one, jax.Array) and one is not old.get(key)}
    for key in reversed(list(new)):
        if key in old:
            container[key] = old[key]
        else:
            del container[key]
    return new
