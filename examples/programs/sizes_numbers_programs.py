"""Programs in which numbers that are computed are sizes, and functions of sets and counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from examples.programs import numbers, program

NUMBER = ((), np.int32)
INTEGERS = (("N",), np.int32)


# -- arrays of computed sizes ---------------------------------------------------------------


@program(NUMBER)
def filled_arrays():
    return lambda n: (jnp.zeros(n), jnp.ones((n, 2), np.int32), jnp.full((2, n), 7.0), jnp.zeros((n, n + 1), bool))


@program(NUMBER, NUMBER)
def filled_tables():
    return lambda n, m: (jnp.ones((n, m)), jnp.full(shape=(m, n), fill_value=n), jnp.zeros(shape=(n, 3, m)))


@program(("N",), NUMBER)
def filled_like_others():
    return lambda x, n: (jnp.zeros_like(x, shape=(n,)), jnp.ones_like(x, shape=n), jnp.full_like(x, 2, shape=(n, 2)))


@program(NUMBER, NUMBER)
def ranges():
    return lambda n, m: (jnp.arange(n), jnp.arange(m, n), jnp.arange(0, n, 2), jnp.arange(n, 0, -1), jnp.arange(2, n))


@program(NUMBER, ())
def ranges_of_other_types():
    return lambda n, step: (jnp.arange(n, dtype=np.float32) * step, jnp.arange(n, dtype=np.int8), jnp.arange(n + 1.0))


@program(NUMBER)
def identities():
    return lambda n: (jnp.eye(n), jnp.eye(n, 3), jnp.eye(3, M=n, k=1), jnp.identity(n), jnp.tri(n), jnp.tri(n, k=-1))


@program(NUMBER)
def triangles():
    return lambda n: (jnp.tril(jnp.ones((n, n))), jnp.triu(jnp.arange(n * n).reshape(n, n), 1))


@program(NUMBER)
def steps_between():
    return lambda n: (jnp.linspace(0, 1, n), jnp.linspace(-1.0, 2.0, num=n, endpoint=False), jnp.linspace(0, n, n + 1))


@program(NUMBER)
def steps_of_powers():
    return lambda n: (jnp.logspace(0, 2, n + 2), jnp.geomspace(1.0, 8.0, n + 2))


@program(NUMBER)
def windows():
    return lambda n: (jnp.hanning(n + 2), jnp.hamming(n + 2), jnp.bartlett(n + 2), jnp.blackman(n + 2))


@program(NUMBER)
def frequencies():
    return lambda n: (jnp.fft.fftfreq(n + 1), jnp.fft.rfftfreq(n + 1, d=0.5))


@program(NUMBER, NUMBER)
def grids():
    def fn(n, m):
        rows, columns = jnp.meshgrid(jnp.arange(n), jnp.arange(m), indexing="ij")
        return rows * columns, jnp.indices((n, m)), jnp.indices((n, 2), sparse=True)

    return fn


@program(NUMBER)
def grids_by_slices():
    return lambda n: (jnp.mgrid[0:n, 0:2], jnp.ogrid[0:n, 0:3])


@program(NUMBER)
def indices_of_triangles():
    return lambda n: (jnp.tril_indices(n), jnp.triu_indices(n, 1), jnp.diag_indices(n))


@program(("N",), NUMBER)
def tiles():
    return lambda x, n: (jnp.tile(x, n), jnp.tile(x, (n, 2)), jnp.tile(x[:, None], (1, n)))


@program(("N", 2), NUMBER)
def repetitions():
    return lambda x, n: (jnp.repeat(x, n, axis=0), x.repeat(n, axis=-1), jnp.repeat(x, n), jnp.repeat(n, 3))


@program(("N", 2), INTEGERS)
def repetitions_by_counts():
    return lambda x, counts: (jnp.repeat(x, counts % 3, axis=0), x[:, 0].repeat(counts % 4))


@program(("B", "N"), INTEGERS)
def columns_by_counts():
    return lambda x, counts: jnp.repeat(x, counts % 3, axis=-1)


@program(("N", 3), NUMBER)
def broadcasts():
    return lambda x, n: (jnp.broadcast_to(x, (n, *x.shape)), jnp.broadcast_to(x[0], (n, 3)), x[:1] * jnp.ones((n, 1)))


@program(("N", 3), NUMBER)
def pads():
    def fn(x, n):
        return jnp.pad(x, n), jnp.pad(x, ((n, 1), (0, n))), jnp.pad(x, ((0, n), (0, 0)), constant_values=5)

    return fn


@program(("N",), NUMBER)
def pads_of_other_modes():
    return lambda x, n: (jnp.pad(x, (n, n), "edge"), jnp.pad(x, (0, jnp.minimum(n, 1)), mode="reflect"))


@program((6, 4), NUMBER)
def shapes():
    def fn(x, n):
        n = jnp.where(n % 2 == 0, 2, 3)
        return x.reshape(n, -1), jnp.reshape(x, (-1, n, 2)), x.ravel().reshape((24 // n, n)), x.reshape(n, 24 // n)

    return fn


@program(INTEGERS, NUMBER)
def codes():
    return lambda x, n: (nn.one_hot(x, n), nn.one_hot(x, num_classes=n + 1, dtype=np.int32), nn.one_hot(x, n, axis=0))


@program(("N",), INTEGERS)
def sums_of_segments():
    def fn(x, segments):
        return jax.ops.segment_sum(x, segments), jax.ops.segment_max(x, segments, num_segments=segments.max() + 2)

    return fn


@program(("N",), INTEGERS, NUMBER)
def segments_of_a_number():
    return lambda x, segments, n: (jax.ops.segment_min(x, segments, n), jax.ops.segment_prod(x, segments, n))


@program(("B", "T"), NUMBER)
def best_of_each_row():
    return lambda x, n: (lax.top_k(x, jnp.minimum(n, x.shape[1])), lax.top_k(x[0], k=jnp.minimum(n, 2))[1])


@program((4, 4, 2), NUMBER)
def resized_images():
    def fn(x, n):
        return jax.image.resize(x, (2 * n + 1, n + 2, 2), "bilinear"), jax.image.resize(x, (n + 4, 4, 2), "cubic")

    return fn


@program(NUMBER)
def random_numbers():
    key = jax.random.key(1)
    return lambda n: (
        jax.random.normal(key, (n,)),
        jax.random.uniform(key, (n, 2)),
        jax.random.randint(key, (n,), 0, 9),
    )


@program(NUMBER)
def coins():
    key = jax.random.key(1)
    return lambda n: jax.random.bernoulli(key, 0.5, (n,))


@program(NUMBER)
def lax_creations():
    return lambda n: (lax.iota(np.int32, n), lax.full((n, 2), 3.0), lax.broadcasted_iota(np.int32, (2, n), 1))


@program((6,), NUMBER)
def lax_reshape():
    return lambda x, n: lax.reshape(x, (jnp.where(n > 3, 2, 3), jnp.where(n > 3, 3, 2)))


@program(("B",), ("B",))
def number_of_a_sum():
    return lambda x, y: (jnp.zeros((x > 0).sum()), jnp.arange((x > 0).sum() + (y > 0).sum()))


@program(("N",))
def number_of_a_maximum():
    return lambda x: jnp.arange(jnp.floor(jnp.abs(jnp.nan_to_num(x)).max()).astype(np.int32))


@program(("N",))
def number_of_a_size():
    def fn(x):
        kept = x[x > 0]
        n = kept.shape[0]
        return jnp.arange(n), jnp.zeros((n, n)), jnp.eye(n) * kept, jnp.linspace(0, 1, n), jnp.tile(kept, 2), n * kept

    return fn


@program(("N",))
def size_of_a_size():
    def fn(x):
        kept = x[x > 0]
        pairs = jnp.arange(kept.shape[0] * (kept.shape[0] - 1) // 2)
        return pairs[pairs % 2 == 0], jnp.full(kept.size, kept.size), x.shape[0] - kept.shape[0] + kept

    return fn


@program(("B", "T"), (("B",), np.int32))
def size_of_the_longest():
    def fn(x, lengths):
        longest = jnp.minimum(lengths.max(), x.shape[1])
        return x[:, :longest], jnp.arange(longest) < lengths[:, None]

    return fn


@program(((), np.int8), ((), np.uint8), ((), np.int64))
def numbers_of_other_types():
    return lambda a, b, c: (jnp.arange(a), jnp.zeros(b), jnp.ones((a, c)), jnp.arange(b, dtype=np.int32)[:a])


@program((("B",), np.int32))
def numbers_of_an_array():
    return lambda lengths: (jnp.arange(lengths[0]), jnp.zeros((lengths[-1], lengths[0])), jnp.ones(tuple(lengths[:1])))


# -- counts and sets --------------------------------------------------------------------------


@program(INTEGERS)
def counts():
    return lambda x: (jnp.bincount(x), jnp.bincount(x, minlength=4), jnp.bincount(x, weights=x * 0.5))


@program(("N",), NUMBER)
def counts_in_bins():
    return lambda x, n: jnp.histogram(x, bins=n + 1, range=(-2, 2))


@program(INTEGERS)
def values_and_counts():
    return lambda x: (jnp.unique(x, return_counts=True), jnp.unique_values(x % 3), jnp.unique_counts(x % 4))


@program(INTEGERS)
def values_and_inverse():
    def fn(x):
        values, inverse = jnp.unique(x, return_inverse=True)
        return values[inverse] - x, jnp.unique_inverse(x), jnp.unique_all(x)

    return fn


@program(("B", "T"))
def values_of_numbers():
    return lambda x: (jnp.unique(jnp.round(x)), jnp.unique(jnp.round(x), return_index=True))


@program((("B", "T"), np.int32))
def distinct_columns():
    return lambda x: jnp.unique(x % 2, axis=1, return_index=True, return_counts=True)


@program((("N",), bool))
def distinct_flags():
    return lambda x: jnp.unique(x, return_counts=True)


@program(INTEGERS, (("B",), np.int32))
def sets():
    def fn(x, y):
        return jnp.union1d(x, y), jnp.setdiff1d(x, y), jnp.intersect1d(x, y), jnp.setxor1d(x, y)

    return fn


@program(("N",), ("B",))
def sets_of_numbers():
    def fn(x, y):
        x, y = jnp.round(x), jnp.round(y)
        return jnp.union1d(x, y), jnp.setdiff1d(x, y, assume_unique=True), jnp.intersect1d(x, y, return_indices=True)

    return fn


@program((("B", "T"), np.int32), INTEGERS)
def sets_of_tables():
    return lambda x, y: (jnp.setdiff1d(x, y), jnp.union1d(x, y), jnp.isin(jnp.unique(x), y))


@program(INTEGERS)
def most_frequent():
    def fn(x):
        values, counts = jnp.unique(x, return_counts=True)
        return values[counts.argmax()], values[counts == counts.max()]

    return fn


@program(INTEGERS, INTEGERS)
def confusions():
    def fn(right, found):
        n = jnp.maximum(right.max(), found.max()) + 1
        return jnp.bincount(right * n + found, length=100), jnp.zeros((n, n), np.int32).at[right, found].add(1)

    return fn


@program(INTEGERS)
def renumbered():
    def fn(x):
        values, places = jnp.unique(x, return_inverse=True)
        return nn.one_hot(places, values.shape[0]), jax.ops.segment_sum(jnp.ones(x.shape), places, values.shape[0])

    return fn


@program(INTEGERS)
def sum_of_each_value():
    def fn(x):
        values, places, counts = jnp.unique(x, return_inverse=True, return_counts=True)
        means = jnp.zeros(values.shape).at[places].add(jnp.arange(x.shape[0])) / counts
        return means[places], jnp.repeat(values, counts)

    return fn


@program(("N",), NUMBER)
def positions_of_a_transformer():
    frequencies = np.abs(numbers(4))

    def fn(x, n):
        angles = jnp.arange(n)[:, None] * frequencies
        return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1) * x[0]

    return fn


@program(NUMBER)
def causal_mask():
    return lambda n: (jnp.arange(n)[:, None] >= jnp.arange(n), jnp.where(jnp.tri(n) > 0, 0.0, -1e9))


@program(NUMBER, NUMBER)
def anchors_of_a_grid():
    def fn(n, m):
        centres = jnp.stack(jnp.meshgrid(jnp.arange(n) + 0.5, jnp.arange(m) + 0.5), -1).reshape(-1, 1, 2)
        return (centres + jnp.array([[-1.0, -1.0], [1.0, 1.0]])).reshape(-1, 4)

    return fn
