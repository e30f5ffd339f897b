"""A program is changed by steps, which a specialization makes again: `specialize(step(p)) == step(specialize(p))`, for all pairs."""

from __future__ import annotations

import functools
import inspect
import itertools
import pickle
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.errors import Jax2OnnxError, OptionError
from jax2onnx_graph.metadata import ModelMetadata
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_runtime.program import Program
from jax2onnx_runtime.steps import Described

RNG = np.random.default_rng(0)
SIZE, RANK = 32, 4
WEIGHTS = {
    "w": RNG.standard_normal((SIZE, SIZE)), "a": RNG.standard_normal((SIZE, RANK)), "b": RNG.standard_normal((RANK, SIZE)),
    "u": RNG.standard_normal((SIZE, SIZE)),
}  # fmt: skip
WEIGHTS = {name: array.astype(np.float32) / 8 for name, array in WEIGHTS.items()}
OTHER = {
    "a": RNG.standard_normal((SIZE, 2)).astype(np.float32),
    "b": RNG.standard_normal((2, SIZE)).astype(np.float32),
}
X = RNG.standard_normal((2, 3, SIZE)).astype(np.float32)

Change = Callable[[OnnxProgram], Program]


def apply(weights, x):
    """A layer with an adapter of low rank, and a head."""
    h = x @ weights["w"] + 0.5 * (x @ weights["a"] @ weights["b"])
    return jnp.tanh(h) @ weights["u"]


def exported(weights=WEIGHTS):
    return to_onnx(functools.partial(apply, weights), [("N", "T", SIZE)])


@pytest.fixture(scope="module")
def program():
    return exported()


@pytest.fixture(scope="module")
def absent():
    return exported({name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in WEIGHTS.items()})


#: The public methods that return a program, with a call of each that can be made of every program of this function.
CHANGES: dict[str, list[Change]] = {
    "specialize": [lambda p: p.specialize(T=3)],
    "with_weights": [lambda p: p.with_weights({name: WEIGHTS[name] for name in p.weights})],
    "with_adapters": [lambda p: p.with_adapters()],
    "merge_adapters": [lambda p: p.merge_adapters(), lambda p: p.merge_adapters(weights=OTHER, scale=2.0)],
    "with_metadata": [lambda p: p.with_metadata(ModelMetadata(name="n", version=3, doc_string="d", properties={"k": "v"}))],
    "with_steps": [lambda p: p.with_steps([Described(ModelMetadata(domain="org.example"))])],
    "quantize": [lambda p: p.quantize("int8"), lambda p: p.quantize("float16", keep_io_types=False)],
    "with_model": [lambda p: p.with_model(p.model.clone())],
    "portable": [lambda p: p.portable()],
}  # fmt: skip
# What no specialization can make again, and says so.
REFUSED = {"with_model": "call specialize before with_model", "portable": "this program came without it"}
LASTING = [(name, i) for name, calls in CHANGES.items() if name not in REFUSED for i in range(len(calls))]


def changed(program, *changes):
    for name, i in changes:
        program = CHANGES[name][i](program)
    return program


def outcome(make):
    """The bytes of a program's model, or the error that there is none."""
    try:
        return make().portable().model_proto.SerializeToString(deterministic=True)
    except Jax2OnnxError as error:
        return type(error)


def test_every_method_that_returns_a_program_is_here():
    kinds = {"Self", "Program", "OnnxProgram"}
    methods = inspect.getmembers(OnnxProgram, inspect.isfunction)
    found = {
        name for name, method in methods
        if not name.startswith("_") and inspect.signature(method).return_annotation in kinds
    }  # fmt: skip
    assert found == set(CHANGES)


@pytest.mark.parametrize(("first", "second"), [*itertools.product(LASTING, LASTING)], ids=str)
def test_a_specialization_makes_all_steps_again(program, absent, first, second):
    start = absent if "with_weights" in (first[0], second[0]) else program
    found = outcome(lambda: changed(start, first, second).specialize(N=2))
    assert found == outcome(lambda: changed(start.specialize(N=2), first, second))


