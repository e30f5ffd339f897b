"""Errors about comparisons of symbolic dimensions that tracing cannot decide, in the user's own terms."""

from __future__ import annotations

import operator
import re
import traceback
from bisect import bisect_left

from jax2onnx_core import _compat, _compat_dims
from jax2onnx_core.plugins.errors import SymbolError, UndecidedDimensionError
from jax2onnx_core.symbols.symbols import Symbols, without_traced_symbols

__all__ = ["about_a_symbol", "place_of", "undecided"]

_QUOTED = re.compile(r"(?<!attribute )'([^']+)'")
_WORD = re.compile(r"[A-Za-z_]\w*")
_COMPARISON = re.compile(r"comparison '(.+)' (<=|>=|<|>) '(.+)' is inconclusive")
_PADDING = re.compile(r"axis size \(= (.+)\) is larger than 1 and larger or equal than the padding length \(= (\d+)\)")
# How Python, NumPy and JAX call a dimension that they want to be a number.
_SUBJECT, _OBJECT = (
    re.compile(r"^'_DimExpr' object"),
    re.compile(r"""<\w+ "[\w.]*_DimExpr">|'?[\w.]*_DimExpr'?( object)?"""),
)
_WANTED = re.compile(
    "_DimExpr|^Symbolic dimension cannot|symbolic number of|[Ss]hape polymorphism|expected a sequence of integers .* got '"
)
# A dimension that Python is to multiply by a list or a tuple becomes an array first, which cannot.
_REPEATED = re.compile(r"for \*: ('(list|tuple)' and '\w*Tracer'|'\w*Tracer' and '(list|tuple)')")
_AT_ONCE = re.compile("^Evaluation rule for 'dim_as_value'.*")
_ARITHMETIC = re.compile("real number|ufunc|powers|argument must be|operand type|__round__")
_IN_THE_MODEL = (
    " Or let the model compute with it: functions of jax.numpy take a size as it is, jax.numpy.sqrt(x.shape[0])."
)
_INSTEAD_OF_LEN = " Or write x.shape[0] in the place of len(x), which is a number in Python."
_OPERATORS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
_STRICT = {">": " + 1", "<": " - 1"}
_LARGEST = 1 << 20  # no larger size of a symbol is proposed


def about_a_symbol(error: BaseException | None) -> Exception | None:
    """JAX's or Python's error that says that a symbolic dimension is no number: `error` itself, or one that it was raised from."""
    while isinstance(error, Exception):
        is_one = isinstance(error, _compat_dims.inconclusive_dimension_error) or _WANTED.search(str(error)) is not None
        if is_one or _repeated(error) is not None:
            return error
        error = error.__cause__
    return None


def _repeated(error: Exception) -> str | None:
    """The type, list or tuple, that Python was to repeat as often as a symbolic dimension says."""
    found = _REPEATED.search(str(error))
    if found is None or not any(_compat_dims.is_product(frame) for frame in traceback.extract_tb(error.__traceback__)):
        return None
    return found[2] or found[3]


def undecided(error: Exception, symbols: Symbols, place: str) -> UndecidedDimensionError:
    """The error to raise for JAX's `error`, which arose at `place`."""
    found: set[str] = set()
    known = symbols.known.union(size.name for size in symbols.from_data.values())

    def show(match: re.Match[str]) -> str:
        label, names = symbols.shown(match[1])
        if not names <= known:  # a word of the message, as the mode 'reflect' is
            return match[0]
        found.update(names)
        return f"'{label}'"

    repeated = _repeated(error)
    text = (
        str(error).partition("\n")[0]
        if repeated is None
        else f"A {repeated} cannot be repeated as often as a symbolic dimension says"
    )
    text = _SUBJECT.sub("A symbolic dimension", text)
    text = _OBJECT.sub("a symbolic dimension", text)
    text = _AT_ONCE.sub("A symbolic dimension cannot be computed with inside jax.ensure_compile_time_eval", text)
    shown = without_traced_symbols(_QUOTED.sub(show, text))
    if not found:
        found.update(known.intersection(_WORD.findall(shown)) or symbols.known)
    sizes = [size for size in symbols.from_data.values() if size.name in found or not found]
    if sizes:
        return UndecidedDimensionError(_of_data(shown, sizes[0].source, place), frozenset(found & symbols.known))
    constraint = _deciding(shown, symbols, found)
    advice = f"a number for the symbol, specialize={{{min(found, default='T')!r}: …}}."
    if constraint is not None:
        advice = f"a constraint that decides the question, constraints=({constraint!r},), or {advice}"
    if _ARITHMETIC.search(text):
        advice += _IN_THE_MODEL
    if "as an integer" in text and "len(" in place:
        advice += _INSTEAD_OF_LEN
    if symbols.from_data and found == symbols.known:  # the text does not say which it is
        (other, *_) = symbols.from_data.values()
        advice += (
            f" Or it is the size of {other.source}, which only a run of the model knows: jax.lax.cond chooses by jax.numpy.asarray(size), "
            "jax.lax.fori_loop counts to it."
        )
    return UndecidedDimensionError(
        f"Here the program needs the number behind a symbolic dimension: {shown.rstrip('.')}, at {place}. "
        f"Give {advice}",
        frozenset(found),
    )


def _of_data(question: str, source: str, place: str) -> str:
    """The advice where Python asks for a size that depends on data."""
    return (
        f"Here the program needs the number behind a size that depends on data: {question.rstrip('.')}, at {place}. It is the size of {source}, "
        "which only a run of the model knows, so Python's if, range, len and int cannot take it. jax.lax.cond chooses between computations by "
        "jax.numpy.asarray(size), jax.lax.fori_loop counts to it, and functions of jax.numpy take empty arrays as they are. Where the size has a "
        "bound that decides the question, say so around the operation: with jax2onnx_core.size(at_least=1)."
    )


def _deciding(shown: str, symbols: Symbols, names: set[str]) -> str | None:
    """A constraint under which JAX can answer a comparison: its only symbol is large enough, or the answer is yes."""
    padding = _PADDING.search(shown)
    if padding is not None:
        return f"{padding[1]} >= {int(padding[2]) + 1}"
    compared = _COMPARISON.search(shown)
    if compared is None:
        return None
    left, comparison, right = compared.groups()

    def decides(text: str) -> bool:
        try:
            trial = symbols.constrained(text)
            _OPERATORS[comparison](trial.parse(left), trial.parse(right))
        except (SymbolError, _compat_dims.inconclusive_dimension_error):
            return False
        return True

    bound, _ = symbols.shown(right + _STRICT.get(comparison, ""))
    candidates = [f"{left} {comparison[0]}= {bound}"]
    if len(names) == 1:
        (name,) = names
        sizes = range(1, int(min(_LARGEST, _compat_dims.bounds(symbols.parse(name))[1])))
        enough = f"{name} >= {bisect_left(sizes, True, key=lambda n: decides(f'{name} >= {n}')) + 1}"
        is_limit = comparison == "<=" and bound not in ("0", "1")
        candidates.insert(is_limit, enough)
    return next(filter(decides, candidates), None)


def place_of(error: Exception, otherwise: str) -> str:
    """The innermost line of the user's own code, or of a library's where it is in none; `otherwise` where it is JAX's or ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _compat.is_user_file(f.filename)]
    if not frames:
        return otherwise
    frame = next((f for f in reversed(frames) if "-packages" not in f.filename), frames[-1])
    return f"{frame.filename}:{frame.lineno} ({frame.name}): {frame.line}"
