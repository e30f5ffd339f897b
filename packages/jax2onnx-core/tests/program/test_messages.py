"""Messages after a wrong call, word for word."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

STATIC = "An argument that is to be fixed in the model is not listed, but bound: functools.partial(fn, name=value)."
NOT_A_SPEC = (
    "is neither a shape, an array, nor a pytree of them. Write a shape such as ('B', 4), a pair (shape, dtype), "
    f"a jax.ShapeDtypeStruct, or an example array. {STATIC}"
)


def double(x: Any) -> Any:
    return x * 2


def no_dtype(where: str, name: str) -> str:
    return f"{where}: JAX has no dtype {name}; give another one, for instance with .astype('float32')."


def message_of(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


BAD_INPUTS = {
    "dtype in a shape": (("B", 3, "float32"), "inputs[0]: the shape ('B', 3, 'float32') has a dtype among its dimensions; write (('B', 3), 'float32')."),
    "dtype class in a shape": ((3, jnp.int8), "inputs[0]: the shape (3, <class 'jax.numpy.int8'>) has a dtype among its dimensions; write ((3,), 'int8')."),
    "negative text": (("-3",), "inputs[0]: the dimension -3 of the shape ('-3',) is negative; name it to make it dynamic."),
    "negative number": ({"a": (4, -1)}, "inputs[0]['a']: the dimension -1 of the shape (4, -1) is negative; name it to make it dynamic."),
    "too large": ((2**63,), f"inputs[0]: the dimension {2**63} of the shape ({2**63},) is more than an array can have, 2**63 - 1."),
    "object": (np.zeros(3, object), no_dtype("inputs[0]", "object")),
    "text array": ([np.array(["abcde"])], no_dtype("inputs[0][0]", "<U5")),
    "dates": (((3,), "datetime64[s]"), no_dtype("inputs[0]", "datetime64[s]")),
    "extended precision": (np.zeros(3, np.longdouble), no_dtype("inputs[0]", str(np.dtype(np.longdouble)))),
    "other byte order": (((3,), ">f4"), no_dtype("inputs[0]", ">f4")),
    "unknown dtype": (((3,), "float33"), "inputs[0]: 'float33' is not a dtype; write for instance ((3, 4), 'int32')."),
    "text": ("a", f"inputs[0]: 'a' is not a shape; a shape is a tuple such as ('B', 4). {STATIC}"),
    "function": (len, f"inputs[0]: <built-in function len> {NOT_A_SPEC}"),
    "set": ({3}, f"inputs[0]: {{3}} {NOT_A_SPEC}"),
    "large number": (2**40, f"inputs[0]: {2**40} does not fit int32, which holds -2147483648 to 2147483647. 64-bit types are enabled by x64=True."),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_inputs_that_are_none(name):
    spec, message = BAD_INPUTS[name]
    assert message_of(errors.InputError, lambda: to_onnx(double, [spec])) == message


def nested(depth: int) -> list[Any]:
    start: Any = (3,)
    return functools.reduce(lambda inner, _: [inner], range(depth), start)


@pytest.fixture
def endless() -> list[Any]:
    one: list[Any] = [(3,)]
    one.append(one)
    return one


class TestTooDeep:
    def test_inputs(self, endless):
        for spec in (nested(400), endless):
            message = message_of(errors.InputError, functools.partial(to_onnx, double, [spec]))
            assert message == "The inputs are nested more than 100 deep, or one of them contains itself."

    def test_nothing_is_left_behind(self, endless):
        with pytest.raises(errors.InputError):
            to_onnx(double, [endless])
        assert to_onnx(double, [(3,)])(np.ones(3, np.float32)).tolist() == [2, 2, 2]

    def test_arguments(self, endless):
        program = to_onnx(double, [(3,)])
        message = message_of(errors.RuntimeInputError, lambda: program(endless))
        assert message == "The arguments are nested more than 100 deep, or one of them contains itself."

    def test_results(self, endless):
        message = message_of(errors.ConversionError, lambda: to_onnx(lambda x: endless, [(3,)]))
        assert message == "The function returns containers that are nested more than 100 deep, or contain themselves."

    def test_what_a_function_closes_over(self, endless):
        assert to_onnx(lambda x: x * len(endless), [(3,)]).output_names == ["output"]

    def test_a_few_levels_are_no_trouble(self):
        assert to_onnx(lambda tree: jax.tree.leaves(tree)[0], [nested(90)]).input_names == ["tree" + 90 * ".0"]


@pytest.mark.parametrize(("result", "shown"), [(None, "None"), ((), "()"), ({}, "{}"), ([None], "[None]")])
def test_a_function_that_returns_nothing(result, shown):
    message = message_of(errors.ConversionError, lambda: to_onnx(lambda x: result, [(3,)]))
    assert message == f"The function returns {shown}, in which there is no array; a model needs an output."


def flagged(x: jax.Array, flag: bool = True, mode: str = "a") -> jax.Array:
    return x if flag else -x


@pytest.mark.parametrize(("inputs", "kwargs"), [([(3,)], {"flag": True}), ([(3,), False], {})])
def test_a_number_whose_value_the_code_asks_for(inputs, kwargs):
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        to_onnx(flagged, inputs, kwargs=kwargs)
    assert caught.value.__notes__[-1] == (
        "The inputs given as Python numbers (flag) are inputs of the model. One that is to be fixed in it is not listed, "
        "but bound: functools.partial(fn, flag=value)."
    )


def test_a_text_as_keyword_input():
    message = message_of(errors.InputError, lambda: to_onnx(flagged, [(3,)], kwargs={"mode": "a"}))
    assert message == f"kwargs['mode']: 'a' is not a shape; a shape is a tuple such as ('B', 4). {STATIC}"


def test_what_the_message_proposes_for_static_arguments():
    to_onnx(functools.partial(flagged, flag=False, mode="b"), [(3,)]).verify()


class TestWideTypes:
    @pytest.mark.parametrize("spec", [((3,), "int64"), ((3,), np.dtype("int64")), jax.ShapeDtypeStruct((3,), np.int64)])
    def test_becoming_narrow_is_said(self, spec):
        with pytest.warns(errors.ExportWarning) as caught:
            to_onnx(double, [(spec)])
        (warning,) = caught
        assert str(warning.message) == "inputs[0]: int64 becomes int32; to_onnx(..., x64=True) keeps types of 64 bits."
        assert warning.filename == __file__

    @pytest.mark.parametrize("spec", [np.arange(3), np.zeros(3), 3, ((3,), int), ((3,), float)])
    def test_examples_and_defaults_become_what_jax_makes_of_them(self, spec):
        with warnings.catch_warnings(action="error"):
            to_onnx(double, [spec])

    def test_they_are_kept_if_asked_for(self):
        assert to_onnx(double, [((3,), "int64")], x64=True).inputs.avals[0].dtype == np.int64


NAMES: dict[str, Any] = {
    "too many": ({"output_names": ["a", "b"]}, "output_names needs 1 different names, one for each of ['output']; got ['a', 'b']."),
    "a text": ({"output_names": "y"}, "output_names needs a list of names, each a text of printable characters; got 'y'."),
    "empty": ({"input_names": [""]}, "input_names needs a list of names, each a text of printable characters; got ['']."),
    "no text": ({"input_names": [3]}, "input_names needs a list of names, each a text of printable characters; got [3]."),
    "unprintable": ({"output_names": ["\ud800"]}, "output_names needs a list of names, each a text of printable characters; got ['\\ud800']."),
    "shared": ({"input_names": ["a"], "output_names": ["a"]}, "An input and an output cannot share a name; both are called 'a'."),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_none(name):
    options, message = NAMES[name]
    assert message_of(errors.OptionError, lambda: to_onnx(double, [(3,)], **options)) == message


SIZES: dict[str, Any] = {
    "2.5": ({"T": 2.5}, errors.SymbolError, "T = 2.5, but a size is a whole number."),
    "True": ({"T": True}, errors.SymbolError, "T = True, but a size is a whole number."),
    "'3'": ({"T": "3"}, errors.SymbolError, "T = '3', but a size is a whole number."),
    "negative": ({"T": -1}, errors.SymbolError, "T = -1, but T >= 1 was declared or assumed."),
    "unknown": ({"Q": 1}, errors.SymbolError, "Cannot specialize 'Q': no input has that symbol. There are: T."),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_to_specialize_with(name):
    values, error, message = SIZES[name]
    assert message_of(error, lambda: to_onnx(double, [("T", 3)]).specialize(**values)) == message
    assert message_of(error, lambda: to_onnx(double, [("T", 3)], specialize=values)) == message


def test_specialize_that_is_no_mapping():
    message = message_of(errors.OptionError, lambda: to_onnx(double, [("T", 3)], specialize=["T"]))  # type: ignore[arg-type]
    assert message == "specialize needs a mapping from symbols to numbers such as {'T': 1}, not ['T']."


def test_integers_of_numpy_are_sizes():
    program = to_onnx(double, [("T", 3)]).specialize(T=cast("int", np.int64(3)))
    assert program.symbols["T"].value == 3
    assert program.inputs.avals[0].shape == (3, 3)


INT8, FLOAT, ROW = ((), "int8"), (), (3,)
ARGUMENTS = {
    "large integer": (INT8, 300, "Input 'x': 300 does not fit int8, which holds -128 to 127."),
    "fraction": (INT8, 2.5, "Input 'x': 2.5 is a float, which int8 does not hold."),
    "truth": (INT8, True, "Input 'x': True is a bool, which int8 does not hold."),
    "complex": (FLOAT, 3 + 0j, "Input 'x': (3+0j) is a complex, which float32 does not hold."),
    "large float": (FLOAT, 1e300, "Input 'x': 1e+300 does not fit float32: it would become infinite."),
    "scalar of another dtype": (FLOAT, np.int64(3), "Input 'x' has dtype int64, but the program was exported for float32: convert it, np.asarray(x, 'float32')."),
    "text": (FLOAT, "a", "Input 'x' has dtype <U1, but the program was exported for float32: convert it, np.asarray(x, 'float32')."),
    "integers": (ROW, np.zeros(3, np.int64), "Input 'x' has dtype int64, but the program was exported for float32: convert it, np.asarray(x, 'float32')."),
    "half": (ROW, np.zeros(3, np.float16), "Input 'x' has dtype float16, but the program was exported for float32: convert it, np.asarray(x, 'float32')."),
    "byte order": (ROW, np.zeros(3, ">f4"), "Input 'x' has dtype >f4, but the program was exported for float32: convert it, np.asarray(x, 'float32')."),
    "array of JAX": (ROW, jnp.zeros(3, np.int32), "Input 'x' has dtype int32, but the program was exported for float32: convert it, np.asarray(x, 'float32')."),
    "rank": (ROW, np.zeros((1, 3)), "The arguments do not fit: Input 'x' has shape (1, 3), but the program was exported for (3)."),
    "list": (ROW, [1.0, 2.0, 3.0], "The arguments are not those that the program was exported for: args[0] is a list, but it should be an array."),
    "None": (ROW, None, "The arguments are not those that the program was exported for: args[0] is None, but it should be an array."),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_jax_would_not_take_for_the_input(name):
    spec, argument, message = ARGUMENTS[name]
    program = to_onnx(double, [spec])
    assert message_of(errors.RuntimeInputError, lambda: program(argument)) == message


@pytest.mark.parametrize(
    ("spec", "argument"),
    [
        (INT8, 3), (INT8, np.int8(3)), (FLOAT, 3), (FLOAT, np.float64(3)), (FLOAT, np.inf), (ROW, np.ones(3)),
        (((3,), "int32"), np.arange(3)), (((3,), "complex64"), np.ones(3, complex)), (((), "complex64"), 2.5),
        (((3,), "int32"), np.array([2**40 + 5, 2, 3])), (ROW, np.array([1e300, 1, 2])),
    ],
)  # fmt: skip
def test_arguments_that_jax_takes_for_the_input(spec, argument):
    got = to_onnx(double, [spec])(argument)
    with np.errstate(over="ignore"):
        want = np.asarray(jax.jit(double)(argument))
    assert got.tolist() == want.tolist()


STRUCTURES = {
    "missing key": ({"a": 1.0}, "missing args[0]['c'][0]."),
    "another key": ({"a": 1.0, "d": [1.0]}, "missing args[0]['c'][0], unknown args[0]['d'][0]."),
    "longer list": ({"a": 1.0, "c": [1.0, 2.0]}, "unknown args[0]['c'][1]."),
    "tuple": ({"a": 1.0, "c": (1.0,)}, "args[0]['c'] is a tuple, but it should be a list."),
    "array": (1.0, "args[0] is an array, but it should be a dict."),
    "deeper": ({"a": {"b": 1.0}, "c": [1.0]}, "args[0]['a'] is a dict, but it should be an array."),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_arguments_of_another_structure(name):
    argument, message = STRUCTURES[name]
    program = to_onnx(lambda tree: tree["a"] + tree["c"][0], [{"a": (), "c": [()]}])
    shown = message_of(errors.RuntimeInputError, lambda: program(argument))
    assert shown == f"The arguments are not those that the program was exported for: {message}"


def test_too_many_arguments():
    shown = message_of(errors.RuntimeInputError, lambda: to_onnx(double, [()])(1.0, 2.0, z=3.0))
    assert (
        shown
        == "The arguments are not those that the program was exported for: unknown args[1] and kwargs['z']. The model's inputs are x."
    )


def test_arguments_by_the_names_of_inputs():
    program = to_onnx(
        lambda x, weights, *, scale: (x - weights["a"]) * scale, [(3,), {"a": (3,)}], kwargs={"scale": ()}
    )
    x, a, scale = (np.array([1, 2, 3], np.float32), np.array([0.5, 1, 1], np.float32), np.float32(2))
    assert program.input_names == ["x", "weights.a", "scale"]
    np.testing.assert_array_equal(program(x=x, scale=scale, **{"weights.a": a}), (x - a) * scale)
    np.testing.assert_array_equal(program(x, a, scale=scale), (x - a) * scale)
    shown = message_of(errors.RuntimeInputError, lambda: program(x, x=x, scale=scale))
    assert shown.endswith("The model's inputs are x, weights.a, scale.")


def test_the_arguments_of_a_step_by_the_names_of_inputs():
    program = to_onnx(lambda total, x, y: (total + x - y, total), [(), (), ()], states={0: 0})
    session = program.session(initial={"total": np.float32(1)})
    assert session.step(y=np.float32(2), x=np.float32(5)) == 1
    assert session.step(np.float32(0), y=np.float32(0)) == 4


VERIFY: dict[str, Any] = {
    "no sizes": ({"sizes": []}, errors.OptionError, "sizes needs a mapping from symbols to numbers for each run, [{'T': 3}], not []."),
    "one mapping": ({"sizes": {"T": 3}}, errors.OptionError, "sizes needs a mapping from symbols to numbers for each run, [{'T': 3}], not {'T': 3}."),
    "missing": ({"sizes": [{}]}, errors.SymbolError, "sizes[0]: there is none for T. The symbols are: T."),
    "unknown": ({"sizes": [{"T": 1}, {"T": 2, "Q": 3}]}, errors.SymbolError, "sizes[1]: no input has Q. The symbols are: T."),
    "zero": ({"sizes": [{"T": 0}]}, errors.SymbolError, "T = 0, but T >= 1 was declared or assumed."),
    "fraction": ({"sizes": [{"T": 1.5}]}, errors.SymbolError, "T = 1.5, but a size is a whole number."),
    "unknown input": ({"ranges": {"y": (0, 1)}}, errors.OptionError, "ranges: there is no input 'y'; the inputs are x, ids."),
    "empty range": ({"ranges": {"x": (1, 1)}}, errors.OptionError, "ranges: 'x' needs a pair (low, high) with low < high, not (1, 1)."),
    "no range": ({"ranges": {"x": 3}}, errors.OptionError, "ranges: 'x' needs a pair (low, high) with low < high, not 3."),
    "wide range": ({"ranges": {"ids": (0, 300)}}, errors.OptionError, "ranges: 'ids' is int8, which does not hold all of (0, 300)."),
    "both": ({"inputs": [1, 2], "sizes": [{"T": 1}]}, errors.OptionError, "verify takes either arguments, or sizes and ranges for random ones."),
}  # fmt: skip


@pytest.mark.parametrize("name", VERIFY)
def test_verify_with_impossible_options(name):
    options, error, message = VERIFY[name]
    program = to_onnx(lambda x, ids: x[ids], [("T", 3), ((2,), "int8")])
    assert message_of(error, lambda: program.verify(**options)) == message


def test_a_dimension_that_would_be_negative():
    program = to_onnx(double, [("T - 5", "T")], constraints=["T >= 5"])
    message = message_of(errors.SymbolError, lambda: program.verify(sizes=[{"T": 4}]))
    assert message == "The constraint 'T >= 5' does not hold for T = 4."


def conditionals(depth: int) -> Callable[[jax.Array], jax.Array]:
    inner = conditionals(depth - 1) if depth else lambda x: x + 1
    return lambda x: jax.lax.cond(x.sum() > depth, inner, lambda y: y * depth, x) if depth else inner(x)


def loops(depth: int) -> Callable[[jax.Array], jax.Array]:
    inner = loops(depth - 1) if depth else lambda x: x + 1
    return lambda x: jax.lax.while_loop(lambda y: y.sum() < depth, inner, x) if depth else inner(x)


class TestNestedControlFlow:
    @pytest.mark.parametrize("nested", [conditionals, loops])
    def test_as_deep_as_a_file_can_be_read(self, nested):
        x = np.full(3, 100, np.float32)
        np.testing.assert_allclose(to_onnx(nested(31), [(3,)])(x), nested(31)(x))

    @pytest.mark.parametrize(("fn", "levels"), [(conditionals(35), "35"), (loops(80), "80"), (loops(115), "too")])
    def test_deeper(self, fn, levels):
        message = message_of(errors.ConversionError, lambda: to_onnx(fn, [(3,)]))
        assert message == (
            f"Conditionals and loops are nested {levels} deep, but a model file can be read to 31 levels only. Turn nested "
            "conditionals into one with several branches, or nested loops into one over all of their steps; or make a "
            "function of the inner levels, which begins anew to count."
        )


class TestConstantKeys:
    @pytest.mark.parametrize("key", [jax.random.key(0), jax.random.PRNGKey(0)])
    def test_random_numbers_that_are_always_the_same(self, key):
        with pytest.warns(errors.ExportWarning) as caught:
            to_onnx(lambda x: x + jax.random.normal(key, x.shape), [(3,)])
        assert str(caught[0].message) == (
            "Every call of the model begins with the state at the export, and draws the same random numbers:\n"
            "  the function draws random numbers from the constant key key\n"
            "For inference, put the model into evaluation mode before the export: model.eval(), or what its framework has "
            "for it. State that is to be kept, and keys, can be inputs of the function, and new state a result."
        )
        assert caught[0].filename == __file__

    def test_keys_that_are_inputs_or_stand_in_the_function_itself(self):
        with warnings.catch_warnings(action="error"):
            to_onnx(lambda x, key: x + jax.random.normal(key, x.shape), [(3,), jax.random.key(0)])
            to_onnx(lambda x: x + jax.random.normal(jax.random.key(0), x.shape), [(3,)])

    def test_a_key_that_nothing_depends_on(self):
        key = jax.random.key(0)
        with warnings.catch_warnings(action="error"):
            to_onnx(lambda x: (jax.random.normal(key, x.shape), x)[1], [(3,)])


def embedded(ids: jax.Array) -> jax.Array:
    """As layers of frameworks ask."""
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError("Input type must be an integer or unsigned integer.")
    return jnp.ones((10, 4))[ids]


@pytest.mark.parametrize(
    ("fn", "inputs", "advice"),
    [
        (jnp.sin, [{"shape": ("B", 8)}], "An input is a container of arrays where the function takes one array."),
        (jnp.sin, [(2.0, 8)], "The inputs are x.0 float32[], x.1 int32[]."),
        (embedded, [("B",)], "Inputs are of floating point unless their dtype is given"),
        (
            lambda x: jax.lax.conv(x, jnp.ones((4, 3, 2, 2)), (1, 1), "SAME"),
            [("B", 8, 8, 3)],
            "The inputs are x float32[B, 8, 8, 3].",
        ),
        (jax.jit(lambda x, n: x * n, static_argnums=1), [(3,), 3], "bind it, functools.partial(fn, n=3)"),
    ],
)
def test_an_error_of_jax_about_inputs_that_were_meant_otherwise(fn, inputs, advice):
    with pytest.raises((TypeError, ValueError)) as caught:
        to_onnx(fn, inputs)
    assert advice in caught.value.__notes__[-1]


@pytest.mark.parametrize(
    "made", [lambda f: f.lower(1.0), lambda f: f.lower(1.0).compile(), lambda f: jax.make_jaxpr(f)(1.0)]
)
def test_what_jax_makes_of_a_function_is_no_function(made):
    message = message_of(errors.OptionError, functools.partial(to_onnx, made(jax.jit(jnp.sin)), [(3,)]))
    assert message.endswith("export the function that it was made of.")
