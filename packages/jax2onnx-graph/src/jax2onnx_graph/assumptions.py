"""`Assumption`: promises of the user about the numbers in a model, so that it may leave out nodes that only other numbers need."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.options import check_list

__all__ = ["Assumption", "parse_assumptions"]


class Assumption(enum.Enum):
    """A promise about the numbers in a model; its value is its name in `to_onnx(..., assume=[...])`."""

    FINITE = "finite"
    """No floating-point number is NaN or infinite, neither among the inputs and weights nor in between, and no result depends on
    the sign of a zero.

    Infinities that the function itself writes as constants, to mask what is not to count, may be among the numbers and keep their
    meaning: a key that is hidden by minus infinity has no weight, the maximum of a row that is masked in part is that of the rest.
    But what is computed of nothing but masks breaks the promise: the softmax of a row in which everything is masked is NaN, its
    maximum is infinite.
    """


def parse_assumptions(given: Sequence[str | Assumption] | None) -> frozenset[Assumption]:
    """The assumptions that the option `assume` names: texts such as "finite", or members of `Assumption`.

    Raises:
      OptionError: there is no such assumption, or it is no list.
    """
    if isinstance(given, str):
        raise OptionError(f"assume is a list of assumptions: write assume=[{given!r}].")
    check_list("assume", given, "assumptions such as 'finite'")
    known = {assumption.value: assumption for assumption in Assumption}
    found = set[Assumption]()
    for one in given or ():
        assumption = one if isinstance(one, Assumption) else known.get(one) if isinstance(one, str) else None
        if assumption is None:
            raise OptionError(f"assume: there is no assumption {one!r:.80}; there are: {', '.join(map(repr, known))}.")
        found.add(assumption)
    return frozenset(found)
