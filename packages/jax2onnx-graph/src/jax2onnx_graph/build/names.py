"""Deterministic, unique names: inputs and weights after the user's, nodes after JAX's name stack."""

from __future__ import annotations

__all__ = ["Names"]


class Names:
    """The names of one model. A node is called `<name stack>/<operation>.<operator>`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._prefix = ""
        self._stack = ""

    def enter(self, stack: str, operation: str) -> tuple[str, str]:
        """Nodes emitted until `leave` belong to this operation."""
        outer = self._stack, self._prefix
        self._stack = "/".join(part for part in (self._stack, stack) if part)
        self.relabel(operation)
        return outer

    def relabel(self, operation: str) -> None:
        self._prefix = f"{self._stack}/{operation}" if self._stack else operation

    def leave(self, outer: tuple[str, str]) -> None:
        self._stack, self._prefix = outer

    def node(self, op_type: str) -> str:
        return self.unique(f"{self._prefix}.{op_type}" if self._prefix else op_type)

    def value(self, name: str) -> str:
        return self.unique(name)

    def unique(self, base: str) -> str:
        """`base`, or `base_1`, `base_2`, … where it is taken."""
        count = self._counts.get(base)
        if count is None:
            self._counts[base] = 0
            return base
        while True:
            count += 1
            candidate = f"{base}_{count}"
            if candidate not in self._counts:
                self._counts[base] = count
                self._counts[candidate] = 0
                return candidate
