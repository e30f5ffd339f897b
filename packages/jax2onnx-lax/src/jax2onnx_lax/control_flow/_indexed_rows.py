"""Loops that read row `t` of an array and write row `t` of another, `t` being their counter, as scans over the rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import jax
import jax.extend.core
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Dim, Jaxpr
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import bind_equation, is_literal, is_static, open_jaxpr, struct

from jax2onnx_lax._called import plain_call
from jax2onnx_lax._equations import evaluate, needed, read_by, value_of
from jax2onnx_lax.control_flow._loop_bodies import LoopBody
from jax2onnx_lax.integers._domain import Affine, Integers, affine, elements_of, number
from jax2onnx_lax.integers._jaxprs import IntegersOfJaxpr

__all__ = ["ScanOfRows", "scan_of_rows"]

_READS, _WRITES = frozenset({"dynamic_slice", "gather"}), frozenset({"dynamic_update_slice", "scatter"})


@dataclasses.dataclass(frozen=True)
class _Read:
    """An equation that reads a row of an array.

    Attributes:
      eqn: the equation.
      source: the position of the array in the operands of the scan.
      axis: the axis along which rows lie.
      index: which row.
    """

    eqn: Equation
    source: int
    axis: int
    index: Integers


@dataclasses.dataclass(frozen=True)
class _Write:
    """An equation that gives an array of the carry another row.

    Attributes:
      eqn: the equation.
      place: the position of the array in the carry.
      row: the value that is written.
      axis: the axis along which rows lie.
      index: which row.
    """

    eqn: Equation
    place: int
    row: Atom
    axis: int
    index: Integers


@dataclasses.dataclass(frozen=True)
class ScanOfRows:
    """A scan, `lax.scan`'s equation: the body, its number of constants and of values in the carry, its length and direction."""

    jaxpr: Jaxpr
    num_consts: int
    num_carry: int
    length: Dim
    reverse: bool


def scan_of_rows(scan: ScanOfRows, starts: Mapping[int, int], operands: Sequence[jax.ShapeDtypeStruct]) -> Jaxpr | None:
    """The results of a scan whose body indexes rows by a counter, computed by a scan over these rows; None if it indexes none.

    Args:
      scan: the scan.
      starts: the first values of those values of the carry that are known integers, by their position in the carry.
      operands: the types of its operands.
    """
    if not any(_indexes_rows(eqn) for eqn in open_jaxpr(scan.jaxpr)[0].eqns):
        return None
    flat = dataclasses.replace(scan, jaxpr=_flat(scan.jaxpr))
    found = _RowAccess.from_scan(flat, starts)
    if not found.reads and not found.writes:
        return None
    has_rows = bool(found.reads) or len(operands) > scan.num_consts + scan.num_carry
    if not has_rows and not is_static(scan.length):
        return None  # nothing says to the scan how long it is
    return jax.make_jaxpr(found.compute)(*operands)


def _indexes_rows(eqn: Equation) -> bool:
    inner = plain_call(eqn)
    if inner is None:
        return eqn.primitive.name in _READS | _WRITES
    return any(map(_indexes_rows, open_jaxpr(inner)[0].eqns))


def _flat(jaxpr: Jaxpr) -> Jaxpr:
    """The body with those of its calls in place that index rows."""
    return jax.make_jaxpr(lambda *values: _evaluated(jaxpr, values))(
        *(struct(v.aval) for v in open_jaxpr(jaxpr)[0].invars)
    )


def _evaluated(jaxpr: Jaxpr, values: Sequence[jax.Array]) -> list[jax.Array]:
    inner, consts = open_jaxpr(jaxpr)
    env = dict(zip([*inner.constvars, *inner.invars], [*consts, *values], strict=True))
    for eqn in inner.eqns:
        operands = [value_of(v, env) for v in eqn.invars]
        called = plain_call(eqn) if _indexes_rows(eqn) else None
        results = bind_equation(eqn, operands) if called is None else _evaluated(called, operands)
        env.update(zip(eqn.outvars, results, strict=True))
    return [value_of(v, env) for v in inner.outvars]


