"""What a batch holds, and what a loss changes and depends on, as a trace of it tells."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import jax
import jax.numpy as jnp
from jax2onnx_core import Jaxpr
from jax2onnx_core.frontend.inputs import parse_inputs
from jax2onnx_core.frontend.python_functions import bound_parameters
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.errors import OptionError

from jax2onnx_training.functions import LossFunction, with_parameters
from jax2onnx_training.options import ExportOptions

__all__ = ["Batch", "changed_variables", "in_precision", "read_inputs"]


def in_precision(options: ExportOptions) -> AbstractContextManager[object]:
    """A context in which JAX makes arrays of 64 bits if the options ask for them, or as JAX is configured if they do not say."""
    wide = options.get("x64")
    return jax.enable_x64(jax.config.jax_enable_x64 if wide is None else wide)


@dataclasses.dataclass(frozen=True)
class Batch:
    """What is in a batch.

    Attributes:
      specifications: as the user gave them.
      names: the names of the user's parameters.
      types: the pytrees of types.
    """

    specifications: Sequence[PyTree]
    names: Sequence[str]
    types: Sequence[PyTree]

    @classmethod
    def from_arguments(
        cls, fn: Function, leading: int, specifications: Sequence[PyTree], keywords: Mapping[str, object], options: ExportOptions
    ) -> Batch:  # fmt: skip
        """A batch as a user's function takes it.

        Args:
          fn: the function.
          leading: how many arguments come before what is in the batch.
          specifications: what is in the batch, as `to_onnx` takes inputs.
          keywords: keyword arguments.
          options: those of `to_onnx`.
        """
        if not isinstance(specifications, Sequence) or isinstance(specifications, str):
            raise OptionError(f"batch is a list with one entry per argument of the loss, not {specifications!r:.80}.")
        names = bound_parameters(fn, leading + len(specifications), keywords)[leading:]
        with in_precision(options):
            parsed = parse_inputs(
                with_parameters(lambda *_: None, names), specifications, {}, options.get("constraints") or ()
            )
        types, _ = jax.tree.unflatten(parsed.tree, parsed.avals)
        return cls(specifications, names, types)

    def stacked(self) -> list[PyTree]:
        """The specifications of several batches, stacked along a first axis, which is `steps` unless another one is."""
        dims = {str(dim) for x in jax.tree.leaves(list(self.types)) for dim in x.shape}
        axis = Names(word for dim in dims for word in re.findall(r"\w+", dim)).unique("steps")

        def stack(x: jax.ShapeDtypeStruct) -> tuple[tuple[str | int, ...], Dtype]:
            return (axis, *(d if isinstance(d, int) else str(d) for d in x.shape)), x.dtype

        return jax.tree.map(stack, list(self.types))

    def first(self, count: int) -> Batch:
        """The first entries of it."""
        return Batch(self.specifications[:count], self.names[:count], self.types[:count])


def changed_variables(loss: LossFunction, batch: Batch, key: jax.Array | None) -> list[str]:
    """The names of the variables that a call of the loss changes, and of those that are random keys.

    Raises:
      OptionError: the loss is no scalar of floating point, or does not depend on all parameters.
    """
    model = loss.model
    changed: list[str] = []

    def traced(parameters: PyTree, variables: PyTree, key: jax.Array | None, *args: PyTree) -> jax.Array:
        value, (_, after) = loss(parameters, variables, key, args)
        changed.extend(name for name, x in after.items() if x is not variables[name] or _is_key(x))
        return value

    given = model.parts.parameters, model.first_variables, key, *batch.types
    jaxpr = jax.make_jaxpr(traced)(*given)
    (out,) = jaxpr.out_avals
    if out.shape or not jnp.issubdtype(out.dtype, jnp.floating):
        raise OptionError(
            f"The loss is {out.str_short()}, but a gradient is that of one number: return a scalar of floating point, such as the mean."
        )
    used = used_inputs(jaxpr)
    if still := [name for name, is_used in zip(model.parameters.names, used, strict=False) if not is_used]:
        raise OptionError(
            f"The loss does not depend on {', '.join(still[:3])}{f' and {len(still) - 3} more' if len(still) > 3 else ''}, which no step would "
            "move. Leave such parameters out by trained=…, or let the loss use them."
        )
    return changed


def _is_key(array: jax.Array) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def read_inputs(fn: Function, args: Sequence[PyTree]) -> list[bool]:
    """Whether the result of a function depends on each leaf of its arguments."""
    return used_inputs(jax.make_jaxpr(fn)(*args))


def used_inputs(jaxpr: Jaxpr) -> list[bool]:
    """Whether each input of a jaxpr is read by an equation on the way to its results."""
    live = {id(atom) for atom in jaxpr.jaxpr.outvars}
    for equation in reversed(jaxpr.jaxpr.eqns):
        if equation.effects or any(id(var) in live for var in equation.outvars):
            live |= {id(atom) for atom in equation.invars}
    return [id(var) in live for var in jaxpr.jaxpr.invars]
