"""The generator on decoders given as text, in the reference runtime."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_generation import Generator
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.metadata import StatePair, SymbolInfo, write_states, write_symbols
from jax2onnx_runtime.program import program_of
from jax2onnx_runtime.runtimes import reference_runtime
from jax2onnx_runtime.session import ModelSession

# The next token is the sum of all tokens so far, modulo 10.
SUMMING = """
<ir_version: 10, opset_import: ["": 18]>
main (int64[B,T] tokens, int64[B] total) => (float[B,T,10] logits, int64[B] new_total) {
  ten = Constant<value = int64 {10}>()
  pair = Constant<value = float[2] {0, 1}>()
  one = Constant<value = int64 {1}>()
  column = Constant<value = int64[1] {1}>()
  before = Unsqueeze(total, column)
  own = CumSum(tokens, one)
  sums = Add(before, own)
  next = Mod(sums, ten)
  logits = OneHot(next, ten, pair)
  last = ReduceSum<keepdims = 0>(tokens, column)
  new_total = Add(total, last)
}
"""


@pytest.fixture
def session() -> ModelSession:
    return session_of(SUMMING)


def session_of(text: str) -> ModelSession:
    model = ir.from_onnx_text(text)
    write_states(model, [StatePair("total", "new_total")])
    return program_of(model, reference_runtime).session(sizes={"B": 1})


def test_tokens_are_written_after_a_prompt(session):
    assert Generator(session).generate([1, 2, 3], max_new_tokens=4).ids == [[6, 2, 4, 8]]


def test_a_conversation_goes_on_after_what_was_written(session):
    generator = Generator(session)
    generator.generate([1, 2], max_new_tokens=2)  # 3, 6
    assert generator.generate([5], max_new_tokens=1).ids == [[7]]


def test_what_was_forgotten_is_not_counted(session):
    generator = Generator(session)
    generator.generate([1, 2], max_new_tokens=2)
    generator.rewind(2)
    assert generator.generate([5], max_new_tokens=1).ids == [[8]]


def test_a_reset_begins_a_new_conversation(session):
    generator = Generator(session)
    generator.generate([1, 2], max_new_tokens=2)
    generator.reset()
    assert generator.generate([4], max_new_tokens=1).ids == [[4]]


def test_a_session_that_is_reset_begins_a_new_conversation(session):
    generator = Generator(session)
    generator.generate([1, 2], max_new_tokens=2)
    session.reset()
    assert generator.generate([4], max_new_tokens=1).ids == [[4]]


def _step(session: ModelSession) -> None:
    session.step({"tokens": np.array([[1]])})


def _set(session: ModelSession) -> None:
    session.state["total"] = np.array([3])


@pytest.mark.parametrize("change", [_step, _set])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_states_that_somebody_else_has_changed_are_refused(session, change: Callable[[ModelSession], None], before):
    if before:
        change(session)
    generator = Generator(session)
    if not before:
        generator.generate([1], max_new_tokens=1)
        change(session)
    with pytest.raises(RuntimeInputError, match="it is not known of which tokens they are"):
        generator.generate([1])


def test_a_stream_ends_where_somebody_else_changes_the_states(session):
    stream = Generator(session).stream([1], max_new_tokens=5)
    next(stream)
    _step(session)
    with pytest.raises(RuntimeInputError, match="this stream cannot go on"):
        next(stream)


def test_a_prompt_that_fails_is_no_part_of_the_conversation(session, monkeypatch):
    generator = Generator(session)
    generator.generate([1, 2], max_new_tokens=1)
    with monkeypatch.context() as patch:
        patch.setattr(session, "run", lambda _: [np.full((1, 1, 10), np.nan, np.float32)])
        with pytest.raises(RuntimeInputError, match="NaN"):
            generator.generate([5], max_new_tokens=1)
    assert generator.conversation == [[1, 2, 3]]
    assert generator.generate([4], max_new_tokens=1).ids == [[0]]


def test_logits_whose_shape_is_not_that_of_the_tokens_are_refused():
    flat = "all = OneHot(next, ten, pair) shape = Constant<value = int64[2] {-1, 10}>() logits = Reshape(all, shape)"
    text = SUMMING.replace("logits = OneHot(next, ten, pair)", flat).replace("float[B,T,10]", "float[N,10]")
    with pytest.raises(RuntimeInputError, match=r"it has shape \(3, 1, 10\) for tokens of shape \(1, 3\)"):
        Generator(session_of(text)).generate([1, 2, 3])


@pytest.mark.parametrize("is_itself", [True, False])
def test_a_draft_with_the_same_session_is_refused(session, is_itself):
    generator = Generator(session)
    with pytest.raises(OptionError, match="draft: it has the session of this generator"):
        generator.generate([1, 2], draft=generator if is_itself else Generator(session))


# The next token is the sum of what two states hold, which grow from different lengths.
GROWING_TWICE = """
<ir_version: 10, opset_import: ["": 18]>
main (int64[B,T] tokens, float[B,S] a, float[B,R] b) => (float[B,T,10] logits, float[B,"S+T"] new_a, float[B,"R+T"] new_b) {
  ten = Constant<value = int64 {10}>()
  pair = Constant<value = float[2] {0, 1}>()
  column = Constant<value = int64[1] {1}>()
  one = Constant<value = int64 {1}>()
  new = Cast<to = 1>(tokens)
  new_a = Concat<axis = 1>(a, new)
  new_b = Concat<axis = 1>(b, new)
  in_a = ReduceSum(a, column)
  in_b = ReduceSum(b, column)
  before = Add(in_a, in_b)
  own = CumSum(new, one)
  both = Add(own, own)
  sums = Add(before, both)
  numbers = Cast<to = 7>(sums)
  next = Mod(numbers, ten)
  logits = OneHot(next, ten, pair)
}
"""


def test_a_draft_changes_no_token_of_states_that_begin_with_different_lengths():
    def generator() -> Generator:
        model = ir.from_onnx_text(GROWING_TWICE)
        write_states(model, [StatePair("a", "new_a", 1), StatePair("b", "new_b", 1)])
        program = program_of(model, reference_runtime)
        return Generator(program.session(sizes={"B": 1, "S": 0}, initial={"b": np.ones((1, 2), np.float32)}))

    wanted = generator().generate([1, 2, 3], max_new_tokens=8).ids
    assert generator().generate([1, 2, 3], max_new_tokens=8, draft=Generator(session_of(SUMMING))).ids == wanted


@pytest.mark.parametrize(("prompt", "chunk"), [([1, 2, 3], 2), ([1], None), ([1, 2, 3, 4, 5, 6, 7], 6)])
def test_every_part_of_a_prompt_fits_the_constraints_of_the_model(prompt, chunk):
    model = ir.from_onnx_text(SUMMING)
    write_states(model, [StatePair("total", "new_total")])
    write_symbols(model, {"T": SymbolInfo("T", 1, None, (("tokens", 1, "T"),))}, ["T >= 2"])
    generator = Generator(program_of(model, reference_runtime).session(sizes={"B": 1}))
    with pytest.raises(RuntimeInputError, match="The tokens do not fit the model"):
        generator.generate(prompt, max_new_tokens=1, prefill_chunk=chunk)
    assert generator.generate([1, 2, 3, 4], max_new_tokens=1, prefill_chunk=2).ids == [[0]]


def test_a_draft_changes_no_token_of_a_model_without_states():
    text = SUMMING.replace(", int64[B] total", "").replace(", int64[B] new_total", "")
    for line in (
        "before = Unsqueeze(total, column)",
        "last = ReduceSum<keepdims = 0>(tokens, column)",
        "new_total = Add(total, last)",
    ):
        text = text.replace(line, "")
    model = ir.from_onnx_text(text.replace("Add(before, own)", "Identity(own)"))
    generator = Generator(program_of(model, reference_runtime).session())
    found = generator.generate([1, 2], max_new_tokens=6, draft=Generator(session_of(SUMMING)))
    assert (found.ids, found.accept_rate) == ([[3, 6, 2, 4, 8, 6]], 1)


# The next token is the sum of all tokens so far and of a number for each of them.
SHIFTED = """
<ir_version: 10, opset_import: ["": 18]>
main (int64[B,T] tokens, float[B,S] past, int64[1] shift) => (float[B,T,10] logits, float[B,"S+T"] new_past) {
  ten = Constant<value = int64 {10}>()
  pair = Constant<value = float[2] {0, 1}>()
  one = Constant<value = int64 {1}>()
  column = Constant<value = int64[1] {1}>()
  shifted = Add(tokens, shift)
  new = Cast<to = 1>(shifted)
  new_past = Concat<axis = 1>(past, new)
  before = ReduceSum(past, column)
  own = CumSum(new, one)
  sums = Add(before, own)
  numbers = Cast<to = 7>(sums)
  next = Mod(numbers, ten)
  logits = OneHot(next, ten, pair)
}
"""


def test_other_arrays_of_further_inputs_are_those_of_all_tokens():
    def generator() -> Generator:
        model = ir.from_onnx_text(SHIFTED)
        write_states(model, [StatePair("past", "new_past", 1)])
        return Generator(program_of(model, reference_runtime).session(sizes={"B": 1, "S": 0}))

    one, shift = generator(), np.array([0])
    one.generate([1, 2], max_new_tokens=2, inputs={"shift": shift})
    whole = [*one.conversation[0], 3]
    shift += 1
    found = one.generate([3], max_new_tokens=3, inputs={"shift": shift}).ids
    assert found == generator().generate(whole, max_new_tokens=3, inputs={"shift": shift}).ids
    assert (
        one.generate([3], max_new_tokens=1).ids
        == generator().generate(one.conversation[0][:-1], max_new_tokens=1, inputs={"shift": shift}).ids
    )


def test_a_stream_that_an_error_ended_has_no_result(session):
    generator = Generator(session)
    stream = generator.stream([1, 2], max_new_tokens=3)
    next(stream)
    generator.reset()
    with pytest.raises(RuntimeInputError, match="this stream cannot go on"):
        next(stream)
    with pytest.raises(RuntimeInputError, match="An error ended this stream"):
        stream.result  # noqa: B018


def test_more_tokens_than_there_are_cannot_be_forgotten(session):
    with pytest.raises(RuntimeInputError, match="the conversation has 0 tokens"):
        Generator(session).rewind(1)


def test_states_that_others_have_in_common_are_refused(session, monkeypatch):
    session.is_shared = True
    with pytest.raises(OptionError, match="The session has its states in common with others of a bundle"):
        Generator(session)


def test_generate_takes_the_options_of_stream_and_hands_all_of_them_on(monkeypatch):
    parameters = dict(inspect.signature(Generator.stream).parameters)
    assert dict(inspect.signature(Generator.generate).parameters) == parameters
    prompt, options = object(), {name: object() for name in list(parameters)[2:]}
    handed: dict[str, object] = {}

    class Stream:
        result = "written"

    def stream(self: Generator, prompt: object, **given: object) -> type[Stream]:
        handed.update(given, prompt=prompt)
        return Stream

    monkeypatch.setattr(Generator, "stream", stream)
    generate: Callable[..., object] = Generator.generate
    assert generate(object.__new__(Generator), prompt, **options) == "written"
    assert handed == {**options, "prompt": prompt}