@dataclasses.dataclass(frozen=True, eq=False)
class _RowAccess:
    """A scan with the equations of its body that index rows by its counter.

    Attributes:
      scan: the scan.
      reads, writes: the equations.
      counters: the positions in the carry of counters.
    """

    scan: ScanOfRows
    reads: Sequence[_Read]
    writes: Sequence[_Write]
    counters: frozenset[int] = frozenset()

    @staticmethod
    def from_scan(scan: ScanOfRows, starts: Mapping[int, int]) -> _RowAccess:
        inner = open_jaxpr(scan.jaxpr)[0]
        body = LoopBody.analyse(scan.jaxpr, scan.num_consts, scan.num_carry)
        first = scan.num_consts
        counters = {
            inner.invars[first + k]: affine(Affine(starts[k], (), 1, scan.length), ())
            for k in body.counters
            if k in starts
        }
        if not counters or scan.reverse:
            return _RowAccess(scan, [], [])
        indices = IntegersOfJaxpr(scan.jaxpr, counters)
        outside = [*range(first), *(first + k for k in sorted(body.invariant))]
        sources = {inner.invars[i]: i for i in outside}
        carry = {inner.invars[first + k]: k for k in range(scan.num_carry) if k not in body.invariant | body.counters}
        reads = [_read_of(eqn, indices, sources) for eqn in inner.eqns]
        writes = [_write_of(eqn, indices, carry, inner) for eqn in inner.eqns]
        return _RowAccess(
            scan, [x for x in reads if x is not None], [x for x in writes if x is not None], body.counters
        )

    def compute(self, *operands: jax.Array) -> list[jax.Array]:
        """The results of the scan."""
        scan = self.scan
        first, count = scan.num_consts, scan.num_carry
        consts, init, xs = operands[:first], operands[first : first + count], operands[first + count :]
        written = {write.place for write in self.writes}
        equations, counted = self._needed()
        kept = [k for k in range(count) if k not in written | counted]
        rows = [self._rows(operands[read.source], read.axis, read.index) for read in self.reads]
        inner, own = open_jaxpr(scan.jaxpr)
        carried = [inner.invars[first + k] for k in kept]
        outside = dict(zip([*inner.constvars, *inner.invars[:first]], [*own, *consts], strict=True))
        read_rows = [read.eqn.outvars[0] for read in self.reads]

        def step(
            carry: list[jax.Array], row: tuple[list[jax.Array], list[jax.Array]]
        ) -> tuple[list[jax.Array], tuple[list[jax.Array], list[jax.Array]]]:
            shaped = [x.reshape(v.aval.shape) for v, x in zip(read_rows, row[1], strict=True)]
            given = zip([*carried, *inner.invars[first + count :], *read_rows], [*carry, *row[0], *shaped], strict=True)
            env = evaluate(equations, {**outside, **dict(given)})
            new, stacks = (
                [value_of(inner.outvars[k], env) for k in group] for group in (kept, range(count, len(inner.outvars)))
            )
            return new, (stacks, [value_of(write.row, env) for write in self.writes])

        length = None if rows or xs else self._static_length()
        last, (stacks, made) = lax.scan(step, [init[k] for k in kept], (list(xs), rows), length=length)
        final = dict(zip(kept, last, strict=True))
        final |= {k: init[k] + jnp.asarray(scan.length).astype(init[k].dtype) for k in counted}
        for write, stack in zip(self.writes, made, strict=True):
            final[write.place] = self._placed(write, stack, init[write.place])
        return [*(final[k] for k in range(count)), *stacks]

    @property
    def _inner(self) -> jax.extend.core.Jaxpr:
        return open_jaxpr(self.scan.jaxpr)[0]

    def _needed(self) -> tuple[list[Equation], frozenset[int]]:
        """The equations of a step without those that index rows, and the positions in the carry of counters that only these read."""
        gone = self.counters | {write.place for write in self.writes}
        results = [v for k, v in enumerate(self._inner.outvars) if k not in gone] + [write.row for write in self.writes]
        results += [v for eqn in self._inner.eqns if eqn.effects for v in eqn.outvars]
        rows = [read.eqn.outvars[0] for read in self.reads]
        used = read_by(needed(self._inner.eqns, results, rows), results)
        counted = frozenset(k for k in self.counters if self._inner.invars[self.scan.num_consts + k] not in used)
        results += [self._inner.outvars[k] for k in self.counters - counted]
        return needed(self._inner.eqns, results, rows), counted

    def _static_length(self) -> int:
        assert is_static(self.scan.length)
        return int(self.scan.length)

    def _rows(self, array: jax.Array, axis: int, index: Integers) -> jax.Array:
        """The rows that are read, `[T, ...]`, in the order of the steps."""
        begin = index.low
        if not _covers(index, array.shape[axis]):
            array = lax.slice_in_dim(array, begin, begin + self.scan.length, axis=axis)
        rows = jnp.moveaxis(array, axis, 0)
        return rows if index.step > 0 else jnp.flip(rows, 0)

    def _placed(self, write: _Write, stack: jax.Array, init: jax.Array) -> jax.Array:
        """The array after all steps."""
        if stack.ndim > init.ndim:  # the row was written with its axis of size one
            stack = jnp.squeeze(stack, write.axis + 1)
        rows = jnp.moveaxis(stack if write.index.step > 0 else jnp.flip(stack, 0), 0, write.axis)
        if _covers(write.index, init.shape[write.axis]):
            return rows
        begin = write.index.low
        before = lax.slice_in_dim(init, 0, begin, axis=write.axis)
        after = lax.slice_in_dim(init, begin + self.scan.length, init.shape[write.axis], axis=write.axis)
        return jnp.concatenate([before, rows, after], write.axis)


