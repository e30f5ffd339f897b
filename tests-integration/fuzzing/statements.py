"""Filling templates of the catalogue with values: what the holes of a template mean, and how one is chosen.

A hole `{name:meaning}` is one of

* a value, by its kind (`any number real float complex int bool`, or a dtype), then perhaps its rank: `{x:float.2}` has at least
  two axes, `{x:float=2}` exactly two;
* `like x`: a value of the dtype and, most often, the shape of `x`;
* `axis x`, `permutation x`, `slices x`: one of its axes, all of them in some order, what stands in brackets after it;
* `constant x`: a Python number that the dtype of `x` holds;
* `dtype`, `1..5`, `a|b|c`: a dtype, a number, one of these texts;
* `body t x`, `rows t x`, `step t`: an expression in the variable `t`, which stands for `x`, for a row of `x`, or for something to which
  only statements are applied that keep its shape.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import jax
import jax.numpy as jnp

from fuzzing import catalogue

__all__ = ["GROUPS", "Impossible", "Variable", "Writer"]


class Impossible(Exception):  # noqa: N818 - no error: another template is chosen
    """An error: no value fits a hole of the template."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """A value of the program: its name, dtype and shape."""

    name: str
    aval: jax.ShapeDtypeStruct

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.aval.shape)

    def with_dtype(self, dtype: str) -> Variable:
        """The variable with another dtype."""
        return Variable(self.name, jax.ShapeDtypeStruct(self.aval.shape, jnp.dtype(dtype)))

    @property
    def dims(self) -> tuple[int | str, ...]:
        """The shape as `to_onnx` takes it."""
        return tuple(d if isinstance(d, int) else str(d) for d in self.aval.shape)


GROUPS = {
    "elementwise": catalogue.ELEMENTWISE.strip().splitlines(),
    "arrays": catalogue.ARRAYS.strip().splitlines(),
    "higher order": catalogue.HIGHER_ORDER.strip().splitlines(),
}
"""The templates, in groups."""

_WEIGHTS = {"elementwise": 6, "arrays": 10, "higher order": 3}
_HOLE = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_VALUE = re.compile(r"(\w+?)(?:([.=])(\d))?$")
_DTYPES = ("float32", "int32", "bool", "float16", "bfloat16", "int8", "uint8", "uint32", "int16", "uint16", "complex64")
_DTYPES_64 = (*_DTYPES, "float64", "int64", "uint64", "float64", "int64", "complex128")
_KINDS: dict[str, tuple[Any, ...]] = {
    "any": (jnp.generic,),
    "number": (jnp.number,),
    "real": (jnp.integer, jnp.floating),
    "float": (jnp.floating,),
    "complex": (jnp.complexfloating,),
    "int": (jnp.integer,),
    "bool": (jnp.bool_,),
}
_USUAL = {"number": "float32", "real": "float32", "float": "float32", "complex": "complex64", "int": "int32"}
_DEPENDENT = {"like", "axis", "permutation", "slices", "constant", "body", "rows", "step"}
_SLICES = ("1:", ":-1", "::2", "::-1", ":2", "-2:", "1:3", "2:2", "-1::-2", "5:", "...", "0", "-1", "None", ":")
_CONSTANTS = {
    "float": ("0", "1", "-1", "2", "0.5", "-1.5", "1e-3", "3.0", "10.0", "0.1"),
    "int": ("0", "1", "2", "3", "7"),
    "bool": ("True", "False"),
}


class Writer:
    """Writes random expressions over the variables of a program.

    Args:
      random: the source of chance.
      variables: what there is to compute with.
      x64: whether 64-bit types may be used.
    """

    def __init__(self, random: Random, variables: Sequence[Variable], *, x64: bool) -> None:
        self._random, self._variables, self._x64 = random, variables, x64

    def statement(self, groups: Sequence[str] = tuple(GROUPS)) -> str:
        """An expression from these groups of the catalogue. Raises `Impossible`."""
        group = self._random.choices(groups, [_WEIGHTS[name] for name in groups])[0]
        return self.fill(self._random.choice(GROUPS[group]))

    def fill(self, template: str) -> str:
        """The template with all its holes filled."""
        chosen: dict[str, Variable] = {}
        holes = [(name, meaning) for name, meaning in _HOLE.findall(template) if meaning]
        # What depends on a value comes after it, wherever it stands.
        holes.sort(key=lambda hole: hole[1].split()[0] in _DEPENDENT)
        texts = {name: self._hole(name, meaning, chosen) for name, meaning in holes}
        return _HOLE.sub(lambda match: texts[match[1]], template)

    def _hole(self, name: str, meaning: str, chosen: dict[str, Variable]) -> str:  # noqa: C901 - a table
        match meaning.split():
            case ["axis", model]:
                return self._axis(chosen[model])
            case ["permutation", model]:
                return str(tuple(self._random.sample(range(chosen[model].rank), chosen[model].rank)))
            case ["slices", model]:
                return self._slices(chosen[model])
            case ["constant", model]:
                return self._constant(chosen[model])
            case ["dtype"]:
                return repr(self._random.choice(_DTYPES_64 if self._x64 else _DTYPES))
            case ["body", variable, model]:
                return self._nested(Variable(variable, chosen[model].aval), ("elementwise", "arrays"))
            case ["rows", variable, model]:
                return self._nested(Variable(variable, _row(chosen[model].aval)), ("elementwise", "arrays"))
            case ["step", variable]:
                return self._nested(Variable(variable, next(iter(chosen.values())).aval), ("elementwise",))
            case ["like", model]:
                chosen[name] = self._like(chosen[model])
            case [text] if ".." in text:
                low, high = text.split("..")
                return str(self._random.randint(int(low), int(high)))
            case _ if "|" in meaning:
                return self._random.choice(meaning.split("|"))
            case _:
                chosen[name] = self._value(meaning)
        return chosen[name].name

    def _value(self, meaning: str) -> Variable:
        match = _VALUE.match(meaning)
        assert match is not None, meaning
        kind, relation, number = match.groups()
        fitting = [v for v in self._variables if _has_rank(v, relation, number)]
        if not fitting:
            raise Impossible(meaning)
        exact = [v for v in fitting if _is_kind(v, kind)]
        if exact and self._random.random() < 0.97:
            # What was computed last is used most, so that statements depend on each other.
            return self._random.choices(exact, range(1, len(exact) + 1))[0]
        return self._cast(self._random.choice(fitting), _USUAL.get(kind, kind))

    def _cast(self, variable: Variable, dtype: str) -> Variable:
        if dtype == "any":
            return variable
        if jnp.issubdtype(variable.aval.dtype, jnp.complexfloating) and not dtype.startswith("complex"):
            return Variable(f"{variable.name}.real.astype({dtype!r})", _with_dtype(variable.aval, dtype))
        return Variable(f"{variable.name}.astype({dtype!r})", _with_dtype(variable.aval, dtype))

    def _like(self, model: Variable) -> Variable:
        same = [v for v in self._variables if v.aval.shape == model.aval.shape]
        same_dtype = [v for v in same if v.aval.dtype == model.aval.dtype]
        choice = self._random.random()
        if same_dtype and choice < 0.7:
            return self._random.choice(same_dtype)
        if same and choice < 0.8:
            return self._cast(self._random.choice(same), model.aval.dtype.name)
        if model.rank and choice < 0.9:
            return Variable(f"{model.name}[..., :1]", model.aval)
        if model.rank and choice < 0.95:
            return Variable(f"{model.name}[:1]", model.aval)
        return Variable(f"jnp.flip({model.name})", model.aval)

    def _axis(self, model: Variable) -> str:
        return str(self._random.randint(-model.rank, model.rank - 1)) if model.rank else "0"

    def _slices(self, model: Variable) -> str:
        parts = [self._random.choice(_SLICES) for _ in range(self._random.randint(1, max(1, model.rank)))]
        first = parts.index("...") if "..." in parts else len(parts)
        return ", ".join(p for i, p in enumerate(parts) if p != "..." or i == first)

    def _constant(self, model: Variable) -> str:
        dtype = model.aval.dtype
        kind = "bool" if dtype == jnp.bool_ else "int" if jnp.issubdtype(dtype, jnp.integer) else "float"
        return self._random.choice(_CONSTANTS[kind])

    def _nested(self, variable: Variable, groups: Sequence[str]) -> str:
        return Writer(self._random, [variable], x64=self._x64).statement(groups)


def _row(aval: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape[1:], aval.dtype)


def _has_rank(variable: Variable, relation: str | None, number: str | None) -> bool:
    if relation is None or number is None:
        return True
    return variable.rank == int(number) if relation == "=" else variable.rank >= int(number)


def _is_kind(variable: Variable, kind: str) -> bool:
    if kind in _KINDS:
        return any(jnp.issubdtype(variable.aval.dtype, parent) for parent in _KINDS[kind])
    return variable.aval.dtype.name == kind


def _with_dtype(aval: jax.ShapeDtypeStruct, dtype: str) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, jnp.dtype(dtype))
