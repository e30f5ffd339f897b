"""The activation window and the composite primitive."""

from __future__ import annotations

import concurrent.futures
import inspect
import sys
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Call, Composites, Replacement, Rules, hookimpl, to_onnx
from jax2onnx_core.frontend.activation import _own_code, activation_window
from jax2onnx_core.frontend.claims import JaxFunctions


def plugin_of(*tables):
    """A plugin that registers these tables."""

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(*tables)

    return Plugin()


@pytest.fixture
def library():
    """A module with a function under two names, a class, and something to rename it to."""
    module = types.ModuleType("windowed")
    code = """
import jax.numpy as jnp
def bump(x, *, by=1.0):
    return jnp.tanh(x) + by
alias = bump
class Layer:
    def __init__(self): self.weight = jnp.arange(3.0)
    def __call__(self, x): return x * self.weight
"""
    exec(code, vars(module))
    sys.modules["windowed"] = module
    yield module
    del sys.modules["windowed"]


@pytest.fixture
def plugin():
    composites, rules = Composites(), Rules()

    @composites.call("windowed:bump", name="windowed.bump")
    def bump(x, *, by=1.0):
        return None if by < 0 else Call(x, by=by)

    @composites.call("windowed:Layer.__call__", name="windowed.layer")
    def layer(self, x):
        return Call(x, self.weight)

    @rules.lower("windowed.bump")
    def lower_bump(ctx, x, *, by):
        if by > 5:
            ctx.decline("too far")
        return ctx.op.Add(ctx.op.Tanh(x), ctx.constant(by, like=x))

    @rules.lower("windowed.layer")
    def lower_layer(ctx, x, weight):
        return ctx.op.Mul(weight, x)

    return plugin_of(rules, composites)


def names_of(program):
    return [node.name.split(".")[0] + "." + node.name.split(".")[1] for node in program.model.graph]


def test_a_function_that_raises_is_replaced_where_its_composite_gives_a_value(library):
    composites, asked = Composites(), []

    @composites.call("windowed:bump", name="windowed.bump", recovers=True)
    def bump(x, *, by=1.0):
        asked.append(by)
        return Replacement(x * 2) if by == "two" else None

    plugin, x = plugin_of(composites), np.arange(3, dtype=np.float32)
    assert (to_onnx(lambda x: library.bump(x, by="two"), [x], plugins=[plugin])(x) == 2 * x).all()
    with pytest.raises(TypeError, match="unsupported operand"):
        to_onnx(lambda x: library.bump(x, by="three"), [x], plugins=[plugin])
    asked.clear()
    to_onnx(library.bump, [x], plugins=[plugin])
    assert not asked


def test_a_call_is_one_operation(library, plugin):
    program = to_onnx(lambda x: library.bump(x, by=2.0), [(3,)], plugins=[plugin])
    assert ("windowed.bump", "rule") in program.log.ways
    program.verify()


def test_an_export_sees_what_a_jitted_function_closes_over_now():
    scale = [2.0]
    fn = jax.jit(lambda x: x * scale[0])
    before = to_onnx(fn, [(3,)])
    scale[0] = 5.0
    after = to_onnx(fn, [(3,)])
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(before(x), 2 * x)
    np.testing.assert_array_equal(after(x), 5 * x)


def test_every_name_of_the_function(library, plugin):
    def f(x):
        return library.alias(library.bump(x))

    assert to_onnx(f, [(3,)], plugins=[plugin]).log.ways["windowed.bump", "rule"] == 2


def test_a_composite_that_says_no_is_traced_as_it_is(library, plugin):
    program = to_onnx(lambda x: library.bump(x, by=-1.0), [(3,)], plugins=[plugin])
    assert not any(name.startswith("windowed") for name, _ in program.log.ways)
    program.verify()


@pytest.mark.parametrize("operand", [lambda x, by: by, lambda x, by: jnp.full(x.shape, by)], ids=["number", "array"])
def test_a_call_without_an_argument_means_another_than_one_with_it(library, operand):
    composites, rules = Composites(), Rules()

    @composites.call("windowed:bump", name="windowed.bump")
    def bump(x, *, by=1.0):
        return Call(x, operand(x, by))

    @rules.lower("windowed.bump")
    def lower_bump(ctx, x, by):
        ctx.decline("never")

    program = to_onnx(
        lambda x: (library.bump(x), library.bump(x, by=3.0), library.bump(x)),
        [(3,)],
        plugins=[plugin_of(rules, composites)],
    )
    x = np.linspace(-1, 1, 3, dtype=np.float32)
    for result, by in zip(program(x), [1.0, 3.0, 1.0], strict=True):
        np.testing.assert_allclose(result, np.tanh(x) + by, rtol=1e-6)


def test_a_rule_that_declines_leaves_the_original(library, plugin):
    program = to_onnx(lambda x: library.bump(x, by=9.0), [(3,)], plugins=[plugin])
    assert ("windowed.bump", "original call") in program.log.ways
    assert ("windowed.bump", "too far") in program.log.reasons
    assert "declined: windowed.bump" in program.report()
    program.verify()


