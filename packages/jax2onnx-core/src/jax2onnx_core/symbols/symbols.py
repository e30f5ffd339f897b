"""Symbolic dimensions: one scope per export, labels, origins, specialization, run-time checks."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph.build.names import numbered
from jax2onnx_graph.facts.dims import OPERATIONS, Dims, SpecializedDim, is_static
from jax2onnx_graph.facts.expressions import parsed

from jax2onnx_core import _compat_comparisons
from jax2onnx_core._compat_dims import (
    LESS_ONE,
    bounds,
    computed,
    constrain,
    constraints_kept,
    dim_expression,
    inconclusive_dimension_error,
    is_symbolic_dim,
    substitute,
    symbols_of,
)
from jax2onnx_core.plugins.errors import SymbolError

__all__ = ["Constraint", "DataSize", "Dim", "Symbols", "evaluate_dim", "without_traced_symbols"]

Dim = Any  # an int, a SpecializedDim or a JAX symbolic dimension

_AT_LEAST_ZERO = re.compile(r"^\s*(?:([A-Za-z_]\w*)\s*>=\s*0|0\s*<=\s*([A-Za-z_]\w*))\s*$")
_COMPARISON = re.compile(r"(==|>=|<=|!=)")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class Constraint:
    """`left comparison right`, as the user wrote it and as expressions of traced symbols."""

    text: str
    left: Dim
    comparison: str
    right: Dim

    def holds(self, values: Mapping[str, int]) -> bool:
        left, right = evaluate_dim(self.left, values), evaluate_dim(self.right, values)
        return {"==": left == right, ">=": left >= right, "<=": left <= right, "!=": left != right}[self.comparison]


def _without_constant(constraint: Constraint) -> str:
    """A constraint with the number that is added on the left taken to the right: JAX sets only a term equal to something."""
    left, right = constraint.left, constraint.right
    if is_symbolic_dim(left):
        number = sum(coefficient for coefficient, factors in dim_expression(left) if not factors)
        left, right = left - number, right - number
    return f"{left} {constraint.comparison} {right}"


@dataclasses.dataclass(frozen=True)
class DataSize:
    """A symbol whose size depends on values: an operation of the function gives it.

    Attributes:
      name: the symbol, as it is shown.
      traced: the symbol of the traced scope.
      dim: the size in terms of that.
      least: the least size.
      most: the largest size; None where nothing is known.
      source: the operation and the user's line.
    """

    name: str
    traced: str
    dim: Dim
    least: int
    most: Dim | None
    source: str

    def constraints(self) -> list[str]:
        """The constraints on the symbol that JAX is told."""
        least = [f"{self.dim} >= {self.least}"] if self.least > 1 else []
        return least if self.most is None else [*least, f"{self.dim} <= {self.most}"]


class Symbols:
    """The symbols of one export.

    Users' dimension texts become expressions of one `jax.export` scope. JAX assumes that a symbol is
    at least 1; one declared `"S >= 0"` is traced as `S__plus_1 - 1` and shown as `S`.
    """

    def __init__(self, constraints: Sequence[str] = (), scope: Any = None) -> None:
        if isinstance(constraints, str):
            raise SymbolError(
                f"constraints must be a sequence of texts such as ('T >= 2',), not the text {constraints!r}."
            )
        texts = [str(c) for c in constraints]
        self.zero = {m[1] or m[2] for m in map(_AT_LEAST_ZERO.match, texts) if m}
        others = [t for t in texts if not _AT_LEAST_ZERO.match(t)]
        # The user's own notation: labels and messages are written here.
        self._plain = jax.export.SymbolicScope()
        # Without what is known of the symbols, by which an expression would be simplified.
        self._unlimited = jax.export.SymbolicScope()
        self.constraints = [self._constraint(t) for t in others]
        #: The symbols that were fixed to numbers.
        self.fixed: Mapping[str, int] = {}
        if scope is not None and texts:
            raise SymbolError(
                "The inputs bring symbolic dimensions of their own scope; give the constraints to its symbolic_shape(...)."
            )
        self.scope = scope if scope is not None else self._traced_scope(others)
        #: The symbols that come from data, by their traced names.
        self.from_data: dict[str, DataSize] = {}
        self._labels: dict[Any, str] = {}
        self._written: set[str] = set()
        self._check_satisfiable(texts)

    def _traced_scope(self, texts: Sequence[str]) -> Any:
        # JAX has no use for what two dimensions are not.
        known = [c for c in self.constraints if c.comparison != "!="]
        rewritten = [_without_constant(c) if self.zero else c.text for c in known]
        try:
            return jax.export.SymbolicScope(rewritten)
        except (ValueError, NotImplementedError, inconclusive_dimension_error) as error:
            raise SymbolError(f"The constraints {list(texts)} cannot be used: {error}") from error

    def _check_satisfiable(self, texts: Sequence[str]) -> None:
        """Let JAX find out whether any number fits; `texts` are the constraints."""
        try:
            for name in self.names(side for c in self.constraints for side in (c.left, c.right)):
                bounds(self._symbol(name, self.scope))
        except ValueError as error:
            raise SymbolError(f"The constraints {list(texts)} contradict each other. ({error})") from error

    def new_size(self, name: str, source: str, least: int = 0, most: Dim | None = None) -> DataSize:
        """A new symbol for a size that depends on values.

        Args:
          name: what it is called; a number is added where there is such a symbol.
          source: the operation that gives it, and the user's line.
          least: the least size.
          most: the largest size, if one is known.
        """
        taken = {*self.known, *self.zero, *(size.name for size in self.from_data.values()), *OPERATIONS}
        taken |= {found for c in self.constraints for found in self.names([c.left, c.right])}
        label = next(label for label in numbered(name) if label not in taken)
        traced = label if least else f"{label}{LESS_ONE}"
        if not least:
            self.zero.add(label)
        dim = self._parse(label if least else f"{traced} - 1", self.scope)
        size = self.from_data[traced] = DataSize(label, traced, dim, least, most, source)
        constrain(self.scope, size.constraints())
        return size

    def forget_sizes(self) -> None:
        """Forget the sizes from data, before the function is traced once more."""
        self.zero.difference_update(size.name for size in self.from_data.values())
        self.from_data.clear()

    def keep_sizes(self, dims: Collection[Dim]) -> None:
        """Forget the sizes from data that are none of these dimensions."""
        self.from_data = {traced: size for traced, size in self.from_data.items() if size.dim in dims}

    @contextlib.contextmanager
    def limited(self) -> Iterator[None]:
        """Inside, the limits of the sizes from data are known, those included that are made there, and that they may be 0."""
        with (
            constraints_kept(self.scope),
            _compat_comparisons.size_comparisons(lambda: bool(self.from_data)),
        ):
            for size in self.from_data.values():
                constrain(self.scope, size.constraints())
            yield

    def sizes_in(self, dims: Iterable[Dim]) -> list[DataSize]:
        """The sizes from data that occur in these dimensions."""
        if not self.from_data:
            return []
        found = set[str]().union(*(symbols_of(dim) for dim in dims if is_symbolic_dim(dim)))
        return [size for traced, size in self.from_data.items() if traced in found]

    @property
    def known(self) -> set[str]:
        """The symbols in the dimensions that were parsed."""
        return self._written - OPERATIONS

    def check_known(self) -> None:
        """Raise if a constraint is about a symbol that is in none of the dimensions that were parsed."""
        known = sorted(self.known)
        texts = {name: f"{name} >= 0" for name in self.zero}
        texts |= {name: c.text for c in self.constraints for name in self.names([c.left, c.right])}
        for name, text in texts.items():
            if name not in known:
                raise SymbolError(
                    f"The constraint {text!r} is about {name}, but no input has that symbol. "
                    f"There are: {', '.join(known) or 'none'}."
                )

    def _constraint(self, text: str) -> Constraint:
        sides = _COMPARISON.split(text)
        if len(sides) != 3:
            raise SymbolError(
                f"The constraint {text!r} is not of the form 'e1 >= e2', 'e1 <= e2', 'e1 == e2' or 'e1 != e2'."
            )
        left, comparison, right = sides
        return Constraint(text, self._traced(left, self._unlimited), comparison, self._traced(right, self._unlimited))

    def constrained(self, text: str) -> Symbols:
        """Symbols of a new scope with a further constraint, which JAX is told; those for sizes that differ are left out."""
        given = [*(f"{name} >= 0" for name in self.zero), *(c.text for c in self.constraints if c.comparison != "!=")]
        return Symbols([*given, text])

    def with_constraints(self, texts: Iterable[str]) -> Symbols:
        """The same symbols with further constraints, which JAX is not told."""
        known = {constraint.text for constraint in self.constraints}
        extended = copy.copy(self)
        extended.constraints = [*self.constraints, *(self._constraint(text) for text in texts if text not in known)]
        return extended

    def with_fixed(self, values: Mapping[str, int]) -> Symbols:
        """The same symbols, some of which were fixed to numbers: these stand for them in the constraints on others."""
        fixed = copy.copy(self)
        fixed.fixed = {**self.fixed, **values}
        fixed.constraints = [self._partly_fixed(constraint, values) for constraint in self.constraints]
        return fixed

    def _partly_fixed(self, constraint: Constraint, values: Mapping[str, int]) -> Constraint:
        names = set(self.names([constraint.left, constraint.right]))
        if names.isdisjoint(values) or names <= values.keys():
            return constraint
        return self._constraint(_IDENTIFIER.sub(lambda name: str(values.get(name[0], name[0])), constraint.text))

    def _traced(self, text: str, scope: Any) -> Dim:
        """A user's expression over the traced symbols of a scope."""
        names = set(_IDENTIFIER.findall(text)) - OPERATIONS
        for name in sorted(names):
            if name.endswith(LESS_ONE):
                raise SymbolError(
                    f"{text.strip()!r}: no symbol is called {name!r}, as those are that stand for sizes which may be 0."
                )
        if self.zero.isdisjoint(names):
            return self._parse(text, scope)
        self._parse(text, self._plain)  # it makes sense, though JAX may take max(S, 1) for S there
        return computed(parsed(text), {name: self._symbol(name, scope) for name in names})

    def _symbol(self, name: str, scope: Any) -> Dim:
        """The size that a user's symbol is, over the traced symbols of a scope."""
        return self._parse(f"{name}{LESS_ONE} - 1" if name in self.zero else name, scope)

    def _shifted(self, dim: Dim) -> Dim:
        """The expression over the traced symbols of the scope."""
        if not is_symbolic_dim(dim):
            return dim
        return substitute(dim, {name: self._symbol(name, self.scope) for name in symbols_of(dim)})

    @staticmethod
    def _parse(text: str, scope: Any) -> Dim:
        try:
            (dim,) = jax.export.symbolic_shape(text.strip(), scope=scope)
        except (ValueError, inconclusive_dimension_error) as error:
            raise SymbolError(
                f"{text.strip()!r} is not a dimension: write a number, a name, or an expression of them with "
                f"+ - * floordiv(a, b) mod(a, b) max(a, b) min(a, b). ({error})"
            ) from error
        return dim

    def parse(self, text: str) -> Dim:
        """A user's dimension text → a dimension of the traced scope, which is shown as it was first written."""
        dim = self._traced(text, self.scope)
        self._written.update(_IDENTIFIER.findall(text))
        if is_symbolic_dim(dim) and not str(dim).isidentifier():
            self._labels.setdefault(dim, " ".join(text.split()))
        return dim

    def take(self, dim: Dim) -> None:
        """Take the symbols of a dimension of the scope, so that no size from data is called like one of them."""
        self._written.update(symbols_of(dim))

    def label(self, dim: Dim) -> str:
        """The text that names a dimension in the model, in the user's own symbols."""
        if isinstance(dim, SpecializedDim):
            return dim.expression
        if not is_symbolic_dim(dim):
            return str(dim)
        if dim not in self._labels and not self.zero:
            self._labels[dim] = str(dim)
        elif dim not in self._labels:
            names = {traced: self._name(traced) for traced in symbols_of(dim)}
            env = {t: self._parse(name if name == t else f"{name} + 1", self._plain) for t, name in names.items()}
            plain = substitute(dim, env)
            # JAX simplifies for symbols from 1 on, so that max(S, 1) would be S.
            exact = self._shifted(plain) == dim
            self._labels[dim] = str(plain) if exact else without_traced_symbols(str(dim))
        return self._labels[dim]

    def shown(self, text: str) -> tuple[str, set[str]]:
        """JAX's text of an expression over the traced symbols as the user would write it, and its symbols."""
        try:
            dim = self._parse(text, self.scope)
        except SymbolError:
            return without_traced_symbols(text), set()
        return self.label(dim), set(self.names([dim]))

    def traced_values(self, values: Mapping[str, int]) -> dict[str, int]:
        """The user's symbol values as values of the traced symbols."""
        return {f"{n}{LESS_ONE}" if n in self.zero else n: v + (n in self.zero) for n, v in values.items()}

    def user_values(self, values: Mapping[str, int]) -> dict[str, int]:
        """The inverse of `traced_values`."""
        return {self._name(n): v - (self._name(n) != n) for n, v in values.items()}

    def minimum(self, name: str) -> int:
        return 0 if name in self.zero else 1

    def names(self, dims: Iterable[Dim]) -> list[str]:
        """The user's symbols that occur in these dimensions, sorted."""
        found: set[str] = set()
        for dim in dims:
            if is_symbolic_dim(dim):
                found |= {self._name(n) for n in symbols_of(dim)}
        return sorted(found)

    def _name(self, traced: str) -> str:
        """The user's symbol for a traced one."""
        name = traced.removesuffix(LESS_ONE)
        return name if name in self.zero else traced

    def check_constraints(self, values: Mapping[str, int]) -> None:
        """Raise if the user's symbol values are no sizes, or break a constraint or a minimum."""
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise SymbolError(f"{name} = {value!r}, but a size is a whole number.")
            if value < self.minimum(name):
                raise SymbolError(f"{name} = {value}, but {name} >= {self.minimum(name)} was declared or assumed.")
        for constraint in self.constraints:
            symbols = self.names([constraint.left, constraint.right])
            if all(name in values for name in symbols) and not constraint.holds(self.traced_values(values)):
                where = ", ".join(f"{name} = {values[name]}" for name in symbols)
                raise SymbolError(f"The constraint {constraint.text!r} does not hold for {where}.")

    def allow(self, values: Mapping[str, int]) -> bool:
        """Whether the user's symbol values keep every constraint and minimum."""
        try:
            self.check_constraints(values)
        except SymbolError:
            return False
        return True

    def may_agree(self, known: Dims, dims: Dims) -> bool:
        """Whether the ranks are equal, and the sizes: those with symbols at sizes that tell most expressions apart."""
        if len(known) != len(dims) or known == dims:
            return known == dims
        values = {name: 101 + 2 * i for i, name in enumerate(self.names([*known, *dims]))}
        if not self.allow(values):
            return all(a == b for a, b in zip(known, dims, strict=True) if is_static(a) and is_static(b))
        traced = self.traced_values(values)
        return all(evaluate_dim(a, traced) == evaluate_dim(b, traced) for a, b in zip(known, dims, strict=True))


def without_traced_symbols(text: str) -> str:
    """JAX's text about sizes in the user's symbols, where one that may be 0 is traced as another less 1.

    >>> without_traced_symbols("got shapes (T__plus_1 - 1,) and (2*T__plus_1 - 2,)")
    'got shapes (T,) and (2*(T + 1) - 2,)'
    """
    text = re.sub(rf"(?:^|(?<=[(\[',])|(?<=, ))(\w+){LESS_ONE} - 1(?![\d*])", r"\1", text)
    return re.sub(rf"(\w+){LESS_ONE}", r"(\1 + 1)", text)


def evaluate_dim(dim: Dim, values: Mapping[str, int]) -> int:
    """The number that a dimension is for these values of the (traced) symbols."""
    number = substitute(dim, values) if is_symbolic_dim(dim) else dim
    assert is_static(number), "every symbol has a value"
    return int(number)
