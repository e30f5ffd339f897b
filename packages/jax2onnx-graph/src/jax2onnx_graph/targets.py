"""`Target`: the capabilities of the runtime that a model is made for, as passes, rules and legalisation ask for them."""

from __future__ import annotations

import copy
import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.availability import is_allowed, main_value
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.limitations import Limitation

__all__ = [
    "PassFactory",
    "Property",
    "Target",
    "VersionChoice",
    "choose_version",
    "find_target",
    "split_name",
    "standard_target",
]


#: A part of an operator's meaning that a runtime may keep or lose:
#: "nan": a NaN among the operands reaches the result (extrema, sorting, sign, pooling);
#: "nan_rows": elements that are all NaN are equal, so that the first is found first (searches of extrema, sorting);
#: "signed_zero": the sign of a zero is kept;
#: "wraps": integer results wrap around, as arithmetic modulo 2ⁿ does;
#: "empty": an operand without elements gives the neutral element, or an empty result;
#: "inf": infinite operands give the limit of the function;
#: "minus_inf": minus infinity among numbers counts for nothing, as masks mean it (softmax, logsumexp, maxima);
#: "accurate": the result has the precision of its element type;
#: "order": writes to one place take effect in the order of the indices;
#: "softcap_mask": attention with a soft cap gives masked keys no weight.
Property = Literal[
    "nan", "nan_rows", "signed_zero", "wraps", "empty", "inf", "minus_inf", "accurate", "order", "softcap_mask"
]

# Asked only where a target prefers the form, but for the last two: those of one CPU serve as well as any.
_THRESHOLDS = {
    Threshold.LONG_AXIS: 8192,
    Threshold.SHARING_HEADS: 4,
    Threshold.OPERATOR_CALL: 2000,
    Threshold.GROUP_BRANCHES: 16,
}

# Attention, RMSNormalization and RotaryEmbedding are from here on; what came later, few runtimes have.
_BEST_OPSET = 23