def transforms(f):
    return {
        "vmap": (jax.vmap(f), (2, 3)),
        "vmap(vmap)": (jax.vmap(jax.vmap(f)), (2, 2, 3)),
        "grad": (jax.grad(lambda x: f(x).sum()), (3,)),
        "jvp": (lambda x: jax.jvp(f, (x,), (x,)), (3,)),
        "linearize": (lambda x: jax.linearize(f, x)[1](x), (3,)),
        "hessian": (jax.hessian(lambda x: f(x).sum()), (3,)),
        "vmap of others": (lambda x: jax.vmap(lambda _: f(x), out_axes=None)(x), (3,)),
        "jit": (jax.jit(f), (3,)),
        "checkpoint": (jax.grad(lambda x: jax.checkpoint(f)(x).sum()), (3,)),
        "scan": (lambda x: jax.lax.scan(lambda c, _: (f(c), c.sum()), x, None, length=3), (3,)),
        "cond": (lambda x: jax.lax.cond(x.sum() > 0, f, jnp.negative, x), (3,)),
    }


@pytest.mark.parametrize("name", transforms(lambda x: x))
def test_under_transforms(library, plugin, name):
    layer = library.Layer()
    fn, shape = transforms(lambda x: library.bump(layer(x)))[name]
    to_onnx(fn, [shape], plugins=[plugin]).verify()


def _custom_jvp(layer):
    """The layer with a derivative that is the layer of the tangents, which reverse mode has to transpose."""
    f = jax.custom_jvp(layer)
    f.defjvp(lambda primals, tangents: (layer(*primals), layer(*tangents)))
    return f


def _custom_vjp(layer):
    f = jax.custom_vjp(layer)
    f.defvjp(lambda x: (layer(x), None), lambda _, ct: jax.linear_transpose(layer, ct)(ct))
    return f


_TRANSPOSES = {
    "linear_transpose": lambda layer, x: jax.linear_transpose(layer, x)(x),
    "linear_transpose(vmap)": lambda layer, x: jax.linear_transpose(jax.vmap(layer), x[None])(x[None]),
    "vmap(linear_transpose)": lambda layer, x: jax.vmap(lambda x: jax.linear_transpose(layer, x)(x))(x[None]),
    "grad(custom_jvp)": lambda layer, x: jax.grad(lambda x: _custom_jvp(layer)(x).sum())(x),
    "grad(checkpoint(custom_jvp))": lambda layer, x: jax.grad(lambda x: jax.checkpoint(_custom_jvp(layer))(x).sum())(x),
    "grad(scan(custom_jvp))": lambda layer, x: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (_custom_jvp(layer)(c), None), x, length=3)[0].sum()
    )(x),
    "grad(custom_vjp)": lambda layer, x: jax.grad(lambda x: _custom_vjp(layer)(x).sum())(x),
}


@pytest.mark.parametrize("name", _TRANSPOSES)
def test_a_linear_composite_is_transposed(library, plugin, name):
    layer = library.Layer()
    to_onnx(lambda x: _TRANSPOSES[name](layer, x), [(3,)], plugins=[plugin]).verify()


def test_a_function_jitted_and_run_before_the_export(library, plugin):
    jitted = jax.jit(lambda x: library.bump(x))
    x = jnp.ones(3)
    before = jitted(x)
    program = to_onnx(jitted, [(3,)], plugins=[plugin])
    assert ("windowed.bump", "rule") in program.log.ways
    np.testing.assert_array_equal(jitted(x), before)
    assert "jax2onnx" not in str(jax.make_jaxpr(jitted)(x))


def test_nothing_is_left(library, plugin):
    before = dict(vars(library))
    functions = library.bump, library.Layer.__call__
    codes = [function.__code__ for function in functions]
    attributes = [dict(vars(function)) for function in functions]

    def fails(x):
        library.bump(x)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        to_onnx(fails, [(3,)], plugins=[plugin])
    assert vars(library) == before
    assert [function.__code__ for function in functions] == codes
    assert [vars(function) for function in functions] == attributes


def test_the_signature_is_that_of_the_function(library, plugin):
    before = inspect.signature(library.bump)

    def f(x):
        assert inspect.signature(library.bump) == before
        return jax.jit(library.bump, static_argnames="by")(x, by=2.0)

    assert ("windowed.bump", "rule") in to_onnx(f, [(3,)], plugins=[plugin]).log.ways


def test_a_replacement_is_the_result(library):
    composites = Composites()

    @composites.call("windowed:bump", name="windowed.bump")
    def bump(x, *, by=1.0):
        return None if by == 0 else Replacement(library.bump(x, by=0) + by)

    program = to_onnx(lambda x: library.bump(x, by=3.0), [(3,)], plugins=[plugin_of(composites)])
    assert [node.op_type for node in program.model.graph] == ["Tanh", "Add", "Add"]
    program.verify()


