"""Names of inputs and outputs: those of the user, and those that are made from parameters and keys."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph.metadata import read_states


def double(x):
    return x * 2


def test_a_name_of_the_user_wins_over_that_of_an_input():
    program = to_onnx(double, [(3,)], output_names=["x"])
    assert (program.input_names, program.output_names) == (["x_1"], ["x"])
    assert program(np.ones(3)).tolist() == [2, 2, 2]


def test_a_name_of_the_user_wins_over_those_inside():
    weight = jnp.ones(2000)
    program = to_onnx(lambda x: (x + weight, jnp.where(x > 3, x, 0)), [(2000,)], output_names=["weight", "const"])
    assert program.output_names == ["weight", "const"]
    assert set(program.model.graph.initializers).isdisjoint({"weight", "const"})
    onnx.checker.check_model(program.model_proto, full_check=True)
    program.verify()


def test_an_input_name_of_the_user_wins_over_that_of_an_output():
    program = to_onnx(double, [(3,)], input_names=["output"])
    assert (program.input_names, program.output_names) == (["output"], ["output_1"])
    program.verify()


def test_names_of_the_user_hold_for_specializations():
    program = to_onnx(double, [("T",)], output_names=["x"]).specialize(T=3)
    assert (program.input_names, program.output_names) == (["x_1"], ["x"])


def sum_and_difference(x, y):
    return {"sum": x + y, "difference": x - y}


def test_own_names_in_another_order_are_an_error():
    with pytest.raises(errors.OptionError, match=r"in the order \['difference', 'sum'\].*'sum': 'difference'"):
        to_onnx(sum_and_difference, [(3,), (3,)], output_names=["sum", "difference"])


def test_own_names_of_inputs_in_another_order_are_an_error():
    with pytest.raises(errors.OptionError, match=r"input_names are in the order \['x', 'y'\]"):
        to_onnx(sum_and_difference, [(3,), (3,)], input_names=["y", "x"])


def test_a_mapping_names_outputs_by_their_keys():
    program = to_onnx(sum_and_difference, [(3,), (3,)], output_names={"sum": "total"})
    assert program.output_names == ["difference", "total"]
    program.verify()


def test_a_mapping_names_inputs_by_their_parameters():
    program = to_onnx(sum_and_difference, [("N",), ("N",)], input_names={"y": "z"}).specialize(N=3)
    assert program.input_names == ["x", "z"]
    program.verify()


def test_a_mapping_exchanges_names():
    exchange = {"sum": "difference", "difference": "sum"}
    assert to_onnx(sum_and_difference, [(3,), (3,)], output_names=exchange).output_names == ["sum", "difference"]


def test_an_output_without_a_new_name_gives_way_to_one_with_such_a_name():
    program = to_onnx(lambda x: {"a": x, "x": x + 1}, [(3,)], output_names={"a": "x_1"}, input_names={"x": "b"})
    assert (program.input_names, program.output_names) == (["b"], ["x_1", "x"])


def test_states_go_by_own_names_of_renamed_outputs():
    program = to_onnx(sum_and_difference, [(3,), (3,)], states={"x": "sum"}, output_names={"sum": "total"})
    assert [(pair.input, pair.output) for pair in read_states(program.model)] == [("x", "total")]


KEYS = {
    "dots": ({"a.b": (3,), "a": {"b": (4,)}}, ["x.a.b", "x.a.b_1"]),
    "names with numbers": ({"a.b": (3,), "a": {"b": (4,)}, "a.b_1": (5,)}, ["x.a.b", "x.a.b_1", "x.a.b_1_1"]),
    "braces": ({"a:{b}": (3,)}, ["x.a:{b}"]),
    "empty": ({"": (3,)}, ["x"]),
    "empty inside": ({"": {"": (3,), "a": (4,)}}, ["x..", "x..a"]),
    "surrogate": ({"\ud800": (3,)}, ["x.\\ud800"]),
    "NUL": ({"a\0": (3,), "a": (4,)}, ["x.a", "x.a\\x00"]),
    "numbers": ({3: (3,), 1: (4,)}, ["x.1", "x.3"]),
    "tuples": ({(1, "a"): (3,)}, ["x.(1, 'a')"]),
    "set": ({frozenset({"a", "b", "c"}): (3,)}, ["x.{a,b,c}"]),
}


@pytest.mark.parametrize("name", KEYS)
def test_names_from_keys_are_different_and_can_be_written(name, tmp_path):
    spec, names = KEYS[name]
    program = to_onnx(lambda x: x, [spec])
    assert program.input_names == names
    assert len(set(program.output_names)) == len(names)
    read = onnx.load(program.save(tmp_path / "model.onnx"))
    assert [value.name for value in read.graph.input] == names
    program.verify()


class Key:
    """An object whose text is its address."""


def test_an_address_is_no_name():
    (name,) = to_onnx(lambda x: x, [{Key(): (3,)}]).input_names
    assert "0x" not in name


def test_dynamic_dimensions_under_similar_keys_are_different():
    program = to_onnx(lambda x: x, [{"a.b": (None,), "a_b": (None,), "a b": ("x_a_b_dim0",)}])
    assert len(program.symbols) == 3


def test_names_do_not_depend_on_the_seed_of_hashes():
    code = "from jax2onnx_core import to_onnx; print(to_onnx(lambda x: x, [{frozenset('abcdef'): (3,)}]).input_names)"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True, cwd=Path(__file__).parent,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert outputs == {"['x.{a,b,c,d,e,f}']\n"}


PARAMETERS = {"dense": {"kernel": np.ones((8, 300), np.float32), "bias": np.ones(300, np.float32)}}


def dense(parameters, x):
    return x @ parameters["dense"]["kernel"] + parameters["dense"]["bias"]


class Dense:
    """A model of no framework, with NumPy arrays for weights."""

    def __init__(self):
        self.dense = Layer(**PARAMETERS["dense"])

    def __call__(self, x):
        return x @ self.dense.kernel + self.dense.bias

    def forward(self, x):
        return self(x)


class Layer:
    def __init__(self, kernel, bias):
        self.kernel, self.bias = kernel, bias


CALLABLES = {
    "partial": (functools.partial(dense, PARAMETERS), "dense"),
    "object": (Dense(), "Dense"),
    "bound method": (Dense().forward, "Dense"),
    "jit of a partial": (jax.jit(functools.partial(dense, PARAMETERS)), "dense"),
    "jit of an object": (jax.jit(Dense()), "Dense"),
    "vmap of a bound method": (jax.vmap(Dense().forward), "Dense"),
}


@pytest.mark.parametrize("kind", CALLABLES)
def test_numpy_weights_keep_their_names_and_graphs_are_called_after_the_function(kind):
    fn, title = CALLABLES[kind]
    graph = to_onnx(fn, [("B", 8)]).model.graph
    assert (graph.name, set(graph.initializers)) == (title, {"dense.kernel", "dense.bias"})


def test_a_single_argument_among_any_number_is_x():
    assert to_onnx(lambda *args: sum(args), [(3,)]).input_names == ["x"]
    assert to_onnx(lambda *args: sum(args), [(3,), (3,)]).input_names == ["args_0", "args_1"]
    assert to_onnx(lambda *args, **scales: args[0] * scales["x"], [(3,)], kwargs={"x": ()}).input_names == [
        "args_0",
        "x",
    ]


class Table:
    def __call__(self, x):
        return x + np.sin(np.arange(2048.0, dtype=np.float32))


def windowed(x):
    return x * np.hanning(2048).astype(np.float32)


def test_a_large_constant_is_called_after_the_function_that_reads_it():
    program = to_onnx(lambda x: jax.jit(windowed)(Table()(x)) - np.arange(2048.0, dtype=np.float32), [(2048,)])
    assert set(program.model.graph.initializers) == {
        "const.Table",
        "const.windowed",
        "const.test_a_large_constant_is_called_after_the_function_that_reads_it",
    }


def test_a_small_constant_is_shared_by_those_that_read_it():
    program = to_onnx(lambda x: (x + np.float32(np.ones(8) / 3)) * np.float32(np.ones(8) / 3), [(8,)])
    assert list(program.model.graph.initializers) == ["const"]
