"""`Rules` and `Composites`: what a plugin declares, collected without importing any framework."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from jax2onnx_graph.arrays import Dtype, DtypeLike
from jax2onnx_graph.build.builder import Operators, Value
from jax2onnx_graph.targets import Target

from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.errors import Declined, PluginError

__all__ = [
    "Call",
    "Complex",
    "CompositeSpec",
    "Composites",
    "Decomposition",
    "Replacement",
    "Rule",
    "Rules",
    "Unsupported",
    "qualified_name",
]

#: `rule(ctx, *operands, **params)`: the value of the result, or the values of the results in order.
RuleFn = Callable[..., Value | Sequence[Value]]
JaxFn = Function
F = TypeVar("F", bound=Function)
R = TypeVar("R", bound=RuleFn)


def qualified_name(fn: Function) -> str:
    """Qualified name of a function, or of the class of a callable object: "module:qualified.name"."""
    defined = fn if inspect.isroutine(fn) else type(fn)
    return f"{defined.__module__}:{defined.__qualname__}"


@dataclasses.dataclass(frozen=True)
class Rule:
    """One lowering rule: `fn(ctx, *operands, **params) -> value | sequence of values`.

    `physical` rules take operands of complex or key dtype as their physical tensors (with a trailing axis of
    components); for every other rule the engine splits such operands first.
    """

    fn: RuleFn
    physical: bool = False


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """A JAX function that computes what a primitive computes."""

    fn: JaxFn


@dataclasses.dataclass(frozen=True)
class Unsupported:
    """Reason that a primitive cannot be in an ONNX file, and what its user can do instead."""

    reason: str
    advice: str = ""


class Complex(NamedTuple):
    """The real and imaginary parts of a complex array, two real arrays of one shape and dtype."""

    real: Any
    imag: Any


class Rules:
    """The lowering knowledge of one module: primitive name → how to lower it.

    A module creates one `Rules()`, fills it, and its plugin's `jax2onnx_register` hook hands it to
    `registry.add`. For one primitive, candidates are tried in this order: rules (the last declared
    first), then the decomposition, then, for a composite, the decomposition it was traced with.

    `overrides=True` says that these rules may replace those of another distribution.
    """

    def __init__(self, *, overrides: bool = False) -> None:
        self.overrides = overrides
        self.rules: dict[str, list[Rule]] = {}
        self.decompositions: dict[str, Decomposition] = {}
        self.complex_rules: dict[str, JaxFn] = {}
        self.componentwise_names: set[str] = set()
        self.numpy_evaluators: dict[str, Function] = {}
        self.unsupported_names: dict[str, Unsupported] = {}

    def lower(self, *names: str, physical: bool = False) -> Callable[[R], R]:
        """Decorator: the function lowers the primitives called `names`.

        >>> rules = Rules()
        >>> @rules.lower("integer_pow")
        ... def integer_pow(ctx, x, *, y):
        ...     return ctx.op.Pow(x, ctx.constant(y, like=x))
        """
        if not names or not all(isinstance(name, str) for name in names):
            raise PluginError("rules.lower takes names of primitives: @rules.lower('tanh').")

        def register(fn: R) -> R:
            for name in names:
                self.rules.setdefault(name, []).append(Rule(fn, physical))
            return fn

        return register

    def elementwise(self, table: Mapping[str, str]) -> None:
        """Primitives that are one ONNX operator of the same operands: `{"exp": "Exp"}`.

        The rule declines where the target has no exact kernel for the operand's dtype, so a
        decomposition declared for the same primitive takes over there.
        """
        for name, op_type in table.items():
            self.rules.setdefault(name, []).append(Rule(_elementwise(op_type)))

    def decompose(self, *names_and_fn: Any) -> Callable[[F], F]:
        """`decompose("p", "q", fn)`, or a decorator `@decompose("p", "q")`.

        `fn(*operands, **params)` computes the primitive with other JAX operations: it is traced on
        the equation's avals (symbolic dimensions included) and its equations are lowered.
        """
        return _named(names_and_fn, lambda name, fn: self.decompositions.__setitem__(name, Decomposition(fn)))

    def complex(self, *names_and_fn: Any) -> Callable[[F], F]:
        """Register a decomposition of primitives for complex operands: `fn(*operands, **params)`, in JAX.

        Each complex operand arrives as a `Complex(real, imag)` pair of real arrays, others as
        plain arrays; complex results are returned as `Complex` pairs.
        """
        return _named(names_and_fn, self.complex_rules.__setitem__)

    def componentwise(self, *names: str) -> None:
        """Primitives that only move data: the engine applies them to each component of a complex
        number or of a random key separately.
        """
        self.componentwise_names.update(names)

    def numpy_evaluator(self, *names_and_fn: Any) -> Callable[[F], F]:
        """`numpy_evaluator("transpose", fn)`: `fn(*arrays, **params)` evaluates the primitive on NumPy arrays.

        Only a speed-up: JAX itself evaluates constants where there is no such function. A view
        is welcome (it is copied when the file is written); raising `NotImplementedError` declines.
        """
        return _named(names_and_fn, self.numpy_evaluators.__setitem__)

    def unsupported(self, names: str | Iterable[str], reason: str, advice: str = "") -> None:
        """Declare that primitives cannot be expressed in an ONNX file.

        Args:
          names: the name of the primitive, or several.
          reason: why it cannot be, as a sentence.
          advice: what the user can do instead, as a sentence.
        """
        for name in [names] if isinstance(names, str) else names:
            self.unsupported_names[name] = Unsupported(reason, advice)

    def names(self) -> set[str]:
        """Every primitive that these rules say something about."""
        return {*self.rules, *self.decompositions, *self.complex_rules, *self.componentwise_names,
                *self.unsupported_names}  # fmt: skip


class _Context(Protocol):
    """The members of `Context` that the rule of an elementwise primitive uses."""

    op: Operators
    target: Target

    def dtype(self, value: Value) -> Dtype: ...
    def supports(self, op_type: str, dtype: DtypeLike) -> bool: ...


def _elementwise(op_type: str) -> RuleFn:
    """The rule of a primitive that is one operator of the same operands."""

    def rule(ctx: _Context, *operands: Value, out_dtype: object = None, **_: object) -> Value:
        dtype = ctx.dtype(operands[0])
        if out_dtype not in (None, dtype):
            raise Declined(f"{op_type} gives the type of its operands, {dtype}")
        if not ctx.supports(op_type, dtype):
            raise Declined(f"{ctx.target.name} has no {op_type} for {dtype}")
        if any(ctx.dtype(x) != dtype for x in operands):
            raise Declined(f"the operands of {op_type} are of several types")
        return ctx.op(op_type, *operands)

    rule.__qualname__ = f"{Rules.elementwise.__qualname__}({op_type})"
    return rule


def _named(names_and_fn: tuple[Any, ...], add: Callable[[str, Any], None]) -> Callable[[F], F]:
    """Register `fn` for names, as `decompose("p", "q", fn)` or as the decorator `@decompose("p", "q")`."""
    *names, last = names_and_fn
    names = names if callable(last) else [*names, last]

    def register(fn: F) -> F:
        for name in names:
            add(name, fn)
        return fn

    if callable(last):
        register(last)
    return register


class Call:
    """The named operation that a composite's function makes of a call: its operands and static parameters.

    Operands are arrays (or pytrees of arrays and None, flattened in order); params are anything
    hashable or not that the rule needs.
    """

    def __init__(self, *operands: Any, **params: Any) -> None:
        self.operands = operands
        self.params = params


@dataclasses.dataclass(frozen=True)
class Replacement:
    """The result of a call that a composite's function has computed by other operations, in place of the call."""

    value: PyTree


