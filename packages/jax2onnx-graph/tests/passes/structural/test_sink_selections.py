from __future__ import annotations

import pytest
from jax2onnx_graph.passes.structural.sink_selections import SinkSelections

HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'
CONSTANTS = """int64 last = {-1}, int64[1] ends = {9223372036854775807}, int64[1] lasts = {-1}, int64[1] one = {1},
    int64[1] zero = {0}, int64[2] two = {0, 5}"""


@pytest.fixture
def selected(rewrite):
    """The outputs of the rewritten graph as expressions; sums of fewer rows are rounded in another order."""
    return lambda text: rewrite(SinkSelections(), text, tolerance=1e-4)


def graph(body: str, y: str, inputs: str = "") -> str:
    return f"""{HEAD} g (float[B,64,16] x, float[16,32] w, float[32] b, float[64,16] s{inputs}) => ({y})
      <{CONSTANTS}> {{ {body} }}"""


@pytest.mark.parametrize(
    ("selection", "y", "expected"),
    [
        ("Gather<axis = 1>(h, last)", "float[B,32] y", "Squeeze(MatMul(Gather{1}(x, [-1]), w), [1])"),
        ("Gather<axis = 1>(h, lasts)", "float[B,1,32] y", "MatMul(Gather{1}(x, [-1]), w)"),
        ("Gather<axis = 1>(h, two)", "float[B,2,32] y", "MatMul(Gather{1}(x, [0, 5]), w)"),
        ("Slice(h, lasts, ends, one)", "float[B,1,32] y", "MatMul(Slice(x, [-1], [9223372036854775807], [1]), w)"),
    ],
)
def test_rows_of_a_product_are_selected_before_it(selected, selection, y, expected):
    assert selected(graph(f"h = MatMul(x, w) y = {selection}", y)) == [expected]


@pytest.mark.parametrize(
    ("inputs", "selection", "y", "expected"),
    [
        ("int64 i", "Gather<axis = 1>(h, i)", "float[B,32] y", "Squeeze(MatMul(Gather{1}(x, Unsqueeze(i, [0])), w), [1])"),
        ("int64[K] i", "j = Neg(i) k = Slice(j, zero, one) y = Gather<axis = 1>(h, k)", "float[B,1,32] y",
         "MatMul(Gather{1}(x, Slice(Neg(i), [0], [1])), w)"),
        ("int64[B,1] i", "GatherND<batch_dims = 1>(h, i)", "float[B,32] y",
         "Squeeze(MatMul(GatherND{1}(x, Unsqueeze(i, [1])), w), [1])"),
        ("int64[B,1,1] i", "GatherND<batch_dims = 1>(h, i)", "float[B,1,32] y", "MatMul(GatherND{1}(x, i), w)"),
    ],
)  # fmt: skip
def test_indices_may_be_known_at_run_time_only(selected, inputs, selection, y, expected):
    body = f"h = MatMul(x, w) {selection if 'y =' in selection else 'y = ' + selection}"
    assert selected(graph(body, y, f", {inputs}")) == [expected]


LAST = "Gather{1}"


@pytest.mark.parametrize(
    ("body", "y", "expected"),
    [
        ("m = MatMul(x, w) h = Add(m, b) t = Tanh(h) y = Gather<axis = 1>(t, lasts)", "float[B,1,32] y",
         f"Tanh(Add(MatMul({LAST}(x, [-1]), w), b))"),
        ("m = MatMul(x, w) h = LayerNormalization<axis = -1>(m, b) y = Gather<axis = 1>(h, lasts)", "float[B,1,32] y",
         f"LayerNormalization{{-1}}(MatMul({LAST}(x, [-1]), w), b)"),
        ("m = MatMul(x, w) h = Softmax(m) y = Gather<axis = 1>(h, lasts)", "float[B,1,32] y",
         f"Softmax(MatMul({LAST}(x, [-1]), w))"),
        ("m = MatMul(x, w) h = ReduceMax<keepdims = 0>(m, lasts) y = Gather<axis = 1>(h, lasts)", "float[B,1] y",
         f"ReduceMax{{0}}(MatMul({LAST}(x, [-1]), w), [-1])"),
        ("m = MatMul(x, w) h = Transpose<perm = [1, 0, 2]>(m) y = Gather<axis = 0>(h, lasts)", "float[1,B,32] y",
         f"Transpose{{[1, 0, 2]}}(MatMul({LAST}(x, [-1]), w))"),
        ("r = Constant<value_ints = [0, 64, 8, 4]>() m = MatMul(x, w) h = Reshape(m, r) y = Gather<axis = 1>(h, lasts)",
         "float[B,1,8,4] y", f"Reshape(MatMul({LAST}(x, [-1]), w), [0, 1, 8, 4])"),
        ('h = Einsum<equation = "btd,dk->tbk">(x, w) y = Gather<axis = 0>(h, lasts)', "float[1,B,32] y",
         f"Einsum{{btd,dk->tbk}}({LAST}(x, [-1]), w)"),
        ("m = MatMul(x, w) g, u = Split<axis = 2, num_outputs = 2>(m) h = Mul(g, u) y = Gather<axis = 1>(h, lasts)",
         "float[B,1,16] y",
         f"Mul(Split{{2, 2}}(MatMul({LAST}(x, [-1]), w)).0, Split{{2, 2}}(MatMul({LAST}(x, [-1]), w)).1)"),
        ("m = MatMul(x, w) h = Concat<axis = 2>(m, x) y = Gather<axis = 1>(h, lasts)", "float[B,1,48] y",
         f"Concat{{2}}(MatMul({LAST}(x, [-1]), w), {LAST}(x, [-1]))"),
    ],
)  # fmt: skip
def test_selections_move_through_what_computes_row_by_row(selected, body, y, expected):
    assert selected(graph(body, y)) == [expected]


