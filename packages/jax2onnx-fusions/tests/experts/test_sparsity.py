"""Bounds on nonzero elements: no graph has more of them than its bound says, however gates are nested, grouped or masked."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax2onnx_fusions.experts._sparsity import KEEP_ZEROS, Sparsity, Validity, sparsity
from jax2onnx_graph.facts.sub_axes import SubAxis
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

#: Of 6 tokens and 8 experts, the latter as 4 groups of 2: indices and gates of the chosen ones, masks, gates of all.
INPUTS = """int64[6,2] i, float[6,2] v, bool[6,8] m, bool[6,4] g, float[6,8] dense, float[6,1] scale, float[0,6,8] nothing, float[6,3,8] three,
    int64[6,1] first"""
CONSTANTS = """n = Constant<value = int64[8] {0, 1, 2, 3, 4, 5, 6, 7}>() twice = Constant<value = int64[8] {0, 1, 2, 2, 4, 5, 6, 7}>()
    n4 = Constant<value = int64[4] {0, 1, 2, 3}>()
    zero = Constant<value = float {0}>() low = Constant<value = float {-inf}>() large = Constant<value = float {-1e9}>()
    one = Constant<value = float {1}>() a0 = Constant<value = int64[1] {0}>() a1 = Constant<value = int64[1] {1}>() a2 = Constant<value = int64[1] {2}>()
    both = Constant<value = int64[2] {0, 1}>()
    split = Constant<value = int64[3] {6, 4, 2}>() rows = Constant<value = int64[2] {6, 8}>() pairs = Constant<value = int64[3] {6, 4, 2}>() """
WEIGHTS = "<float[1,8] few = {0, 2, 0, 0, -1, 0, 0, 0}>"
ONE_HOT = "iu = Unsqueeze(i, a2) eq = Equal(iu, n) c = Cast<to = 1>(eq) vu = Unsqueeze(v, a2) p = Mul(c, vu) "
GATES = ONE_HOT + "s = ReduceSum<keepdims = 0>(p, a1) "


def computed(body: str) -> tuple[ir.Value, np.ndarray]:
    """The result of a graph, as a value and as numbers."""
    text = f'<ir_version: 10, opset_import: ["" : 23]> g ({INPUTS}) => (y) {WEIGHTS} {{ {CONSTANTS} {body} }}'
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    rng = np.random.default_rng(0)
    feeds = {
        "i": rng.integers(0, 8, (6, 2)), "v": rng.uniform(0.1, 1, (6, 2)).astype(np.float32), "m": rng.random((6, 8)) < 0.6,
        "g": rng.random((6, 4)) < 0.7, "dense": rng.normal(size=(6, 8)).astype(np.float32), "first": rng.integers(0, 4, (6, 1)),
        "scale": rng.normal(size=(6, 1)).astype(np.float32), "nothing": np.zeros((0, 6, 8), np.float32),
        "three": rng.normal(size=(6, 3, 8)).astype(np.float32),
    }  # fmt: skip
    feeds = {str(value.name): feeds[str(value.name)] for value in model.graph.inputs}
    with np.errstate(all="ignore"):
        (result,) = ReferenceEvaluator(ir.to_proto(model)).run(None, feeds)
    return model.graph.outputs[0], np.asarray(result)


def most(result: np.ndarray, axis: int) -> int:
    """The largest number of nonzero elements of a line."""
    return int(np.count_nonzero(result, axis=axis).max(initial=0))


def assert_holds(body: str, axis: int) -> None:
    value, result = computed(body)
    found = sparsity(value, SubAxis(axis), result.shape[axis]) if axis < result.ndim else None
    if found is None or (found.validity >= Validity.IF_FINITE and not np.isfinite(result).all()):
        return
    counts = np.count_nonzero(result, axis=axis)
    assert (counts.mean() if found.validity == Validity.ON_AVERAGE else most(result, axis)) <= found.bound


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        (ONE_HOT + "y = Identity(p)", Sparsity(1, Validity.IF_FINITE)),
        (GATES + "y = Identity(s)", Sparsity(2, Validity.IF_FINITE)),
        (GATES + "y = Add(s, s)", Sparsity(4, Validity.IF_FINITE)),
        (GATES + "y = Where(m, s, zero)", Sparsity(2, Validity.IF_FINITE)),
        (GATES + "t = Mul(s, dense) y = Mul(t, dense)", Sparsity(2, Validity.IF_FINITE)),
        ("y = Mul(dense, few)", Sparsity(2, Validity.IF_FINITE)),
        (ONE_HOT + "o = ReduceMax<keepdims = 0>(c, a1) b = Cast<to = 9>(o) w = Where(b, dense, low) y = Softmax(w)",
         Sparsity(2, Validity.IF_FINITE)),
    ],
)  # fmt: skip
def test_gates_have_the_bound_of_what_chooses_them(body, bound):
    value, result = computed(body)
    assert sparsity(value, SubAxis(result.ndim - 1), 8) == bound


@pytest.mark.parametrize("function", sorted(KEEP_ZEROS - {"Cast", "Swish", "Transpose"}))
def test_functions_of_zero_that_are_zero_keep_the_bound(function):
    value, result = computed(f"{GATES} y = {function}(s)")
    assert sparsity(value, SubAxis(1), 8) == Sparsity(2, Validity.IF_FINITE)
    assert most(result, 1) <= 2


@pytest.mark.parametrize(
    "body",
    [
        *[f"{GATES} y = {function}(s)" for function in ("Cos", "Cosh", "HardSigmoid", "Sigmoid", "Softplus")],
        "y = Identity(dense)",
        "y = Where(m, dense, zero)",
        GATES + "y = Where(m, s, dense)",
        GATES + "y = Where(m, dense, s)",
        GATES + "y = Where(m, s, one)",
        GATES + "y = Add(s, dense)",
        GATES + "y = Add(s, one)",
        GATES + "y = Sub(one, s)",
        GATES + "y = Div(dense, s)",
        GATES + "y = Exp(s)",
        GATES + "y = Softmax(s)",
        GATES + "w = Where(m, s, large) y = Softmax(w)",
        ONE_HOT + "k = Not(eq) c1 = Cast<to = 1>(k) y = ReduceSum<keepdims = 0>(c1, a1)",
        "iu = Unsqueeze(i, a2) y = Equal(iu, twice)",
        "gu = Unsqueeze(g, a2) d = Reshape(dense, pairs) q = Where(gu, d, zero) y = Reshape(q, rows)",
        "y = ReduceMax<keepdims = 0>(three, a1)",
    ],
)
def test_what_is_not_known_to_be_zero_has_no_bound(body):
    value, result = computed(body)
    assert sparsity(value, SubAxis(result.ndim - 1), 8) is None


@pytest.mark.parametrize(
    "body",
    [
        "n0 = Mul(nothing, few) y = ReduceMax<keepdims = 0>(n0, a0)",
        "n0 = Mul(nothing, few) y = ReduceSum<keepdims = 0>(n0, a0)",
        "eq = Equal(first, n4) gu = Unsqueeze(eq, a2) d = Reshape(dense, pairs) q = Where(gu, d, zero) y = Reshape(q, rows)",
        GATES + "r = Reshape(s, pairs) y = ReduceSum<keepdims = 0>(r, a2)",
        GATES + "r = Reshape(s, pairs) y = ReduceSum<keepdims = 0>(r, a1)",
        GATES + "y = ReduceSum<keepdims = 0>(s, a0)",
        GATES + "y = Transpose<perm = [1, 0]>(s)",
        GATES + "d = ReduceSum<keepdims = 1>(s, a1) y = Div(s, d)",
        GATES + "d = ReduceSum<keepdims = 1>(s, a1) e = Sub(d, d) y = Div(s, e)",
        GATES + "t = Transpose<perm = [1, 0]>(dense) h = MatMul(t, s) y = Identity(h)",
        ONE_HOT + "y = ReduceSum<keepdims = 0>(p, both)",
        ONE_HOT + "y = ReduceMax<keepdims = 0>(p, a1)",
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_no_result_has_more_than_its_bound(body, axis):
    assert_holds(body, axis)


#: Operators on one value of [6, 8] and on two.
ONE = ["Relu({x})", "Neg({x})", "Abs({x})", "Where(m, {x}, zero)", "Where(m, zero, {x})", "Where(m, {x}, low)", "Softmax({x})", "Mul({x}, few)",
       "Mul({x}, scale)", "Div({x}, scale)", "Sub({x}, one)", "Softmax<axis = 0>({x})"]  # fmt: skip
TWO = ["Add({x}, {y})", "Sub({x}, {y})", "Mul({x}, {y})", "Div({x}, {y})", "Where(m, {x}, {y})", "Max({x}, {y})"]


@given(st.lists(st.tuples(st.sampled_from(ONE + TWO), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=5))
def test_no_chain_of_gates_has_more_than_its_bound(chain):
    values, lines = ["s", "dense"], [GATES]
    for number, (operation, x, y) in enumerate(chain):
        lines.append(f"t{number} = " + operation.format(x=values[-1 - x % len(values)], y=values[-1 - y % len(values)]))
        values.append(f"t{number}")
    for axis in (0, 1):
        assert_holds(" ".join([*lines, f"y = Identity({values[-1]})"]), axis)
