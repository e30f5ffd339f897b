"""Sizes from data: symbols, labels, control flow, other traces, and errors."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, size, to_onnx
from jax2onnx_core.plugins.errors import ConversionError, SymbolError

_ROWS = [[[1.0, -2.0], [3.0, 4.0], [-5.0, 6.0]], [[-1.0, 1.0]] * 3, [[1.0, 1.0]] * 3]


def _equal(fn: Callable[..., object], *specs: object, calls: list[tuple[object, ...]]) -> OnnxProgram:
    """The program of a function, which gives what JAX gives without jit."""
    program = to_onnx(fn, list(specs))
    for call in calls:
        arrays = [np.asarray(x, a.dtype) for x, a in zip(call, program.inputs.avals, strict=True)]
        with jax.disable_jit():
            wanted = jax.tree_util.tree_leaves(fn(*map(jnp.asarray, arrays)))
        for got, want in zip(jax.tree_util.tree_leaves(program(*arrays)), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5)
    return program


def test_a_size_is_a_symbol_with_its_source_and_its_limits() -> None:
    program = to_onnx(lambda x: x[x[:, 0] > 0], [("B", 2)])
    info = program.symbols["mask"]
    assert (info.minimum, info.maximum, info.origins) == (0, "B", ())
    assert info.source is not None
    assert "test_sizes_from_data.py" in info.source
    assert [str(d) for d in program.model.graph.outputs[0].shape or ()] == ["mask", "2"]
    assert program.check_symbols() == []


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_size_inside_of_an_operation_has_the_line_of_its_call(dtype: str) -> None:
    program = to_onnx(lambda x: jax.lax.map(lambda row: jnp.unique(row).sum(), x), [(("M", "N"), dtype)])
    source = str(program.symbols["mask"].source)
    assert re.fullmatch(r"mask at .*test_sizes_from_data\.py:\d+ \(.*<lambda>\)", source)


def test_advice_on_sizes_names_them_as_they_are_shown() -> None:
    with pytest.raises(ValueError, match="must have the same shape") as caught:
        to_onnx(lambda x, y: jnp.stack([x[x > 0], y[y > 0]]), [("N",), ("M",)])
    notes = "\n".join(caught.value.__notes__)
    assert "mask is the size of mask at" in notes
    assert "mask_1 is the size of mask at" in notes
    assert ">= 0" not in notes


def test_the_report_says_where_a_size_is_from() -> None:
    report = str(to_onnx(lambda x: x[x > 0], [("B",)]).report())
    assert "at least 0, at most B, from mask at " in report
    assert "3 of 3 symbolic dimensions (100 %)" in report


def test_a_number_below_zero_is_no_size() -> None:
    program = to_onnx(lambda n: jnp.arange(n - 3) + jnp.arange(n - 3).shape[0], [((), "int32")])
    assert [program(np.int32(n)).tolist() for n in (0, 3, 5)] == [[], [], [2, 3]]


@pytest.mark.parametrize(
    ("dtype", "bounds"),
    [
        ("uint8", (7, 9, 1)), ("uint8", (5, 2, 1)), ("uint8", (2, 7, 2)), ("int8", (-100, 100, 50)), ("int8", (100, -100, -50)),
        ("int8", (100, -100, 50)), ("uint32", (2, 7, 2)), ("uint32", (5, 2, 2)), ("uint32", (2**32 - 5, 2**32 - 1, 1)),
    ],
)  # fmt: skip
def test_numbers_between_computed_ones_are_counted_in_wide_integers(dtype: str, bounds: tuple[int, ...]) -> None:
    program = to_onnx(lambda n: jnp.arange(n[0], n[1], n[2]), [((3,), dtype)])
    assert program(np.array(bounds).astype(dtype)).tolist() == list(range(*bounds))


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int8", "int32"])
def test_bounds_of_slices_of_any_type_are_numbers(dtype: str) -> None:
    """The largest number is behind the end, also where it is no number of the type of the length."""
    info = np.iinfo(dtype)
    program = to_onnx(lambda x, n: (x[:n], x[n:]), [(200,), ((), dtype)])
    x = np.arange(200, dtype=np.float32)
    for n in (info.max, info.max - 3, info.min, info.min + 1, 5):
        got = program(x, np.asarray(n, dtype))
        assert [y.tolist() for y in got] == [x[:n].tolist(), x[n:].tolist()]


def test_a_computed_step_is_an_error() -> None:
    for fn in (lambda x, n: x[::n], lambda x, n: x[1::n]):
        with pytest.raises(ConversionError, match="has a step that is a positive number"):
            to_onnx(fn, [("B",), ((), "int32")])
    with pytest.raises(ConversionError, match=r"Update x\[a:b\] first"):
        to_onnx(lambda x, n: x.at[::n].set(0), [("B",), ((), "int32")])


def test_the_user_names_a_size() -> None:
    def kept(x: jax.Array) -> jax.Array:
        with size("detections", at_most=3):
            return x[x > 0]

    info = to_onnx(kept, [("B",)]).symbols["detections"]
    assert info.maximum == "3"
    np.testing.assert_array_equal(kept(jnp.asarray([1.0, -1.0])), [1.0])


def test_each_call_of_a_jitted_function_has_its_own_size() -> None:
    positive = jax.jit(lambda x: x[x > 0])
    program = to_onnx(lambda x: (positive(x), positive(-x), positive(x + 1)), [("B",)])
    assert [array.shape for array in program(np.asarray([1.0, -2.0, 0.0], np.float32))] == [(1,), (1,), (2,)]


def test_exports_of_one_function_share_no_sizes() -> None:
    positive = jax.jit(lambda x: x[x > 0])
    for _ in range(2):
        assert to_onnx(positive, [(4,)])(np.ones(4, np.float32)).shape == (4,)
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError):
        positive(jnp.ones(4))


def test_a_size_does_not_leave_a_loop() -> None:
    with pytest.raises(ConversionError, match=r"mask at .*test_sizes_from_data.py.* each iteration of a scan"):
        to_onnx(lambda x: jax.lax.map(lambda row: row[row > 0], x), [("B", 2)])


def test_a_size_is_no_carry() -> None:
    def shrink(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 2, lambda i, y: y[y > i], x)

    with pytest.raises(TypeError) as caught:
        to_onnx(shrink, [("B",)])
    assert "one shape in all iterations" in "".join(caught.value.__notes__)


def test_a_size_under_vmap_is_the_same_for_all_examples() -> None:
    with pytest.raises(ConversionError, match=r"another one for each example of a jax\.vmap"):
        to_onnx(jax.vmap(lambda row: row[row > 0]), [("B", 2)])


def test_python_cannot_take_a_size() -> None:
    def branching(x: jax.Array) -> jax.Array:
        kept = x[x > 0]
        return kept.sum() if kept.shape[0] > 3 else x.sum()

    with pytest.raises(SymbolError, match=r"test_sizes_from_data.py.*jax\.lax\.cond"):
        to_onnx(branching, [("B",)])
    with pytest.raises(SymbolError, match=r"fori_loop"):
        to_onnx(lambda x: sum(jnp.ones(()) for _ in range(x[x > 0].shape[0])), [("B",)])


def test_a_comparison_with_a_size_is_no_silent_no() -> None:
    def branching(x: jax.Array) -> jax.Array:
        kept = x[x > 0]
        return jnp.zeros(1) if kept.shape[0] == 0 else kept

    with pytest.raises(ConversionError, match=r"test_sizes_from_data.py.*whether mask == 0"):
        to_onnx(branching, [("B",)])


def test_sizes_of_different_operations_do_not_meet() -> None:
    with pytest.raises(TypeError) as caught:
        to_onnx(lambda x: x[x > 0] + x[x < 0], [("B",)])
    assert "test_sizes_from_data.py" in "".join(caught.value.__notes__)


def test_tensorrt_refuses_with_the_line() -> None:
    with pytest.raises(ConversionError, match=r"mask at .*test_sizes_from_data.py.*tensorrt"):
        to_onnx(lambda x: x[x > 0], [("B",)], target="tensorrt")


def test_specialize_keeps_sizes() -> None:
    program = to_onnx(lambda x: x[x > 0], [("B", 2)]).specialize(B=3)
    assert program.symbols["mask"].source is not None
    for rows in _ROWS:
        assert program(np.asarray(rows, np.float32)).shape == (int((np.asarray(rows) > 0).sum()),)


def test_verify_draws_data_that_select_nothing_and_all() -> None:
    program = to_onnx(lambda x: (x[x > 0], jnp.ones(())), [("B",)])
    runs = list(program.random_calls([{"B": 5}], {}, 0))
    assert {int((np.asarray(run.args[0]) > 0).sum()) for run in runs} >= {0, 5}
    assert float(program.verify()) == 0


def _sums(x: jax.Array) -> jax.Array:
    return jax.lax.map(lambda row: row[row > 0].sum() + jnp.arange((row > 0).sum()).sum(), x)


def _sum_of_a_branch(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x.sum() > 0, lambda x: x[x > 0].sum(), lambda x: x[x < 0].min(initial=0.0), x)


def _size_from_outside(x: jax.Array) -> jax.Array:
    kept = x[x[:, 0] > 0]
    return jax.lax.fori_loop(0, 3, lambda i, y: y + jnp.ones(y.shape) * kept.shape[0], kept)


def _rows_in_order(x: jax.Array) -> jax.Array:
    kept = x[x[:, 0] > 0]
    return kept[jnp.argsort(-kept[:, 1])]


def _branches(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    chosen = jax.lax.cond(x.sum() > 0, lambda x: x[x > 0], lambda x: x.reshape(-1), x)
    return chosen, jnp.arange(chosen.shape[0])


def _choices(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    i = (x > 0).sum() % 3
    pair = jax.lax.switch(i, [lambda: (x[x > 0],) * 2, lambda: (x[0], x[1]), lambda: (jnp.zeros(i),) * 2])
    return pair[0] + pair[1], pair[0] * jnp.ones(pair[1].shape)


def _shared_mask(x: jax.Array) -> jax.Array:
    return jax.vmap(lambda row: row[x[0] > 0])(x)


def _beside_numbers(x: jax.Array) -> list[jax.Array | bool]:
    size, number = x[x > 0].shape[0], (x > 1).sum()
    return [size > number, size == number, size != number, number <= size, x[jnp.minimum(number, 0), size - size]]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "fn", [
        _branches, _sums, _sum_of_a_branch, _size_from_outside, _rows_in_order, _choices, _shared_mask, _beside_numbers,
        jax.grad(lambda x: (x[x > 0] ** 2).sum()), jax.grad(_sum_of_a_branch),
    ],
)  # fmt: skip
def test_programs_give_what_jax_gives_without_jit(fn: Callable[..., object]) -> None:
    _equal(fn, ("B", 2), calls=[(rows,) for rows in _ROWS])


def test_programs_are_compared_equation_by_equation() -> None:
    found = to_onnx(lambda x: (_sums(x), jnp.sort(x[x > 0])), [(3, 2)]).bisect(sizes=[{}])
    assert found.first is None
    assert {value.source.operation for value in found} >= {"jax.numpy.compress", "sort"}


def test_what_jax_itself_cannot_compute_is_compared_with_its_equations() -> None:
    program = to_onnx(jax.grad(jax.checkpoint(lambda x: (x[x > 0] ** 2).sum())), [("N",)])
    assert float(program.verify()) == 0


def test_programs_are_timed_beside_jax_without_jit() -> None:
    found = to_onnx(lambda x: x[x > 0], [("B",)]).benchmark(sizes=[{"B": 4}], seconds=0)
    assert found.is_right
    assert "without jit" in str(found)
