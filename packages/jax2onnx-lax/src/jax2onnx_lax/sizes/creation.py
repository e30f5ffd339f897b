"""Arrays whose sizes are numbers that the function computes: `zeros(n)`, `arange(n)`, `reshape`, `one_hot`."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import Composites, Dim, Replacement
from jax2onnx_core.frontend.sizes import exact_fraction, is_from_data, is_number_from_data, once, size_of
from jax2onnx_core.jaxprs import is_positive, is_symbolic_dim

from jax2onnx_lax._compat import max_dim
from jax2onnx_lax.sizes.resized import resized

__all__ = ["SIZES", "composites", "dims_from_data", "has_numbers_from_data"]

composites = Composites()

#: Functions → their parameters that are sizes, or tuples of them.
SIZES = {
    "jax.numpy:zeros": ("shape",),
    "jax.numpy:ones": ("shape",),
    "jax.numpy:full": ("shape",),
    "jax.numpy:empty": ("shape",),
    "jax.numpy:zeros_like": ("shape",),
    "jax.numpy:ones_like": ("shape",),
    "jax.numpy:full_like": ("shape",),
    "jax.numpy:logspace": ("num",),
    "jax.numpy:geomspace": ("num",),
    "jax.numpy:indices": ("dimensions",),
    "jax.numpy:diag_indices": ("n",),
    "jax.numpy.fft:fftfreq": ("n",),
    "jax.random:split": ("num",),
    "jax.numpy:eye": ("N", "M"),
    "jax.numpy:identity": ("n",),
    "jax.numpy:tri": ("N", "M"),
    "jax.numpy:broadcast_to": ("shape",),
    "jax.numpy:tile": ("reps",),
    "jax.nn:one_hot": ("num_classes",),
    "jax.ops:segment_sum": ("num_segments",),
    "jax.ops:segment_prod": ("num_segments",),
    "jax.ops:segment_max": ("num_segments",),
    "jax.ops:segment_min": ("num_segments",),
}


def has_numbers_from_data(value: object) -> bool:
    """Whether a value is a number that only a run of the model knows, or a tuple or list with such a number."""
    if isinstance(value, tuple | list):
        return any(map(has_numbers_from_data, value))
    return is_number_from_data(value)


def dims_from_data(value: object, operation: str, most: Dim | None = None) -> object:
    """The value, in which numbers that only a run of the model knows are dimensions."""
    if isinstance(value, tuple | list):
        return tuple(dims_from_data(one, operation, most) for one in value)
    return size_of(value, operation, most=most) if is_number_from_data(value) else value


def _declare(claimed: str, names: tuple[str, ...]) -> None:
    """Let calls of a function have sizes from data as these arguments."""
    module, _, function = claimed.partition(":")

    def call(*args: object, **kwargs: object) -> Replacement | None:
        if not (any(map(has_numbers_from_data, args)) or any(map(has_numbers_from_data, kwargs.values()))):
            return None
        fn: Callable[..., object] = vars(sys.modules[module])[function]
        bound = inspect.signature(fn).bind(*args, **kwargs)
        sizes = {name: bound.arguments[name] for name in names if has_numbers_from_data(bound.arguments.get(name))}
        bound.arguments.update({name: dims_from_data(value, function) for name, value in sizes.items()})
        return Replacement(fn(*bound.args, **bound.kwargs)) if sizes else None

    call.__name__ = call.__qualname__ = function
    composites.call(claimed, name=claimed.replace(":", "."), is_required=True)(call)


for _claimed, _names in SIZES.items():
    _declare(_claimed, _names)


@composites.call("jax.numpy:reshape", name="jax.numpy.reshape", is_required=True)
def reshape(a: jax.Array, shape: object, order: str = "C", **options: object) -> Replacement | None:
    if not has_numbers_from_data(shape) or order != "C":
        return None
    return Replacement(_reshaped(jnp.asarray(a), shape if isinstance(shape, tuple | list) else (shape,)))


@composites.call("jax._src.numpy.array_methods:_reshape", name="jax.numpy.reshape", is_required=True)
def reshape_method(self: jax.Array, *args: object, order: str = "C", **options: object) -> Replacement | None:
    return reshape(self, args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args, order)


def _reshaped(x: jax.Array, shape: Sequence[object]) -> jax.Array:
    """The array in another shape, which has as many elements only if the numbers are right, as a run of the model finds out."""
    dims = dims_from_data(shape, "reshape")
    assert isinstance(dims, tuple), "a shape"
    known = [dim for dim in dims if not (isinstance(dim, int) and dim == -1)]
    if len(known) < len(dims):
        (number,) = [one for one in shape if is_number_from_data(one)][:1]
        product = jnp.asarray(math.prod(known))
        rest = once(number, f"rest of {x.size} for {dims}", lambda: jnp.asarray(x.size) // jnp.maximum(product, 1))
        dims = tuple(size_of(rest, "reshape") if isinstance(dim, int) and dim == -1 else dim for dim in dims)
    return resized(x, dims)


@composites.call("jax.random:choice", name="jax.random.choice", is_required=True)
def choice(key: jax.Array, a: jax.Array | int, *args: object, **kwargs: object) -> Replacement | None:
    """Draws from the numbers up to one that is no fixed number; from none of them JAX draws none."""
    if not is_number_from_data(a):
        return None
    return Replacement(jax.random.choice(key, size_of(a, "choice", least=1), *args, **kwargs))


@composites.call("jax.lax:top_k", name="jax.lax.top_k", is_required=True)
def top_k(operand: jax.Array, k: jax.Array | int, *, axis: int = -1, **options: object) -> Replacement | None:
    if not is_number_from_data(k):
        return None
    return Replacement(jax.lax.top_k(operand, size_of(k, "top_k", most=operand.shape[axis]), axis=axis, **options))


@composites.call("jax.numpy:linspace", name="jax.numpy.linspace", is_required=True)
def linspace(
    start: jax.Array, stop: jax.Array, num: jax.Array | Dim = 50, endpoint: bool = True, retstep: bool = False,
    dtype: object = None, axis: int = 0, **options: object,
) -> Replacement | None:  # fmt: skip
    if is_number_from_data(num):
        num = size_of(num, "linspace")
    if not is_symbolic_dim(num) or is_positive(num - 1):
        return None
    first, last = jnp.asarray(start), jnp.asarray(stop)
    real = jnp.result_type(first, last, float)
    first, last = (x.astype(real)[..., None] for x in jnp.broadcast_arrays(first, last))
    places, steps = jnp.arange(num), jnp.maximum(jnp.asarray(num) - int(bool(endpoint)), 1)
    part = places.astype(real) / steps.astype(real)
    found = first * (1 - part) + last * part
    found = jnp.where(places == steps, last, found)
    found = jnp.moveaxis(found, -1, axis)
    found = (
        jnp.floor(found).astype(dtype)
        if dtype is not None and jnp.issubdtype(dtype, jnp.integer)
        else found.astype(dtype or real)
    )
    step = jnp.where(jnp.asarray(num) > int(bool(endpoint)), (last - first) / steps.astype(real), jnp.nan)[..., 0]
    return Replacement((found, step) if retstep else found)


@composites.call("jax.numpy.fft:rfftfreq", name="jax.numpy.fft.rfftfreq", is_required=True)
def rfftfreq(
    n: jax.Array | Dim, d: jax.Array | float = 1.0, *, dtype: jax.typing.DTypeLike | None = None, **options: object
) -> Replacement | None:
    """JAX takes a symbolic length for an odd one."""
    if not _has_size(n):
        return None
    size = size_of(n, "rfftfreq") if is_number_from_data(n) else n
    dtype = dtype or jnp.asarray(0.0).dtype
    return Replacement(jnp.arange(size // 2 + 1, dtype=dtype) / jnp.asarray(d * jnp.asarray(size), dtype=dtype))


@composites.call("jax.numpy:arange", name="jax.numpy.arange", is_required=True)
def arange(
    start: jax.Array | Dim, stop: jax.Array | Dim | None = None, step: jax.Array | Dim | None = None,
    dtype: object = None, **options: object,
) -> Replacement | None:  # fmt: skip
    first, last = (0, start) if stop is None else (start, stop)
    known = _between_dims(first, last, 1 if step is None else step, dtype)
    if known is not None or not any(is_from_data(one) and not one.shape for one in (first, last, step)):
        return known
    if step is None and not is_from_data(first) and not is_symbolic_dim(first) and first == 0:
        count = jnp.asarray(last)
        count = count if jnp.issubdtype(count.dtype, jnp.integer) else jnp.ceil(count).astype(int)
        return Replacement(jnp.arange(size_of(count, "arange"), dtype=dtype or jnp.asarray(last).dtype))
    by = 1 if step is None else step
    if not all(jnp.issubdtype(jnp.result_type(one), jnp.integer) for one in map(jnp.asarray, (first, last, by))):
        return None
    kind = dtype or jnp.result_type(*map(jnp.asarray, (first, last, by)))
    begin, end, stride = (jnp.asarray(one).astype(int) for one in (first, last, by))  # narrow differences wrap around
    count = -((begin - end) // stride)
    places = jnp.arange(size_of(count, "arange"), dtype=kind)
    return Replacement(jnp.asarray(first, kind) + jnp.asarray(by, kind) * places)


#: Quotients of whole numbers up to this one are rounded to a whole number only where they are one.
_LARGEST_PART = 2**20


def _between_dims(first: object, last: object, by: object, dtype: object) -> Replacement | None:
    """Fractions up to a symbolic size, for which JAX wants whole numbers: `arange(0.5, H)`, `arange(0, H / 2)`."""
    numbers = [one for one in (first, last, by) if not is_symbolic_dim(one)]
    fractions = [found for found in map(exact_fraction, (first, last, by)) if found is not None]
    if not numbers or len(fractions) < 3 or jnp.issubdtype(jnp.result_type(*numbers), jnp.integer):
        return None
    unit = max(denominator for _, denominator in fractions)
    start, stop, step = (numerator * (unit // denominator) for numerator, denominator in fractions)
    if not (is_symbolic_dim(start) or is_symbolic_dim(stop)) or unit > _LARGEST_PART or not _is_step(step):
        return None
    kind = jnp.result_type(*numbers) if dtype is None else jnp.zeros(0, dtype).dtype
    exact = jnp.promote_types(kind, jnp.float32) if jnp.issubdtype(kind, jnp.floating) else kind
    places = jnp.arange(max_dim(-((start - stop) // step), 0), dtype=exact)
    return Replacement((jnp.asarray(first, exact) + jnp.asarray(by, exact) * places).astype(kind))


def _is_step(step: Dim) -> bool:
    """Whether a number of parts can be counted by."""
    return is_positive(step) if is_symbolic_dim(step) else 0 < abs(step) <= _LARGEST_PART


@composites.call("jax._src.numpy.index_tricks:_make_1d_grid_from_slice", name="jax.numpy.mgrid", is_required=True)
def grid_from_slice(s: slice, op_name: str) -> Replacement | None:
    if not any(map(has_numbers_from_data, (s.start, s.stop, s.step))):
        return None
    return Replacement(jnp.arange(0 if s.start is None else s.start, s.stop, s.step))


@composites.call("jax.numpy:tril_indices", name="jax.numpy.tril_indices", is_required=True)
def tril_indices(n: int, k: int = 0, m: int | None = None) -> Replacement | None:
    return Replacement(jnp.nonzero(jnp.tri(n, m, k, dtype=bool))) if _has_size(n, m) else None


@composites.call("jax.numpy:triu_indices", name="jax.numpy.triu_indices", is_required=True)
def triu_indices(n: int, k: int = 0, m: int | None = None) -> Replacement | None:
    return Replacement(jnp.nonzero(~jnp.tri(n, m, k - 1, dtype=bool))) if _has_size(n, m) else None


def _has_size(*sizes: object) -> bool:
    """Whether one of these is a size that is no fixed number."""
    return any(is_number_from_data(size) or is_symbolic_dim(size) for size in sizes)


def _kaiser(part: jax.Array, beta: jax.Array) -> jax.Array:
    """JAX's formula."""
    return jnp.i0(beta * jnp.sqrt(1 - (2 * part - 1) ** 2)) / jnp.i0(beta)


