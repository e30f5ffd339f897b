"""Addresses of documentation, from names that exist: the rules of tools/documentation_links.py."""

from __future__ import annotations

import documentation_links
import pytest
from documentation_links import address, public_name, public_operation

pytestmark = pytest.mark.sampled(None)


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("jax.lax.dot_general", "https://docs.jax.dev/en/latest/_autosummary/jax.lax.dot_general.html"),
        ("jax.nn.softmax", "https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html"),
        ("jax.lax.no_such_operation", None),
        ("jax.lax.mulhi", None),  # public, but in no index
        (
            "flax.nnx.Linear",
            "https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/linear.html#flax.nnx.Linear",
        ),
        (
            "flax.linen.Dense",
            "https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/layers.html#flax.linen.Dense",
        ),
        ("equinox.nn.GRUCell", "https://docs.kidger.site/equinox/api/nn/rnn/#equinox.nn.GRUCell"),
        ("haiku.Linear", "https://dm-haiku.readthedocs.io/en/latest/api.html#haiku.Linear"),
        ("keras.layers.Conv2DTranspose", "https://keras.io/api/layers/convolution_layers/convolution2d_transpose/"),
        ("keras.layers.ConvLSTM2D", "https://keras.io/api/layers/recurrent_layers/conv_lstm2d/"),
        ("keras.layers.LeakyReLU", "https://keras.io/api/layers/activation_layers/leaky_relu/"),
        ("keras.layers.PReLU", "https://keras.io/api/layers/activation_layers/prelu/"),
        ("keras.layers.RMSNormalization", "https://keras.io/api/layers/normalization_layers/rms_normalization/"),
    ],
)
def test_the_address_of_what_a_library_documents(name, page):
    assert address(name) == page


@pytest.mark.parametrize(
    ("primitive", "function"),
    [
        ("while", "jax.lax.while_loop"),
        ("scatter-add", "jax.lax.scatter_add"),
        ("cholesky", "jax.lax.linalg.cholesky"),
        ("bcoo_todense", "jax.experimental.sparse.bcoo_todense"),
        ("threefry2x32", None),
    ],
)
def test_the_function_that_binds_a_primitive(primitive, function):
    assert public_operation(primitive) == function


def test_every_function_that_is_named_for_a_primitive_exists():
    assert [name for name in documentation_links._FUNCTIONS.values() if address(name) is None] == []


def test_a_class_of_ones_own_has_the_name_of_the_librarys():
    from flax import nnx

    class Own(nnx.Linear):
        """A linear layer."""

    assert public_name(Own) == "flax.nnx.Linear"
