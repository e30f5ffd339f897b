"""Comparisons of symbolic dimensions that JAX answers by False without knowing: each is a constraint of the program."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import jax.scipy.signal
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx


def equal(x):
    return x * 2 if x.shape[1] == 1 else x * 3


def different(x):
    return x * 3 if x.shape[1] != 1 else x * 2


def contained(x):
    return x * 2 if x.shape[1] in (1, 4) else x * 3


def of_two_symbols(x):
    return x * 2 if x.shape[0] == x.shape[1] else x * 3


def ones(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("fn", [equal, different])
def test_it_is_a_constraint_with_a_warning(fn):
    with pytest.warns(
        errors.ExportWarning, match=rf"asks at .*test_undecided_comparisons\.py:\d+ \({fn.__name__}\) whether T == 1"
    ):
        program = to_onnx(fn, [(2, "T")])
    assert program.constraints == ["T != 1"]
    np.testing.assert_array_equal(program(ones(2, 5)), 3 * ones(2, 5))
    with pytest.raises(errors.RuntimeInputError, match="'T != 1' does not hold for T = 1"):
        program(ones(2, 1))
    assert "T != 1" in program.report()


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
@pytest.mark.parametrize("fn", [equal, different, contained])
def test_specializing_to_the_other_answer_traces_anew(fn):
    program = to_onnx(fn, [("B", "T")])
    other = program.specialize(T=1)
    np.testing.assert_array_equal(other(ones(2, 1)), 2 * ones(2, 1))
    assert str(other.model.graph.inputs[0].shape) == "[B,1]"
    np.testing.assert_array_equal(program.specialize(T=5)(ones(2, 5)), 3 * ones(2, 5))
    program.verify()
    other.verify()


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
@pytest.mark.parametrize("fn", [equal, contained, of_two_symbols])
def test_a_traced_function_is_asked_again(fn):
    """JAX traces a jitted function once; the answers that it took for false belong to each trace that it is in."""
    jitted = jax.jit(fn)
    program = to_onnx(jitted, [("B", "T")])
    other = program.specialize(B=1)
    assert other.constraints == [text.replace("B", "1") for text in program.constraints]
    np.testing.assert_array_equal(other.specialize(T=1)(ones(1, 1)), 2 * ones(1, 1))
    np.testing.assert_array_equal(program.specialize(B=1, T=1)(ones(1, 1)), 2 * ones(1, 1))


def test_specializing_at_the_export():
    np.testing.assert_array_equal(to_onnx(equal, [("B", "T")], specialize={"T": 1})(ones(2, 1)), 2 * ones(2, 1))


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
def test_two_symbols():
    program = to_onnx(of_two_symbols, [("B", "T")])
    assert program.constraints == ["B != T"]
    np.testing.assert_array_equal(program.specialize(B=3)(ones(3, 4)), 3 * ones(3, 4))
    with pytest.raises(errors.RuntimeInputError):
        program(ones(3, 3))
    np.testing.assert_array_equal(program.specialize(B=3, T=3)(ones(3, 3)), 2 * ones(3, 3))


def test_a_constraint_of_the_user_says_that_it_is_meant():
    program = to_onnx(equal, [(2, "T")], constraints=["T != 1"])
    assert program.constraints == ["T != 1"]
    program.verify()


@pytest.mark.parametrize("constraints", [("T >= 2",), ("T <= 0 + 4", "T >= 2")])
def test_what_constraints_decide_is_no_question(constraints):
    assert to_onnx(equal, [(2, "T")], constraints=constraints).constraints == list(constraints)


def test_what_jax_itself_compares_is_no_question():
    program = to_onnx(lambda x, y: jnp.concatenate([x + y, x]).sum(0), [("B", "T"), ("B", 1)])
    assert program.constraints == []


def slope(x):
    return jax.grad(jnp.linalg.det)(x)


def deviations(x):
    return jnp.cov(x, rowvar=False)


def buckets(x):
    return jnp.digitize(x, jnp.cumsum(jnp.ones(x.shape[0])))


def others(x):
    return jnp.setdiff1d(x[:, 0], x[:, 1], size=2)


def spectra(x):
    return jax.scipy.signal.stft(x[:, :1], nperseg=1, noverlap=0)[2]


@pytest.mark.parametrize(
    ("fn", "shape", "constraints", "size"),
    [
        (slope, ("T", "T"), (), 1),
        (deviations, ("T", 3), ("T >= 0",), 0),
        (buckets, ("T", 3), ("T >= 0",), 0),
        (others, ("T", 3), ("T >= 0",), 0),
        (spectra, ("T", 3), ("T >= 0",), 0),
    ],
)
def test_what_a_function_of_jax_takes_for_another_size_is_a_constraint(fn, shape, constraints, size):
    with pytest.warns(errors.ExportWarning, match=rf"_comparisons\.py:\d+ \({fn.__name__}\) whether T == {size}"):
        program = to_onnx(fn, [shape], constraints=constraints)
    assert program.constraints == [f"T != {size}"]
    for n in (size, 3):
        x = np.cos(np.arange(n * (n if shape[1] == "T" else 3), dtype=np.float32)).reshape(n, -1 if n else 3)
        exported = program.specialize(T=n) if n == size else program
        np.testing.assert_allclose(exported(x), fn(x), rtol=1e-4, atol=1e-6)


def test_other_threads_are_not_recorded():
    def compare():
        (dim,) = jax.export.symbolic_shape("N")
        answers.append(dim == 1)

    def fn(x):
        thread = threading.Thread(target=compare)
        thread.start()
        thread.join()
        return x

    answers: list[bool] = []
    assert to_onnx(fn, [("T",)]).constraints == []
    assert answers == [False]


def got(x):
    return x * {1: 2, 4: 3}.get(x.shape[1], 5)


def member(x):
    return x * 2 if x.shape[1] in {1, 4} else x * 5


@pytest.mark.parametrize("fn", [got, member])
def test_a_lookup_is_warned_of_with_the_line(fn):
    line = fn.__code__.co_firstlineno + 1
    with pytest.warns(
        errors.ExportWarning, match=rf"looks T up in a dict or a set at .*_comparisons\.py:{line} \({fn.__name__}\)"
    ):
        to_onnx(fn, [("B", "T")])


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
@pytest.mark.parametrize("fn", [got, member, jax.jit(got)])
def test_a_number_is_looked_up_where_it_is_given(fn):
    program = to_onnx(fn, [("B", "T")])
    for size, factor in ((1, 2), (3, 5)):
        for other in (program.specialize(T=size), to_onnx(fn, [("B", "T")], specialize={"T": size})):
            np.testing.assert_array_equal(other(ones(2, size)), factor * ones(2, size))
            assert str(other.model.graph.inputs[0].shape) == f"[B,{size}]"


def kept(x):
    sizes = {x.shape[1]: 2}
    return x * sizes[x.shape[1]]


def test_a_size_as_a_key_of_its_own_is_no_question():
    to_onnx(kept, [("B", "T")])
