"""Specialized dimensions remember their symbols; symbols of equal value stay two symbols."""

from __future__ import annotations

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax2onnx_core import SpecializedDim, errors, to_onnx
from jax2onnx_graph.metadata import SYMBOLS_KEY


class TestSpecializedDim:
    d = SpecializedDim(5632, "N")

    def test_equals_the_int(self):
        assert self.d == 5632
        assert hash(self.d) == hash(5632)
        assert {5632: 1}[self.d] == 1
        assert isinstance(self.d, int)
        assert f"{self.d}" == "5632"

    def test_remembers_its_expression(self):
        assert self.d.expression == "N"

    @given(st.integers(1, 10_000), st.integers(1, 10_000))
    def test_arithmetic_gives_plain_ints(self, a, b):
        d = SpecializedDim(a, "N")
        for result, expected in [
            (d + b, a + b),
            (b - d, b - a),
            (d * b, a * b),
            (d // b, a // b),
            (d % b, a % b),
            (-d, -a),
        ]:
            assert result == expected
            assert type(result) is int

    def test_pickles_as_an_int(self):
        assert type(pickle.loads(pickle.dumps(self.d))) is int

    def test_indexes(self):
        assert list(range(10))[SpecializedDim(3, "N")] == 3
        assert np.zeros(SpecializedDim(3, "N")).shape == (3,)


def layer_norm_backward(x, y):
    """Reductions and arrays made anew, over two symbols."""
    buffer = jnp.zeros(x.shape[1], x.dtype)
    centred = x - x.mean(axis=1, keepdims=True)
    return {"sum": centred.sum(axis=0) + buffer, "outer": jnp.einsum("mn,kn->mk", centred, y), "flat": x.reshape(-1)}


@pytest.fixture(scope="module")
def dynamic():
    return to_onnx(layer_norm_backward, [("M", "N"), ("K", "N")])


def dims_of(program):
    return {v.name: [str(d) for d in v.shape] for v in program.model.graph.outputs}


def test_a_number_in_every_place_of_a_symbol(dynamic):
    program = dynamic.specialize(N=5632)
    assert dims_of(program) == {"sum": ["5632"], "outer": ["M", "K"], "flat": ["5632*M"]}
    program.verify(sizes=[{"M": 3, "K": 2}])


def test_provenance_survives_reductions_and_reshapes(dynamic):
    program = dynamic.specialize(N=5632, M=7)
    kept = {v.name: v.metadata_props.get("jax2onnx.dims") for v in program.model.graph.outputs}
    assert kept == {"sum": "N", "outer": "M, K", "flat": "M*N"}


def test_two_symbols_of_one_value_stay_two(dynamic):
    program = dynamic.specialize(M=5, K=5)
    outer = next(v for v in program.model.graph.outputs if v.name == "outer")
    assert outer.metadata_props["jax2onnx.dims"] == "M, K"
    assert program.symbols["M"].origins != program.symbols["K"].origins
    assert program.check_symbols() == []


DIMS = "jax2onnx.dims"


def problems(program, name, labels):
    """The sentences on a program whose value `name` gets these labels in its metadata, none for None."""
    value = next(v for v in (*program.model.graph.inputs, *program.model.graph.outputs) if v.name == name)
    before = value.metadata_props.pop(DIMS)
    value.metadata_props.update({} if labels is None else {DIMS: labels})
    try:
        return program.check_symbols()
    finally:
        value.metadata_props[DIMS] = before


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("x", None, "x: axis 0 should be M, but is 5."),
        ("outer", None, "outer: axis 0 should be M, but is 5."),
        ("x", "N, M", "x: axis 0 should be M, but is N."),
        ("outer", "K, M", "outer: axis 0 should be M, but is K."),
        ("outer", "M, N", "outer: axis 1 was N, which is 7, but has size 5."),
        ("outer", "M, Q", "outer: axis 1 was 'Q'; no input has Q."),
        ("outer", "M", "outer: its metadata have labels for 1 dimensions, but it has 2."),
        ("flat", "floordiv(M, 2)", "flat: axis 0 was floordiv(M, 2), which is 2, but has size 35."),
    ],
)
def test_symbols_that_were_fixed_and_lost_or_conflated_are_reported(dynamic, name, labels, message):
    program = dynamic.specialize(M=5, K=5, N=7)
    assert program.check_symbols() == []
    assert message in problems(program, name, labels)


