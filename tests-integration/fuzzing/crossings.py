"""Crossings: what goes wrong only where two things meet, each with each.

A crossing is a `Formula` that is right as it stands, with two or three points: `crossed` has all combinations of their texts.
Calls of every function in control flow are variants of the calls in `examples/surface`.
"""

from __future__ import annotations

import itertools

from fuzzing.formulas import Formula, Mutant, Situation, Size

__all__ = ["FORMULAS", "crossed"]

_CUMULATIVE = """
    def cumulative(t):
        return {cumulative:lax.cumsum(t, 1)|lax.cumsum(t, 1, reverse=True)|lax.cumprod(t, 1)|lax.cumprod(t, 1, reverse=True)|lax.cummax(t, 1)|lax.cummax(t, 1, reverse=True)|lax.cummin(t, 1)|lax.cumlogsumexp(t, 1)|lax.cumlogsumexp(t, 1, reverse=True)|lax.associative_scan(jnp.add, t, axis=1)|lax.associative_scan(jnp.multiply, t, axis=1, reverse=True)|lax.associative_scan(jnp.maximum, t, axis=1)|lax.scan(lambda c, r: (c * r,) * 2, jnp.ones_like(t[:, 0]), t.T)[1].T|lax.scan(lambda c, r: (0.9 * c + r, c), jnp.zeros_like(t[:, 0]), t.T, reverse=True)[1].T|jnp.cumsum(jnp.where(t > 1, t, 0), 1)|jnp.cumprod(t * t, 1)}
    def weighted(t):
        return jnp.sum(cumulative(t) * jnp.cos(jnp.arange(t.size, dtype=t.dtype)).reshape(t.shape))
    x = 1 + nn.tanh(x) / 16
    return {derivative:cumulative(x)|jax.grad(weighted)(x)|jax.jvp(cumulative, (x,), (jnp.sin(x),))[1]|jax.vjp(cumulative, x)[1](jnp.sin(x))[0]|jax.linearize(cumulative, x)[1](x)|jax.vmap(jax.grad(lambda r: weighted(r[None])))(x)|jax.jvp(jax.grad(weighted), (x,), (jnp.sin(x),))[1]|jax.grad(jax.checkpoint(weighted))(x)|jax.value_and_grad(weighted)(x)|lax.scan(lambda c, r: (c, jax.grad(weighted)(r[None])), 0, x)[1]|jax.vmap(cumulative)(jnp.stack([x, -x]))|lax.map(lambda r: cumulative(r[None]), x)}
"""

_COUNTERS = """
    n = x.shape[0]
    def read(i):
        return {read:x[i]|x[n - 1 - i]|x[i // 2]|x[(i + 1) % n]|x[-i]|x[i - 1]|x[i + i]|lax.dynamic_slice_in_dim(x, i, 2)[1]|lax.dynamic_slice_in_dim(x, n - 2 - i, 2)[0]|lax.dynamic_index_in_dim(x, 3 * i, keepdims=False)|x.at[i + 2].get(mode='fill', fill_value=-1)|x.at[2 * i].get(mode='clip')|jnp.where(jnp.arange(n)[:, None] <= i, x, 0).sum(0)|x[i] * i|x[x.argmax(0)[0] * i]|lax.cond(i > n // 2, lambda: x[i], lambda: x[0])}
    zero = jnp.zeros_like(x[0])
    return {count:lax.fori_loop(0, n, lambda i, c: 0.5 * c + read(i), zero)|lax.fori_loop(1, n, lambda i, c: 0.5 * c + read(i), zero)|lax.fori_loop(0, n // 2, lambda i, c: 0.5 * c + read(i), zero)|lax.fori_loop(0, n - 1, lambda i, c: c.at[i].set(read(i)), x)|lax.fori_loop(0, n, lambda i, c: c.at[n - 1 - i].add(read(i)), x)|lax.fori_loop(0, n, lambda i, c: lax.dynamic_update_slice_in_dim(c, read(i)[None], i, 0), x)|lax.scan(lambda c, i: (c + read(i), c), zero, jnp.arange(n))|lax.scan(lambda c, i: (c + 1, read(c) + i), 0, jnp.arange(n))[1]|lax.scan(lambda c, r: (c + 1, read(c) * r), 0, x, reverse=True)|lax.scan(lambda c, r: (c - 1, read(c) + r), n - 1, x)|lax.map(read, jnp.arange(n))|lax.map(read, jnp.arange(n)[::-1])|jax.vmap(read)(jnp.arange(n))|lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, 0.5 * s[1] + read(s[0])), (0, zero))|lax.while_loop(lambda s: s[0] + 2 <= n, lambda s: (s[0] + 2, s[1] + read(s[0])), (0, zero))|lax.fori_loop(0, n, lambda i, c: lax.fori_loop(0, i, lambda j, d: 0.5 * d + read(j), c), zero)|jax.grad(lambda t: lax.scan(lambda c, i: (c * 0.5 + jnp.sum(jnp.tanh(t) * read(i)), c), jnp.zeros((), t.dtype), jnp.arange(n))[0])(x[0])|lax.scan(lambda c, i: (c, lax.fori_loop(0, 3, lambda j, d: d + read(i), zero)), 0, jnp.arange(n))[1]}
"""

