"""Programs that choose elements by their values, in each of the ways in which people write it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from examples.programs import numbers, program

NUMBER = ((), np.int32)
INTEGERS = (("N",), np.int32)
FLAGS = (("N",), bool)


# -- positions ------------------------------------------------------------------------------


@program(("B", "T", 3))
def positions_along_three_axes():
    return lambda x: jnp.nonzero(x > 0)


@program(("N", 3))
def positions_by_the_method():
    return lambda x: (x > 0).nonzero()


@program(FLAGS)
def positions_of_flags():
    return lambda mask: jnp.nonzero(mask)[0]


@program((("B", "T"), np.int32))
def positions_of_integers():
    return lambda x: jnp.nonzero(x % 3)


@program(("N",))
def positions_of_rounded_numbers():
    return lambda x: jnp.flatnonzero(jnp.round(x))


@program(("B", "T"))
def pairs_of_positions():
    def fn(x):
        places = jnp.argwhere(x > 0.5)
        return places, x[places[:, 0], places[:, 1]]

    return fn


@program(("B", "T"))
def positions_where():
    def fn(x):
        rows, columns = jnp.where(jnp.abs(x) > 1)
        return x[rows, columns] * columns

    return fn


@program(("B", "T"))
def chain_of_choices():
    return lambda x: jnp.where(x > 1, 1, jnp.where(x < 0, 0, x))[x != 0]


@program(("N", 3))
def rows_by_position():
    return lambda x: jnp.take(x, jnp.flatnonzero(x[:, 0] > 0), axis=0)


@program(("B", 4))
def first_position():
    def fn(x):
        rows, _ = jnp.nonzero(x > 0)
        return jnp.min(rows, initial=x.shape[0]), rows.max(initial=-1)

    return fn


@program(("N",))
def positions_unravelled():
    def fn(x):
        table = x[:, None] * x
        return jnp.unravel_index(jnp.flatnonzero(table > 0), table.shape)

    return fn


# -- indices --------------------------------------------------------------------------------


@program(("B", "T", 3), (("T",), bool))
def mask_in_the_middle():
    return lambda x, mask: x[:, mask, 1:]


@program(("B", "T"))
def mask_of_the_last_axis():
    return lambda x: x[..., x[0] > 0]


@program(("N", 4))
def mask_with_a_negative_number():
    return lambda x: x[x[:, -1] > 0, -2]


@program(("N", 4))
def mask_with_a_reversed_slice():
    return lambda x: x[x[:, 0] > 0, ::-1]


@program(("N", 4))
def mask_with_numbers_beside():
    return lambda x: x[x[:, 0] > 0][:, jnp.array([2, -1, 0])]


@program(("B", "T"))
def mask_with_a_new_axis():
    return lambda x: x[None, x > 0] + x[x > 0][None]


@program(("B", "T", 2))
def mask_of_two_axes():
    return lambda x: x[(x > 0).any(-1)]


@program(("B", "T"))
def rows_and_columns():
    return lambda x: x[x[:, 0] > 0][:, x[0] > 0]


@program(("B", "T"))
def open_mesh():
    return lambda x: x[jnp.ix_(jnp.flatnonzero(x[:, 0] > 0), jnp.flatnonzero(x[0] > 0))]


@program(("N", 4), INTEGERS)
def one_of_each_row():
    return lambda x, labels: x[x[:, 0] > 0, labels[x[:, 0] > 0] % 4]


@program(("N",))
def mask_of_a_selection():
    def fn(x):
        kept = x[x > -1]
        return kept[kept < 1]

    return fn


@program(("N",))
def selections_of_selections():
    def fn(x):
        first = x[x > -1]
        second = first[first < 1]
        third = second[second != 0]
        return jnp.concatenate([third, jnp.zeros(2 * first.shape[0] + second.shape[0])])

    return fn


@program(("N",), FLAGS)
def two_masks_joined():
    return lambda x, mask: (x[mask & (x > 0)], x[mask | (x > 0)], x[~mask], x[mask ^ (x > 0)])


@program(INTEGERS, (("B",), np.int32))
def members():
    return lambda x, allowed: x[jnp.isin(x, allowed)]


@program(("N", 3))
def finite_rows():
    return lambda x: x[~jnp.isnan(jnp.log(x)).any(axis=1)]


@program(("N",))
def by_compress():
    return lambda x: (x.compress(x > 0), jnp.compress(x[:-1] > 0, x))


@program(("B", "T"))
def columns_by_compress():
    return lambda x: jnp.compress(x[0] > 0, x, axis=-1)


@program(("B", "T"))
def by_extract():
    return lambda x: jnp.extract(x > 0, x)


@program(("N",))
def best_by_a_computed_count():
    return lambda x: x[jnp.argsort(-x)][: (x > 0).sum()]


@program(("N", 2), ("N",), ("N",))
def same_mask_of_three_arrays():
    def fn(points, weights, scores):
        mask = scores > 0
        return (points[mask] * weights[mask][:, None]).sum(0), scores[mask] - weights[mask]

    return fn


@program(("N",), ("N",))
def mask_that_is_computed_twice():
    return lambda x, y: x[y > 0] * y[jnp.nonzero(y > 0)] + jnp.arange((y > 0).sum())


@program(("N",), ("N",))
def size_that_is_counted():
    return lambda x, y: x[y > 0] + jnp.ones((y > 0).sum())


@program(("N",), ("B",))
def products_of_selections():
    def fn(x, y):
        left, right = x[x > 0], y[y > 0]
        return left[:, None] * right, left[:, None] @ right[None]

    return fn


@program(("N", 3))
def flattened_selection():
    return lambda x: x[x[:, 0] > 0].reshape(-1)


@program(("N",))
def selection_in_pairs():
    def fn(x):
        kept = x[x > 0]
        return kept[: kept.shape[0] // 2 * 2].reshape(-1, 2)

    return fn


@program(("N", 4))
def selection_in_another_order():
    return lambda x: jnp.flip(x[x[:, 0] > 0], 0).T.reshape(2, 2, -1).swapaxes(0, 2)


@program(("N",))
def rolled_selection():
    return lambda x: (jnp.roll(x[x > 0], 1), jnp.cumsum(x[x > 0])[::-1], jnp.diff(x[x > 0]))


@program(("N",))
def diagonal_of_a_selection():
    return lambda x: (jnp.diag(x[x > 0]), jnp.vander(x[x > 0], 3), jnp.outer(x[x > 0], x))


@program(("N",))
def selection_with_more():
    def fn(x):
        kept = x[x > 0]
        return jnp.append(kept, 0.0), jnp.hstack([kept, x]), jnp.stack([kept, -kept]), jnp.insert(kept, 0, 1.0)

    return fn


@program(("N",))
def statistics_of_a_selection():
    def fn(x):
        kept = jnp.append(x[x > 0], 1.0)
        return jnp.median(kept), jnp.percentile(kept, 75), kept.var(), jax.nn.logsumexp(kept), kept.argmax()

    return fn


@program(("N",), ("T",))
def places_among_a_selection():
    def fn(x, y):
        kept = jnp.sort(jnp.append(x[x > 0], 1.0))
        return jnp.searchsorted(kept, y), jnp.digitize(y, kept), jnp.interp(y, kept, 2 * kept)

    return fn


@program(FLAGS)
def bits_of_a_selection():
    return lambda mask: jnp.packbits(mask[mask])


# -- updates --------------------------------------------------------------------------------


@program(("N",))
def set_by_mask():
    return lambda x: x.at[x > 0].set(-x[x > 0])


@program(("B", "T"))
def updates_of_every_kind():
    def fn(x):
        high, low = x > 1, x < -1
        x = x.at[high].multiply(2.0).at[low].divide(2.0).at[high].min(3.0).at[low].max(-1.0)
        return x.at[high].power(2).at[low].apply(jnp.abs).at[high].subtract(1.0)

    return fn


@program(("N", 4))
def column_set_by_mask():
    return lambda x: x.at[x[:, 0] > 0, 1].set(7.0)


@program(("N", 4))
def rows_added_by_mask():
    return lambda x: x.at[x[:, 0] > 0].add(x[x[:, 0] > 0][:, ::-1])


@program(("B", "T"))
def columns_set_by_mask():
    return lambda x: x.at[:, x[0] > 0].set(0.0).at[..., x[1 - 1] < 0].add(jnp.arange(x.shape[0])[:, None])


@program(("N", 3))
def rows_set_by_position():
    def fn(x):
        places = jnp.flatnonzero(x[:, 0] > 0)
        return x.at[places].set(x[places] * 2).at[places, -1].add(1.0, unique_indices=True)

    return fn


@program(("B", "T"))
def elements_added_by_position():
    def fn(x):
        rows, columns = jnp.nonzero(x > 0)
        return jnp.zeros(x.shape[0]).at[rows].add(x[rows, columns]), x.at[rows, columns].get(mode="fill", fill_value=0)

    return fn


@program(("N",), NUMBER)
def first_ones_set():
    return lambda x, n: (x.at[:n].set(0.0), x.at[n:].add(1.0), x.at[-n:].multiply(2.0))


@program(("N",), NUMBER, NUMBER)
def part_set():
    def fn(x, a, b):
        return x.at[a:b].set(-x[a:b]), x.at[a : a + 2].max(0.0)

    return fn


@program(("B", "T"), NUMBER)
def block_set():
    return lambda x, n: x.at[:n, 1:n].set(0.0).at[1, :n].add(1.0)


# -- slices ---------------------------------------------------------------------------------


@program(("N",), NUMBER)
def parts_of_every_kind():
    return lambda x, n: (x[:n], x[n:], x[:-n], x[-n:], x[n : 2 * n], x[:n][::-1], x[::-1][:n])


@program(("N",), NUMBER)
def parts_with_steps():
    return lambda x, n: (x[:n:2], x[n::3], x[1:-1][:n], x[n - 1 : n + 1])


@program(("B", "T", 3), NUMBER, NUMBER)
def parts_of_many_axes():
    return lambda x, n, m: (x[:n, :m], x[..., :n], x[:, m:, None, 0], x[-1, :m])


@program(("N", 4), NUMBER)
def parts_with_indices_beside():
    return lambda x, n: (x[:n, jnp.array([0, 2])], x[1:n, -1], x[:n, x[0] > 0])


@program(("B", "T"), NUMBER)
def part_of_each_row():
    return lambda x, n: jax.nn.softmax(x[:, : n + 1]) @ jnp.ones(x[:, : n + 1].shape[1])


@program(("N", 3), NUMBER, NUMBER)
def dynamic_slices_of_computed_size():
    def fn(x, start, n):
        n = jnp.minimum(n, x.shape[0])
        return lax.dynamic_slice(x, (start, 0), (n, 2)), lax.dynamic_slice_in_dim(x, start, n)

    return fn


@program(("N",), NUMBER)
def slice_in_a_dimension():
    return lambda x, n: lax.slice_in_dim(x, 0, jnp.minimum(n, x.shape[0]))


@program(("N",), NUMBER)
def split_at_a_number():
    def fn(x, n):
        n = jnp.minimum(n, x.shape[0])
        left, right = jnp.split(x, [n])
        return left, right.sum()

    return fn


@program(("B", "T"), NUMBER)
def split_of_columns():
    def fn(x, n):
        n = jnp.minimum(n, x.shape[1] - 1)
        return jnp.hsplit(x, [n]), jnp.array_split(x, (1, n + 1), axis=1), jnp.vsplit(x.T, [n])

    return fn


@program(("N", 3), NUMBER)
def without_a_row():
    return lambda x, n: (jnp.delete(x, n % x.shape[0], axis=0), jnp.delete(x, slice(n), axis=0))


@program(("B", "T"), (("T",), bool))
def without_columns():
    return lambda x, mask: (jnp.delete(x, mask, axis=1), jnp.delete(x, jnp.flatnonzero(mask), axis=-1))


@program(("N",), (("B",), np.int32))
def without_positions():
    return lambda x, places: (jnp.delete(x, places % x.shape[0]), jnp.delete(x, -1 - places % x.shape[0]))


@program(INTEGERS)
def trimmed():
    return lambda x: (jnp.trim_zeros(x, "f"), jnp.trim_zeros(x, trim="b"), jnp.trim_zeros(x - 1))


@program((("B", "T"), np.int32))
def trimmed_table():
    return lambda x: jnp.trim_zeros(jnp.where(x > 6, x, 0))


@program(("B", "T"), NUMBER)
def fixed_numbers():
    weights = numbers(6)
    return lambda x, n: (jnp.asarray(weights)[: n + 1], jnp.asarray(weights)[jnp.asarray(weights) > x.mean()])
