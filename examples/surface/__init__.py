"""The public surface of JAX: calls of every public function, and what they give when they are exported.

The text files beside this module hold one call per line: `jnp.argmax(x, axis=1)`. Braces stand for several functions, `jnp.{sin cos}(x)`;
`# rtol=1e-3` at the end loosens the comparison; the names of the operands are those of `operands`. `without.txt` names the functions that have
no call, `known.txt` the variants that are known to differ, both with reasons.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import re
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_runtime.comparison import compare, tolerance
from jax2onnx_testing.values import random_array

__all__ = [
    "CONTROL_FLOW",
    "MODULES",
    "VARIANTS",
    "Call",
    "Known",
    "Outcome",
    "calls",
    "jobs",
    "known_differences",
    "missing",
    "run_job",
    "without_calls",
]

#: The name in calls → the module whose public functions are swept.
MODULES = {
    "jnp": "jax.numpy",
    "jnp.linalg": "jax.numpy.linalg",
    "jnp.fft": "jax.numpy.fft",
    "nn": "jax.nn",
    "nn.initializers": "jax.nn.initializers",
    "lax": "jax.lax",
    "lax.linalg": "jax.lax.linalg",
    "random": "jax.random",
    "image": "jax.image",
    "ops": "jax.ops",
    "special": "jax.scipy.special",
    "linalg": "jax.scipy.linalg",
    "signal": "jax.scipy.signal",
    "ndimage": "jax.scipy.ndimage",
    "interpolate": "jax.scipy.interpolate",
    "integrate": "jax.scipy.integrate",
    "scipy_fft": "jax.scipy.fft",
    "transform": "jax.scipy.spatial.transform",
    "vq": "jax.scipy.cluster.vq",
    "optimize": "jax.scipy.optimize",
    "sparse_linalg": "jax.scipy.sparse.linalg",
    "stats": "jax.scipy.stats",
}
MODULES |= {
    f"stats.{name}": f"jax.scipy.stats.{name}"
    for name, value in vars(importlib.import_module("jax.scipy.stats")).items()
    if isinstance(value, types.ModuleType) and not name.startswith("_")
}

#: Where a call is made again with other operands, in float32: in the body of a loop, which may carry a random key, in a branch, under vmap.
CONTROL_FLOW = ("scan", "fori_loop", "while_loop", "map", "cond", "switch", "vmap")
#: How each call is made: with float32; with 64-bit types; in half precision; with NaN, infinities and extremes; with integers in place of floats;
#: without elements; its derivatives, of second order too; with leading axes of symbolic size; and in control flow.
VARIANTS = (
    "float32", "float64", "float16", "special", "integers", "empty", "jvp", "vjp", "hvp", "symbolic", *CONTROL_FLOW,
)  # fmt: skip

_HERE = Path(__file__).parent
_COMPILED_OTHERWISE = "JAX itself computes the value of the model when it evaluates the statements one by one."
_NAMESPACE = {name: importlib.import_module(module) for name, module in MODULES.items() if "." not in name}
_NAMESPACE |= {"jax": jax, "np": np}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call: its expression, the functions of JAX in it, and the relative tolerance that it asks for."""

    expression: str
    functions: tuple[str, ...]
    rtol: float | None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of exporting and running a variant of a call.

    Attributes:
      status: "pass", "explained", "wrong", "error", or "no reference" where JAX itself does not run it.
      detail: the error or difference.
    """

    status: str
    detail: str = ""


def jobs() -> list[str]:
    """Each variant of each call, as "variant: expression"."""
    return [f"{variant}: {call.expression}" for variant in VARIANTS for call in calls()]


def run_job(job: str) -> dict[str, Any]:
    """The outcome of one of `jobs`, as a line of a table."""
    variant, _, expression = job.partition(": ")
    call = next(call for call in calls() if call.expression == expression)
    outcome = run(call, variant)
    reason = explanation(call, variant) if outcome.status in ("wrong", "error") else None
    if reason is not None:
        outcome = Outcome("explained", reason)
    return {"name": job, "functions": call.functions, **dataclasses.asdict(outcome)}


def missing() -> list[str]:
    """The public functions that have neither a call nor a reason."""
    called = {function for call in calls() for function in call.functions}
    return sorted(set(public_functions()) - called - without_calls().keys())


@dataclasses.dataclass(frozen=True)
class Known:
    """A known difference: the variants, a regular expression that the call matches, and the reason."""

    variants: frozenset[str]
    pattern: str
    reason: str


@functools.cache
def known_differences() -> tuple[Known, ...]:
    """The lines of `known.txt`."""
    lines = [line for line in (_HERE / "known.txt").read_text().splitlines() if line and not line.startswith("#")]
    parts = [[part.strip() for part in line.split(" | ")] for line in lines]
    return tuple(Known(frozenset(v.replace("*", " ".join(VARIANTS)).split()), p, reason) for v, p, reason in parts)


def explanation(call: Call, variant: str) -> str | None:
    """The reason for which a variant of a call is known to differ from JAX; None if there is none."""
    found = (k.reason for k in known_differences() if variant in k.variants and re.search(k.pattern, call.expression))
    return next(found, None)


@functools.cache
def calls() -> tuple[Call, ...]:
    """The calls whose functions this version of JAX has."""
    found = [
        call
        for file in sorted(_HERE.glob("*.txt"))
        if file.stem not in ("known", "without")
        for call in _calls_of(file)
    ]
    return tuple(call for call in found if all(map(_exists, call.functions)))


def _calls_of(file: Path) -> Iterator[Call]:
    for line in file.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        expression, _, comment = line.partition("  # rtol=")
        names = re.search(r"\{([\w ]+)\}", expression)
        for name in names[1].split() if names else [""]:
            text = expression.replace(names[0], name) if names else expression
            yield Call(text, tuple(_functions_in(text)), float(comment) if comment else None)


def _functions_in(expression: str) -> Iterator[str]:
    """The dotted names of functions of JAX that an expression reads."""
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(node, ast.Attribute) and ast.unparse(node).rpartition(".")[0] in MODULES:
            yield ast.unparse(node)


def _exists(function: str) -> bool:
    module, _, name = function.rpartition(".")
    return name in dir(importlib.import_module(MODULES[module]))


@functools.cache
def without_calls() -> dict[str, str]:
    """Function → the reason for which no call of it is swept."""
    reasons = {}
    for line in (_HERE / "without.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            module, names, reason = (part.strip() for part in line.split(":"))
            reasons.update({f"{module}.{name}": reason for name in names.split()})
    return reasons


def public_functions() -> list[str]:
    """Everything callable in the modules, under the names that calls use."""
    return [
        f"{short}.{name}"
        for short, module in MODULES.items()
        for name, value in vars(importlib.import_module(module)).items()
        if not name.startswith("_") and callable(value) and not isinstance(value, types.ModuleType)
    ]


def operands(variant: str) -> dict[str, Any]:
    """The operands that calls may name.

    x, y: numbers [3, 4]; p, q: positive ones; r: in (0, 1); u: in (-1, 1); v, w: numbers [5]; m, n: matrices [4, 4]; s: a positive definite one;
    cm: a complex one; t: [2, 3, 4]; img: [1, 8, 8, 3]; kernel: [3, 3, 3, 4]; i, j: integers [3, 4]; k: those from 0 to 2; l, h: those from 0 to 4 [5];
    b: booleans [3, 4]; c, d: complex numbers [3, 4]; key: a random key.
    """
    rng = np.random.default_rng(0)
    float_dtype = {"float64": np.float64, "float16": np.float16, "integers": np.int32}.get(variant, np.float32)
    wide = variant == "float64"
    integer, cplx = (np.int64, np.complex128) if wide else (np.int32, np.complex64)
    plain = "special" if variant == "special" else "finite"
    rows = 0 if variant == "empty" else 3

    def numbers(shape: tuple[int, ...], values: Any = plain, dtype: Any = float_dtype) -> Any:
        return jnp.asarray(random_array(rng, np.dtype(dtype), shape, values))

    grid, row = (rows, 4), (rows and 5,)
    m = numbers((4, 4), "finite")
    return {
        "x": numbers(grid), "y": numbers(grid), "p": numbers(grid, "positive"), "q": numbers(grid, "positive"),
        "r": (numbers(grid, "unit") + 1) / 2.01, "u": numbers(grid, "unit"), "v": numbers(row), "w": numbers(row),
        "m": m, "n": numbers((4, 4), "finite"), "s": m @ m.T + 4 * jnp.eye(4, dtype=m.dtype), "cm": numbers((4, 4), "finite", cplx),
        "t": numbers((2, *grid)), "img": numbers((1, 8, 8, 3), "finite"), "kernel": numbers((3, 3, 3, 4), "finite"),
        "i": numbers(grid, plain, integer), "j": numbers(grid, plain, integer),
        "k": numbers(grid, "finite", integer) % 3, "l": numbers(row, "finite", integer) % 5, "h": numbers(row, "finite", integer) % 5,
        "b": numbers(grid, "finite", bool), "c": numbers(grid, plain, cplx), "d": numbers(grid, plain, cplx), "key": jax.random.key(7),
    }  # fmt: skip


_SYMBOLIC = {**dict.fromkeys("xypqruijkbcd", ("B", 4)), **dict.fromkeys("vwlh", ("N",))}


def run(call: Call, variant: str) -> Outcome:
    """Export a variant of a call, run it and compare it with JAX."""
    with jax.enable_x64(variant == "float64"):
        fn, names = _function(call.expression)
        given = operands(variant)
        args = [given[name] for name in names]
        if variant in ("jvp", "vjp", "hvp"):
            fn = _derivative(fn, variant)
        elif variant in CONTROL_FLOW:
            fn = _in_control_flow(fn, variant)
        try:
            specs = _symbolic_specs(fn, names, args) if variant == "symbolic" else args
            expected = jax.jit(fn)(*args)
        except Exception as error:  # noqa: BLE001  (JAX itself does not take it)
            return Outcome("no reference", f"{type(error).__name__}: {error}"[:200])
        if not jax.tree_util.tree_leaves(expected):
            return Outcome("no reference", "there is no result")
        try:
            actual = to_onnx(fn, specs)(*args)
        except Exception as error:  # noqa: BLE001  (an outcome)
            return Outcome("error", f"{type(error).__name__}: {error}"[:500])
        problem = _difference(actual, expected, call.rtol, variant)
        if problem is None:
            return Outcome("pass")
        if _difference(actual, fn(*args), call.rtol, variant) is None:
            return Outcome("explained", _COMPILED_OTHERWISE)
        return Outcome("wrong", problem)


def _function(expression: str) -> tuple[Callable[..., Any], list[str]]:
    """The call as a function of its operands, and their names."""
    tree = ast.parse(expression, mode="eval")
    bound = {arg.arg for node in ast.walk(tree) if isinstance(node, ast.Lambda) for arg in node.args.args}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - bound
    names = sorted(read & operands("float32").keys())
    code = compile(tree, expression, "eval")
    return lambda *args: eval(code, {**_NAMESPACE, **dict(zip(names, args, strict=True))}), names


def _derivative(fn: Callable[..., Any], variant: str) -> Callable[..., Any]:
    """The derivatives of the inexact results by the inexact operands."""

    def derivative(*args: Any) -> Any:
        inexact = [jnp.issubdtype(a.dtype, jnp.inexact) for a in args]

        def of_inexact(*some: Any) -> list[Any]:
            rest = iter(some)
            leaves = jax.tree_util.tree_leaves(
                fn(*(next(rest) if f else a for f, a in zip(inexact, args, strict=True)))
            )
            return [leaf for leaf in leaves if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.inexact)]

        some = [a for f, a in zip(inexact, args, strict=True) if f]
        if not some:
            raise TypeError("no operand to differentiate by")

        def gradient(*some: Any) -> Any:
            results, pull = jax.vjp(of_inexact, *some)
            return pull([_direction(r) for r in results])

        directions = [_direction(a) for a in some]
        if variant == "vjp":
            return gradient(*some)
        return jax.jvp(of_inexact, some, directions) if variant == "jvp" else jax.jvp(gradient, some, directions)[1]

    return derivative


def _in_control_flow(fn: Callable[..., Any], variant: str) -> Callable[..., Any]:
    """The function, called for several operands by an operation of control flow."""

    def called(*args: Any) -> Any:
        others = [[_changed(a, i) for a in args] for i in range(3)]
        stacked = [jnp.stack(some) for some in zip(*others, strict=True)]
        count = 2 + jnp.sum(jnp.stack([jnp.any(a != a) for a in args if not _is_key(a)] or [jnp.zeros((), bool)]))

        def step(i: Any, state: Any) -> Any:
            _, some = state
            return fn(*some), [_changed(a, i) for a in some]

        match variant:
            case "scan":
                return lax.scan(
                    lambda carry, some: ([_changed(a, 1) for a in carry], (fn(*carry), fn(*some))), [*args], stacked
                )[1]
            case "map":
                return lax.map(lambda some: fn(*some), stacked)
            case "vmap":
                return jax.vmap(fn)(*stacked)
            case "fori_loop":
                return lax.fori_loop(0, count, step, (fn(*args), [*args]))[0]
            case "while_loop":
                start = jnp.int32(0), (fn(*args), [*args])
                return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, step(s[0], s[1])), start)[1][0]
            case "cond":
                return lax.cond(
                    count > 2, lambda *some: fn(*some), lambda *some: fn(*(_changed(a, 1) for a in some)), *args
                )
        branches = [lambda some, i=i: fn(*(_changed(a, i) for a in some)) for i in range(3)]
        return lax.switch(count, branches, args)

    return called


def _is_key(x: jax.Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _changed(x: jax.Array, i: Any) -> jax.Array:
    """Another key, or the same numbers in another order: they are as positive and as small as before."""
    if _is_key(x):
        return jax.random.fold_in(x, i)
    return jnp.roll(x, i, 0) if x.ndim else x


def _direction(x: jax.Array) -> jax.Array:
    """Different numbers in the shape of `x`: along equal ones many derivatives are zero, and what is compared is rounding."""
    return jnp.cos(jnp.arange(x.size, dtype=np.float32)).reshape(x.shape).astype(x.dtype)


def _symbolic_specs(fn: Callable[..., Any], names: Sequence[str], args: Sequence[Any]) -> list[Any]:
    """Specifications with leading axes of symbolic size; raises where JAX cannot trace the function with such sizes."""
    if not set(names) & _SYMBOLIC.keys():
        raise TypeError("no operand has an axis of symbolic size")
    scope = jax.export.SymbolicScope()
    shapes = [_SYMBOLIC.get(name, a.shape) for name, a in zip(names, args, strict=True)]
    specs = [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(",".join(map(str, shape)), scope=scope), a.dtype)
        for shape, a in zip(shapes, args, strict=True)
    ]
    jax.export.export(jax.jit(fn))(*specs)
    return [jax.ShapeDtypeStruct(shape, a.dtype) for shape, a in zip(shapes, args, strict=True)]


def _difference(actual: Any, expected: Any, rtol: float | None, variant: str) -> str | None:
    """Difference of the results from JAX's, in words; None if there is none."""
    got, want = ([_plain(leaf) for leaf in jax.tree_util.tree_leaves(tree)] for tree in (actual, expected))
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"{g.dtype}{list(g.shape)} instead of {w.dtype}{list(w.shape)}"
        # A result of float32 that was computed from half precision has not more of it.
        usual = tolerance(np.dtype(np.float16) if variant == "float16" else w.dtype)
        loose = None if w.dtype.kind in "biu" or variant == "float64" else max(rtol or 0.0, usual) * 2
        found = compare(g, w, rtol=loose)
        if not found.is_close:
            return found.detail
    return None


def _plain(leaf: Any) -> np.ndarray[Any, Any]:
    typed = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    return np.asarray(jax.random.key_data(leaf) if typed else leaf)