#: Narrow types are stored, and computed with in a wider one; JAX itself has no arithmetic of the narrowest.
_NARROW = """
    def q(t):
        return jnp.clip(t, -6, 6).astype({dtype:jnp.bfloat16|jnp.float16|jnp.float8_e4m3fn|jnp.float8_e5m2|jnp.float8_e4m3fnuz|jnp.float8_e5m2fnuz|jnp.int4|jnp.uint4|jnp.int8|jnp.bool_})
    def d(t):
        return t.astype(jnp.float32)
    a, b, w = q(x), q(y), q(jnp.cos(jnp.arange(16).reshape(4, 4)) * 3)
    order = jnp.argsort(i)
    return {form:a|d(a)|q(d(a) * 2)|lax.scan(lambda c, r: (q(0.5 * d(c) + d(r)), c), a[0], a)|lax.scan(lambda c, r: (0.5 * c + d(r), q(c)), d(a[0]), a, reverse=True)|lax.scan(lambda c, r: (jnp.tanh(d(r) @ d(w) + c @ d(w)),) * 2, d(a[0]), a)|lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (d(a), d(b)))|lax.associative_scan(jnp.maximum, d(a))|lax.fori_loop(0, 3, lambda n, c: q(d(c) * 0.5 + n), a)|lax.fori_loop(0, a.shape[0], lambda n, c: c.at[n].set(b[n]), a)|lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, q(d(s[1]) - 1)), (0, a))|lax.cond(i[0] > 0, lambda: a, lambda: b)|lax.switch(i[0], [lambda: a, lambda: b, lambda: q(d(b) + 1)])|lax.map(lambda r: q(d(r) + 1), a)|jax.vmap(lambda r, n: lax.dynamic_index_in_dim(r, n, keepdims=False))(a, i)|jax.vmap(lambda r, n: lax.dynamic_update_index_in_dim(r, b[0, 0], n, 0))(a, i)|lax.dynamic_update_slice(a, b[:1], (i[0], 0))|lax.dynamic_slice_in_dim(a, i[0], 1)|a[i]|a[i % 2]|a[order]|d(a[order]) @ d(w)|lax.ragged_dot(d(a)[order], jnp.stack([d(w), -d(w)]), jnp.array([2, 1]))|jax.ops.segment_sum(d(a), i % 2, 2)|jnp.einsum('bi,ij->bj', d(a), d(w))|lax.dot_general(a, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)|nn.softmax(d(a) @ d(w), -1) @ d(w)|nn.dot_product_attention(d(a)[None, :, None], d(b)[None, :, None], d(b)[None, :, None])|nn.dot_product_attention(a[None, :, None], b[None, :, None], b[None, :, None])|nn.gelu(d(a))|nn.gelu(a)|(d(a) - d(a).mean(-1, keepdims=True)) / jnp.sqrt(d(a).var(-1, keepdims=True) + 1e-5)|jnp.concatenate([a, b[::-1]], 0)|jnp.stack([a, b], 1).reshape(-1, 2)|jnp.pad(a, ((1, 0), (0, 2)))|jnp.where(i[:, None] > 0, a, b)|jnp.repeat(a, 2, 0)|jnp.tile(a, (2, 1))|jnp.flip(a, 0)|jnp.roll(a, 1, 0)|a.T|jnp.broadcast_to(a[:, None], (a.shape[0], 2, 4))|a.at[i].set(b)|a.at[0].set(b[1])|jnp.sort(d(a), 0)|lax.top_k(d(a), 2)|lax.cumsum(d(a), 0)|a == b|d(a).astype(jnp.int32)|jnp.max(a, 0)|jnp.take_along_axis(a, i[:, None] % 4, 1)|lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int32), jnp.float32) + d(a)|jax.grad(lambda t: jnp.sum(jnp.sin(t.astype(w.dtype).astype(jnp.float32))))(x)|jax.jit(lambda t: (t, d(t)))(a)}
"""

