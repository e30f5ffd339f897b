"""A case, built as float32 or float64, with fixed or with symbolic sizes."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_core import Case, OnnxProgram, errors, to_onnx, with_dtype, with_rngs
from jax2onnx_core.frontend.inputs import Inputs, parse_inputs
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.cases import Construct, Precision
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_runtime.sizes import find_sizes

from jax2onnx_testing.collection import CollectedCase

__all__ = [
    "Built",
    "Precision",
    "Variant",
    "build",
    "fill_in",
    "is_symbolic",
    "main_precision",
    "quick_variants_of",
    "variants_of",
]

PRECISIONS: tuple[Precision, ...] = ("f32", "f64")

_DTYPE_PLACEHOLDER, _RNGS_PLACEHOLDER = type(with_dtype()), type(with_rngs(0))
# Of so many cases the quick suite checks one in double precision.
_EVERY = 12
_SIZES = (3, 5, 7, 4, 6, 8, 2, 9, 12, 1)


@dataclasses.dataclass(frozen=True)
class Variant:
    """One test of a case.

    Attributes:
      found: the case.
      precision: the precision of its floats.
      symbolic: whether dimensions are symbolic, if the case has names for them.
      target: the target that the tests are for; None for the default one.
      size: that of each dimension with a name, if they are not symbolic; None for small sizes that the constraints allow.
    """

    found: CollectedCase
    precision: Precision
    symbolic: bool
    target: str | None = None
    size: int | None = None

    @property
    def id(self) -> str:
        """`lax.elementwise.arithmetic::exp[f32-static]`"""
        return f"{self.found.id}[{self.precision}-{'symbolic' if self.symbolic else 'static'}]"

    @property
    def x64(self) -> bool:
        """Whether JAX's 64-bit types are enabled."""
        return self.precision == "f64"

    @property
    def skip_reason(self) -> str | None:
        """Reason to skip this variant: that of its case, or that it is about another target."""
        own = self.found.case.options.get("target", self.target)
        if self.target is not None and own != self.target:
            return f"The case is about the target {own!r}."
        return self.found.case.skip.get(self.precision)

    @property
    def is_expected(self) -> bool:
        """Whether `expect` and `check` of the case are asserted of this variant: float32 unless the case skips it, symbolic if possible, for
        the default target.
        """
        case = self.found.case
        return self.target is None and self.precision == main_precision(case) and self.symbolic == is_symbolic(case)


