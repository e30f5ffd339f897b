"""Generated tests of what composites claim: changed classes, objects and functions are traced as they are.

For each composite: subclasses that override each method and property that the call uses, and objects that replace them. For
each function of the library that the call uses: one with another result in its place, compared with JAX. For an object that the
composite is written for: each of its methods, properties and fields changed, whether the call uses it or not, compared with JAX.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import types
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import jax
from jax2onnx_core import OnnxProgram
from jax2onnx_core.frontend.activation import activation_window
from jax2onnx_core.frontend.claims import Binding, Claim
from jax2onnx_core.frontend.python_functions import function_behind
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.errors import InputError, OptionError, UnsupportedError
from jax2onnx_core.plugins.rules import CompositeSpec
from jax2onnx_runtime.sizes import Sizes, choose_sizes

from jax2onnx_testing._objects import changes_of, doubled, objects_of, restored, subclass_of
from jax2onnx_testing._transforms import NotApplicableError
from jax2onnx_testing.checks import check_values, run_program
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.targets import explain_failures, explain_refusals
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Built, Variant, build

__all__ = ["CompositeCase", "check_changed", "check_claim", "check_patched", "composite_cases"]


Chosen = TypeVar("Chosen")

#: The ways in which `_errors_of_jax` evaluates a function: traced, and eagerly.
_EVALUATIONS = 2


@dataclasses.dataclass(frozen=True)
class CompositeCase:
    """A composite, and the cases of its distribution that may call its target: first the one that covers it."""

    spec: CompositeSpec
    candidates: tuple[CollectedCase, ...]
    target: str | None = None

    @property
    def id(self) -> str:
        """`flax.linen:Dense.__call__.__wrapped__-linen.linear::dense`"""
        return f"{self.spec.claimed}-{self.candidates[0].id}"


@dataclasses.dataclass(frozen=True)
class _Call:
    """A case that calls the function that a composite claims, with arguments.

    Attributes:
      built: the case.
      program: it exported, as it is.
      sizes: those of the arguments.
      args: the arguments by position.
      kwargs: the arguments by keyword.
    """

    built: Built
    program: OnnxProgram
    sizes: Sizes
    args: Sequence[PyTree]
    kwargs: Mapping[str, PyTree]

    @property
    def function(self) -> Function:
        """The function around models that each call makes anew, as an export does, by the library as it is then."""
        return self.program.reference.with_weights({})


def check_claim(spec: CompositeSpec) -> None:
    """Check that a composite claims the calls of plain subclasses, and not those of changed ones.

    Raises:
      NotApplicableError: the library is not installed, or the target is a function.
      CheckFailedError: a plain subclass is declined, or a changed class or object is claimed.
    """
    claim = _claim(spec)
    owner = claim.owner
    if owner is None:
        raise NotApplicableError(f"{spec.claimed} is not a method.")
    _expect(claim, object.__new__(owner), "an object of the class", changed=False)
    _expect(claim, _object_of(owner, {}), "a subclass that changes nothing", changed=False)
    for name in sorted(name for name in claim.methods if not name.startswith("__")):
        overriding = _object_of(owner, {name: lambda self, *args, **kwargs: None})
        _expect(claim, overriding, f"a subclass that overrides {name}", changed=True)
        if callable(_lookup(owner, name)):
            held = _object_of(owner, {})
            object.__setattr__(held, name, lambda *args, **kwargs: None)
            _expect(claim, held, f"an object that replaces {name}", changed=True)


def composite_cases(
    specs: Mapping[str, Sequence[CompositeSpec]], cases: Sequence[CollectedCase], target: str | None = None
) -> Iterator[CompositeCase]:
    """A test for each composite of a library other than JAX that a case covers.

    Args:
      specs: distribution → its composites.
      cases: the cases, of which those of the same distribution that cover a composite are taken, and those of the same modules.
      target: the target to test for.
    """
    for distribution, declared in specs.items():
        own = [case for case in cases if case.distribution == distribution]
        for spec in declared:
            covering = [case for case in own if spec.name in case.case.covers]
            modules = {case.module for case in covering}
            others = [case for case in own if case.module in modules and case not in covering]
            if covering and spec.claimed.partition(".")[0] != jax.__name__:
                yield CompositeCase(spec, (*covering, *others), target)


def check_patched(test: CompositeCase, count: int | None = None) -> None:
    """Check that a case equals JAX while each of the functions that the composite's function uses has another result.

    Args:
      test: the composite and its cases.
      count: how many of the functions; all if None.

    Raises:
      NotApplicableError: the library is not installed, or fails with each of the functions.
      CheckFailedError: an exported function differs from JAX.
      KnownLimitationError: the variant's target refuses the case, or is known to get it wrong.
    """
    claim = _claim(test.spec)
    library = test.spec.claimed.partition(":")[0].partition(".")[0]
    used = _some([b for b in claim.bindings if _is_function_of(b, library)], test, count)
    call = _calling(test)
    refused = [refusal for binding in used if (refusal := _refusal(test, call, binding))]
    if refused and len(refused) == len(used):
        raise NotApplicableError(refused[0])


def _refusal(test: CompositeCase, call: _Call, binding: Binding) -> str | None:
    """Check a case while a function is changed; a sentence where the library itself fails so, and nothing can be compared."""
    with _changed(binding):
        error = _difference(test, call, call.built, call.function)
    return error and f"With another {binding.place}.{binding.name}, {error}"


def check_changed(test: CompositeCase, count: int | None = None) -> None:
    """Check that a case equals JAX with each change of an object: every method, property and field of its class.

    Args:
      test: the composite and its cases.
      count: how many of the changes; all if None.

    Raises:
      NotApplicableError: the library is not installed, or the cases hold no object of the class before they are called.
      CheckFailedError: an exported function differs from JAX.
      KnownLimitationError: the variant's target refuses the case, or is known to get it wrong.
    """
    owner = _claim(test.spec).owner
    if owner is None:
        raise NotApplicableError(f"{test.spec.claimed} is not a method.")
    call = _calling(test)
    held = objects_of(call.built.fn, owner)
    if not held:
        raise NotApplicableError(
            f"{call.built.variant.id} holds no object of {owner.__qualname__} before it is called."
        )
    wrong = []
    for change in _some(list(changes_of(held[0], test.spec.claimed)), test, count):
        built = build(call.built.variant)
        changed = objects_of(built.fn, owner)[0]
        with restored(changed):
            is_met = change.apply(changed)
            if is_met is None:
                continue
            try:
                _difference(test, call, built, None, is_met)
            except CheckFailedError as error:
                wrong.append(f"With {change.what}: {error}")
    if wrong:
        raise CheckFailedError("\n".join(wrong))


def _some(values: list[Chosen], test: CompositeCase, count: int | None) -> list[Chosen]:
    """`count` of the values, others for each test."""
    first = zlib.crc32(test.id.encode()) % max(len(values), 1)
    return [*values[first:], *values[:first]][:count]


def _difference(
    test: CompositeCase, call: _Call, built: Built, function: Function | None, is_met: Callable[[], bool] = lambda: True
) -> str | None:
    """Check a changed case; a sentence where the library itself fails so, and nothing can be compared.

    Args:
      test: the composite.
      call: the call of the unchanged case.
      built: the changed case.
      function: computes what is exported; None for that of the exported program.
      is_met: whether the export, or JAX, met the change.
    """
    with jax.enable_x64(built.variant.x64), explain_refusals(test.target):
        try:
            program = built.export()
        except (InputError, OptionError, UnsupportedError) as error:
            return f"the export refuses: {error}"
        except Exception as error:
            own = _errors_of_jax(function or built.fn, call)
            # Where every evaluation fails, nothing can be compared; an object that was asked before may fail otherwise then.
            if type(error) not in map(type, own) and len(own) < _EVALUATIONS:
                raise
            return f"the library itself fails: {type(error).__name__}: {error}"
        function = function or program.reference.with_weights({})
        if not is_met() and not _errors_of_jax(function, call) and not is_met():
            return None
        with explain_failures(test.target, program, built.variant.found.id):
            got = run_program(program, call.args, call.kwargs, test.target)
            try:
                want = Reference(function)(call.args, call.kwargs)
            except Exception as error:  # noqa: BLE001
                return f"the library itself fails: {type(error).__name__}: {error}"
            check_values(program, want, built.variant, call.sizes, got)
    return None


def _errors_of_jax(function: Function, call: _Call) -> list[Exception]:
    """The errors with which JAX fails to trace a function, and to evaluate it."""
    errors = (_error_of(evaluate, call) for evaluate in (jax.make_jaxpr(function), function))
    return [error for error in errors if error is not None]


def _error_of(evaluate: Function, call: _Call) -> Exception | None:
    """The error of an evaluation, if it fails: a library that was changed may fail as it likes."""
    try:
        evaluate(*call.args, **call.kwargs)
    except Exception as error:  # noqa: BLE001
        return error
    return None


def _calling(test: CompositeCase) -> _Call:
    """The first of the cases that calls the composite's function."""
    for found in test.candidates:
        variant = Variant(found, "f32", symbolic=False, target=test.target)
        if variant.skip_reason is not None:
            continue
        built = build(variant)
        with explain_refusals(test.target):
            program = built.export()
        sizes = choose_sizes(program.inputs.space(program.traced.out_avals))[0]
        args, kwargs = arguments(program.inputs, built.inputs, sizes, found.case.values, zlib.crc32(test.id.encode()))
        call = _Call(built, program, sizes, args, kwargs)
        if _is_called(test.spec, call):
            return call
    raise NotApplicableError(f"No case of the module of {test.candidates[0].id} calls {test.spec.claimed}.")


