from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.fold_casts import FoldCasts

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
FLOAT, INT8, INT32, INT64, FLOAT16, DOUBLE = 1, 3, 6, 7, 10, 11


@pytest.mark.parametrize(
    ("dtype", "casts", "expected"),
    [
        ("float", [FLOAT], "Neg(x)"),
        ("float", [DOUBLE, FLOAT], "Neg(x)"),
        ("float16", [FLOAT, FLOAT16], "Neg(x)"),
        ("float16", [FLOAT, DOUBLE, FLOAT16], "Neg(x)"),
        ("float16", [FLOAT, DOUBLE], "Neg(Cast{11}(x))"),
        ("int8", [INT64, FLOAT], "Neg(Cast{1}(x))"),
        ("int8", [FLOAT, INT8], "Neg(x)"),
        ("double", [FLOAT, DOUBLE], "Neg(Cast{11}(Cast{1}(x)))"),
        ("float", [DOUBLE, INT32], "Neg(Cast{6}(Cast{11}(x)))"),
        ("int32", [FLOAT, INT32], "Neg(Cast{6}(Cast{1}(x)))"),
        ("int8", [FLOAT, INT32], "Neg(Cast{6}(x))"),
        ("int32", [INT64, INT8], "Neg(Cast{3}(x))"),
        ("int32", [INT8, INT32], "Neg(Cast{6}(Cast{3}(x)))"),
        ("float16", [FLOAT, INT32], "Neg(Cast{6}(Cast{1}(x)))"),
        ("float16", [DOUBLE, FLOAT, DOUBLE], "Neg(Cast{11}(x))"),
        ("int32", [DOUBLE, INT8], "Neg(Cast{3}(Cast{11}(x)))"),
    ],
)
def test_exact_casts_merge_and_others_stay(rewrite, dtype, casts, expected):
    operators = "".join(f"v{i + 1} = Cast<to = {to}>(v{i})\n" for i, to in enumerate(casts)).replace("v0", "x")
    result = {FLOAT: "float", INT8: "int8", INT32: "int32", FLOAT16: "float16", DOUBLE: "double"}[casts[-1]]
    text = f"g ({dtype}[3] x) => ({result}[3] y) {{ {operators} y = Neg(v{len(casts)}) }}"
    assert rewrite(FoldCasts(), HEAD + text) == [expected]


def test_a_cast_back_to_float8_saturates_and_stays(rewrite):
    text = "g (float8e5m2[3] x) => (float8e5m2[3] y) { a = Cast<to = 1>(x) y = Cast<to = 19>(a) }"
    assert rewrite(FoldCasts(), HEAD + text) == ["Cast{19}(Cast{1}(x))"]