def test_an_output_that_is_an_input_where_another_is_empty_keeps_its_own_label():
    program = to_onnx(lambda c, x: jnp.concatenate([c, x]), [("S", 4), ("T", 4)], constraints=["S >= 0"])
    assert program.specialize(T=1, S=0).check_symbols() == []


def test_a_label_of_an_input_that_is_another_symbol_is_reported():
    program = to_onnx(lambda x: x + 1, [("M", "N")])
    shape = program.model.graph.inputs[0].shape
    assert shape is not None
    shape[0] = ir.SymbolicDim("N")
    assert program.check_symbols() == ["x: axis 0 should be M, but is N."]


def test_the_registry_of_symbols(dynamic):
    table = dynamic.specialize(N=5632).symbols
    assert table["N"].value == 5632
    assert table["M"].value is None
    assert table["N"].origins == (("x", 1, "N"), ("y", 1, "N"))


def test_the_table_is_in_the_file(dynamic, tmp_path):
    path = dynamic.specialize(N=8).save(tmp_path / "m.onnx")
    metadata = {p.key: p.value for p in onnx.load(path).metadata_props}
    symbols = {s["name"]: s["value"] for s in json.loads(metadata[SYMBOLS_KEY])["symbols"]}
    assert symbols == {"K": None, "M": None, "N": 8}


def test_specializing_in_steps_equals_at_once(dynamic):
    at_once, in_steps = dynamic.specialize(M=3, N=4), dynamic.specialize(M=3).specialize(N=4)
    assert dims_of(at_once) == dims_of(in_steps)
    assert in_steps.symbols["M"].value == 3


def test_expressions_and_zero():
    def grow(x, past):
        return jnp.concatenate([past, x], axis=0)

    program = to_onnx(grow, [("T", 2), ("S", 2)], constraints=["S >= 0"])
    assert dims_of(program) == {"output": ["T + S", "2"]}
    fixed = program.specialize(T=3, S=0)
    assert dims_of(fixed) == {"output": ["3", "2"]}
    fixed.verify()
    program.verify()


def test_specialized_at_export():
    program = to_onnx(lambda x: x * 2, [("A", "B")], specialize={"A": 4})
    assert dims_of(program) == {"output": ["4", "B"]}


def test_an_unknown_symbol(dynamic):
    with pytest.raises(
        errors.SymbolError, match=r"Cannot specialize 'Q': no input has that symbol\. There are: K, M, N"
    ):
        dynamic.specialize(Q=3)


def test_against_a_constraint():
    program = to_onnx(lambda x: x * 2, [("T",)], constraints=["T >= 2"])
    with pytest.raises(errors.SymbolError, match="'T >= 2' does not hold for T = 1"):
        program.specialize(T=1)


def test_below_the_minimum(dynamic):
    with pytest.raises(errors.SymbolError, match="N = 0, but N >= 1"):
        dynamic.specialize(N=0)


def test_variants_share_their_weights(tmp_path):
    weight = jnp.ones((64, 64))
    program = to_onnx(lambda x: x @ weight, [("T", 64)])
    paths = program.save_variants(tmp_path, full={"T": 6}, incremental={"T": 1})
    assert [p.name for p in paths] == ["full.onnx", "incremental.onnx"]
    (data,) = tmp_path.glob("weights.*.data")
    assert data.stat().st_size == weight.nbytes
    for path, rows in zip(paths, (6, 1), strict=True):
        session = program.runtime.load(path)
        np.testing.assert_allclose(session({"x": np.ones((rows, 64), np.float32)})[0], np.full((rows, 64), 64.0))


