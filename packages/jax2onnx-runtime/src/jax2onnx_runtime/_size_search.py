"""The search for sizes of symbols that fulfil constraints, by trying: narrowed after each choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.expressions import solutions
from jax2onnx_graph.labels import symbols_in

__all__ = ["Domains", "SizeSearch"]

#: Symbol → the sizes to try, in order.
Domains = Mapping[str, Array]


class SizeSearch:
    """Finds the first sizes at which comparisons are true; a comparison narrows the sizes of the last of its symbols."""

    def __init__(
        self, comparisons: Sequence[str], accepts: Callable[[Mapping[str, int]], bool], *, distinct: bool, tries: int
    ) -> None:
        """Prepare a search.

        Args:
          comparisons: what has to be true.
          accepts: decides at last about sizes of all symbols.
          distinct: whether no two symbols may get the same size.
          tries: how many sizes are tried before the search is given up.
        """
        self._comparisons = [(text, symbols_in(text)) for text in comparisons]
        self._accepts, self._distinct, self._tries = accepts, distinct, tries

    def first(self, domains: Domains, given: Mapping[str, int]) -> dict[str, int] | None:
        """The first sizes that fit, the `given` ones included; those of the last symbol vary fastest."""
        return self._extended(dict(given), self._narrowed(domains, given))

    def _extended(self, known: dict[str, int], domains: Domains) -> dict[str, int] | None:
        if not domains:
            return known if self._accepts(known) else None
        if not all(sizes.size for sizes in domains.values()):
            return None
        name = next(iter(domains))
        for size in map(int, domains[name]):
            if self._tries <= 0:
                return None
            self._tries -= 1
            sizes = {**known, name: size}
            others = {n: d[d != size] if self._distinct else d for n, d in domains.items() if n != name}
            found = self._extended(sizes, self._narrowed(others, sizes, name))
            if found is not None:
                return found
        return None

    def _narrowed(self, domains: Domains, known: Mapping[str, int], new: str | None = None) -> Domains:
        """The sizes that remain, by the comparisons with one unknown symbol; only those about `new` if it is given."""
        for text, symbols in self._comparisons:
            unknown = symbols - known.keys()
            if len(unknown) == 1 and unknown <= domains.keys() and (new is None or new in symbols):
                (name,) = unknown
                domains = {**domains, name: solutions(text, name, domains[name], known)}
        return domains
