"""`Formula`: a formula that passes make an operator of, with points at which it can be mutated, and its mutants as programs.

A mutant looks like the formula and may mean something else. Whether it becomes the operator or not, its model gives what JAX gives.
A package with passes of its own has formulas of its own:

    from fuzzing.formulas import Formula, findings, is_formed, single_mutants

    SOFTSIGN = Formula("softsign", {"x": "B 5"}, "return x / ({one:1|2|-1} {plus:+|-} {abs:jnp.abs(x)|x})", forms=("Softsign",))

    def test_the_formula_is_formed():
        assert is_formed(SOFTSIGN)

    @pytest.mark.parametrize("mutant", single_mutants(SOFTSIGN), ids=str)
    def test_look_alikes(mutant):
        assert findings(mutant) == []

`python -m fuzzing formulas --module my_formulas` checks random mutants of the `FORMULAS` of a module.
"""

from __future__ import annotations

import dataclasses
import importlib
import random
import re
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
from jax import export
from jax2onnx_testing.values import Distribution

from fuzzing.check import check
from fuzzing.execution import Exported
from fuzzing.pass_orders import ModelBeforePasses
from fuzzing.programs import Options, Program, Statement, compiled, evaluate_shape
from fuzzing.shrink import as_test
from fuzzing.statements import Variable
from fuzzing.variations import variations

__all__ = [
    "Formula",
    "Mutant",
    "Place",
    "Situation",
    "base",
    "findings",
    "is_formed",
    "model_before_passes",
    "mutant_of_seed",
    "program_of_seed",
    "random_mutant",
    "single_mutants",
    "varied_mutants",
]

#: Where the formula stands: in the main graph, in a branch of a cond, in the body of a scan, under vmap, or beside its gradient.
Place = Literal["graph", "branch", "loop", "vmap", "grad"]
#: What the size of a dimension is: a number, a symbol, or a symbol that may be 0.
Size = int | Literal["symbol", "symbol or 0"]

_HOLE = re.compile(r"\{(\w+):([^{}]*)\}")
_ASSIGNMENT = re.compile(r"^(\w+) = ", re.MULTILINE)
_RETURN = re.compile(r"^return (.*)$", re.MULTILINE)
_SIZES = {"B": 2, "N": 3, "T": 5, "S": 5, "H": 4, "W": 4, "C": 8}
_DTYPES = {"float16", "bfloat16", "float32", "float64", "int32", "int64", "uint32", "bool"}


@dataclasses.dataclass(frozen=True)
class Formula:
    """A formula, and what is made of it.

    Attributes:
      name: what it computes.
      inputs: its inputs by name, each with its dimensions: "B T 8" is an array of the dtype that the formula is computed
        in, "bool T T" one of its own dtype. A dimension that has a name (one of B, N, T, S, H, W, C) may have other sizes.
      body: the lines of a Python function of the inputs, over `jax`, `jnp`, `lax`, `nn` and `np`, which ends with a `return`. `{divisor:2|3|x}`
        is a point of mutation: 2 in the formula, 3 or x in a mutant.
      forms: operators that the model of the formula has.
      passes: the names of passes that change the model of the formula.
      dtypes: the dtypes that it is computed in, that of the formula itself first.
      opset: the version of the standard operators that the formula is exported for.
      values: the random numbers that mutants of it are compared on, in turn.
      excuses: reasons of differences that are no defects, keys of the fuzzer's `REASONS`, each with the magnitude from which on
        inputs, NaN included, may make results anything.
      assume: what is promised about all numbers when it is exported; its `values` and mutants have to keep the promise.
    """

    name: str
    inputs: Mapping[str, str]
    body: str
    forms: Sequence[str] = ()
    passes: Sequence[str] = ()
    dtypes: Sequence[str] = ("float32", "float16", "bfloat16", "float64")
    opset: int = 23
    values: Sequence[Distribution] = ("finite", "rare", "special", "wide")
    excuses: Mapping[str, float] = dataclasses.field(default_factory=dict)
    assume: Sequence[str] = ()

    @property
    def points(self) -> dict[str, list[str]]:
        """The texts that may stand at each point of mutation, that of the formula first."""
        return {name: texts.split("|") for name, texts in _HOLE.findall(self._lines)}

    @property
    def dims(self) -> list[str]:
        """The names of dimensions."""
        return sorted({dim for text in self.inputs.values() for dim in text.split() if dim in _SIZES})

    @property
    def intermediates(self) -> list[str]:
        """The names of the values that the body computes on the way."""
        return _ASSIGNMENT.findall(self._lines)

    @property
    def _lines(self) -> str:
        return textwrap.dedent(self.body).strip()

    def source(self, choices: Mapping[str, str], also: Sequence[str] = ()) -> str:
        """The source of a function `formula` with these texts at points of mutation, that returns these intermediate values too."""
        lines = _HOLE.sub(lambda match: choices.get(match[1], match[2].split("|")[0]), self._lines)
        if also:
            lines = _RETURN.sub(lambda match: f"return ({match[1]}), {', '.join(also)}", lines)
        return f"def formula({', '.join(self.inputs)}):\n{textwrap.indent(lines, '    ')}\n\n"


