"""Cases of `conv`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_NHWC = ("NHWC", "HWIO", "NHWC")


def _conv(
    strides: Sequence[int] = (1, 1), padding: str | Sequence[tuple[int, int]] = "VALID",
    numbers: tuple[str, str, str] | None = None, *, lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, feature_group_count: int = 1, batch_group_count: int = 1,
    preferred_element_type: type[np.generic] | None = None,
) -> Callable[..., jax.Array]:  # fmt: skip
    return lambda x, w: lax.conv_general_dilated(
        x, w, strides, padding, lhs_dilation, rhs_dilation, numbers, feature_group_count, batch_group_count,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _kernel(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


_HWIO, _THIN = _kernel(3, 3, 4, 6), _kernel(2, 2, 4, 6)


def _same(x: jax.Array, strides: Sequence[int] = (1, 1)) -> jax.Array:
    return lax.conv_general_dilated(x, _HWIO.astype(x.dtype), strides, "SAME", dimension_numbers=_NHWC)


def _transposed(x: jax.Array) -> jax.Array:
    return lax.conv_transpose(x, _THIN.astype(x.dtype), (2, 2), "SAME", dimension_numbers=_NHWC)


def _derivative(strides: Sequence[int], **options: object) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
    """The derivative of a convolution by its operand."""
    convolve = functools.partial(lax.conv_general_dilated, window_strides=strides, dimension_numbers=_NHWC, **options)
    return lambda x, w, g: jax.vjp(convolve, x, w)[1](g)[0]


def _causal(x: jax.Array, kernel: jax.Array, before: int = 2) -> jax.Array:
    padded = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (before, 0, 0), (0, 0, 0)])
    return lax.conv_general_dilated(padded, kernel, (1,), [(0, 1)], dimension_numbers=("NWC", "WIO", "NWC"))


_SMOOTH = np.array([1, 3, 3, 1], np.float32) / 8

_covers = ("conv_general_dilated",)
_convolved, _correlated = ("jax.numpy.convolve",), ("jax.numpy.correlate",)

cases = [
    Case("nchw", _conv(), [(2, 4, 9, 9), (6, 4, 3, 3)], _covers, "Conv:2x6x7x7"),
    Case("nhwc", _same, [("B", 8, 10, 4)], _covers, "Transpose:Bx4x8x10 -> Conv:Bx6x8x10 -> Transpose:Bx8x10x6"),
    Case("symbolic_space", _same, [("B", "H", "W", 4)], _covers,
         "Transpose:Bx4xHxW -> Conv:Bx6xHxW -> Transpose:BxHxWx6", declines="the sizes of its windows are not known"),
    Case("symbolic_space_strided", lambda x: _same(x, (2, 2)), [("B", "H", "W", 4)], _covers,
         "Transpose -> Conv -> Transpose"),
    Case("derivative", _derivative((1, 1), padding="SAME"), [("B", 8, 10, 4), (3, 3, 4, 6), ("B", 8, 10, 6)], _covers,
         expect_graph("Transpose -> ConvTranspose -> Transpose", at_most=4)),
    Case("derivative_of_strides", _derivative((2, 1), padding=((0, 1), (3, 0)), rhs_dilation=(1, 2)),
         [("B", 8, 10, 4), (3, 3, 4, 6), ("B", 4, 9, 6)], _covers,
         expect_graph("Transpose -> ConvTranspose -> Transpose", at_most=4)),
    Case("derivative_by_points", _derivative((1, 1), padding="VALID"), [("B", 8, 10, 4), (1, 1, 4, 6), ("B", 8, 10, 6)], _covers,
         expect_graph("Transpose -> Conv -> Transpose")),
    Case("symbolic_padding", lambda x: lax.conv_general_dilated(
             x, _HWIO.astype(x.dtype), (2, 1), "SAME", rhs_dilation=(2, 1), dimension_numbers=_NHWC),
         [(2, "H", "W", 4)], _covers, expect_graph("Pad -> Conv")),
    # Below 4, JAX exchanges the two, and a NaN is in what is padded or not, as XLA likes.
    Case("convolve", lambda x: jnp.convolve(x, _SMOOTH), [("N",)], _convolved, at_most(4, Conv=1),
         options={"constraints": ("N >= 4",)}),
    Case("convolve_same", lambda x: jnp.convolve(x, _SMOOTH, "same"), [("N",)], _convolved, at_most(4, Conv=1),
         options={"constraints": ("N >= 4",)}),
    Case("convolve_of_two_lengths", jnp.convolve, [("N",), ("M",)], _convolved, at_most(12, Conv=1)),
    Case("convolve_of_integers", lambda x: jnp.convolve(x, np.array([1, -2, 1])), [(("N",), "int32")], _convolved,
         at_most(4, Conv=1)),
    Case("correlate", lambda x: jnp.correlate(x, _SMOOTH), [("N",)], _correlated, at_most(4, Conv=1),
         options={"constraints": ("N >= 4",)}),
    Case("correlate_with_what_is_longer", lambda x: jnp.correlate(_SMOOTH, x, "same"), [("N",)], _correlated,
         at_most(8, Conv=1), options={"constraints": ("N >= 5",)}),
    Case("full_with_what_is_longer", lambda x: (jnp.correlate(_SMOOTH, x, "full"), jnp.convolve(_SMOOTH, x)), [("N",)],
         (*_correlated, *_convolved), at_most(10, Conv=2), options={"constraints": ("N >= 5",)}, values="special"),
    Case("full_with_what_may_be_longer",
         lambda x: (jnp.correlate(_SMOOTH, x[1:], "full"), jnp.convolve(_SMOOTH, x[1:]), jax.scipy.signal.convolve(_SMOOTH, x[1:])),
         [("N",)], (*_correlated, *_convolved, "jax.scipy.signal.convolve"), at_most(12, Conv=3, Pad=1),
         options={"constraints": ("N >= 2",)}),
    Case("convolve_in_either_order", lambda x, y: [jnp.convolve(x, y, mode) for mode in ("same", "valid")], [("N",), ("M",)],
         _convolved),
    Case("correlate_in_either_order", lambda x, y: [jnp.correlate(x, y, mode) for mode in ("same", "valid")], [("N",), ("M",)],
         _correlated),
    Case("smaller_along_no_axis_or_all", lambda x, y: [jax.scipy.signal.convolve(x, y, mode) for mode in ("full", "same", "valid")],
         [("N",), ("M",)], ("jax.scipy.signal.convolve",)),
    Case("correlate_images", lambda x: [jax.scipy.signal.correlate2d(x, jnp.arange(6.0).reshape(2, 3), mode) for mode in ("full", "same", "valid")],
         [("H", "W")], ("jax.scipy.signal.correlate2d",), options={"constraints": ("H >= 2", "W >= 3")}),
    Case("correlate_images_in_either_order", lambda x: jax.scipy.signal.correlate2d(x, jnp.arange(6.0).reshape(2, 3), "same"),
         [("H", "H")], ("jax.scipy.signal.correlate2d",), options={"constraints": ("H >= 3",)}),
    Case("no_channels", lambda x, k: _conv((2,), [(1, 1)])(x[:, 1:], k[:, 1:]), [("B", "N", 9), (6, "N", 3)], _covers,
         expect=at_most(30, Gather=1, MatMul=1)),
    Case("no_channels_in_the_plane", lambda x, k: _conv((1, 1), "SAME")(x[:, 1:], k[:, 1:]),
         [("B", "N", 5, 4), (6, "N", 3, 3)], _covers, expect=at_most(40, Gather=2, MatMul=1), declines="there may be no channels"),
    Case("one_dimension", _conv((2,), [(1, 2)]), [("B", 4, 9), (6, 4, 3)], _covers, "Conv"),
    Case("three_dimensions", _conv((1, 2, 1), "SAME"), [(1, 2, 5, 5, 4), (3, 2, 3, 3, 2)], _covers, "Conv"),
    Case("four_dimensions", _conv((1, 1, 1, 1)), [(1, 2, 3, 3, 3, 3), (3, 2, 2, 2, 2, 2)], _covers, expect="Conv"),
    Case("no_space", _conv((), []), [("B", 4), (6, 4)], _covers, expect="Reshape -> Transpose -> MatMul -> Squeeze",
         declines="a convolution without spatial axes is a matrix product"),
    Case("mixed_layouts", _conv((1, 2), numbers=("CHNW", "WIHO", "WNCH")), [(4, 8, 2, 9), (2, 4, 3, 6)], _covers,
         expect=["Transpose -> Conv -> Transpose", "Transpose -> Conv"]),
    Case("dilated_kernel", _conv(rhs_dilation=(2, 3)), [(2, 4, 9, 9), (6, 4, 3, 2)], _covers, "Conv"),
    Case("depthwise", _conv(padding="SAME", feature_group_count=4), [(2, 4, 9, 9), (8, 1, 3, 3)], _covers, "Conv"),
    Case("depthwise_along_time", _conv((1,), [(3, 0)], feature_group_count=4), [(2, 4, "T"), (4, 1, 4)], _covers,
         expect_graph(counts={"Conv": 1})),
    Case("causal", _causal, [("B", "T", 4), (3, 4, 6)], _covers, expect_graph("Transpose -> Conv", counts={"Pad": 0})),
    Case("causal_of_nothing", _causal, [("B", 0, 4), (3, 4, 6)], _covers, expect_graph(counts={"Conv": 1})),
    Case("cropped_before", functools.partial(_causal, before=-1), [("B", 9, 4), (3, 4, 6)], _covers,
         expect_graph(counts={"Conv": 1, "Pad": 0})),
    Case("batch_groups", _conv(batch_group_count=2), [(4, 3, 5, 5), (6, 3, 2, 2)], _covers,
         expect="Reshape -> Transpose -> Reshape -> Conv"),
    Case("asymmetric_and_negative_padding", _conv(padding=[(2, -1), (-2, 3)]), [(2, 4, 9, 9), (6, 4, 3, 3)], _covers,
         "Slice -> Conv"),
    Case("transposed", _transposed, [(2, 5, 6, 4)], _covers, "Transpose -> ConvTranspose:2x6x10x12 -> Transpose"),
    Case("transposed_wide_padding", _conv(padding=[(3, 4), (1, 5)], lhs_dilation=(2, 3)),
         [(2, 4, 5, 5), (6, 4, 2, 3)], _covers, expect_graph("ConvTranspose")),
    Case("transposed_in_groups", _conv(padding=[(1, 1), (2, 2)], lhs_dilation=(2, 2), feature_group_count=2),
         [(2, 4, 5, 5), (6, 2, 3, 3)], _covers, expect_graph("ConvTranspose")),
    Case("dilated_both_strided", _conv((2, 1), [(1, 2), (0, 1)], lhs_dilation=(2, 3), rhs_dilation=(2, 1)),
         [(2, 4, 5, 5), (6, 4, 2, 3)], _covers, expect_graph("Conv", counts={"ConvTranspose": 0})),
    Case("no_channels_known", _conv(), [(2, 0, 5, 5), (3, 0, 2, 2)], _covers, expect="Expand"),
    Case("empty_batch", _conv(), [(0, 2, 5, 5), (3, 2, 2, 2)], _covers, expect="Identity"),
    Case("bytes", _conv(preferred_element_type=np.int32), [((2, 3, 5, 5), np.int8), ((4, 3, 2, 2), np.int8)], _covers,
         "ConvInteger"),
    Case("int32", _conv(padding="SAME"), [((2, 3, 5, 5), np.int32), ((4, 3, 3, 3), np.int32)], _covers,
         expect_graph(counts={"MatMul": 1}), declines="there is no Conv of integers other than bytes"),
    Case("float16", _conv(), [((2, 3, 5, 5), np.float16), ((4, 3, 2, 2), np.float16)], _covers, rtol=1e-2, atol=1e-2,
         expect="Conv", declines=["it is no depthwise convolution along one axis", "its windows are not large, or it has many outputs"]),
    Case("complex", _conv(), [((2, 3, 5, 5), np.complex64), ((4, 3, 2, 2), np.complex64)], _covers,
         expect=at_most(20, Conv=3, Gather=4)),
    Case("gradient_of_kernel", jax.grad(lambda w, x: (_conv((2, 2), "SAME")(x, w) ** 2).sum()),
         [(6, 4, 3, 3), (2, 4, 8, 8)], _covers,
         expect=["Conv -> Mul -> Transpose -> Conv -> Transpose", "Transpose -> Conv"]),
    Case("gradient_of_kernel_channels_last", jax.grad(lambda w, x: (_conv((2, 1), "SAME", _NHWC)(x, w) ** 2).sum()),
         [(3, 2, 3, 4), (2, 12, 9, 3)], ("conv_general_dilated",), expect=at_most(50, MatMul=6, Conv=1)),
    Case("gradient_of_input", jax.grad(lambda x, w: (_conv((2, 2), "SAME")(x, w) ** 2).sum()),
         [(2, 4, 8, 8), (6, 4, 3, 3)], _covers,
         expect=expect_graph("Conv -> Mul -> ConvTranspose", absent=["Slice"])),
    Case("gradient_of_symbolic_batches", jax.grad(lambda x, w: (jax.vmap(_conv((1,), "SAME"))(x, w) ** 2).sum(), (0, 1)),
         [("B", 2, 3, 7), ("B", 4, 3, 2)], ("jax.lax.conv_general_dilated",), expect=expect_graph(counts={"Conv": 0}),
         values="unit"),  # sums of squares of large numbers overflow in another order
    Case("gradient_along_a_symbolic_axis", jax.grad(lambda x, w: (_conv((2,), "SAME")(x, w) ** 2).sum(), (0, 1)),
         [(2, 3, "N"), (4, 3, 3)], ("jax.lax.conv_general_dilated",), expect=expect_graph(counts={"Conv": 2, "ConvTranspose": 1})),
    Case("vmap_of_kernels", jax.vmap(_conv(), in_axes=(None, 0)), [(2, 4, 6, 6), (3, 5, 4, 2, 2)], _covers,
         expect="Reshape -> Conv -> Reshape -> Transpose"),
]  # fmt: skip