def test_a_residual_connection_is_selected_on_both_ways(selected):
    body = """n = MatMul(x, w)
      h = LayerNormalization<axis = -1>(n, b)
      t = Tanh(h)
      r = Add(n, t)
      y = Gather<axis = 1>(r, last)"""
    last = "MatMul(Gather{1}(x, [-1]), w)"
    expected = f"Squeeze(Add({last}, Tanh(LayerNormalization{{-1}}({last}, b))), [1])"
    assert selected(graph(body, "float[B,32] y")) == [expected]


@pytest.mark.parametrize("per_batch", [False, True])
def test_rows_of_a_product_on_merged_axes_are_selected_before_these_are_merged(selected, per_batch):
    selection = "GatherND<batch_dims = 1>(h, i)" if per_batch else "Gather<axis = 1>(h, lasts)"
    body = f"""t = Tanh(x)
      k = Constant<value_ints = [-1, 16]>()
      f = Reshape(t, k)
      g = Gemm(f, w, b)
      r = Constant<value_ints = [-1, 64, 32]>()
      h = Reshape(g, r)
      y = {selection}"""
    text = graph(body, "float[B,1,32] y", ", int64[B,1,1] i").replace("[B,", "[3,")
    rows = "GatherND{1}(x, i)" if per_batch else "Gather{1}(x, [-1])"
    assert selected(text) == [f"Unsqueeze(Gemm(Squeeze(Tanh({rows}), [1]), w, b), [1])"]


def test_selections_stay_behind_a_product_on_axes_that_were_merged_elsewhere(selected):
    body = (
        "r = Constant<value_ints = [-1, 64, 32]>() g = Gemm(f, w, b) h = Reshape(g, r) y = Gather<axis = 1>(h, lasts)"
    )
    text = graph(body, "float[B,1,32] y", ", float[M,16] f")
    assert "Gather{1}(Reshape(Gemm(f, w, b)" in selected(text.replace("float[M,16]", "float[192,16]"))[0]


@pytest.mark.parametrize("axis", [0, 2])
def test_rows_per_batch_stay_behind_what_mixes_the_batch(selected, axis):
    body = f"h = MatMul(x, w) t = Softmax<axis = {axis}>(h) y = GatherND<batch_dims = 1>(t, i)"
    expected = {
        0: "GatherND{1}(Softmax{0}(MatMul(x, w)), i)",
        2: "Softmax{2}(MatMul(GatherND{1}(x, i), w))",
    }
    assert selected(graph(body, "float[B,1,32] y", ", int64[B,1,1] i")) == [expected[axis]]


def test_embeddings_are_selected_by_their_tokens(selected):
    text = f"""{HEAD} g (int64[B,64] t, float[9,512] table, float[64,512] p) => (float[B,1,512] y) <{CONSTANTS}> {{
      e = Gather(table, t)
      h = Add(e, p)
      y = Gather<axis = 1>(h, lasts)
    }}"""
    expected = "Add(Gather(table, Gather{1}(t, [-1])), Gather{0}(p, [-1]))"
    assert selected(text) == [expected]


def test_two_selections_of_the_same_rows_move_together(selected):
    body = """n = MatMul(x, w)
      t = Tanh(n)
      y = Gather<axis = 1>(n, lasts)
      z = Gather<axis = 1>(t, lasts)"""
    last = "MatMul(Gather{1}(x, [-1]), w)"
    expected = [last, f"Tanh({last})"]
    assert selected(graph(body, "float[B,1,32] y, float[B,1,32] z")) == expected


