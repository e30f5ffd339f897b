"""A target that has nothing but the primitives of opset 18 gets a right model.

Primitives are the operators whose schemas do not define them by others. The models run in `onnx.reference`.
"""

from __future__ import annotations

import warnings

import jax
import numpy as np
import onnx
import pytest
from jax2onnx_core import OnnxProgram, Registry, Target, errors, hookimpl
from jax2onnx_core.lowering.physical import physical_array
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.operators import split_reduction
from jax2onnx_graph.traversal import all_graphs
from jax2onnx_onnxruntime import LegalisePass, load
from jax2onnx_runtime.comparison import tolerance
from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_runtime.sizes import choose_sizes
from jax2onnx_testing.checks import assert_close
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Built, Variant, build, is_symbolic

OPSET = 18
SAMPLED = 12


def is_primitive(op_type: str) -> bool:
    """Whether opset 18 has the operator and does not define it by others (but for Range, by a Loop)."""
    try:
        schema = onnx.defs.get_schema(split_reduction(op_type)[0], OPSET, "")
    except onnx.defs.SchemaError:
        return False
    is_defined = schema.has_function or schema.has_context_dependent_function  # type: ignore[attr-defined]  # ONNX's stubs lack it
    return op_type == "Range" or not is_defined


class Primitives(Target):
    """The primitives of the standard."""

    name = "primitives"
    opsets = range(OPSET, OPSET + 1)

    def supports(self, op_type: str, dtype: np.dtype, opset: int) -> bool:
        return is_primitive(op_type) and super().supports(op_type, dtype, opset)


class Reference(Runtime):
    """`onnx.reference`, for the models of this target."""

    targets = frozenset({"primitives"})


class Plugin:
    """Registers the target and its runtime."""

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        registry.target(Primitives())
        registry.runtime(Reference())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One variant of each case of a layer, and of every few others; fewer in the quick suite."""
    chosen = variants()[:: 5 if metafunc.config.getoption("--jax2onnx-quick") else 1]
    metafunc.parametrize("variant", chosen, ids=[variant.id for variant in chosen])


def variants() -> list[Variant]:
    """One variant of each case of a layer, and of every few others."""
    found = [case for case in find_cases(("lax", "nnx")) if isinstance(case, CollectedCase)]
    chosen = [case for i, case in enumerate(found) if case.module.startswith(("nnx", "lax.nn.")) or i % SAMPLED == 0]
    return [Variant(case, "f32", is_symbolic(case.case)) for case in chosen]


def export(built: Built) -> OnnxProgram:
    """The case, for this target."""
    options = {**built.options, "opset": OPSET, "target": "primitives", "plugins": [Plugin()]}
    return Built(built.variant, built.fn, built.inputs, options).export()


@pytest.mark.sampled(20)
def test_a_target_with_primitives_only(variant: Variant) -> None:
    built = build(variant)
    if variant.skip_reason or built.options.get("opset", OPSET) > OPSET or "plugins" in built.options:
        pytest.skip("the case is about something else")
    try:
        program = export(built)
    except errors.ConversionError as error:
        if f"for opset {OPSET}" not in str(error):
            raise
        pytest.skip("the case has an element type of a later opset")
    used = {node.op_type for graph in all_graphs(program.model) for node in graph if not node.domain}
    assert not {op_type for op_type in used if not is_primitive(op_type)}
    sizes = choose_sizes(program.inputs.space(program.traced.out_avals))[-1]
    values = variant.found.case.values
    args, kwargs = arguments(program.inputs, built.inputs, sizes, "finite" if values == "special" else values, seed=0)
    want = [physical_array(leaf) for leaf in jax.tree.leaves(built.fn(*args, **kwargs))]
    feeds = program.feeds(*args, **kwargs)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        failure = difference(program, feeds, want, variant)
    if failure is None:
        return
    # onnx.reference lacks some forms of operators and is wrong about others: another runtime decides whose fault it is.
    compare(load(LegalisePass()(program.model.clone()).model)(feeds), want, variant)
    pytest.skip(f"onnx.reference alone differs: {failure}")


def difference(program: OnnxProgram, feeds: dict[str, Array], want: list[Array], variant: Variant) -> Exception | None:
    """The error of a program in `onnx.reference`, or its difference from JAX.

    Args:
      program: the program.
      feeds: its inputs by name.
      want: JAX's outputs.
      variant: the variant of the case, which says the tolerance.

    Returns:
      The exception, or None.
    """
    try:
        compare(program.loaded(feeds), want, variant)
    except Exception as error:  # noqa: BLE001 (whatever the reference implementation raises)
        return error
    return None


def compare(got: list[Array], want: list[Array], variant: Variant) -> None:
    """Raise unless the outputs of the model are JAX's."""
    _, atol = variant.found.case.tolerances(variant.precision)
    for number, (actual, wanted) in enumerate(zip(got, want, strict=True)):
        rtol = max(1e-3, tolerance(wanted.dtype))
        assert_close(actual.astype(wanted.dtype), wanted, f"result {number}", rtol=rtol, atol=atol)
