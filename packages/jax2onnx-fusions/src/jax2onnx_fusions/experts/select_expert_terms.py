"""`SelectExpertTerms`: in a sum with a term for each expert, each expert computes only its own tokens."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.grouped import split_rows
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import LabelledDim, dims_of, same_dim, same_dims
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, permutation_of, scalar, without_axis
from jax2onnx_graph.traversal import is_read

from jax2onnx_fusions.experts._backward_slices import backward_slice, exclusive_nodes
from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes, token_count
from jax2onnx_fusions.experts._expert_gates import ExpertGate, expert_gate
from jax2onnx_fusions.experts._expert_subgraph import ExpertSubgraph, Refused
from jax2onnx_fusions.experts._gate_factors import factors
from jax2onnx_fusions.experts._mixtures import Mixture, gates_by_token, mixtures_at
from jax2onnx_fusions.experts._routed_computation import PairIndices, RoutedComputation
from jax2onnx_fusions.experts._routing import ROUTING_CALLS, GateUse, Routing, combined, in_shape_of, route
from jax2onnx_fusions.experts._sparsity import Sparsity, Validity, sparsity
from jax2onnx_fusions.experts.select_experts import NOT_FINITE, SelectExperts

__all__ = ["SelectExpertTerms"]

_Dims = tuple[LabelledDim, ...]
_FEWEST = 4  # experts
_OF_OTHER_ROWS = "the gates of several experts are not known to belong to the same token"
_NUMBERS = (ir.DataType.INT32, ir.DataType.INT64)


@dataclasses.dataclass(frozen=True)
class _Term:
    """The result of an expert for the tokens, times its gate; or, where the gate is a boolean, selected by it."""

    gate: ir.Value
    made: ir.Value
    column: ExpertGate
    node: ir.Node
    is_gated: bool = False

    @property
    def use(self) -> GateUse:
        if self.is_gated:
            return GateUse.WITHIN
        return GateUse.SELECT if self.gate.dtype == ir.DataType.BOOL else GateUse.WEIGH


@dataclasses.dataclass(frozen=True)
class _Chain:
    """Terms that are added, or each of which replaces the ones before it where it is selected, and their initial value.

    Attributes:
      numbers: integers, the number of the expert for each token, where they select; those out of range take the nearest expert.
      stack: the sum over an axis along which the terms without their gates lie, if it is one.
    """

    terms: list[_Term]
    rest: list[ir.Value]
    replaces: bool
    nodes: list[ir.Node]
    numbers: ir.Value | None = None
    stack: Mixture | None = None

    @property
    def use(self) -> GateUse:
        """The use of the gates of all terms."""
        if self.stack is not None:
            return self.stack.use
        return GateUse.SELECT if self.numbers is not None else self.terms[0].use


@dataclasses.dataclass(frozen=True)
class _Found:
    chain: _Chain
    sizes: Sizes
    sparsity: Sparsity
    regions: Sequence[ExpertSubgraph]


class SelectExpertTerms(NodePass[_Found]):
    """A sum of one term for each expert computes the chosen pairs of a token and an expert instead of all.

    1. The *terms* of a sum are what an expert makes of the tokens times its gate, or a Where that selects it; other summands stay.
       The gate may be a factor of what the term is computed from, if that is zero where the gate is.
       A chain in which each Where keeps what the one before has made is a sum, too, if the experts exclude each other; so is
       one that compares the number of an expert with 0, 1, 2, …, as `lax.switch` does under `vmap`. What the experts make may be
       stacked, and summed up as a mixture of `SelectExperts`.
    2. The gates are columns of an array of gates, or comparisons with the numbers of the chosen experts, whose operators prove
       that at most half of the experts count for a token. Gates of numbers need the promise that all numbers are finite.
    3. What an expert makes is computed for each token by itself, and is read by its term alone.
    4. The tokens are sorted by expert, each expert computes its own, and what they make is brought back to the tokens.
    5. It is done where the products that are saved outweigh the nodes that are added.
    """

    phase = Phase.FUSE
    operators = frozenset({"Add", "Where", "MatMul", "ReduceSum"})
    after = (SelectExperts,)
    forms = "A mixture of the chosen experts alone"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Found | Declined | None:
        chain = _read_stack(node) if node.op_type in ("MatMul", "ReduceSum") else _read_chain(node)
        if chain is None or isinstance(chain, Declined):
            return chain
        bound = _bound(chain.terms)
        if chain.replaces and (bound.bound > 1 or bound.validity is not Validity.ALWAYS):
            return Declined(
                "the experts do not exclude each other, so that the order in which they replace each other counts", node
            )
        if 2 * bound.bound > len(chain.terms):
            return Declined("more than half of the experts may count for a token", node)
        regions = _regions(node, chain)
        if isinstance(regions, Declined):
            return regions
        saved = sum(region.weights for region in regions) * (1 - bound.bound / len(chain.terms))
        calls = ROUTING_CALLS + 4 * len(chain.terms)
        if saved <= calls * editor.threshold(Threshold.OPERATOR_CALL):
            return Declined("the experts are so small that choosing them takes longer than computing all", node)
        if chain.use is not GateUse.SELECT and not editor.assumes(Assumption.FINITE):
            return Declined(NOT_FINITE, node)
        return _Found(chain, regions[0].sizes, bound, regions)

    def rewrite(self, node: ir.Node, match: _Found, editor: GraphEditor) -> None:
        at, chain = editor.before(node), match.chain
        count = token_count(match.sizes.tokens)
        routing = route(at, _gates(at, chain, count), len(chain.terms), match.sparsity, count)
        made = _made(editor, at, match, routing)
        others = match.regions[0].others(chain.terms[0].made, _expert_axes(match.sizes)).values()
        first = chain.terms[0]
        tokens = range(len(match.sizes.tokens)) if chain.stack is None else chain.stack.gate_axes[:-1]
        if chain.numbers is not None:
            by_token = at.op.Gather(made, routing.places, axis=0)
            result = in_shape_of(at, by_token, node.outputs[0], chain.numbers, tokens)
        elif chain.replaces:
            by_token = in_shape_of(at, at.op.Gather(made, routing.places, axis=0), node.outputs[0], first.gate, tokens)
            is_chosen = in_shape_of(at, routing.gates, first.gate, first.gate, tokens)
            result = at.op.Where(is_chosen, by_token, chain.rest[0], dims=at.dims(node.outputs[0]))
        else:
            summed = combined(at, routing, made, math.prod(others), chain.use)
            result = in_shape_of(at, summed, node.outputs[0], first.gate, tokens)
            for rest in chain.rest:
                result = at.op.Add(result, rest, dims=at.dims(node.outputs[0]))
        editor.replace(node, result)
        steps = [step.node for region in match.regions for step in region.steps.values()]
        replaced = dict.fromkeys([*chain.nodes[1:], *(term.node for term in chain.terms if term.node is not node)])
        for one in [*replaced, *reversed(steps)]:
            if one.graph is editor.graph and not is_read(one):
                editor.discard(one)


def _expert_axes(sizes: Sizes) -> ExpertAxes:
    """The axes of tokens are the first."""
    return ExpertAxes(tuple(SubAxis(axis) for axis in range(len(sizes.tokens))), None)


# -- reading ------------------------------------------------------------------------------------


def _is_last(node: ir.Node) -> bool:
    """Whether a node is not a summand of a further node of the same chain."""
    value = node.outputs[0]
    if value.is_graph_output() or len(value.uses()) != 1:
        return True
    user, index = next(iter(value.uses()))
    if user.op_type == "Add" and node.op_type == "Where" and scalar(node.inputs[2]) != 0:
        return True  # the whole of a chain of replacements is a summand
    return not (user.op_type == "Add" or (user.op_type == "Where" and index == 2)) or bool(user.domain)


def _read_chain(node: ir.Node) -> _Chain | Declined | None:
    """The terms and other summands of a sum; None where there are few terms, or the node is not the last of its chain."""
    if not _is_last(node):
        return None
    if node.op_type == "Where" and scalar(node.inputs[2]) != 0:
        return _read_switch(node) or _read_replacements(node)
    summands, nodes, waiting = list[ir.Value](), list[ir.Node](), [node.outputs[0]]
    while waiting:
        value = waiting.pop()
        add = operation(value, "Add")
        if (
            add is None
            or (add is not node and not is_read_once(value))
            or not same_dims(dims_of(value), dims_of(node.outputs[0]))
        ):
            summands.append(value)
            continue
        nodes.append(add)
        waiting += [operand for operand in reversed(add.inputs) if operand is not None]
    if len(summands) < _FEWEST:
        return None
    terms = {value: term for value in summands if (term := _term(value, dims_of(node.outputs[0]) or ())) is not None}
    kept = _of_one_source(terms.values())
    if len(kept) < _FEWEST:
        return Declined(_OF_OTHER_ROWS, node) if _read_other_rows(terms.values()) else None
    used = {id(term) for term in kept}
    rest = [v for v in summands if (v not in terms or id(terms[v]) not in used) and scalar(v) != 0]
    return _Chain(kept, rest, replaces=False, nodes=nodes)


def _read_replacements(node: ir.Node) -> _Chain | Declined | None:
    terms, value, nodes = list[_Term](), node.outputs[0], list[ir.Node]()
    dims = dims_of(value) or ()
    while (where := operation(value, "Where")) is not None and (where is node or is_read_once(value)):
        column, (condition, made, other) = expert_gate(where.inputs[0]), where.inputs
        if column is None or condition is None or made is None or other is None or not same_dims(dims_of(made), dims):
            break
        terms.append(_Term(condition, made, column, where))
        nodes.append(where)
        value = other
    if len(terms) < _FEWEST:
        return None
    if _read_other_rows(terms):
        return Declined(_OF_OTHER_ROWS, node)
    return _Chain(terms, [value], replaces=True, nodes=nodes) if len(_of_one_source(terms)) == len(terms) else None


def _read_stack(node: ir.Node) -> _Chain | None:
    """A sum over experts whose results are stacked along an axis of its own."""
    for mixture in mixtures_at(node):
        bound = sparsity(mixture.gates, SubAxis(mixture.gate_axes[-1]), mixture.sizes.experts)
        made = _stacked(mixture)
        if bound is None or len(made) != mixture.sizes.experts or len(made) < _FEWEST or not mixture.sizes.tokens:
            continue
        columns = [ExpertGate(mixture.gates, mixture.gate_axes[-1], number, bound) for number in range(len(made))]
        terms = [_Term(mixture.gates, value, column, view)
                 for (value, view), column in zip(made, columns, strict=True)]  # fmt: skip
        return _Chain(terms, [], replaces=False, nodes=[node], stack=mixture)
    return None


def _stacked(mixture: Mixture) -> list[tuple[ir.Value, ir.Node]]:
    """The result of each expert, [tokens…, features], and the view that gives it an axis of experts; empty where they are not stacked."""
    made, perm = mixture.made, [*range(len(dims_of(mixture.made) or ()))]
    if (moved := operation(made, "Transpose")) is not None and moved.inputs[0] is not None and is_read_once(made):
        made, perm = moved.inputs[0], [*permutation_of(moved)]
    stack, expert = operation(made, "Concat"), mixture.roles.expert
    if stack is None or expert is None or not is_read_once(made) or axis_of(stack, len(perm)) != perm[expert.axis]:
        return []
    axis = perm[expert.axis]
    tokens = [perm[rows.axis] - (perm[rows.axis] > axis) for rows in mixture.roles.tokens if rows is not None]
    others = [dim for dim in (dims_of(made) or ())[len(tokens) :] if dim != 1]
    if tokens != [*range(len(tokens))] or (perm != sorted(perm) and len(others) > 2):
        return []  # the order of several axes of features would be another one
    found = [_unstacked(value, axis) for value in stack.inputs]
    return [one for one in found if one is not None]


def _unstacked(value: ir.Value | None, axis: int) -> tuple[ir.Value, ir.Node] | None:
    """The tensor to which a view adds an axis of size 1, and the view; None where the value is something else."""
    source, view = without_axis(value, axis), operation(value, "Unsqueeze", "Reshape")
    if source is None or view is None or not (is_read_once(value) and is_read_once(source)):
        return None
    return source, view


def _read_switch(node: ir.Node) -> _Chain | None:
    """A chain that takes the first term where a number is at most 0, else the second where it is at most 1, and so on."""
    terms, value, nodes, numbers = list[_Term](), node.outputs[0], list[ir.Node](), None
    dims = dims_of(value) or ()
    while (where := operation(value, "Where")) is not None and (where is node or is_read_once(value)):
        (condition, made, other), compared = where.inputs, operation(where.inputs[0], "LessOrEqual")
        if compared is None or condition is None or made is None or other is None or not same_dims(dims_of(made), dims):
            break
        own = _before_expand(compared.inputs[0])
        if scalar(compared.inputs[1]) != len(nodes) or own is None or numbers not in (None, own):
            break
        numbers = own
        terms.append(_Term(own, made, ExpertGate(own, None, len(nodes), Sparsity(1)), where))
        nodes.append(where)
        value = other
    if numbers is None or numbers.dtype not in _NUMBERS or len(terms) < _FEWEST or not same_dims(dims_of(value), dims):
        return None
    last = _Term(numbers, value, ExpertGate(numbers, None, len(nodes), Sparsity(1)), nodes[-1])
    return _Chain([*terms, last], [], replaces=False, nodes=nodes, numbers=numbers)


def _before_expand(value: ir.Value | None) -> ir.Value | None:
    """The operand of an Expand that keeps the rank; any other value itself."""
    expand = operation(value, "Expand")
    if expand is None or len(dims_of(expand.inputs[0]) or ()) != len(dims_of(value) or ()):
        return value
    return expand.inputs[0]


def _term(value: ir.Value, dims: _Dims) -> _Term | None:
    """Read a summand as the result of an expert times its gate; None where it is none."""
    node = operation(value, "Mul", "Where")
    if node is None or not is_read_once(value) or (node.op_type == "Where" and scalar(node.inputs[2]) != 0):
        return _gated_term(value, dims)
    for gate, made in [(0, 1), (1, 0)][: 1 if node.op_type == "Where" else 2]:
        of_gate, of_made = node.inputs[gate], node.inputs[made]
        if (
            of_gate is None
            or of_made is None
            or not same_dims(dims_of(of_made), dims)
            or same_dims(dims_of(of_gate), dims)
        ):
            continue
        column = expert_gate(of_gate)
        if column is not None:
            return _Term(of_gate, of_made, column, node)
    return _gated_term(value, dims)


def _gated_term(value: ir.Value, dims: _Dims) -> _Term | None:
    """Read a summand whose gate is a factor of what it is computed from, the same for all its features; None where it has none."""
    tokens = tuple(SubAxis(axis) for axis in range(len(dims) - 1))
    if not tokens or not is_read_once(value):
        return None
    reader, _ = next(iter(value.uses()))
    for gate, roles in factors(value, ExpertAxes(tokens, None)):
        own = dims_of(gate) or ()
        if roles.tokens == tokens and len(own) == len(dims) and own[-1] == 1 and dims[-1] != 1:
            column = expert_gate(gate)
            if column is not None:
                return _Term(gate, value, column, reader, is_gated=True)
    return None


def _by_source(terms: Iterable[_Term], *, by_row: bool) -> list[_Term]:
    """The terms of the gates that most terms share; if `by_row`, only those that read the same row for each token."""
    groups = defaultdict[tuple[object, ...], list[_Term]](list)
    for term in terms:
        column = term.column
        groups[column.source, column.axis, term.use, column.rows if by_row else None].append(term)
    return max(groups.values(), key=len, default=[])


def _of_one_source(terms: Iterable[_Term]) -> list[_Term]:
    """The terms of the gates that most terms share, if each expert has one, and they read the same row for each token."""
    kept = _by_source(terms, by_row=True)
    numbers = {term.column.number for term in kept}
    alike = all(same_dims(dims_of(term.gate), dims_of(kept[0].gate)) for term in kept)
    return kept if len(numbers) == len(kept) and alike else []


def _read_other_rows(terms: Collection[_Term]) -> bool:
    """Whether several of the terms of one source are not known to read the same row of it for each token."""
    return len(_by_source(terms, by_row=True)) < len(_by_source(terms, by_row=False))


def _bound(terms: Sequence[_Term]) -> Sparsity:
    """A bound on the terms that count for a token."""
    worst = max((term.column.sparsity for term in terms), key=lambda one: one.bound)
    return worst.at_best(max(term.column.sparsity.validity for term in terms))


def _token_dims(gate: _Dims, dims: _Dims) -> _Dims | None:
    """The dimensions along which the gates differ, which have to be the first; None where they are not."""
    gate = (*(1 for _ in range(len(dims) - len(gate))), *gate)
    count = next((axis for axis in range(len(dims)) if gate[axis] == 1 and dims[axis] != 1), len(dims))
    is_first = all(same_dim(gate[axis], dims[axis]) for axis in range(count)) and all(one == 1 for one in gate[count:])
    return dims[:count] if is_first and count else None


def _regions(node: ir.Node, chain: _Chain) -> list[ExpertSubgraph] | Declined:
    """The computation of each expert."""
    dims = dims_of(node.outputs[0]) or ()
    tokens = _token_dims(dims_of(chain.terms[0].gate) or (), dims) if chain.stack is None else chain.stack.sizes.tokens
    if tokens is None:
        return Declined("the gates are not the same for all features of a token", node)
    sizes = Sizes(tokens, 1)
    regions = []
    try:
        for term, inside in zip(chain.terms, _own_nodes(chain.terms), strict=True):
            region = ExpertSubgraph(node.graph, sizes, inside)
            region.add(term.made, _expert_axes(sizes))
            regions.append(region)
    except Refused as refused:
        return Declined(str(refused), node)
    arrangements = {(leaf, roles) for region in regions for leaf, roles in region.leaves.items()}
    if len(arrangements) != len({leaf for leaf, _ in arrangements}):
        return Declined("several experts read the tokens in different arrangements", node)
    return regions


def _own_nodes(terms: Sequence[_Term]) -> list[set[ir.Node]]:
    """The nodes that only one term reads, for each term; without nodes that take its part of a value which all terms read."""
    cones = [backward_slice(term.made) - (backward_slice(term.gate) if term.is_gated else set()) for term in terms]
    counts = Counter(node for cone in cones for node in cone)
    return [
        exclusive_nodes({one for one in cone if counts[one] == 1 and not _takes_part(one, counts)}, term.node)
        for cone, term in zip(cones, terms, strict=True)
    ]


def _takes_part(node: ir.Node, counts: Counter[ir.Node]) -> bool:
    """Whether a node takes a part of a value that several terms are computed of."""
    source = node.inputs[0].producer() if node.op_type == "Gather" and node.inputs[0] is not None else None
    return source is not None and counts[source] > 1


# -- writing ------------------------------------------------------------------------------------


def _gates(at: InsertionPoint, chain: _Chain, tokens: LabelledDim) -> ir.Value:
    """[tokens, experts]: the gates."""
    if chain.stack is not None:
        return gates_by_token(at, chain.stack)
    if chain.numbers is not None:
        last = at.constant(len(chain.terms) - 1, like=chain.numbers)
        clipped = at.op.Min(at.op.Max(chain.numbers, at.constant(0, like=last)), last)
        flat = at.op.Reshape(at.cast(clipped, np.int64), at.ints([-1, 1]), dims=labelled((tokens, 1)))
        return at.op.Equal(flat, at.ints(range(len(chain.terms))))
    column = labelled((tokens, 1))
    columns = [at.op.Reshape(term.gate, at.ints([-1, 1]), dims=column) for term in chain.terms]
    return at.op.Concat(*columns, axis=1, dims=labelled((tokens, len(columns))))


def _made(editor: GraphEditor, at: InsertionPoint, match: _Found, routing: Routing) -> ir.Value:
    """[pairs, …]: the results of each expert for its own tokens."""
    count, indices = len(match.regions), routing.pairs
    readers = Counter(leaf for region in match.regions for leaf in region.leaves)
    own_tokens: Sequence[ir.Value] = ()
    if any(number == 1 for number in readers.values()):
        own_tokens = split_rows(at, indices.tokens, indices.lengths, count)
    shared: dict[ir.Value, Sequence[ir.Value]] = {}
    whole = RoutedComputation(editor, at, match.regions[0], indices)
    made = []
    for number, (term, region) in enumerate(zip(match.chain.terms, match.regions, strict=True)):
        tokens = own_tokens[number] if own_tokens else indices.tokens
        own = RoutedComputation(
            editor, at, region, PairIndices(tokens, indices.experts, indices.lengths, ir.SymbolicDim(None))
        )
        for leaf, roles in region.leaves.items():
            if readers[leaf] == 1:
                continue
            if leaf not in shared:
                shared[leaf] = split_rows(at, whole.value(leaf, roles), indices.lengths, count)
            own.given(leaf, roles, shared[leaf][number])
        own.compute()
        made.append(own.value(term.made, _expert_axes(match.sizes)))
    features = match.regions[0].others(match.chain.terms[0].made, _expert_axes(match.sizes)).values()
    return at.op.Concat(*made, axis=0, dims=labelled((indices.count, *features)))
