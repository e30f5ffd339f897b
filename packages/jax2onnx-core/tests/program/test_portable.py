"""Programs that are pickled, copied and sent to processes without JAX."""

import copy
import functools
import pickle
import subprocess
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import OptionError, RuntimeInputError, VerificationError, WeightsError
from jax2onnx_runtime.program import Program

WEIGHTS = jnp.asarray(np.random.default_rng(0).standard_normal((3, 600)), jnp.float32)


class Result(NamedTuple):
    double: jax.Array
    rest: list[Any]


def fn(x, batch, *, scale):
    """Nested arguments, a named tuple, None, complex numbers, bfloat16."""
    y = jnp.tanh(x + batch["a"]) @ WEIGHTS * scale
    return Result(2 * y, [None, {"c": y[:, 0] * 1j, "h": y.astype(jnp.bfloat16)}])


def program(**options):
    return to_onnx(fn, [("B", 3), {"a": ("B", 3)}], kwargs={"scale": ((), "float32")}, **options)


def sent(obj):
    return pickle.loads(pickle.dumps(obj))


def in_another_process(obj, code, tmp_path):
    """What a process without JAX prints that runs `code` on the unpickled object."""
    file = tmp_path / "object.pickle"
    file.write_bytes(pickle.dumps(obj))
    lines = [
        "import pickle, sys", "import numpy as np", f"obj = pickle.load(open({str(file)!r}, 'rb'))", code,
        "assert 'jax' not in sys.modules",
    ]  # fmt: skip
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_jax_it_runs_is_verified_saved_quantised_and_reported(tmp_path):
    made = program()
    code = f"""
program, stored = obj
assert program.verify(results=stored) < 1e-5
x = np.ones((2, 3), np.float32)
named = program.run({{"x": x, "batch.a": x, "scale": 2}})
assert set(named) == set(program.output_names)
program.save({str(tmp_path / "model.onnx")!r})
program.save_report({str(tmp_path / "report.html")!r})
assert "lowered by" in program.report()
small = program.quantize("int8")
assert small.accuracy(results=stored).worst.snr > 30
small.save({str(tmp_path / "small.onnx")!r})
print(type(program).__name__)
"""
    assert in_another_process((made, made.stored_results()), code, tmp_path) == "Program"
    assert (tmp_path / "model.onnx").read_bytes() == made.save(tmp_path / "here.onnx").read_bytes()
    assert "<html" in (tmp_path / "report.html").read_text()


def test_it_is_called_like_the_function():
    made, x = program(), np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    found, expected = sent(made)(x, {"a": x}, scale=0.5), fn(x, {"a": x}, scale=0.5)
    assert isinstance(found, Result)
    assert found.rest[0] is None
    np.testing.assert_allclose(found.double, expected.double, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.rest[1]["c"], expected.rest[1]["c"], rtol=1e-5)
    assert found.rest[1]["h"].dtype == jnp.bfloat16


def test_quantized_programs_are_sent():
    small, x = program().quantize("float16", keep_io_types=False), np.ones((2, 3), np.float32)
    found, expected = sent(small)(x, {"a": x}, scale=1), small(x, {"a": x}, scale=1)
    np.testing.assert_array_equal(found.double, expected.double)
    np.testing.assert_array_equal(found.rest[1]["c"], expected.rest[1]["c"])


def test_layouts_and_narrowed_types_are_kept():
    made = to_onnx(
        lambda x, n: x * n, [("B", 4, 5, 2), ((), "int32")], input_layouts={"x": "NCHW"}, output_layouts={0: "NCHW"}
    )
    x = np.random.default_rng(2).standard_normal((3, 4, 5, 2))  # float64, which JAX narrows
    np.testing.assert_array_equal(sent(made)(x, np.int64(3)), made(x, np.int64(3)))


def test_sessions_are_opened_there(tmp_path):
    def step(cache, x):
        new = jnp.concatenate([cache["k"], x], 1)
        return {"k": new}, new.sum(1)

    made = to_onnx(step, [{"k": ("B", "S", 4)}, ("B", "T", 4)], states={0: 0}, constraints=["S >= 0"])
    code = """
session = obj.session(sizes={"B": 2})
for count in (1, 3):
    result = session.step(np.ones((2, count, 4), np.float32))
print(result[0, 0], session.state["cache.k"].shape)
"""
    assert in_another_process(made, code, tmp_path) == "4.0 (2, 4, 4)"


def test_a_session_itself_says_how_it_travels():
    made = to_onnx(lambda s, x: (s + x, s), [(3,), (3,)], states={0: 0})
    with pytest.raises(TypeError, match=r"Pickle the program.*session\.state\.save"):
        pickle.dumps(made.session())


def test_first_values_that_a_model_holds_are_sent():
    made = to_onnx(lambda s, x: (s + x, s), [(3,), (3,)], states={0: 0})
    session = sent(made).session(initial={"s": np.ones(3, np.float32)})
    session.step(np.full(3, 2, np.float32))
    np.testing.assert_array_equal(session.state["s"], [3, 3, 3])
    with pytest.raises(OptionError, match="no input 'z'"):
        sent(made).session(initial={"z": np.ones(3, np.float32)})


