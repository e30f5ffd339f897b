"""LoRA adapters of whole models: one base, float or in few bits, with several adapters in turn, each equal to JAX."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from flax import nnx
from jax2onnx_core import OnnxProgram, errors, to_onnx
from jax2onnx_runtime.adapters.pairs import read_adapters
from jax2onnx_runtime.quantization import Mode

WIDTH, RANKS = 64, (1, 4, 7)


class Decoder(nnx.Module):
    """A decoder layer with adapters on its projections, and a running sum of what it has read as its state."""

    def __init__(self, *, rank: int, rngs: nnx.Rngs) -> None:
        self.up = nnx.LoRALinear(WIDTH, 2 * WIDTH, lora_rank=rank, rngs=rngs)
        self.down = nnx.LoRA(2 * WIDTH, rank, WIDTH, base_module=nnx.Linear(2 * WIDTH, WIDTH, rngs=rngs), rngs=rngs)

    def __call__(self, past: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = past + self.down(nnx.gelu(self.up(x)))
        return total, jnp.tanh(total)


def decoder(rank: int, seed: int) -> Decoder:
    """The same base for all seeds, with an adapter of this rank."""
    model = Decoder(rank=rank, rngs=nnx.Rngs(0))
    rng = np.random.default_rng(seed)
    nnx.update(
        model,
        jax.tree_util.tree_map(
            lambda x: jnp.asarray((rng.normal(size=x.shape) / 8).astype(np.float32)), nnx.state(model, nnx.LoRAParam)
        ),
    )
    base = np.random.default_rng(99)
    nnx.update(
        model,
        jax.tree_util.tree_map(
            lambda x: jnp.asarray((base.normal(size=x.shape) / 8).astype(np.float32)),
            nnx.state(model, nnx.All(nnx.Param, nnx.Not(nnx.LoRAParam))),
        ),
    )
    return model


def matrices(model: nnx.Module) -> Any:
    return nnx.state(model, nnx.LoRAParam)


RNG = np.random.default_rng(5)
ROWS = np.random.default_rng(3).normal(size=(5, WIDTH)).astype(np.float32)
ZEROS = np.zeros((5, WIDTH), np.float32)


@pytest.fixture(scope="module")
def program() -> OnnxProgram:
    exported = to_onnx(decoder(4, 1), [("B", WIDTH), ("B", WIDTH)], states={0: 0})
    return exported.with_adapters(nnx.LoRAParam)


def without_adapter(model: Decoder) -> Decoder:
    bare = nnx.clone(model)
    nnx.update(bare, jax.tree_util.tree_map(jnp.zeros_like, matrices(bare)))
    return bare


def noise(found: Any, wanted: Any) -> float:
    """The size of the difference relative to that of the result."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.fixture(scope="module", params=["float32", "int8", "int4"])
def base(request: pytest.FixtureRequest, program: OnnxProgram) -> tuple[Any, float]:
    """The program in some precision, and how much noise there may be beside the result of JAX."""
    mode: Mode | None = None if request.param == "float32" else request.param
    return (program, 1e-5) if mode is None else (program.quantize(mode), {"int8": 0.02, "int4": 0.2}[mode])


@pytest.mark.parametrize("rank", RANKS)
def test_each_adapter_is_equal_to_jax_with_it(base: tuple[Any, float], rank: int, tmp_path: Path) -> None:
    quantised, tolerance = base
    adapted = decoder(rank, seed=rank)
    path = quantised.adapters.save(tmp_path / "x.onnx_adapter", matrices(adapted))
    for source in (path, matrices(adapted)):
        found, wanted = quantised.adapters.use(source)(ZEROS, ROWS), adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))
        assert max(map(noise, found, wanted)) < tolerance


def test_adapters_are_exchanged_in_a_session_that_keeps_its_state(base: tuple[Any, float], tmp_path: Path) -> None:
    quantised, tolerance = base
    session, past = quantised.session(sizes={"B": 5}), jnp.asarray(ZEROS)
    for rank in (*RANKS, None):
        model = without_adapter(decoder(4, 1)) if rank is None else decoder(rank, seed=rank)
        source = None if rank is None else quantised.adapters.save(tmp_path / f"{rank}.onnx_adapter", matrices(model))
        session.use_adapter(source)
        past, y = model(past, jnp.asarray(ROWS))
        assert noise(session.step(ROWS), y) < tolerance


