"""Decoders of all forms write what the same loop writes in JAX, token for token."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_generation import Generator, Kind, StateKind, Stop, decoder_metadata, open_decoder
from jax2onnx_generation.decoders.traits import Batching
from jax2onnx_graph.errors import ContextFullError, OptionError, RuntimeInputError
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_runtime.program import program_of
from jax2onnx_runtime.runtimes import reference_runtime

import examples.decoders as d

PARAMS = d.make_params()
PROMPTS = d.prompts(5, 3, 8)
COUNT = 10

GROWING = [(("B", "S", d.HEADS, d.SIZE), "float32")] * (2 * d.LAYERS)
CAPACITY = [(("B", "C", d.HEADS, d.SIZE), "float32")] * (2 * d.LAYERS)
ROW = [((1, "S", d.HEADS, d.SIZE), "float32")] * (2 * d.LAYERS)
TOKENS = d.BATCHED_TOKENS
GROWS: dict[str, Any] = {"constraints": ["S >= 0"]}


def masked(form: str, mask: tuple[Any, str]) -> Any:
    return to_onnx(d.growing_masked(PARAMS, form), [TOKENS, TOKENS, mask, GROWING], states={3: 1}, **GROWS)


#: name → the program, the sizes of a session, and how rows of different lengths are fed.
PROGRAMS: dict[str, tuple[Callable[[], Any], dict[str, int], Batching]] = {
    "growing": (lambda: to_onnx(d.growing(PARAMS), [TOKENS, GROWING], states={1: 1}, **GROWS), {"B": 1}, Batching.EQUAL_LENGTHS),
    "last token only": (
        lambda: to_onnx(d.last_only(PARAMS), [TOKENS, GROWING], states={1: 1}, **GROWS), {"B": 1}, Batching.EQUAL_LENGTHS,
    ),
    "one row": (
        lambda: to_onnx(d.one_row(PARAMS), [(("T",), "int32"), ROW], states={1: 1}, **GROWS), {}, Batching.EQUAL_LENGTHS,
    ),
    "padding mask": (lambda: masked("padding", (("B", "S + T"), "bool")), {"B": 1}, Batching.PADDED),
    "padding mask of integers": (lambda: masked("padding", (("B", "S + T"), "int32")), {"B": 1}, Batching.PADDED),
    "mask of minus infinity": (lambda: masked("infinite", (("B", "S + T"), "bool")), {"B": 1}, Batching.PADDED),
    "added mask": (lambda: masked("added", (("B", 1, "T", "S + T"), "float32")), {"B": 1}, Batching.PADDED),
    "mask of ones": (lambda: masked("ones", (("B", 1, "T", "S + T"), "float32")), {"B": 1}, Batching.PADDED),
    "mask of all rows": (lambda: masked("shared", (("T", "S + T"), "bool")), {"B": 1}, Batching.EQUAL_LENGTHS),
    "positions from the mask": (
        lambda: to_onnx(d.from_mask(PARAMS), [TOKENS, (("B", "S + T"), "int32"), GROWING], states={2: 1}, **GROWS),
        {"B": 1}, Batching.EQUAL_LENGTHS,
    ),
    "capacity": (lambda: to_onnx(d.capacity(PARAMS), [TOKENS, TOKENS, CAPACITY], states={2: 1}), {"B": 1, "C": 4}, Batching.OWN_POSITIONS),
    "capacity with one position": (
        lambda: to_onnx(d.shared_start(PARAMS), [TOKENS, ((), "int32"), CAPACITY], states={2: 1}, constraints=["C >= T"]),
        {"B": 1, "C": 8}, Batching.EQUAL_LENGTHS,
    ),
    "capacity with mask and counter": (
        lambda: to_onnx(
            d.capacity_masked(PARAMS), [TOKENS, TOKENS, (("B", 1, "T", "C"), "bool"), ((), "int32"), CAPACITY],
            states={3: 1, 4: 2}, constraints=["C >= T"],
        ),
        {"B": 1, "C": 4}, Batching.PADDED,
    ),
    "without states": (lambda: to_onnx(functools.partial(d.forward, PARAMS), [TOKENS]), {}, Batching.EQUAL_LENGTHS),
}  # fmt: skip


@functools.cache
def exported(name: str) -> Any:
    return PROGRAMS[name][0]()


#: What the graph and the names do not show.
ROLES = {"added mask": {"bias": "mask"}, "mask of ones": {"mask": "mask"}}


def opened(name: str, **options: Any) -> Generator:
    session = exported(name).session(**{"sizes": PROGRAMS[name][1], "threads": 1, **options})
    return Generator(session, roles=ROLES.get(name))


@functools.cache
def wanted(prompt: tuple[int, ...], count: int = COUNT) -> list[int]:
    return d.reference(PARAMS, list(prompt), count)


def all_wanted(prompts: list[list[int]] = PROMPTS, count: int = COUNT) -> list[list[int]]:
    return [wanted(tuple(prompt), count) for prompt in prompts]


# -- greedy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_greedy_writes_the_tokens_of_the_loop_in_jax(name):
    assert opened(name).generate(PROMPTS, max_new_tokens=COUNT).ids == all_wanted()


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_different_lengths_are_fed_as_the_model_can_express_it(name):
    assert opened(name).decoder.traits.batching is PROGRAMS[name][2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_prompt_is_fed_in_parts(name):
    generator = opened(name)
    assert generator.generate(PROMPTS, max_new_tokens=COUNT, prefill_chunk=3).ids == all_wanted()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_conversation_goes_on(name):
    generator = opened(name)
    first = generator.generate(PROMPTS, max_new_tokens=4).ids
    further = d.prompts(2, 4, 1, seed=1)
    whole = [[*a, *b, *c] for a, b, c in zip(PROMPTS, first, further, strict=True)]
    assert generator.generate(further, max_new_tokens=COUNT).ids == all_wanted(whole)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_that_ended_earlier_go_on_in_the_next_turn(name):
    generator, expected = opened(name), all_wanted()
    stops = [expected[0][3], expected[1][0]]
    first = generator.generate(PROMPTS, max_new_tokens=COUNT, stop=stops)
    assert Stop.TOKEN in first.stops
    whole = [[*a, *b, 5] for a, b in zip(PROMPTS, first.ids, strict=True)]
    assert generator.generate([[5]] * 3, max_new_tokens=4).ids == all_wanted(whole, 4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_forgotten_has_no_effect(name):
    generator = opened(name)
    first = generator.generate(PROMPTS[0], max_new_tokens=COUNT).ids[0]
    generator.rewind(7)
    whole = [*PROMPTS[0], *first[: COUNT - 7], 9, 8]
    assert generator.generate([9, 8], max_new_tokens=6).ids == all_wanted([whole], 6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_after_a_rewind_the_same_is_written_again(name):
    generator = opened(name)
    first = generator.generate(PROMPTS, max_new_tokens=COUNT).ids
    generator.rewind(4)
    assert generator.generate([[], [], []], max_new_tokens=4).ids == [ids[-4:] for ids in first]


def test_rows_are_fed_apart_where_hidden_tokens_are_nan():
    generator = opened("mask of minus infinity")
    generator.generate(PROMPTS, max_new_tokens=1)
    assert generator.decoder.traits.batching is Batching.EQUAL_LENGTHS


# -- windows --------------------------------------------------------------------------------


def test_a_window_with_positions_and_mask_is_that_of_attention():
    generator = opened("mask of all rows", window={"S": 6})
    near = d.windowed(PARAMS, 6)
    assert generator.generate(PROMPTS, max_new_tokens=COUNT).ids == [
        d.reference(PARAMS, p, COUNT, near) for p in PROMPTS
    ]


def test_a_window_without_a_mask_is_that_of_a_loop_that_cuts_its_caches():
    generator = opened("growing", window={"S": 6})
    assert generator.generate(PROMPTS, max_new_tokens=COUNT).ids == [cut_loop(prompt, 6) for prompt in PROMPTS]


def cut_loop(prompt: list[int], window: int) -> list[int]:
    caches, tokens = [jnp.zeros((1, 0, d.HEADS, d.SIZE))] * (2 * d.LAYERS), list(prompt)
    for place in range(len(prompt) + COUNT - 1):
        outputs, caches = d.growing(PARAMS)(jnp.array([[tokens[place]]]), caches)
        caches = [cache[:, -window:] for cache in caches]
        if place + 1 == len(tokens):
            tokens.append(int(outputs["logits"][0, -1].argmax()))
    return tokens[len(prompt) :]


def test_a_rolling_cache_forgets_and_is_run_anew_after_a_rewind():
    caches = [(("B", 7, d.HEADS, d.SIZE), "float32")] * (2 * d.LAYERS)
    program = to_onnx(d.rolling(PARAMS, 7), [(("B", 1), "int32"), ((), "int32"), caches], states={2: 1})
    generator, near = Generator(program.session(sizes={"B": 1}, threads=1)), d.windowed(PARAMS, 6)
    first = generator.generate(PROMPTS[2], max_new_tokens=COUNT).ids[0]
    assert first == d.reference(PARAMS, PROMPTS[2], COUNT, near)
    generator.rewind(5)
    assert generator.generate([3], max_new_tokens=5).ids == [d.reference(PARAMS, [*PROMPTS[2], *first[:5], 3], 5, near)]


# -- what is declared --------------------------------------------------------------------------


@pytest.mark.parametrize("states", [{}, {"caches": StateKind(Kind.CACHE, axis=1)}], ids=["found", "declared"])
def test_caches_are_written_each_row_at_its_own_places(states):
    caches = [(("B", 32, d.HEADS, d.SIZE), "float32")] * (2 * d.LAYERS)
    program = to_onnx(d.capacity(PARAMS), [TOKENS, TOKENS, caches], states={2: 1})
    generator = Generator(program.session(sizes={"B": 1}, threads=1), states=states)
    assert generator.decoder.traits.batching is Batching.OWN_POSITIONS
    assert generator.generate(PROMPTS, max_new_tokens=COUNT).ids == all_wanted()


def test_what_the_export_declares_is_in_the_file(tmp_path):
    declared = decoder_metadata(roles={"bias": "mask"})
    exported("added mask").with_metadata(declared).save(tmp_path / "decoder.onnx")
    assert open_decoder(tmp_path / "decoder.onnx", OrtRuntime()).generate(PROMPTS, max_new_tokens=4).ids == all_wanted(
        count=4
    )


# -- recurrent models, and layers of frameworks -----------------------------------------------


@pytest.mark.parametrize("form", ["tokens", "one token"])
def test_a_recurrent_model_writes_the_tokens_of_the_loop_in_jax(form):
    state = (("B", d.WIDTH), "float32")
    decode, tokens = (d.recurrent, TOKENS) if form == "tokens" else (d.recurrent_step, (("B",), "int32"))
    program = to_onnx(decode(PARAMS), [tokens, state], states={1: 1})
    generator = Generator(program.session(sizes={"B": 1}, threads=1))
    expected = [d.reference(PARAMS, prompt, COUNT, d.recurrent_forward) for prompt in PROMPTS]
    assert generator.generate(PROMPTS, max_new_tokens=COUNT).ids == expected
    generator.rewind(3)
    assert generator.generate([[]] * 3, max_new_tokens=3).ids == [ids[-3:] for ids in expected]


@functools.cache
def nnx_decoder() -> tuple[Any, list[list[int]]]:
    """The program of a decoder with a cache of 24 places, and what it writes in JAX."""
    model = d.NnxDecoder(nnx.Rngs(0), 24)
    expected = [d.reference({}, prompt, COUNT, lambda _, tokens: model(tokens)) for prompt in PROMPTS]
    model.add_cache()
    return to_onnx(model, [((1, 1), "int32")], states=nnx.Cache), expected


def test_attention_of_nnx_with_its_own_cache_writes_the_tokens_of_the_loop_in_jax():
    program, expected = nnx_decoder()
    generator = Generator(program.session(threads=1))
    assert generator.generate(PROMPTS, max_new_tokens=COUNT).ids == expected
    generator.rewind(4)
    assert generator.generate([[]] * 3, max_new_tokens=4).ids == [ids[-4:] for ids in expected]


def test_a_cache_of_a_fixed_size_is_not_written_past_its_end():
    generator = Generator(nnx_decoder()[0].session(threads=1))
    result = generator.generate(PROMPTS[2], max_new_tokens=99)
    assert (len(result.ids[0]), result.stops) == (24 - len(PROMPTS[2]) + 1, [Stop.CONTEXT])
    with pytest.raises(ContextFullError, match="The context is full: the caches have 24 places, but"):
        generator.generate([1, 2, 3])
    generator.rewind(10)
    assert generator.generate([], max_new_tokens=10).ids[0] == result.ids[0][-10:]


def test_attention_of_linen_with_its_own_cache_writes_the_tokens_of_the_loop_in_jax():
    model, decoder = d.LinenDecoder(), d.LinenDecoder(decode=True)
    variables = model.init(jax.random.key(0), jnp.ones((1, 20), int))
    cache = decoder.init(jax.random.key(0), jnp.ones((1, 20), int))["cache"]
    program = to_onnx((decoder, {**variables, "cache": cache}), [((1, 1), "int32")], states="cache")
    expected = [d.reference({}, p, COUNT, lambda _, tokens: model.apply(variables, tokens)) for p in PROMPTS]
    assert Generator(program.session(threads=1)).generate(PROMPTS, max_new_tokens=COUNT).ids == expected


# -- room -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["capacity", "capacity with one position", "capacity with mask and counter"])
def test_a_capacity_doubles_up_to_its_limit(name):
    generator = opened(name, limits={"C": 20})
    result = generator.generate(PROMPTS[2], max_new_tokens=99)
    assert (result.stops, len(result.ids[0])) == ([Stop.CONTEXT], 20 - len(PROMPTS[2]) + 1)
    assert result.ids == all_wanted([PROMPTS[2]], len(result.ids[0]))
    assert generator.session.state["caches.0"].shape[1] == 20


def test_growing_caches_end_at_their_limit():
    generator = opened("growing", limits={"S": 12})
    result = generator.generate(PROMPTS[0], max_new_tokens=99)
    assert (result.stops, len(result.ids[0])) == ([Stop.CONTEXT], 12 - len(PROMPTS[0]) + 1)


@pytest.mark.parametrize(("name", "label"), [("growing", "S"), ("capacity", "C")])
def test_a_prompt_without_room_is_refused_and_the_session_goes_on(name, label):
    generator = opened(name, limits={label: 12})
    first = generator.generate(PROMPTS[0], max_new_tokens=2).ids[0]
    with pytest.raises(ContextFullError, match="The context is full"):
        generator.generate([1] * 20)
    assert generator.generate([4], max_new_tokens=3).ids == all_wanted([[*PROMPTS[0], *first, 4]], 3)


# -- sampling, beams and drafts ------------------------------------------------------------------


def test_sampling_is_reproducible_and_the_same_in_a_batch_and_apart():
    options: dict[str, Any] = {"temperature": 0.8, "top_k": 12, "top_p": 0.95, "seed": 3, "max_new_tokens": COUNT}
    together = opened("padding mask").generate(PROMPTS, **options).ids
    assert together == opened("growing").generate(PROMPTS, **options).ids
    assert together != all_wanted()


def test_sampling_draws_from_the_probabilities_of_jax():
    """The next token after a prompt, drawn by 4000 rows, is as frequent as JAX says."""
    generator, rows = opened("capacity"), 4000
    ids = generator.generate([PROMPTS[0]] * rows, temperature=1.3, seed=0, max_new_tokens=1).ids
    logits = d.forward(PARAMS, jnp.array([PROMPTS[0]]))[0, -1]
    found = np.bincount([row[0] for row in ids], minlength=d.VOCABULARY) / rows
    np.testing.assert_allclose(found, jax.nn.softmax(logits / 1.3), atol=0.03)


def beams_in_jax(prompt: list[int], width: int, penalty: float, stop: int) -> tuple[list[int], float]:
    """A search that computes all logits anew for each continuation."""
    forward = d.jitted(d.forward)
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, COUNT + 1):
        successors = []
        for score, ids in live:
            row = [*prompt, *ids]
            logits = forward(PARAMS, jnp.array([row + [0] * (30 - len(row))]))[0, len(row) - 1]
            logs = np.asarray(jax.nn.log_softmax(logits), np.float64)
            successors += [(score + logs[token], [*ids, token]) for token in range(d.VOCABULARY)]
        best = sorted(successors, key=lambda one: -one[0])[: 2 * width]
        finished += [(s / length**penalty, ids) for s, ids in best[:width] if ids[-1] == stop]
        finished = sorted(finished, key=lambda one: -one[0])[:width]
        live = [one for one in best if one[1][-1] != stop][:width]
        if len(finished) == width and finished[-1][0] >= live[0][0] / length**penalty:
            break
    else:
        finished += [(s / COUNT**penalty, ids) for s, ids in live]
    score, ids = max(finished)
    return [int(token) for token in ids], score


@pytest.mark.parametrize("name", ["growing", "capacity", "padding mask"])
@pytest.mark.parametrize(("width", "penalty"), [(2, 1.0), (4, 0.0), (4, 2.0)])
def test_beams_find_what_the_search_in_jax_finds(name, width, penalty):
    generator = opened(name)
    result = generator.generate(PROMPTS, beams=width, length_penalty=penalty, stop=23, max_new_tokens=COUNT)
    expected = [beams_in_jax(prompt, width, penalty, 23) for prompt in PROMPTS]
    assert result.ids == [ids for ids, _ in expected]
    np.testing.assert_allclose(
        [float(w.score or 0) for w in result.sequences], [float(score) for _, score in expected], rtol=1e-5
    )


@pytest.mark.parametrize("name", ["growing", "capacity", "padding mask", "capacity with mask and counter"])
@pytest.mark.parametrize("draft", ["itself", "another"])
def test_a_draft_changes_nothing_but_the_number_of_runs(name, draft):
    params = (
        PARAMS
        if draft == "itself"
        else {k: v + 0.1 * jax.random.normal(jax.random.key(1), v.shape) for k, v in PARAMS.items()}
    )
    drafting = to_onnx(d.growing(params), [TOKENS, GROWING], states={1: 1}, **GROWS)
    small, generator = Generator(drafting.session(sizes={"B": 1}, threads=1)), opened(name)
    result = generator.generate(PROMPTS, max_new_tokens=COUNT, draft=small, draft_tokens=3)
    assert result.ids == all_wanted()
    assert 0 < result.accept_rate <= 1 if draft == "another" else result.accept_rate == 1
    whole = [[*prompt, *ids, 7] for prompt, ids in zip(PROMPTS, result.ids, strict=True)]
    assert generator.generate([[7]] * 3, max_new_tokens=3, draft=small).ids == all_wanted(whole, 3)


def test_a_recurrent_model_goes_back_to_what_it_was_before_wrong_drafts():
    state = (("B", d.WIDTH), "float32")
    program = to_onnx(d.recurrent(PARAMS), [TOKENS, state], states={1: 1})
    small = opened("growing")
    large = Generator(program.session(sizes={"B": 1}, threads=1))
    result = large.generate(PROMPTS, max_new_tokens=COUNT, draft=small)
    assert result.ids == [d.reference(PARAMS, prompt, COUNT, d.recurrent_forward) for prompt in PROMPTS]
    assert result.accept_rate < 0.9


def test_the_repetition_penalty_counts_drafted_tokens():
    options: dict[str, Any] = {"max_new_tokens": COUNT, "repetition_penalty": 1.7}
    expected = opened("growing").generate(PROMPTS, **options).ids
    assert expected != all_wanted()
    assert opened("growing").generate(PROMPTS, draft=opened("padding mask"), **options).ids == expected


@pytest.mark.parametrize("name", ["last token only", "one row"])
def test_what_the_model_does_not_offer_is_refused(name):
    options: dict[str, Any] = {"draft": opened("growing")} if name == "last token only" else {"beams": 2}
    message = "it has to look at several" if name == "last token only" else "beams are further ones"
    with pytest.raises(OptionError, match=message):
        opened(name).generate(PROMPTS[0], **options)


# -- texts ------------------------------------------------------------------------------------


class Letters:
    """A tokenizer of the letters from "A" on, and of a bracket that begins a text."""

    def encode(self, sequence: str, *, add_special_tokens: bool = True) -> SimpleNamespace:
        return SimpleNamespace(ids=[*([1] if add_special_tokens else []), *(ord(c) - ord("A") for c in sequence)])

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return "".join(chr(ord("A") + token) for token in ids)

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        return d.VOCABULARY


TEXTS = ["KLM", "Z"]


def letters_after(texts: list[str], count: int = COUNT) -> list[str]:
    return [Letters().decode(ids) for ids in all_wanted([Letters().encode(text).ids for text in texts], count)]


def test_texts_are_written_after_texts():
    found = opened("padding mask").generate(TEXTS, tokenizer=Letters(), max_new_tokens=COUNT)
    assert found.texts == letters_after(TEXTS)


def test_a_stop_text_is_no_part_of_the_text():
    text = letters_after(TEXTS)[0]
    found = opened("growing").generate(TEXTS[0], tokenizer=Letters(), stop=text[3:5], max_new_tokens=COUNT)
    assert (found.text, found.stops) == (text[: text.index(text[3:5])], [Stop.TEXT])
    assert found.ids[0] == Letters().encode(text[: text.index(text[3:5]) + 2], add_special_tokens=False).ids


def test_pieces_are_held_back_while_a_stop_text_may_have_begun():
    text = letters_after(TEXTS)[0]
    stream = opened("growing").stream(TEXTS[0], tokenizer=Letters(), stop=text[1] + "~", max_new_tokens=COUNT)
    assert [piece.text for piece in stream][:3] == [text[0], "", text[1:3]]


def test_a_text_of_the_next_turn_begins_no_new_text():
    generator = opened("growing")
    first = generator.generate(TEXTS[0], tokenizer=Letters(), max_new_tokens=3).ids[0]
    whole = [*Letters().encode(TEXTS[0]).ids, *first, *Letters().encode(TEXTS[1], add_special_tokens=False).ids]
    assert generator.generate(TEXTS[1], tokenizer=Letters(), max_new_tokens=4).ids == all_wanted([whole], 4)


# -- the session ------------------------------------------------------------------------------


def test_pieces_come_as_they_are_written():
    generator = opened("growing")
    stream = generator.stream(PROMPTS[0], max_new_tokens=COUNT)
    assert [next(stream).token for _ in range(3)] == wanted(tuple(PROMPTS[0]))[:3]
    assert stream.result.ids == all_wanted([PROMPTS[0]])


def test_what_was_written_of_a_stream_that_is_left_is_in_the_conversation():
    generator = opened("growing")
    stream = generator.stream(PROMPTS[0], max_new_tokens=COUNT)
    first = [next(stream).token for _ in range(3)]
    assert generator.generate([6], max_new_tokens=4).ids == all_wanted([[*PROMPTS[0], *first, 6]], 4)
    with pytest.raises(RuntimeInputError, match="this stream cannot go on"):
        next(stream)


def test_a_session_that_was_reset_begins_anew():
    generator = opened("capacity")
    generator.generate(PROMPTS, max_new_tokens=3)
    generator.reset()
    assert generator.generate(PROMPTS[1], max_new_tokens=COUNT).ids == all_wanted([PROMPTS[1]])


def test_states_that_were_changed_by_hand_are_refused():
    generator = opened("growing")
    generator.generate(PROMPTS[0], max_new_tokens=3)
    generator.session.step(np.ones((1, 1), np.int32))
    with pytest.raises(RuntimeInputError, match="it is not known of which tokens they are"):
        generator.generate([1])


def test_a_capacity_that_was_enlarged_by_hand_is_taken():
    generator = opened("capacity")
    first = generator.generate(PROMPTS[0], max_new_tokens=3).ids[0]
    generator.session.resize(C=40)
    assert generator.generate([2], max_new_tokens=4).ids == all_wanted([[*PROMPTS[0], *first, 2]], 4)
    assert generator.session.state["caches.0"].shape[1] == 40


def test_the_saved_states_are_those_of_the_tokens():
    generator = opened("growing")
    generator.generate(PROMPTS[0], max_new_tokens=3)
    assert generator.session.state["caches.0"].shape == (1, len(PROMPTS[0]) + 2, d.HEADS, d.SIZE)
    generator.rewind(4)
    assert generator.session.state["caches.0"].shape == (1, len(PROMPTS[0]) - 1, d.HEADS, d.SIZE)


def test_a_program_without_its_function_writes_the_same():
    generator = Generator(exported("padding mask").portable().session(sizes={"B": 1}, threads=1))
    assert generator.generate(PROMPTS, max_new_tokens=COUNT).ids == all_wanted()


@pytest.mark.parametrize("name", ["growing", "capacity", "capacity with mask and counter"])
def test_a_decoder_in_a_file_writes_the_same(name, tmp_path):
    exported(name).save(tmp_path / "decoder.onnx")
    generator = open_decoder(tmp_path / "decoder.onnx", OrtRuntime())
    assert generator.generate(PROMPTS, max_new_tokens=COUNT).ids == all_wanted()


def test_the_reference_runtime_writes_the_same():
    session = program_of(exported("growing").model, reference_runtime).session(sizes={"B": 1})
    assert Generator(session).generate(PROMPTS[0], max_new_tokens=4).ids == all_wanted([PROMPTS[0]], 4)


REFUSED: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "The model takes 4 tokens in each run": (lambda: exported("growing").specialize(T=4), {"sizes": {"B": 1}}),
    "was fixed to 5 entries": (lambda: exported("growing").specialize(T=1, S=5), {"sizes": {"B": 1}, "window": {"S": 5}}),
    "The model takes 'scale', float32": (
        lambda: to_onnx(lambda tokens, scale: jax.nn.one_hot(tokens, 7) * scale, [TOKENS, ((), "float32")]), {},
    ),
    "The positions 'positions' are int32": (
        lambda: to_onnx(lambda tokens, positions: jax.nn.one_hot(tokens, 7) * positions.sum(), [TOKENS, (("P",), "int32")]), {},
    ),
    "The mask 'mask' is float32": (
        lambda: to_onnx(lambda tokens, mask: jax.nn.one_hot(tokens, 7) * mask[..., None], [TOKENS, (("B", "T"), "float32")]), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_forms_that_decoders_do_not_have_are_refused(message):
    program, options = REFUSED[message]
    with pytest.raises(OptionError, match=message):
        Generator(program().session(**options)).generate([1, 2])


def test_further_inputs_are_given_and_may_change():
    program = to_onnx(lambda tokens, scale: -jax.nn.one_hot(tokens, 7) * scale, [TOKENS, ((), "float32")])
    generator = Generator(program.session())
    assert generator.generate([3], max_new_tokens=1, inputs={"scale": np.array(1, np.float32)}).ids == [[0]]
    assert generator.generate([5], max_new_tokens=1, inputs={"scale": np.array(-1, np.float32)}).ids == [[5]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [({"size": np.array(1)}, "there is no further input 'size'"), ({"scale": np.array(1)}, "'scale' is float32")],
)
def test_further_inputs_that_do_not_fit_are_refused(inputs, message):
    program = to_onnx(lambda tokens, scale: jax.nn.one_hot(tokens, 7) * scale, [TOKENS, ((), "float32")])
    given = {"scale": np.array(1, np.float32), **inputs}
    with pytest.raises(OptionError, match=message):
        Generator(program.session()).generate([3], max_new_tokens=1, inputs=given)


def test_a_model_of_fewer_bits_writes():
    generator = Generator(exported("growing").quantize("int8").session(sizes={"B": 1}, threads=1))
    assert len(generator.generate(PROMPTS[0], max_new_tokens=4).ids[0]) == 4
