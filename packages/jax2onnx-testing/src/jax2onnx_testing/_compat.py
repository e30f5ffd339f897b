"""The names of JAX that depend on its version, for this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

__all__ = ["QUICK_COMPILATION", "WHOLE_COMPILATION", "scan_counts"]

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


def scan_counts(params: Mapping[str, Any], operands: int) -> tuple[int, int]:
    """The number of constants and of carried values among the operands of a scan, whose parameters are `params`."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    groups = params["ft_in"].update(range(operands)).unpack()
    return len(list(groups[0])), len(list(groups[1]))
