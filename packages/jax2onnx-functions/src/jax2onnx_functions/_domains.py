"""Domains that users give functions and operators."""

from __future__ import annotations

__all__ = ["check_domain", "check_function_domain"]

#: The names of the domain of the standard operators.
_STANDARD = ("", "ai.onnx")
#: What the names of domains begin with whose operators runtimes have.
_OF_RUNTIMES = ("ai.onnx.", "com.microsoft", "com.ms.", "org.pytorch.")


def check_domain(what: str, domain: str) -> None:
    """Raise ValueError for the domain of the standard operators, which would run in the place of a function of theirs."""
    if domain in _STANDARD:
        raise _not_own(what, domain, "that of the standard operators")


def check_function_domain(what: str, domain: str) -> None:
    """Raise ValueError for a domain of which a runtime may have an operator, now or later, that it runs in the place of the function."""
    check_domain(what, domain)
    if domain.startswith(_OF_RUNTIMES):
        raise _not_own(
            what, domain, "one of a runtime, which runs an operator of its own in the place of a function of that name"
        )


def _not_own(what: str, domain: str, whose: str) -> ValueError:
    return ValueError(
        f"{what}: the domain must not be {domain!r}, which is {whose}; give one of your own, domain='org.example'."
    )
