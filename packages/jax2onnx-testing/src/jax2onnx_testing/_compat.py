"""The names of JAX that depend on its version, for this package."""

from __future__ import annotations

import jax

__all__ = ["QUICK_COMPILATION", "WHOLE_COMPILATION"]

_HAS_CHOICE = jax.__version_info__ < (0, 11)
#: Options of XLA that make a program that runs once cheaper to compile. Later versions have no choice of emitters.
QUICK_COMPILATION: dict[str, bool | int] = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
    **({"xla_cpu_use_fusion_emitters": False} if _HAS_CHOICE else {}),
}
#: Those options with the emitters that have every operation.
WHOLE_COMPILATION: dict[str, bool | int] = {
    **QUICK_COMPILATION,
    **({"xla_cpu_use_fusion_emitters": True} if _HAS_CHOICE else {}),
}
