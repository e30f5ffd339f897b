"""One function in decoders of all kinds: with caches that grow or are fixed, counters, masks, or nothing, they write the same tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_generation import Generator
from jax2onnx_generation.loop.results import Stop
from jax2onnx_graph.errors import ContextFullError, OptionError, RuntimeInputError
from jax2onnx_graph.metadata import StatePair, write_states
from jax2onnx_runtime.program import program_of
from jax2onnx_runtime.runtimes import reference_runtime

VOCABULARY = 11
CONSTANTS = f"""
  depth = Constant<value = int64 {{{VOCABULARY}}}>() pair = Constant<value = float[2] {{0, 1}}>() zero = Constant<value = float {{0}}>()
  one = Constant<value = int64 {{1}}>() first = Constant<value = int64[1] {{1}}>() last = Constant<value = int64[1] {{2}}>()
  none = Constant<value = int64 {{0}}>() front = Constant<value = int64[1] {{0}}>() size = Constant<value = float {{{VOCABULARY}}}>()
"""
NUMBERS = "w = Add(tokens, one) p = Add(positions, one) m = Mul(w, p) new = Cast<to = 1>(m)"
LOGITS = "i = Mod<fmod = 1>(sums, size) j = Cast<to = 7>(i) logits = OneHot(j, depth, pair)"
SEEN = "cells = Unsqueeze(next, first) own = Where(visible, cells, zero) sums = ReduceSum<keepdims = 0>(own, last)"
PLACES = """shape = Shape<start = 1>(next) width = Squeeze(shape) places = Range(none, width, one) marks = Unsqueeze(positions, last)
  visible = LessOrEqual(places, marks)"""
COUNTED = "length = Shape<start = 1, end = 2>(tokens) t = Squeeze(length) further = Range(none, t, one) at = Add(counter, further)"
#: The inputs, the further results, the nodes, and the axis along which the state grows.
DECODERS: dict[str, tuple[str, str, str, int | None]] = {
    "grows": (
        "int64[B,T] tokens, int64[B,T] positions, float[B,S] cache", "float[B,P] next",
        (f"{NUMBERS} next = Concat<axis = 1>(cache, new) before = ReduceSum<keepdims = 1>(cache, first) "
        "after = CumSum(new, one) sums = Add(before, after)"), 1,
    ),
    "grows and is masked": (
        "int64[B,T] tokens, int64[B,T] positions, bool[B,T,K] mask, float[B,S] cache", "float[B,P] next",
        f"{NUMBERS} next = Concat<axis = 1>(cache, new) visible = Identity(mask) {SEEN}", 1,
    ),
    "is written at the places of each row": (
        "int64[B,T] tokens, int64[B,T] positions, float[B,40] cache", "float[B,40] next",
        f"{NUMBERS} next = ScatterElements<axis = 1>(cache, positions, new) {PLACES} {SEEN}", None,
    ),
    "is written at the places of each row under a mask for all": (
        "int64[B,T] tokens, int64[B,T] positions, bool[T,40] mask, float[B,40] cache", "float[B,40] next",
        f"{NUMBERS} next = ScatterElements<axis = 1>(cache, positions, new) visible = Identity(mask) {SEEN}", None,
    ),
    "is written where a counter says": (
        "int64[B,T] tokens, float[B,40] cache, int64 counter", "float[B,40] next, int64 count",
        (f"{COUNTED} row = Unsqueeze(at, front) same = Mul(tokens, none) positions = Add(row, same) {NUMBERS} "
        f"next = ScatterElements<axis = 1>(cache, positions, new) {PLACES} {SEEN} count = Add(counter, t)"), None,
    ),
    "is a sum": (
        "int64[B,T] tokens, int64[B,T] positions, float[B] cache", "float[B] next",
        (f"{NUMBERS} before = Unsqueeze(cache, first) after = CumSum(new, one) sums = Add(before, after) "
        "further = ReduceSum<keepdims = 0>(new, first) next = Add(cache, further)"), None,
    ),
    "takes one token": (
        "int64[B,1] tokens, int64[B,1] positions, float[B,S] cache", "float[B,P] next",
        f"{NUMBERS} next = Concat<axis = 1>(cache, new) sums = ReduceSum<keepdims = 1>(next, first)", 1,
    ),
    "has no state": (
        "int64[B,T] tokens, int64[B,T] positions", "", f"{NUMBERS} sums = CumSum(new, one)", None,
    ),
    "has a capacity that grows": (
        "int64[B,T] tokens, int64[B,T] positions, float[B,C] cache", "float[B,C] next",
        f"{NUMBERS} next = ScatterElements<axis = 1>(cache, positions, new) {PLACES} {SEEN}", None,
    ),
}  # fmt: skip


def generator_of(
    name: str,
    capacity: int = 40,
    vocabulary: int = VOCABULARY,
    window: int | None = None,
    *,
    is_double: bool = False,
    limits: dict[str, int] | None = None,
) -> Generator:
    inputs, results, nodes, grows = DECODERS[name]
    logits = f"float[B,{1 if 'B,1' in inputs else 'T'},{VOCABULARY}] logits"
    text = f'<ir_version: 10, opset_import: ["": 18]> main ({inputs}) => ({logits}{results and ", " + results}) {{ {CONSTANTS} {nodes} {LOGITS} }}'
    if is_double:
        text = text.replace("float[2] {0, 1}", "double[2] {1, 1.0000000001}").replace(
            logits, f"double{logits.removeprefix('float')}"
        )
    model = ir.from_onnx_text(text.replace("40", str(capacity)).replace(str(VOCABULARY), str(vocabulary)))
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.shape is not None:
            value.shape = ir.Shape([{"P": "S + T", "K": "S + T"}.get(str(dim), dim) for dim in value.shape])
    pairs = [StatePair("cache", "next", grows)] if results else []
    pairs += [StatePair("counter", "count")] if "counter" in inputs else []
    write_states(model, pairs)
    sizes = {
        symbol: size
        for symbol, size in {"B": 1, "C": 2}.items()
        if f"{symbol}] cache" in inputs or f"{symbol}," in inputs
    }
    kept = None if window is None else {"S": window}
    return Generator(
        program_of(model, reference_runtime).session(sizes=sizes if results else None, window=kept, limits=limits)
    )


def continuation(prompt: Sequence[int], count: int, window: int = 99) -> list[int]:
    """The tokens after a prompt, each of which follows from the one before and as many before it as the window has."""
    tokens = list(prompt)
    for _ in range(count):
        seen = [*enumerate(tokens)][-window - 1 :]
        tokens.append(sum((place + 1) * (token + 1) for place, token in seen) % VOCABULARY)
    return tokens[len(prompt) :]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(
    "prompts", [[[3]], [[1], [2, 3, 4], [5, 6]], [[1, 2, 3], [4, 5, 6]]], ids=["one", "ragged", "even"]
)
@pytest.mark.parametrize("chunk", [None, 2])
def test_prompts_are_gone_on_with(name, prompts, chunk):
    generator = generator_of(name)
    found = generator.generate(prompts, max_new_tokens=5, prefill_chunk=chunk)
    assert found.ids == [continuation(prompt, 5) for prompt in prompts]
    assert found.prompt_tokens == sum(map(len, prompts))
    further = [[7, 8], [9], [10, 1, 2]][: len(prompts)]
    before = [prompt + written for prompt, written in zip(prompts, found.ids, strict=True)]
    wanted = [continuation(old + new, 3) for old, new in zip(before, further, strict=True)]
    assert generator.generate(further, max_new_tokens=3).ids == wanted
    generator.rewind(4)
    left = [(old + new + more)[:-4] for old, new, more in zip(before, further, wanted, strict=True)]
    assert generator.conversation == left
    again = [[2], [3], [4]][: len(prompts)]
    assert generator.generate(again, max_new_tokens=2).ids == [
        continuation(a + b, 2) for a, b in zip(left, again, strict=True)
    ]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("width", [2, 4])
def test_beams_are_those_of_a_model_without_states(name, width):
    generators = [generator_of(name), generator_of("has no state")]
    for prompts, count in (([3, 4], 6), ([[8]], 3)):
        found, wanted = (one.generate(prompts, max_new_tokens=count, beams=width).sequences for one in generators)
        assert [one.ids for one in found] == [one.ids for one in wanted]
        assert [one.score for one in found] == pytest.approx([one.score for one in wanted])


@pytest.mark.parametrize("name", ["grows", "grows and is masked"])
@pytest.mark.parametrize("prompt", [[1], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]])
@pytest.mark.parametrize("chunk", [None, 2])
def test_a_window_is_looked_through(name, prompt, chunk):
    generator = generator_of(name, window=3)
    assert not generator.decoder.can_always_cut
    written = generator.generate(prompt, max_new_tokens=5, prefill_chunk=chunk).ids[0]
    assert written == continuation(prompt, 5, 3)
    further = [*prompt, *written, 8, 9, 10]
    (again,) = generator.generate([8, 9, 10], max_new_tokens=2).ids
    assert again == continuation(further, 2, 3)
    generator.rewind(3)
    left = [*further, *again][:-3]
    assert generator.generate([5], max_new_tokens=3).ids == [continuation([*left, 5], 3, 3)]


@pytest.mark.parametrize("name", ["grows", "grows and is masked"])
@pytest.mark.parametrize("draft", ["grows", "is a sum"])
def test_a_draft_changes_no_token_in_a_window(name, draft):
    found = generator_of(name, window=3).generate([3, 4], max_new_tokens=9, draft=generator_of(draft), draft_tokens=3)
    assert found.ids == [continuation([3, 4], 9, 3)]
    assert found.accepted < found.drafted


@pytest.mark.parametrize("name", DECODERS)
def test_a_sequence_that_has_ended_does_not_disturb_the_others(name):
    prompts = [[1], [2, 3, 4], [5, 6]]
    stop = continuation(prompts[0], 2)[1]
    wanted = []
    for prompt in prompts:
        ids = continuation(prompt, 6)
        wanted.append(ids[: ids.index(stop) + 1] if stop in ids else ids)
    found = generator_of(name).generate(prompts, max_new_tokens=6, stop=stop)
    assert found.ids == wanted
    assert found.stops == [Stop.TOKEN if ids[-1] == stop else Stop.LENGTH for ids in wanted]


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in ("has no state", "takes one token")])
@pytest.mark.parametrize(("draft", "count"), [("grows", 3), ("takes one token", 1), ("wrong", 2)])
def test_a_draft_changes_no_token(name, draft, count, monkeypatch):
    small = generator_of("is a sum" if draft == "wrong" else draft)
    if draft == "wrong":
        feed = small.decoder.feed
        monkeypatch.setattr(small.decoder, "feed", lambda new: feed(new)[:, ::-1])
    large = generator_of(name)
    found = large.generate([3, 4], max_new_tokens=9, draft=small, draft_tokens=count)
    assert found.ids == [continuation([3, 4], 9)]
    right = draft != "wrong"
    assert (found.accepted == found.drafted > 0) == right
    assert found.accept_rate == (1 if right else found.accepted / found.drafted)
    assert found.drafted <= (8 if right else 8 * count)
    assert large.generate([5], max_new_tokens=3).ids == [continuation([3, 4, *found.ids[0], 5], 3)]


@pytest.mark.parametrize("name", ["grows", "grows and is masked"])
@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("prompts", [[[3, 4]], [[1], [2, 3, 4]]])
def test_logits_of_float64_are_told_apart(name, draft, prompts):
    small = generator_of("is a sum") if draft else None
    found = generator_of(name, is_double=True).generate(prompts, max_new_tokens=5, draft=small)
    assert found.ids == [continuation(prompt, 5) for prompt in prompts]


@pytest.mark.parametrize(("capacity", "written"), [(5, 4), (6, 5), (2, 1)])
@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("name", ["is written at the places of each row", "is written where a counter says"])
def test_a_full_context_ends_what_is_written(name, capacity, written, draft):
    small = generator_of("is a sum") if draft else None
    found = generator_of(name, capacity).generate([3, 4], max_new_tokens=9, draft=small)
    assert found.ids == [continuation([3, 4], written)]
    assert found.stops == [Stop.CONTEXT]


@pytest.mark.parametrize("prompts", [[[1, 2, 3, 4], [5]], [[5], [1, 2, 3, 4]], [[1, 2], [3], [4, 5, 6], [7, 8, 9]]])
@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize(
    ("name", "limits"),
    [("grows", {"S": 6}), ("grows and is masked", {"S": 6}), ("is written at the places of each row", None),
     ("is written where a counter says", None), ("has a capacity that grows", {"C": 6})],
)  # fmt: skip
def test_a_full_context_ends_the_longer_sequences_alone(name, limits, prompts, chunk):
    generator = generator_of(name, 6, limits=limits)
    found = generator.generate(prompts, max_new_tokens=5, prefill_chunk=chunk)
    counts = [min(5, 7 - len(prompt)) for prompt in prompts]
    assert found.ids == [continuation(prompt, count) for prompt, count in zip(prompts, counts, strict=True)]
    assert found.stops == [Stop.CONTEXT if count < 5 else Stop.LENGTH for count in counts]
    assert generator.conversation == [a + b for a, b in zip(prompts, found.ids, strict=True)]


def test_hidden_tokens_take_no_room_of_a_context():
    generator = generator_of("grows and is masked", limits={"S": 9})
    prompts = [[1, 2, 3, 4, 5], [6]]
    first = generator.generate(prompts, max_new_tokens=1)
    generator.generate([[], [7]], max_new_tokens=1)  # the first row has a hidden token since
    before = [list(row) for row in generator.conversation]
    found = generator.generate([[], []], max_new_tokens=4)
    assert [len(first.ids), len(before[0])] == [2, 7]
    assert found.ids == [continuation(row, count) for row, count in zip(before, (3, 4), strict=True)]


def test_a_prompt_without_room_is_refused_and_forgotten():
    generator = generator_of("is written at the places of each row", 3)
    with pytest.raises(ContextFullError, match="the caches have 3 places, but 4 are needed"):
        generator.generate([1, 2, 3, 4])
    assert generator.conversation == []


@pytest.mark.parametrize("prompts", [[[1], [2]], [[1]]])
def test_prompts_fit_the_conversation(prompts):
    generator = generator_of("grows")
    generator.generate([[1], [2], [3]], max_new_tokens=1)
    with pytest.raises(
        RuntimeInputError, match=f"The conversation has 3 sequences, but there are {len(prompts)} prompts"
    ):
        generator.generate(prompts)


def test_a_model_that_looks_at_one_token_takes_no_draft():
    with pytest.raises(OptionError, match="it has to look at several"):
        generator_of("takes one token").generate([1], draft=generator_of("grows"))


def test_a_draft_of_other_tokens_is_refused():
    draft = generator_of("grows", vocabulary=7)
    with pytest.raises(OptionError, match="draft: it has 7 tokens, but the model has 11"):
        generator_of("grows").generate([1], draft=draft)


@pytest.mark.parametrize("options", [{"temperature": 0.5}, {"beams": 2}])
def test_what_is_drafted_is_greedy(options):
    with pytest.raises(OptionError, match="has no temperature and no beams"):
        generator_of("grows").generate([1], draft=generator_of("grows"), **options)


def test_the_states_of_a_sequence_are_repeated_for_others():
    generator = generator_of("is a sum")
    generator.generate([[1], [2]], max_new_tokens=2)
    generator.reset()
    assert generator.generate([[3], [4], [5]], max_new_tokens=2).ids == [continuation([n], 2) for n in (3, 4, 5)]


@pytest.mark.parametrize("count", [-1, 3, True, 1.0])
def test_no_more_is_forgotten_than_there_is(count):
    generator = generator_of("grows")
    generator.generate([1], max_new_tokens=1)
    with pytest.raises(RuntimeInputError, match="the conversation has 2 tokens that can be forgotten"):
        generator.rewind(count)
    generator.rewind(2)
    assert generator.conversation == [[]]


def test_an_empty_prompt_is_refused_where_nothing_was_written():
    generator = generator_of("grows")
    with pytest.raises(RuntimeInputError, match="Prompt 1 is empty"):
        generator.generate([[1], []])


def fed(generator: Generator, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the tokens of the runs that follow."""
    shapes: list[tuple[int, ...]] = []
    run = generator.session.run

    def noted(feeds: dict[str, np.ndarray]) -> object:
        shapes.append(feeds["tokens"].shape)
        return run(feeds)

    monkeypatch.setattr(generator.session, "run", noted)
    return shapes


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "has no state"])
def test_a_token_is_fed_once(name, monkeypatch):
    generator = generator_of(name)
    shapes = fed(generator, monkeypatch)
    parts = [(1, 1)] * 4 if name == "takes one token" else [(1, 4)]
    generator.generate([1, 2, 3, 4], max_new_tokens=3)
    assert shapes == [*parts, (1, 1), (1, 1)]
    shapes.clear()
    generator.generate([5], max_new_tokens=1)
    assert sum(count for _, count in shapes) == 2, "the last token that was written, and the new one"
    shapes.clear()
    generator.rewind(2)
    generator.generate([6], max_new_tokens=1)
    assert sum(count for _, count in shapes) == (8 if name == "is a sum" else 1), "what is no cache is fed anew"


