from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.targets import Target

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
NCHW, NHWC = "perm = [0, 3, 1, 2]", "perm = [0, 2, 3, 1]"


def test_a_pair_that_undoes_itself_vanishes(rewrite):
    text = f"""g (float[2,3,4,5] x) => (float[2,3,4,5] y) {{
      a = Transpose<{NHWC}>(x)
      b = Transpose<{NCHW}>(a)
      y = Relu(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Relu(x)"]


def test_a_chain_merges_into_one(rewrite):
    text = """g (float[2,3,4] x) => (float[4,2,3] y) {
      a = Transpose<perm = [1, 2, 0]>(x)
      y = Transpose<perm = [1, 2, 0]>(a)
    }"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Transpose{[2, 0, 1]}(x)"]


@pytest.mark.parametrize(
    ("view", "perm", "shape", "expected"),
    [
        ("Squeeze(a, last)", [1, 0], [2, 3], "Squeeze(x, [1])"),
        ("Reshape(a, flat)", [1, 0], [2, 3], "Squeeze(x, [1])"),
        ("Unsqueeze(a, first)", [0, 2, 3, 1], [1, 2, 1, 3], "Unsqueeze(Squeeze(x, [1]), [0, 2])"),
        ("Unsqueeze(a, first)", [3, 1, 2, 0], [1, 3, 2, 1], "Unsqueeze(Transpose{[1, 0]}(Squeeze(x, [1])), [0, 3])"),
    ],
)
def test_views_that_add_or_remove_ones_stand_beside_one_transpose(rewrite, view, perm, shape, expected):
    text = f"""g (float[2,1,3] x) => (float{shape} y) <int64[1] last = {{2}}, int64[1] first = {{0}}, int64[2] flat = {{3, -1}}> {{
      a = Transpose<perm = [2, 0, 1]>(x)
      b = {view}
      y = Transpose<perm = {perm}>(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == [expected]


def test_a_view_with_another_reader_stays_between_transposes(rewrite):
    text = """g (float[2,1,3] x) => (float[3,2] y, float[2,3] z) <int64[1] last = {2}> {
      a = Transpose<perm = [2, 0, 1]>(x)
      y = Squeeze(a, last)
      z = Transpose<perm = [1, 0]>(y)
    }"""
    assert rewrite(FoldTransposes(), HEAD + text)[0] == "Squeeze(Transpose{[2, 0, 1]}(x), [2])"


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("p = MatMul(a, b)", "Gemm{1, 1}(b, a)"),
        ("p = Gemm<alpha = 2.0>(a, b)", "Gemm{1, 1, 2.0}(b, a)"),
        ("p = Gemm<transB = 1>(a, c)", "Gemm{1}(c, a)"),
        ("t = Transpose<perm = [1, 0]>(c) p = MatMul(a, t)", "Gemm{1}(c, a)"),
    ],
)
def test_the_transpose_of_a_product_is_the_product_in_the_other_order(rewrite, product, expected):
    text = f"g (float[2,3] a, float[3,4] b, float[4,3] c) => (float[4,2] y) {{ {product} y = Transpose<perm = [1, 0]>(p) }}"
    assert rewrite(FoldTransposes(), HEAD + text) == [expected]


@pytest.mark.parametrize(
    ("product", "perm"),
    [
        ("p = MatMul(a, b)", [0, 1]),  # nothing is transposed
        ("p = Gemm<beta = 2.0>(a, b, c)", [1, 0]),  # a summand
        ("p = MatMul(s, b)", [0, 2, 1]),  # a stack of products
        ("p = MatMul(a, s)", [0, 2, 1]),
        ("p = Add(a, b)", [1, 0]),
    ],
)
def test_other_products_stay_in_their_order(rewrite, product, perm):
    shape = "3,3,3" if len(perm) == 3 else "3,3"
    text = f"""g (float[3,3] a, float[3,3] b, float[3,3] c, float[3,3,3] s) => (float[{shape}] y) {{
      {product} y = Transpose<perm = {perm}>(p) }}"""
    (result,) = rewrite(FoldTransposes(), HEAD + text)
    assert "(b, a" not in result
    assert "Gemm{1" not in result


def test_a_target_without_gemm_keeps_the_order_of_a_product(rewrite, limited):
    text = "g (float[2,3] a, float[3,4] b) => (float[4,2] y) { p = MatMul(a, b) y = Transpose<perm = [1, 0]>(p) }"
    assert rewrite(FoldTransposes(limited("Gemm")), HEAD + text) == ["Transpose{[1, 0]}(MatMul(a, b))"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Two axes turned, read by something of three.
        ("t = Transpose<perm = [1, 0]>(m) y = Add(t, c)", "Add(Transpose{[1, 0]}(m), c)"),
        ("t = Transpose<perm = [1, 0]>(m) r = Relu(t) y = Mul(c, r)", "Mul(c, Relu(Transpose{[1, 0]}(m)))"),
        ("t = Transpose<perm = [1, 0]>(m) y = MatMul(c, t)", "MatMul(c, Transpose{[1, 0]}(m))"),
    ],
)
def test_a_value_of_more_axes_does_not_take_the_layout(rewrite, body, expected):
    text = f"g (float[4,4] m, float[4,4,4] c) => (float[4,4,4] y) {{ {body} }}"
    assert rewrite(FoldTransposes(), HEAD + text) == [expected]


def test_axes_that_are_attributes_are_those_of_the_operand(rewrite):
    """In opset 17 the axes of a mean are an attribute, and no operand names them."""
    text = f"""g (float[N,3,4,5] x) => (float[N,3] y) {{
      a = Transpose<{NHWC}>(x)
      b = Relu(a)
      y = ReduceMean<axes = [1, 2], keepdims = 0>(b)
    }}"""
    (result,) = rewrite(FoldTransposes(), HEAD.replace("20", "17") + text)
    assert "Transpose{[0, 2, 3, 1]}(" in result


def test_a_product_that_others_read_or_of_a_weight_keeps_its_transpose(rewrite):
    text = """g (float[2,3] a, float[3,2] b) => (float[2,2] y, float[2,2] z) <float[3,2] w = {1, 2, 3, 4, 5, 6}> {
      p = MatMul(a, b)
      y = Transpose<perm = [1, 0]>(p)
      n = Neg(p)
      q = MatMul(a, w)
      t = Transpose<perm = [1, 0]>(q)
      z = Add(n, t)
    }"""
    assert all("Gemm" not in line for line in rewrite(FoldTransposes(), HEAD + text))


def test_an_elementwise_chain_between_a_pair_takes_the_inner_layout(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float[N,3,4,5] y) {{
      a = Transpose<{NHWC}>(x)
      b = Relu(a)
      c = Sigmoid(b)
      d = Mul(b, c)
      y = Transpose<{NCHW}>(d)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Mul(Relu(x), Sigmoid(Relu(x)))"]


def test_transposes_between_the_operators_of_a_long_chain_vanish(rewrite):
    steps = "\n".join(f"b{i} = Relu(a{i})  a{i + 1} = Transpose<perm = [1, 0]>(b{i})" for i in range(30))
    text = f"""g (float[2,3] a0) => (float[2,3] y) {{
      {steps}
      y = Relu(a30)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Relu(" * 31 + "a0" + ")" * 31]


def test_channelwise_constants_are_laid_out(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float[N,3,4,5] y)
      <float[3] scale = {{1.0, 2.0, 3.0}}, float[1,4,1,3] bias = {{1,2,3,4,5,6,7,8,9,10,11,12}}, float one = {{1.0}}> {{
      a = Transpose<{NHWC}>(x)
      b = Mul(a, scale)
      c = Add(bias, b)
      d = Add(c, one)
      y = Transpose<{NCHW}>(d)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == [
        "Add(Add(const[3, 4, 1], Mul(x, [[[1.0]], [[2.0]], [[3.0]]])), 1.0)"
    ]


def test_channelwise_operands_that_are_computed_are_laid_out_by_a_view(rewrite):
    text = f"""g (float[N,3,4,5] x, float[3] s) => (float[N,3,4,5] y) {{
      a = Transpose<{NHWC}>(x)
      b = Mul(a, s)
      y = Transpose<{NCHW}>(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Mul(x, Unsqueeze(s, [1, 2]))"]


def test_residual_networks_keep_transposes_at_the_boundary_only(rewrite):
    text = f"""g (float[N,8,8,3] x, float[4,3,1,1] w, float[4,4,1,1] v) => (float[N,8,8,4] y)
      <float[4] bias = {{1.0, 2.0, 3.0, 4.0}}> {{
      x0 = Transpose<{NCHW}>(x)
      c0 = Conv(x0, w)
      n0 = Transpose<{NHWC}>(c0)
      b0 = Add(n0, bias)
      r0 = Relu(b0)
      x1 = Transpose<{NCHW}>(r0)
      c1 = Conv(x1, v)
      n1 = Transpose<{NHWC}>(c1)
      s1 = Add(n1, r0)
      r1 = Relu(s1)
      x2 = Transpose<{NCHW}>(r1)
      c2 = Conv(x2, v)
      n2 = Transpose<{NHWC}>(c2)
      s2 = Add(r1, n2)
      y = Relu(s2)
    }}"""
    (result,) = rewrite(FoldTransposes(), HEAD + text)
    assert result.startswith("Transpose{[0, 2, 3, 1]}(Relu(Add(Relu(")
    assert result.count("Transpose{[0, 2, 3, 1]}") == 1
    assert result.count("Transpose{[0, 3, 1, 2]}") == result.count("Transpose{[0, 3, 1, 2]}(x)")


def test_a_residual_in_channels_last_keeps_its_layout(rewrite):
    text = f"""g (float[N,8,8,4] x, float[4,4,1,1] w, float[4,4] m) => (float[N,8,8,4] y) {{
      a = Transpose<{NCHW}>(x)
      c = Conv(a, w)
      n = Transpose<{NHWC}>(c)
      d = MatMul(n, m)
      y = Add(d, x)
    }}"""
    expected = "Add(MatMul(Transpose{[0, 2, 3, 1]}(Conv(Transpose{[0, 3, 1, 2]}(x), w)), m), x)"
    assert rewrite(FoldTransposes(), HEAD + text) == [expected]


@pytest.mark.parametrize(
    ("operators", "declared", "expected"),
    [
        ("b = Concat<axis = -1>(a, a)", "N,6,4,5", "Concat{1}(x, x)"),
        ("b = Concat<axis = 1>(a, k)", "N,3,5,5", "Concat{2}(x, const[3, 3, 1, 5])"),
        ("b = ReduceMax(a, axes)", "N,3,1,1", "ReduceMax(x, [2, 3])"),
        ("b = Softmax<axis = 1>(a)", "N,3,4,5", "Softmax{2}(x)"),
        ("b = Pad(a, pads)", "N,5,4,6", "Pad(x, [0, 2, 0, 1, 0, 0, 0, 0])"),
        ("b = Slice(a, one, two, last)", "N,1,4,5", "Slice(x, [1], [2], [1])"),
        ("b = Slice(a, zero, one)", "1,3,4,5", "Slice(x, [0], [1], [0])"),
        ("b = Tile(a, repeats)", "N,12,4,10", "Tile(x, [1, 4, 1, 2])"),
        ("b = CumSum(a, axis)", "N,3,4,5", "CumSum(x, 3)"),
        ("m = Less(a, one_f) b = Where(m, a, one_f)", "N,3,4,5", "Where(Less(x, 1.0), x, 1.0)"),
        ("b = Clip(a, one_f, one_f)", "N,3,4,5", "Clip(x, 1.0, 1.0)"),
    ],
)
def test_operators_name_their_axes_in_the_new_layout(rewrite, operators, declared, expected):
    text = f"""g (float[3,3,4,5] x) => (float[{declared.replace("N", "3")}] y)
      <float[3,1,5,3] k, int64[2] axes = {{1, 2}}, int64[8] pads = {{0,0,1,2,0,0,0,0}}, int64[1] zero = {{0}},
       int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] last = {{-1}}, int64[4] repeats = {{1,1,2,4}}, int64 axis = {{2}},
       float one_f = {{1.0}}> {{
      a = Transpose<{NHWC}>(x)
      {operators}
      y = Transpose<{NCHW}>(b)
    }}""".replace("float[3,1,5,3] k", "float[3,1,5,3] k = {" + ",".join(["1.0"] * 45) + "}")
    assert rewrite(FoldTransposes(), HEAD + text) == [expected]


def test_every_output_of_a_split_takes_the_layout(rewrite):
    text = f"""g (float[3,4,4,5] x) => (float[3,2,4,5] y, float[3,2,4,5] z) {{
      a = Transpose<{NHWC}>(x)
      b, c = Split<axis = 3, num_outputs = 2>(a)
      y = Transpose<{NCHW}>(b)
      z = Transpose<{NCHW}>(c)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Split{1, 2}(x).0", "Split{1, 2}(x).1"]


def test_resize_takes_its_scales_in_the_new_layout(rewrite):
    text = f"""g (float[3,3,4,5] x) => (float[3,3,8,15] y) {{
      scales = Constant<value = float[4] {{1.0, 2.0, 3.0, 1.0}}>()
      a = Transpose<{NHWC}>(x)
      b = Resize<mode = "nearest">(a, , scales)
      y = Transpose<{NCHW}>(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Resize{nearest}(x, _, [1.0, 1.0, 2.0, 3.0])"]


def test_a_reduction_that_removes_axes_ends_the_region(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float[N,3] y) <int64[2] axes = {{1, 2}}> {{
      a = Transpose<{NHWC}>(x)
      b = Relu(a)
      y = ReduceMean<keepdims = 0>(b, axes)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["ReduceMean{0}(Relu(x), [2, 3])"]


def test_a_reduction_to_a_scalar_ends_the_region(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float y) {{
      a = Transpose<{NHWC}>(x)
      b = Relu(a)
      y = ReduceL1<keepdims = 0>(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["ReduceL1{0}(Relu(x))"]


def test_a_reduction_may_leave_a_smaller_transpose(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float[N,5,3] y) <int64[1] axes = {{1}}> {{
      a = Transpose<{NHWC}>(x)
      b = Relu(a)
      y = ReduceMax<keepdims = 0>(b, axes)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Transpose{[0, 2, 1]}(ReduceMax{0}(Relu(x), [2]))"]


class PrefersTheLastAxis(Target):
    """A target that computes Softmax faster along the last axis than along any other."""

    def prefers(self, *forms: Form) -> Form:
        return Form.SOFTMAX_LAST_AXIS if Form.SOFTMAX_LAST_AXIS in forms else forms[0]


def test_a_softmax_along_the_last_axis_stays_there_if_that_is_faster(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float[N,3,4,5] y) {{
      a = Transpose<{NHWC}>(x)
      b = Softmax(a)
      y = Transpose<{NCHW}>(b)
    }}"""
    kept = ["Transpose{[0, 3, 1, 2]}(Softmax(Transpose{[0, 2, 3, 1]}(x)))"]
    assert rewrite(FoldTransposes(PrefersTheLastAxis()), HEAD + text) == kept
    assert rewrite(FoldTransposes(), HEAD + text) == ["Softmax{1}(x)"]


@pytest.mark.parametrize(
    ("body", "transposes"),
    [
        ("s = Add(x, w) t = Transpose<{NHWC}>(z) u = Add(s, t) y = Transpose<{NCHW}>(u)", 2),
        ("t = Transpose<{NHWC}>(z) u = Add(x, t) y = Transpose<{NCHW}>(u)", 1),
        ("s = Transpose<{NHWC}>(z) t = Transpose<{NHWC}>(v) r = Add(x, s) u = Add(r, t) y = Transpose<{NCHW}>(u)", 1),
        ("s = Add(x, w) u = Add(s, x) y = Transpose<{NCHW}>(u)", 1),
    ],
)
def test_no_more_is_transposed_than_before(rewrite, body, transposes):
    text = (
        f"g (float[2,4,4,4] x, float[2,4,4,4] w, float[2,4,4,4] z, float[2,4,4,4] v) => (float[2,4,4,4] y) {{ {body} }}"
    )
    [expression] = rewrite(FoldTransposes(), HEAD + text.replace("{NHWC}", NHWC).replace("{NCHW}", NCHW))
    assert expression.count("Transpose") == transposes


def test_a_region_read_outside_gets_one_transpose(rewrite):
    text = f"""g (float[N,3,4,5] x, float[3,3] w) => (float[N,3,4,5] y, float[N,4,5,3] r, float[N,4,5,3] z) {{
      a = Transpose<{NHWC}>(x)
      r = Relu(a)
      z = MatMul(r, w)
      y = Transpose<{NCHW}>(r)
    }}"""
    result = rewrite(FoldTransposes(), HEAD + text)
    assert result == ["Relu(x)", "Transpose{[0, 2, 3, 1]}(Relu(x))", "MatMul(Transpose{[0, 2, 3, 1]}(Relu(x)), w)"]


def test_a_value_that_meets_its_own_transpose_is_left_alone(rewrite):
    text = """g (float[3,3] x) => (float[3,3] y) {
      a = Relu(x)
      b = Transpose<perm = [1, 0]>(a)
      c = Add(a, b)
      y = Sigmoid(c)
    }"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Sigmoid(Add(Relu(x), Transpose{[1, 0]}(Relu(x))))"]


def test_a_value_that_meets_its_own_transpose_inside_a_region_is_right(rewrite):
    text = """g (float[3,3] x, float[3,3] z) => (float[3,3] y, float[3,3] w) {
      t = Transpose<perm = [1, 0]>(x)
      s = Transpose<perm = [1, 0]>(z)
      a = Mul(t, s)
      b = Transpose<perm = [1, 0]>(a)
      c = Add(a, b)
      y = Transpose<perm = [1, 0]>(c)
      w = Transpose<perm = [1, 0]>(a)
    }"""
    result = rewrite(FoldTransposes(), HEAD + text)
    assert result[1] == "Mul(x, z)"


def test_small_constants_are_transposed_at_export(rewrite):
    text = """g (float[3,2] x) => (float[3,2] y) <float[2,3] c = {1,2,3,4,5,6}> {
      t = Transpose<perm = [1, 0]>(c)
      y = Add(x, t)
    }"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Add(x, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])"]


def test_subgraphs_are_rewritten_and_captured_values_keep_their_layout(rewrite):
    text = f"""g (bool p, float[N,3,4,5] x) => (float[N,3,4,5] y, float[N,3,4,5] z) {{
      a = Transpose<{NHWC}>(x)
      b = Relu(a)
      z = Transpose<{NCHW}>(b)
      y = If (p) <then_branch = t () => (float[N,3,4,5] u) {{ u = Transpose<{NCHW}>(b) }},
                  else_branch = e () => (float[N,3,4,5] v) {{ w = Sigmoid(x)
        q = Transpose<{NHWC}>(w) v = Transpose<{NCHW}>(q) }}>
    }}"""
    result = rewrite(FoldTransposes(), HEAD + text)
    assert result == ["If<Identity(Relu(x))><Sigmoid(x)>(p)", "Relu(x)"]


def test_two_outputs_that_become_one_value_stay_two(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float[N,3,4,5] y, float[N,3,4,5] z) {{
      a = Transpose<{NHWC}>(x)
      b = Relu(a)
      y = Transpose<{NCHW}>(b)
      z = Transpose<{NCHW}>(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Relu(x)", "Identity(Relu(x))"]


def test_an_operand_transposed_already_is_shared(rewrite):
    text = f"""g (float[N,4,4,3] x, float[3,3,1,1] w) => (float[N,3,4,4] y, float[N,3,4,4] z) {{
      r = Relu(x)
      a = Transpose<{NCHW}>(r)
      y = Conv(a, w)
      b = Transpose<{NCHW}>(x)
      z = Conv(b, w)
    }}"""
    first = "Transpose{[0, 3, 1, 2]}(x)"
    assert rewrite(FoldTransposes(), HEAD + text) == [f"Conv(Relu({first}), w)", f"Conv({first}, w)"]


def test_functions_are_rewritten_with_their_own_constants():
    x = ir.val("x", ir.DataType.FLOAT, ("N", 3, 4, 5))
    scale = ir.node("Constant", [], {"value": ir.tensor([1.0, 2.0, 3.0])})
    scale.outputs[0].shape = ir.Shape((3,))
    nodes = [scale]
    for op_type, inputs, attributes, dims in (
        ("Transpose", [x], {"perm": [0, 2, 3, 1]}, ("N", 4, 5, 3)),
        ("Mul", [scale.outputs[0]], {}, ("N", 4, 5, 3)),
        ("Transpose", [], {"perm": [0, 3, 1, 2]}, ("N", 3, 4, 5)),
    ):
        operands = inputs or [nodes[-1].outputs[0], *([scale.outputs[0]] if op_type == "Mul" else [])]
        if op_type == "Mul":
            operands = [nodes[-1].outputs[0], scale.outputs[0]]
        node = ir.node(op_type, operands, attributes)
        node.outputs[0].shape = ir.Shape(dims)
        nodes.append(node)
    graph = ir.Graph([x], nodes[-1].outputs, nodes=nodes, opset_imports={"": 20})
    function = ir.Function("own", "scaled", graph=graph, attributes=[])
    main = ir.Graph([], [], nodes=[], opset_imports={"": 20, "own": 1})
    FoldTransposes()(ir.Model(main, ir_version=10, functions=[function]))
    assert [
        node.op_type for node in function if any(output.uses() or output.is_graph_output() for output in node.outputs)
    ] == ["Constant", "Mul"]
    assert not graph.initializers


def test_an_operand_that_is_no_number_is_no_axis(rewrite):
    text = f"""g (float[N,3,4,5] x) => (float[N,3,4,5] y) <float[3] scale = {{nan, 1.0, 2.0}}> {{
      a = Transpose<{NHWC}>(x)
      b = Mul(a, scale)
      y = Transpose<{NCHW}>(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == ["Mul(x, [[[nan]], [[1.0]], [[2.0]]])"]


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ("v = Transpose<perm = [0, 2, 1]>(u)", "ScatterElements{2}(x, Transpose{[0, 2, 1]}(i), u)"),
        ("v = Relu(u)", "ScatterElements{2}(x, Transpose{[0, 2, 1]}(i), Relu(Transpose{[0, 2, 1]}(u)))"),
    ],
)
def test_a_buffer_is_written_in_its_own_layout(rewrite, update, expected):
    text = f"""g (float[2,3,40] x, int64[2,1,3] i, float[2,{"3,1" if "Transpose" in update else "1,3"}] u) => (float[2,3,40] y) {{
      a = Transpose<perm = [0, 2, 1]>(x)
      {update}
      b = ScatterElements<axis = 1>(a, i, v)
      y = Transpose<perm = [0, 2, 1]>(b)
    }}"""
    assert rewrite(FoldTransposes(), HEAD + text) == [expected]