#: Windows as functions of the part of the way through them, from 0 to 1, and of what else they are given.
_WINDOWS: dict[str, Callable[..., jax.Array]] = {
    "bartlett": lambda part: 1 - jnp.abs(2 * part - 1),
    "blackman": lambda part: 0.42 - 0.5 * jnp.cos(2 * jnp.pi * part) + 0.08 * jnp.cos(4 * jnp.pi * part),
    "hamming": lambda part: 0.54 - 0.46 * jnp.cos(2 * jnp.pi * part),
    "hanning": lambda part: 0.5 - 0.5 * jnp.cos(2 * jnp.pi * part),
    "kaiser": _kaiser,
}


def _declare_window(function: str, formula: Callable[..., jax.Array]) -> None:
    def call(M: jax.Array | Dim, *args: jax.Array, **kwargs: jax.Array) -> Replacement | None:  # noqa: N803
        if not _has_size(M):
            return None
        size = size_of(M, function) if is_number_from_data(M) else M
        steps = jnp.asarray(size - 1)
        real = jnp.asarray(0.0).dtype
        window = formula(jnp.arange(size).astype(real) / jnp.maximum(steps, 1).astype(real), *args, **kwargs)
        return Replacement(jnp.where(steps > 0, window, 1))

    call.__name__ = call.__qualname__ = function
    composites.call(f"jax.numpy:{function}", name=f"jax.numpy.{function}", is_required=True)(call)