@pytest.mark.parametrize(
    ("body", "y", "expected"),
    [
        ("h = MatMul(x, w) y = Gather<axis = 1>(h, lasts) z = ReduceSum(h, one)", "float[B,1,32] y, float[B,1,32] z",
         ["Gather{1}(MatMul(x, w), [-1])", "ReduceSum(MatMul(x, w), [1])"]),
        ("h = MatMul(x, w) y = Gather<axis = 1>(h, lasts)", "float[B,1,32] y, float[B,64,32] h",
         ["Gather{1}(MatMul(x, w), [-1])", "MatMul(x, w)"]),
        ("h = Softmax<axis = 1>(x) y = Gather<axis = 1>(h, lasts)", "float[B,1,16] y",
         ["Gather{1}(Softmax{1}(x), [-1])"]),
        ("a = Squeeze(one) h = CumSum(x, a) y = Gather<axis = 1>(h, lasts)", "float[B,1,16] y", ["Gather{1}(CumSum(x, Squeeze([1])), [-1])"]),
        ("h = LayerNormalization<axis = 1>(x, s) y = Gather<axis = 1>(h, lasts)", "float[B,1,16] y",
         ["Gather{1}(LayerNormalization{1}(x, s), [-1])"]),
        ("r = Constant<value_ints = [0, 32, 32]>() h = Reshape(x, r) y = Gather<axis = 1>(h, lasts)", "float[B,1,32] y",
         ["Gather{1}(Reshape(x, Constant{[0, 32, 32]}()), [-1])"]),
    ],
)  # fmt: skip
def test_selections_stay_behind_what_mixes_rows_or_is_read_elsewhere(selected, body, y, expected):
    assert selected(graph(body, y)) == expected


@pytest.mark.parametrize(
    ("made", "operator"),
    [
        ("Concat<axis = 0>(x, x, x)", "Concat{0}(x, x, x)"),
        ("Tile(x, n)", "Tile(x, [3, 1])"),
        ("Expand(x, m)", "Expand(x, [3, 1])"),
    ],
)
@pytest.mark.parametrize(
    ("selection", "size"), [("Slice(h, zero, one, zero)", "1,"), ("Gather(h, last)", ""), ("Gather(h, two)", "2,")]
)
def test_selections_stay_behind_a_node_that_repeats_its_only_row(selected, made, operator, selection, size):
    text = f"""{HEAD} g (float[1,512] x) => (float[{size}512] y)
      <int64[2] n = {{3, 1}}, int64[2] m = {{3, 1}}, {CONSTANTS.replace("0, 5", "0, 2")}> {{
      a = {made}
      h = Relu(a)
      y = {selection}
    }}"""
    (found,) = selected(text)
    assert operator in found


def test_a_selection_that_may_have_more_rows_than_there_were_stays(selected):
    body = "h = Add(x, x) k = Mul(i, zero) y = Gather<axis = 1>(h, k)"
    assert selected(graph(body, "float[B,K,16] y", ", int64[K] i")) == ["Gather{1}(Add(x, x), Mul(i, [0]))"]


def test_more_selections_than_they_save_work_are_not_made(selected):
    text = f"""{HEAD} g (float[2,8] p, float[2,8] q) => (float[2,1] y) <{CONSTANTS}> {{
      h = Add(p, q)
      y = Gather<axis = 1>(h, lasts)
    }}"""
    assert selected(text) == ["Gather{1}(Add(p, q), [-1])"]


def test_the_rows_per_batch_of_an_operand_without_the_batch_are_not_selected(selected):
    text = f"""{HEAD} g (float[B,64,512] x, float[64,512] p, int64[B,1,1] i) => (float[B,1,512] y) {{
      h = Add(x, p)
      y = GatherND<batch_dims = 1>(h, i)
    }}"""
    assert selected(text) == ["GatherND{1}(Add(x, p), i)"]


def test_indices_that_are_computed_late_come_first(selected):
    body = """h = MatMul(x, w)
      t = Tanh(h)
      n = ReduceSum<keepdims = 0>(x)
      m = Cast<to = 7>(n)
      z = Mul(m, zero)
      y = Gather<axis = 1>(t, z)"""
    index = "Mul(Cast{7}(ReduceSum{0}(x)), [0])"
    expected = f"Tanh(MatMul(Gather{{1}}(x, {index}), w))"
    assert selected(graph(body, "float[B,1,32] y")) == [expected]


def test_a_selection_of_the_same_bounds_along_another_axis_stays(selected):
    body = "h = MatMul(x, w) r = Slice(h, lasts, ends, one) y = Slice(r, lasts, ends, lasts)"
    assert selected(graph(body, "float[B,1,1] y")) == [
        "Slice(MatMul(Slice(x, [-1], [9223372036854775807], [1]), w), [-1], [9223372036854775807], [-1])"
    ]


def test_two_selections_that_drop_their_axes_stay_where_nothing_is_saved(selected):
    body = "r = Gather<axis = 1>(x, last) y = Gather<axis = 1>(r, last)"
    assert selected(graph(body, "float[B] y")) == ["Gather{1}(Gather{1}(x, -1), -1)"]
