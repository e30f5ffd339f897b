"""`cells`: the cells of ONNX's recurrent operators that the body of a Scan is, in whatever order its sums are written."""

from __future__ import annotations

__all__ = ["Cell", "cells"]

import contextlib
import dataclasses
from collections.abc import Hashable, Iterator, Mapping

from jax2onnx_lax.recurrence._affine import Affine, Leaf
from jax2onnx_lax.recurrence._cell_bodies import CellBody
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._formulas import ONE, Atom, Formula, Monomial

_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}

#: The activations that the operators have.
_KNOWN = frozenset({"Sigmoid", "Tanh", "Relu"})

#: A polynomial in activations with numbers for coefficients.
_Numbers = Mapping[Monomial, float]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One step of a recurrent operator.

    Attributes:
      activations: by ONNX's names, in ONNX's order.
      states: the numbers of the Scan's states in the order of the operator's outputs: the hidden state, then the cell.
      gates: the arguments of the gates' activations, in ONNX's order: i, o, f, c of an LSTM; z, r, h of a GRU.
      inner: the part that the reset gate of a GRU multiplies, if that is a product with the recurrent weights.
      gated: the product of reset gate and hidden state, if the recurrent weights multiply that.
    """

    op_type: str
    activations: tuple[str, ...]
    states: tuple[int, ...]
    gates: tuple[Affine, ...]
    inner: Affine | None = None
    gated: Hashable = None

    @property
    def unusual_activations(self) -> tuple[str, ...] | None:
        """The activations; None where they are the defaults of the operator."""
        return None if self.activations == _USUAL[self.op_type] else self.activations


def cells(body: CellBody) -> Iterator[Cell]:
    """All cells that the body is."""
    candidates = {1: [_simple(body), _gru(body)], 2: [_lstm(body, 0, 1), _lstm(body, 1, 0)]}
    for found in candidates.get(len(body.before), []):
        with contextlib.suppress(UnsuitableError):  # it is not this cell, but may be another
            yield from (cell for cell in found if _KNOWN.issuperset(cell.activations))


def _lstm(body: CellBody, hidden: int, cell: int) -> Iterator[Cell]:
    """c ← f·c + i·g; h ← o·tanh(c)."""
    after = body.after[cell]
    kept, new = _parts(after, body.before[cell])
    numbers = _only_numbers(body.after[hidden])
    forget = _gate(kept)
    for activated, out in _gated(numbers):
        for candidate, gate in _gated(new):
            argument = candidate.argument.affine
            if activated.argument == after and forget is not None and argument is not None:
                names = "Sigmoid", candidate.op_type, activated.op_type
                yield Cell("LSTM", names, (hidden, cell), (gate, out, forget, argument))


def _simple(body: CellBody) -> Iterator[Cell]:
    """h ← tanh(n)."""
    atom = _single(_only_numbers(body.after[0]))
    if atom is not None and atom.argument.affine is not None:
        yield Cell("RNN", (atom.op_type,), (0,), (atom.argument.affine,))


def _gru(body: CellBody) -> Iterator[Cell]:
    """h ← (1 - z)·n + z·h."""
    kept, new = _parts(body.after[0], body.before[0])
    update = _gate(kept)
    for candidate, gate in _gated(new):
        if update is not None and gate.key == (update * -1).key:
            names = "Sigmoid", candidate.op_type
            yield from _reset_before(body, names, update, candidate.argument)
            yield from _reset_after(body, names, update, candidate.argument)


def _reset_before(body: CellBody, names: tuple[str, ...], update: Affine, argument: Formula) -> Iterator[Cell]:
    """The recurrent weights multiply r·h in the argument of the candidate."""
    if argument.affine is None:
        return
    for gated in argument.affine.matrices():
        if isinstance(gated, Formula):
            reset = _gate(_parts(gated, body.before[0])[0])
            if reset is not None and gated == Formula.activation("Sigmoid", Formula.from_affine(reset)) * body.row(0):
                yield Cell("GRU", names, (0,), (update, reset, argument.affine), gated=gated)


def _reset_after(body: CellBody, names: tuple[str, ...], update: Affine, argument: Formula) -> Iterator[Cell]:
    """r multiplies a product with the recurrent weights in the argument of the candidate."""
    plain = argument.terms.get(ONE)
    for monomial, inner in argument.terms.items():
        reset = _gate({monomial: 1.0})
        if plain is not None and reset is not None and len(argument.terms) == 2:
            yield Cell("GRU", names, (0,), (update, reset, plain), inner=inner)


def _parts(formula: Formula, state: Leaf) -> tuple[_Numbers, _Numbers]:
    """a and b where the formula is a · state + b, and both have numbers for coefficients."""
    parts: tuple[dict[Monomial, float], dict[Monomial, float]] = {}, {}
    for monomial, coefficient in formula.terms.items():
        multiple, number = coefficient.multiple_of(state), coefficient.number()
        if multiple is None and number is None:
            raise UnsuitableError("activations are multiplied with something that is neither the state nor a number")
        if multiple is not None:
            parts[0][monomial] = multiple
        elif number is not None:
            parts[1][monomial] = number
    return parts


def _only_numbers(formula: Formula) -> _Numbers:
    """The polynomial that a formula is, whose coefficients are numbers."""
    numbers = {
        monomial: number for monomial, affine in formula.terms.items() if (number := affine.number()) is not None
    }
    if len(numbers) < len(formula.terms):
        raise UnsuitableError("activations are multiplied with something that is not a number")
    return numbers


def _single(numbers: _Numbers) -> Atom | None:
    """The activation that a polynomial is."""
    ((monomial, number),) = numbers.items() if len(numbers) == 1 else [(ONE, 0.0)]
    atoms = [atom for atom, power in monomial if power == 1]
    return atoms[0] if number == 1 and len(monomial) == len(atoms) == 1 else None


def _gate(numbers: _Numbers) -> Affine | None:
    """x where the polynomial is σ(x), which 1 - σ(-x) is too."""
    rest = {monomial: number for monomial, number in numbers.items() if monomial != ONE}
    sign = 1 if ONE not in numbers else -1
    if numbers.get(ONE, 1) != 1:
        return None
    atom = _single({monomial: number * sign for monomial, number in rest.items()})
    if atom is None or atom.op_type != "Sigmoid" or atom.argument.affine is None:
        return None
    return atom.argument.affine * sign if sign < 0 else atom.argument.affine


def _gated(numbers: _Numbers) -> Iterator[tuple[Atom, Affine]]:
    """All pairs of an activation and a gate's argument of which the polynomial is the product."""
    for atom in dict.fromkeys(atom for monomial in numbers for atom, _ in monomial):
        if all((atom, 1) in monomial for monomial in numbers):
            gate = _gate({monomial - {(atom, 1)}: number for monomial, number in numbers.items()})
            if gate is not None:
                yield atom, gate
