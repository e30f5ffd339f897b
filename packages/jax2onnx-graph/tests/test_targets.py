"""Names of targets with versions, and the known version that another one is treated as."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.targets import Target, choose_version, find_target, split_name, standard_target

KNOWN = ["1.9", "1.18", "2.0"]


@pytest.mark.parametrize(("name", "parts"), [("mine", ("mine", "")), ("mine==1.18.1", ("mine", "1.18.1"))])
def test_a_name_may_have_a_version(name, parts):
    assert split_name(name) == parts


def test_a_version_that_is_not_named():
    with pytest.raises(OptionError, match="names no version; write target='mine' for the newest"):
        split_name("mine==")


@pytest.mark.parametrize(("wanted", "version"), [("1.9", "1.9"), ("1.18.3", "1.18"), ("2", "2.0"), ("2.0.0rc1", "2.0")])
def test_a_known_version_and_its_patches_are_taken_as_they_are(wanted, version):
    chosen = choose_version("Mine", wanted, KNOWN)
    assert (chosen.version, chosen.notes) == (version, ())


@pytest.mark.parametrize(("wanted", "version"), [("1.10", "1.9"), ("1.19.2", "1.18"), ("3.1", "2.0")])
def test_an_unknown_version_is_treated_as_the_newest_before_it_with_a_note(wanted, version):
    chosen = choose_version("Mine", wanted, KNOWN)
    assert chosen.version == version
    assert chosen.notes == (
        f"What Mine {wanted} computes is not known: the model is for {version}, the newest known version before it.",
    )


def test_a_version_before_all_known_ones_is_refused():
    with pytest.raises(OptionError, match=r"Mine 1\.8 is older than all versions that are known; the oldest is 1\.9"):
        choose_version("Mine", "1.8", KNOWN)


@pytest.mark.parametrize("wanted", ["new", "1.x", ".1"])
def test_what_is_no_version_is_refused(wanted):
    with pytest.raises(OptionError, match=r"is no version of Mine; write one such as 2\.0"):
        choose_version("Mine", wanted, KNOWN)


class _Mine(Target):
    """A target of one version that treats infinities as it likes, but for those of masks."""

    name, is_default, versions = "mine", True, ("1.0",)

    def of_version(self, version):
        return _Mine().assuming([Assumption.FINITE]) if version == "1.0" else super().of_version(version)

    def guarantees(self, op_type, dtype, kept):
        return kept == "minus_inf" and op_type == "Softmax"


MINE = _Mine()
TARGETS = {"mine": MINE, "onnx": standard_target}


@pytest.mark.parametrize(("name", "target"), [(None, MINE), ("mine", MINE), ("onnx", standard_target)])
def test_a_target_is_found_by_its_name(name, target):
    assert find_target(TARGETS, name) is target


def test_plain_onnx_is_taken_where_no_default_is_installed():
    assert find_target({"onnx": Target()}, None) is standard_target


def test_a_target_is_found_by_its_name_and_version():
    assert find_target(TARGETS, "mine==1.0").assumes(Assumption.FINITE)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (MINE, "target is the name of one target, such as 'onnx', not <target 'mine': opsets 18 to 28"),
        ("mime", "target='mime' is not installed; there are: mine, onnx. 'mine' may be meant."),
        ("phone", "'phone' is not installed; .* Each comes with a package of its name: pip install jax2onnx-phone"),
        ("phone==1", "Each comes with a package of its name: pip install jax2onnx-phone"),
        ("mine==2.0", "The target 'mine' has no versions; write target='mine'"),
        ("onnx==1.0", "The target 'onnx' has no versions; write target='onnx'"),
    ],
)
def test_what_is_no_target_is_refused(name, message):
    with pytest.raises(OptionError, match=message):
        find_target(TARGETS, name)


def test_plain_onnx_runs_and_keeps_all_that_the_standard_says():
    plain, floats = standard_target, np.dtype(np.float32)
    assert plain.supports("Exp", floats, 18)
    assert not plain.supports("com.microsoft.Gelu", floats, 18)
    assert plain.guarantees("Max", floats, "nan")
    assert plain.keeps("Max", floats, "inf")
    assert (plain.runs_functions, plain.runs_sizes_from_data, plain.is_default, plain.rounding) == (
        True,
        True,
        False,
        0,
    )
    assert (plain.installed(), plain.versions, plain.passes(), plain.limitations(), plain.notes) == (
        plain,
        (),
        (),
        (),
        (),
    )
    assert plain.maker == "jax2onnx_graph.targets:Target"


@pytest.mark.parametrize(
    ("op_type", "kept", "is_kept"),
    [("Softmax", "nan", True), ("Softmax", "inf", True), ("Softmax", "empty", False), ("Max", "nan", True), ("Max", "inf", False)],
)  # fmt: skip
def test_a_promise_of_finite_numbers_leaves_masks_right(op_type, kept, is_kept):
    floats = np.dtype(np.float32)
    promised = MINE.assuming([Assumption.FINITE])
    assert promised.keeps(op_type, floats, kept) is is_kept
    assert not MINE.keeps(op_type, floats, kept)
    assert promised.assuming([Assumption.FINITE]) is promised
    assert not MINE.assumptions