class Target:
    """The runtime or device that models are made for; this class itself is the ONNX standard, without any runtime.

    Passes, rules and legalisation ask a target, and nothing else, about the runtime that a model is for:

    * `supports`, `computes`, `missing_type`: is there a kernel for an operator at an element type?
    * `keeps`: does a model keep a part of the operator's meaning, as the kernel `guarantees`, or the user's promises allow?
    * `assumes`: does the user promise that some numbers do not occur?
    * `prefers`, `threshold`: which of several forms of equal meaning is fastest, and from which size on?
    * `opsets`, `best_opset`, `ir_version`, `runs_functions`, `runs_sizes_from_data`, `runs_as_well`: which files does it read?
    * `passes`: what adapts a finished model to it?
    * `limitations`: what does it get wrong in spite of all that?

    A package that adds a target derives from this class, overrides what is different there, and hands an instance to
    `registry.target`. The answers should be measured. What runs the models is a `jax2onnx_runtime.runtimes.Runtime`.

    Attributes:
      name: its name in `to_onnx(..., target=name)`.
      is_default: whether `to_onnx` exports for it unless told otherwise.
      opsets: the versions of the standard operators that it runs.
      best_opset: the version whose operators a model for it is made of, unless the user names one.
      ir_version: the newest version of the file format that it reads.
      runs_functions: whether it runs models that hold functions; they are inlined for one that does not.
      rounding: the relative error of floats that it computes in less precision than their types have; 0 where it does not.
      runs_sizes_from_data: whether it runs models in which the size of a value depends on values, without help of the caller.
      versions: the versions that `of_version` knows, oldest first.
      assumptions: the promises of the user under which models are made for it; see `assuming`.
      notes: sentences for the report of a program, such as that the version asked for is treated as an older one.
    """

    name = "onnx"
    is_default = False
    opsets = range(18, 29)
    ir_version = 14
    runs_functions = True
    rounding = 0.0
    runs_sizes_from_data = True
    assumptions: frozenset[Assumption] = frozenset()
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        return (
            f"<target {self.name!r}: opsets {self.opsets[0]} to {self.opsets[-1]}, IR versions up to {self.ir_version}>"
        )

    @property
    def versions(self) -> Sequence[str]:
        """The versions that `of_version` knows."""
        return ()

    def of_version(self, version: str) -> Target:
        """The target for a version of its runtime, as in `to_onnx(..., target="name==version")`.

        A version that is not known is treated as the newest known one before it, see `choose_version`.

        Raises:
          OptionError: it is older than all known ones, or the target has no versions.
        """
        raise OptionError(f"The target {self.name!r} has no versions; write target={self.name!r}.")

    @property
    def maker(self) -> str:
        """The module and the class, "module:Class", that make the target without arguments, but for its version and assumptions."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    def installed(self) -> Target:
        """The target for the version of its runtime that is installed here; itself where that is the newest or there is none."""
        return self

    @property
    def best_opset(self) -> int:
        """The newest that it runs and that other runtimes have, too."""
        return min(_BEST_OPSET, self.opsets[-1])

    def supports(self, op_type: str, dtype: Dtype, opset: int) -> bool:
        """Whether the operator runs with this element type, by a kernel or after legalisation.

        Args:
          op_type: an operator of the standard; those that take a `reduction` may carry it: "ScatterND_add". One of the
            runtime's own with its domain: "com.microsoft.LinearAttention"; the standard has none of these.
          dtype: the element type of its main operand (the values of Where, the data of Gather).
          opset: the version of the standard operators.
        """
        return "." not in op_type and is_allowed(op_type, dtype, opset)

    def computes(self, node: ir.Node, opset: int) -> bool:
        """Whether it runs a node: `supports` its operator at the element type of the main operand, for a Cast also of the result.

        Operators of other domains are taken to run, and so are operands without a known type.
        """
        return self.missing_type(node, opset) is None

    def missing_type(self, node: ir.Node, opset: int) -> ir.DataType | None:
        """The first element type for which it lacks the operator of a node; None where it runs the node, see `computes`."""
        if node.domain:
            return None
        for value in (main_value(node, opset), *(node.outputs if node.op_type == "Cast" else ())):
            dtype = value.dtype
            if dtype is not None and not self.supports(node.op_type, dtype.numpy(), opset):
                return dtype
        return None

    def runs_as_well(self, node: ir.Node, opset: int, lower: int) -> bool:
        """Whether the kernel of a lower opset runs a node as well, so that the model may declare that opset.

        Args:
          node: a node of a finished model, whose operator means the same at both opsets.
          opset: the opset that the model was made for.
          lower: the lower one.
        """
        return True

    def guarantees(self, op_type: str, dtype: Dtype, kept: Property) -> bool:
        """Whether the runtime keeps this part of the operator's meaning at this element type.

        Args:
          op_type: an operator of the standard.
          dtype: the element type of its main operand.
          kept: the part that is asked about, see `Property`.
        """
        return True

    def keeps(self, op_type: str, dtype: Dtype, kept: Property) -> bool:
        """Whether models for it keep this part of an operator's meaning: the runtime does, or by the user's promises it need not.

        Under `Assumption.FINITE`, "nan" is kept by every operator, since it does not occur, and "inf" by those that are right for masks,
        which guarantee "minus_inf".

        Args:
          op_type: an operator of the standard.
          dtype: the element type of its main operand.
          kept: the part that is asked about, see `Property`.
        """
        if self.assumes(Assumption.FINITE) and kept in ("nan", "inf"):
            return kept == "nan" or any(self.guarantees(op_type, dtype, one) for one in ("minus_inf", "inf"))
        return self.guarantees(op_type, dtype, kept)

    def assumes(self, assumption: Assumption) -> bool:
        """Whether models for it are made under a promise of the user."""
        return assumption in self.assumptions

    def assuming(self, assumptions: Iterable[Assumption]) -> Target:
        """This target for models that are made under further promises of the user; its version is chosen before."""
        promised = self.assumptions | frozenset(assumptions)
        if promised == self.assumptions:
            return self
        made = copy.copy(self)
        made.assumptions = promised
        return made

    def prefers(self, *forms: Form) -> Form:
        """The one of several forms of equal meaning that runs fastest; the first where none is known to."""
        return forms[0]

    def threshold(self, threshold: Threshold) -> int:
        """The size from which a form pays, in the unit that the `Threshold` names."""
        return _THRESHOLDS[threshold]

    def passes(self) -> Sequence[PassFactory]:
        """The classes of the passes that adapt a finished model to the runtime, in order, or other makers of them."""
        return ()

    def limitations(self) -> Sequence[Limitation]:
        """Known limitations of its version: wrong results and refusals that remain in spite of the passes."""
        return ()


#: Makes one pass for a target; the class of a pass that takes a target is one.
PassFactory = Callable[[Target], ir.passes.PassBase]

standard_target = Target()


@dataclasses.dataclass(frozen=True)
class VersionChoice:
    """The known version that another one is treated as.

    Attributes:
      version: the known version.
      notes: a sentence about it where it is not the version that was asked for.
    """

    version: str
    notes: Sequence[str] = ()


def choose_version(runtime: str, wanted: str, known: Sequence[str]) -> VersionChoice:
    """The newest known version of a runtime that is not newer than the wanted one; patches count as their version.

    Args:
      runtime: the name of the runtime in messages.
      wanted: a version such as "1.18" or "1.18.1".
      known: the versions whose kernels are known, oldest first.

    Raises:
      OptionError: it is no version, or older than all known ones.
    """
    if not all(part.isdecimal() for part in wanted.split(".")[:2]):
        raise OptionError(f"{wanted!r} is no version of {runtime}; write one such as {known[-1]}.")
    older = [version for version in known if _numbers(version) <= _numbers(wanted)]
    if not older:
        raise OptionError(
            f"{runtime} {wanted} is older than all versions that are known; the oldest is {known[0]}. Models for it may run there, too."
        )
    if _numbers(older[-1]) == _numbers(wanted):
        return VersionChoice(older[-1])
    note = f"What {runtime} {wanted} computes is not known: the model is for {older[-1]}, the newest known version before it."
    return VersionChoice(older[-1], (note,))


def _numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version."""
    major, _, rest = version.partition(".")
    return int(major), int(rest.partition(".")[0] or 0)


def split_name(name: str) -> tuple[str, str]:
    """The name of a target without and with its version: "mine==1.18" → ("mine", "1.18"); "" for none.

    Raises:
      OptionError: there is no version after the "==".
    """
    base, given, version = name.partition("==")
    if given and not version:
        raise OptionError(f"target={name!r} names no version; write target={base!r} for the newest.")
    return base, version


def find_target(targets: Mapping[str, Target], name: str | None) -> Target:
    """The target called `name` or `name==version`; for None the default among them as it is installed, else plain ONNX."""
    if name is not None and not isinstance(name, str):
        raise OptionError(f"target is the name of one target, such as 'onnx', not {name!r:.80}.")
    if name is None:
        return next((t.installed() for t in targets.values() if t.is_default), standard_target)
    base, version = split_name(name)
    if base not in targets:
        similar = difflib.get_close_matches(base, targets, 1)
        advice = (
            f"{similar[0]!r} may be meant."
            if similar
            else f"Each comes with a package of its name: pip install jax2onnx-{base}."
        )
        raise OptionError(f"target={name!r} is not installed; there are: {', '.join(sorted(targets))}. {advice}")
    return targets[base].of_version(version) if version else targets[base]