@pytest.mark.parametrize(("chunk", "parts"), [(1, [1] * 5), (2, [2, 2, 1]), (4, [4, 1]), (5, [5]), (9, [5])])
def test_a_long_prompt_is_fed_in_parts(chunk, parts, monkeypatch):
    generator = generator_of("grows")
    shapes = fed(generator, monkeypatch)
    generator.generate([1, 2, 3, 4, 5], max_new_tokens=2, prefill_chunk=chunk)
    assert shapes == [(1, part) for part in [*parts, 1]]


def test_without_states_all_tokens_are_fed_in_one_run(monkeypatch):
    generator = generator_of("has no state")
    shapes = fed(generator, monkeypatch)
    generator.generate([1, 2, 3], max_new_tokens=3, prefill_chunk=2)
    assert shapes == [(1, 3), (1, 4), (1, 5)]


def test_a_draft_saves_runs_of_the_model(monkeypatch):
    generator = generator_of("grows")
    shapes = fed(generator, monkeypatch)
    generator.generate([1, 2], max_new_tokens=9, draft=generator_of("is a sum"), draft_tokens=3)
    assert shapes == [(1, 2), (1, 4), (1, 4)]


@pytest.mark.parametrize(
    ("first", "rows", "is_repeated"),
    [([0.0], 3, True), ([0.0, 0.0], 3, True), ([0.0, 1.0], 3, False), ([0.0, 1.0], 2, True)],
)
def test_first_states_are_repeated_where_they_are_equal(first, rows, is_repeated):
    inputs, results, nodes, _ = DECODERS["is a sum"]
    text = f'<ir_version: 10, opset_import: ["": 18]> main ({inputs}) => (float[B,T,{VOCABULARY}] logits, {results}) {{ {CONSTANTS} {nodes} {LOGITS} }}'
    model = ir.from_onnx_text(text)
    write_states(model, [StatePair("cache", "next")])
    generator = Generator(program_of(model, reference_runtime).session(initial={"cache": np.array(first, np.float32)}))
    prompts = [[n] for n in range(rows)]
    if not is_repeated:
        with pytest.raises(OptionError, match="has first values for 2 sequences that differ, but there are 3"):
            generator.generate(prompts, max_new_tokens=1)
        return
    written = generator.generate(prompts, max_new_tokens=1).ids
    assert written == [[(n + 1 + int(first[n % len(first)])) % VOCABULARY] for n in range(rows)]


def test_a_model_of_a_fixed_number_of_sequences_writes_so_many_at_once(monkeypatch):
    inputs, results, nodes, _ = DECODERS["is a sum"]
    text = f'<ir_version: 10, opset_import: ["": 18]> main ({inputs}) => (float[B,T,{VOCABULARY}] logits, {results}) {{ {CONSTANTS} {nodes} {LOGITS} }}'
    model = ir.from_onnx_text(text.replace("B", "2"))
    write_states(model, [StatePair("cache", "next")])
    generator = Generator(program_of(model, reference_runtime).session())
    shapes = fed(generator, monkeypatch)
    prompts = [[1, 2], [3, 4], [5, 6]]
    assert generator.generate(prompts, max_new_tokens=2).ids == [continuation(prompt, 2) for prompt in prompts]
    assert shapes == [(2, 2), (2, 1)] * 2
