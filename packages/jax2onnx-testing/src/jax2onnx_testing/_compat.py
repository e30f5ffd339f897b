"""What depends on JAX's version, for this package."""

from __future__ import annotations

import jax

__all__ = ["QUICK_COMPILATION"]

#: Options of XLA that make a program that runs once cheaper to compile. Later versions have no such choice.
QUICK_COMPILATION: dict[str, bool] = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
