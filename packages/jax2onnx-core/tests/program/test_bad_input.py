"""Every kind of wrong call gets its message."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax2onnx_core import Target, errors, hookimpl, to_onnx


def double(x):
    return x * 2


def add(x, y):
    return x + y


def test_a_value_that_is_not_callable():
    with pytest.raises(errors.OptionError, match="needs a callable, not int"):
        to_onnx(3, [("B", 4)])


@pytest.mark.parametrize("inputs", ["B", {"x": (1,)}, 3])
def test_inputs_that_are_no_list(inputs):
    with pytest.raises(errors.InputError, match="list with one entry per positional argument"):
        to_onnx(double, inputs)


@pytest.mark.parametrize("inputs", [[], [("B",)], [("B",)] * 3])
def test_wrong_number_of_inputs(inputs):
    with pytest.raises(errors.InputError, match=rf"add\(x, y\) cannot be called with {len(inputs)} positional"):
        to_onnx(add, inputs)


def test_unknown_keyword_input():
    with pytest.raises(errors.InputError, match="unexpected keyword argument 'z'"):
        to_onnx(double, [(3,)], kwargs={"z": (3,)})


@pytest.mark.parametrize("shape", ["B, 4", object()])
def test_a_shape_that_is_no_shape(shape):
    with pytest.raises(errors.InputError, match=r"inputs\[0\].*(not a shape|neither a shape)"):
        to_onnx(double, [shape])


def test_negative_dimension():
    with pytest.raises(
        errors.InputError, match=r"the dimension -1 of the shape .* is negative; name it to make it dynamic"
    ):
        to_onnx(double, [(-1, 4)])


def test_unknown_dtype():
    with pytest.raises(errors.InputError, match="'float33' is not a dtype"):
        to_onnx(double, [((3,), "float33")])


def test_misspelt_dimension():
    with pytest.raises(errors.SymbolError, match="'2 T' is not a dimension"):
        to_onnx(double, [("2 T",)])


@pytest.mark.parametrize("inputs", [("B", 4), ["B", 4]])
def test_the_shape_of_one_input_in_place_of_a_list_of_shapes(inputs):
    with pytest.raises(errors.InputError, match=r"a list with one entry per positional argument.*write \[\('B', 4\)\]"):
        to_onnx(abs, inputs)


def test_a_class_of_models_in_place_of_a_model():
    from flax import nnx

    with pytest.raises(
        errors.OptionError, match=r"Linear is a class of models, not a model: make an object.*Linear\(…\)"
    ):
        to_onnx(nnx.Linear, [("B", 4)])


class Point(NamedTuple):
    x: jax.Array
    y: jax.Array


def test_a_class_that_is_a_function_of_arrays_is_exported():
    assert to_onnx(Point, [(3,), (3,)]).output_names == ["x_1", "y_1"]


def branching(x):
    return x if x.sum() > 0 else -x


def with_numpy(x):
    return np.sin(x)


def with_float(x):
    return x * float(x[0])


def with_list(x):
    return x * [1, 2][x.astype(int)[0]]


@pytest.mark.parametrize(
    ("fn", "advice"),
    [
        (branching, "jax.numpy.where chooses"), (with_numpy, "Write jax.numpy in the place of numpy"),
        (with_float, "Leave it an array"), (with_list, "an array of jax.numpy can be indexed"),
    ],
)  # fmt: skip
def test_code_that_wants_the_numbers_of_an_array_gets_advice_and_its_line(fn, advice):
    with pytest.raises((TypeError, jax.errors.JAXTypeError)) as raised:
        to_onnx(fn, [(3,)])
    (note,) = [note for note in raised.value.__notes__ if not note.startswith("---")]
    assert advice in note
    assert re.search(rf"It is at .*test_bad_input.py:\d+ \({fn.__name__}\)", note)


def test_the_symbol_of_a_size_that_is_divided_is_named():
    with pytest.raises(errors.UndecidedDimensionError, match=r"specialize={'N': …}"):
        to_onnx(lambda x: x.reshape(2, -1), [("N",)])


def test_an_opset_that_is_a_text():
    with pytest.raises(errors.OptionError, match="opset='18' is not supported; it is a whole number; choose"):
        to_onnx(abs, [(3,)], opset="18")  # type: ignore[arg-type]


def test_misspelt_option():
    with pytest.raises(TypeError, match="opsets"):
        to_onnx(double, [(3,)], opsets=23)  # type: ignore[call-arg]


@pytest.mark.parametrize("opset", [16, 99, "23", True])
def test_unsupported_opset(opset):
    with pytest.raises(errors.OptionError, match=f"choose one from 17 to {min(28, onnx.defs.onnx_opset_version())}"):
        to_onnx(double, [(3,)], opset=opset)


def test_unknown_target():
    with pytest.raises(errors.OptionError, match="target='iree' is not installed; there are: onnx"):
        to_onnx(double, [(3,)], target="iree")


def test_names_that_do_not_fit():
    with pytest.raises(errors.OptionError, match="output_names needs 1 different names"):
        to_onnx(double, [(3,)], output_names=["a", "b"])


def test_an_error_in_the_users_code_is_theirs():
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        to_onnx(broken, [(3,)])


def needs_a_number(x):
    return x if x.shape[0] > 5 else -x


def test_a_question_about_a_symbol_shows_line_expression_and_the_ways_out():
    with pytest.raises(errors.UndecidedDimensionError) as caught:
        to_onnx(needs_a_number, [("2*B", 3)])
    message = str(caught.value)
    assert "'2*B' > '5' is inconclusive" in message
    assert "test_bad_input.py" in message
    assert "(needs_a_number): return x if x.shape[0] > 5 else -x" in message
    assert "constraints=('B >= 3',)" in message
    assert "specialize={'B': …}" in message
    assert caught.value.symbols == {"B"}


@pytest.mark.parametrize(
    ("question", "given", "proposed"),
    [
        (lambda t, s: t * t < 3, (), "T >= 2"),
        (lambda t, s: t * t < 3, ("T >= 0",), "T >= 2"),
        (lambda t, s: t * t < 3, ("T <= 40",), "T >= 2"),
        (lambda t, s: 2 * t < 7, (), "T >= 4"),
        (lambda t, s: 9 - t >= 0, (), "T >= 10"),
        (lambda t, s: t > 1000, (), "T >= 1001"),
        (lambda t, s: t <= 1000, (), "T <= 1000"),
        (lambda t, s: t // 2 >= 1, (), "T >= 2"),
        (lambda t, s: t % 2 >= 1, (), "mod(T, 2) >= 1"),
        (lambda t, s: t * t - 4 * t >= 0, (), "T^2 - 4*T >= 0"),
        (lambda t, s: t - s >= 0, (), "T - S >= 0"),
        (lambda t, s: t < 2 * s + 1, (), "T <= 2*S"),
        (lambda t, s: t > s, ("T >= 0",), "T >= S + 1"),
        (lambda t, s: t * s >= 6, (), "S*T >= 6"),
    ],
)
def test_the_constraint_that_is_proposed_answers_the_question(question, given, proposed):
    def fn(x, y):
        return 2 * x if question(x.shape[0], y.shape[0]) else x

    with pytest.raises(errors.UndecidedDimensionError) as caught:
        to_onnx(fn, [("T",), ("S",)], constraints=given)
    assert f"constraints=({proposed!r},)" in str(caught.value)
    to_onnx(fn, [("T",), ("S",)], constraints=(*given, proposed))


def test_where_a_number_itself_is_needed_no_constraint_is_proposed():
    with pytest.raises(
        errors.UndecidedDimensionError, match=r"\. Give a number for the symbol, specialize={'S': …}\.$"
    ):
        to_onnx(lambda x: x * int(x.shape[0]), [("S",)])


def test_symbols_of_two_names_where_one_is_needed():
    with pytest.raises(TypeError) as raised:
        to_onnx(lambda x, y: x + y, [("a", 3), ("b", 3)])
    assert any("a and b are symbols of different names" in note for note in raised.value.__notes__)


def test_an_array_in_place_of_a_key():
    program = to_onnx(lambda key: jax.random.bits(key), [jax.random.key(0)])
    with pytest.raises(errors.RuntimeInputError, match=r"has dtype float32, but .* for key<fry>: give it a key"):
        program(np.zeros(2, np.float32))


def test_a_question_is_asked_in_the_users_own_symbols():
    with pytest.raises(errors.UndecidedDimensionError, match="'S' > '5' is inconclusive"):
        to_onnx(needs_a_number, [("S", 3)], constraints=["S >= 0"])


@pytest.mark.parametrize(
    "fn", [lambda x: jnp.zeros(list(range(x.shape[0]))), lambda x: [x[i] for i in range(x.shape[0])]]
)
def test_a_loop_over_a_symbol(fn):
    with pytest.raises(
        errors.UndecidedDimensionError, match=r"needs the number behind.*test_bad_input.py.*specialize="
    ):
        to_onnx(fn, [("T", 3)])


@pytest.mark.parametrize(
    ("fn", "advice"),
    [
        (lambda x: x * x.shape[0] ** -0.5, r"jax\.numpy\.sqrt"),
        (lambda x: x * math.sqrt(x.shape[0]), r"jax\.numpy\.sqrt"),
        (lambda x: x * np.log2(x.shape[0]), r"jax\.numpy\.sqrt"),
        (lambda x: x * float(x.shape[0]), r"jax\.numpy\.sqrt"),
        (lambda x: x * (x.shape[0] >> 1), r"jax\.numpy\.sqrt"),
        (lambda x: x * round(x.shape[0]), r"jax\.numpy\.sqrt"),
        (lambda x: x + np.zeros(x.shape[0]), "specialize="),
        (lambda x: x * [1, 2, 3][x.shape[0]], "specialize="),
        (lambda x: x * x.shape[0].bit_length(), r"specialize=\{'T': …\}"),
    ],
)
def test_a_symbol_in_place_of_a_number(fn, advice):
    with pytest.raises(errors.UndecidedDimensionError, match=rf"needs the number behind.*test_bad_input\.py.*{advice}"):
        to_onnx(fn, [("T",)])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * np.array(x.shape[0]),
        lambda x: jnp.asarray(np.array([x.shape[0], 3])) + x.sum(),
        lambda x: jnp.where(np.arange(3) < x.shape[0], 1, 2) + x.sum(),
    ],
)
def test_a_symbol_in_an_array_of_numpy(fn):
    with pytest.raises(TypeError) as raised:
        to_onnx(fn, [("T",)])
    assert any(re.search(r"jax\.numpy\.array\(x\.shape\).*test_bad_input", note) for note in raised.value.__notes__)


def test_a_symbol_in_a_computation_that_is_to_be_done_at_once():
    def fn(x):
        with jax.ensure_compile_time_eval():
            half = int(jnp.ceil(x.shape[0] / 2))
        return x[:half]

    with pytest.raises(errors.UndecidedDimensionError, match=r"inside jax\.ensure_compile_time_eval.*{'T': …}"):
        to_onnx(fn, [("T",)])


def test_parts_of_a_symbolic_size():
    with pytest.raises(ValueError, match="equal division") as raised:
        to_onnx(lambda x: jnp.split(x, 2), [("T", 3)])
    assert any("constraints=('mod(T, 2) == 0',)" in note for note in raised.value.__notes__)
    assert to_onnx(lambda x: jnp.split(x, 2), [("T", 3)], constraints=["mod(T, 2) == 0"])


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (["T >= 3", "T <= 2"], "contradict|cannot be used"),
        (["T == S", "T == 2*S"], "contradict|cannot be used"),
        (["Q >= 3"], "'Q >= 3' is about Q, but no input has that symbol. There are: S, T"),
        (["Q >= 0"], "'Q >= 0' is about Q, but no input has that symbol"),
        (["T == 4*Q"], "is about Q"),
    ],
)
def test_contradictory_and_foreign_constraints(constraints, message):
    with pytest.raises(errors.SymbolError, match=message):
        to_onnx(double, [("T", "S")], constraints=constraints)


def test_all_unsupported_primitives_in_one_error():
    first = jax.extend.core.Primitive("mylib_first")
    second = jax.extend.core.Primitive("mylib_second")
    for primitive in (first, second):
        primitive.def_abstract_eval(lambda x: x)

    def uses_both(x):
        y = jax.lax.cond(x.sum() > 0, first.bind, lambda v: v, x)
        return second.bind(second.bind(y))

    with pytest.raises(errors.UnsupportedError) as caught:
        to_onnx(uses_both, [(3,)])
    message = str(caught.value)
    assert "mylib_first: once" in message
    assert "mylib_second: 2 times" in message
    assert "test_bad_input.py" in message
    assert "plugins=[plugin]" in message


def test_symbols_that_no_input_determines():
    with pytest.raises(errors.SymbolError, match="cannot be determined from the inputs x"):
        to_onnx(lambda x: x.sum() * x.shape[0], [("A*B",)])


def test_a_hyphen_in_a_name_subtracts():
    with pytest.raises(errors.SymbolError, match="write 'batch_size': '-' subtracts"):
        to_onnx(lambda x: x, [("batch-size",)])


def test_shapes_that_do_not_fit_have_their_line_and_the_inputs():
    with pytest.raises(TypeError) as raised:
        to_onnx(lambda x: x @ jnp.ones((8, 3)), [("B", 7)])
    (note,) = [note for note in raised.value.__notes__ if not note.startswith("---")]
    assert re.fullmatch(r"The inputs are x float32\[B, 7\]\. It is at .*test_bad_input.py:\d+ \(.*", note)


def test_lines_that_print_are_named():
    def body(x, _):
        jax.debug.callback(print, x)
        return x * 2, None

    def fn(x):
        jax.debug.print("{}", x)
        return jax.lax.scan(body, x, None, length=3)[0]

    with pytest.warns(errors.ExportWarning, match="prints at .*test_bad_input.py") as caught:
        program = to_onnx(fn, [()])
    assert [str(each.message).partition(")")[0].rpartition(".")[2] for each in caught] == ["fn", "body"]
    assert program(np.float32(1)) == 8


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (["T > 2"], "not of the form"),
        (["T >= "], "not a dimension"),
        (["2 == 3"], "cannot be used"),
        ("T >= 2", "sequence of texts"),
    ],
)
def test_unusable_constraints(constraints, message):
    with pytest.raises(errors.SymbolError, match=message):
        to_onnx(double, [("T",)], constraints=constraints)


@pytest.fixture(scope="module")
def program():
    return to_onnx(lambda x, y: (x.sum(), y), [("B", "2*N"), ("B", 4)], constraints=["N >= 2"])


class TestRunning:
    def run(self, program, first, second):
        return program(np.zeros(first, np.float32), np.zeros(second, np.float32))

    def test_fitting_arguments(self, program):
        assert self.run(program, (3, 6), (3, 4))[1].shape == (3, 4)

    def test_two_inputs_that_disagree(self, program):
        with pytest.raises(errors.RuntimeInputError, match=r"'y' has size 5 on axis 0, but it should be B = 3"):
            self.run(program, (3, 6), (5, 4))

    def test_a_size_that_the_expression_cannot_have(self, program):
        with pytest.raises(errors.RuntimeInputError, match=r"size 7 on axis 1, but it should be 2\*N"):
            self.run(program, (3, 7), (3, 4))

    def test_a_broken_constraint(self, program):
        with pytest.raises(errors.RuntimeInputError, match="'N >= 2' does not hold for N = 1"):
            self.run(program, (3, 2), (3, 4))

    def test_a_wrong_fixed_size(self, program):
        with pytest.raises(errors.RuntimeInputError, match="size 5 on axis 1, but it should be 4"):
            self.run(program, (3, 6), (3, 5))

    def test_a_wrong_rank(self, program):
        with pytest.raises(errors.RuntimeInputError, match=r"has shape \(3,\)"):
            self.run(program, (3,), (3, 4))

    def test_a_wrong_dtype(self, program):
        with pytest.raises(errors.RuntimeInputError, match="dtype int64, but the program was exported for float32"):
            program(np.zeros((3, 6), np.int64), np.zeros((3, 4), np.float32))

    def test_a_wrong_structure(self, program):
        with pytest.raises(errors.RuntimeInputError, match=r"missing args\[1\]"):
            program(np.zeros((3, 6), np.float32))


def test_a_target_without_a_runtime():
    class Elsewhere(Target):
        name = "elsewhere"

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.target(Elsewhere())

    program = to_onnx(double, [(3,)], target="elsewhere", plugins=[Plugin()])
    with pytest.raises(errors.TargetError, match="No installed plugin runs models for the target elsewhere"):
        program(jnp.zeros(3))


def test_a_shape_and_another_specification_are_a_pytree():
    program = to_onnx(lambda pair: pair[0].sum() + pair[1], [((2, 4), ((), "int32"))])
    assert program.input_names == ["pair.0", "pair.1"]
    program = to_onnx(lambda pair: pair[0].sum() + pair[1], [((2, 4), np.zeros(3))])
    assert program.input_names == ["pair.0", "pair.1"]


@pytest.mark.parametrize("opset", [27, 28])
def test_the_newest_opsets(opset):
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"the installed onnx has no opset {opset}")
    program = to_onnx(lambda x: jnp.einsum("ij,kj->ik", x, x) + jnp.arange(3) % 2, [(3, 4)], target="onnx", opset=opset)
    assert program.opset == opset
    assert program.model.ir_version <= 14
    program.verify()
