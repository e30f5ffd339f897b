"""A decoder with a cache, which writes: the prompt in one run, then a token in each."""

import jax
import jax.numpy as jnp
from jax2onnx_core import to_onnx
from jax2onnx_generation import Generator

SIZE, WIDTH = 64, 32
keys = jax.random.split(jax.random.key(0), 4)
embed = jax.random.normal(keys[0], (SIZE, WIDTH))
query, key, head = (jax.random.normal(k, (WIDTH, n)) / 6 for k, n in zip(keys[1:], (WIDTH, WIDTH, SIZE), strict=True))


def decode(tokens, positions, mask, keys, values):
    x = embed[tokens] + jnp.sin(positions[..., None] * jnp.arange(1, WIDTH + 1))
    keys = jnp.concatenate([keys, x @ key], axis=1)
    values = jnp.concatenate([values, x], axis=1)
    causal = jnp.tril(jnp.ones((x.shape[1], keys.shape[1]), bool), keys.shape[1] - x.shape[1])
    scores = jnp.where(causal & mask[:, None], x @ query @ keys.swapaxes(1, 2), -1e9)
    return {"logits": (x + jax.nn.softmax(scores) @ values) @ head, "keys": keys, "values": values}


tokens = ("batch", "new"), "int32"
cache = ("batch", "past", WIDTH)
program = to_onnx(
    decode, [tokens, tokens, (("batch", "past + new"), "bool"), cache, cache],
    constraints=["past >= 0"], states={"keys": "keys", "values": "values"},
)  # fmt: skip
print(program)
prompt = [5, 17, 2]
written = Generator(program.session(sizes={"batch": 1})).generate(prompt, max_new_tokens=8).ids[0]

# The same in JAX, without a cache.
expected = list(prompt)
for _ in range(8):
    count = len(expected)
    places, empty = jnp.arange(count)[None], jnp.zeros((1, 0, WIDTH))
    logits = decode(jnp.array([expected]), places, jnp.ones((1, count), bool), empty, empty)["logits"]
    expected.append(int(logits[0, -1].argmax()))
print("written:", written, "as in JAX:", list(written) == expected[3:])
