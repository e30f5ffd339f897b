"""Sizes and ranges that somebody gives, and those of inputs."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph.errors import OptionError, SymbolError
from jax2onnx_runtime.sizes import check_ranges, check_shapes, check_sizes, choose_sizes, find_sizes, index_ranges


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ([], OptionError, "sizes needs a mapping"),
        ({"B": 2}, OptionError, "sizes needs a mapping"),
        ([("B", 2)], OptionError, "sizes needs a mapping"),
        ([{"B": 2, "T": 3}, {"B": 2}], SymbolError, r"sizes\[1\]: there is none for T. The symbols are: B, T"),
        ([{"B": 2, "T": 3, "N": 1}], SymbolError, r"sizes\[0\]: no input has N"),
        ([{"B": 0, "T": 3}], SymbolError, "B >= 1"),
        ([{"B": 2, "T": 1}], SymbolError, "a dimension would be negative for B = 2, T = 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(space_of, sizes, error, message):
    space = space_of(["B", "T - 2"], names=["B", "T"])
    check_sizes(space, [{"B": 1, "T": 2}, {"B": 3, "T": 9}])
    with pytest.raises(error, match=message):
        check_sizes(space, sizes)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 1), "low < high"), ((2, 1), "low < high"), ([0, 1], "low < high"), ((0, 1, 2), "low < high"),
        ((-129, 1), "does not hold all of"), ((0, 129), "does not hold all of"),
    ],
)  # fmt: skip
def test_ranges_that_do_not_fit_are_refused(bounds, message):
    check_ranges({"i": np.dtype("int8")}, {"i": (-128, 128)})
    with pytest.raises(OptionError, match=message):
        check_ranges({"i": np.dtype("int8")}, {"i": bounds})
    with pytest.raises(OptionError, match="there is no input 'j'; the inputs are i"):
        check_ranges({"i": np.dtype("int8")}, {"j": (0, 1)})


def test_ranges_of_floats_are_not_those_of_integers():
    check_ranges({"x": np.dtype("float32")}, {"x": (-1e9, 0.5)})


def test_an_index_is_within_the_smallest_of_the_axes(space_of):
    space = space_of(["B"], names=["B"])
    found = index_ranges(space, {"i": [5, "2*B"], "j": ["B - 2"], "k": ["N"], "m": ["N", 4]}, {"B": 2})
    assert found == {"i": (0, 4), "j": (0, 1), "m": (0, 4)}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2,), r"Input 'x' has shape \(2,\), but the program was exported for \(B, T - 2\)"),
        ((2, 4), r"has size 4 on axis 1, but it should be T - 2 = 3 where B = 2, T = 5; the exported shape"),
        ((3, 3), "has size 3 on axis 0, but it should be B = 2"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(space_of, shape, message):
    space = space_of(["B", "T - 2"], names=["B", "T"])
    dims = ["B", "T - 2"]
    assert check_shapes(space, {"x": ((2, 3), dims)}, lambda: {"B": 2, "T": 5}) == {"B": 2, "T": 5}
    with pytest.raises(SymbolError, match=message):
        check_shapes(space, {"x": (shape, dims)}, lambda: {"B": 2, "T": 5})


def test_a_number_is_no_expression_in_the_message(space_of):
    space = space_of([3], names=["B"])
    with pytest.raises(SymbolError, match=r"has size 4 on axis 0, but it should be 3; the exported shape is \(3\)\."):
        check_shapes(space, {"x": ((4,), [3])}, lambda: {"B": 2})
    with pytest.raises(SymbolError, match="B >= 1"):
        check_shapes(space, {"x": ((3,), [3])}, lambda: {"B": 0})


def test_preferred_sizes_come_first_then_the_smallest(space_of):
    space = space_of(["B", "T - 2"], names=["B", "T"])
    assert find_sizes(space, {"B": (7,), "T": (1, 9)}) == {"B": 7, "T": 9}
    assert find_sizes(space, {"B": (), "T": ()}) == {"B": 1, "T": 2}
    assert find_sizes(space, {"T": ()}, {"B": 4}) == {"B": 4, "T": 2}
    assert find_sizes(space, {"B": (5, 6), "T": (5, 6)}, distinct=True) == {"B": 5, "T": 6}
    assert find_sizes(space, {"B": (9000,), "T": ()}) == {"B": 9000, "T": 2}
    with pytest.raises(SymbolError):
        find_sizes(space, {"T": ()}, {"B": 0})


def test_runs_are_at_the_smallest_sizes_and_at_others_that_differ(space_of):
    space = space_of(["B", "T"], names=["B", "T"])
    found = choose_sizes(space)
    assert found[0] == {"B": 1, "T": 1}
    assert len(found) == 3
    for name in ("B", "T"):
        assert len({sizes[name] for sizes in found}) == 3
    assert all(sizes["B"] != sizes["T"] for sizes in found[1:])
    critical = choose_sizes(space, {"T": [1, 50, 60, 70]})
    assert [sizes["T"] for sizes in critical[3:]] == [50, 60]
