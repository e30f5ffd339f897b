"""All tests of all installed jax2onnx plugins: `pytest --pyargs jax2onnx_testing.suite`.

Every variant of every case, every composite's case under JAX's transformations, and the plugins as a whole: each
operation that they declare must be covered by a case.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import pytest
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_core.plugins.rules import CompositeSpec
from jax2onnx_graph.optional_forms import failures_raised

from jax2onnx_testing._call_paths import check_reached
from jax2onnx_testing._coverage import duplicate_ids, uncovered_operations
from jax2onnx_testing._declines import check_declining
from jax2onnx_testing._transforms import NotApplicableError, Transformed, check_transformed, transformations
from jax2onnx_testing.adversarial import AdversarialCase, adversarial_cases, check_adversarial
from jax2onnx_testing.checks import check_variant
from jax2onnx_testing.claims import CompositeCase, check_changed, check_claim, check_patched, composite_cases
from jax2onnx_testing.collection import BrokenPlugin, CollectedCase, find_cases
from jax2onnx_testing.errors import KnownLimitationError
from jax2onnx_testing.targets import target_of_tests
from jax2onnx_testing.variants import PRECISIONS, Precision, Variant, quick_variants_of, variants_of

__all__ = ["pytest_generate_tests", "raise_failures", "run_test", "test_a_composite_claims_what_is_unchanged", "test_a_composite_is_reached", "test_case", "test_every_case_has_its_own_name",
           "test_every_operation_is_covered", "test_under_transformation", "test_where_functions_are_patched",
           "test_where_rules_decline", "test_with_adversarial_numbers", "test_with_changed_objects"]  # fmt: skip

T = TypeVar("T")

# The quick suite is chosen below.
pytestmark = pytest.mark.sampled(None)

# Of so many cases the quick suite checks one with rules that decline.
_EVERY = 36
# Of so many composites the quick suite checks one with a patched function, and of so many one with a changed object.
_EVERY_COMPOSITE, _EVERY_OBJECT = 6, 12
# So many of the changes of an object are checked then.
_CHANGES = 4
# Of so many forms of composites it checks one with adversarial numbers.
_EVERY_FORM = 97
# Of so many variants of cases it exports one a second time, and compares the bytes.
_EVERY_EXPORT = 8


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One parameter per variant, transformation or distribution; nothing is built here."""
    if _CHOSEN not in metafunc.config.stash:
        metafunc.config.stash[_CHOSEN] = _chosen(metafunc.config)
    for name, parameters in _PARAMETERS.items():
        if name in metafunc.fixturenames:
            ids = parameters(metafunc.config.stash[_CHOSEN])
            metafunc.parametrize(name, list(ids.values()), ids=list(ids))


@pytest.fixture(autouse=True)
def raise_failures() -> Iterator[None]:
    """Rules and composites that fail raise their errors, also where something else could take their place."""
    with failures_raised():
        yield


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """The choices that the options of pytest make.

    Attributes:
      found: the cases.
      distributions: their distributions; all if there are none.
      precisions: the precisions of the variants.
      quick: whether tests are sampled.
      target: the target that the tests are for; None for the default one.
    """

    found: Sequence[CollectedCase | BrokenPlugin]
    distributions: Sequence[str]
    precisions: Sequence[Precision]
    quick: bool
    target: str | None

    @property
    def single(self) -> list[CollectedCase]:
        """The cases, for tests in single precision only: those are about structure, of which one precision is enough."""
        return [f for f in self.found if isinstance(f, CollectedCase)] if "f32" in self.precisions else []

    def some(self, tests: Sequence[T], every: int) -> Sequence[T]:
        """The tests; one of so many if they are sampled."""
        return tests[:: every if self.quick else 1]


_CHOSEN = pytest.StashKey[_Chosen]()


def _chosen(config: pytest.Config) -> _Chosen:
    distributions = config.getoption("--jax2onnx-dist")
    try:
        found = find_cases(distributions)
    except ValueError as error:
        raise pytest.UsageError(f"--jax2onnx-dist: {error}") from error
    precisions = config.getoption("--jax2onnx-precision") or PRECISIONS
    target = target_of_tests(config.getoption("--target"))
    return _Chosen(found, distributions, precisions, config.getoption("--jax2onnx-quick"), target)


def _variants(chosen: _Chosen) -> dict[str, Variant | BrokenPlugin]:
    tests: list[Variant | BrokenPlugin] = []
    for number, found in enumerate(chosen.found):
        if isinstance(found, BrokenPlugin):
            tests.append(found)
        elif chosen.quick:
            tests += quick_variants_of(found, chosen.precisions, number, chosen.target)
        else:
            tests += variants_of(found, chosen.precisions, chosen.target)
    return {test.id: test for test in tests}


def _transformed(chosen: _Chosen) -> dict[str, Transformed]:
    return {test.id: test for test in transformations(chosen.single, quick=chosen.quick, target=chosen.target)}


def _declining(chosen: _Chosen) -> dict[str, Variant]:
    some = chosen.some(chosen.single, _EVERY)
    return {v.id: v for found in some for v in quick_variants_of(found, ["f32"], 0, chosen.target)}


