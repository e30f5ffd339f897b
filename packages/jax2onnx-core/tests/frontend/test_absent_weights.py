"""Exports of functions whose weights are types only: what is made is what the arrays themselves would have given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, errors, to_onnx

WEIGHTS = {
    "hidden": {"kernel": jnp.linspace(-1, 1, 32).reshape(4, 8), "bias": jnp.linspace(0, 1, 8)},
    "out": [jnp.linspace(1, 2, 16).reshape(8, 2), jnp.ones(2, jnp.bfloat16)],
}


def mlp(weights, x):
    kernel, bias = weights["out"]
    hidden = jax.nn.relu(x @ weights["hidden"]["kernel"] + weights["hidden"]["bias"])
    return hidden @ kernel + bias.astype(jnp.float32)


def types(weights):
    return jax.eval_shape(lambda: weights)


def saved(program: OnnxProgram, folder: Path, **options) -> bytes:
    return program.save(folder / "model.onnx", **options).read_bytes()


ABSENT = functools.partial(mlp, types(WEIGHTS))


def test_a_program_names_its_absent_weights() -> None:
    program = to_onnx(ABSENT, [("B", 4)])
    assert {name: str(of) for name, of in program.weights.items()} == {
        "hidden.kernel": "float32[4, 8]",
        "hidden.bias": "float32[8]",
        "out.0": "float32[8, 2]",
        "out.1": "bfloat16[2]",
    }


def test_the_file_is_that_of_the_function_with_its_arrays(tmp_path: Path) -> None:
    whole, absent = (to_onnx(functools.partial(mlp, w), [("B", 4)]) for w in (WEIGHTS, types(WEIGHTS)))
    assert saved(absent, tmp_path, weights=WEIGHTS) == saved(whole, tmp_path)


def test_a_program_with_its_weights_runs_and_verifies() -> None:
    program = to_onnx(ABSENT, [("B", 4)]).with_weights(WEIGHTS)
    x = jnp.ones((3, 4))
    np.testing.assert_allclose(program(x), mlp(WEIGHTS, x), rtol=1e-6)
    program.verify()
    assert program.weights == {}


def test_the_program_without_weights_stays_as_it_is() -> None:
    program = to_onnx(ABSENT, [("B", 4)])
    program.with_weights(WEIGHTS)
    assert len(program.weights) == 4


@pytest.mark.parametrize(
    "use",
    [
        lambda program: program(np.ones((1, 4), np.float32)),
        lambda program: program.verify(),
        lambda program: program.session(),
        lambda program: program.model_proto,
        lambda program: program.quantize("int8"),
        lambda program: program.save("never.onnx"),
        lambda program: program.save_variants(".", one={"B": 1}),
    ],
)
def test_what_needs_the_weights_says_how_to_give_them(use) -> None:
    with pytest.raises(errors.WeightsError, match=r"hidden\.kernel.* are absent.*with_weights"):
        use(to_onnx(ABSENT, [("B", 4)]))
    assert not Path("never.onnx").exists()


def test_a_specialization_has_the_weights_of_its_program() -> None:
    program = to_onnx(ABSENT, [("B", 4)]).with_weights(WEIGHTS)
    program.specialize(B=2).verify()


def test_variants_share_weights_that_were_given(tmp_path: Path) -> None:
    program = to_onnx(ABSENT, [("B", 4)]).with_weights(WEIGHTS)
    paths = program.save_variants(tmp_path, one={"B": 1}, two={"B": 2})
    assert [path.name for path in paths] == ["one.onnx", "two.onnx"]


def test_computations_on_weights_are_done_when_they_are_given(tmp_path: Path) -> None:
    def normalised(weight, x):
        return x @ (weight / jnp.linalg.norm(weight, axis=0)).T.astype(jnp.float32)

    weight = jnp.linspace(1, 2, 12, dtype=jnp.bfloat16).reshape(3, 4)
    whole, absent = (to_onnx(functools.partial(normalised, w), [("B", 4)]) for w in (weight, types(weight)))
    assert [node.op_type for node in absent.model.graph] == [node.op_type for node in whole.model.graph]
    assert saved(absent, tmp_path, weights={"arg0": weight}) == saved(whole, tmp_path)


def test_one_type_in_two_places_is_two_weights() -> None:
    square = jax.ShapeDtypeStruct((2, 2), np.float32)
    program = to_onnx(functools.partial(lambda w, x: x @ w["a"] @ w["b"], {"a": square, "b": square}), [(3, 2)])
    assert list(program.weights) == ["a", "b"]


def test_types_are_found_in_closures_and_globals() -> None:
    scale = jax.ShapeDtypeStruct((4,), np.float32)
    program = to_onnx(lambda x: x * scale, [("B", 4)])
    given = program.with_weights({"scale": np.full(4, 3.0, np.float32)})
    np.testing.assert_array_equal(given(np.ones((2, 4), np.float32)), np.full((2, 4), 3.0))


@pytest.mark.filterwarnings("ignore:Every call of the model")
def test_complex_weights_and_keys_are_given_as_numpy_has_them() -> None:
    weights = {"z": jnp.array([1 + 2j, 3j], jnp.complex64), "key": jax.random.key(3)}

    def fn(weights, x):
        return jnp.abs(x * weights["z"]) + jax.random.normal(weights["key"], (2,))

    program = to_onnx(functools.partial(fn, types(weights)), [("B", 2)])
    assert str(program.weights["z"]) == "complex64[2]"
    given = {"z": np.asarray(weights["z"]), "key": np.asarray(jax.random.key_data(weights["key"]))}
    program.with_weights(given).verify()
    with pytest.raises(errors.WeightsError, match="key_data"):
        program.with_weights(weights)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_types_of_64_bits_are_those_that_the_trace_has() -> None:
    weight = jax.ShapeDtypeStruct((4,), np.float64)
    assert str(to_onnx(lambda x: x * weight, [(4,)]).weights["weight"]) == "float32[4]"
    assert str(to_onnx(lambda x: x * weight, [(4,)], x64=True).weights["weight"]) == "float64[4]"


def test_weights_that_nothing_uses_need_not_be_given() -> None:
    used, unused = (jax.ShapeDtypeStruct((2,), np.float32) for _ in range(2))
    program = to_onnx(functools.partial(lambda w, x: x + w["a"], {"a": used, "b": unused}), [(2,)])
    assert list(program.weights) == ["a"]
    program.with_weights({"a": np.ones(2, np.float32)}).verify()
    program.with_weights({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}).verify()


def test_loops_read_absent_weights() -> None:
    layers = jnp.linspace(-1, 1, 3 * 4 * 4).reshape(3, 4, 4)

    def stack(layers, x):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, layers)[0]

    program = to_onnx(functools.partial(stack, types(layers)), [("B", 4)])
    program.with_weights({"arg0": layers}).verify()


def test_a_type_that_is_not_found_is_explained() -> None:
    class Model:
        weight = jax.ShapeDtypeStruct((4,), np.float32)

        def __call__(self, x):
            return x * self.weight

    with pytest.raises(TypeError) as raised:
        to_onnx(Model(), [(4,)])
    assert any("type only" in note and "partial" in note for note in raised.value.__notes__)


def test_sharded_arrays_are_gathered_when_they_are_written(tmp_path: Path) -> None:
    mesh = jax.make_mesh((len(jax.devices()),), ("x",))
    weight = jax.device_put(jnp.arange(64.0).reshape(16, 4), jax.NamedSharding(mesh, jax.P("x")))
    to_onnx(lambda x: x @ weight, [("B", 16)]).verify()


class Exported:
    """A model that keeps what was made of it."""

    def __init__(self) -> None:
        self.weight = np.ones((4, 2), np.float32)
        self.kept: list[object] = []

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight


KEPT: dict[str, object] = {}


def kept_elsewhere(x: jax.Array) -> jax.Array:
    return x + 1 if KEPT else x + 1.0


@pytest.mark.parametrize("keeps", [lambda program: program, lambda program: program.session()])
def test_a_program_that_is_kept_is_no_part_of_a_model(keeps: Callable[[OnnxProgram], object]) -> None:
    model = Exported()
    program = to_onnx(model, [("B", 4)])
    model.kept.append(keeps(program))
    KEPT["program"] = keeps(program)
    assert to_onnx(model, [("B", 4)]).model_proto == program.model_proto
    np.testing.assert_array_equal(to_onnx(kept_elsewhere, [("B",)])(np.zeros(3, np.float32)), np.ones(3))