def test_without_an_adapter_a_program_is_its_base_exactly(base: tuple[Any, float]) -> None:
    quantised, tolerance = base
    bare = without_adapter(decoder(4, 1))
    found = quantised(ZEROS, ROWS)
    np.testing.assert_array_equal(found[0], quantised.adapters.use(matrices(bare))(ZEROS, ROWS)[0])
    assert noise(found[0], bare(jnp.asarray(ZEROS), jnp.asarray(ROWS))[0]) < tolerance


def test_onnx_runtime_itself_loads_model_and_adapter(program: OnnxProgram, tmp_path: Path) -> None:
    adapted = decoder(3, seed=5)
    model = program.save(tmp_path / "model.onnx")
    path = program.adapters.save(tmp_path / "x.onnx_adapter", matrices(adapted))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options)
    adapter, run_options = onnxruntime.LoraAdapter(), onnxruntime.RunOptions()
    adapter.Load(str(path))
    run_options.add_active_adapter(adapter)
    names = [given.name for given in session.get_inputs()]
    found = session.run(None, dict(zip(names, (ZEROS, ROWS), strict=True)), run_options)
    np.testing.assert_allclose(found[1], adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1], atol=1e-5)


def test_a_saved_model_tells_its_adapters_and_takes_them(program: OnnxProgram, tmp_path: Path) -> None:
    read = ir.load(program.save(tmp_path / "model.onnx"))
    assert [pair.a for pair in read_adapters(read)] == ["up.lora.lora_a", "down.lora_a"]
    adapted = decoder(2, seed=6)
    again = program.with_model(read)
    np.testing.assert_allclose(
        again.adapters.use(matrices(adapted))(ZEROS, ROWS)[1],
        adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1],
        atol=1e-5,
    )


def test_a_pickled_program_takes_adapters(program: OnnxProgram) -> None:
    sent, adapted = pickle.loads(pickle.dumps(program)), decoder(2, seed=6)
    wanted = adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1]
    np.testing.assert_allclose(sent.adapters.use(matrices(adapted))(ZEROS, ROWS)[1], wanted, atol=1e-5)


def test_verify_compares_with_the_adapter_that_was_exported(program: OnnxProgram) -> None:
    assert program.verify() < 1e-4


def test_bisect_compares_with_the_adapter_that_was_exported(program: OnnxProgram) -> None:
    assert program.bisect(ZEROS, ROWS).first is None


def test_a_specialized_program_takes_adapters(program: OnnxProgram) -> None:
    fixed, adapted = program.specialize(B=5), decoder(2, seed=6)
    wanted = adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1]
    np.testing.assert_allclose(fixed.adapters.use(matrices(adapted))(ZEROS, ROWS)[1], wanted, atol=1e-5)


MODES: list[Mode] = ["dynamic_int8", "float16", "bfloat16"]


@pytest.mark.parametrize("mode", MODES)
def test_adapters_stay_inputs_in_other_precisions(program: OnnxProgram, mode: Mode) -> None:
    quantised, adapted = program.quantize(mode), decoder(5, seed=8)
    wanted = adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1]
    assert noise(quantised.adapters.use(matrices(adapted))(ZEROS, ROWS)[1], wanted) < 0.03


def test_adapters_of_a_program_whose_inputs_are_in_half_precision(program: OnnxProgram) -> None:
    quantised, adapted = program.quantize("float16", keep_io_types=False), decoder(5, seed=8)
    wanted = adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1]
    np.testing.assert_allclose(quantised.adapters.use(matrices(adapted))(ZEROS, ROWS)[1], wanted, atol=0.02)


def test_a_session_stays_usable_after_an_adapter_that_does_not_fit(program: OnnxProgram) -> None:
    session, adapted = program.session(sizes={"B": 5}), decoder(2, seed=6)
    session.use_adapter(matrices(adapted))
    with pytest.raises(errors.WeightsError, match="missing"):
        session.use_adapter({"up": {"lora": {"lora_a": np.ones((WIDTH, 2), np.float32)}}})
    wanted = adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1]
    np.testing.assert_allclose(session.step(ROWS), wanted, atol=1e-5)


