"""Input specifications: what users write for the inputs, made into avals of one symbolic scope."""

from __future__ import annotations

import dataclasses
import functools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

import jax
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.names import Names, new_names
from jax2onnx_graph.labels import symbols_in
from jax2onnx_runtime.sizes import SymbolSpace

from jax2onnx_core import _compat, _compat_dims
from jax2onnx_core.frontend._pytrees import is_too_deep, path_name, place
from jax2onnx_core.frontend._specs import Spec, read_spec
from jax2onnx_core.frontend._state_shapes import StateShapes
from jax2onnx_core.frontend.layouts import NO_LAYOUTS, GivenLayouts, Layouts
from jax2onnx_core.frontend.python_functions import bound_parameters
from jax2onnx_core.jax_types import Aval, Function, KeyPath, PyTree, PyTreeDef
from jax2onnx_core.jaxprs import Dim, is_static
from jax2onnx_core.plugins.errors import ExportWarning, InputError
from jax2onnx_core.symbols._solve import DimSolution
from jax2onnx_core.symbols.symbols import Symbols, evaluate_dim

__all__ = ["Inputs", "parse_inputs"]

_NOT_A_SYMBOL = re.compile(r"[^A-Za-z0-9_]")


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The flat inputs of an export.

    `names[i]`, `avals[i]` (a `ShapeDtypeStruct`, dimensions of `symbols.scope`) for each leaf of the
    pytree `tree`, which describes `(args, kwargs)`; `default_names` are those of the parameters, where users gave others;
    `layouts` are those of the model where they differ from the avals.
    """

    names: list[str]
    avals: list[jax.ShapeDtypeStruct]
    tree: PyTreeDef
    symbols: Symbols
    default_names: Sequence[str] = ()
    layouts: Layouts = NO_LAYOUTS

    def renamed(self, names: Sequence[str] | Mapping[str, str] | None, apart_from: Iterable[str] = ()) -> Inputs:
        """The inputs with the names that the user gave, if any; see `new_names`, which raises OptionError where they do not fit."""
        if names is None:
            return self
        new = new_names("input_names", names, self.names, apart_from=apart_from)
        return dataclasses.replace(self, names=[new.get(name, name) for name in self.names], default_names=self.names)

    def with_layouts(self, given: GivenLayouts | None) -> Inputs:
        """The inputs with the layouts that the user gave, if any; see `Layouts.read`."""
        layouts = Layouts.read("input", given, self.names, [aval.shape for aval in self.avals])
        return dataclasses.replace(self, layouts=layouts)

    def with_constraints(self, texts: Iterable[str]) -> Inputs:
        """The inputs with further constraints on their symbols."""
        return dataclasses.replace(self, symbols=self.symbols.with_constraints(texts))

    def with_fixed(self, values: Mapping[str, int]) -> Inputs:
        """The inputs with the numbers of symbols, which their shapes have already, in the constraints on other symbols."""
        return dataclasses.replace(self, symbols=self.symbols.with_fixed(values))

    @property
    def final_names(self) -> dict[str, str]:
        """Default name → name."""
        return dict(zip(self.default_names or self.names, self.names, strict=True))

    @functools.cached_property
    def solution(self) -> DimSolution:
        """Formulas of the symbols' values in the shapes of the inputs. Raises SymbolError where a symbol has none."""
        return DimSolution(self.names, self.avals, self.symbols)

    def space(self, results: Sequence[Aval] = ()) -> SymbolSpace:
        """The sizes that the symbols may have, with the inputs of the model and `results` of the function."""
        symbols = self.symbols

        def evaluate(dim: Dim | str, sizes: Mapping[str, int]) -> int:
            return evaluate_dim(symbols.parse(dim) if isinstance(dim, str) else dim, symbols.traced_values(sizes))

        inputs = [*map(self.layouts.arranged, self.names, [aval.shape for aval in self.avals])]
        names = symbols.names([d for shape in inputs for d in shape])
        others = [[dim for dim in aval.shape if not symbols.sizes_in([dim])] for aval in results]
        constraints = [constraint.text for constraint in symbols.constraints]
        return SymbolSpace(
            names, symbols.minimum, symbols.check_constraints, evaluate, symbols.label, inputs, others, constraints
        )


def _is_one_shape(specs: Sequence[PyTree]) -> bool:
    """Whether the specifications are the dimensions of one array, with a symbol among them."""
    if len(specs) == 1 and not isinstance(specs, tuple):
        return False
    return any(isinstance(spec, str) for spec in specs) and all(isinstance(spec, (str, int)) for spec in specs)


