from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import written_decoders
from jax2onnx_core import to_onnx
from jax2onnx_genai import write
from jax2onnx_graph.errors import OptionError, SaveError
from written_decoders import END, PAD, GenaiStandIn, reference

PROMPTS = [[5, 7, 11, 23], [3], [9, 8, 1]]
TOKENS: dict[str, Any] = {"eos": END, "pad": PAD, "context_length": 64}
ALL = ["grown", "grown_heads_first", "written", "written_without_mask", "written_at_place", "one_token"]
# A decoder that takes no positions of each text, or no mask of each, does not know which tokens are padding.
WITH_PADDING = ["grown", "written"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "folder"


@pytest.fixture(scope="module", params=ALL)
def program(request):
    return vars(written_decoders)[request.param]()


def test_one_text_is_that_of_jax(program, folder):
    write(program, folder, **TOKENS)
    assert GenaiStandIn(folder).texts(PROMPTS[:1], 20) == [reference(PROMPTS[0], 20)]


@pytest.mark.parametrize("name", WITH_PADDING)
def test_texts_of_several_lengths_are_those_of_jax(name, folder):
    write(vars(written_decoders)[name](), folder, **TOKENS)
    assert GenaiStandIn(folder).texts(PROMPTS, 20) == [reference(prompt, 20) for prompt in PROMPTS]


@pytest.mark.parametrize("name", ["grown_heads_first", "written_without_mask", "written_at_place"])
def test_texts_of_several_lengths_are_refused_where_padding_is_not_hidden(name, folder):
    write(vars(written_decoders)[name](), folder, **TOKENS)
    with pytest.raises(RuntimeError, match="prompts_of_different_lengths_need_a_decoder_with_positions_B_T"):
        GenaiStandIn(folder).texts(PROMPTS, 20)


def test_a_decoder_of_one_text_is_not_checked_for_padding(folder):
    write(written_decoders.written_at_place().specialize(B=1), folder, **TOKENS)
    assert "Gather" not in [
        node.op_type for node in onnx.load(folder / "model.onnx").graph.node if "lengths" in node.name
    ]


def test_texts_of_one_length_need_no_mask(folder):
    write(written_decoders.written_without_mask(), folder, **TOKENS)
    prompts = [[5, 7, 11], [9, 8, 1]]
    assert GenaiStandIn(folder).texts(prompts, 20) == [reference(prompt, 20) for prompt in prompts]


@pytest.mark.parametrize("name", WITH_PADDING)
def test_half_precision(name, folder):
    write(vars(written_decoders)[name](), folder, dtype="float16", **TOKENS)
    runtime = GenaiStandIn(folder)
    assert runtime.types["past_key_values.0.key"] == "tensor(float16)"
    assert runtime.texts(PROMPTS, 8) == [reference(prompt, 8) for prompt in PROMPTS]


def operators(folder: Path) -> set[str]:
    return {node.op_type for node in onnx.load(folder / "model.onnx").graph.node}


def test_attention_to_all_places_until_now_is_the_operator_of_the_runtime(folder):
    write(written_decoders.written_at_place(), folder, **TOKENS)
    assert "GroupQueryAttention" in operators(folder)
    assert not {"Attention", "ScatterElements", "TensorScatter"} & operators(folder)
    prompts = [[5, 7, 11], [9, 8, 1]]
    assert GenaiStandIn(folder).texts(prompts, 20) == [reference(prompt, 20) for prompt in prompts]


def test_attention_to_a_window_stays(folder):
    write(written_decoders.written_at_place(window=3), folder, **TOKENS)
    assert "GroupQueryAttention" not in operators(folder)
    assert GenaiStandIn(folder).texts(PROMPTS[:1], 20) == [reference(PROMPTS[0], 20, window=3)]


@pytest.mark.parametrize("changed", [{"ahead": 1}, {"gap": 1}])
def test_attention_to_other_places_stays(folder, changed):
    write(written_decoders.written_at_place(**changed), folder, **TOKENS)
    assert "GroupQueryAttention" not in operators(folder)


def test_attention_that_hides_padding_stays(folder):
    write(written_decoders.written(), folder, **TOKENS)
    assert "GroupQueryAttention" not in operators(folder)


def test_half_precision_of_attention_to_all_places(folder):
    write(written_decoders.written_at_place(), folder, dtype="float16", **TOKENS)
    assert "GroupQueryAttention" not in operators(folder)
    assert GenaiStandIn(folder).texts(PROMPTS[:1], 8) == [reference(PROMPTS[0], 8)]


def test_fewer_bits(folder):
    program = written_decoders.grown()
    write(program, folder, quantize="int4", **TOKENS)
    session = program.quantize("int4").session(sizes={"B": 1})
    tokens, text, past = np.array([PROMPTS[0]], np.int32), [], 0
    for _ in range(8):
        count = tokens.shape[1]
        positions = past + np.arange(count, dtype=np.int32)
        mask = np.arange(past + count) <= positions[:, None]
        logits = session.step(tokens, positions[None], mask[None, None])["logits"]
        past, tokens = past + count, logits[:, -1:].argmax(-1).astype(np.int32)
        text.append(int(tokens[0, 0]))
    assert GenaiStandIn(folder).texts(PROMPTS[:1], 8) == [text]


def test_weights_of_four_bits_and_half_precision(folder):
    write(written_decoders.grown(), folder, quantize="int4", dtype="float16", **TOKENS)
    graph = onnx.load(folder / "model.onnx").graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMulNBits"]
    assert [types[node.input[2]] for node in products] == [onnx.TensorProto.FLOAT16] * 5
    assert GenaiStandIn(folder).types["past_key_values.0.key"] == "tensor(float16)"
    found = GenaiStandIn(folder).texts(PROMPTS[:1], 8)
    write(written_decoders.grown(), folder.with_name("int4"), quantize="int4", **TOKENS)
    assert found == GenaiStandIn(folder.with_name("int4")).texts(PROMPTS[:1], 8)


@pytest.mark.parametrize("name", [*WITH_PADDING, "grown_heads_first", "written_without_mask"])
@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}])
def test_logits_of_the_last_tokens_alone(name, options, folder):
    write(vars(written_decoders)[name](), folder, last_logits=True, **options, **TOKENS)
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == ["B", 1, 40]
    prompts = PROMPTS if name in WITH_PADDING else PROMPTS[:1]
    assert GenaiStandIn(folder).texts(prompts, 8) == [reference(prompt, 8) for prompt in prompts]


