"""Targets for older versions of ONNX Runtime: their tables, and models made for them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph.legalise.kernels import element_type
from jax2onnx_graph.targets import find_target
from jax2onnx_onnxruntime import OnnxRuntime, _compat
from jax2onnx_onnxruntime._kernels import NEWEST, WEB, kernels, measured_versions
from jax2onnx_onnxruntime.limitations import limitations_of_running

OLD = [version for version, name in measured_versions().items() if name]


def operators(program) -> set[str]:
    return {node.op_type for graph in program.model.graphs() for node in graph}


def test_the_measured_versions_are_known_oldest_first():
    assert OLD == ["1.18", "1.20", "1.22", "1.23", "1.31"]


@pytest.mark.parametrize(
    ("version", "opset", "best"),
    [("1.18", 21, 21), ("1.20", 21, 21), ("1.22", 22, 22), ("1.23", 23, 23), ("1.31", 26, 23)],
)
def test_a_version_runs_the_opsets_that_it_was_measured_with(version, opset, best):
    target = OnnxRuntime().of_version(version)
    assert (target.name, target.opsets[-1], target.best_opset) == (f"onnxruntime=={version}", opset, best)


def test_patches_of_a_version_have_its_kernels():
    assert OnnxRuntime().of_version("1.18.1").name == "onnxruntime==1.18"


def test_the_newest_version_that_was_measured_is_the_one_without_a_number():
    newest = list(measured_versions())[-1]
    assert OnnxRuntime().of_version(newest).name == "onnxruntime"


def test_kernels_are_those_of_the_version():
    uint32 = element_type(np.dtype(np.uint32))
    assert uint32 in (kernels("Add", "T", 18) or ())
    assert uint32 not in (kernels("Add", "T", 18, "1.18") or (uint32,))


@pytest.mark.parametrize(("version", "is_limited"), [("1.18", True), ("1.23", True), ("1.31", False), (NEWEST, False), (WEB, False)])  # fmt: skip
def test_old_python_apis_take_no_arrays_of_types_that_numpy_lacks(version, is_limited):
    assert [one.subject for one in limitations_of_running(version)] == ["types that NumPy lacks"] * is_limited


@pytest.mark.parametrize(
    ("version", "name", "measured"),
    [("1.19", "onnxruntime==1.18", "1.18"), ("1.30.1", "onnxruntime==1.23", "1.23"), ("99.0", "onnxruntime", "1.32")],
)
def test_a_version_that_nobody_measured_is_treated_as_the_newest_before_it(version, name, measured):
    program = to_onnx(jnp.tanh, [(3,)], target=f"onnxruntime=={version}")
    assert program.target.name == name
    note = f"What ONNX Runtime {version} computes is not known: the model is for {measured}, the newest known version before it."
    assert note in " ".join(program.report().split())


@pytest.mark.filterwarnings("error")
def test_an_installed_version_that_nobody_measured_is_a_note_in_the_report(monkeypatch):
    monkeypatch.setattr(_compat, "installed_version", lambda: "1.99.0")
    assert "What ONNX Runtime 1.99.0 computes is not known" in " ".join(to_onnx(jnp.tanh, [(3,)]).report().split())


def test_a_measured_version_needs_no_note():
    assert "is not known" not in to_onnx(jnp.tanh, [(3,)], target="onnxruntime==1.32").report()


def test_a_version_before_the_oldest_that_was_measured():
    with pytest.raises(errors.OptionError, match=r"ONNX Runtime 1\.17 is older than .*; the oldest is 1\.18"):
        to_onnx(jnp.tanh, [(3,)], target="onnxruntime==1.17")


def test_what_is_no_version():
    with pytest.raises(errors.OptionError, match=r"'newest' is no version of ONNX Runtime; write one such as 1\.32"):
        to_onnx(jnp.tanh, [(3,)], target="onnxruntime==newest")


@pytest.mark.parametrize(("version", "operators_"), [("1.31", {"Less", "Where"}), ("1.32", {"Max"})])
def test_integers_of_64_bits_are_compared_by_max_since_1_32(version, operators_):
    pairs = [(("N",), "int64")] * 2
    program = to_onnx(jnp.maximum, pairs, target=f"onnxruntime=={version}", x64=True)
    assert operators(program) == operators_
    program.verify()


@pytest.mark.parametrize(
    ("installed", "name"),
    [
        ("1.18.1", "onnxruntime==1.18"),
        ("1.19.2", "onnxruntime==1.18"),
        ("1.23.0", "onnxruntime==1.23"),
        ("1.30.0", "onnxruntime==1.23"),
        ("1.31.1", "onnxruntime==1.31"),
        ("1.17.3", "onnxruntime==1.18"),
        ("99.0", "onnxruntime"),
        (None, "onnxruntime"),
    ],
)
def test_the_default_target_is_the_installed_version(monkeypatch, installed, name):
    monkeypatch.setattr(_compat, "installed_version", lambda: installed)
    assert find_target({"onnxruntime": OnnxRuntime()}, None).name == name
    assert find_target({"onnxruntime": OnnxRuntime()}, "onnxruntime").name == "onnxruntime"


def test_the_newest_version_that_was_measured_is_installed_here():
    assert find_target({"onnxruntime": OnnxRuntime()}, None).name == "onnxruntime"


def test_a_target_without_versions():
    with pytest.raises(errors.OptionError, match="The target 'onnx' has no versions"):
        to_onnx(jnp.tanh, [(3,)], target="onnx==1.20")


def test_an_opset_that_the_version_does_not_run():
    with pytest.raises(errors.OptionError, match="choose one from 17 to 21"):
        to_onnx(jnp.tanh, [(3,)], target="onnxruntime==1.18", opset=22)


@pytest.mark.parametrize("version", OLD)
def test_what_a_version_has_no_kernel_for_is_computed_otherwise(version):
    def fn(key, x):
        y = jax.nn.dot_product_attention(x, x, x, is_causal=True)
        return jax.random.bits(key, (3,)), jnp.where(x > 0, x > 1, x < -1), y

    program = to_onnx(fn, [jax.random.key(0), (2, 5, 4, 8)], target=f"onnxruntime=={version}")
    assert program.opset <= OnnxRuntime().of_version(version).opsets[-1]
    assert ("Attention" in operators(program)) == (version in ("1.23", "1.31"))
    program.verify()


def test_a_program_keeps_its_version_when_it_is_specialized():
    program = to_onnx(lambda x: x @ x.T, [("N", 3)], target="onnxruntime==1.18")
    assert program.specialize(N=4).target.name == "onnxruntime==1.18"


SPECIAL = np.array([np.nan, 1, np.inf, np.nan, -np.inf, 0, 4, np.nan], np.float32)


@pytest.mark.parametrize(
    ("fn", "operator", "losing"),
    [
        (jnp.maximum, "Max", ["1.18"]),
        (jnp.minimum, "Min", ["1.18"]),
        (lambda x, _: jax.lax.erf(x), "Erf", ["1.18", "1.20", "1.22", "1.23"]),
        (lambda x, _: jnp.sqrt(x), "Sqrt", ["1.18", "1.20"]),
    ],
)
@pytest.mark.parametrize("version", OLD)
def test_special_values_that_a_kernel_loses_are_put_right(version, fn, operator, losing):
    program = to_onnx(fn, [("N",), ("N",)], target=f"onnxruntime=={version}")
    assert operator in operators(program)
    assert ("Where" in operators(program)) == (version in losing)
    assert program.check_symbols() == []
    np.testing.assert_allclose(program(SPECIAL, SPECIAL[::-1]), jax.jit(fn)(SPECIAL, SPECIAL[::-1]), rtol=1e-6)


def test_constants_without_nan_are_not_looked_at():
    program = to_onnx(lambda x: jnp.maximum(x, 2.0), [(3,)], target="onnxruntime==1.18")
    assert [node.op_type for node in program.model.graph].count("IsNaN") == 1


def test_each_version_has_its_own_limitations():
    subjects = {v: [one.subject for one in OnnxRuntime().of_version(v).limitations()] for v in OnnxRuntime().versions}
    of_all = ["Masks that are inputs", "Where", "Sigmoid"]
    rows = "Rows of attention that see no key"
    assert subjects["1.18"] == ["PRelu", "Sqrt", "ReduceMax", rows, *of_all]
    assert subjects["1.23"] == ["PRelu", "Attention", rows, *of_all]
    assert list(subjects.values())[-1] == of_all
