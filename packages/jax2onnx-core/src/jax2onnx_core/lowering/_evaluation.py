"""`evaluate`: the results of the equations of a function, one after another in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax

from jax2onnx_core import _compat, _compat_options
from jax2onnx_core.frontend.sizes import size_p
from jax2onnx_core.jax_types import Atom, Equation, Jaxpr
from jax2onnx_core.jaxprs import Dim, bind_primitive, is_literal, open_jaxpr, scan_counts
from jax2onnx_core.lowering._lowered_equations import LoweredEquation, LoweredJaxpr
from jax2onnx_core.symbols._specialize import specialized_aval, specialized_equation
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["Visit", "evaluate"]

#: Called for each lowered equation with its results.
Visit = Callable[[LoweredEquation, Sequence[jax.Array]], None]


def evaluate(
    jaxpr: Jaxpr, operands: Sequence[jax.Array], lowered: LoweredJaxpr, visit: Visit, symbols: Symbols
) -> list[jax.Array]:
    """Evaluate a jaxpr equation by equation.

    Args:
      jaxpr: the jaxpr, whose only symbols are sizes from data.
      operands: the arrays for its variables.
      lowered: what became of its equations.
      visit: called for each lowered equation with its results.
      symbols: the symbols of the export.

    Returns:
      The results of the jaxpr.
    """
    return _Evaluation(visit, symbols).of_jaxpr(jaxpr, operands, lowered)


class _Evaluation:
    """The evaluation of a function, in which each size from data becomes a number when its equation is reached."""

    def __init__(self, visit: Visit, symbols: Symbols) -> None:
        self._visit, self._symbols = visit, symbols
        self._sizes: dict[str, int] = {}

    def of_jaxpr(
        self, jaxpr: Jaxpr, operands: Sequence[jax.Array], lowered: LoweredJaxpr | None = None
    ) -> list[jax.Array]:
        """The results of a jaxpr, of whose equations `lowered` says what became of them in the main graph."""
        inner, consts = open_jaxpr(_compat.without_references(jaxpr))
        env = dict(zip((*inner.constvars, *inner.invars), (*consts, *operands), strict=True))

        def read(atom: Atom) -> jax.Array:
            return atom.val if is_literal(atom) else env[atom]

        for index, eqn in enumerate(inner.eqns):
            arrays = [read(v) for v in eqn.invars]
            equation = None if lowered is None else lowered.equations.get(index)
            if equation is not None and equation.call is not None:
                name, places, call = equation.call
                results = self.of_jaxpr(eqn.params[name], [arrays[i] for i in places], call)
            else:
                results = [*self._results(eqn, arrays)]
                if equation is not None:
                    self._visit(equation, results)
            env.update(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in inner.outvars]

    def _results(self, eqn: Equation, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        if eqn.primitive is size_p:
            return self._solve(arrays[0], **eqn.params)
        if _compat.defines_sizes(eqn):
            inside = {_compat.scan_p: self._scan, _compat.while_p: self._while, _compat.cond_p: self._cond}
            return inside.get(eqn.primitive, self._call)(eqn, arrays)
        if self._sizes:
            eqn = specialized_equation(eqn, self._symbols, self._sizes)
            arrays = arrays or [v.val for v in eqn.invars]  # a size as a value is a number now
        with _compat_options.options_of(eqn):
            return bind_primitive(eqn.primitive, eqn.params, *arrays)

    def _solve(self, x: jax.Array, *, size: Dim, axis: int | None, **_: object) -> Sequence[jax.Array]:
        (found,) = self._symbols.sizes_in([size])
        self._sizes[found.name] = int(x) if axis is None else x.shape[axis]
        return ()

    # -- equations that hold equations which give sizes ----------------------------------------

    def _call(self, eqn: Equation, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """An equation that stands for those of its jaxpr, whose operands are the last ones."""
        (jaxpr, *_) = _compat.inner_jaxprs(eqn)
        return self.of_jaxpr(jaxpr, arrays[len(arrays) - len(open_jaxpr(jaxpr)[0].invars) :])

    def _cond(self, eqn: Equation, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        index, *operands = arrays
        branches = eqn.params["branches"]
        return self.of_jaxpr(branches[min(max(int(index), 0), len(branches) - 1)], operands)

    def _while(self, eqn: Equation, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        of_cond, of_body, carry = arrays[:first], arrays[first : first + second], arrays[first + second :]
        while self.of_jaxpr(eqn.params["cond_jaxpr"], [*of_cond, *carry])[0]:
            carry = self.of_jaxpr(eqn.params["body_jaxpr"], [*of_body, *carry])
        return carry

    def _scan(self, eqn: Equation, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        num_consts, num_carry = scan_counts(eqn.params, len(arrays))
        consts, carry = arrays[:num_consts], arrays[num_consts : num_consts + num_carry]
        xs = arrays[num_consts + num_carry :]
        stacked = [specialized_aval(v.aval, self._symbols, self._sizes) for v in eqn.outvars[num_carry:]]
        length = specialized_equation(eqn, self._symbols, self._sizes).params["length"]
        rows: list[Sequence[jax.Array]] = []
        for i in range(length):
            found = self.of_jaxpr(eqn.params["jaxpr"], [*consts, *carry, *(x[_place(i, length, eqn)] for x in xs)])
            carry = found[:num_carry]
            rows.append(found[num_carry:])
        ordered = rows[::-1] if eqn.params["reverse"] else rows
        ys = [jax.numpy.stack([row[k] for row in ordered]) for k in range(len(stacked) if rows else 0)]
        return [*carry, *(ys or [jax.numpy.zeros(tuple(map(int, aval.shape)), aval.dtype) for aval in stacked])]


def _place(i: int, length: int, eqn: Equation) -> int:
    return length - 1 - i if eqn.params["reverse"] else i
