"""Sizes: products and quotients of dimensions with labels."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.sizes import ONE, Size, estimated_elements, product, size_of


def size(*dims: int | str | None) -> Size:
    return size_of(dim if isinstance(dim, int) else ir.SymbolicDim(dim) for dim in dims)


def text(made: Size | None) -> int | str | None:
    assert made is not None
    return made.dim if isinstance(made.dim, int) else made.dim.value


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ((), 1),
        ((2, 3), 6),
        (("B", 0), 0),
        (("B", 1), "B"),
        (("B", "B", 2), "2*B^2"),
        (("T - 1", "T + 1"), "T^2 - 1"),
        (("B - 2*T", "B"), "B^2 - 2*B*T"),
        (("-B", "T"), "-B*T"),
        (("-T - 1",), "-T - 1"),
        (("T^3", 2), "2*T^3"),
        (("floordiv(T, 2)", "floordiv(T, 2)"), "floordiv(T, 2)^2"),
        (("T - T", "B"), 0),
        (("any text", 2), "2*any text"),
        ((None, 2), None),
        ((None, 0), 0),
    ],
)
def test_the_product_of_dimensions(dims, expected):
    assert text(size(*dims)) == expected


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ((6,), (3,), 2),
        ((6,), (4,), None),
        ((6,), (0,), None),
        (("B",), (0,), None),
        (("B", 4), (1,), "4*B"),
        (("B", 4), (2,), "2*B"),
        (("B", 3), (2,), None),
        (("B", "T"), ("B",), "T"),
        (("B", "T"), ("T", "T"), None),
        (("B",), ("C",), None),
        (("T^2 - 1",), ("T + 1",), "T - 1"),
        (("T^2 + 1",), ("T + 1",), None),
        (("2*B*T + 2*B",), ("T + 1",), "2*B"),
        (("2*B*T + 2*B",), ("2*B",), "T + 1"),
        ((0,), ("B",), 0),
    ],
)
def test_the_quotient_of_sizes(whole, part, expected):
    found = size(*whole).divided_by(size(*part))
    assert (found if found is None else text(found)) == expected


def test_sizes_without_labels_are_equal_only_to_themselves():
    dim = ir.SymbolicDim(None)
    assert size_of([dim, 2]) == size_of([2, dim])
    assert size_of([dim]) != size_of([ir.SymbolicDim(None)])
    assert text(size_of([dim, 6]).divided_by(size_of([dim]))) == 6


def test_the_product_of_sizes():
    assert product([]) == ONE
    assert text(product([size("B"), size(2), size("T")])) == "2*B*T"


def test_an_estimate_takes_symbols_to_be_sixteen():
    assert estimated_elements([2, ir.SymbolicDim("B"), ir.SymbolicDim(None)]) == 512