#: The function of a composite takes the arguments of the function that it claims.
CompositeFn = Callable[..., Call | Replacement | None]
C = TypeVar("C", bound=CompositeFn)
#: Which operands of an operation may get a leading batch axis: all, none, or these.
KeepUnderVmap = bool | tuple[int, ...] | Literal["broadcast"]


@dataclasses.dataclass(frozen=True)
class CompositeSpec:
    """One declared composite: calls of the function `claimed` ("module:qualified.name") are shown as operation `name`."""

    claimed: str
    name: str
    fn: CompositeFn
    keep_under_vmap: KeepUnderVmap = False
    is_required: bool = False
    recovers: bool = False


class Composites:
    """High-level calls that a plugin wants to see as one named operation.

    >>> composites = Composites()
    >>> @composites.call("mylib:Layer.__call__", name="mylib.layer")
    ... def layer(self, x):
    ...     return Call(x, self.weight, scale=self.scale)

    The decorated function takes the arguments of the claimed function (with its bound object) and returns
    a `Call`, or None where the call should be traced as it is; or a `Replacement`, where other operations (those of
    `jax.nn`, or other layers of the library) give the same result by a better graph.
    """

    def __init__(self) -> None:
        self.specs: list[CompositeSpec] = []

    def call(
        self, *claimed: str, name: str, keep_under_vmap: KeepUnderVmap = False, is_required: bool = False, recovers: bool = False
    ) -> Callable[[C], C]:  # fmt: skip
        """Decorator: calls of functions become an operation.

        Args:
          claimed: the functions, "module:qualified.name".
          name: the name of the operation.
          keep_under_vmap: the operation may stay whole under `jax.vmap` because its rule reads the ranks of its operands
            from `ctx.avals_in` and works with a leading batch axis on all (True; "broadcast": of size 1 on those not
            mapped), or on those with these indices while the others are not mapped: `(0,)` for `Call(x, weight)`.
          is_required: the function takes calls that JAX itself cannot trace, so that an error in it is that of the user's call.
          recovers: the function is asked only where the claimed function raised TypeError, or asked for the number of a symbolic dimension;
            where it has no answer, that is raised.
        """

        def register(fn: C) -> C:
            self.specs.extend(
                CompositeSpec(function, name, fn, keep_under_vmap, is_required, recovers) for function in claimed
            )
            return fn

        return register
