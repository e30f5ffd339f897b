"""Equal dimensions that are written differently, as layers that halve the size of an image write them: `-floordiv(-H, 2)`, `floordiv(H + 1, 2)`."""

from __future__ import annotations

from jax2onnx_graph.facts.dims import Dim, Factor, is_static

from jax2onnx_core import _compat_dims
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["are_equal", "normal_form"]

_MOST_PARTS = 8


def are_equal(one: Dim, other: Dim) -> bool:
    """Whether the rules of `normal_form` show that two dimensions are equal; JAX itself compares them as they are written.

    The parts of an array that `x[::2]` and `x[1::2]` take are the whole of it: `floordiv(a, n) + floordiv(a + 1, n) + … + floordiv(a + n - 1, n)`
    is `a`, for n up to 8 (Hermite's identity).
    Of a symbol H with the constraint `mod(H, n) == 0` they may use that it is n times a whole number.
    """
    if not any(map(_has_operation, (one, other))):
        return False
    difference = _without_last_parts(normal_form(one - other))
    if is_static(difference):
        return difference == 0
    divisors = _compat_dims.divisors(difference)
    if not divisors:
        return False
    symbols = Symbols([])
    whole = {name: symbols.parse(f"{divisors.get(name, 1)}*{name}") for name in _compat_dims.symbols_of(difference)}
    scaled = normal_form(_compat_dims.substitute(difference, whole))
    return is_static(scaled) and scaled == 0


def normal_form(dim: Dim) -> Dim:
    """An equal expression in which equal quotients by numbers are written alike.

    With integers a, c, n > 0 and m > 0:

    1. `mod(a, n)` is `a - n*floordiv(a, n)`.
    2. `floordiv(a + c*n, n)` is `floordiv(a, n) + c`, where c may be an expression: coefficients become those nearest to zero, and
       the constant is not negative and less than n.
    3. `floordiv(-a, n)` is `-floordiv(a + n - 1, n)`, which is taken where the coefficient of the first term is negative.
    4. `floordiv(floordiv(a, m) + c, n)` is `floordiv(a + c*m, m*n)`.
    5. `min(a, c)` is `min(a - c, 0) + c`, and `max(a, c)` is `a - min(a - c, 0)`.
    6. `floordiv(a, -n)` is `floordiv(-a, n)`, and `mod(a, -n)` is `a + n*floordiv(-a, n)`.
    7. `min(a, b)` and `max(a, b)`, of numbers too, are one of the two, where the bounds of the normal form of `a - b` tell which.

    Quotients by expressions, and other maxima and minima of two expressions, stay as they are.
    """
    if is_static(dim):
        return dim
    total: Dim = 0
    for coefficient, factors in _compat_dims.dim_expression(dim):
        product: Dim = coefficient
        for factor, exponent in factors:
            for value in [_factor(factor, dim)] * exponent:
                product = product * value
        total = total + product
    return total


def _without_last_parts(dim: Dim) -> Dim:
    """An equal expression of a normal form, with `floordiv(a + n - 1, n)` written as `a` less the other n - 1 parts of it."""
    if is_static(dim):
        return dim
    total: Dim = 0
    for coefficient, factors in _compat_dims.dim_expression(dim):
        if len(factors) == 1 and factors[0][1] == 1:
            total = total + coefficient * _last_part(factors[0][0], dim)
        else:
            total = total + _compat_dims.term(coefficient, factors, dim)
    return total


def _last_part(factor: Factor, like: Dim) -> Dim:
    """A factor of a normal form, or what it is by the other parts of a whole."""
    if isinstance(factor, str) or factor[0] != "floordiv":
        return _factor(factor, like)
    a, n = factor[1][0], _number(factor[1][1])
    if n is None or not 1 < n <= _MOST_PARTS or is_static(a) or _compat_dims.dim_expression(a)[-1] != (n - 1, []):
        return _factor(factor, like)
    whole = a - (n - 1)
    return whole - sum(_quotient(whole + k, n) for k in range(n - 1))


def _has_operation(dim: Dim) -> bool:
    """Whether a factor of an expression is a quotient, a remainder, a maximum or a minimum."""
    factors = [] if is_static(dim) else [factor for _, term in _compat_dims.dim_expression(dim) for factor, _ in term]
    return any(not isinstance(factor, str) for factor in factors)


def _factor(factor: Factor, like: Dim) -> Dim:
    if isinstance(factor, str):
        return _compat_dims.symbol(factor, like)
    operation, (a, b) = factor
    if operation in ("max", "min"):
        return _extreme(operation, a, b, like)
    n = _number(b)
    if not n or operation not in ("floordiv", "mod"):
        return _compat_dims.operation(operation, (a, b), like)
    a = normal_form(a)
    quotient = _quotient(a, n) if n > 0 else _quotient(-a, -n)
    return quotient if operation == "floordiv" else a - n * quotient


def _extreme(operation: str, a: Dim, b: Dim, like: Dim) -> Dim:
    """A maximum or a minimum, in the normal form where one of the two is a number."""
    (x, c), (y, d) = (a, _number(b)), (b, _number(a))
    other, number = (x, c) if c is not None else (y, d)
    least, largest = _compat_dims.bounds(normal_form(a - b))
    if least >= 0 or largest <= 0:
        return normal_form(a if (least >= 0) == (operation == "max") else b)
    if number is None:
        return _compat_dims.operation(operation, (a, b), like)
    less = _compat_dims.operation("min", (normal_form(other) - number, 0), like)
    return less + number if operation == "min" else other - less


def _number(dim: Dim) -> int | None:
    """The number that a dimension is; an operand of a quotient may be one in the guise of an expression."""
    if is_static(dim):
        return int(dim)
    terms = _compat_dims.dim_expression(dim)
    return terms[0][0] if len(terms) == 1 and not terms[0][1] else None


def _quotient(a: Dim, n: int) -> Dim:
    """`floordiv(a, n)` of an expression in its normal form, in its own."""
    if n == 1 or is_static(a):
        return a // n
    if _compat_dims.dim_expression(a)[0][0] < 0:
        return -_quotient(n - 1 - a, n)
    whole: Dim = 0
    for coefficient, factors in _compat_dims.dim_expression(a):
        count = (2 * coefficient + n - 1) // (2 * n) if factors else coefficient // n
        whole = whole + _compat_dims.term(count, factors, a)
    return whole + (_quotient_of_rest(a, n) if is_static(whole) and whole == 0 else _quotient(a - n * whole, n))


def _quotient_of_rest(a: Dim, n: int) -> Dim:
    """`floordiv(a, n)` where n divides no part of an expression."""
    coefficient, factors = _compat_dims.dim_expression(a)[0]
    constant = a - _compat_dims.term(coefficient, factors, a)
    if coefficient == 1 and is_static(constant) and len(factors) == 1:
        factor, exponent = factors[0]
        if exponent == 1 and not isinstance(factor, str) and factor[0] == "floordiv":
            inner, m = factor[1][0], _number(factor[1][1])
            if m is not None and m > 0:
                return _quotient(inner + constant * m, m * n)
    return _compat_dims.operation("floordiv", (a, n), a)
