"""`Limitation`: a known gap of a plugin, a target or a runtime, from which the public tables are made."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from typing import Literal

from jax2onnx_graph._ir import ir
from jax2onnx_graph.traversal import all_nodes

__all__ = ["Limitation", "SpecialValues"]


#: The numbers that a limitation may be about: those that are not finite, zeros, those below the smallest normal number, and
#: those whose squares or products overflow, small ones of which a logarithm or reciprocal is taken; "hidden keys" are those that a mask hides in an attention.
SpecialValues = Literal[
    "NaN", "infinities", "signs of zeros", "subnormal numbers", "small numbers", "large numbers", "hidden keys"
]


@dataclasses.dataclass(frozen=True)
class Limitation:
    """A known gap, with the reason why it stays.

    That of a target or a runtime explains why a model is not computed right, or not run. Such a model is recognised by all criteria
    that are given, `operators`, `cases` and `message`; where none is given, the limitation is for readers alone.

    Args:
      subject: the primitive, operator or property that it is about.
      reason: what is lost and why, as a sentence.
      dtypes: the element types that it is about, by NumPy's names; all if there are none.
      operators: the model holds one of these, with an operand or a result of one of the `dtypes`.
      cases: the id of the test case (`lax.linalg.svd::svd_symbolic`) is like one of these, in which `*` stands for any text.
      message: the regular expression is found in the runtime's error, or in what tells the difference.
      values: the special values that it is about, if it is about such alone.
    """

    subject: str
    reason: str
    dtypes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    message: str = ""
    values: tuple[SpecialValues, ...] = ()

    def explains(self, model: ir.Model, case: str, message: str) -> bool:
        """Whether it is the reason for which a case fails.

        Args:
          model: the exported model.
          case: the id of the test case.
          message: the runtime's error, or what tells the difference.
        """
        if not (self.operators or self.cases or self.message):
            return False
        return (
            (not self.operators or any(map(self._concerns, all_nodes(model))))
            and (not self.cases or any(fnmatch.fnmatchcase(case, pattern) for pattern in self.cases))
            and (not self.message or re.search(self.message, message) is not None)
        )

    def _concerns(self, node: ir.Node) -> bool:
        """Whether a node is one of the operators, at one of the element types."""
        if node.domain or node.op_type not in self.operators:
            return False
        dtypes = (
            value.dtype for value in (*node.inputs, *node.outputs) if value is not None and value.dtype is not None
        )
        return not self.dtypes or any(str(dtype.numpy()) in self.dtypes for dtype in dtypes)