@pytest.fixture
def two_operands(library):
    """A plugin whose operation takes rows of `x` while `weight` is the same for all."""
    composites, rules = Composites(), Rules()

    @composites.call("windowed:Layer.__call__", name="windowed.layer", keep_under_vmap=(0,))
    def layer(self, x):
        return Call(x, self.weight)

    @rules.lower("windowed.layer")
    def lower_layer(ctx, x, weight):
        assert len(ctx.known_dims(weight)) == 1
        return ctx.op.Mul(weight, x)

    return plugin_of(rules, composites)


@pytest.mark.parametrize(("axes", "whole"), [((0, None), True), ((None, 0), False), ((0, 0), False)])
def test_an_operation_stays_whole_where_these_operands_alone_are_mapped(library, two_operands, axes, whole):
    def f(x, weight):
        mapped = library.Layer()

        def call(x, weight):
            mapped.weight = weight
            return mapped(x)

        return jax.vmap(call, axes)(x, weight)

    shapes = [(3,) if axis is None else (2, 3) for axis in axes]
    program = to_onnx(f, shapes, plugins=[two_operands])
    assert (("windowed.layer", "rule") in program.log.ways) == whole
    program.verify()


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_operands_that_are_not_mapped_may_have_an_axis_of_one(library, axes):
    composites, rules = Composites(), Rules()

    @composites.call("windowed:bump", name="windowed.bump", keep_under_vmap="broadcast")
    def bump(x, *, by=1.0):
        return Call(x, None, by)

    @rules.lower("windowed.bump")
    def lower_bump(ctx, x, absent, by):
        dims = ctx.known_dims(x)[0], ctx.known_dims(by)[0]
        assert dims == tuple(1 if axis is None else 2 for axis in axes)
        return ctx.op.Add(ctx.op.Tanh(x), ctx.reshape(by, (dims[1], 1)))

    shapes = [shape if axis is None else (2, *shape) for axis, shape in zip(axes, [(3,), ()], strict=True)]
    program = to_onnx(
        jax.vmap(lambda x, by: library.bump(x, by=by), axes), shapes, plugins=[plugin_of(rules, composites)]
    )
    assert ("windowed.bump", "rule") in program.log.ways
    program.verify()


def test_threads_do_not_see_each_others_windows(library, plugin):
    inside, leave, code = threading.Event(), threading.Event(), library.bump.__code__
    failures = []

    def slow(x):
        inside.set()
        assert leave.wait(10)
        return library.bump(x)

    def export(fn):
        try:
            program = to_onnx(fn, [(3,)], plugins=[plugin])
            assert ("windowed.bump", "rule") in program.log.ways
        except BaseException as error:  # noqa: BLE001 (asserted on below, in the thread that pytest watches)
            failures.append(error)

    first = threading.Thread(target=export, args=(slow,))
    first.start()
    assert inside.wait(10)
    assert "jax2onnx" not in str(jax.make_jaxpr(lambda x: library.bump(x))(jnp.ones(3)))
    second = threading.Thread(target=export, args=(lambda x: library.bump(x),))
    second.start()
    second.join()
    leave.set()
    first.join()
    assert not failures
    assert library.bump.__code__ is code


def test_windows_of_threads_that_open_and_close_at_any_time():
    composites, errors = Composites(), []
    # The function is JAX's own and public: a change of its code is one by which any layer would compute something else.
    composites.call("jax.lax:fori_loop", name="x.y")(lambda *args: None)
    code = jax.lax.fori_loop.__code__

    def trace(_):
        try:
            for _ in range(200):
                with activation_window(composites.specs, "threads") as declined:
                    traced = jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: -x, x))(jnp.ones(3))
                assert not declined
                assert "while" in str(traced) or "scan" in str(traced)
        except BaseException as error:  # noqa: BLE001 (asserted on below, in the thread that pytest watches)
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(trace, range(3)))
    finally:
        sys.setswitchinterval(interval)
    assert not errors
    assert jax.lax.fori_loop.__code__ is code


def test_a_window_of_another_thread_that_closes_is_no_change_of_jax():
    composites = Composites()
    composites.call("jax.lax:fori_loop", name="x.y")(lambda *args: None)
    with activation_window(composites.specs, object()):
        known_in_window = JaxFunctions(_own_code)
    assert known_in_window.change() is None
    known_outside = JaxFunctions(_own_code)
    with activation_window(composites.specs, object()):
        assert known_in_window.change() is None
        assert known_outside.change() is None


def test_a_claimed_function_that_does_not_exist_is_left_out():
    composites = Composites()
    composites.call("jax.nn:no_such_function", name="x.y")(lambda x: None)
    with activation_window(composites.specs, object()) as declined:
        pass
    ((name, reason),) = declined
    assert name == "x.y"
    assert "'jax.nn:no_such_function', which does not exist" in reason


def test_a_module_that_is_not_imported_stays_so():
    composites = Composites()
    composites.call("xml.dom.pulldom:parse", name="x.y")(lambda x: None)
    with activation_window(composites.specs, object()):
        assert "xml.dom.pulldom" not in sys.modules
