"""All tests of all installed jax2onnx plugins: `pytest --pyargs jax2onnx_testing.suite`.

Every variant of every case, every composite's case under JAX's transformations, and the plugins as a whole: each
operation that they declare must be covered by a case.
"""

from __future__ import annotations

import collections

import pytest
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_core.plugins.rules import CompositeSpec

from jax2onnx_testing._call_paths import check_reached
from jax2onnx_testing._coverage import duplicate_ids, uncovered_operations
from jax2onnx_testing._declines import check_declining
from jax2onnx_testing._transforms import NotApplicableError, Transformed, check_transformed, transformations
from jax2onnx_testing.checks import check_variant
from jax2onnx_testing.claims import PatchedCase, check_claim, check_patched, patched_cases
from jax2onnx_testing.collection import BrokenPlugin, CollectedCase, find_cases
from jax2onnx_testing.errors import KnownLimitationError
from jax2onnx_testing.variants import PRECISIONS, Variant, quick_variants_of, variants_of

__all__ = ["pytest_generate_tests", "run_test", "test_a_composite_claims_what_is_unchanged", "test_a_composite_is_reached", "test_case", "test_every_case_has_its_own_name",
           "test_every_operation_is_covered", "test_under_transformation", "test_where_functions_are_patched",
           "test_where_rules_decline"]  # fmt: skip

# Of so many cases the quick suite checks one with rules that decline.
_EVERY = 24
# Of so many composites the quick suite checks one with a patched function.
_EVERY_COMPOSITE = 6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One parameter per variant, transformation or distribution; nothing is built here."""
    distributions = metafunc.config.getoption("--jax2onnx-dist")
    try:
        cases = find_cases(distributions)
    except ValueError as error:
        raise pytest.UsageError(f"--jax2onnx-dist: {error}") from error
    precisions = metafunc.config.getoption("--jax2onnx-precision") or PRECISIONS
    quick = metafunc.config.getoption("--jax2onnx-quick")
    target = metafunc.config.getoption("--target")
    if "variant" in metafunc.fixturenames:
        tests: list[Variant | Transformed | BrokenPlugin] = []
        for number, found in enumerate(cases):
            if isinstance(found, BrokenPlugin):
                tests.append(found)
            else:
                quick_ones = quick_variants_of(found, precisions, number, target)
                tests += quick_ones if quick else variants_of(found, precisions, target)
        metafunc.parametrize("variant", tests, ids=[t.id for t in tests])
    if "transformed" in metafunc.fixturenames:
        # Transformations are about structure, not precision: one of them is enough.
        more = (
            list(transformations([f for f in cases if isinstance(f, CollectedCase)], quick=quick, target=target))
            if "f32" in precisions
            else []
        )
        metafunc.parametrize("transformed", more, ids=[t.id for t in more])
    if "declining" in metafunc.fixturenames:
        some = [f for f in find_cases(distributions) if isinstance(f, CollectedCase)][:: _EVERY if quick else 1]
        declining = [v for f in some for v in quick_variants_of(f, ["f32"], 0, target)] if "f32" in precisions else []
        metafunc.parametrize("declining", declining, ids=[v.id for v in declining])
    if "patched" in metafunc.fixturenames:
        patched = _patched(distributions, quick=quick, target=target) if "f32" in precisions else []
        metafunc.parametrize("patched", patched, ids=[test.id for test, _ in patched])
    if "composite" in metafunc.fixturenames:
        owners = installed_plugins().registry.owners
        specs = installed_plugins().registry.composites
        specs = [s for s in specs if _wanted(owners[f"composite target {s.target}"], distributions)]
        metafunc.parametrize("composite", specs, ids=[s.target for s in specs])
    if "distribution" in metafunc.fixturenames:
        names = sorted(set(installed_plugins().distributions.values()))
        metafunc.parametrize("distribution", [n for n in names if _wanted(n, distributions)])


def _patched(distributions: list[str], *, quick: bool, target: str | None) -> list[tuple[PatchedCase, int | None]]:
    """The tests of composites while a function is patched, with the number of functions that are."""
    registry = installed_plugins().registry
    owned = collections.defaultdict(list)
    for spec in registry.composites:
        owned[registry.owners[f"composite target {spec.target}"]].append(spec)
    cases = [found for found in find_cases(distributions) if isinstance(found, CollectedCase)]
    tests = list(patched_cases(owned, cases, target))
    return [(test, 1) for test in tests[::_EVERY_COMPOSITE]] if quick else [(test, None) for test in tests]


def _wanted(name: str, distributions: list[str]) -> bool:
    short = {d.removeprefix("jax2onnx-") for d in distributions}
    return not short or name.removeprefix("jax2onnx-") in short


def run_test(test: Variant | Transformed | BrokenPlugin) -> None:
    """Check one test of this module."""
    __tracebackhide__ = True
    if isinstance(test, BrokenPlugin):
        raise test.error
    if isinstance(test, Variant):
        if test.skip_reason is not None:
            pytest.skip(test.skip_reason)
        try:
            check_variant(test)
        except KnownLimitationError as error:
            pytest.xfail(str(error))
        return
    reason = Variant(test.found, "f32", symbolic=False, target=test.target).skip_reason
    if reason is not None:
        pytest.skip(reason)
    try:
        check_transformed(test)
    except NotApplicableError as error:
        pytest.skip(str(error))
    except KnownLimitationError as error:
        pytest.xfail(str(error))


def test_case(variant: Variant | BrokenPlugin) -> None:
    """A variant of a case converts, runs and equals JAX."""
    run_test(variant)


def test_under_transformation(transformed: Transformed) -> None:
    """A case of a composite converts and equals JAX under a transformation."""
    run_test(transformed)


def test_where_rules_decline(declining: Variant) -> None:
    """Rules that decline after they have emitted leave nothing behind, and what takes their place is right."""
    if declining.skip_reason is not None:
        pytest.skip(declining.skip_reason)
    try:
        check_declining(declining)
    except KnownLimitationError as error:
        pytest.xfail(str(error))


def test_every_operation_is_covered(distribution: str) -> None:
    """Every rule, decomposition and composite that a distribution declares is covered by one of its cases."""
    missing = uncovered_operations(distribution)
    assert not missing, f"No case of {distribution} covers: {', '.join(missing)}"


def test_a_composite_is_reached(composite: CompositeSpec) -> None:
    """However a program holds the function of a composite, its calls are seen."""
    try:
        check_reached(composite)
    except NotApplicableError as error:
        pytest.skip(str(error))


def test_a_composite_claims_what_is_unchanged(composite: CompositeSpec) -> None:
    """Calls of plain subclasses are claimed; those of changed classes and objects are not."""
    try:
        check_claim(composite)
    except NotApplicableError as error:
        pytest.skip(str(error))


def test_where_functions_are_patched(patched: tuple[PatchedCase, int | None]) -> None:
    """A case equals JAX while a function that its composite's target uses has another result."""
    try:
        check_patched(*patched)
    except NotApplicableError as error:
        pytest.skip(str(error))
    except KnownLimitationError as error:
        pytest.xfail(str(error))


def test_every_case_has_its_own_name(distribution: str) -> None:
    """No two cases of a module have one name."""
    assert not duplicate_ids(distribution)
