from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.errors import RuntimeInputError, SymbolError
from jax2onnx_graph.labels import symbol_table
from jax2onnx_graph.metadata import write_symbols
from jax2onnx_runtime.feeds import feeds_of

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '


def model_of(inputs, *, body="y = Identity(x)", constraints=(), least=1):
    model = ir.from_onnx_text(f"{HEAD}({inputs}) => (float[M] y) {{ {body} }}")
    if constraints or least != 1:
        shapes = {
            str(value.name): [d.value if isinstance(d, ir.SymbolicDim) else None for d in value.shape]
            for value in model.graph.inputs
        }
        write_symbols(model, symbol_table(shapes, lambda _: least, {}), constraints)
    return model


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


def shapes(feeds):
    return {name: array.shape for name, array in feeds.items()}


def test_given_arrays_are_passed_on_in_the_order_of_the_inputs():
    feeds = feeds_of(model_of("float[N] x, float[N] z"), {"z": zeros(3), "x": zeros(3)})
    assert list(feeds) == ["x", "z"]


def test_random_arrays_fit_the_given_ones():
    model = model_of('float[N, "2*T+1"] x, int32[T] z, float[B] w')
    assert shapes(feeds_of(model, {"x": zeros(3, 9)}, sizes={"B": 5}, seed=0)) == {"x": (3, 9), "z": (4,), "w": (5,)}


def test_random_arrays_keep_constraints_and_minima():
    model = model_of("float[T] x, float[S] z", constraints=["mod(T, 4) == 0", "S >= T + 1"])
    found = shapes(feeds_of(model, {}, seed=0))
    assert found["x"][0] % 4 == 0
    assert found["z"][0] > found["x"][0]
    assert shapes(feeds_of(model_of("float[T] x", least=0), {}, sizes={"T": 0}, seed=0)) == {"x": (0,)}


@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [
        ('float["N - 1"] x', [(5,)]),
        ('float["2*N - 7"] x', [(11,)]),
        ('float["2*N + M"] x, float["M - 3"] z', [(20,), (1,)]),
        ('float["floordiv(N, 3)"] x', [(0,)]),
        ('float["max(N, 3)"] x', [(3,)]),
    ],
)
def test_the_size_of_a_symbol_follows_from_an_expression(inputs, sizes):
    given = {name: zeros(*shape) for name, shape in zip("xz", sizes, strict=False)}
    assert shapes(feeds_of(model_of(inputs), given)) == {name: array.shape for name, array in given.items()}


def test_the_same_seed_gives_the_same_arrays():
    one, two, three = (feeds_of(model_of("float[N] x"), {}, seed=seed)["x"] for seed in (1, 1, 2))
    assert (one == two).all()
    assert (one != three).any()


def test_indices_are_within_the_axis_that_they_index():
    model = model_of("float[3] t, int64[N] x", body="y = Gather(t, x)")
    assert feeds_of(model, {}, sizes={"N": 64}, seed=0)["x"].max() == 2


def test_weights_among_the_inputs_are_not_asked_for():
    text = f"{HEAD}(float[2] x, float[2] w) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add(x, w) }}"
    assert list(feeds_of(ir.from_onnx_text(text), {}, seed=0)) == ["x"]


def test_texts_that_are_no_expressions_are_symbols():
    model = model_of('float["batch size / 2", "batch size / 2"] x')
    assert shapes(feeds_of(model, {"x": zeros(3, 3)})) == {"x": (3, 3)}
    with pytest.raises(SymbolError, match="size 4 on axis 1"):
        feeds_of(model, {"x": zeros(3, 4)})


def test_an_input_without_a_shape_takes_any_array_but_a_random_one():
    model = model_of("float[N] x")
    model.graph.inputs[0].shape = None
    assert shapes(feeds_of(model, {"x": zeros(3, 3)})) == {"x": (3, 3)}
    with pytest.raises(RuntimeInputError, match=r"no random arrays for the input 'x', float32\[…\]"):
        feeds_of(model, {}, seed=0)


def test_strings():
    model = model_of("string[N] x", body="y = Identity(x)")
    assert shapes(feeds_of(model, {"x": np.array(["a", "b"])})) == {"x": (2,)}
    with pytest.raises(RuntimeInputError, match="no random arrays"):
        feeds_of(model, {}, seed=0)


@pytest.mark.parametrize(
    ("given", "sizes", "error", "why"),
    [
        ({}, {}, RuntimeInputError, r"no array for the input 'x', float32\[N, 2\*T\+1\]"),
        ({"v": zeros(3)}, {}, RuntimeInputError, "no input 'v'; the inputs are x, z"),
        ({"x": zeros(3, 5, dtype="float64")}, {}, RuntimeInputError, "has type float64, but the model takes float32"),
        ({"x": zeros(3)}, {}, SymbolError, "has shape"),
        ({"x": zeros(3, 4)}, {}, SymbolError, "size 4 on axis 1"),
        ({"x": zeros(3, 5), "z": zeros(3)}, {}, SymbolError, "size 5 on axis 1, but it should be 2.T.1 = 7 where"),
        ({"x": zeros(3, 5)}, {"T": 3}, SymbolError, "T is to be 3, but an array has 2"),
        ({"x": zeros(3, 3)}, {}, SymbolError, "the model was exported for T >= 2"),
        ({}, {"T": 1}, SymbolError, "the model was exported for T >= 2"),
        ({}, {"K": 1}, SymbolError, "no symbol 'K'; the symbols are N, T"),
        ({}, {"N": 0}, SymbolError, "N = 0, but it is at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(given, sizes, error, why):
    model = model_of('float[N, "2*T+1"] x, float[T] z', constraints=["T >= 2"])
    with pytest.raises(error, match=why):
        feeds_of(model, given, sizes=sizes, seed=0 if given.keys() & {"x"} or sizes else None)


def test_a_negative_size_of_a_model_without_metadata_is_refused():
    with pytest.raises(SymbolError, match="N = -1, but it is at least 0"):
        feeds_of(model_of("float[N] x"), {}, sizes={"N": -1}, seed=0)


def test_a_sequence_is_no_array():
    model = ir.from_onnx_text(f"{HEAD}(seq(float[N]) x) => (int64 y) {{ y = SequenceLength(x) }}")
    with pytest.raises(RuntimeInputError, match="which no array is"):
        feeds_of(model, {"x": zeros(3)})