def _read_of(eqn: Equation, indices: IntegersOfJaxpr, sources: Mapping[Var, int]) -> _Read | None:
    """The row that an equation reads of an array from outside the loop; None if it does not."""
    if eqn.primitive.name not in _READS or is_literal(eqn.invars[0]) or eqn.invars[0] not in sources:
        return None
    array, sizes = eqn.invars[0], eqn.params["slice_sizes"]
    if eqn.primitive.name == "dynamic_slice":
        begins = [indices.integers(atom) for atom in eqn.invars[1:]]
    else:
        begins = _along(indices, eqn.invars[1], _gathered(eqn), len(sizes))
    found = _row_of(array.aval.shape, sizes, begins)
    return None if found is None else _Read(eqn, sources[array], *found)


def _along(indices: IntegersOfJaxpr, atom: Atom, axes: Sequence[int] | None, rank: int) -> list[Integers | None]:
    """The index along each of `rank` axes, of which a vector gives those for `axes`; it is zero along the others."""
    vector = indices.integers(atom)
    elements = None if vector is None else elements_of(vector, tuple(atom.aval.shape))
    if axes is None or elements is None:
        return []
    given = dict(zip(axes, elements, strict=True))
    return [given.get(axis, number(0)) for axis in range(rank)]


def _gathered(eqn: Equation) -> Sequence[int] | None:
    """The axes along which a gather of one slice begins at its indices, in their order; None for others."""
    numbers, rank = eqn.params["dimension_numbers"], len(eqn.outvars[0].aval.shape)
    if len(eqn.invars[1].aval.shape) != 1 or numbers.operand_batching_dims or len(numbers.offset_dims) != rank:
        return None
    axes: Sequence[int] = numbers.start_index_map
    return axes


def _write_of(
    eqn: Equation, indices: IntegersOfJaxpr, carry: Mapping[Var, int], inner: jax.extend.core.Jaxpr
) -> _Write | None:
    """The row that an equation writes into an array of the carry that nothing else reads; None if it does not."""
    if eqn.primitive.name not in _WRITES or is_literal(eqn.invars[0]) or eqn.invars[0] not in carry:
        return None
    array, place = eqn.invars[0], carry[eqn.invars[0]]
    used = [v for e in inner.eqns for v in e.invars] + list(inner.outvars)
    if inner.outvars[place] is not eqn.outvars[0] or any(_count(used, v) > 1 for v in (array, eqn.outvars[0])):
        return None
    shape = array.aval.shape
    if eqn.primitive.name == "dynamic_update_slice":
        row, begins = eqn.invars[1], [indices.integers(atom) for atom in eqn.invars[2:]]
        sizes = row.aval.shape
    else:
        row, axes = eqn.invars[2], _scattered(eqn)
        begins = _along(indices, eqn.invars[1], axes, len(shape))
        sizes = _window(eqn, row.aval.shape)
    found = _row_of(shape, sizes, begins)
    return None if found is None else _Write(eqn, place, row, *found)


def _count(among: Sequence[Atom], variable: Var) -> int:
    return sum(v is variable for v in among)


def _scattered(eqn: Equation) -> Sequence[int] | None:
    """The axes along which a scatter that replaces one window begins at its indices, in their order; None for others."""
    numbers, rank = eqn.params["dimension_numbers"], len(eqn.invars[2].aval.shape)
    batched = numbers.operand_batching_dims or len(numbers.update_window_dims) != rank
    if len(eqn.invars[1].aval.shape) != 1 or batched or len(numbers.inserted_window_dims) > 1:
        return None
    if eqn.params["update_jaxpr"] is not None:
        return None
    axes: Sequence[int] = numbers.scatter_dims_to_operand_dims
    return axes


def _window(eqn: Equation, shape: Sequence[Dim]) -> Sequence[Dim]:
    """The sizes of a scatter's window, with those of size one that its updates have no axis for."""
    sizes = list(shape)
    for axis in eqn.params["dimension_numbers"].inserted_window_dims:
        sizes.insert(axis, 1)
    return sizes


def _row_of(
    shape: Sequence[Dim], sizes: Sequence[Dim], begins: Sequence[Integers | None]
) -> tuple[int, Integers] | None:
    """The axis along which a slice is one row at an index that steps by one with the counter, up or down, and that index."""
    moving = [(axis, begin) for axis, begin in enumerate(begins) if begin is not None and begin.step]
    if len(moving) != 1:
        return None
    ((axis, index),) = moving
    if abs(index.step) != 1 or not _equal(sizes[axis], 1) or not index.is_place(shape[axis]):
        return None
    return (axis, index) if all(_others(axis, shape, sizes, begins)) else None


def _others(axis: int, shape: Sequence[Dim], sizes: Sequence[Dim], begins: Sequence[Integers | None]) -> Iterator[bool]:
    for i, (dim, size, begin) in enumerate(zip(shape, sizes, begins, strict=True)):
        if i != axis:
            yield _equal(dim, size) and begin is not None and begin.number is not None and _equal(begin.number, 0)


def _covers(index: Integers, size: Dim) -> bool:
    """Whether the numbers of rows are all places of an axis of that size."""
    return _equal(index.low, 0) and _equal(index.high, size - 1)


def _equal(a: Dim, b: Dim) -> bool:
    return bool(a == b)