def test_a_file_that_is_no_adapter_is_refused(program: OnnxProgram, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx_adapter"
    path.write_bytes(b"nothing")
    with pytest.raises(errors.WeightsError, match="holds no adapter that ONNX Runtime reads"):
        program.adapters.use(path)


def test_an_adapter_cannot_be_saved_where_there_is_no_directory(program: OnnxProgram, tmp_path: Path) -> None:
    with pytest.raises(errors.SaveError, match="Cannot save"):
        program.adapters.save(tmp_path / "none" / "x.onnx_adapter", matrices(decoder(2, 6)))


# Merging.


def test_a_merged_program_computes_what_the_function_does() -> None:
    merged = to_onnx(decoder(4, 1), [("B", WIDTH), ("B", WIDTH)]).merge_adapters(nnx.LoRAParam)
    assert merged.verify() < 1e-4
    assert not any("lora" in name for name in merged.model.graph.initializers)


def test_another_adapter_than_the_exported_one_is_merged() -> None:
    adapted = decoder(7, seed=11)
    merged = to_onnx(decoder(4, 1), [("B", WIDTH), ("B", WIDTH)]).merge_adapters(weights=matrices(adapted))
    wanted = adapted(jnp.asarray(ZEROS), jnp.asarray(ROWS))[1]
    np.testing.assert_allclose(merged(ZEROS, ROWS)[1], wanted, atol=1e-5)


# Plain functions.

KEYS = jax.random.split(jax.random.key(0), 3)
W, A, B = (jax.random.normal(key, size) for key, size in zip(KEYS, ((32, 16), (32, 3), (3, 16)), strict=True))

PLAIN: dict[str, Callable[[jax.Array], jax.Array]] = {
    "a sum": lambda x: x @ W + x @ A @ B,
    "scaled": lambda x: x @ W + 0.25 * (x @ A) @ B,
    "scaled last": lambda x: x @ W + ((x @ A) @ B) * 0.25,
    "an einsum": lambda x: jnp.einsum("bi,ir,ro->bo", x, A, B) + x @ W,
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_functions(name: str) -> None:
    program = to_onnx(PLAIN[name], [("B", 32)]).with_adapters()
    assert (len(program.adapters.pairs), program.verify() < 1e-4) == (1, True)


def test_a_function_without_adapters_says_how_to_choose() -> None:
    with pytest.raises(errors.OptionError, match="no adapter that shows by itself"):
        to_onnx(lambda x: x @ W, [("B", 32)]).with_adapters()


def test_a_type_of_variables_that_means_nothing() -> None:
    with pytest.raises(errors.OptionError, match="means no weight that the program uses"):
        to_onnx(decoder(4, 1), [("B", WIDTH), ("B", WIDTH)]).with_adapters(nnx.Cache)


# Layers in a loop, whose weights are stacked.


class Layers(nnx.Module):
    """Three layers as one, with matrices [3, …], which a loop goes through; the adapter's random numbers are of a seed."""

    def __init__(self, rank: int, seed: int) -> None:
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def made(rngs: nnx.Rngs) -> nnx.LoRALinear:
            return nnx.LoRALinear(16, 16, lora_rank=rank, rngs=rngs)

        self.layers = made(nnx.Rngs(0))
        rng = np.random.default_rng(seed)
        drawn = jax.tree_util.tree_map(lambda x: jnp.asarray(rng.normal(size=x.shape) / 4, x.dtype), matrices(self))
        nnx.update(self, drawn)

    def __call__(self, x: jax.Array) -> jax.Array:
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def through(x: jax.Array, layer: nnx.LoRALinear) -> jax.Array:
            return jnp.tanh(layer(x))

        return jnp.asarray(through(x, self.layers))


STACKED = ("layers.lora.lora_a", "layers.lora.lora_b")


@pytest.fixture(scope="module")
def looped() -> OnnxProgram:
    return to_onnx(Layers(4, seed=1), [("B", "T", 16)])


@pytest.mark.parametrize("choice", [(nnx.LoRAParam,), ("*.lora_b",), ()])
def test_adapters_of_layers_in_a_loop(choice: tuple[Any, ...], looped: OnnxProgram, tmp_path: Path) -> None:
    program = looped.with_adapters(*choice)
    (pair,) = program.adapters.pairs
    assert (pair.a, pair.b, pair.axes) == (*STACKED, {STACKED[0]: 2, STACKED[1]: 1})
    assert program.verify() < 1e-5
    x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype(np.float32)
    for rank in (1, 7):
        other = Layers(rank, seed=rank)
        path = program.adapters.save(tmp_path / f"{rank}.onnx_adapter", matrices(other))
        np.testing.assert_allclose(program.adapters.use(path)(x), other(jnp.asarray(x)), atol=1e-5)
    bare = Layers(4, seed=1)
    nnx.update(bare, jax.tree_util.tree_map(jnp.zeros_like, matrices(bare)))
    np.testing.assert_allclose(program(x), bare(jnp.asarray(x)), atol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ((2, 16, 3), (2, 3, 16), r"lora_a is float32\[2, 16, 3\], the model takes \[3, 16, R\]"),
        ((16, 3), (3, 16), r"lora_b is float32\[3, 16\], the model takes \[3, R, 16\]"),
        ((3, 16, 3), (3, 2, 16), r"lora_a has rank 3, layers.lora.lora_b has rank 2"),
        ((3, 8, 3), (3, 3, 16), r"lora_a is float32\[3, 8, 3\]"),
    ],
)
def test_an_adapter_of_another_base_is_refused(a: Any, b: Any, reason: str, looped: OnnxProgram) -> None:
    given = {name: np.ones(shape, np.float32) for name, shape in zip(STACKED, (a, b), strict=True)}
    with pytest.raises(errors.WeightsError, match=reason):
        looped.with_adapters().adapters.use(given)


def test_matrices_of_all_layers_that_something_else_reads_are_none_of_an_adapter() -> None:
    weights = {"w": jnp.ones((3, 8, 8)), "a": jnp.ones((3, 8, 2)), "b": jnp.ones((3, 2, 8))}

    def through(x: jax.Array, layer: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, _ = jax.lax.scan(lambda x, p: (x @ p["w"] + x @ p["a"] @ p["b"], None), x, weights)
        return y, weights["a"][layer]

    with pytest.raises(
        errors.OptionError, match=r"weights\.a is no matrix of an adapter.* reads the matrices of all layers at once"
    ):
        to_onnx(through, [("B", 8), ((), "int32")]).with_adapters("weights.a")


@pytest.mark.parametrize("rank", [None, 1, 7])
def test_adapters_in_a_loop_are_merged(rank: int | None, looped: OnnxProgram) -> None:
    other = Layers(4, seed=1) if rank is None else Layers(rank, seed=rank)
    merged = looped.merge_adapters() if rank is None else looped.merge_adapters(weights=matrices(other))
    x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype(np.float32)
    np.testing.assert_allclose(merged(x), other(jnp.asarray(x)), atol=1e-5)
    assert not any("lora" in name for name in merged.model.graph.initializers)


STACKS = {name: RNG.normal(size=shape).astype(np.float32) / 4 for name, shape in {
    "w": (3, 8, 8), "v": (3, 8, 8), "a": (3, 8, 2), "b": (3, 2, 8), "one": (8, 8), "one_a": (8, 2), "one_b": (2, 8)}.items()}  # fmt: skip


def scanned(step: Callable[[jax.Array, dict[str, jax.Array]], jax.Array], *names: str) -> Callable[..., jax.Array]:
    """A function that applies a step with the entries of some of the stacks, one after another."""
    return lambda x: jax.lax.scan(
        lambda x, p: (jnp.tanh(step(x, p)), None), x, {n: jnp.asarray(STACKS[n]) for n in names}
    )[0]


IN_LOOPS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "in reverse": lambda x: jax.lax.scan(
        lambda x, p: (x @ p["w"] + 0.5 * (x @ p["a"]) @ p["b"], None), x, {n: jnp.asarray(STACKS[n]) for n in "wab"}, reverse=True
    )[0],
    "beside another weight": scanned(lambda x, p: x @ p["w"] + x @ p["a"] @ p["b"] + jnp.sin(x @ p["v"]), "w", "v", "a", "b"),
    "one adapter for all layers": scanned(lambda x, p: x @ p["w"] + x @ STACKS["one_a"] @ STACKS["one_b"], "w"),
    "one weight and adapter": scanned(lambda x, p: x @ STACKS["one"] + x @ STACKS["one_a"] @ STACKS["one_b"] + p["v"][0], "v"),
    "one weight, read outside, too": lambda x: x @ STACKS["one"] + scanned(
        lambda x, p: x @ STACKS["one"] + x @ STACKS["one_a"] @ STACKS["one_b"] + p["v"][0], "v"
    )(x),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_LOOPS)
def test_adapters_of_functions_with_loops_are_merged(name: str) -> None:
    merged = to_onnx(IN_LOOPS[name], [("B", 8)]).merge_adapters()
    assert merged.verify() < 1e-5
    assert not any(2 in value.shape.numpy() for value in merged.model.graph.initializers.values() if value.shape)


REFUSED: dict[str, tuple[Callable[[jax.Array], jax.Array], str]] = {
    "one weight, an adapter for each layer": (
        scanned(lambda x, p: x @ STACKS["one"] + x @ p["a"] @ p["b"], "a", "b"), "is the same in all of them",
    ),
    "a weight that is read twice": (
        scanned(lambda x, p: x @ p["w"] + x @ p["a"] @ p["b"] + jnp.sin(x) @ p["w"], "w", "a", "b"), "something else reads",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_adapters_in_a_loop_that_cannot_be_merged(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(errors.OptionError, match=reason):
        to_onnx(function, [("B", 8)]).merge_adapters()