def test_equal_shapes_of_different_symbols_are_not_conflated():
    """JAX shares one object among equal shapes; what remembers M must not become N, nor stay in later exports."""
    program = to_onnx(lambda x, y: (-x, -y), [("M", 4), ("N", 4)], specialize={"M": 3, "N": 3})
    kept = [v.metadata_props["jax2onnx.dims"] for v in program.model.graph.outputs]
    assert kept == ["M, 4", "N, 4"]
    plain = to_onnx(lambda x: -x, [(3, 4)])
    assert "jax2onnx.dims" not in plain.model.graph.outputs[0].metadata_props


class TestNumbersThatTheTraceNeeds:
    """Python control flow on a shape sees the number; labels stay where JAX's shape rules prove them."""

    @staticmethod
    def asks(x, y):
        z = jnp.sin(x) * 2 if x.shape[0] > 5 else -x
        return {"kept": jax.nn.softmax(z @ y.T).sum(axis=0), "same": z.T, "rebuilt": z.reshape(int(z.shape[0]), 2, 2)}

    def test_the_symbol_in_question_is_fixed_before_the_trace(self):
        program = to_onnx(self.asks, [("N", 4), ("M", 4)], specialize={"N": 7})
        assert dims_of(program) == {"kept": ["M"], "rebuilt": ["7", "2", "2"], "same": ["4", "7"]}
        kept = {v.name: v.metadata_props.get("jax2onnx.dims") for v in program.model.graph.outputs}
        assert kept["same"] == "4, N"
        assert program.symbols["N"].value == 7
        program.verify()

    def test_the_others_after_it(self):
        program = to_onnx(self.asks, [("N", 4), ("M", 4)], specialize={"N": 3, "M": 3})
        kept = {v.name: v.metadata_props.get("jax2onnx.dims") for v in program.model.graph.outputs}
        assert (kept["kept"], kept["same"]) == ("M", "4, N")
        program.verify()

    def test_a_symbol_in_question_that_has_no_number(self):
        with pytest.raises(errors.UndecidedDimensionError, match="'N' > '5'"):
            to_onnx(self.asks, [("N", 4), ("M", 4)], specialize={"M": 3})

    def test_a_loop_over_a_symbol(self):
        program = to_onnx(lambda x: sum(x[i] for i in range(x.shape[0])), [("T", "D")], specialize={"T": 3})
        assert dims_of(program) == {"output": ["D"]}
        program.verify()

    @pytest.mark.parametrize(
        "ask",
        [
            np.arange,
            lambda size: int(size / 2),
            lambda size: 1 if size / 2 > 1 else 2,
            lambda size: np.asarray(2.5 * size),
        ],
    )
    def test_what_is_computed_from_a_symbol_becomes_a_number(self, ask):
        program = to_onnx(lambda x: x * jnp.expand_dims(ask(x.shape[0]), -1), [("T", "D")], specialize={"T": 3})
        assert dims_of(program) == {"output": ["3", "D"]}
        program.verify()

    def test_sizes_that_meet_become_equal(self):
        program = to_onnx(lambda x, y: x + y, [("T", "D"), (3, "D")], specialize={"T": 3})
        assert dims_of(program) == {"output": ["3", "D"]}
        program.verify()

    @pytest.mark.parametrize("specialize", [{}, {"D": 4}])
    def test_what_is_computed_from_a_symbol_that_has_no_number(self, specialize):
        with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
            to_onnx(lambda x: x + np.arange(x.shape[1]), [("D", "T")], specialize=specialize)
        assert caught.value.__notes__[-1].startswith(
            "What is computed from a symbolic size is such an array: numpy.arange"
        )


def test_a_constraint_about_a_symbol_that_is_fixed():
    program = to_onnx(
        lambda a, b: jnp.concatenate([a, b], 1), [("B", "S"), ("B", "T")], constraints=["T <= 6", "S <= 3*T"]
    )
    assert program.specialize(T=2).verify(sizes=[{"B": 2, "S": 5}]) == 0.0
