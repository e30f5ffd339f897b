"""Generated tests of what composites claim: changed classes, objects and functions are traced as they are.

For each composite: subclasses that override each method and property that the call uses, and objects that replace them. For
each function of the library that the call uses: one with another result in its place, compared with JAX.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import types
import zlib
from collections.abc import Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core.frontend.claims import Binding, Claim
from jax2onnx_core.frontend.python_functions import function_behind
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.rules import CompositeSpec
from jax2onnx_runtime.sizes import choose_sizes

from jax2onnx_testing._transforms import NotApplicableError
from jax2onnx_testing.checks import check_values, run_program
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.targets import explain_failures, explain_refusals
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Variant, build

__all__ = ["PatchedCase", "check_claim", "check_patched", "patched_cases"]


@dataclasses.dataclass(frozen=True)
class PatchedCase:
    """One test: a case of a composite while a function that the composite's target uses has another result."""

    spec: CompositeSpec
    found: CollectedCase
    target: str | None = None

    @property
    def id(self) -> str:
        """`flax.linen:Dense.__call__.__wrapped__-linen.linear::dense`"""
        return f"{self.spec.target}-{self.found.id}"


def check_claim(spec: CompositeSpec) -> None:
    """Check that a composite claims the calls of plain subclasses, and not those of changed ones.

    Raises:
      NotApplicableError: the library is not installed, or the target is a function.
      CheckFailedError: a plain subclass is declined, or a changed class or object is claimed.
    """
    claim = _claim(spec)
    owner = claim.owner
    if owner is None:
        raise NotApplicableError(f"{spec.target} is not a method.")
    _expect(claim, object.__new__(owner), "an object of the class", changed=False)
    _expect(claim, _object_of(owner, {}), "a subclass that changes nothing", changed=False)
    for name in sorted(name for name in claim.methods if not name.startswith("__")):
        is_read = isinstance(_lookup(owner, name), property) and claim.reads(name)
        changed = property(lambda self: None) if is_read else (lambda self, *args, **kwargs: None)
        _expect(claim, _object_of(owner, {name: changed}), f"a subclass that overrides {name}", changed=not is_read)
        if callable(_lookup(owner, name)):
            held = _object_of(owner, {})
            object.__setattr__(held, name, lambda *args, **kwargs: None)
            _expect(claim, held, f"an object that replaces {name}", changed=True)


def patched_cases(
    specs: Mapping[str, Sequence[CompositeSpec]], cases: Sequence[CollectedCase], target: str | None = None
) -> Iterator[PatchedCase]:
    """A case for each composite of a library other than JAX that one covers.

    Args:
      specs: distribution → its composites.
      cases: the cases, of which the first of the same distribution that covers a composite is taken.
      target: the target to test for.
    """
    for distribution, declared in specs.items():
        for spec in declared:
            covering = [c for c in cases if c.distribution == distribution and spec.name in c.case.covers]
            if covering and spec.target.partition(".")[0] != jax.__name__:
                yield PatchedCase(spec, covering[0], target)


def check_patched(test: PatchedCase, count: int | None = None) -> None:
    """Check that a case equals JAX while each of the functions that the composite's target uses has another result.

    Args:
      test: the case.
      count: how many of the functions; all if None.

    Raises:
      NotApplicableError: the library is not installed.
      CheckFailedError: an exported function differs from JAX.
      KnownLimitationError: the variant's target refuses the case, or is known to get it wrong.
    """
    claim = _claim(test.spec)
    library = test.spec.target.partition(":")[0].partition(".")[0]
    used = [b for b in claim.bindings if _is_function_of(b, library)]
    first = zlib.crc32(test.id.encode()) % max(len(used), 1)
    for binding in [*used[first:], *used[:first]][:count]:
        _check_with(test, binding)


def _check_with(test: PatchedCase, binding: Binding) -> None:
    variant = Variant(test.found, "f32", symbolic=False, target=test.target)
    if variant.skip_reason is not None:
        raise NotApplicableError(variant.skip_reason)
    built, case = build(variant), test.found.case
    with _changed(binding), explain_refusals(test.target):
        program = _export(built.export)
        sizes = choose_sizes(program.inputs.space(program.traced.out_avals))[0]
        args, kwargs = arguments(program, built.inputs, sizes, case.values, zlib.crc32(test.id.encode()))
        with explain_failures(test.target, program, test.found.id):
            got = run_program(program, args, kwargs, test.target)
            check_values(program, Reference(built.fn)(args, kwargs), case, sizes, got)


def _export(export: Function) -> PyTree:
    # With another result of one of its functions a library may fail as it likes: there is nothing to compare then.
    try:
        return export()
    except Exception as error:
        raise NotApplicableError(f"The library itself fails: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _changed(binding: Binding) -> Iterator[None]:
    """Inside, the arrays of floats that a function returns are doubled."""
    value = binding.value
    assert isinstance(value, types.FunctionType)

    @functools.wraps(value)
    def doubled(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return jax.tree.map(_doubled, value(*args, **kwargs))

    holder = _holder(binding)
    setattr(holder, binding.name, doubled)
    try:
        yield
    finally:
        setattr(holder, binding.name, value)


def _doubled(leaf: PyTree) -> PyTree:
    return leaf * 2 if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _is_function_of(binding: Binding, library: str) -> bool:
    value = binding.value
    return (
        isinstance(value, types.FunctionType)
        and value.__module__.partition(".")[0] == library
        and isinstance(binding.namespace, dict)
    )


def _holder(binding: Binding) -> types.ModuleType:
    return importlib.import_module(str(binding.namespace["__name__"]))


def _claim(spec: CompositeSpec) -> Claim:
    module = spec.target.partition(":")[0]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise NotApplicableError(f"{module} is not installed.") from error
    return Claim(spec.target, function_behind(spec.target), spec.fn, lambda function: function.__code__)


def _lookup(owner: type, name: str) -> object:
    return next(vars(cls)[name] for cls in owner.__mro__ if name in vars(cls))


def _object_of(owner: type, changes: dict[str, object]) -> object:
    """An object of a new subclass; the class's hooks see it without the changes, since they may reject or wrap them."""
    made = type(owner)("Changed", (owner,), {"__module__": __name__})
    for name, value in changes.items():
        type.__setattr__(made, name, value)
    return object.__new__(made)


def _expect(claim: Claim, held: object, what: str, *, changed: bool) -> None:
    found = claim.change((held,))
    if (found is not None) is not changed:
        raise CheckFailedError(f"The call of {what} is {'claimed' if changed else f'declined: {found}'}.")
