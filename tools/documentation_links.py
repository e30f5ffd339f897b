"""Addresses of the documentation of operations and layers by JAX and the libraries of models, built from public names.

An address is given only for a name that exists where the rule looks for it; what a library has but does not document is listed here.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping

__all__ = ["address", "is_offered_by", "public_name", "public_operation"]

_JAX = "https://docs.jax.dev/en/latest/_autosummary/{name}.html"
_NNX = "https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/{page}.html#{name}"
_LINEN = "https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/{page}.html#{name}"
_EQUINOX = "https://docs.kidger.site/equinox/api/nn/{page}/#{name}"
_HAIKU = "https://dm-haiku.readthedocs.io/en/latest/api.html#{name}"
_KERAS = "https://keras.io/api/layers/{page}/{name}/"

#: Where a primitive's function is, if it has the primitive's name.
_PRIMITIVES = ("jax.lax", "jax.lax.linalg", "jax.experimental.sparse")

#: Primitive → the documented function that binds it, where that has another name or place.
_FUNCTIONS = {
    "addupdate": "jax.ref.addupdate",
    "and": "jax.lax.bitwise_and",
    "approx_top_k": "jax.lax.approx_max_k",
    "custom_jvp_call": "jax.custom_jvp",
    "custom_vjp_call": "jax.custom_vjp",
    "debug_callback": "jax.debug.callback",
    "debug_print": "jax.debug.print",
    "device_put": "jax.device_put",
    "empty_ref": "jax.ref.new_ref",
    "freeze": "jax.ref.freeze",
    "get": "jax.ref.get",
    "inspect_sharding": "jax.debug.inspect_array_sharding",
    "io_callback": "jax.experimental.io_callback",
    "jit": "jax.jit",
    "new_ref": "jax.ref.new_ref",
    "not": "jax.lax.bitwise_not",
    "or": "jax.lax.bitwise_or",
    "pallas_call": "jax.experimental.pallas.pallas_call",
    "platform_index": "jax.lax.platform_dependent",
    "pure_callback": "jax.pure_callback",
    "random_bits": "jax.random.bits",
    "random_clone": "jax.random.clone",
    "random_fold_in": "jax.random.fold_in",
    "random_gamma": "jax.random.gamma",
    "random_seed": "jax.random.key",
    "random_split": "jax.random.split",
    "random_unwrap": "jax.random.key_data",
    "random_wrap": "jax.random.wrap_key_data",
    "reduce_scatter": "jax.lax.psum_scatter",
    "reduce_window_max": "jax.lax.reduce_window",
    "reduce_window_min": "jax.lax.reduce_window",
    "reduce_window_sum": "jax.lax.reduce_window",
    "regularized_incomplete_beta": "jax.lax.betainc",
    "remat2": "jax.checkpoint",
    "shard_map": "jax.shard_map",
    "sharding_constraint": "jax.lax.with_sharding_constraint",
    "swap": "jax.ref.swap",
    "while": "jax.lax.while_loop",
    "xor": "jax.lax.bitwise_xor",
}

#: What is public, but in no index of the library's documentation.
_WITHOUT_PAGE = frozenset({
    "haiku.DepthwiseConv1D", "haiku.DepthwiseConv3D", "haiku.RMSNorm", "jax.lax.create_token", "jax.lax.dce_sink", "jax.lax.linalg.ormqr", "jax.lax.mulhi", "jax.lax.pbroadcast",
    "jax.lax.stack", "jax.lax.stage", "jax.lax.tile", "jax.lax.unstack", "keras.layers.ReversibleEmbedding",
})  # fmt: skip

#: Module of `flax.nnx` → the page of its layers.
_NNX_PAGES = {
    "flax.nnx.nn.attention": "attention",
    "flax.nnx.nn.linear": "linear",
    "flax.nnx.nn.lora": "lora",
    "flax.nnx.nn.normalization": "normalization",
    "flax.nnx.nn.recurrent": "recurrent",
    "flax.nnx.nn.stochastic": "stochastic",
    "flax.linen.pooling": "pooling",
}
_EQUINOX_PAGES = {
    "equinox.nn._activations": "activations",
    "equinox.nn._attention": "attention",
    "equinox.nn._batch_norm": "normalisation",
    "equinox.nn._conv": "conv",
    "equinox.nn._dropout": "dropout",
    "equinox.nn._embedding": "embedding",
    "equinox.nn._linear": "linear",
    "equinox.nn._mlp": "mlp",
    "equinox.nn._normalisation": "normalisation",
    "equinox.nn._pool": "pool",
    "equinox.nn._rnn": "rnn",
    "equinox.nn._sequential": "sequential",
    "equinox.nn._spectral_norm": "normalisation",
    "equinox.nn._weight_norm": "normalisation",
}
#: Folder of Keras's layers → that of their pages.
_KERAS_PAGES = {
    "activations": "activation_layers",
    "attention": "attention_layers",
    "convolutional": "convolution_layers",
    "core": "core_layers",
    "merging": "merging_layers",
    "normalization": "normalization_layers",
    "pooling": "pooling_layers",
    "regularization": "regularization_layers",
    "reshaping": "reshaping_layers",
    "rnn": "recurrent_layers",
}
_WORDS = re.compile(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])")


def public_operation(primitive: str) -> str | None:
    """The public function that binds a primitive of JAX, or None: `while` → `jax.lax.while_loop`."""
    if primitive in _FUNCTIONS:
        return _FUNCTIONS[primitive]
    name = primitive.replace("-", "_")
    return next((f"{module}.{name}" for module in _PRIMITIVES if callable(_found(f"{module}.{name}"))), None)


def public_name(kind: type) -> str | None:
    """The name under which a library offers a class, or the first of its bases that it offers: `flax.nnx.Linear`."""
    for base in kind.__mro__:
        for module in _LIBRARIES:
            if base.__module__.partition(".")[0] == module.partition(".")[0]:
                names = sorted(name for name, value in vars(importlib.import_module(module)).items() if value is base)
                if names:
                    return f"{module}.{base.__name__ if base.__name__ in names else names[0]}"
    return None


def is_offered_by(library: str, name: str) -> bool:
    """Whether a library offers the function of a full name under the same last name."""
    found = _found(name)
    return found is not None and _found(f"{library}.{name.rpartition('.')[2]}") is found


def address(name: str) -> str | None:
    """The address of the page about a public function or class, or None.

    Args:
      name: its full name: `jax.lax.add`, `flax.nnx.Linear`.
    """
    found = _found(name)
    if found is None or name in _WITHOUT_PAGE:
        return None
    if name.startswith("jax."):
        return _JAX.format(name=name)
    library = next((library for library in _LIBRARIES if name.startswith(f"{library}.")), None)
    module = inspect.getmodule(found)
    return None if library is None or module is None else _LIBRARIES[library](name, module.__name__)


def _found(name: str) -> object | None:
    """The object of a full name; None where there is no such module, or no such name in it."""
    module, _, attribute = name.rpartition(".")
    try:
        return vars(importlib.import_module(module)).get(attribute)
    except ImportError:
        return None


def _nnx(name: str, module: str) -> str | None:
    page = _NNX_PAGES.get(module)
    # The page about recurrences names its classes by their module.
    anchor = f"{module}.{name.rpartition('.')[2]}" if page == "recurrent" else name
    return None if page is None else _NNX.format(page=page, name=anchor)


def _linen(name: str, module: str) -> str:
    page = "activation_functions" if module == "flax.linen.activation" else "layers"
    return _LINEN.format(page=page, name=name)


def _equinox(name: str, module: str) -> str | None:
    page = _EQUINOX_PAGES.get(module)
    return None if page is None else _EQUINOX.format(page=page, name=name)


def _haiku(name: str, _module: str) -> str:
    return _HAIKU.format(name=name)


def _keras(name: str, module: str) -> str | None:
    page = _KERAS_PAGES.get(module.removeprefix("keras.src.layers.").partition(".")[0])
    return None if page is None else _KERAS.format(page=page, name=_keras_page(name.rpartition(".")[2]))


def _keras_page(name: str) -> str:
    """`Conv2DTranspose` → `convolution2d_transpose`; a name is divided before each word, but `ReLU` is one."""
    spelled = re.sub(r"Conv(?=[1-3]D)", "Convolution", name).replace("ReLU", "Relu").replace("PRelu", "Prelu")
    return _WORDS.sub("_", spelled).lower()


_Rule = Callable[[str, str], str | None]
#: Where libraries offer their layers → the rule for their addresses, from the name and the module that defines it.
_LIBRARIES: Mapping[str, _Rule] = {
    "flax.nnx": _nnx,
    "flax.linen": _linen,
    "equinox.nn": _equinox,
    "haiku": _haiku,
    "keras.layers": _keras,
}