def test_what_needs_the_function_says_so():
    there = sent(program())
    with pytest.raises(OptionError, match=r"came without its function.*stored_results"):
        there.verify()
    with pytest.raises(OptionError, match=r"specialize\(B=2\) lowers the function anew"):
        there.specialize(B=2)


def test_results_that_differ_are_named():
    made, x = program(), np.ones((2, 3), np.float32)
    args, result = {"x": x, "batch.a": x, "scale": np.float32(1)}, made(x, {"a": x}, scale=1)
    wrong = result._replace(double=result.double + 1)
    for one in (made, sent(made)):
        assert one.verify(results=[(args, result)]) < 1e-5
        with pytest.raises(VerificationError, match=r"'double' differs from what it should be at results\[1\]"):
            one.verify(results=[(args, result), (args, wrong)])
        with pytest.raises(RuntimeInputError, match=r"results\[0\]: "):
            one.verify(results=[({"x": x}, result)])
        with pytest.raises(RuntimeInputError, match=r"results\[1\]: The result is|results\[1\]: .* should be a Result"):
            one.verify(results=[(args, result), (args, result.double)])
    with pytest.raises(OptionError, match="no results"):
        sent(made).verify(results=[])


def test_inputs_that_do_not_fit_are_refused():
    there, x = sent(program()), np.ones((2, 3), np.float32)
    for args, message in [
        ((x, [x]), r"args\[1\] is a list"),
        ((x, {"a": x[:1]}), "Input 'batch.a' has size 1"),
        ((x > 0, {"a": x}), "Input 'x' has dtype bool"),
        ((np.ma.masked_array(x), {"a": x}), "masked"),
    ]:
        with pytest.raises(RuntimeInputError, match=message):
            there(*args, scale=1)


def test_absent_weights_are_named_before_anything_is_sent():
    made = absent_program()
    with pytest.raises(WeightsError, match="absent"):
        pickle.dumps(made)
    complete = made.with_weights({"w": np.ones((3, 600), np.float32)})
    assert sent(complete)(np.ones((1, 3), np.float32))[0, 0] == 3


def absent_program():
    def apply(weights, x):
        return x @ weights["w"]

    return to_onnx(functools.partial(apply, {"w": jax.ShapeDtypeStruct((3, 600), np.float32)}), [("B", 3)])


def test_copies_are_programs():
    made = program()
    for one in (copy.copy(made), copy.deepcopy(made)):
        assert type(one) is type(made)
        assert one.verify() < 1e-4
    assert copy.deepcopy(made).model is not made.model
    assert isinstance(copy.deepcopy(sent(made)), Program)


def test_large_weights_are_buffers_of_their_own():
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(program(), protocol=5, buffer_callback=buffers.append)
    assert max(len(buffer.raw()) for buffer in buffers) == WEIGHTS.nbytes
    assert len(data) < 20_000
    assert pickle.loads(data, buffers=buffers).verify(results=program().stored_results()) < 1e-5


class Decoder(NamedTuple):
    """The sizes of a decoder of several layers, each with a cache of keys."""

    layers: int
    width: int

    def step(self, caches, x):
        kept = []
        for i in range(self.layers):
            with jax.named_scope(f"layers.{i}"):
                keys = jnp.concatenate([caches[i], x @ jnp.full((self.width, self.width), 0.1 * (i + 1))], 1)
                x = x + jax.nn.softmax(x @ keys.swapaxes(1, 2)) @ keys
                kept.append(keys)
        return kept, x


def test_stages_of_a_decoder_keep_their_own_caches():
    decoder = Decoder(3, 4)
    program = to_onnx(
        decoder.step, [[("B", "S", 4)] * 3, ("B", "T", 4)], states={0: 0}, constraints=["S >= 0"],
        input_names=["k0", "k1", "k2", "x"],
    )  # fmt: skip
    for one in (program, sent(program)):
        stages = one.split(at=["layers.1", "layers.2"])
        assert [[pair.input for pair in stage.states] for stage in stages.stages] == [["k0"], ["k1"], ["k2"]]
        session, whole = stages.session(sizes={"B": 2}), program.session(sizes={"B": 2})
        for length in (3, 1, 1):
            x = np.random.default_rng(length).standard_normal((2, length, 4)).astype(np.float32)
            (got,) = session.step({"x": x}).values()
            np.testing.assert_allclose(got, whole.step(x), rtol=1e-5, atol=1e-6)
        assert session.sessions[2].state["k2"].shape == (2, 5, 4)


def test_stages_take_and_give_what_the_program_does():
    made, x = program(), np.ones((2, 3), np.float32)
    for one in (made, made.quantize("int8"), sent(made)):
        stages = one.split(max_bytes=30_000)
        found = one.results(stages.run(one.feeds(x, {"a": x}, scale=1)))
        np.testing.assert_array_equal(found.double, one(x, {"a": x}, scale=1).double)


@pytest.mark.parametrize("value", [jax.random.key(3), [[1, 2], [3]]])
def test_what_is_no_array_of_numbers(value):
    key = jax.random.key(3)
    program = to_onnx(lambda k: jax.random.normal(k, (2,)), [jax.ShapeDtypeStruct((), key.dtype)])
    there = pickle.loads(pickle.dumps(program))
    np.testing.assert_array_equal(there(np.asarray(jax.random.key_data(key))), program(key))
    with pytest.raises(RuntimeInputError, match="Input 'k' is no array of numbers: "):
        there.run({"k": value})
