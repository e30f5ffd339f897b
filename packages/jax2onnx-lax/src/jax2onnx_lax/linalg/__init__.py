"""Decompositions and solvers of linear algebra."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "eig",
    "eigh",
    "hessenberg",
    "householder",
    "lu",
    "qr",
    "schur",
    "solve",
    "sparse",
    "svd",
    "triangular",
)