def _is_called(spec: CompositeSpec, call: _Call) -> bool:
    """Whether a call calls the function that a composite claims."""
    seen: list[bool] = []

    def record(*args: PyTree, **kwargs: PyTree) -> None:
        seen.append(True)

    with activation_window([dataclasses.replace(spec, fn=record)], object()):
        # Evaluating shows more than tracing only where tracing fails before the call, as at a flag.
        if _error_of(jax.make_jaxpr(call.function), call) is not None and not seen:
            _error_of(call.function, call)
    return bool(seen)


@contextlib.contextmanager
def _changed(binding: Binding) -> Iterator[None]:
    """Inside, the arrays of floats that a function returns are doubled."""
    value = binding.value
    assert isinstance(value, types.FunctionType)

    @functools.wraps(value)
    def other(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return doubled(value(*args, **kwargs))

    holder = _holder(binding)
    setattr(holder, binding.name, other)
    try:
        yield
    finally:
        setattr(holder, binding.name, value)


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
    module = spec.claimed.partition(":")[0]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise NotApplicableError(f"{module} is not installed.") from error
    return Claim(spec.claimed, function_behind(spec.claimed), spec.fn, lambda function: function.__code__)


def _lookup(owner: type, name: str) -> object:
    return next(vars(cls)[name] for cls in owner.__mro__ if name in vars(cls))


def _object_of(owner: type, changes: dict[str, object]) -> object:
    return object.__new__(subclass_of(owner, changes))


def _expect(claim: Claim, held: object, what: str, *, changed: bool) -> None:
    found = claim.change((held,))
    if (found is not None) is not changed:
        raise CheckFailedError(f"The call of {what} is {'claimed' if changed else f'declined: {found}'}.")
