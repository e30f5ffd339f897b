"""Generated tests of what composites compute: their cases with NaN, infinities, zeros, large and small numbers, at sizes 0, 1 and more.

A crisp operator stands for a formula only where it means the same for every number and every size. The rule of each
composite is compared with JAX for the layer itself, for a subclass that changes nothing, and under vmap, scan and grad.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_runtime.sizes import choose_sizes

from jax2onnx_testing._objects import objects_of, owner_of, restored, subclass_of
from jax2onnx_testing._transforms import TRANSFORMS, NotApplicableError, composite_names, covered_composites
from jax2onnx_testing.checks import assert_close, run_program
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError, KnownLimitationError
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.targets import explain_failures, explain_refusals, explanation
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Built, Variant, build, is_symbolic

__all__ = ["FORMS", "NUMBERS", "AdversarialCase", "adversarial_cases", "check_adversarial"]

#: Name → numbers that are mixed into the inputs, one kind in each run. The squares of the large ones are no overflow: where
#: JAX's own intermediate results overflow, the order of its sums decides what comes out.
NUMBERS: Mapping[str, Sequence[float]] = {
    "NaN": (np.nan,),
    "infinities": (np.inf, -np.inf),
    "zeros": (0.0, -0.0),
    "large": (1e18, -1e15, 1e10),
    "small": (2e-38, -1e-30, 1e-10),
}
#: In a loop and in derivatives, rounding of large and small numbers is that of the compiler.
_ROUNDED = {"scan": {"large", "small"}, "grad": {"large", "small"}}
#: What is made of a case: the case itself, one of a plain subclass of its layer, or the case under a transformation; with the
#: sizes of symbols that each has, None for those that symbolic dimensions, or static ones by default, get.
FORMS: Mapping[str, Sequence[int | None]] = {
    "class": (None, 1, 0),
    "subclass": (None,),
    "vmap": (None, 1, 0),
    "scan": (None,),
    "grad": (None, 1, 0),
}


@dataclasses.dataclass(frozen=True)
class AdversarialCase:
    """One test: a case of a composite in one form.

    Attributes:
      found: the case.
      form: one of `FORMS`.
      size: that of all symbols; None for several sizes.
      target: the target that the tests are for; None for the default one.
    """

    found: CollectedCase
    form: str
    size: int | None = None
    target: str | None = None

    @property
    def id(self) -> str:
        """`linen.linear::dense[vmap-1]`"""
        return f"{self.found.id}[{self.form}{'' if self.size is None else f'-{self.size}'}]"


def adversarial_cases(cases: Sequence[CollectedCase], target: str | None = None) -> Iterator[AdversarialCase]:
    """Every form and size of the first case of each composite.

    Args:
      cases: all of them.
      target: the target that the tests are for; None for the default one.
    """
    remaining: dict[str, set[str]] = collections.defaultdict(composite_names)
    for found in cases:
        covered = remaining[found.distribution].intersection(found.case.covers)
        remaining[found.distribution] -= covered
        if covered and found.case.values in ("finite", "special"):
            pairs = [(form, size) for form, sizes in FORMS.items() for size in sizes]
            symbolic = is_symbolic(found.case)
            yield from (AdversarialCase(found, *pair, target) for pair in pairs if symbolic or pair[1] is None)


def check_adversarial(test: AdversarialCase) -> None:
    """Check a case in one form against JAX, with each kind of `NUMBERS`.

    An element is right if it is that of JAX compiled, or that of JAX evaluated operation by operation: where both differ, the
    compiler's own rounding decides.

    Raises:
      NotApplicableError: JAX itself cannot transform the function so, or compute it at this size.
      CheckFailedError: a result differs.
      KnownLimitationError: the target refuses the case, or is known to get it wrong.
    """
    case = test.found.case
    symbolic = test.size is None and test.form in ("class", "subclass") and is_symbolic(case)
    built = build(Variant(test.found, "f32", symbolic=symbolic, target=test.target, size=test.size))
    if built.variant.skip_reason is not None:
        raise NotApplicableError(built.variant.skip_reason)
    with jax.enable_x64(built.variant.x64):
        function, program, specs = _exported(test, built)
        try:
            with explain_failures(test.target, program, test.found.id):
                _check_numbers(test, function, program, specs)
        except CheckFailedError as error:
            known = _limitation(program, test.found, str(error))
            if known is None:
                raise
            raise KnownLimitationError(known.reason) from error


def _limitation(program: OnnxProgram, found: CollectedCase, message: str) -> Limitation | None:
    """The limitation of a plugin, of the target or of the runtime that explains why a case fails; None if none does."""
    plugins = installed_plugins().manager.get_plugins()
    own = (one for plugin in plugins for one in vars(plugin).get("LIMITATIONS", ()))
    known = (one for one in own if one.explains(program.model, found.id, message))
    return next(known, None) or explanation(program, found.id, message)


def _exported(test: AdversarialCase, built: Built) -> tuple[Function, OnnxProgram, Sequence[PyTree]]:
    """The results of JAX, the exported form, and its inputs as they were given."""
    if test.form not in TRANSFORMS:
        program = _export(test, built.export, built.fn, built)
        if test.form == "subclass":
            program = _of_subclass(test, built, program)
        return program.reference.with_weights({}), program, built.inputs
    if built.options.get("kwargs"):
        raise NotApplicableError("The case has keyword inputs.")
    given = [jax.tree.map(jax.device_put, arg) for arg in arguments(built.parsed(), built.inputs, {}, "finite", 0)[0]]
    function, args = TRANSFORMS[test.form](lambda *operands: built.fn(*operands), given)
    specs = [jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arg) for arg in args]
    options = {k: v for k, v in built.options.items() if k in ("opset", "target", "plugins", "x64")}
    return function, _export(test, lambda: to_onnx(function, specs, **options), function, built, args), specs


def _of_subclass(test: AdversarialCase, built: Built, program: OnnxProgram) -> OnnxProgram:
    """The program of the case with layers of subclasses that change nothing, which is that of the layers themselves."""
    owners = [owner for spec in covered_composites(test.found) if (owner := owner_of(spec.claimed)) is not None]
    layers = [layer for owner in owners for layer in objects_of(built.fn, owner)]
    if not layers:
        raise NotApplicableError("The case holds no layer before it is called.")
    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.enter_context(restored(layer))
            object.__setattr__(layer, "__class__", subclass_of(type(layer), {}))
        found = _export(test, built.export, built.fn, built)
    if _operators(found) != _operators(program):
        raise CheckFailedError(
            f"A subclass that changes nothing is exported as {dict(_operators(found))} instead of {dict(_operators(program))}."
        )
    return found


def _export(
    test: AdversarialCase,
    export: Callable[[], OnnxProgram],
    function: Function,
    built: Built,
    args: Sequence[PyTree] = (),
) -> OnnxProgram:
    """An export; NotApplicableError where JAX itself cannot compute the function at this size, or transform it."""
    with explain_refusals(test.target):
        try:
            return export()
        except Exception as error:
            if test.size is None and test.form not in TRANSFORMS:
                raise
            try:
                jax.eval_shape(function, *(args or built.inputs))
            except Exception as own:  # noqa: BLE001
                raise NotApplicableError(f"JAX itself cannot: {type(own).__name__}: {own}") from error
            raise


def _operators(program: OnnxProgram) -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in all_nodes(program.model))


def _check_numbers(test: AdversarialCase, function: Function, program: OnnxProgram, specs: Sequence[PyTree]) -> None:
    reference = Reference(function)
    seed = zlib.crc32(test.id.encode())
    for sizes in choose_sizes(program.inputs.space(program.traced.out_avals)):
        drawn = arguments(program.inputs, specs, sizes, "finite", seed)
        names = NUMBERS.keys() - _ROUNDED.get(test.form, ())
        calls = {name: _mixed(drawn, specs, NUMBERS[name], seed) for name in sorted(names)}
        try:
            wanted = reference.of_calls(list(calls.values()))
        except Exception as error:
            # A check of the function at run time refuses such numbers, or the library this size or form, which the export can do.
            usual = test.size is None and test.form not in TRANSFORMS
            if usual and not isinstance(error, jax.errors.JaxRuntimeError):
                raise
            raise NotApplicableError(f"JAX itself fails: {type(error).__name__}: {error}") from error
        for (name, (args, kwargs)), want in zip(calls.items(), wanted, strict=True):
            got = run_program(program, args, kwargs, test.target)
            try:
                _compare(test, program, got, want, name)
            except CheckFailedError:
                _compare(test, program, got, reference.evaluated(args, kwargs), name)


def _mixed(
    call: tuple[Sequence[PyTree], Mapping[str, PyTree]], specs: Sequence[PyTree], numbers: Sequence[float], seed: int
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """The arguments with such numbers in about a quarter of the elements; arrays that were given stay."""
    random = np.random.default_rng(seed)

    def mixed(leaf: PyTree) -> PyTree:
        if not jnp.issubdtype(leaf.dtype, jnp.floating) or not leaf.size:
            return leaf
        array = np.array(leaf)
        places = random.permutation(array.size)[: max(1, array.size // 4)]
        array.reshape(-1)[places] = np.resize(np.array(numbers), len(places)).astype(array.dtype)
        return jax.device_put(array)

    given = (np.ndarray, jax.Array, np.generic)
    args, kwargs = call
    mixed_args = [
        arg if isinstance(spec, given) else jax.tree.map(mixed, arg) for spec, arg in zip(specs, args, strict=True)
    ]
    return tuple(mixed_args), jax.tree.map(mixed, dict(kwargs))


def _compare(
    test: AdversarialCase, program: OnnxProgram, got: Sequence[Array], want: Sequence[Array], numbers: str
) -> None:
    rtol, _ = test.found.case.tolerances("f32")
    for name, array, wanted in zip(program.output_names, got, want, strict=True):
        assert_close(array, wanted, f"With {numbers}, output {name!r} in the form {test.form}", rtol=rtol)
