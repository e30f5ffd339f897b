"""The options of JAX under which functions are traced and rules evaluated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from jax._src import config as _config

from jax2onnx_core.jax_types import Equation

__all__ = ["default_options", "default_types", "options_of", "without_experiments"]

# What rules and decompositions are written for: JAX's defaults, with 64-bit types.
_DEFAULT_OPTIONS = {
    "jax_enable_x64": True,
    "jax_explicit_x64_dtypes": "allow",
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_default_matmul_precision": None,
    "jax_legacy_prng_key": "allow",
    "jax_random_seed_offset": 0,
    "jax_disable_jit": False,
    "jax_no_tracing": False,
    "jax_no_execution": False,
    "jax_debug_infs": False,
    "jax_debug_key_reuse": False,
    "jax_debug_nans": False,
    "jax_enable_checks": False,
    "jax_check_static_indices": False,
    "jax_check_tracer_leaks": False,
    "jax_transfer_guard_device_to_device": "allow",
    "jax_transfer_guard_device_to_host": "allow",
    "jax_transfer_guard_host_to_device": "allow",
}
# Other jaxprs for the same operations: primitives that plugins do not know, weights as literals, checks that write to an array of JAX's own.
_EXPERIMENTS = {
    "jax_custom_jvp3": False,
    "jax_custom_vjp3": False,
    "jax_error_checking_behavior_divide": "ignore",
    "jax_error_checking_behavior_nan": "ignore",
    "jax_error_checking_behavior_oob": "ignore",
    "jax_remat3": False,
    "jax_scan3": False,
    "jax_use_simplified_jaxpr_constants": False,
}


def default_options() -> contextlib.AbstractContextManager[None]:
    """Inside, JAX has its default options and 64-bit types, whatever the user has set."""
    return _options(_DEFAULT_OPTIONS | _EXPERIMENTS)


def default_types(*, x64: bool) -> contextlib.AbstractContextManager[None]:
    """Inside, JAX's types are those of a user with or without 64 bits: a function that asks for float64 gets float32 without."""
    return _options({"jax_enable_x64": x64, "jax_explicit_x64_dtypes": "warn"})


def without_experiments() -> contextlib.AbstractContextManager[None]:
    """Inside, the user's options hold, but for those by which JAX tries out another form of jaxprs."""
    return _options(_EXPERIMENTS)


def options_of(eqn: Equation) -> contextlib.AbstractContextManager[None]:
    """Inside, those options hold that an equation remembers from its trace, and that change what it computes."""
    kept, option = eqn.ctx.threefry_partitionable, _config.threefry_partitionable
    return contextlib.nullcontext() if option.value == kept else option(kept)


@contextlib.contextmanager
def _options(values: Mapping[str, object]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in values.items():
            state = _config.config_states.get(name)  # some options are older or newer than this JAX
            if state is not None and state.value != value:
                stack.enter_context(state(value))
        yield