TABLE = np.random.default_rng(0).standard_normal((12, 8)).astype(np.float32)
# Logits of hidden states [B, T, 8], and how many operators take the row of the last token alone.
HEADS = {
    "a table of words": lambda x: x @ TABLE.T,
    "a table with a bias": lambda x: x @ TABLE.T + jnp.arange(12.0),
    "limited logits": lambda x: 30 * jnp.tanh((x @ TABLE.T) / 30),
    "a product by itself": lambda x: jnp.einsum("btd,vd->btv", x, TABLE),
    "probabilities": lambda x: jax.nn.log_softmax(x @ TABLE.T),
    "logits of several tokens": lambda x: jnp.cumsum(x @ TABLE.T, axis=1),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_last_token_is_taken_before_what_computes_its_logits(name, folder):
    def step(tokens, keys, values):
        x = jnp.asarray(TABLE)[tokens]
        new = x.reshape(*tokens.shape, 2, 4)
        return HEADS[name](x), jnp.concatenate([keys, new], 1), jnp.concatenate([values, new], 1)

    kept = ("B", "S", 2, 4)
    program = to_onnx(step, [(("B", "T"), "int32"), kept, kept], states={1: 1, 2: 2}, constraints=["S >= 0"])
    write(program, folder, last_logits=True, **{**TOKENS, "eos": 1})
    model = onnx.load(folder / "model.onnx")
    order = [node.op_type for node in model.graph.node]
    if name not in ("probabilities", "logits of several tokens"):
        product = next(op for op in order if op in ("MatMul", "Gemm"))
        assert order.index("GatherND") < order.index(product)
    tokens = np.array([[3, 5, 2], [7, 4, 6]], np.int32)
    mask = np.ones((2, 3), np.int32)
    empty = np.zeros((2, 2, 0, 4), np.float32)
    feeds = {
        "input_ids": tokens,
        "attention_mask": mask,
        "past_key_values.0.key": empty,
        "past_key_values.0.value": empty,
    }
    (found,) = ort.InferenceSession(folder / "model.onnx").run(["logits"], feeds)
    whole = np.asarray(HEADS[name](jnp.asarray(TABLE)[tokens]))
    np.testing.assert_allclose(found, whole[:, 2:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("by_loop", [False, True])
def test_caches_of_all_layers_in_one_array(by_loop, is_written, folder):
    write(written_decoders.stacked(by_loop=by_loop, is_written=is_written), folder, **TOKENS)
    assert GenaiStandIn(folder).model["decoder"]["num_hidden_layers"] == 2
    assert ("Scan" in operators(folder)) == by_loop
    assert ("Split" in operators(folder)) == by_loop
    assert GenaiStandIn(folder).texts(PROMPTS, 20) == [reference(prompt, 20) for prompt in PROMPTS]


@pytest.mark.parametrize("axes", [(0, 1, 2, 3, 4), (1, 0, 2, 3, 4), (2, 0, 1, 3, 4), (1, 2, 0, 3, 4), (2, 1, 0, 3, 4)])
@pytest.mark.parametrize(("batch", "capacity"), [(1, 32), (1, "C"), (2, 32), ("B", 32)])
def test_the_axis_of_the_layers_is_that_of_neither_batch_nor_places(axes, batch, capacity, folder):
    program = written_decoders.stacked(by_loop=False, is_written=True, axes=axes, batch=batch, capacity=capacity)
    write(program, folder, eos=END, pad=PAD, context_length=32)
    prompts = [[5, 7, 11], [9, 8, 1]][: 1 if batch == 1 else 2]
    assert GenaiStandIn(folder).texts(prompts, 12) == [reference(prompt, 12) for prompt in prompts]


def test_a_program_in_fewer_bits_can_be_written_too(folder):
    write(written_decoders.grown().quantize("float16"), folder, **TOKENS)
    assert GenaiStandIn(folder).texts(PROMPTS, 8) == [reference(prompt, 8) for prompt in PROMPTS]


def test_a_program_without_its_function_can_be_written_too(folder):
    write(written_decoders.grown().portable(), folder, **TOKENS)
    assert GenaiStandIn(folder).texts(PROMPTS, 8) == [reference(prompt, 8) for prompt in PROMPTS]


def test_the_program_stays_as_it_is(folder):
    program = written_decoders.written()
    before = program.model_proto.SerializeToString(deterministic=True)
    write(program, folder, **TOKENS)
    assert program.model_proto.SerializeToString(deterministic=True) == before


def test_the_inputs_and_outputs_are_those_of_the_runtime(folder):
    write(written_decoders.written(), folder, **TOKENS)
    graph = onnx.load(folder / "model.onnx").graph
    shapes = {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in [*graph.input, *graph.output]
    }
    caches = {
        f"{place}.{i}.{kind}": ["B", 2, "C", 8]
        for place in ("past_key_values", "present")
        for i in (0, 1)
        for kind in ("key", "value")
    }
    tokens = {"input_ids": ["B", "T"], "attention_mask": ["B", "total"], "position_ids": ["B", "T"]}
    assert shapes == {**tokens, **caches, "logits": ["B", "T", 40]}


def test_the_model_is_valid(program, folder):
    write(program, folder, **TOKENS)
    onnx.checker.check_model(folder / "model.onnx", full_check=True)


@pytest.mark.parametrize("name", ["grown", "grown_heads_first", "written", "written_without_mask"])
def test_caches_are_turned_without_a_copy(name, folder):
    """What is written and what attention reads has the layout of the runtime: only what is new is transposed."""
    write(vars(written_decoders)[name](), folder, **TOKENS)
    graph = onnx.load(folder / "model.onnx").graph
    names = {value.name for value in [*graph.input, *graph.output]}
    copies = [node for node in graph.node if node.op_type == "Transpose" and names & {*node.input, *node.output}]
    assert copies == []


def test_the_configuration(folder):
    write(written_decoders.written(), folder, bos=1, **TOKENS)
    content = json.loads((folder / "genai_config.json").read_text())
    model, search = content["model"], content["search"]
    assert {key: model[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id", "vocab_size", "context_length")} == {
        "bos_token_id": 1, "eos_token_id": END, "pad_token_id": PAD, "vocab_size": 40, "context_length": 64,
    }  # fmt: skip
    decoder = model["decoder"]
    assert (decoder["num_hidden_layers"], decoder["num_key_value_heads"], decoder["head_size"]) == (2, 2, 8)
    assert search == {"max_length": 64, "do_sample": False, "num_beams": 1, "past_present_share_buffer": True}


def test_caches_that_grow_share_no_memory(folder):
    write(written_decoders.grown(), folder, **TOKENS)
    assert GenaiStandIn(folder).search["past_present_share_buffer"] is False


def test_a_decoder_of_one_token_gets_prompts_token_by_token(folder):
    write(written_decoders.one_token(), folder, **TOKENS)
    assert GenaiStandIn(folder).search["chunk_size"] == 1


def test_the_context_is_at_most_the_capacity(folder):
    program = written_decoders.written(capacity=32)
    write(program, folder, eos=END)
    assert GenaiStandIn(folder).model["context_length"] == 32


# The rows of a table of positions for T tokens, from the position of the first of them, and the sizes that it needs.
READS = {
    "taken": lambda table, start, count: jnp.take(table, start + jnp.arange(count), axis=0),
    "indexed": lambda table, start, count: table[jnp.arange(count) + start],
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("is_state", [False, True])
def test_the_context_is_at_most_the_rows_of_a_table_of_positions(read, is_state, folder):
    def step(tokens, start, keys, values):
        x = jnp.asarray(TABLE)[tokens] + READS[read](jnp.asarray(TABLE[:7]), start, tokens.shape[1])
        new = x.reshape(*tokens.shape, 2, 4)
        after = jnp.concatenate([keys, new], 1), jnp.concatenate([values, new], 1)
        return x @ TABLE.T, start + tokens.shape[1], *after

    kept = ("B", "S", 2, 4)
    states = {2: 2, 3: 3, **({1: 1} if is_state else {})}
    program = to_onnx(step, [(("B", "T"), "int32"), ((), "int32"), kept, kept], states=states, constraints=["S >= 0"])
    roles = {"logits": "output_0"} if is_state else {"logits": "output_0", "positions": "start"}
    write(program, folder, eos=1, roles=roles)
    assert GenaiStandIn(folder).model["context_length"] == 7
    with pytest.raises(OptionError, match="context_length is 8, and the model has 7 positions"):
        write(program, folder.with_name("other"), eos=1, roles=roles, context_length=8)


def test_weights_in_a_file_of_their_own(folder):
    files = write(written_decoders.grown(), folder, external_data=True, **TOKENS)
    assert [file.suffix for file in files] == [".json", ".onnx", ".data"]
    assert GenaiStandIn(folder).texts(PROMPTS[:1], 8) == [reference(PROMPTS[0], 8)]


# -- the tokenizer -----------------------------------------------------------------------------------


@pytest.fixture
def tokenizer(tmp_path):
    """The files of a tokenizer of 40 words."""
    place = tmp_path / "tokenizer"
    place.mkdir()
    words = {f"w{i}": i for i in range(38)}
    added = [{"id": 38, "content": "<s>"}, {"id": 39, "content": "</s>"}]
    (place / "tokenizer.json").write_text(
        json.dumps({"model": {"type": "WordLevel", "vocab": words}, "added_tokens": added})
    )
    special = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "w0", "model_max_length": 128}
    (place / "tokenizer_config.json").write_text(json.dumps(special))
    (place / "notes.txt").write_text("no part of it")
    return place


def test_the_files_of_the_tokenizer_are_copied(folder, tokenizer):
    files = write(written_decoders.grown(), folder, tokenizer=tokenizer)
    assert [file.name for file in files] == [
        "genai_config.json",
        "model.onnx",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert (folder / "tokenizer.json").read_bytes() == (tokenizer / "tokenizer.json").read_bytes()


def test_the_tokenizer_says_which_tokens_are_special(folder, tokenizer):
    write(written_decoders.grown(), folder, tokenizer=tokenizer)
    model = GenaiStandIn(folder).model
    assert [model[f"{name}_token_id"] for name in ("bos", "eos", "pad")] == [38, 39, 0]
    assert model["context_length"] == 128


def test_the_configuration_of_a_generation_comes_first(folder, tokenizer):
    (tokenizer / "generation_config.json").write_text(json.dumps({"eos_token_id": [39, 7]}))
    write(written_decoders.grown(), folder, tokenizer=tokenizer)
    assert GenaiStandIn(folder).model["eos_token_id"] == [39, 7]


def test_what_is_given_comes_before_the_files(folder, tokenizer):
    write(written_decoders.grown(), folder, tokenizer=tokenizer, eos=[5, 6], bos=4, pad=3, context_length=16)
    model = GenaiStandIn(folder).model
    assert [model[f"{name}_token_id"] for name in ("bos", "eos", "pad")] == [4, [5, 6], 3]
    assert model["context_length"] == 16


# -- what cannot be written -------------------------------------------------------------------------


def refused(program, folder, match, **options):
    with pytest.raises(OptionError, match=match):
        write(program, folder, **{**TOKENS, **options})
    assert not folder.exists()
    assert not list(folder.parent.glob(".*"))


def test_a_tokenizer_with_more_words_than_logits_is_an_error(folder, tokenizer):
    content = {"model": {"vocab": {f"w{i}": i for i in range(41)}}}
    (tokenizer / "tokenizer.json").write_text(json.dumps(content))
    refused(
        written_decoders.grown(),
        folder,
        "The tokenizer does not fit the model: its token .* has the number 40",
        tokenizer=tokenizer,
    )


def test_a_folder_without_a_tokenizer_is_an_error(folder, tmp_path):
    refused(written_decoders.grown(), folder, "There is no tokenizer", tokenizer=tmp_path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"eos": None}, "give the id of the token that ends a text"),
        ({"eos": 40}, "eos=40 is no id of the 40 tokens"),
        ({"pad": -1}, "pad=-1 is no id"),
        ({"eos": True}, "eos=True is no id"),
        ({"eos": 1.0}, "eos=1.0 is no id"),
        ({"bos": False}, "bos=False is no id"),
        ({"context_length": None}, "context_length: give the most tokens"),
        ({"context_length": 0}, "context_length is a number of tokens, not 0"),
        ({"dtype": "float8"}, "dtype is 'float16'"),
        ({"last_logits": "yes"}, "last_logits"),
        ({"quantize": "int3"}, "There is no mode 'int3'"),
        ({"roles": {"tokens": "none"}}, "tokens = 'none'"),
    ],
)
def test_an_impossible_option_is_an_error(folder, options, match):
    refused(written_decoders.grown(), folder, match, **options)


def test_a_context_longer_than_the_caches_is_an_error(folder):
    refused(
        written_decoders.written(capacity=32),
        folder,
        "context_length is 33, and the model has 32 positions or places in its caches",
        context_length=33,
    )


# Keys [B, 2, C, 4] of a step, by the old ones, those of its tokens, and the place; and the old ones as they are read after that.
UPDATES = {
    "written": (lambda old, new, place: jax.lax.dynamic_update_slice(old, new, (0, 0, place, 0)), None, None),
    "read before": (
        lambda old, new, place: jax.lax.dynamic_update_slice(old, new + jnp.sin(old).sum(), (0, 0, place, 0)), None, None,
    ),
    "read after": (
        lambda old, new, place: jax.lax.dynamic_update_slice(old, new, (0, 0, place, 0)),
        lambda old: jnp.sin(old), "may be written before the old one has been read",
    ),
    "read after by a view": (
        lambda old, new, place: jax.lax.dynamic_update_slice(old, new + old.reshape(-1, 128).sum(), (0, 0, place, 0)),
        lambda old: old.reshape(-1, 128), "may be written before the old one has been read",
    ),
    "made anew": (
        lambda old, new, place: jnp.where(jnp.arange(old.shape[2])[:, None] == place, new[:, :, :1], old), None, "is no update that works in place",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UPDATES)
def test_caches_are_written_into_the_memory_of_the_old_ones(name, folder):
    update, late, message = UPDATES[name]

    def step(tokens, place, keys, values):
        x = jnp.asarray(TABLE)[tokens]
        new = x.reshape(*tokens.shape, 2, 4).swapaxes(1, 2)
        after = update(keys, new, place), jax.lax.dynamic_update_slice(values, new, (0, 0, place, 0))
        if late is not None:
            x = x + (late(keys).reshape(-1, 128) * after[0].reshape(-1, 128)).sum(-1)[:, None, None]
        return {"logits": x @ TABLE.T, "caches": after}

    places = "C" if name == "made anew" else 16
    kept = ("B", 2, places, 4)
    inputs = [(("B", "T"), "int32"), ((), "int32"), kept, kept]
    program = to_onnx(step, inputs, states={"keys": "caches.0", "values": "caches.1"}, constraints=[f"T <= {places}"])
    if message is None:
        write(program, folder, **{**TOKENS, "eos": 1, "context_length": 16})
    else:
        refused(program, folder, message, eos=1, context_length=16)


def test_a_folder_with_files_is_an_error(folder):
    folder.mkdir()
    (folder / "old").write_text("1")
    with pytest.raises(SaveError, match="it exists"):
        write(written_decoders.grown(), folder, **TOKENS)
    assert [file.name for file in folder.iterdir()] == ["old"]


CACHE, TOKEN = ("B", "S", 2, 8), (("B", "T"), "int32")


def test_a_model_without_logits_is_an_error(folder):
    program = to_onnx(lambda tokens, cache: cache, [TOKEN, CACHE], states={1: 0}, constraints=["S >= 0"])
    refused(program, folder, "returns no logits")


def test_a_model_without_caches_is_an_error(folder):
    program = to_onnx(lambda tokens: {"logits": jnp.eye(8)[tokens]}, [TOKEN])
    refused(program, folder, "has no caches")


def test_recurrent_states_are_an_error(folder):
    def step(tokens, state):
        return jnp.eye(8)[tokens], state * 0.5 + tokens.sum()

    refused(
        to_onnx(step, [TOKEN, ("B", 8)], states={1: 1}), folder, r"state: float32\[B, 8\] is no cache of keys or values"
    )


def test_a_state_of_integers_that_counts_no_tokens_is_an_error(folder):
    def step(tokens, seen, keys, values):
        return jnp.eye(8)[tokens], seen * 2 + 1, jnp.concatenate([keys, keys[:, :0]], 1), values

    program = to_onnx(step, [TOKEN, (("B",), "int32"), CACHE, CACHE], states={1: 1, 2: 2, 3: 3}, constraints=["S >= 0"])
    refused(program, folder, "seen: int32.* is no cache of keys or values, and no number that grows")


def test_inputs_of_no_role_are_an_error(folder):
    def step(tokens, temperature, cache):
        new = jnp.concatenate([cache, jnp.ones((tokens.shape[0], tokens.shape[1], 2, 8))], 1)
        return jnp.eye(8)[tokens] / temperature, new

    refused(to_onnx(step, [TOKEN, (), CACHE], states={2: 1}, constraints=["S >= 0"]), folder, "but not temperature")


def test_one_cache_is_an_error(folder):
    def step(tokens, cache):
        return jnp.eye(8)[tokens], jnp.concatenate([cache, jnp.ones((tokens.shape[0], tokens.shape[1], 2, 8))], 1)

    refused(
        to_onnx(step, [TOKEN, CACHE], states={1: 1}, constraints=["S >= 0"]), folder, "are no pairs of keys and values"
    )


def test_caches_that_may_not_be_empty_are_an_error(folder):
    def step(tokens, keys, values):
        new = jnp.ones((tokens.shape[0], tokens.shape[1], 2, 8))
        return jnp.eye(8)[tokens], jnp.concatenate([keys, new], 1), jnp.concatenate([values, new], 1)

    refused(to_onnx(step, [TOKEN, CACHE, CACHE], states={1: 1, 2: 2}), folder, r"constraints=\['S >= 0'\]")


def test_a_decoder_for_several_tokens_only_is_an_error(folder):
    def step(tokens, keys, values):
        new = jnp.ones((tokens.shape[0], tokens.shape[1], 2, 8))
        return jnp.eye(8)[tokens], jnp.concatenate([keys, new], 1), jnp.concatenate([values, new], 1)

    program = to_onnx(step, [TOKEN, CACHE, CACHE], states={1: 1, 2: 2}, constraints=["S >= 0", "T >= 2"])
    refused(program, folder, r"specialize=\{'T': 1\}")


def test_a_decoder_of_a_fixed_number_of_tokens_is_an_error(folder):
    refused(written_decoders.written().specialize(T=4), folder, "are always 4")


def test_a_mask_of_floats_is_an_error(folder):
    def step(tokens, mask, keys, values):
        new = jnp.ones((tokens.shape[0], tokens.shape[1], 2, 8))
        return jnp.eye(8)[tokens] + mask.sum(), jnp.concatenate([keys, new], 1), jnp.concatenate([values, new], 1)

    inputs = [TOKEN, ("B", "T", "S + T"), CACHE, CACHE]
    refused(
        to_onnx(step, inputs, states={2: 1, 3: 2}, constraints=["S >= 0"]),
        folder,
        "may be added to the scores of attention",
    )
