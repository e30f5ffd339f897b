"""Checks of the values of options, so that a wrong one is an error that names it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence

from jax2onnx_graph.errors import OptionError

__all__ = ["check_count", "check_flag", "check_list", "check_mapping", "check_tolerance"]


def check_flag(option: str, value: object) -> None:
    """Raise OptionError unless the value of the option is True, False or None, which leaves it open."""
    if value is not None and not isinstance(value, bool):
        raise OptionError(f"{option} is True or False, not {value!r:.80}.")


def check_mapping(option: str, value: object, holds: str) -> None:
    """Raise OptionError unless the value of the option is a mapping or None.

    Args:
      option: its name.
      value: its value.
      holds: what it maps to what, with an example, for the error.
    """
    if value is not None and not isinstance(value, Mapping):
        raise OptionError(f"{option} maps {holds}; {value!r:.80} does not.")


def check_list(option: str, value: object, holds: str) -> None:
    """Raise OptionError unless the value of the option is a list, a tuple, a text or the like, or None.

    A text instead of a list of texts is left to the option, which knows what was meant.

    Args:
      option: its name.
      value: its value.
      holds: the elements, with an example, for the error.
    """
    if value is not None and not isinstance(value, Sequence):
        raise OptionError(f"{option} is a list of {holds}, not {value!r:.80}.")


def check_count(option: str, value: object, *, least: int = 0) -> None:
    """Raise OptionError unless the value of the option is a whole number from `least` on, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise OptionError(f"{option} is a whole number from {least} on, not {value!r:.80}.")


def check_tolerance(option: str, value: object) -> None:
    """Raise OptionError unless the value of the option is a finite number from 0 on, or None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise OptionError(f"{option} is a number from 0 on, not {value!r:.80}.")
