"""The types of JAX that core and plugins speak of; `Any` where JAX says nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import jax
import jax.extend.core
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.facts.dims import Dims

__all__ = ["Atom", "Aval", "Equation", "Function", "Jaxpr", "KeyPath", "KeyPathEntry", "Params", "Primitive", "PyTree", "PyTreeDef", "TraceableAval", "Var"]  # fmt: skip

#: A jaxpr, open or closed; `open_jaxpr` tells the two apart.
Jaxpr: TypeAlias = jax.extend.core.Jaxpr | jax.extend.core.ClosedJaxpr
Equation: TypeAlias = jax.extend.core.JaxprEqn
Primitive: TypeAlias = jax.extend.core.Primitive
Var: TypeAlias = jax.extend.core.Var
#: An operand of an equation: a variable or a literal.
Atom: TypeAlias = jax.extend.core.Var | jax.extend.core.Literal
#: A `jax.core.ShapedArray` or `jax.ShapeDtypeStruct`: an aval that can be traced with and given another shape.
TraceableAval: TypeAlias = jax.ShapeDtypeStruct
PyTreeDef: TypeAlias = jax.tree_util.PyTreeDef
#: One step of the path to a leaf of a pytree, and the whole path.
KeyPathEntry: TypeAlias = jax.tree_util.KeyEntry
KeyPath: TypeAlias = tuple[KeyPathEntry, ...]

#: The parameters of an equation.
Params: TypeAlias = Mapping[str, Any]
#: Arrays, or containers of them that JAX can take apart.
PyTree: TypeAlias = Any
#: A function of arrays or pytrees, written for JAX.
Function: TypeAlias = Callable[..., Any]


class Aval(Protocol):
    """JAX's abstract value of an array: its shape, whose dimensions may be symbolic, and its dtype.

    The dtype is NumPy's, one of `ml_dtypes`, or an extended one of JAX (typed random keys).
    """

    @property
    def shape(self) -> Dims: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def weak_type(self) -> bool: ...
