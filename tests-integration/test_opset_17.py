"""Cases of all packages at opset 17: equal to JAX, or refused with the operators that it lacks.

`-k` chooses; without `--jax2onnx-quick` every case runs.
"""

from __future__ import annotations

import onnx
import pytest
from jax2onnx_graph.errors import ConversionError
from jax2onnx_runtime.sizes import choose_sizes
from jax2onnx_testing.checks import check_values
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Built, Variant, build
from target_cases import variants

VARIANTS = variants(())


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_a_case_at_opset_17(variant: Variant) -> None:
    built = build(variant)

    def at(opset: int) -> Built:
        return Built(variant, built.fn, built.inputs, {**built.options, "opset": opset})

    try:
        program = at(17).export()
    except ConversionError as error:
        if "Opset 17 does not have" not in str(error):
            with pytest.raises(ConversionError):
                at(18).export()
        pytest.skip(str(error))
    assert program.opset == 17
    onnx.checker.check_model(program.model_proto, full_check=True)
    reference = Reference(built.fn)
    for sizes in choose_sizes(program.inputs.space(program.traced.out_avals))[-1:]:
        args, kwargs = arguments(program.inputs, built.inputs, sizes, variant.found.case.values, seed=0)
        want = reference(args, kwargs)
        check_values(program, want, variant, sizes, program.loaded(program.feeds(*args, **kwargs)))
