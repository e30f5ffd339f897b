"""Names of targets with versions, and the known version that another one is treated as."""

from __future__ import annotations

import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.targets import choose_version, split_name

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