#: Random keys are arrays, too.
_KEYS = """
    key = jax.random.wrap_key_data({kind:k|jnp.tile(k, 2), impl='rbg'})
    def draw(key):
        return {draw:jax.random.uniform(key, (3,))|jax.random.normal(key, (2, 2))|jax.random.bits(key, (3,))|jax.random.randint(key, (3,), 0, 9)|jax.random.bernoulli(key, 0.4, (3,))|jax.random.categorical(key, x)|jax.random.permutation(key, 5)|jax.random.key_data(key)|jax.random.key_data(jax.random.split(key))|jax.random.gumbel(key, (3,))|jax.random.truncated_normal(key, -1, 1, (3,))|jax.random.choice(key, x[0], (2,))|jax.random.exponential(key, (3,))}
    keys = jax.random.split(key, 3)
    return {place:draw(key)|lax.scan(lambda c, k: (c, draw(k)), 0, keys)[1]|lax.scan(lambda c, _: (jax.random.split(c)[0], draw(c)), key, None, length=3)[1]|lax.scan(lambda c, t: (jax.random.fold_in(c, 1), (draw(c), t)), key, x)[1]|lax.fori_loop(0, 3, lambda i, c: draw(jax.random.fold_in(key, i)), draw(key))|lax.fori_loop(0, i[0] % 4, lambda n, c: draw(keys[n]), draw(key))|lax.while_loop(lambda s: s[1] < 3, lambda s: (jax.random.split(s[0], 2)[1], s[1] + 1, draw(s[0])), (key, 0, draw(key)))[2]|lax.while_loop(lambda s: jnp.sum(s[1]) < 0.5, lambda s: (jax.random.fold_in(s[0], 3), jax.random.uniform(s[0], (2,)), draw(s[0])), (key, jnp.zeros(2), draw(key)))[2]|lax.cond(i[0] > 0, draw, lambda k: draw(jax.random.fold_in(k, 7)), key)|draw(lax.cond(i[0] > 0, lambda: keys[0], lambda: keys[1]))|lax.switch(i[0], [draw, lambda k: draw(jax.random.split(k)[1]), lambda k: draw(jax.random.fold_in(k, i[0]))], key)|lax.map(draw, keys)|jax.vmap(draw)(keys)|jax.vmap(lambda n: draw(jax.random.fold_in(key, n)))(i)|jax.vmap(lambda k: lax.scan(lambda c, _: (jax.random.split(c)[0], draw(c)), k, None, length=2)[1])(keys)|draw(keys[i[0] % 3])|draw(lax.dynamic_index_in_dim(keys, i[1], keepdims=False))|draw(jnp.where(i[0] > 0, keys[0], keys[2]))|jax.vmap(draw)(jnp.concatenate([keys, keys[::-1]]))|jax.vmap(jax.vmap(draw))(jnp.reshape(jax.random.split(key, 4), (2, 2)))|jax.vmap(draw)(keys.at[1].set(key))|jax.jit(draw)(key)|jax.checkpoint(draw)(key)|lax.fori_loop(0, x.shape[0], lambda n, c: draw(jax.random.fold_in(key, n)), draw(key))}
"""

#: The crossings.
FORMULAS = (
    Formula("cumulative along a long axis", {"x": "B 300"}, _CUMULATIVE),
    Formula("cumulative along a symbolic axis", {"x": "B T"}, _CUMULATIVE),
    Formula("counters", {"x": "T B"}, _COUNTERS),
    Formula("narrow types", {"x": "N 4", "y": "N 4", "i": "int32 N"}, _NARROW, values=("finite",)),
    Formula("keys", {"k": "uint32 2", "x": "T 3", "i": "int32 N"}, _KEYS, values=("finite",)),
)

_SIZES: dict[str, dict[str, Size]] = {
    "cumulative along a symbolic axis": {"T": "symbol"},
    "counters": {"T": "symbol"},
    "keys": {"T": "symbol"},
}


def crossed(formula: Formula) -> list[Mutant]:
    """The formula with every combination of the texts at its points."""
    situation = Situation(opset=formula.opset, sizes=_SIZES.get(formula.name, {}))
    names, texts = zip(*formula.points.items(), strict=True)
    chosen = [dict(zip(names, some, strict=True)) for some in itertools.product(*texts)]
    return [Mutant(formula, choices, situation, seed) for seed, choices in enumerate(chosen)]
