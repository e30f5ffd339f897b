"""Several exported programs over one file of weights."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph.errors import ReadError
from jax2onnx_runtime.bundles.bundle import Bundle, load_bundle
from jax2onnx_runtime.program import Program

RNG = np.random.default_rng(0)
W, V = (RNG.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(2))
CACHE = {"keys": np.zeros((1, 4, 64), np.float32)}
X = RNG.standard_normal((2, 6, 64)).astype(np.float32)


def write(cache, x, at):
    """Writes keys at a place of a cache, and reads what is there by the same weight."""
    keys = jax.lax.dynamic_update_slice(cache["keys"], x @ W, (0, at, 0))
    return {"keys": keys}, jnp.tanh(keys @ W.T).sum(1)


def prefill(cache, x):
    return write(cache, x, 0)


def exported(fn, *inputs, **options):
    return to_onnx(fn, [CACHE, *inputs], states={0: 0}, state_shapes={"keys": ("B", "C", ...)}, **options)


@pytest.fixture(scope="module")
def programs():
    return {
        "prefill": exported(prefill, ("B", "T", 64), constraints=["T <= C"]),
        "decode": exported(write, ("B", 1, 64), ((), "int32")),
    }


@pytest.fixture(scope="module")
def bundle(programs):
    return Bundle(programs)


FORMS = {
    "made": lambda bundle, _: bundle,
    "loaded": lambda bundle, path: load_bundle(bundle.save(path / "folder")),
    "pickled": lambda bundle, _: pickle.loads(pickle.dumps(bundle)),
    "loaded, pickled": lambda bundle, path: pickle.loads(pickle.dumps(load_bundle(bundle.save(path / "folder")))),
    "loaded, saved": lambda bundle, path: load_bundle(load_bundle(bundle.save(path / "a")).save(path / "b")),
}
every_form = pytest.mark.parametrize("form", FORMS)


# -- one file of weights ------------------------------------------------------------------------


def test_a_weight_of_two_programs_is_stored_once(bundle, tmp_path):
    bundle.save(tmp_path)
    (data,) = tmp_path.glob("*.data")
    assert data.stat().st_size == W.nbytes


def test_the_files_of_a_bundle(bundle, tmp_path):
    bundle.save(tmp_path / "out")
    files = sorted(re.sub(r"[0-9a-f]{16}", "***", path.name) for path in (tmp_path / "out").iterdir())
    assert files == ["bundle.json", "decode.onnx", "prefill.onnx", "weights.***.data"]


def product(kernel):
    params = {"kernel": kernel}
    return to_onnx(lambda x: x @ params["kernel"], [("B", 64)])


def test_programs_that_were_traced_from_copies_share_weights():
    copies = {name: product(W.copy()) for name in ("one", "other")}
    assert Bundle(copies).nbytes == W.nbytes


def test_a_weight_whose_layout_is_changed_in_one_program_is_stored_in_each_layout():
    both = {"plain": to_onnx(lambda x: x @ W, [(2, 64)]), "transposed": to_onnx(lambda x: W @ x, [(64, 2)])}
    assert Bundle(both, same_weights=True).nbytes <= 2 * W.nbytes


def test_a_pickle_has_a_shared_weight_once(programs):
    alone = len(pickle.dumps(programs["prefill"]))
    assert len(pickle.dumps(Bundle(programs))) < alone + W.nbytes


def test_weights_that_differ_are_kept_apart():
    both = {"one": product(W), "other": product(V)}
    assert Bundle(both).nbytes == 2 * W.nbytes


def test_weights_of_one_model_that_differ_are_named():
    with pytest.raises(errors.WeightsError, match="of after has other numbers than that of before"):
        Bundle({"before": product(W), "after": product(V)}, same_weights=True)


# -- running ------------------------------------------------------------------------------------


@every_form
@pytest.mark.parametrize("share_weights", [False, True])
def test_a_prefill_hands_its_cache_to_the_steps(bundle, form, share_weights, tmp_path):
    session = FORMS[form](bundle, tmp_path).session(sizes={"B": 2, "C": 8}, threads=1, share_weights=share_weights)
    cache, expected = prefill({"keys": np.zeros((2, 8, 64), np.float32)}, X[:, :4])
    np.testing.assert_allclose(session.step("prefill", X[:, :4]), expected, rtol=1e-4, atol=1e-4)
    for at in (4, 5):
        cache, expected = write(cache, X[:, at : at + 1], at)
        np.testing.assert_allclose(
            session.step("decode", X[:, at : at + 1], np.int32(at)), expected, rtol=1e-4, atol=1e-4
        )
    np.testing.assert_allclose(session.state["cache.keys"], cache["keys"], rtol=1e-4, atol=1e-4)


def test_sessions_with_the_states_of_others_say_so(bundle):
    session = bundle.session(sizes={"B": 2, "C": 8})
    assert all(one.is_shared for one in session.values())


def test_a_session_of_one_program_has_the_states_of_all(bundle):
    session = bundle.session(sizes={"B": 2, "C": 8})
    session["prefill"].step(X[:, :4])
    np.testing.assert_array_equal(session["decode"].state["cache.keys"], session.state["cache.keys"])
    assert session.state["cache.keys"].any()


def test_a_bundle_is_reset_as_a_whole_and_by_sequences(bundle):
    session = bundle.session(sizes={"B": 2, "C": 8})
    session.step("prefill", X[:, :4])
    session.reset(B=[1])
    keys = session.state["cache.keys"]
    assert keys[0].any()
    assert not keys[1].any()
    session.reset()
    assert not session.state["cache.keys"].any()


def test_a_bundle_is_resized(bundle):
    session = bundle.session(sizes={"B": 2, "C": 4})
    session.step("prefill", X[:, :4])
    session.resize(C=5)
    _, expected = write(prefill({"keys": np.zeros((2, 5, 64), np.float32)}, X[:, :4])[0], X[:, 4:5], 4)
    np.testing.assert_allclose(session.step("decode", X[:, 4:5], np.int32(4)), expected, rtol=1e-4, atol=1e-4)


def test_states_of_a_bundle_are_saved_and_loaded(bundle, tmp_path):
    first, other = bundle.session(sizes={"B": 2, "C": 8}), bundle.session(sizes={"B": 1, "C": 4})
    first.step("prefill", X)
    other.state.load(first.state.save(tmp_path / "states.npz"))
    np.testing.assert_array_equal(other.state["cache.keys"], first.state["cache.keys"])


def test_first_values_are_given_by_name(bundle):
    keys = RNG.standard_normal((2, 7, 64)).astype(np.float32)
    session = bundle.session(initial={"cache.keys": keys})
    np.testing.assert_array_equal(session.state["cache.keys"], keys)


def test_a_program_of_a_bundle_is_called_as_before(programs, bundle, tmp_path):
    cache = {"keys": np.zeros((2, 8, 64), np.float32)}
    found = load_bundle(bundle.save(tmp_path / "out"))["prefill"](cache, X)
    np.testing.assert_allclose(found[1], programs["prefill"](cache, X)[1], rtol=1e-5, atol=1e-5)
    assert isinstance(bundle["prefill"], Program)


# -- links --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linked():
    encode = to_onnx(lambda x: {"memory": jnp.tanh(x @ V), "length": x.sum()}, [("B", "S", 64)])
    decode = to_onnx(lambda memory, x: x @ W + memory.mean(1), [("B", "S", 64), ("B", 64)])
    return Bundle({"encode": encode, "decode": decode}, links={"encode.memory": "decode.memory"})


@every_form
def test_an_output_is_the_input_of_another_program(linked, form, tmp_path):
    session = FORMS[form](linked, tmp_path).session(threads=1)
    for x in (X, X[:, :3]):
        session.step("encode", x)
        expected = X[:, 0] @ W + np.tanh(x @ V).mean(1)
        np.testing.assert_allclose(session.step("decode", X[:, 0]), expected, rtol=1e-4, atol=1e-4)


def test_a_program_whose_input_is_missing_says_from_where_it_comes(linked):
    with pytest.raises(errors.RuntimeInputError, match=r"decode takes 'memory' from encode, which has not run yet"):
        linked.session().step("decode", X[:, 0])


def test_a_reset_forgets_what_was_handed_over(linked):
    session = linked.session()
    session.step("encode", X)
    session.reset()
    with pytest.raises(errors.RuntimeInputError, match="has not run yet"):
        session.step("decode", X[:, 0])


def test_an_output_may_be_the_state_of_another_program():
    start = to_onnx(lambda x: {"first": x * 2}, [("B", 64)])
    count = to_onnx(lambda total, x: (total + x, total.sum()), [("B", 64), ("B", 64)], states={0: 0})
    session = Bundle({"start": start, "count": count}, links={"start.first": "count.total"}).session(sizes={"B": 2})
    session.step("start", X[:, 0])
    session.step("count", X[:, 1])
    np.testing.assert_allclose(session.state["total"], 2 * X[:, 0] + X[:, 1], rtol=1e-6)


LINKS: dict[str, tuple[Any, str]] = {
    "no such output": (
        {"encode.nothing": "decode.memory"},
        "there is no output 'encode.nothing'; there are encode.length",
    ),
    "no such program": ({"encoder.memory": "decode.memory"}, "there is no output 'encoder.memory'"),
    "no such input": ({"encode.memory": "decode.keys"}, "there is no input 'decode.keys'"),
    "ranks": ({"encode.memory": "decode.x"}, "the ranks differ"),
    "two outputs": ({"encode.memory": "decode.memory", "again.memory": "decode.memory"}, "linked to several outputs"),
    "itself": ({"encode.memory": "encode.x"}, "within one program"),
    "no mapping": (["encode.memory"], "links map outputs to inputs of other programs"),
    "no text": ({1: "decode.memory"}, "1 is no output"),
}


@pytest.mark.parametrize("wrong", LINKS)
def test_links_that_do_not_fit(linked, wrong):
    links, message = LINKS[wrong]
    with pytest.raises(errors.OptionError, match=re.escape(message)):
        Bundle({**linked, "again": linked["encode"]}, links=links)


# -- fewer bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["int4", "int8", "float16", "dynamic_int8"])
def test_programs_are_quantised_together(bundle, mode):
    quantised = bundle.quantize(mode)
    alone = Bundle({"prefill": bundle["prefill"].quantize(mode)})
    assert quantised.nbytes < bundle.nbytes
    assert quantised.nbytes <= 1.5 * alone.nbytes


def test_a_quantised_bundle_runs_with_common_states(bundle, tmp_path):
    session = load_bundle(bundle.quantize("int8").save(tmp_path / "out")).session(sizes={"B": 2, "C": 8}, threads=1)
    cache, expected = prefill({"keys": np.zeros((2, 8, 64), np.float32)}, X[:, :4])
    np.testing.assert_allclose(session.step("prefill", X[:, :4]), expected, rtol=0.05, atol=0.1)
    _, expected = write(cache, X[:, 4:5], 4)
    np.testing.assert_allclose(session.step("decode", X[:, 4:5], np.int32(4)), expected, rtol=0.05, atol=0.1)


def test_some_programs_are_quantised(linked):
    assert linked.quantize("int8", programs=["decode"])["encode"].model is linked["encode"].model


def test_what_cannot_be_quantised_is_named(linked):
    with pytest.raises(errors.OptionError, match="The program 'encode': "):
        linked.quantize("int8", exclude=["nowhere"])
    with pytest.raises(errors.OptionError, match="There is no program 'vision'; the programs are encode, decode"):
        linked.quantize("int8", programs=["vision"])


# -- what does not fit --------------------------------------------------------------------------


def of_type(dtype, shape=(2, 3)):
    return to_onnx(lambda total, x: (total + x, x), [(shape, dtype), (shape, dtype)], states={0: 0})


STATES = {
    "dtype": (of_type("float32"), of_type("int32"), "the element types differ"),
    "rank": (of_type("float32"), of_type("float32", (2, 3, 1)), "the ranks differ"),
    "size": (of_type("float32"), of_type("float32", (2, 4)), "axis 1 has 3 entries or 4"),
    "growth": (
        of_type("float32", ("S", 3)),
        to_onnx(lambda total, x: (jnp.concatenate([total, x]), x), [("S", 3), (1, 3)], states={0: 0}),
        "it grows in one only",
    ),
}


@pytest.mark.parametrize("wrong", STATES)
def test_states_of_one_name_that_are_not_one_state(wrong):
    first, second, message = STATES[wrong]
    with pytest.raises(errors.OptionError, match=f"The state 'total' of a and of b is one state.*{message}"):
        Bundle({"a": first, "b": second}).session()


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "sizes": ({"sizes": {"D": 2}}, "sizes: no axis of a state that it can be about is 'D'"),
    "window": ({"sizes": {"B": 1, "C": 4}, "window": {"C": 2}}, "window: no axis of a state"),
    "initial": ({"initial": {"keys": X}}, "initial: there is no state 'keys'; the states are cache.keys"),
    "no size": ({"sizes": {"C": 4}}, "The program 'prefill': The state 'cache.keys'"),
    "flag": ({"share_weights": 1}, "share_weights"),
    "other flag": ({"arena": 0}, "arena"),
    "flag of numbers": ({"flush_denormals": 1}, "flush_denormals"),
}


@pytest.mark.parametrize("wrong", OPTIONS)
def test_options_of_a_session_that_fit_no_state(bundle, wrong):
    options, message = OPTIONS[wrong]
    with pytest.raises(errors.OptionError, match=message):
        bundle.session(**options)


def test_labels_and_programs_that_no_session_has(bundle):
    session = bundle.session(sizes={"B": 1, "C": 4})
    with pytest.raises(errors.OptionError, match="No axis of a state is 'D'; there are: B, C"):
        session.resize(D=2)
    with pytest.raises(errors.OptionError, match="There is no program 'draft'; the programs are prefill, decode"):
        session.step("draft", X)
    with pytest.raises(KeyError, match="There is no program 'draft'"):
        session["draft"]
    with pytest.raises(KeyError, match="There is no program 'draft'"):
        bundle["draft"]
    with pytest.raises(KeyError, match=r"There is no state 'keys'; the states are cache\.keys"):
        session.state["keys"]


@pytest.mark.parametrize("programs", [{}, {"one": 1}, [1], {1: None}], ids=str)
def test_what_is_no_bundle(programs):
    with pytest.raises(errors.OptionError, match=r"[bB]undle"):
        Bundle(programs)


def test_programs_for_different_runtimes_are_refused(programs):
    other = to_onnx(lambda x: x + 1, [(2,)], target="onnx")
    with pytest.raises(
        errors.OptionError, match="The programs of a bundle are for one runtime, but prefill is for ONNX Runtime"
    ):
        Bundle({"prefill": programs["prefill"], "other": other})


def test_names_that_no_file_has(programs, tmp_path):
    with pytest.raises(errors.SaveError, match="the name of a variant is 'a/b'"):
        Bundle({"a/b": programs["decode"]}).save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# -- folders that are not whole -----------------------------------------------------------------


DAMAGE = {
    "no folder": (lambda folder: [file.unlink() for file in folder.iterdir()], "bundle.json: No such file"),
    "no model": (lambda folder: (folder / "decode.onnx").unlink(), "decode.onnx: No such file"),
    "no weights": (lambda folder: next(folder.glob("*.data")).unlink(), "which has the weights of"),
    "half of the list": (lambda folder: (folder / "bundle.json").write_text("{"), "Cannot read a bundle from"),
    "another list": (lambda folder: (folder / "bundle.json").write_text("[]"), "Cannot read a bundle from"),
    "no model in a file": (lambda folder: (folder / "decode.onnx").write_text("hello"), "it is no ONNX model"),
    "a later format": (
        lambda folder: (folder / "bundle.json").write_text(json.dumps({"format": 99})),
        "its format is 99, of a later version",
    ),
    "another model": (
        lambda folder: (folder / "decode.onnx").write_bytes((folder / "prefill.onnx").read_bytes()),
        "has other inputs than bundle.json says",
    ),
    "another runtime": (
        lambda folder: replace(
            folder / "bundle.json", "jax2onnx_onnxruntime.runtime:OrtRuntime", "nowhere.at_all:Runtime"
        ),
        "The bundle needs nowhere.at_all:Runtime, which is not here",
    ),
    "no runtime": (
        lambda folder: replace(folder / "bundle.json", "jax2onnx_onnxruntime.runtime:OrtRuntime", "os:environ"),
        "which is no Runtime",
    ),
}


def replace(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_folder_that_is_not_whole_is_refused(bundle, damage, tmp_path):
    harm, message = DAMAGE[damage]
    harm(bundle.save(tmp_path / "out"))
    with pytest.raises(ReadError, match=re.escape(message)):
        load_bundle(tmp_path / "out")


def test_programs_of_two_saves_are_refused(bundle, tmp_path):
    first, second = bundle.save(tmp_path / "first"), bundle.save(tmp_path / "second")
    for file in (second / "decode.onnx", *second.glob("*.data")):
        (first / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ReadError, match="they are of two saves, one of which did not end"):
        load_bundle(first)


def test_a_bundle_is_saved_over_an_older_one(bundle, linked, tmp_path):
    bundle.save(tmp_path / "out")
    linked.save(tmp_path / "out")
    assert list(load_bundle(tmp_path / "out")) == ["encode", "decode"]
    bundle.save(tmp_path / "out")
    assert list(load_bundle(tmp_path / "out")) == ["prefill", "decode"]


# -- variants and other processes ---------------------------------------------------------------


def test_variants_of_a_program_are_a_bundle(tmp_path):
    program = to_onnx(lambda x: x @ W, [("B", 64)])
    one, two = program.save_variants(tmp_path / "out", one={"B": 1}, two={"B": 2})
    assert (one.name, two.name) == ("one.onnx", "two.onnx")
    np.testing.assert_allclose(load_bundle(tmp_path / "out")["two"](X[:, 0]), X[:, 0] @ W, rtol=1e-4, atol=1e-5)


ALONE = """
import sys
import numpy as np
from jax2onnx_runtime.bundles.bundle import load_bundle
session = load_bundle(sys.argv[1]).session(sizes={"B": 1, "C": 4})
session.step("prefill", np.ones((1, 2, 64), np.float32))
session.step("decode", np.ones((1, 1, 64), np.float32), np.int32(2))
assert session.state["cache.keys"][0, :3].any(1).all()
assert "jax" not in sys.modules
"""


def test_a_bundle_runs_without_jax(bundle, tmp_path):
    subprocess.run([sys.executable, "-c", ALONE, bundle.save(tmp_path / "out")], check=True)


def test_a_program_from_a_folder_has_no_report(bundle, tmp_path):
    program = load_bundle(bundle.save(tmp_path / "out"))["decode"]
    with pytest.raises(errors.OptionError, match="has no report"):
        program.report()


# -- programs that read the states of others -----------------------------------------------------


def count(total, x):
    return total + x


def scaled(total, y):
    return total * y


def counting(reader_shape=(3,), **names):
    """A program that changes a state, and one that reads it."""
    reader = to_onnx(scaled, [reader_shape, (3,)], **names)
    return Bundle({"count": to_onnx(count, [np.full(3, 5, np.float32), (3,)], states={0: 0}), "scaled": reader})


@pytest.mark.parametrize("form", ["made", "loaded", "pickled"])
def test_an_input_with_the_name_of_a_state_reads_it(form, tmp_path):
    session = FORMS[form](counting(), tmp_path).session()
    ones = np.ones(3, np.float32)
    assert session.step("scaled", ones).tolist() == [5, 5, 5]
    session.step("count", ones)
    assert session.step("scaled", 2 * ones).tolist() == [12, 12, 12]
    assert session.state["total"].tolist() == [6, 6, 6]


def test_an_input_that_cannot_read_the_state_of_its_name():
    with pytest.raises(
        errors.OptionError, match=r"'total' of scaled has the name of a state of count, .* has 3 entries or 1"
    ):
        counting((1,)).session()
    assert counting((1,), input_names={"total": "other"}).session()


def test_arrays_that_were_given_for_states_are_their_first_values():
    first = np.arange(3, dtype=np.float32)
    program = to_onnx(count, [first, (3,)], states={0: 0})
    first[:] = 9
    assert program.session().state["total"].tolist() == [0, 1, 2]
    assert program.session(initial={0: np.ones(3, np.float32)}).state["total"].tolist() == [1, 1, 1]