def parse_inputs(
    fn: Function, specs: Sequence[PyTree], kwargs: Mapping[str, PyTree], constraints: Sequence[str],
    reserved: Iterable[str] = (), states: Mapping[str, PyTree] | None = None, state_shapes: StateShapes | None = None,
) -> Inputs:  # fmt: skip
    """Read `to_onnx`'s `inputs`, `kwargs` and `constraints`.

    Args:
      fn: the callable whose parameters name the inputs.
      specs: one entry per positional argument, a pytree whose leaves are shapes `("B", 28, None)` (of JAX's default float
        dtype), pairs `(shape, dtype)`, anything with `shape` and `dtype`, or Python scalars.
      kwargs: the same by keyword.
      constraints: what is known of the symbols: `"T >= 2"`.
      reserved: names that no input gets.
      states: further keyword arguments, which the function does not have.
      state_shapes: shapes that inputs which are states have, in place of the specified ones.

    Raises:
      InputError: a specification is none of these, or the function cannot be called with them.
      SymbolError: a dimension or a constraint makes no sense.
    """
    if isinstance(specs, (str, bytes, Mapping)) or not isinstance(specs, Sequence) or _is_one_shape(specs):
        raise InputError(
            f"inputs must be a list with one entry per positional argument, not {specs!r}. "
            "For one input of shape (B, 4) write [('B', 4)]."
        )
    if is_too_deep(*specs, *kwargs.values()):
        raise InputError("The inputs are nested more than 100 deep, or one of them contains itself.")
    read = (tuple(read_spec(s, f"inputs[{i}]") for i, s in enumerate(specs)),
            {k: read_spec(s, f"kwargs[{k!r}]") for k, s in {**kwargs, **(states or {})}.items()})  # fmt: skip
    found, tree = jax.tree_util.tree_flatten_with_path(read, is_leaf=lambda x: isinstance(x, Spec))
    leaves = [(path, x if isinstance(x, Spec) else read_spec(x, place(path, "inputs"))) for path, x in found]
    parameters = bound_parameters(fn, len(specs), kwargs)
    taken = Names(reserved)
    names = [taken.unique(_leaf_name(path, parameters)) for path, _ in leaves]
    if state_shapes is not None:
        positions = [path[1].idx if path[0].idx == 0 else None for path, _ in leaves]
        shaped = state_shapes.applied(zip(names, positions, [spec for _, spec in leaves], strict=True))
        leaves = [(path, spec) for (path, _), spec in zip(leaves, shaped, strict=True)]
    symbols = Symbols(constraints, _given_scope(spec for _, spec in leaves))
    anonymous = Names(symbols_in(" ".join(d for _, spec in leaves for d in spec.shape if isinstance(d, str))))
    avals = [_aval(spec, name, symbols, anonymous) for name, (_, spec) in zip(names, leaves, strict=True)]
    symbols.check_known()
    for aval, (_, spec) in zip(avals, leaves, strict=True):
        if spec.is_explicit and aval.dtype != spec.dtype:
            message = f"{spec.where}: {spec.dtype} becomes {aval.dtype}; to_onnx(..., x64=True) keeps types of 64 bits."
            warnings.warn(message, ExportWarning, stacklevel=3)
    return Inputs(names, avals, tree, symbols)


def _given_scope(specs: Iterator[Spec]) -> jax.export.SymbolicScope | None:
    scopes = {
        id(s): s
        for spec in specs
        for d in spec.shape
        if _compat_dims.is_symbolic_dim(d)
        for s in [_compat_dims.scope_of(d)]
    }
    if len(scopes) > 1:
        raise InputError(
            "The inputs carry symbolic dimensions of several scopes; create them with one jax.export.symbolic_shape "
            "call or pass scope= to the others."
        )
    return next(iter(scopes.values()), None)


def _aval(spec: Spec, name: str, symbols: Symbols, anonymous: Names) -> jax.ShapeDtypeStruct:
    """The aval of an input; its dimensions without a name get one that is not in `anonymous` yet."""
    named = [
        anonymous.unique(_NOT_A_SYMBOL.sub("_", f"{name}_dim{axis}")) if d is None else d
        for axis, d in enumerate(spec.shape)
    ]
    for dim in filter(_compat_dims.is_symbolic_dim, named):
        symbols.take(dim)
    shape = tuple(symbols.parse(d) if isinstance(d, str) else int(d) if is_static(d) else d for d in named)
    for d in shape:
        if is_static(d) and not 0 <= d < 2**63:
            wrong = "is negative; name it to make it dynamic" if d < 0 else "is more than an array can have, 2**63 - 1"
            raise InputError(f"{spec.where}: the dimension {d} of the shape {spec.shape} {wrong}.")
    return jax.ShapeDtypeStruct(shape, _dtype(spec), weak_type=spec.weak_type, sharding=spec.sharding)


def _dtype(spec: Spec) -> Dtype:
    """The dtype that JAX traces with."""
    try:
        return _compat.traceable_dtype(spec.dtype)
    except (TypeError, ValueError):
        raise InputError(
            f"{spec.where}: JAX has no dtype {spec.dtype}; give another one, for instance with .astype('float32')."
        ) from None


def _leaf_name(path: KeyPath, parameters: list[str]) -> str:
    which, key, *rest = path
    head = parameters[key.idx] if which.idx == 0 else key.key
    return ".".join([head, *filter(None, [path_name(rest)])])