@dataclasses.dataclass(frozen=True)
class Situation:
    """The surroundings of a formula, which decide whether an operator means the same.

    Attributes:
      dtype: the dtype that it is computed in.
      sizes: the sizes of dimensions that are not as usual.
      place: where it stands.
      read: the intermediate value that has a second reader; "" for none.
      twice: the input that another one is replaced by: `("x", "y")` has x in place of y.
      opset: the version of the standard operators.
      optimised: whether the runtime may optimise the graph.
      values: the random numbers.
      order: the seed of the order in which the passes run; None for the usual one.
    """

    dtype: str = "float32"
    sizes: Mapping[str, Size] = dataclasses.field(default_factory=dict)
    place: Place = "graph"
    read: str = ""
    twice: tuple[str, str] | None = None
    opset: int | None = 23
    optimised: bool = True
    values: Distribution = "finite"
    order: int | None = None


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A formula with other texts at points of mutation, in a situation."""

    formula: Formula
    choices: Mapping[str, str]
    situation: Situation
    seed: int = 0

    def __str__(self) -> str:
        usual, own = dataclasses.asdict(Situation()), dataclasses.asdict(self.situation)
        changed = [f"{key}={value}" for key, value in own.items() if value != usual[key]]
        return ", ".join([self.formula.name, *(f"{point}: {text}" for point, text in self.choices.items()), *changed])

    def program(self) -> Program | None:
        """The mutant as a program of one statement; None where JAX does not accept it."""
        situation = self.situation
        dims, sizes = _dims(self.formula, situation)
        with jax.enable_x64(situation.dtype == "float64"):
            inputs = _inputs(self.formula, situation, dims)
            also = [situation.read] if situation.read else []
            prelude = self.formula.source(self.choices, also)
            call = _call(self.formula, situation, {name: v.name for name, v in inputs.items()})
            variables = [*dict.fromkeys(inputs.values()), Variable("x9", jax.ShapeDtypeStruct((), jnp.dtype(bool)))]
            variables = variables if "x9" in call else variables[:-1]
            # What JAX says about formulas that make no sense has no type of its own.
            try:
                result = evaluate_shape(call, variables, prelude)
            except Exception:  # noqa: BLE001
                return None
        leaves = jax.tree.leaves(result)
        targets = tuple(Variable(f"v{i}", leaf) for i, leaf in enumerate(leaves, 1))
        options = Options(
            situation.opset, situation.dtype == "float64", situation.optimised, situation.values, situation.order,
            (*self.formula.assume,),
        )  # fmt: skip
        statement = Statement(targets, call, is_tree=True)
        return Program(
            self.seed, tuple(variables), (statement,), sizes, options, prelude, (*self.formula.excuses.items(),)
        )


def base(formula: Formula) -> Mutant:
    """The formula itself, in the usual situation."""
    values: Distribution = "unit" if formula.assume else "finite"
    return Mutant(formula, {}, Situation(formula.dtypes[0], opset=formula.opset, values=values))


def single_mutants(formula: Formula) -> list[Mutant]:
    """The mutants that differ from the formula at one point, in the usual situation with some special values."""
    situation = _special(formula)
    texts = [(point, text) for point, texts in formula.points.items() for text in texts[1:]]
    return [Mutant(formula, {point: text}, situation, seed) for seed, (point, text) in enumerate(texts)]


def varied_mutants(formula: Formula) -> list[Mutant]:
    """The formula with each of its `variations`, and with a second reader of each value on the way, in the situation of `single_mutants`."""
    situation = _special(formula)
    read = [Mutant(formula, {}, dataclasses.replace(situation, read=name)) for name in formula.intermediates]
    return [*(Mutant(varied, {}, situation) for varied in varied_formulas(formula)), *read]


def varied_formulas(formula: Formula) -> list[Formula]:
    """The formulas that differ from a formula by one of its `variations`."""
    head, _, _ = formula.source({}).partition("\n")
    found = variations(formula.source({})).items()
    return [
        dataclasses.replace(formula, name=f"{formula.name}, {name}", body=source.removeprefix(head))
        for name, source in found
    ]


def _special(formula: Formula) -> Situation:
    """The usual situation of a formula, with some special values."""
    return Situation(formula.dtypes[0], opset=formula.opset, values=formula.values[1 % len(formula.values)])


def random_mutant(formula: Formula, seed: int) -> Mutant:
    """A random mutant, the same for the same seed: changed at some points or by a variation, or only in another situation."""
    chance = random.Random(f"{formula.name} {seed}")
    points = formula.points
    changed = chance.sample(sorted(points), min(len(points), chance.choice((0, 0, 1, 1, 2))))
    choices = {point: chance.choice(points[point][1:]) for point in changed if points[point][1:]}
    sizes = {dim: _size(chance) for dim in formula.dims if chance.random() < 0.4}
    pairs = [
        (a, b) for a in formula.inputs for b in formula.inputs if a != b and formula.inputs[a] == formula.inputs[b]
    ]
    situation = Situation(
        dtype=chance.choices(formula.dtypes, [4, *[1] * (len(formula.dtypes) - 1)])[0],
        sizes=sizes,
        place=chance.choices(("graph", "branch", "loop", "vmap", "grad"), (6, 2, 2, 2, 1))[0],
        read=chance.choice(formula.intermediates) if formula.intermediates and chance.random() < 0.2 else "",
        twice=chance.choice(pairs) if pairs and chance.random() < 0.1 else None,
        opset=chance.choice((formula.opset, formula.opset, formula.opset, None, 18, 21, 24)),
        optimised=chance.random() < 0.8,
        values=chance.choice(formula.values),
        order=seed if chance.random() < 0.25 else None,
    )
    if not changed and chance.random() < 0.5:
        formula = chance.choice([formula, *varied_formulas(formula)])
    return Mutant(formula, choices, situation, seed)


def mutant_of_seed(seed: int, module: str) -> Mutant:
    """The random mutant of a seed: of the formulas in the `FORMULAS` of a module, each has its turn."""
    formulas: Sequence[Formula] = importlib.import_module(module).FORMULAS
    return random_mutant(formulas[seed % len(formulas)], seed // len(formulas))


def program_of_seed(seed: int, module: str) -> Program | None:
    """The program of `mutant_of_seed`."""
    return mutant_of_seed(seed, module).program()


def findings(mutant: Mutant) -> list[str]:
    """Failing tests of what is wrong with the model of a mutant; none where JAX does not accept the mutant."""
    program = mutant.program()
    if program is None:
        return []
    # JAX and NumPy warn of much that special values do.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {(f.kind, f.variable): f for f in check(program) if f.is_defect}
    return [f"# {mutant}\n{as_test(f)}\n{f.kind}: {f.text}\n" for f in found.values()]


def is_formed(formula: Formula) -> bool:
    """Whether the model of the formula itself has the operators that it says."""
    program = base(formula).program()
    if program is None:
        return False
    exported = Exported(program, [v.name for v in program.variables], program.inputs)
    made = {node.op_type for node in exported.program.model.graph.all_nodes()}
    return set(formula.forms) <= made


def model_before_passes(mutant: Mutant) -> ModelBeforePasses:
    """The model of a mutant as it is lowered. Raises ValueError where JAX does not accept the mutant."""
    program = mutant.program()
    if program is None:
        raise ValueError(f"JAX does not accept the mutant {mutant}.")
    names = [v.name for v in program.variables]
    specs = [(v.dims, v.aval.dtype.name) for v in program.inputs]
    function = compiled(program.source(names), str(mutant))
    options = program.options
    return ModelBeforePasses(function, specs, opset=options.opset, x64=options.x64, assume=options.assume)


def _size(chance: random.Random) -> Size:
    choice: Size = chance.choice((0, 1, "symbol", "symbol", "symbol or 0"))
    return choice


def _dims(formula: Formula, situation: Situation) -> tuple[dict[str, object], tuple[Mapping[str, int], ...]]:
    """The dimensions by name, and the sizes of the symbols in each run."""
    texts = {dim: situation.sizes.get(dim, _SIZES[dim]) for dim in formula.dims}
    symbols = {dim: size for dim, size in texts.items() if isinstance(size, str)}
    # A symbol of `jax.export` is at least 1.
    exprs = [f"{dim} - 1" if size == "symbol or 0" else dim for dim, size in symbols.items()]
    named = dict(zip(symbols, export.symbolic_shape(", ".join(exprs)) if exprs else (), strict=True))
    least: dict[str, int] = dict.fromkeys(symbols, 1)
    usual = {dim: _SIZES[dim] for dim in symbols}
    larger = {dim: _SIZES[dim] + 2 for dim in symbols}
    runs = (usual, least, larger) if symbols else ({},)
    return {dim: named.get(dim, size) for dim, size in texts.items()}, runs


def _inputs(formula: Formula, situation: Situation, dims: Mapping[str, object]) -> dict[str, Variable]:
    """The variables of the inputs by their names in the formula."""
    variables: dict[str, Variable] = {}
    for index, (name, text) in enumerate(formula.inputs.items()):
        own, *rest = text.split() or [""]
        dtype, given = (own, rest) if own in _DTYPES else (situation.dtype, text.split())
        shape = tuple(dims[dim] if dim in dims else int(dim) for dim in given)
        variables[name] = Variable(f"x{index}", jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)))
    if situation.twice is not None:
        kept, replaced = situation.twice
        variables[replaced] = variables[kept]
    return variables


def _call(formula: Formula, situation: Situation, names: Mapping[str, str]) -> str:
    """The expression that calls the formula at its place."""
    first, *others = names.values()
    rest = "".join(f", {name}" for name in others)
    everything = ", ".join(names.values())
    match situation.place:
        case "graph":
            return f"formula({everything})"
        case "branch":
            other = "lambda *a: jax.tree.map(lambda t: t + t, formula(*a))"
            return f"lax.cond(x9, formula, {other}, {everything})"
        case "loop":
            return f"lax.scan(lambda c, t: (c, formula(t{rest})), 0, jnp.stack([{first}, {first} + {first}]))[1]"
        case "vmap":
            return f"jax.vmap(lambda t: formula(t{rest}), 1, 1)(jnp.stack([{first}, {first} + {first}], 1))"
        case "grad":
            total = f"sum(jnp.sum(jnp.cos(y)) for y in jax.tree.leaves(formula(t{rest})))"
            return f"jax.value_and_grad(lambda t: {total})({first})"
