"""Random programs: source text of JAX functions, the same for the same seed."""

from __future__ import annotations

import dataclasses
import linecache
import random
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy
import numpy as np
from jax import export, lax, nn
from jax2onnx_core.jax_types import Function
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_testing.values import Distribution

from fuzzing.statements import Impossible, Variable, Writer

__all__ = ["NAMES", "Options", "Program", "Statement", "compiled", "generate"]

NAMES: dict[str, ModuleType] = {
    "jax": jax, "jnp": jnp, "jsp": jax.scipy, "lax": lax, "nn": nn, "np": np,
}  # fmt: skip
"""The modules that the source of a program may name."""

_MOST_ELEMENTS = 2000
_MOST_AXES = 5


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the export and the run of a program.

    Attributes:
      opset: the version of the standard operators; None for the lowest that the graph allows.
      x64: whether 64-bit types are on.
      optimised: whether the runtime may optimise the graph.
      values: what the inputs are like.
      order: the seed of the order in which the passes run; None for the usual one.
      assume: what is promised about all numbers, as `to_onnx` takes it.
    """

    opset: int | None
    x64: bool
    optimised: bool
    values: Distribution
    order: int | None = None
    assume: tuple[str, ...] = ()

    @property
    def of_export(self) -> str:
        """The options of `to_onnx`, as they are written in a call."""
        promised = f", assume={[*self.assume]}" if self.assume else ""
        return f"opset={self.opset}, x64={self.x64}{promised}"


@dataclasses.dataclass(frozen=True)
class Statement:
    """`targets = expression`; `is_tree` where the results have to be taken out of a pytree."""

    targets: tuple[Variable, ...]
    expression: str
    is_tree: bool

    @property
    def value(self) -> str:
        """The right side of the assignment."""
        leaves = f"jax.tree.leaves({self.expression})" + ("[0]" if len(self.targets) == 1 else "")
        return leaves if self.is_tree else self.expression

    @property
    def operands(self) -> list[str]:
        """The names of the variables that it reads, in order of first appearance."""
        return list(dict.fromkeys(re.findall(r"\b[xv]\d+\b", self.expression)))


@dataclasses.dataclass(frozen=True)
class Program:
    """The source text of a function with the inputs and options of its export.

    Attributes:
      seed: what it was made from.
      inputs: its parameters.
      statements: its body.
      sizes: the sizes of its symbols, for each run.
      options: how it is exported.
      prelude: the source of functions that the statements call.
      excuses: keys of `explain.REASONS` with the magnitude from which on operands, NaN included, may make its results anything.
    """

    seed: int
    inputs: tuple[Variable, ...]
    statements: tuple[Statement, ...]
    sizes: tuple[Mapping[str, int], ...]
    options: Options
    prelude: str = ""
    excuses: tuple[tuple[str, float], ...] = ()

    @property
    def variables(self) -> list[Variable]:
        """The variables that the program computes, in order."""
        return [target for statement in self.statements for target in statement.targets]

    def source(self, results: Sequence[str], parameters: Sequence[str] | None = None) -> str:
        """The source of a function `f` that returns a list of these variables.

        Args:
          results: names of variables.
          parameters: names of its parameters, the inputs by default; a parameter that is a variable too is computed under
            another name, and what follows reads the parameter.
        """
        parameters = [v.name for v in self.inputs] if parameters is None else parameters
        computed = {v.name for v in self.variables}
        renamed = {
            name: f"{name}_" if name in parameters and name in computed else name for name in [*parameters, *computed]
        }
        lines = []
        for statement in self.statements:
            names = ", ".join(renamed[t.name] for t in statement.targets)
            lines.append(f"{names} = {statement.value}")
        returned = ", ".join(renamed[name] for name in results)
        return "\n".join(
            [
                f"{self.prelude}def f({', '.join(parameters)}):",
                *(f"    {line}" for line in lines),
                f"    return [{returned}]\n",
            ]
        )

    def only(self, statement: Statement) -> Program:
        """The program of this statement alone, whose operands are inputs.

        What computes an operand of a weak type stays: a value that is passed in has none.
        """
        makers = {t.name: s for s in self.statements for t in s.targets if t.aval.weak_type}
        kept, pending = [statement], list(statement.operands)
        while pending:
            maker = makers.get(pending.pop())
            if maker is not None and maker not in kept:
                kept.append(maker)
                pending += maker.operands
        return self.with_statements([s for s in self.statements if s in kept])

    def with_dtypes(self, dtypes: Mapping[str, str]) -> Program | None:
        """The program with other dtypes in place of these, wherever they are named; None if it names none of them."""
        pattern = re.compile(r"\b(" + "|".join(dtypes) + r")\b")
        expressions = [pattern.sub(lambda match: dtypes[match[1]], s.expression) for s in self.statements]
        inputs = tuple(v.with_dtype(dtypes.get(v.aval.dtype.name, v.aval.dtype.name)) for v in self.inputs)
        prelude = pattern.sub(lambda match: dtypes[match[1]], self.prelude)
        unchanged = (self.inputs, [s.expression for s in self.statements], self.prelude)
        if (inputs, expressions, prelude) == unchanged:
            return None
        statements = [dataclasses.replace(s, expression=e) for s, e in zip(self.statements, expressions, strict=True)]
        return dataclasses.replace(self, inputs=inputs, statements=tuple(statements), prelude=prelude)

    def with_statements(self, statements: Sequence[Statement]) -> Program:
        """The program of some of its statements; the variables that these read and do not compute are inputs.

        Inputs with symbols stay: the others may not say what the symbols are.
        """
        computed = {t.name for s in statements for t in s.targets}
        read = {name for s in statements for name in s.operands}
        named = {v.name for v in self.inputs if not all(isinstance(d, int) for d in v.aval.shape)}
        inputs = tuple(v for v in [*self.inputs, *self.variables] if v.name in (read | named) - computed)
        return dataclasses.replace(self, inputs=inputs, statements=tuple(statements))


def compiled(source: str, name: str) -> Function:
    """The function `f` of a source; its lines are shown in tracebacks as those of the file `<name>`."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = dict(NAMES)
    exec(compile(source, file, "exec"), names)
    function: Function = names["f"]
    return function