def _composites(chosen: _Chosen, every: int, count: int) -> dict[str, tuple[CompositeCase, int | None]]:
    """The composites with the cases that may call their targets, and the number of changes to check; None for all."""
    registry = installed_plugins().registry
    owned = collections.defaultdict(list)
    for spec in registry.composites:
        owned[registry.owners[f"composite of {spec.claimed}"]].append(spec)
    tests = chosen.some(list(composite_cases(owned, chosen.single, chosen.target)), every)
    return {test.id: (test, count if chosen.quick else None) for test in tests}


def _adversarial(chosen: _Chosen) -> dict[str, AdversarialCase]:
    tests = chosen.some(list(adversarial_cases(chosen.single, chosen.target)), _EVERY_FORM)
    return {test.id: test for test in tests}


def _specs(chosen: _Chosen) -> dict[str, CompositeSpec]:
    registry = installed_plugins().registry
    owners = {spec.claimed: registry.owners[f"composite of {spec.claimed}"] for spec in registry.composites}
    return {s.claimed: s for s in registry.composites if _wanted(owners[s.claimed], chosen.distributions)}


def _distributions(chosen: _Chosen) -> dict[str, str]:
    names = sorted(set(installed_plugins().distributions.values()))
    return {name: name for name in names if _wanted(name, chosen.distributions)}


#: Name of a fixture → its parameters by their ids.
_PARAMETERS: Mapping[str, Callable[[_Chosen], Mapping[str, object]]] = {
    "variant": _variants,
    "transformed": _transformed,
    "declining": _declining,
    "patched": functools.partial(_composites, every=_EVERY_COMPOSITE, count=1),
    "changed": functools.partial(_composites, every=_EVERY_OBJECT, count=_CHANGES),
    "adversarial": _adversarial,
    "composite": _specs,
    "distribution": _distributions,
}


def _wanted(name: str, distributions: Sequence[str]) -> bool:
    short = {d.removeprefix("jax2onnx-") for d in distributions}
    return not short or name.removeprefix("jax2onnx-") in short


def run_test(test: Variant | Transformed | BrokenPlugin, *, quick: bool = False) -> None:
    """Check one test of this module; `quick` exports one of eight variants twice, instead of all."""
    __tracebackhide__ = True
    if isinstance(test, BrokenPlugin):
        raise test.error
    if isinstance(test, Variant):
        _skip(test)
        with _outcomes():
            check_variant(test, twice=not quick or zlib.crc32(test.id.encode()) % _EVERY_EXPORT == 0)
        return
    _skip(Variant(test.found, "f32", symbolic=False, target=test.target))
    with _outcomes():
        check_transformed(test)


def _skip(variant: Variant) -> None:
    """Skip a test of a variant that is to be skipped."""
    if variant.skip_reason is not None:
        pytest.skip(variant.skip_reason)


@contextlib.contextmanager
def _outcomes() -> Iterator[None]:
    """Inside, what a check cannot be made of is skipped, and known limitations are expected failures."""
    try:
        yield
    except NotApplicableError as error:
        pytest.skip(str(error))
    except KnownLimitationError as error:
        pytest.xfail(str(error))


def test_case(variant: Variant | BrokenPlugin, pytestconfig: pytest.Config) -> None:
    """A variant of a case converts, runs and equals JAX."""
    run_test(variant, quick=pytestconfig.getoption("--jax2onnx-quick"))


def test_under_transformation(transformed: Transformed) -> None:
    """A case of a composite converts and equals JAX under a transformation."""
    run_test(transformed)


def test_where_rules_decline(declining: Variant) -> None:
    """Rules that decline after they have emitted leave nothing behind, and what takes their place is right."""
    _skip(declining)
    with _outcomes():
        check_declining(declining)


def test_every_operation_is_covered(distribution: str) -> None:
    """Every rule, decomposition and composite that a distribution declares is covered by one of its cases."""
    missing = uncovered_operations(distribution)
    assert not missing, f"No case of {distribution} covers: {', '.join(missing)}"


def test_a_composite_is_reached(composite: CompositeSpec) -> None:
    """However a program holds the function of a composite, its calls are seen."""
    with _outcomes():
        check_reached(composite)


def test_a_composite_claims_what_is_unchanged(composite: CompositeSpec) -> None:
    """Calls of plain subclasses are claimed; those of changed classes and objects are not."""
    with _outcomes():
        check_claim(composite)


def test_where_functions_are_patched(patched: tuple[CompositeCase, int | None]) -> None:
    """A case equals JAX while a function that its composite's function uses has another result."""
    with _outcomes():
        check_patched(*patched)


def test_with_changed_objects(changed: tuple[CompositeCase, int | None]) -> None:
    """A case equals JAX with each change of an object that its composite is written for."""
    with _outcomes():
        check_changed(*changed)


def test_with_adversarial_numbers(adversarial: AdversarialCase) -> None:
    """A case of a composite equals JAX with NaN, infinities, zeros, large and small numbers, at sizes 0, 1 and more."""
    with _outcomes():
        check_adversarial(adversarial)


def test_every_case_has_its_own_name(distribution: str) -> None:
    """No two cases of a module have one name."""
    assert not duplicate_ids(distribution)
