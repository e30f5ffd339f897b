"""Generated tests of composites: their cases under JAX's transformations, in threads, and after errors."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.frontend.python_functions import function_behind
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_core.plugins.rules import CompositeSpec
from jax2onnx_graph.arrays import Array

from jax2onnx_testing.checks import assert_close, run_program
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.targets import explain_failures, explain_refusals
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Built, Variant, build

__all__ = ["TRANSFORMS", "NotApplicableError", "Transformed", "check_transformed", "composite_names",
           "covered_composites", "transformations"]  # fmt: skip

Arguments = Sequence[PyTree]
Transform = Callable[[Function, Arguments], tuple[Function, Arguments]]


class NotApplicableError(Exception):
    """The transformation does not apply to the function, in JAX itself; the message says why."""


@dataclasses.dataclass(frozen=True)
class Transformed:
    """One test: a case under a transformation."""

    found: CollectedCase
    transform: str
    target: str | None = None

    @property
    def id(self) -> str:
        """`lax.nn.activations::gelu[vmap]`"""
        return f"{self.found.id}[{self.transform}]"


def composite_names() -> set[str]:
    """The names of all composites that the installed plugins declare."""
    return {spec.name for spec in installed_plugins().registry.composites}


def covered_composites(found: CollectedCase) -> Iterator[CompositeSpec]:
    """The composites of a case's distribution that the case covers."""
    registry = installed_plugins().registry
    for spec in registry.composites:
        if spec.name in found.case.covers and registry.owners[f"composite of {spec.claimed}"] == found.distribution:
            yield spec


def transformations(
    cases: Sequence[CollectedCase], *, quick: bool = False, target: str | None = None
) -> Iterator[Transformed]:
    """Every transformation of each case that covers a composite.

    Args:
      cases: all of them.
      quick: one transformation of the first case of each composite, another for each.
      target: the target that the tests are for; None for the default one.
    """
    names = (*TRANSFORMS, *_SURROUNDINGS)
    remaining = composite_names()
    for number, found in enumerate(cases):
        if covered := remaining.intersection(found.case.covers):
            chosen = [names[number % len(names)]] if quick else names
            remaining -= covered if quick else set()
            yield from (Transformed(found, name, target) for name in chosen)


# The transformations: from a function and its arguments to the transformed function and its arguments.


def _stacked(args: Arguments, count: int = 2) -> list[PyTree]:
    return [jax.tree.map(lambda x: _repeated(x, count), arg) for arg in args]


def _repeated(x: jax.Array, count: int) -> jax.Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.extended):
        return jnp.stack([x] * count)
    return jax.device_put(np.stack([x] * count))  # JAX would compile a program for each shape


def _vmap(fn: Function, args: Arguments) -> tuple[Function, Arguments]:
    return jax.vmap(fn), _stacked(args)


def _vmap_twice(fn: Function, args: Arguments) -> tuple[Function, Arguments]:
    return jax.vmap(jax.vmap(fn)), _stacked(_stacked(args, 3))


def _is_float(x: jax.Array) -> bool:
    return bool(jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating))


def _float_sum(fn: Function) -> Function:
    def total(*args: PyTree) -> PyTree:
        leaves = [leaf for leaf in jax.tree.leaves(fn(*args)) if _is_float(leaf)]
        if not leaves:
            raise NotApplicableError("The function has no float output.")
        # With equal weights, the gradient of what is normalised would be rounding noise.
        weights = [jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape) for leaf in leaves]
        return sum(jnp.sum(leaf * weight) for leaf, weight in zip(leaves, weights, strict=True))

    return total


def _float_positions(args: Arguments) -> tuple[int, ...]:
    positions = tuple(i for i, arg in enumerate(args) if all(map(_is_float, jax.tree.leaves(arg))))
    if not positions:
        raise NotApplicableError("The function has no float input.")
    return positions


def _grad(fn: Function, args: Arguments) -> tuple[Function, Arguments]:
    return jax.grad(_float_sum(fn), argnums=_float_positions(args)), args


def _jvp(fn: Function, args: Arguments) -> tuple[Function, Arguments]:
    positions = _float_positions(args)

    def pushed(*operands: PyTree) -> PyTree:
        def of_floats(*floats: PyTree) -> PyTree:
            full = list(operands)
            for position, value in zip(positions, floats, strict=True):
                full[position] = value
            return fn(*full)

        primals = tuple(operands[i] for i in positions)
        return jax.jvp(of_floats, primals, jax.tree.map(_direction, primals))[1]

    return pushed, args


def _direction(x: jax.Array) -> jax.Array:
    """A tangent whose elements differ: along equal ones, normalisations do not change."""
    return jnp.cos(jnp.arange(x.size)).reshape(x.shape).astype(x.dtype)


def _scan(fn: Function, args: Arguments) -> tuple[Function, Arguments]:
    def scanned(*stacked: PyTree) -> PyTree:
        return jax.lax.scan(lambda carry, xs: (carry + 1, fn(*xs)), 0, stacked)[1]

    return scanned, _stacked(args)


def _cond(fn: Function, args: Arguments) -> tuple[Function, Arguments]:
    def chosen(predicate: jax.Array, *operands: PyTree) -> PyTree:
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(fn, *operands))
        return jax.lax.cond(predicate, lambda *xs: fn(*xs), lambda *xs: zeros, *operands)

    return chosen, [jax.device_put(True), *args]