@dataclasses.dataclass(frozen=True)
class Built:
    """A variant ready to export: the callable anew, inputs and options as `to_onnx` takes them."""

    variant: Variant
    fn: Function
    inputs: Sequence[PyTree]
    options: Mapping[str, Any]

    def export(self) -> OnnxProgram:
        """Export the callable."""
        with _without_warnings():
            return to_onnx(self.fn, self.inputs, **self.options)

    def parsed(self) -> Inputs:
        """The inputs as an export reads them, without the export; JAX's 64-bit types are to be enabled as it enables them."""
        with _without_warnings():
            kwargs, constraints = self.options.get("kwargs", {}), self.options.get("constraints", ())
            return parse_inputs(self.fn, list(self.inputs), kwargs, constraints)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress warnings that a case means to cause: training mode, 64-bit inputs in a variant of single precision."""
    with warnings.catch_warnings(action="ignore", category=errors.ExportWarning):
        yield


def variants_of(
    found: CollectedCase, precisions: Sequence[Precision] = PRECISIONS, target: str | None = None
) -> Iterator[Variant]:
    """Every variant of a case, in a fixed order.

    Args:
      found: the case.
      precisions: which of them there are to be.
      target: the target that the tests are for; None for the default one.
    """
    kinds = (False, True) if is_symbolic(found.case) else (False,)
    for precision, symbolic in itertools.product(precisions, kinds):
        yield Variant(found, precision, symbolic, target)


def quick_variants_of(
    found: CollectedCase, precisions: Sequence[Precision], number: int, target: str | None = None
) -> Iterator[Variant]:
    """One variant of a case as float32 (as float64 if that is skipped), symbolic if it can be; of every twelfth case one as float64 too.

    Args:
      found: the case.
      precisions: which of them there are to be.
      number: that of the case, by which every twelfth is found.
      target: the target that the tests are for; None for the default one.
    """
    for precision in precisions:
        if precision == main_precision(found.case) or number % _EVERY == 0:
            yield Variant(found, precision, is_symbolic(found.case), target)


def main_precision(case: Case) -> Precision:
    """The precision of the variant of which the case says what it expects: float32, unless it is skipped."""
    return "f64" if "f32" in case.skip else "f32"


def is_symbolic(case: Case) -> bool:
    """Whether an input of the case has a symbolic dimension."""
    return any(map(has_symbols, [*case.inputs, *case.options.get("kwargs", {}).values()]))


def has_symbols(specs: PyTree) -> bool:
    """Whether a shape in these input specifications has a name or None for a dimension."""
    if isinstance(specs, Mapping):
        return any(has_symbols(v) for v in specs.values())
    if isinstance(specs, tuple) and len(specs) == 2 and isinstance(specs[0], tuple) and isinstance(specs[1], str):
        return has_symbols(specs[0])
    if isinstance(specs, list):
        return any(map(has_symbols, specs))
    if isinstance(specs, tuple):
        return any(isinstance(d, str) or d is None or has_symbols(d) for d in specs)
    return isinstance(specs, jax.ShapeDtypeStruct) and any(not isinstance(d, int) for d in specs.shape)


def fill_in(value: Any, precision: Precision) -> Any:
    """`value` with its placeholders replaced and its `construct(...)`s built."""
    if isinstance(value, Construct):
        kwargs = {k: fill_in(v, precision) for k, v in value.kwargs.items()}
        return value.factory(*(fill_in(a, precision) for a in value.args), **kwargs)
    if isinstance(value, _DTYPE_PLACEHOLDER):
        return np.dtype(np.float64 if precision == "f64" else np.float32)
    if isinstance(value, _RNGS_PLACEHOLDER):
        from flax import nnx

        return nnx.Rngs(value.seed)
    if type(value) in (list, tuple):
        return type(value)(fill_in(v, precision) for v in value)
    return {k: fill_in(v, precision) for k, v in value.items()} if type(value) is dict else value


def build(variant: Variant) -> Built:
    """Make the callable, the inputs and the options of a variant."""
    case = variant.found.case
    with jax.enable_x64(variant.x64):
        fn = fill_in(case.fn, variant.precision)
        inputs = [_in_precision(spec, variant.precision) for spec in case.inputs]
        options = {"x64": variant.x64, **case.options}
        if variant.target is not None:
            options["target"] = variant.target
        if "kwargs" in options:
            options["kwargs"] = {k: _in_precision(v, variant.precision) for k, v in options["kwargs"].items()}
        built = Built(variant, fn, inputs, options)
        return built if variant.symbolic or not is_symbolic(case) else _fixed(built)


def _in_precision(spec: PyTree, precision: Precision) -> PyTree:
    """An array with the float dtype of the variant; other specifications as they are."""
    if isinstance(spec, (np.ndarray, jax.Array)) and spec.dtype in (np.float32, np.float64):
        return spec.astype(np.float64 if precision == "f64" else np.float32)
    return spec


def _fixed(built: Built) -> Built:
    """The variant with a number for each symbol, its `size` if there is one, and without the options about symbols."""
    parsed, size = built.parsed(), built.variant.size
    given = built.options.get("specialize") or {}
    sizes = _sizes(parsed, given) if size is None else {**dict.fromkeys(parsed.space().names, size), **given}
    traced = parsed.symbols.traced_values(sizes)
    leaves = [
        jax.ShapeDtypeStruct(tuple(evaluate_dim(d, traced) for d in aval.shape), aval.dtype, weak_type=aval.weak_type)
        for aval in parsed.avals
    ]
    args, kwargs = jax.tree_util.tree_unflatten(parsed.tree, leaves)
    fixed = {k: v for k, v in built.options.items() if k not in ("constraints", "specialize", "kwargs")}
    if kwargs:
        fixed["kwargs"] = kwargs
    inputs = [a if isinstance(a, (np.ndarray, jax.Array)) else b for a, b in zip(built.inputs, args, strict=True)]
    return dataclasses.replace(built, inputs=inputs, options=fixed)


def _sizes(parsed: Inputs, given: Mapping[str, int]) -> dict[str, int]:
    """The first sizes that the constraints allow, small ones before others, and another one for each symbol if possible."""
    space = parsed.space()
    names = [name for name in space.names if name not in given]
    shifts = [i % len(_SIZES) for i in range(len(names))]
    candidates = {name: _SIZES[k:] + _SIZES[:k] for name, k in zip(names, shifts, strict=True)}
    return find_sizes(space, candidates, given, distinct=True)
