"""`parted`: a jaxpr in two parts, the first of which computes the last result."""

from __future__ import annotations

from jax2onnx_core import Jaxpr
from jax2onnx_core.jaxprs import open_jaxpr

from jax2onnx_lax._called import is_batchable
from jax2onnx_lax._equations import jaxpr_of, needed, read_by

__all__ = ["parted"]


def parted(jaxpr: Jaxpr) -> tuple[Jaxpr, Jaxpr] | None:
    """The part that computes the last result, and the rest, which computes the others; None where the last result takes a loop.

    The results of the first part are what the second one reads of it, then the last result; the operands of the second part are those
    of the jaxpr, then what it reads.
    """
    inner, arrays = open_jaxpr(jaxpr)
    *others, last = inner.outvars
    first = needed(inner.eqns, [last])
    if not all(map(is_batchable, first)):
        return None
    made = {v for eqn in first for v in eqn.outvars}
    rest = [eqn for eqn in needed(inner.eqns, others) if not made.issuperset(eqn.outvars)]
    read = [v for v in read_by(rest, others) if v in made]
    constants = dict(zip(inner.constvars, arrays, strict=True))
    return (
        jaxpr_of(first, inner.invars, [*read, last], constants),
        jaxpr_of(rest, [*inner.invars, *read], others, constants),
    )
