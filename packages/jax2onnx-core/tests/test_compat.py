"""What core asks of JAX's private parts, whatever the version."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify, io_callback
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import AxisType
from jax2onnx_core import _compat, _compat_checkify, _compat_meshes, _compat_options, errors, to_onnx
from jax2onnx_core.jax_types import Equation, Jaxpr
from jax2onnx_graph.facts.dims import SpecializedDim


def traced(fn: Callable[..., object], *args: object) -> Jaxpr:
    return jax.make_jaxpr(fn)(*args)


def equations(fn: Callable[..., object], *args: object) -> list[Equation]:
    return list(_compat.open_jaxpr(traced(fn, *args))[0].eqns)


# -- jaxprs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "count"),
    [
        (jnp.tanh, 0),
        (lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, length=3), 1),
        (lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), 2),
        (lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1, x), 2),
    ],
)
def test_jaxprs_inside_of_an_equation(fn: Callable[..., object], count: int) -> None:
    inner = _compat.inner_jaxprs(equations(fn, 1.0)[-1])
    assert len(inner) == count
    assert all(map(_compat.is_jaxpr, inner))


def test_literals_and_calls_of_jitted_functions() -> None:
    eqns = equations(lambda x: jnp.linalg.slogdet(x)[0] + 2.0, jnp.eye(2))
    assert _compat.is_literal(eqns[-1].invars[1])
    assert not _compat.is_literal(eqns[-1].invars[0])
    [jitted] = equations(lambda x: jax.jit(jnp.negative)(x), 1.0)
    assert _compat.is_jitted(jitted)
    assert not _compat.is_jitted(eqns[-1])


def test_first_inputs_become_constants() -> None:
    jaxpr = _compat.with_constants(traced(lambda a, b, c: a - b * c, 1.0, 2.0, 3.0), [jnp.float32(7)])
    inner, consts = _compat.open_jaxpr(jaxpr)
    assert (len(inner.invars), len(consts)) == (2, 1)
    assert _compat.eval_jaxpr(jaxpr, jnp.float32(2), jnp.float32(3))[0] == 1


def test_a_jaxpr_is_evaluated_with_constants_that_are_given() -> None:
    table = jnp.arange(3.0)
    jaxpr = traced(lambda x: x + table, 1.0)
    inner, consts = _compat.open_jaxpr(jaxpr)
    np.testing.assert_array_equal(_compat.eval_jaxpr(jaxpr, jnp.float32(2))[0], [2, 3, 4])
    given = [constant + 1 for constant in consts]
    np.testing.assert_array_equal(_compat.eval_jaxpr(inner, jnp.float32(2), consts=given)[0], [3, 4, 5])


@pytest.mark.parametrize(("results", "names"), [(None, {"sin", "cos"}), (1, {"sin"}), (0, set())])
def test_equations_that_nobody_uses_are_left_out(results: int | None, names: set[str]) -> None:
    jaxpr = traced(lambda x: [jnp.sin(x), jnp.cos(x), jnp.tan(x)][:2], 1.0)
    alive, _ = _compat.open_jaxpr(_compat.without_dead_equations(jaxpr, results))
    assert {eqn.primitive.name for eqn in alive.eqns} == names
    assert len(alive.outvars) == (2 if results is None else results)


def test_references_of_its_own_become_values() -> None:
    def fn(x: jax.Array) -> jax.Array:
        ref = jax.new_ref(x)
        ref[...] = ref[...] * 2
        return ref[...]

    jaxpr = traced(fn, jnp.ones(3))
    without = _compat.without_references(jaxpr)
    assert not without.effects
    np.testing.assert_array_equal(_compat.eval_jaxpr(without, jnp.ones(3))[0], [2, 2, 2])
    plain = traced(jnp.sin, 1.0)
    assert _compat.without_references(plain) is plain


def test_a_thunk_is_traced_with_what_it_closes_over_as_operands() -> None:
    def fn(x: jax.Array) -> jax.Array:
        jaxpr, operands, tree = _compat.trace_thunk(lambda: {"a": x * 2, "b": (x + 1,)})
        assert [operand is x for operand in operands] == [True]
        assert tree == jax.tree.structure({"a": 0, "b": (0,)})
        results = _compat.eval_jaxpr(jaxpr, *operands)
        return results[1]

    assert jax.jit(fn)(3.0) == 4


@pytest.mark.parametrize(("xs", "counts"), [(None, (1, 2)), (jnp.ones(3), (1, 2))])
def test_operands_of_a_scan(xs: jax.Array | None, counts: tuple[int, int]) -> None:
    def fn(x: jax.Array, y: jax.Array) -> object:
        return lax.scan(lambda c, row: ((c[0] + y, c[1] * y), row), (x, x), xs, length=3)

    [eqn] = [eqn for eqn in equations(fn, jnp.ones(()), jnp.ones(())) if eqn.primitive is _compat.scan_p]
    assert _compat.scan_counts(eqn.params, len(eqn.invars)) == counts


# -- primitives -----------------------------------------------------------------------------


def _doubled(x: jax.Array) -> jax.Array:
    return x * 2


def _primitive(*, compiled: Callable[..., object] | None = None, run: Callable[..., object] | None = None) -> Primitive:
    primitive = Primitive("doubled")
    if run is not None:
        primitive.def_impl(run)
    if compiled is not None:
        mlir.register_lowering(primitive, mlir.lower_fun(compiled, multiple_results=False))
    return primitive


@pytest.mark.parametrize(
    ("primitive", "found"),
    [
        (_primitive(run=_doubled), _doubled),
        (_primitive(compiled=_doubled), _doubled),
        (_primitive(compiled=jnp.sin), None),
        (lax.sin_p, None),
        (_primitive(), None),
    ],
)
def test_the_function_by_which_a_library_defines_a_primitive(primitive: Primitive, found: object) -> None:
    assert _compat.definition(primitive) is found


def test_a_partial_function_of_a_library_defines_a_primitive() -> None:
    partial = functools.partial(_doubled)
    assert _compat.definition(_primitive(run=partial)) is partial


def test_results_by_the_rule_of_jax() -> None:
    matrix = _compat.ShapedArray((3, 4), np.dtype(np.float32))
    [result] = _compat.abstract_results(lax.exp_p, [matrix], equations(jnp.exp, jnp.ones((3, 4)))[0].params)
    assert result.shape == (3, 4)
    assert result.dtype == np.float32
    several = equations(lambda x: lax.top_k(x, 2), jnp.ones((3, 4)))[0]
    avals = _compat.abstract_results(several.primitive, [matrix], several.params)
    assert [aval.shape for aval in avals] == [(3, 2), (3, 2)]


# -- keys and types -------------------------------------------------------------------------


def test_random_keys_are_different_and_of_their_implementation() -> None:
    aval = jax.typeof(jax.random.key(0, impl="rbg"))
    for count in (0, 1, 3):
        keys = _compat.random_keys(7, count, aval)
        assert (keys.shape, keys.dtype) == ((count,), aval.dtype)
        assert len(np.unique(jax.random.key_data(keys), axis=0)) == count
    words = jax.random.key_data(jax.random.key(3, impl="rbg"))
    assert _compat.wrap_key(words, aval) == jax.random.key(3, impl="rbg")
    assert _compat.key_physical_aval(aval.dtype).shape == (4,)


@pytest.mark.parametrize(
    ("dtype", "x64", "expected"),
    [(np.float64, False, np.float32), (np.float64, True, np.float64), (np.int64, False, np.int32), (np.int8, False, np.int8)],
)  # fmt: skip
def test_types_that_jax_traces_with(dtype: type, x64: bool, expected: type) -> None:
    with jax.enable_x64(x64):
        assert _compat.traceable_dtype(np.dtype(dtype)) == expected
        assert _compat.default_float() == (np.float64 if x64 else np.float32)


def test_keys_have_a_type_and_texts_have_none() -> None:
    dtype = jax.random.key(0).dtype
    assert _compat.traceable_dtype(dtype) == dtype
    assert _compat.is_extended_dtype(dtype)
    assert not _compat.is_extended_dtype(np.dtype(np.float32))
    with pytest.raises((TypeError, ValueError)):
        _compat.traceable_dtype(np.dtype("U3"))


def test_dimensions_that_remember_symbols_stay_what_they_are() -> None:
    aval = _compat.ShapedArray((3, 4), np.dtype(np.float32))
    assert _compat.with_exact_shape(aval, (3, 4)) is aval
    special = _compat.with_exact_shape(aval, (SpecializedDim(3, "N"), 4))
    assert isinstance(special.shape[0], SpecializedDim)
    assert (special.dtype, tuple(special.shape)) == (aval.dtype, (3, 4))
    assert type(aval.shape[0]) is int
    assert _compat.with_exact_shape(special, special.shape) is special


def test_a_weak_type() -> None:
    assert jax.typeof(_compat.as_weak(jnp.ones(2))).weak_type
    assert not jax.typeof(jnp.ones(2)).weak_type


# -- lines and names ------------------------------------------------------------------------


def _in_scopes(x: jax.Array) -> jax.Array:
    with jax.named_scope("outer"), jax.named_scope("inner"):
        return jax.vmap(jnp.sin)(x)


def test_named_scopes_without_those_of_jax() -> None:
    assert _compat.name_stack(equations(_in_scopes, jnp.ones(3))[0].source_info) == "outer.inner"
    einsum = equations(lambda x: jnp.einsum("ij,jk->ik", x, x), jnp.ones((2, 2)))
    assert {_compat.name_stack(eqn.source_info) for eqn in einsum} == {""}


def test_the_line_of_the_user() -> None:
    info = equations(_in_scopes, jnp.ones(3))[0].source_info
    line = _compat.user_frame(info)
    assert line is not None
    assert line.partition(":")[0].endswith("test_compat.py")
    assert line.endswith("(_in_scopes)")
    assert _compat.calling_function(info) == "_in_scopes"


# -- effects --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "does"),
    [
        (lambda x: jax.debug.print("{}", x), True),
        (lambda x: jax.debug.print("{}", x, ordered=True), True),
        (lambda x: x, False),
        (
            lambda x: io_callback(lambda x: x, jax.ShapeDtypeStruct((), np.float32), x, ordered=True),
            False,
        ),
    ],
)
def test_what_prints(fn: Callable[..., object], does: bool) -> None:
    assert _compat.prints(traced(fn, jnp.float32(1)).effects) is does


def _checked(x: jax.Array) -> jax.Array:
    checkify.check(x > 0, "not above 0: {}", x)
    checkify.check(x < 9, "not below 9")
    return x


def test_errors_of_checkify() -> None:
    error, _ = checkify.checkify(_checked)(jnp.float32(-1))
    assert _compat_checkify.is_checkify_error(error)
    assert not _compat_checkify.is_checkify_error(1.0)
    assert {_compat_checkify.is_checkify_effect(effect) for effect in error._pred} == {True}
    assert not _compat_checkify.is_checkify_effect("effect")
    assert sorted(map(_compat_checkify.checkify_kind, error._pred)) == ["FailedCheckError", "FailedCheckError(float32)"]
    codes = _compat_checkify.check_codes(error)
    assert codes == sorted(codes)
    assert len(codes) == 2
    renumbered = _compat_checkify.with_check_codes(error, lambda code: code + 10, {code: code + 10 for code in codes})
    assert _compat_checkify.check_codes(renumbered) == [code + 10 for code in codes]
    assert "not above 0: -1" in str(renumbered.get())


# -- options --------------------------------------------------------------------------------


def test_defaults_hold_whatever_the_user_has_set() -> None:
    with jax.numpy_dtype_promotion("strict"), jax.debug_nans(True), jax.enable_x64(False):
        with _compat_options.default_options():
            assert (jnp.int32(1) + jnp.float64(0.5)).dtype == np.float64
            assert np.isnan(jnp.log(-jnp.ones(())))
        with pytest.raises(Exception, match="promotion"):
            jnp.ones(1, np.int32) + jnp.ones(1, np.float16)


@pytest.mark.parametrize("x64", [False, True])
def test_types_of_a_user(x64: bool) -> None:
    with _compat_options.default_types(x64=x64):
        assert jnp.arange(3.0).dtype == (np.float64 if x64 else np.float32)


def test_an_equation_remembers_how_random_bits_are_made() -> None:
    with jax.threefry_partitionable(False):
        old = equations(lambda key: jax.random.bits(key, (4,)), jax.random.key(0))[-1]
    with jax.threefry_partitionable(True):
        new = equations(jnp.sin, 1.0)[0]
        with _compat_options.options_of(old):
            assert not jax.config.jax_threefry_partitionable
    with jax.threefry_partitionable(False), _compat_options.options_of(new):
        assert jax.config.jax_threefry_partitionable


# -- meshes ---------------------------------------------------------------------------------


def _mesh(kind: AxisType) -> jax.sharding.Mesh:
    return jax.make_mesh((1,), ("x",), axis_types=(kind,), devices=jax.devices()[:1])


def test_equations_on_a_mesh_and_as_if_there_were_none() -> None:
    array = jax.device_put(jnp.ones(4), jax.NamedSharding(_mesh(AxisType.Explicit), jax.P("x")))
    with jax.set_mesh(_mesh(AxisType.Explicit)):
        [eqn] = equations(jnp.sin, array)
    assert _compat_meshes.on_a_mesh(eqn)
    assert _compat_meshes.has_mesh(eqn.outvars[0])
    whole = _compat_meshes.without_sharding(eqn.outvars[0].aval)
    assert whole.shape == (4,)
    assert whole.dtype == np.float32
    assert _compat_meshes.without_sharding(whole) is whole
    assert _compat_meshes.in_no_mesh(eqn).ctx.cur_abstract_mesh.empty
    [plain] = equations(jnp.sin, 1.0)
    assert not _compat_meshes.on_a_mesh(plain)


def test_shardings_that_are_types() -> None:
    explicit, auto = (jax.NamedSharding(_mesh(kind), jax.P("x")) for kind in (AxisType.Explicit, AxisType.Auto))
    assert _compat_meshes.typed_sharding(explicit) is explicit
    assert _compat_meshes.typed_sharding(auto) is None
    assert _compat_meshes.typed_sharding("x") is None
    abstract = jax.NamedSharding(explicit.mesh.abstract_mesh, jax.P("x"))
    for sharding in (explicit, abstract):
        assert _compat_meshes.divided(jnp.ones(4), sharding).sharding.spec == jax.P("x")


def test_inside_there_is_no_mesh() -> None:
    with jax.set_mesh(_mesh(AxisType.Auto)), _compat_meshes.without_mesh():
        assert jax.sharding.get_abstract_mesh().empty


# -- tracers --------------------------------------------------------------------------------


def test_the_equation_of_a_tracer() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)
        parts = lax.top_k(y, 2)
        assert _compat.traced_equation(x) is None
        assert _compat.traced_equation(1.0) is None
        primitive, _, operands, place = _compat.traced_equation(parts[1]) or (None, None, (), None)
        assert (primitive, place) == (lax.top_k_p, 1)
        assert [operand is y for operand in operands] == [True]
        assert _compat.traced_source(y) != _compat.traced_source(x)
        assert _compat.traced_source(y) == _compat.traced_source(y)
        assert _compat.is_traced_now(y)
        assert not _compat.is_traced_now(1.0)
        with _compat.in_trace_of(y):
            assert _compat.is_traced_now(y)
        return y

    jax.make_jaxpr(fn)(jnp.ones(3))


def test_the_largest_number_that_a_size_can_be() -> None:
    found: list[object] = []

    def fn(x: jax.Array, n: jax.Array) -> jax.Array:
        size = jax.numpy.asarray(x.shape[0], np.int32)
        found.extend(
            map(_compat.largest_of, (size, jnp.minimum(size, n), jnp.minimum(n, size), n, jnp.maximum(size, n), 3))
        )
        return jnp.minimum(size, n)

    (size,) = jax.export.symbolic_shape("N")
    jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((size,), np.float32), jax.ShapeDtypeStruct((), np.int32))
    assert [None if one is None else str(one) for one in found] == ["N", "N", "N", None, None, None]


def test_an_exact_fraction_of_sizes() -> None:
    def fn(x: jax.Array) -> jax.Array:
        n = x.shape[0]
        found.extend(map(_compat.exact_fraction, (n, 0.75, n / 2 - 1.5, 0.25 * n, 3.0 - n, jnp.asarray(n) * 1.0)))
        found.extend(
            map(
                _compat.exact_fraction,
                (n / 3, x[0], jnp.asarray(n) // 2, jnp.sqrt(n), jnp.asarray(n * 0.5, np.float16), "n"),
            )
        )
        return x

    found: list[object] = []
    (n,) = jax.export.symbolic_shape("n")
    jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((n,), np.float32))
    assert found == [(n, 1), (3, 4), (2 * n - 6, 4), (n, 4), (3 - n, 1), (n, 1), *[None] * 6]


def test_a_function_of_the_user_that_is_called_like_one_of_jax_is_asked() -> None:
    def csd(x: jax.Array) -> jax.Array:
        return x if x.shape[0] > 4 else -x

    with pytest.raises(errors.UndecidedDimensionError):
        to_onnx(csd, [("N",)])