def test_most_pairs_of_steps_are_possible(program):
    """Both sides of the law are a model, not the same error, but where a step finds nothing that is left to change."""
    pairs = [pair for pair in itertools.product(LASTING, LASTING) if "with_weights" not in (pair[0][0], pair[1][0])]
    failed = [pair for pair in pairs if isinstance(outcome(lambda pair=pair: changed(program, *pair)), type)]
    assert {first[0] for first, _ in failed} <= {"merge_adapters", "with_adapters", "quantize", "specialize"}
    assert len(failed) < len(pairs) / 3


@pytest.mark.parametrize(("first", "second"), [*itertools.product(LASTING, LASTING)], ids=str)
def test_a_pickle_and_a_variant_have_all_steps(program, absent, tmp_path, first, second):
    start = absent if "with_weights" in (first[0], second[0]) else program
    try:
        made = changed(start, first, second)
        wanted = made.portable().model_proto
    except Jax2OnnxError:
        return  # it is no program, or not complete
    assert pickle.loads(pickle.dumps(made)).model_proto == wanted
    (path,) = made.save_variants(tmp_path, variant={"N": 2})
    specialized = made.specialize(N=2)
    feeds = {name: array.astype(dtype_of(specialized, name)) for name, array in {"x": X}.items()}
    saved = specialized.with_model(read_model(path))
    np.testing.assert_array_equal(saved.loaded(feeds)[0], specialized.loaded(feeds)[0])


def dtype_of(program, name):
    return next(value.dtype.numpy() for value in program.model.graph.inputs if value.name == name)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("after", [None, *LASTING], ids=str)
def test_what_cannot_be_made_again_says_so(program, name, after):
    made = changed(program, (name, 0))
    if after is not None and after[0] not in ("specialize", "with_weights"):
        try:
            made = changed(made, after)
        except Jax2OnnxError:
            return  # it takes the function, which another process has not
    with pytest.raises(OptionError, match=REFUSED[name]):
        made.specialize(N=2)


def test_variants_of_a_program_with_another_model_are_refused(program, tmp_path):
    with pytest.raises(OptionError, match="call specialize before with_model"):
        program.with_model(program.model.clone()).save_variants(tmp_path, two={"N": 2})


# -- what went wrong while there were several classes of programs -----------------------------


def with_adapter(adapter):
    return apply({**WEIGHTS, "a": adapter["a"], "b": adapter["b"]}, X)


def test_an_adapter_that_was_merged_stays_in_specializations(program, tmp_path):
    merged = program.merge_adapters(weights=OTHER)
    np.testing.assert_allclose(merged.specialize(N=2)(X), with_adapter(OTHER), rtol=1e-4, atol=1e-4)
    (path,) = merged.save_variants(tmp_path, two={"N": 2})
    np.testing.assert_allclose(program.with_model(read_model(path))(X), with_adapter(OTHER), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["float16", "int8"])
def test_an_adapter_is_there_wherever_a_quantised_program_is_compared(program, mode):
    small = program.with_adapters().quantize(mode)
    assert small.verify().accuracy.worst.snr > 20
    assert small.accuracy().worst.snr > 20
    assert small.bisect(rtol=0.1, atol=0.2).first is None
    (*_, found) = program.benchmark(
        beside={"small": small}, sizes=[{"N": 2, "T": 3}], seconds=0, rtol=0.1, atol=0.2
    ).measurements
    assert not found.is_wrong


def test_an_adapter_is_there_where_stored_results_are_compared(program):
    there = pickle.loads(pickle.dumps(program.with_adapters()))
    assert there.verify(results=[((X,), np.asarray(apply(WEIGHTS, X)))]) < 1e-4


def test_metadata_stay_in_specializations_of_quantised_programs(program):
    made = program.quantize("int8").with_metadata(ModelMetadata(version=7)).specialize(N=2)
    assert made.model.model_version == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.session(initial=[1]), "initial maps arguments"),
        (lambda p: p.bisect(rtol="x"), "rtol is a number from 0 on"),
        (lambda p: p.verify(atol="x"), "atol is a number from 0 on"),
    ],
)
def test_options_are_checked_in_whatever_precision(program, call, message):
    with pytest.raises(OptionError, match=message):
        call(program.quantize("int8"))
