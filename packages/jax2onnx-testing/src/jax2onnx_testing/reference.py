"""`Reference`: the results of JAX, with which every test compares."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import jax
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.lowering.physical import physical_array
from jax2onnx_graph.arrays import Array

from jax2onnx_testing._compat import QUICK_COMPILATION, WHOLE_COMPILATION

__all__ = ["COMPILER_OPTIONS", "WHOLE_COMPILER_OPTIONS", "Reference"]

# Rounding stays where the dtypes of the program put it.
_EXACT = {"xla_allow_excess_precision": False}
#: Compiling dominates the time of a test.
COMPILER_OPTIONS = {**QUICK_COMPILATION, **_EXACT}
#: For what the quick options lack, as a clamp of complex numbers, or get wrong, as conversions to rare types.
WHOLE_COMPILER_OPTIONS = {**WHOLE_COMPILATION, **_EXACT}


class Reference:
    """A function evaluated by JAX: compiled, or equation by equation where it cannot be compiled.

    A model that changes its own state (a random stream, running statistics) cannot be compiled as a closure; each call
    begins with the state that it has now.
    """

    def __init__(self, fn: Function) -> None:
        self._eager = fn
        self._quick, self._whole = (
            jax.jit(lambda calls: [fn(*args, **kwargs) for args, kwargs in calls], compiler_options=options)
            for options in (COMPILER_OPTIONS, WHOLE_COMPILER_OPTIONS)
        )

    def __call__(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> list[Array]:
        """The flat results as physical arrays: a trailing axis of 2 for complex numbers, the words of keys."""
        return self.of_calls([(args, kwargs)])[0]

    def of_calls(self, calls: Sequence[tuple[Sequence[PyTree], Mapping[str, PyTree]]]) -> list[list[Array]]:
        """The results of calls with these `(args, kwargs)`, compiled as one program: many small ones take far longer."""
        # Each framework has errors of its own for a change of state while compiling; any other error is raised
        # again by the evaluation without compiling.
        try:
            results = self._quick(calls)
        except jax.errors.JaxRuntimeError:
            results = self._whole(calls)
        except Exception:  # noqa: BLE001
            results = [copy.deepcopy(self._eager)(*args, **kwargs) for args, kwargs in calls]
        return list(map(_flat, results))

    def evaluated(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> list[Array]:
        """The flat results, evaluated operation by operation."""
        return _flat(self._eager(*args, **kwargs))


def _flat(result: PyTree) -> list[Array]:
    return [physical_array(jax.numpy.asarray(x)) for x in jax.tree_util.tree_leaves(result)]
