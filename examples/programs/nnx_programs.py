"""Programs with Flax NNX: its layers, and models as its guides build them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

from examples.programs import program

TOKENS = (("B", "T"), np.int32)


def rngs() -> nnx.Rngs:
    return nnx.Rngs(0)


class Mlp(nnx.Module):
    def __init__(self, din: int, dmid: int, dout: int, *, rngs: nnx.Rngs) -> None:
        self.linear1 = nnx.Linear(din, dmid, rngs=rngs)
        self.bn = nnx.BatchNorm(dmid, use_running_average=True, rngs=rngs)
        self.linear2 = nnx.Linear(dmid, dout, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.linear2(nnx.gelu(self.bn(self.linear1(x))))


class Cnn(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, 8, kernel_size=(3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(8, 16, kernel_size=(3, 3), strides=2, rngs=rngs)
        self.linear = nnx.Linear(16 * 4, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.avg_pool(nnx.relu(self.conv1(x)), window_shape=(2, 2), strides=(2, 2))
        x = nnx.relu(self.conv2(x))
        return self.linear(x.reshape(x.shape[0], -1))


class Block(nnx.Module):
    def __init__(self, width: int, *, rngs: nnx.Rngs, causal: bool = False) -> None:
        self.norm1, self.norm2 = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=2, in_features=width, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(width, 2 * width, rngs=rngs), nnx.Linear(2 * width, width, rngs=rngs)
        self.causal = causal

    def __call__(self, x: jax.Array) -> jax.Array:
        mask = nnx.make_causal_mask(x[..., 0]) if self.causal else None
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Gpt(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.tokens, self.positions = nnx.Embed(10, 16, rngs=rngs), nnx.Embed(32, 16, rngs=rngs)
        self.blocks = nnx.List([Block(16, rngs=rngs, causal=True) for _ in range(2)])
        self.norm = nnx.LayerNorm(16, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))


@program(("B", 4))
def linear():
    return nnx.Linear(4, 3, rngs=rngs())


@program(("B", "T", 4))
def linear_without_bias():
    return nnx.Linear(4, 3, use_bias=False, rngs=rngs())


@program(("B", "T", 4))
def linear_of_two_axes():
    return nnx.LinearGeneral((4,), (2, 3), rngs=rngs())


@program(("B", "T", 4))
def einsum():
    return nnx.Einsum("btd,dhk->bthk", (4, 2, 3), (2, 3), rngs=rngs())


@program(("B", 8, 8, 3))
def convolution():
    return nnx.Conv(3, 4, kernel_size=(3, 3), rngs=rngs())


@program(("B", 8, 8, 4))
def grouped_and_dilated_convolution():
    return nnx.Conv(4, 8, kernel_size=(3, 3), feature_group_count=2, kernel_dilation=2, padding="SAME", rngs=rngs())


@program(("B", 5, 4))
def causal_convolution():
    return nnx.Conv(4, 4, kernel_size=(3,), padding="CAUSAL", rngs=rngs())


@program(("B", 4, 4, 3))
def transposed_convolution():
    return nnx.ConvTranspose(3, 4, kernel_size=(3, 3), strides=(2, 2), rngs=rngs())


@program(TOKENS)
def embedding():
    return nnx.Embed(10, 4, rngs=rngs())


@program(("B", "T", 8))
def layer_norm():
    return nnx.LayerNorm(8, rngs=rngs())


@program(("B", "T", 8))
def rms_norm():
    return nnx.RMSNorm(8, rngs=rngs())


@program(("B", 4, 4, 8))
def group_norm():
    return nnx.GroupNorm(8, num_groups=2, rngs=rngs())


@program(("B", 4, 4, 8))
def instance_norm():
    return nnx.InstanceNorm(8, rngs=rngs())


@program(("B", 8))
def batch_norm():
    return nnx.BatchNorm(8, use_running_average=True, rngs=rngs())


@program(("B", 8))
def batch_norm_in_training():
    model = nnx.BatchNorm(8, use_running_average=False, rngs=rngs())
    graphdef, state = nnx.split(model)

    def apply(x: jax.Array) -> tuple[jax.Array, Any]:
        own = nnx.merge(graphdef, state, copy=True)
        y = own(x)
        return y, own.mean[...]

    return apply


@program(("B", 4))
def weight_normalised_linear():
    return nnx.WeightNorm(nnx.Linear(4, 3, rngs=rngs()), rngs=rngs())


@program(("B", 8))
def dropout_in_evaluation():
    return nnx.Dropout(0.5, deterministic=True)


@program(("B", 4))
def mlp():
    return Mlp(4, 8, 2, rngs=rngs())


@program(("B", 8, 8, 1))
def cnn():
    return Cnn(rngs=rngs())


@program(("B", "T", 16))
def attention():
    return nnx.MultiHeadAttention(num_heads=2, in_features=16, decode=False, rngs=rngs())


@program(("B", "T", 16), ("B", "N", 16))
def cross_attention():
    model = nnx.MultiHeadAttention(num_heads=2, in_features=16, decode=False, rngs=rngs())
    return lambda x, y: model(x, y)


@program(("B", "T", 16))
def transformer_block():
    return Block(16, rngs=rngs())


@program(TOKENS)
def gpt():
    return Gpt(rngs=rngs())


@program(("B", 8, 8, 3))
def vision_transformer():
    patches, block = nnx.Conv(3, 16, (4, 4), strides=(4, 4), rngs=rngs()), Block(16, rngs=rngs())
    head = nnx.Linear(16, 5, rngs=rngs())

    def apply(x: jax.Array) -> jax.Array:
        x = patches(x)
        return head(block(x.reshape(x.shape[0], -1, 16)).mean(1))

    return apply


@program(("B", "T", 3))
def lstm():
    return nnx.RNN(nnx.LSTMCell(3, 4, rngs=rngs()))


@program(("B", "T", 3))
def optimised_lstm():
    return nnx.RNN(nnx.OptimizedLSTMCell(3, 4, rngs=rngs()))


@program(("B", "T", 3))
def gru():
    return nnx.RNN(nnx.GRUCell(3, 4, rngs=rngs()))


@program(("B", "T", 3))
def simple_recurrence_backwards():
    return nnx.RNN(nnx.SimpleCell(3, 4, rngs=rngs()), reverse=True, keep_order=True)


@program(("B", "T", 3))
def bidirectional_gru():
    return nnx.Bidirectional(nnx.RNN(nnx.GRUCell(3, 4, rngs=rngs())), nnx.RNN(nnx.GRUCell(3, 4, rngs=rngs())))


@program(("B", "T", 3), (("B",), np.int32))
def lstm_over_sequences_of_their_own_lengths():
    model = nnx.RNN(nnx.LSTMCell(3, 4, rngs=rngs()))
    return lambda x, lengths: model(x, seq_lengths=1 + lengths % x.shape[1])


@program(("B", 4))
def low_rank_linear():
    return nnx.LoRALinear(4, 3, lora_rank=2, rngs=rngs())


@program(("B", 4))
def sequential():
    return nnx.Sequential(nnx.Linear(4, 8, rngs=rngs()), nnx.relu, nnx.Linear(8, 2, rngs=rngs()), nnx.softmax)


@program(("B", 4))
def auto_encoder():
    encode, decode = nnx.Linear(4, 2, rngs=rngs()), nnx.Linear(2, 4, rngs=rngs())
    return lambda x: nnx.sigmoid(decode(nnx.tanh(encode(x))))


@program(("B", 4))
def layers_scanned_by_vmap_and_scan():
    @nnx.vmap(in_axes=0, out_axes=0)
    def create(key: jax.Array) -> nnx.Linear:
        return nnx.Linear(4, 4, rngs=nnx.Rngs(key))

    layers = create(jax.random.split(jax.random.key(0), 3))

    @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    def forward(layer: nnx.Linear, x: jax.Array) -> jax.Array:
        return nnx.relu(layer(x))

    return lambda x: forward(layers, x)


@program(("B", 4), (("B",), np.int32))
def loss_and_gradients():
    graphdef, params = nnx.split(nnx.Linear(4, 10, rngs=rngs()))

    def loss(params: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        logits = nnx.log_softmax(nnx.merge(graphdef, params)(x))
        return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

    return lambda x, labels: jax.tree.leaves(jax.value_and_grad(loss)(params, x, labels))


@program(("B", 4))
def ensemble_of_models_by_vmap():
    keys = jax.random.split(jax.random.key(1), 3)
    weights = jax.vmap(lambda key: nnx.Linear(4, 2, rngs=nnx.Rngs(key)).kernel[...])(keys)
    return lambda x: jax.vmap(lambda w: x @ w)(weights).mean(0)


@program(("B", "T", 8))
def gated_linear_unit():
    dense = nnx.Linear(8, 16, rngs=rngs())
    return lambda x: nnx.glu(dense(x))


@program(("B", "T", 8))
def swiglu():
    gate, up, down = (nnx.Linear(a, b, use_bias=False, rngs=rngs()) for a, b in ((8, 16), (8, 16), (16, 8)))
    return lambda x: down(nnx.silu(gate(x)) * up(x))


@program(("B", 8, 8, 4))
def residual_block():
    convolutions = [nnx.Conv(4, 4, (3, 3), use_bias=False, rngs=rngs()) for _ in range(2)]
    norms = [nnx.BatchNorm(4, use_running_average=True, rngs=rngs()) for _ in range(2)]

    def apply(x: jax.Array) -> jax.Array:
        y = nnx.relu(norms[0](convolutions[0](x)))
        return nnx.relu(x + norms[1](convolutions[1](y)))

    return apply


@program(("B", 8, 8, 4))
def squeeze_and_excite():
    down, up = nnx.Linear(4, 2, rngs=rngs()), nnx.Linear(2, 4, rngs=rngs())
    return lambda x: x * nnx.sigmoid(up(nnx.relu(down(x.mean((1, 2), keepdims=True)))))


@program(("B", 8, 8, 4))
def pooling():
    return lambda x: (
        nnx.max_pool(x, (2, 2), (2, 2)),
        nnx.avg_pool(x, (3, 3), (1, 1), padding="SAME"),
        nnx.min_pool(x, (2, 2)),
    )


@program(("B", 10))
def activations():
    functions = (
        nnx.relu,
        nnx.gelu,
        nnx.silu,
        nnx.elu,
        nnx.selu,
        nnx.celu,
        nnx.leaky_relu,
        nnx.softplus,
        nnx.soft_sign,
        nnx.hard_swish,
        nnx.hard_sigmoid,
        nnx.hard_tanh,
        nnx.log_sigmoid,
        nnx.relu6,
    )
    return lambda x: [f(x) for f in functions]


@program(("B", 4), "key")
def noise_from_a_given_key():
    dense = nnx.Linear(4, 4, rngs=rngs())
    return lambda x, key: dense(x) + jax.random.normal(nnx.Rngs(noise=key).noise(), (4,))


@program(("B", 6))
def variational_auto_encoder():
    encode, decode = nnx.Linear(6, 4, rngs=rngs()), nnx.Linear(2, 6, rngs=rngs())

    def apply(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean, log_std = jnp.split(encode(x), 2, -1)
        z = mean + jnp.exp(log_std) * jax.random.normal(jax.random.key(2), mean.shape)
        return decode(z), 0.5 * (mean**2 + jnp.exp(2 * log_std) - 1 - 2 * log_std).sum(-1)

    return apply


@program(TOKENS)
def greedy_decoding_by_a_scan():
    model = nnx.Sequential(nnx.Embed(10, 8, rngs=rngs()), nnx.Linear(8, 10, rngs=rngs()))

    def generate(tokens: jax.Array) -> jax.Array:
        def step(last: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            following = model(last).argmax(-1).astype(jnp.int32)
            return following, following

        return lax.scan(step, tokens[:, -1], None, length=3)[1]

    return generate