def generate(seed: int, *, length: int | None = None) -> Program:
    """A random program of so many statements (a random number by default), the same for the same seed and version of JAX."""
    chance = random.Random(seed)
    x64 = chance.random() < 0.4
    values: Distribution = chance.choices(("special", "finite", "positive", "unit"), (4, 4, 1, 1))[0]
    options = Options(
        chance.choice((18, 20, 21, 22, 23, None, 24, 25, 26)), x64, chance.random() < 0.7, values, _order(seed)
    )
    dims, sizes = _dims(chance)
    with jax.enable_x64(x64):
        inputs = _inputs(chance, dims, x64=x64)
        statements: list[Statement] = []
        variables = list(inputs)
        for _ in range(length or chance.randint(2, 6)):
            statement = _statement(chance, variables, len(variables), sizes, x64=x64)
            statements.append(statement)
            variables += statement.targets
    return Program(seed, tuple(inputs), tuple(statements), sizes, options)


def _order(seed: int) -> int | None:
    """The seed of the order of passes of a program: one program in four has an order of its own."""
    return seed if seed % 4 == 3 else None


_Dims = tuple[Any, ...]


def _dims(chance: random.Random) -> tuple[_Dims, tuple[Mapping[str, int], ...]]:
    """Two dimensions that shapes are made of, and the sizes of their symbols in each run."""
    if chance.random() < 0.5:
        return (chance.choice((0, 1, 2, 3, 5)), chance.choice((1, 2, 4, 7))), ({},)
    can_be_empty = chance.random() < 0.2
    dims = export.symbolic_shape("B - 1, T" if can_be_empty else "B, T")
    first = {"B": chance.randint(2, 5), "T": chance.randint(2, 6)}
    second = {"B": 1 if can_be_empty else chance.randint(1, 3), "T": chance.randint(1, 9)}
    return dims, chance.choice(((first,), (second,), (first, second)))


def _inputs(chance: random.Random, dims: _Dims, *, x64: bool) -> list[Variable]:
    b, t = dims
    shapes: list[_Dims] = [(b, t), (b, 3), (b,), (b, t), (b, 2, t), (2, b), (b, 1), (3, b, t), (b, t)]
    first = chance.choice(shapes)
    floats = ["float32"] * 6 + ["float16", "bfloat16"] + ["float64"] * (5 if x64 else 0)
    others = ["int32"] * 4 + ["bool", "int8", "uint8", "uint32", "complex64", "int16"] + ["int64", "uint64"] * x64
    main = chance.choice(floats)
    kinds = [(first, main), (chance.choice([first, first, *shapes]), chance.choice([main, *floats, *others]))]
    if chance.random() < 0.7:
        kinds.append((chance.choice([(), (b,), (t,), first]), chance.choice(others)))
    if chance.random() < 0.2:
        kinds.append((chance.choice([(), (), (4, 3), (1,), (2, 0)]), chance.choice(["bool", main])))
    if set(dims) - {d for shape, _ in kinds for d in shape}:
        kinds.append((dims, main))
    return [Variable(f"x{i}", jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))) for i, (shape, dtype) in enumerate(kinds)]


def _statement(
    chance: random.Random, variables: Sequence[Variable], number: int, sizes: Sequence[Mapping[str, int]], *, x64: bool
) -> Statement:
    """A statement that JAX accepts for the shapes and dtypes of these variables."""
    writer = Writer(chance, variables, x64=x64)
    while True:
        # Most of what JAX says about expressions that make no sense has no type of its own; another one is tried.
        try:
            expression = writer.statement()
            result = evaluate_shape(expression, variables)
        except Impossible:
            continue
        except Exception:  # noqa: BLE001
            continue
        leaves = jax.tree.leaves(result)
        if leaves and all(_is_handy(leaf, sizes) for leaf in leaves):
            targets = tuple(Variable(f"v{number + i}", leaf) for i, leaf in enumerate(leaves))
            flat = isinstance(result, jax.ShapeDtypeStruct) or (
                type(result) in (tuple, list) and len(result) == len(leaves) > 1
            )
            return Statement(targets, expression, not flat)


def evaluate_shape(expression: str, variables: Sequence[Variable], prelude: str = "") -> Any:
    names = ", ".join(v.name for v in variables)
    function = compiled(f"{prelude}def f({names}):\n    return {expression}\n", "statement")
    return jax.eval_shape(function, *[v.aval for v in variables])


def _is_handy(aval: jax.ShapeDtypeStruct, sizes: Sequence[Mapping[str, int]]) -> bool:
    """Whether an array is of numbers and small enough for random programs."""
    if aval.dtype == jax.dtypes.float0 or jnp.issubdtype(aval.dtype, jax.dtypes.extended):
        return False
    if len(aval.shape) > _MOST_AXES:
        return False
    return all(0 <= np.prod([evaluate_dim(d, values) for d in aval.shape]) <= _MOST_ELEMENTS for values in sizes)