for _function, _formula in _WINDOWS.items():
    _declare_window(_function, _formula)


@composites.call("jax._src.core:_canonicalize_dimension", name="jax.lax.shape", is_required=True, recovers=True)
def dimension(dim: object) -> Replacement | None:
    """A number that is a size in any other function of JAX, as a dimension."""
    return Replacement(size_of(dim, "size")) if is_number_from_data(dim) else None


@composites.call("jax._src.core:concrete_dim_or_error", name="jax.lax.shape", is_required=True, recovers=True)
def concrete_dimension(val: object, context: str = "") -> Replacement | None:
    return dimension(val)


@composites.call("jax._src.core:concrete_or_error", name="jax.lax.shape", is_required=True, recovers=True)
def concrete_number(force: object, val: object, context: str = "") -> Replacement | None:
    """A dimension that is no fixed number, where a function of JAX takes a whole number for a size; a limit that depends on one."""
    return (
        Replacement(val) if is_symbolic_dim(val) or (force is float and is_from_data(val) and not val.shape) else None
    )


@composites.call("jax.lax:reshape", name="jax.lax.reshape", is_required=True)
def lax_reshape(
    operand: jax.Array, new_sizes: Sequence[object], dimensions: Sequence[int] | None = None, **options: object
) -> Replacement | None:
    if not has_numbers_from_data(new_sizes):
        return None
    x = operand if dimensions is None else jax.lax.transpose(operand, dimensions)
    return Replacement(_reshaped(jnp.asarray(x), new_sizes))
