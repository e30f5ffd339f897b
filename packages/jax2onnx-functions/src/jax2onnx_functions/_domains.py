"""Domains that users give functions and operators."""

from __future__ import annotations

__all__ = ["check_domain"]

#: The names of the domain of the standard operators.
_STANDARD = ("", "ai.onnx")


def check_domain(what: str, domain: str) -> None:
    """Raise ValueError for the domain of the standard operators, which would run in the place of a function of theirs."""
    if domain in _STANDARD:
        raise ValueError(
            f"{what}: the domain must not be {domain!r}, which is that of the standard operators; give one of your own, domain='org.example'."
        )