def _jitted(fn: Function, args: Arguments) -> tuple[Function, Arguments]:
    # The reference is computed first: what JAX cached then must not hide the composites, nor the other way round.
    return jax.jit(fn), args


TRANSFORMS: Mapping[str, Transform] = {
    "vmap": _vmap,
    "vmap_vmap": _vmap_twice,
    "grad": _grad,
    "jvp": _jvp,
    "scan": _scan,
    "cond": _cond,
    "jitted": _jitted,
}


def check_transformed(test: Transformed) -> None:
    """Export the transformed function, compare it with JAX, and see that nothing stays patched.

    Raises:
      NotApplicableError: JAX itself cannot transform the function so.
      CheckFailedError: the exported function differs.
      KnownLimitationError: the target refuses it, or is known to get it wrong.
    """
    variant = Variant(test.found, "f32", symbolic=False, target=test.target)
    built, case = build(variant), test.found.case
    with jax.enable_x64(variant.x64):
        if test.transform in _SURROUNDINGS:
            with explain_refusals(test.target):
                _SURROUNDINGS[test.transform](built, _arguments(built, test))
            return
        function, args = TRANSFORMS[test.transform](_as_function(built), _arguments(built, test))
        want = _reference(function, args)
        before = patched_targets()
        specs = [jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arg) for arg in args]
        options = {k: v for k, v in built.options.items() if k in ("opset", "target", "plugins", "x64")}
        with explain_refusals(test.target):
            program = to_onnx(function, specs, **options)
        if patched_targets() != before:
            raise CheckFailedError("After the export, a function of the user's framework is still replaced.")
        if test.transform == "vmap":
            _check_kept(test, built, program, len(jax.tree.leaves(args)))
        with explain_failures(test.target, program, test.found.id):
            got = run_program(program, args, {}, test.target)
            for name, wanted, array in zip(program.output_names, want, got, strict=True):
                what = f"Output {name!r} under {test.transform}"
                assert_close(array, wanted, what, case.values, *case.tolerances(variant.precision))


def _check_kept(test: Transformed, built: Built, program: OnnxProgram, mapped_inputs: int) -> None:
    """Check that operations stay whole under `jax.vmap` if they say so, be it of all operands or of one."""
    for spec in covered_composites(test.found):
        if not spec.keep_under_vmap or (isinstance(spec.keep_under_vmap, tuple) and mapped_inputs > 1):
            continue
        usual, mapped = ([way for way in one.log.ways if way[0] == spec.name] for one in (built.export(), program))
        if mapped != usual:
            raise CheckFailedError(f"Under vmap {spec.name} is lowered in another way: {mapped} instead of {usual}.")


def _as_function(built: Built) -> Function:
    def function(*args: PyTree) -> PyTree:
        return built.fn(*args)

    return function


def _arguments(built: Built, test: Transformed) -> list[PyTree]:
    if built.options.get("kwargs"):
        raise NotApplicableError("The case has keyword inputs.")
    args, _ = arguments(built.parsed(), built.inputs, {}, test.found.case.values, zlib.crc32(test.id.encode()))
    return [jax.tree.map(jax.device_put, arg) for arg in args]


def _reference(function: Function, args: Arguments) -> list[Array]:
    # The user's frameworks and JAX raise what they like where a transformation does not exist
    # for a function; there is nothing to convert then, and the test says why.
    try:
        return Reference(function)(tuple(args), {})
    except NotApplicableError:
        raise
    except Exception as error:
        raise NotApplicableError(f"JAX itself cannot: {type(error).__name__}: {error}") from error


# Tests of an export's surroundings.


class _StopError(Exception):
    pass


def _check_exception(built: Built, args: Arguments) -> None:
    """Check that nothing stays patched after an error in the user's function."""

    def failing(*operands: PyTree) -> PyTree:
        built.fn(*operands)
        raise _StopError

    before = patched_targets()
    try:
        to_onnx(failing, [jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arg) for arg in args])
    except _StopError:
        pass
    else:
        raise CheckFailedError("An exception in the user's function was swallowed.")
    if patched_targets() != before:
        raise CheckFailedError("After a failed export, a function of the user's framework is still replaced.")


def _check_threads(built: Built, args: Arguments) -> None:
    """Check that two threads that export while a third one computes get the same results as alone."""
    before, reference = patched_targets(), Reference(built.fn)
    alone, want = built.export().model_proto.SerializeToString(deterministic=True), reference(tuple(args), {})
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        exports = [pool.submit(lambda: built.export().model_proto.SerializeToString(deterministic=True)) for _ in "ab"]
        computed = pool.submit(lambda: Reference(built.fn)(tuple(args), {}))
    if any(export.result() != alone for export in exports):
        raise CheckFailedError("An export in a thread is not the one that a single thread makes.")
    for wanted, array in zip(want, computed.result(), strict=True):
        assert_close(array, wanted, "The result of JAX while other threads export")
    if patched_targets() != before:
        raise CheckFailedError("After exports in threads, a function of the user's framework is still replaced.")


_SURROUNDINGS: Mapping[str, Callable[[Built, Arguments], None]] = {
    "exception": _check_exception,
    "threads": _check_threads,
}


def patched_targets() -> dict[str, int]:
    """Target → the `id` of the code that its function has now, for every composite whose module is imported."""
    specs = installed_plugins().registry.composites
    return {
        s.claimed: id(function_behind(s.claimed).__code__) for s in specs if s.claimed.partition(":")[0] in sys.modules
    }
