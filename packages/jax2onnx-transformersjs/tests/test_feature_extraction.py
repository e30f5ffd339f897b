"""Text encoders, in a folder for transformers.js."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from folder_programs import encode, encoder, interface, run, written_tokenizer
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import OptionError
from jax2onnx_transformersjs import write

IDS = (("B", "T"), np.int32)


def written(folder, tokenizer, program=None, **options):
    write(program or encoder(), folder, "feature-extraction", tokenizer=tokenizer, **options)
    return folder


def feeds(batch=2, length=7):
    """Tokens, of which the last of the second row do not count, and segments."""
    rng = np.random.default_rng(3)
    mask = np.ones((batch, length), np.int64)
    mask[-1, length // 2 :] = 0
    segments = (np.arange(length) > 2).astype(np.int64) * np.ones((batch, 1), np.int64)
    return {"input_ids": rng.integers(0, 11, (batch, length)), "attention_mask": mask, "token_type_ids": segments}


def test_inputs_and_outputs_have_the_names_of_a_text_encoder(tmp_path, tokenizer):
    found = interface(written(tmp_path / "f", tokenizer) / "onnx" / "model.onnx")
    ids = ("tensor(int64)", ["batch_size", "sequence_length"])
    features = ("tensor(float)", ["batch_size", "sequence_length", 8])
    assert found == {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids, "last_hidden_state": features}


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 7), (3, 20)])
def test_features_equal_jax(tmp_path, tokenizer, batch, length):
    given = feeds(batch, length)
    given["attention_mask"][:, 0] = 1
    found = run(written(tmp_path / "f", tokenizer) / "onnx" / "model.onnx", **given)["last_hidden_state"]
    want = encode(*map(jnp.asarray, given.values()))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.float32])
@pytest.mark.parametrize("shape", [("B", "T"), ("B", 1, 1, "T")])
def test_masks_of_several_types_and_shapes_are_made_of_the_attention_mask(tmp_path, tokenizer, dtype, shape):
    program = to_onnx(encode, [IDS, (shape, dtype)])
    given = feeds()
    del given["token_type_ids"]
    found = run(written(tmp_path / "f", tokenizer, program) / "onnx" / "model.onnx", **given)["last_hidden_state"]
    want = encode(*map(jnp.asarray, given.values()))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [("B", "S"), ("A", 1, 1, "T"), ("A", "S")])
def test_a_mask_may_have_symbols_of_its_own(tmp_path, tokenizer, shape):
    program = to_onnx(lambda tokens, mask: encode(tokens) + mask.astype(np.float32).mean(), [IDS, (shape, np.bool_)])
    given = feeds()
    del given["token_type_ids"]
    found = run(written(tmp_path / "f", tokenizer, program) / "onnx" / "model.onnx", **given)["last_hidden_state"]
    want = encode(jnp.asarray(given["input_ids"])) + given["attention_mask"].mean()
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_further_outputs_keep_their_names(tmp_path, tokenizer):
    program = to_onnx(lambda tokens: {"x": encode(tokens), "pooled": encode(tokens).mean(1)}, [IDS])
    found = interface(written(tmp_path / "f", tokenizer, program) / "onnx" / "model.onnx")
    assert found["pooled"] == ("tensor(float)", ["batch_size", 8])


def test_tokens_of_a_fixed_number_and_length_are_taken(tmp_path, tokenizer):
    program = to_onnx(encode, [((2, 2), np.int32)])
    found = interface(written(tmp_path / "f", tokenizer, program) / "onnx" / "model.onnx")
    assert found["input_ids"] == ("tensor(int64)", [2, 2])


def test_roles_tell_inputs_of_one_type_apart(tmp_path, tokenizer):
    program = to_onnx(lambda a, b, c: encode(a, c, b), [IDS, IDS, IDS])
    roles = {"tokens": "a", "segments": "b", "mask": "c"}
    given = feeds()
    found = run(written(tmp_path / "f", tokenizer, program, roles=roles) / "onnx" / "model.onnx", **given)
    want = encode(*map(jnp.asarray, given.values()))
    np.testing.assert_allclose(found["last_hidden_state"], want, rtol=1e-5, atol=1e-5)


def test_the_configuration_tells_features_and_vocabulary(tmp_path, tokenizer):
    config = json.loads((written(tmp_path / "f", tokenizer) / "config.json").read_text())
    assert (config["model_type"], config["hidden_size"], config["vocab_size"]) == ("bert", 8, 11)


def test_a_tokenizer_with_more_tokens_than_the_model_knows_is_refused(tmp_path):
    large = written_tokenizer(tmp_path / "tokenizer.json", 12)
    with pytest.raises(OptionError, match="token 'w11' has the number 11, and the model knows 11 tokens"):
        written(tmp_path / "f", large)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("function", "inputs", "options", "message"),
    [
        (lambda x: x * 2, [("B", "T", 3)], {}, "has no tokens"),
        (lambda tokens: tokens * 2.0, [IDS], {}, "has no features, floats"),
        (lambda a, b: encode(a) + encode(b), [IDS, IDS], {}, "Several inputs could be the tokens: a: int32"),
        (lambda tokens, s: encode(tokens) * s, [IDS, ()], {}, "the input s: float32\\[\\] is none of these"),
        (lambda tokens: encode(tokens).swapaxes(0, 1), [IDS], {}, "has no features, floats \\[batch, length, features\\]"),
        (lambda tokens, mask: encode(tokens) + mask.sum(), [IDS, (("T", "T"), np.bool_)], {}, "the input mask: bool\\[T, T\\] is none for tokens: int32\\[B, T\\]"),
        (lambda tokens, mask: encode(tokens, mask.T), [IDS, (("T", "B"), np.bool_)], {}, "mask: bool\\[T, B\\] is none"),
        (lambda tokens, mask: encode(tokens) + mask.sum(), [IDS, (("B", 7), np.bool_)], {}, "mask: bool\\[B, 7\\] is none"),
        (lambda tokens, mask: encode(tokens) + mask.sum(), [IDS, (("B", 1, 1, "B"), np.bool_)], {}, "the mask in the shape of the tokens"),
        (lambda tokens, mask: encode(tokens) + mask.sum(), [IDS, (("S", "S"), np.bool_)], {}, "mask: bool\\[S, S\\] is none"),
        (lambda tokens, mask: encode(tokens) + mask.sum(), [IDS, (("S", 1, 1, "S"), np.bool_)], {}, "the mask in the shape of the tokens"),
        (lambda tokens, segments: encode(tokens) + segments.sum(), [IDS, (("S", "S"), np.int32)], {}, "segments: int32\\[S, S\\] is none"),
        (lambda tokens: encode(tokens), [(("B", "B"), np.int32)], {}, "The axes batch_size and sequence_length are both B in the model"),
        (lambda tokens: {"a": encode(tokens), "last_hidden_state": encode(tokens) * 0}, [IDS], {"roles": {"features": "a"}}, "Two outputs of the model would be called 'last_hidden_state'"),
        (lambda tokens, segments: encode(tokens) + segments.sum(), [IDS, ((1, "T"), np.int32)], {}, "segments: int32\\[1, T\\] is none"),
        (lambda tokens: encode(tokens), [IDS], {"roles": {"images": "tokens"}}, "has no role 'images'"),
        (lambda tokens: encode(tokens), [IDS], {"roles": {"mask": "tokens", "tokens": "tokens"}}, "cannot have two roles"),
    ],
)  # fmt: skip
def test_a_model_that_is_no_text_encoder_is_refused(tmp_path, tokenizer, function, inputs, options, message):
    with pytest.raises(OptionError, match=message):
        written(tmp_path / "f", tokenizer, to_onnx(function, inputs), **options)
    assert not (tmp_path / "f").exists()
