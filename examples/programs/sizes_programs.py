"""Programs whose sizes depend on data: detections, segments, lists, sets and graphs, as they are written without jit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from examples.programs import numbers, program

NUMBER = ((), np.int32)
INTEGERS = (("N",), np.int32)


def _overlap(one, others):
    """Intersection over union of boxes (x0, y0, x1, y1) with many."""
    low, high = jnp.maximum(one[:2], others[:, :2]), jnp.minimum(one[2:], others[:, 2:])
    common = jnp.prod(jnp.maximum(high - low, 0), axis=1)
    areas = jnp.prod(others[:, 2:] - others[:, :2], axis=1)
    return common / (jnp.prod(one[2:] - one[:2]) + areas - common + 1e-6)


def _suppressed(boxes, scores, limit):
    """Which boxes stay: each, from the best on, unless it overlaps a better one that stays."""
    order = jnp.argsort(-scores)
    boxes = boxes[order]

    def step(i, kept):
        overlaps = (_overlap(boxes[i], boxes) > limit) & (jnp.arange(boxes.shape[0]) > i)
        return jnp.where(kept[i], kept & ~overlaps, kept)

    kept = lax.fori_loop(0, jnp.asarray(boxes.shape[0]), step, jnp.ones(boxes.shape[0], bool))
    return order[kept]


def _corners(centres):
    return jnp.concatenate([centres[:, :2] - 1, centres[:, :2] + 1 + centres[:, 2:] ** 2], axis=1)


# -- detections -----------------------------------------------------------------------------


@program(("N", 4), ("N",))
def non_maximum_suppression():
    def fn(x, scores):
        boxes = _corners(x)
        kept = _suppressed(boxes, scores, 0.5)
        return boxes[kept], scores[kept]

    return fn


@program(("N", 4), ("N",))
def suppression_above_a_score():
    def fn(x, scores):
        likely = scores > 0.2
        boxes, scores = _corners(x)[likely], scores[likely]
        kept = _suppressed(boxes, scores, 0.3)
        return boxes[kept], scores[kept]

    return fn


@program(("N", 4), ("N", 3))
def suppression_per_class():
    def fn(x, scores):
        classes, best = jnp.argmax(scores, axis=1), jnp.max(scores, axis=1)
        boxes = _corners(x)
        kept = _suppressed(boxes + 100 * classes[:, None], best, 0.5)
        return boxes[kept], best[kept], classes[kept]

    return fn


@program(("B", 6, 4), ("B", 6))
def suppression_of_each_image():
    def fn(x, scores):
        def of_image(pair):
            kept = _suppressed(_corners(pair[0]), pair[1], 0.4)
            return jnp.zeros(6, bool).at[kept].set(True), kept.shape[0] + jnp.zeros((), jnp.int32)

        return lax.map(of_image, (x, scores))

    return fn


@program((4, 4, 8))
def head_of_yolo():
    weights = numbers(8, 7)

    def fn(features):
        raw = features @ weights
        rows, columns = jnp.nonzero(nn.sigmoid(raw[..., 4]) > 0.5)
        found = raw[rows, columns]
        centres = (jnp.stack([columns, rows], -1) + nn.sigmoid(found[:, :2])) * 16
        return centres, jnp.exp(found[:, 2:4]), nn.softmax(found[:, 5:])

    return fn


@program(("N", 4), ("N", 5))
def head_of_detr():
    def fn(boxes, logits):
        likely = nn.softmax(logits)[:, :-1]
        kept = likely.max(-1) > 0.3
        return nn.sigmoid(boxes[kept]), likely[kept].argmax(-1), likely[kept].max(-1)

    return fn


@program(("N", 4), ("N", 4), ("N",))
def anchors():
    def fn(anchors, moves, scores):
        kept = jnp.flatnonzero(scores > 0)
        anchors, moves = anchors[kept], moves[kept]
        return jnp.concatenate([anchors[:, :2] + moves[:, :2], anchors[:, 2:] * jnp.exp(moves[:, 2:])], -1)

    return fn


@program(("N", 4), ("N",), NUMBER)
def best_detections():
    def fn(boxes, scores, n):
        best, places = lax.top_k(scores, jnp.minimum(n, scores.shape[0]))
        return boxes[places], best

    return fn


@program((8, 8))
def text_boxes():
    def fn(heat):
        rows, columns = jnp.nonzero(heat > 0.5)
        filled = jnp.asarray(rows.shape[0]) > 0
        box = jnp.stack([rows.min(initial=99), columns.min(initial=99), rows.max(initial=-1), columns.max(initial=-1)])
        return jnp.where(filled, box, -1), heat[rows, columns]

    return fn


@program(("N", 2), ("N",))
def key_points():
    return lambda points, scores: points[scores > scores.mean()]


# -- sequences ------------------------------------------------------------------------------


@program(("T", 5))
def greedy_ctc():
    def fn(logits):
        best = jnp.argmax(logits, axis=-1)
        is_new = jnp.concatenate([jnp.ones(1, bool), best[1:] != best[:-1]])
        return best[is_new & (best != 0)]

    return fn


@program((("T",), np.int32))
def run_lengths():
    def fn(x):
        (starts,) = jnp.nonzero(jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]]))
        return x[starts], jnp.diff(starts, append=x.shape[0])

    return fn


@program((("N",), np.int32), (("N",), np.int32))
def runs_expanded():
    return lambda values, lengths: jnp.repeat(values, lengths)


@program((("T",), np.int32))
def words_of_bytes():
    def fn(text):
        ends = jnp.flatnonzero(text == 3)
        return jnp.diff(ends, prepend=-1) - 1

    return fn


@program((("T",), np.int32))
def text_without_padding():
    return lambda tokens: jnp.trim_zeros(tokens)


@program((("T",), np.int32), NUMBER)
def text_to_the_end():
    return lambda tokens, n: (tokens[:n], tokens[n:])


@program(("T",))
def voice_segments():
    def fn(energy):
        speech = jnp.concatenate([jnp.zeros(1, bool), energy > 0, jnp.zeros(1, bool)])
        change = jnp.diff(speech.astype(jnp.int32))
        return jnp.flatnonzero(change == 1), jnp.flatnonzero(change == -1)

    return fn


@program((("T",), np.int32), (("T",), np.int32))
def accepted_tokens():
    def fn(draft, wanted):
        accepted = jnp.cumprod(draft == wanted).sum()
        return draft[:accepted], jnp.arange(accepted + 1)

    return fn


@program(("B", 6), NUMBER)
def growing_beam():
    def fn(scores, n):
        width = jnp.minimum(n + 1, 6)
        best, places = lax.top_k(scores[0], width)
        return nn.log_softmax(best), places

    return fn


@program(("T",), NUMBER)
def windows_of_computed_size():
    def fn(x, n):
        size = jnp.minimum(n, x.shape[0] - 1) + 1
        starts = jnp.arange(x.shape[0] - size + 1)
        return x[starts[:, None] + jnp.arange(size)].mean(1)

    return fn


@program(("T",))
def peaks():
    return lambda x: jnp.argwhere((x[1:-1] > x[:-2]) & (x[1:-1] > x[2:])) + 1


@program(("T",), NUMBER)
def last_frames():
    return lambda x, n: x[-(n + 1) :]


@program(("B", "T"), (("B",), np.int32))
def ragged_rows():
    return lambda x, lengths: x[jnp.arange(x.shape[1]) < lengths[:, None]]


@program(("B", "T"), (("B",), np.int32))
def ragged_means():
    def fn(x, lengths):
        mask = jnp.arange(x.shape[1]) < lengths[:, None]
        owners, _ = jnp.nonzero(mask)
        sums = jax.ops.segment_sum(x[mask], owners, x.shape[0])
        return sums / jnp.maximum(mask.sum(1), 1)

    return fn


# -- points, graphs and experts ---------------------------------------------------------------


@program(("N", 3))
def points_in_a_ball():
    def fn(points):
        near = points[(points**2).sum(-1) < 1]
        return near, near.mean(0, where=jnp.ones(near.shape, bool)), near.shape[0] * jnp.ones(())

    return fn


@program(("N", 3))
def voxels():
    def fn(points):
        cells, owners, counts = jnp.unique(
            jnp.floor(points).astype(jnp.int32), return_inverse=True, return_counts=True, axis=0
        )
        sums = jax.ops.segment_sum(points, owners, cells.shape[0])
        return cells, sums / counts[:, None]

    return fn


@program(("N", 3))
def edges_of_neighbours():
    def fn(points):
        apart = ((points[:, None] - points) ** 2).sum(-1)
        senders, receivers = jnp.nonzero((apart < 2) & (apart > 0))
        messages = points[senders] - points[receivers]
        return jax.ops.segment_sum(messages, receivers, points.shape[0]), senders, receivers

    return fn


@program(("N", 4), INTEGERS)
def graphs_of_many_nodes():
    def fn(nodes, counts):
        owners = jnp.repeat(jnp.arange(counts.shape[0]), counts % 3)
        features = nodes[owners]
        return features, jax.ops.segment_max(features, owners, counts.shape[0])

    return fn


@program(("T", 8))
def routing_without_capacity():
    router, experts = numbers(8, 3), [numbers(8, 8) for _ in range(3)]

    def fn(x):
        chosen, total = jnp.argmax(x @ router, -1), jnp.zeros_like(x)
        for number, kernel in enumerate(experts):
            places = jnp.flatnonzero(chosen == number)
            total = total.at[places].add(x[places] @ kernel)
        return total

    return fn


@program(("T", 8), ("T", 8))
def attention_to_some_blocks():
    def fn(query, keys):
        kept = keys[(keys**2).mean(-1) > 0.8]
        logits = query @ jnp.concatenate([keys[:1], kept]).T
        return nn.softmax(logits) @ jnp.concatenate([keys[:1], kept])

    return fn


# -- measurements and sets ----------------------------------------------------------------------


@program(("N",))
def measurements_without_outliers():
    def fn(x):
        kept = x[jnp.abs(x - x.mean()) <= 2 * x.std()]
        return kept, kept.mean(), kept.std()

    return fn


@program(("N",), ("N",))
def valid_pairs():
    def fn(x, y):
        valid = jnp.isfinite(jnp.log(x)) & (y > -1)
        return x[valid] * y[valid], jnp.corrcoef(x, y)

    return fn


@program(("N",))
def quantiles_of_positive_numbers():
    return lambda x: jnp.sort(x[x > 0])[::-1]


@program(INTEGERS)
def vocabulary():
    return lambda x: jnp.unique(x, return_counts=True, return_inverse=True)


@program(INTEGERS, (("B",), np.int32))
def common_and_missing():
    return lambda x, y: (jnp.intersect1d(x, y), jnp.setdiff1d(x, y), jnp.union1d(x, y), jnp.setxor1d(x, y))


@program(INTEGERS)
def counts_of_values():
    return lambda x: (jnp.bincount(x), nn.one_hot(x, x.max() + 1))


@program(("N", 4), INTEGERS)
def rows_without_some():
    return lambda x, drop: jnp.delete(x, drop % x.shape[0], axis=0)


@program(("N",))
def clipped_in_place():
    return lambda x: x.at[x > 1].set(1.0).at[x < -1].multiply(0.5).at[x > 0].add(jnp.cumsum(x[x > 0]))


@program((6, 6, 3), NUMBER)
def image_of_computed_size():
    return lambda image, n: jax.image.resize(image, (n + 1, 2 * n + 2, 3), "nearest")


@program(("N", 3), NUMBER)
def padded_to_a_multiple():
    def fn(x, n):
        missing = -x.shape[0] % (n + 1)
        return jnp.pad(x, ((0, missing), (0, 0))).reshape(-1, n + 1, 3)

    return fn


@program(("N",), ("N",))
def longer_part():
    def fn(x, y):
        return lax.cond((x > 0).sum() > (y > 0).sum(), lambda: x[x > 0], lambda: y[y > 0])

    return fn


@program(NUMBER)
def positions():
    weights = numbers(8)
    return lambda n: jnp.sin(jnp.arange(n)[:, None] * weights)


@program(NUMBER)
def grid():
    def fn(n):
        axis = jnp.linspace(-1, 1, n + 1)
        return jnp.stack(jnp.broadcast_arrays(axis[:, None], axis[None]), -1), jnp.tril(jnp.ones((n, n)))

    return fn


# -- further texts and signals ------------------------------------------------------------------


@program(("T", 3))
def clipped_to_speech():
    def fn(frames):
        loud = jnp.flatnonzero((frames**2).mean(-1) > 0.5)
        first, last = loud.min(initial=frames.shape[0]), loud.max(initial=-1)
        return frames[first : last + 1]

    return fn


@program((("T",), np.int32))
def pieces_of_bytes():
    def fn(text):
        is_start = jnp.concatenate([jnp.ones(1, bool), text[:-1] == 3])
        owners = jnp.cumsum(is_start) - 1
        starts = jnp.flatnonzero(is_start)
        return starts, jax.ops.segment_sum(text, owners, starts.shape[0])

    return fn


@program((("T",), np.int32))
def merged_pairs():
    def fn(tokens):
        is_pair = (tokens[:-1] == 1) & (tokens[1:] == 2)
        merged = tokens.at[:-1].set(jnp.where(is_pair, 10, tokens[:-1]))
        return merged[~jnp.concatenate([jnp.zeros(1, bool), is_pair])]

    return fn


@program((("B", "T"), np.int32), (("B",), np.int32))
def packed_batch():
    def fn(tokens, lengths):
        lengths = jnp.minimum(lengths, tokens.shape[1])
        packed = tokens[jnp.arange(tokens.shape[1]) < lengths[:, None]]
        ends = jnp.cumsum(lengths)
        owners = jnp.repeat(jnp.arange(lengths.shape[0]), lengths)
        return packed, owners, jnp.arange(owners.shape[0]) - (ends - lengths)[owners]

    return fn


@program(("N", 4), INTEGERS)
def softmax_of_ragged_rows():
    def fn(x, counts):
        owners = jnp.repeat(jnp.arange(counts.shape[0]), counts % 3)
        logits = x[owners, 0] * jnp.arange(owners.shape[0])
        largest = jax.ops.segment_max(logits, owners, counts.shape[0])
        weights = jnp.exp(logits - largest[owners])
        return weights / jax.ops.segment_sum(weights, owners, counts.shape[0])[owners]

    return fn


@program(("N",))
def nucleus():
    def fn(logits):
        order = jnp.argsort(-logits)
        chances = nn.softmax(logits)[order]
        kept = jnp.cumsum(chances) - chances < 0.7
        return order[kept], chances[kept] / chances[kept].sum()

    return fn


@program(("T", 5), ("T", 5), (("T",), np.int32))
def accepted_and_one_more():
    def fn(wanted, drafted, tokens):
        places = jnp.arange(tokens.shape[0])
        right = nn.softmax(wanted)[places, tokens % 5] >= nn.softmax(drafted)[places, tokens % 5]
        count = jnp.cumprod(right).sum()
        following = wanted[jnp.minimum(count, tokens.shape[0] - 1)].argmax().astype(np.int32)
        return jnp.append(tokens[:count], following)

    return fn


@program(("T", 6), ("T", 6), NUMBER)
def compacted_cache():
    def fn(keys, values, n):
        scores = keys @ jnp.ones(6)
        places = jnp.sort(lax.top_k(scores, jnp.minimum(n, scores.shape[0]))[1])
        return keys[places], values[places]

    return fn


@program(("T",))
def crossings():
    def fn(x):
        places = jnp.flatnonzero(jnp.sign(x[1:]) * jnp.sign(x[:-1]) < 0)
        return places + x[places] / (x[places] - x[places + 1])

    return fn


@program(("T",))
def intervals_of_peaks():
    def fn(x):
        peaks = jnp.flatnonzero((x[1:-1] > x[:-2]) & (x[1:-1] >= x[2:]) & (x[1:-1] > 0)) + 1
        gaps = jnp.diff(peaks)
        return gaps, jnp.where(gaps.shape[0] > jnp.zeros(()), gaps.sum() / jnp.maximum(gaps.shape[0], 1), 0)

    return fn


@program(("T",), NUMBER)
def resampled():
    def fn(x, n):
        places = jnp.linspace(0, x.shape[0] - 1, n + 2)
        return jnp.interp(places, jnp.arange(x.shape[0]), x)

    return fn


@program(("T",), NUMBER)
def frames_with_a_window():
    def fn(x, n):
        size = jnp.minimum(n + 1, x.shape[0])
        return (x[: x.shape[0] // size * size].reshape(-1, size) * jnp.hanning(size)).sum(-1)

    return fn


# -- further images -----------------------------------------------------------------------------


@program((8, 8))
def cut_to_what_is_there():
    def fn(image):
        rows, columns = jnp.flatnonzero((image > 1).any(1)), jnp.flatnonzero((image > 1).any(0))
        top, left = rows.min(initial=8), columns.min(initial=8)
        return image[top : rows.max(initial=-1) + 1, left : columns.max(initial=-1) + 1]

    return fn


@program((8, 8, 2), NUMBER)
def centre_of_an_image():
    def fn(image, n):
        size = jnp.minimum(n, 8)
        start = (8 - size) // 2
        return image[start : start + size, start : start + size]

    return fn


@program(("H", "W", 3))
def padded_to_a_square():
    def fn(image):
        rows, columns = image.shape[:2]
        missing = jnp.maximum(jnp.asarray([columns - rows, rows - columns]), 0)
        return jnp.pad(image, ((0, missing[0]), (0, missing[1]), (0, 0)))

    return fn


@program((8, 8))
def peaks_of_a_heat_map():
    def fn(heat):
        largest = lax.reduce_window(heat, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME")
        rows, columns = jnp.nonzero((heat == largest) & (heat > 0.5))
        order = jnp.argsort(-heat[rows, columns])
        return jnp.stack([rows, columns], -1)[order], heat[rows, columns][order]

    return fn


@program(("N", 4), ("N",))
def suppression_by_a_matrix():
    def fn(x, scores):
        order = jnp.argsort(-scores)
        boxes = _corners(x)[order]
        overlaps = jax.vmap(lambda one: _overlap(one, boxes))(boxes)
        kept = ~(jnp.tril(overlaps > 0.5, -1)).any(1)
        return boxes[kept], scores[order][kept]

    return fn


@program(("N", 4), ("N",))
def suppression_while_some_remain():
    def fn(x, scores):
        boxes = _corners(x)

        def step(state):
            kept, left = state
            best = jnp.argmax(jnp.where(left, scores, -jnp.inf))
            left = (left & (_overlap(boxes[best], boxes) < 0.5)).at[best].set(False)
            return kept.at[best].set(True), left

        none = jnp.zeros(scores.shape, bool)
        kept, _ = lax.while_loop(lambda state: state[1].any(), step, (none, scores > 0))
        return boxes[kept]

    return fn


@program((8, 8), NUMBER)
def histogram_of_an_image():
    def fn(image, n):
        counts, edges = jnp.histogram(image, bins=n + 1, range=(-3, 3))
        return jnp.cumsum(counts) / image.size, edges[jnp.append(counts, 1) > 0]

    return fn


# -- further points and tables --------------------------------------------------------------------


@program(("B", "T"))
def sparse_product():
    def fn(x):
        rows, columns = jnp.nonzero(x > 0)
        values = x[rows, columns]
        counts = jnp.bincount(rows, length=x.shape[0])
        product = jax.ops.segment_sum(values * jnp.ones(x.shape[1])[columns], rows, x.shape[0])
        return values, columns, jnp.concatenate([jnp.zeros(1, counts.dtype), jnp.cumsum(counts)]), product

    return fn


@program(("N", 2))
def line_through_inliers():
    def fn(points):
        x, y = points[:, 0], points[:, 1]
        inside = jnp.abs(y - y.mean()) <= 1.5 * y.std() + 1e-3
        table = jnp.stack([x[inside], jnp.ones_like(x[inside])], 1)
        return jnp.linalg.solve(table.T @ table + 0.1 * jnp.eye(2), table.T @ y[inside])

    return fn


@program(("N", 3), ("N",), NUMBER)
def graph_attention():
    weights = numbers(3, 3)

    def fn(nodes, scores, n):
        senders, receivers = jnp.nonzero(jnp.abs(scores[:, None] - scores) < 0.1 * n)
        logits = nn.leaky_relu((nodes @ weights)[senders] @ jnp.ones(3))
        chances = jnp.exp(logits) / jax.ops.segment_sum(jnp.exp(logits), receivers, nodes.shape[0])[receivers]
        return jax.ops.segment_sum(chances[:, None] * nodes[senders], receivers, nodes.shape[0])

    return fn


@program((("N",), np.int32), (("N",), np.int32), ("T", 4))
def edges_without_loops():
    def fn(senders, receivers, nodes):
        senders, receivers = senders % nodes.shape[0], receivers % nodes.shape[0]
        real = senders != receivers
        senders, receivers = senders[real], receivers[real]
        degrees = jnp.zeros(nodes.shape[0]).at[receivers].add(1)
        return jnp.zeros_like(nodes).at[receivers].add(nodes[senders]) / jnp.maximum(degrees, 1)[:, None]

    return fn


@program(("N", 2), NUMBER)
def nearest_neighbours():
    def fn(points, n):
        apart = ((points[:, None] - points) ** 2).sum(-1)
        _, near = lax.top_k(-apart, jnp.minimum(n, points.shape[0]))
        return points[near] - points[:, None]

    return fn


@program(("N",), INTEGERS)
def curve_of_thresholds():
    def fn(scores, labels):
        levels = jnp.unique(jnp.round(scores))[::-1]
        taken = jnp.round(scores) >= levels[:, None]
        right = (taken & (labels > 4)).sum(1)
        return levels, right / taken.sum(1), right

    return fn


@program(INTEGERS, ("N",))
def groups_of_a_table():
    def fn(keys, values):
        groups, owners, counts = jnp.unique(keys, return_inverse=True, return_counts=True)
        totals = jnp.zeros(groups.shape[0]).at[owners].add(values)
        most = jnp.full(groups.shape[0], -jnp.inf).at[owners].max(values)
        return groups[counts > 1], (totals / counts)[counts > 1], most

    return fn


@program(("N",), ("N",))
def rows_that_differ():
    def fn(x, y):
        changed = x != y
        return jnp.flatnonzero(changed), jnp.stack([x[changed], y[changed]], axis=1)

    return fn


@program(("N", 3), ("N",))
def bag_of_embeddings():
    table = numbers(10, 4)

    def fn(x, scores):
        rows = jnp.argwhere(x > 0)
        hashed = (3 * rows[:, 0] + rows[:, 1]) % 10
        return jax.ops.segment_sum(table[hashed], rows[:, 0], scores.shape[0])

    return fn
