"""Decoders, in a folder for transformers.js: what they take, and what they write when they are run as it does."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from folder_programs import (
    FEATURES,
    HEADS,
    LAYERS,
    PLACES,
    VOCABULARY,
    WIDTH,
    decoder,
    interface,
    weights,
    written_by_folder,
    written_by_jax,
    written_tokenizer,
)
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import StatePair, read_states
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_transformersjs import write

PROMPTS = [[3, 7, 2], [5], [4, 4, 9, 1, 10]]


def written(folder, tokenizer, program=None, **options):
    write(program or decoder(), folder, "text-generation", tokenizer=tokenizer, **options)
    return folder


def model_of(folder):
    return folder / "onnx" / "model.onnx"


def entries(folder, name="config.json"):
    return json.loads((folder / name).read_text())


def test_inputs_and_outputs_are_those_of_transformers_js_own_decoders(tmp_path, tokenizer):
    found = interface(model_of(written(tmp_path / "f", tokenizer)))
    ids = ("tensor(int64)", ["batch_size", "sequence_length"])
    past = ("tensor(float)", ["batch_size", HEADS, "past_sequence_length", FEATURES])
    assert found["input_ids"] == found["position_ids"] == ids
    assert found["attention_mask"][0] == "tensor(int64)"
    assert found["logits"] == ("tensor(float)", ["batch_size", "sequence_length", VOCABULARY])
    pairs = [f"{number}.{half}" for number in range(LAYERS) for half in ("key", "value")]
    assert all(found[f"past_key_values.{pair}"] == past for pair in pairs)
    assert {name for name in found if name.startswith("present")} == {f"present.{pair}" for pair in pairs}


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("masked", [True, False])
def test_the_decoder_writes_what_jax_writes(tmp_path, tokenizer, axis, masked):
    folder = written(tmp_path / "f", tokenizer, decoder(axis=axis, masked=masked))
    for prompt in PROMPTS:
        assert written_by_folder(model_of(folder), [prompt], 12) == [written_by_jax(prompt, 12)]


def test_padded_texts_of_a_batch_are_continued_as_each_alone(tmp_path, tokenizer):
    found = written_by_folder(model_of(written(tmp_path / "f", tokenizer)), PROMPTS, 12)
    assert found == [written_by_jax(prompt, 12) for prompt in PROMPTS]


def test_a_decoder_without_a_mask_takes_one_text(tmp_path, tokenizer):
    found = interface(model_of(written(tmp_path / "f", tokenizer, decoder(masked=False))))
    assert found["input_ids"][1] == [1, "sequence_length"]
    assert found["past_key_values.0.key"][1] == [1, HEADS, "past_sequence_length", FEATURES]


@pytest.mark.parametrize(
    ("positions", "mask"), [(("T",), ("B", 1, "T", "S + T")), ((), ("B", 1, "T", "S + T")), (("B", "T"), (1, 1, "T", "S + T"))]
)  # fmt: skip
def test_a_decoder_that_counts_or_sees_what_pads_texts_takes_one(tmp_path, tokenizer, positions, mask):
    kept = ("B", "S", HEADS, FEATURES)

    def step(tokens, positions, mask, cache):
        places = positions if positions.ndim else positions + jnp.arange(tokens.shape[1])
        x = weights("tokens", VOCABULARY, WIDTH)[tokens] + weights("positions", PLACES, WIDTH)[places]
        split = x.reshape(*tokens.shape, HEADS, FEATURES)
        new = {name: jnp.concatenate([old, split], 1) for name, old in cache.items()}
        y = jax.nn.dot_product_attention(split, new["key"], new["value"], mask=mask).reshape(x.shape)
        return {"logits": y @ weights("tokens", VOCABULARY, WIDTH).T, "cache": new}

    inputs = [(("B", "T"), np.int32), (positions, np.int32), (mask, np.bool_), {"key": kept, "value": kept}]
    program = to_onnx(step, inputs, constraints=["S >= 0"], states={"cache": "cache"})
    found = interface(model_of(written(tmp_path / "f", tokenizer, program)))
    assert found["input_ids"][1] == [1, "sequence_length"]


def test_a_decoder_of_several_texts_without_a_mask_is_refused(tmp_path, tokenizer):
    with pytest.raises(OptionError, match="always takes 3 texts, which are padded to one length"):
        written(tmp_path / "f", tokenizer, decoder(batch=3, masked=False))
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("masked", [True, False])
def test_a_decoder_of_as_many_texts_as_tokens_is_refused(tmp_path, tokenizer, masked):
    with pytest.raises(OptionError, match="batch_size and sequence_length are both T in the model"):
        written(tmp_path / "f", tokenizer, decoder(batch="T", masked=masked))
    assert not (tmp_path / "f").exists()


def fixed(capacity: int | str = PLACES):
    """A decoder of one layer whose caches have a fixed number of places, which may be a symbol."""

    def step(tokens, position, cache):
        count, places = tokens.shape[1], cache["key"].shape[1]
        x = weights("tokens", VOCABULARY, HEADS * FEATURES)[tokens]
        split = x.reshape(*tokens.shape, HEADS, FEATURES)
        new = {name: jax.lax.dynamic_update_slice(old, split, (0, position, 0, 0)) for name, old in cache.items()}
        seen = jnp.arange(places)[None] <= position + jnp.arange(count)[:, None]
        y = jax.nn.dot_product_attention(split, new["key"], new["value"], mask=seen[None, None]).reshape(x.shape)
        return {"logits": (x + y) @ weights("head", HEADS * FEATURES, VOCABULARY), "cache": new}

    kept = (1, capacity, HEADS, FEATURES)
    inputs = [((1, "T"), np.int32), ((), np.int32), {"key": kept, "value": kept}]
    return step, to_onnx(step, inputs, states={"cache": "cache"}, constraints=[f"T <= {capacity}"])


@pytest.mark.parametrize(("capacity", "options"), [(PLACES, {}), ("C", {"context_length": PLACES})])
def test_caches_of_a_fixed_size_are_written_in_place_of_zeros(tmp_path, tokenizer, capacity, options):
    step, program = fixed(capacity)
    folder = written(tmp_path / "f", tokenizer, program, **options)
    assert interface(model_of(folder))["past_key_values.0.key"][1] == [1, HEADS, PLACES, FEATURES]
    start = {name: jnp.zeros((1, PLACES, HEADS, FEATURES)) for name in ("key", "value")}
    want = written_by_jax([3, 7, 2], 12, jax.jit(lambda tokens: step(tokens, 0, start)["logits"]))
    assert written_by_folder(model_of(folder), [[3, 7, 2]], 12) == [want]
    assert entries(folder)["max_position_embeddings"] == PLACES


def test_the_capacity_of_caches_that_leave_it_open_is_asked_for(tmp_path, tokenizer):
    with pytest.raises(OptionError, match="The caches of the decoder have any capacity"):
        written(tmp_path / "f", tokenizer, fixed("C")[1])


def test_the_states_of_the_model_are_its_caches(tmp_path, tokenizer):
    states = read_states(read_model(model_of(written(tmp_path / "f", tokenizer))))
    assert states[1] == StatePair("past_key_values.0.value", "present.0.value", 2)


def test_the_configuration_tells_layers_heads_and_features(tmp_path, tokenizer):
    config = entries(written(tmp_path / "f", tokenizer, special_tokens={"eos": "</s>", "pad": "<pad>"}))
    expected = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": LAYERS, "num_key_value_heads": HEADS,
        "head_dim": FEATURES, "hidden_size": HEADS * FEATURES, "vocab_size": VOCABULARY, "eos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip
    assert {key: config[key] for key in expected} == expected


def test_a_gpt2_has_entries_of_other_names(tmp_path, tokenizer):
    config = entries(written(tmp_path / "f", tokenizer, model_type="gpt2"))
    assert (config["n_layer"], config["n_head"], config["n_embd"]) == (LAYERS, HEADS, HEADS * FEATURES)


def test_generation_is_greedy_and_ends_at_the_token_that_ends_a_text(tmp_path, tokenizer):
    folder = written(tmp_path / "f", tokenizer, special_tokens={"eos": "</s>"})
    assert entries(folder, "generation_config.json") == {"do_sample": False, "eos_token_id": 1}


def configured(tokenizer, **entries):
    """The folder of a tokenizer, with files about its model."""
    for name, content in entries.items():
        (tokenizer.parent / f"{name}.json").write_text(json.dumps(content))
    return tokenizer.parent


def test_all_tokens_that_end_a_text_are_in_the_folder(tmp_path, tokenizer):
    source = configured(tokenizer, generation_config={"eos_token_id": [1, 3], "pad_token_id": 0})
    folder = written(tmp_path / "f", source)
    assert entries(folder, "generation_config.json")["eos_token_id"] == [1, 3]
    assert entries(folder)["eos_token_id"] == [1, 3]


def test_the_context_is_as_long_as_the_configuration_says_where_the_model_does_not(tmp_path, tokenizer):
    program = fixed("C")[1]
    folder = written(tmp_path / "f", configured(tokenizer, config={"max_position_embeddings": 24}), program)
    assert entries(folder)["max_position_embeddings"] == 24


def test_the_context_is_as_long_as_the_table_of_positions(tmp_path, tokenizer):
    assert entries(written(tmp_path / "f", tokenizer))["max_position_embeddings"] == PLACES


def test_the_context_can_be_shorter(tmp_path, tokenizer):
    assert entries(written(tmp_path / "f", tokenizer, context_length=20))["max_position_embeddings"] == 20


def test_a_context_without_tokens_is_refused(tmp_path, tokenizer):
    with pytest.raises(OptionError, match="context_length is a number of tokens, not 0"):
        written(tmp_path / "f", tokenizer, context_length=0)


def test_a_context_longer_than_the_positions_is_refused(tmp_path, tokenizer):
    with pytest.raises(OptionError, match="context_length is 33, and the model has 32 positions or places"):
        written(tmp_path / "f", tokenizer, context_length=33)


@pytest.mark.parametrize("dtype", ["fp16", "q8"])
def test_caches_in_fewer_bits_stay_float32(tmp_path, tokenizer, dtype):
    folder = written(tmp_path / "f", tokenizer, dtypes=[dtype])
    (file,) = (folder / "onnx").iterdir()
    assert interface(file)["past_key_values.0.key"][0] == "tensor(float)"
    assert interface(file)["logits"][0] == "tensor(float)"


def test_a_tokenizer_with_more_tokens_than_logits_is_refused(tmp_path):
    large = written_tokenizer(tmp_path / "tokenizer.json", VOCABULARY + 1)
    with pytest.raises(OptionError, match="The tokenizer does not fit the model"):
        written(tmp_path / "f", large)
    assert not (tmp_path / "f").exists()


def test_a_model_type_whose_decoders_differ_is_refused(tmp_path, tokenizer):
    with pytest.raises(OptionError, match='"llama" does for any of them'):
        written(tmp_path / "f", tokenizer, model_type="gemma3_text")


def one_token():
    kept = (1, "S", HEADS, FEATURES)

    def step(tokens, cache):
        x = weights("tokens", VOCABULARY, HEADS * FEATURES)[tokens].reshape(1, 1, HEADS, FEATURES)
        new = {name: jnp.concatenate([old, x], 1) for name, old in cache.items()}
        y = jax.nn.dot_product_attention(x, new["key"], new["value"]).reshape(1, 1, -1)
        return {"logits": y @ weights("head", HEADS * FEATURES, VOCABULARY), "cache": new}

    inputs = [((1, 1), np.int32), {"key": kept, "value": kept}]
    return to_onnx(step, inputs, constraints=["S >= 0"], states={"cache": "cache"})


def test_a_decoder_that_takes_one_token_at_a_time_is_refused(tmp_path, tokenizer):
    with pytest.raises(OptionError, match="its whole prompt at once, and this one takes one token"):
        written(tmp_path / "f", tokenizer, one_token())


@pytest.mark.parametrize(
    ("function", "inputs", "options", "message"),
    [
        (lambda x: x * 2, [("B", 4)], {}, "takes no tokens"),
        (lambda tokens: tokens + 1, [(("B", "T"), np.int32)], {}, "returns no logits"),
        (lambda tokens: jnp.ones((VOCABULARY, 4))[tokens], [(("B", "T"), np.int32)], {}, "has no caches"),
        (lambda tokens: tokens * 1.0, [(("B", "T"), np.int32)], {"roles": {"images": "x"}}, "there is no role 'images'"),
    ],
)  # fmt: skip
def test_a_model_that_is_no_decoder_is_refused(tmp_path, tokenizer, function, inputs, options, message):
    with pytest.raises(OptionError, match=message):
        written(tmp_path / "f", tokenizer, to_onnx(function, inputs), **options)
    assert not (tmp_path / "f").exists()
