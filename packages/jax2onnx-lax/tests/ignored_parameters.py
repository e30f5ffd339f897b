"""Parameters of JAX's primitives that rules take as `**_`, each with the reason why it does not change a value.

`test_ignored_parameters.py` fails for a parameter that a rule ignores and this table does not have: read what it does
in JAX, then name it in the rule's signature, or give the reason here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

__all__ = ["IGNORED", "Ignored", "reason_for"]


@dataclasses.dataclass(frozen=True)
class Ignored:
    """Parameters that change no value.

    Attributes:
      reason: why.
      parameters: their names.
      primitives: the primitives that have it; all of them if empty.
    """

    reason: str
    parameters: Sequence[str]
    primitives: Sequence[str] = ()


_CALLS = ("custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_partitioning", "linear_call")
_COLLECTIVES = (
    "all_gather", "all_gather_invariant", "all_gather_reduced", "all_to_all", "axis_index", "pmax", "pmin", "ppermute",
    "preduced", "psum", "psum_invariant", "pvary", "reduce_scatter", "reduced_vary_cast", "reduced_vary_cast_p", "unreduced_psum",
    "unreduced_reduce_scatter", "vary_unreduced_cast", "vary_unreduced_cast_p",
)  # fmt: skip
_DEBUGGING = ("debug_callback", "debug_print", "inspect_sharding")

IGNORED = (
    Ignored("It says on which devices and in which layout an array lives; a model is for one device and has its own layouts.",
            ("sharding", "shardings", "out_sharding", "in_shardings", "out_shardings", "in_layouts", "out_layouts", "layout",
             "ctx_mesh", "context_mesh", "concrete_mesh", "dst_sharding", "devices", "srcs", "copy_semantics", "donated_invars",
             "unconstrained_dims")),
    Ignored("Over a mesh of one device, which the rule asks for, a shard is the whole array.",
            ("in_specs", "out_specs", "newly_manual_axes", "check_vma"), ("shard_map",)),
    Ignored("It says how the call is divided over devices.",
            ("partition", "infer_sharding_from_operands", "decode_shardings", "propagate_user_sharding", "sharding_rule"),
            ("custom_partitioning",)),
    Ignored("A collective over one device returns its operand, whose axes the shape of the result tells.",
            ("all_gather_dimension", "axes", "axis_name", "axis_size", "concat_axis", "scatter_dimension", "split_axis",
             "tiled"), _COLLECTIVES),
    Ignored("There is one device, hence one group; under vmap JAX refuses groups.", ("axis_index_groups",), _COLLECTIVES),
    Ignored("It is a name, or advice to XLA on compiling.",
            ("name", "inline", "keep_unused", "compiler_options_kvs", "ad_metadata", "xla_metadata", "xla_metadata_kvs",
             "colour", "prevent_cse", "policy", "differentiated", "version")),
    Ignored("It is for transformations of the call, which have taken place.",
            ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "symbolic_zeros", "transpose_thunk", "rule", "num_consts",
             "num_callee_consts", "num_res", "in_tree", "out_tree", "out_trees", "static_args"), _CALLS),
    Ignored("The model does not print.",
            ("callback", "effect", "fmt", "has_placeholders", "in_tree", "logging_record", "np_printoptions", "ordered",
             "partitioned", "static_args"), _DEBUGGING),
    Ignored("XLA's CPU backend computes in the precision of the operands whatever is asked for.", ("precision", "accuracy")),
    Ignored("The type of the result says it.",
            ("new_dtype", "preferred_element_type", "dtype", "shape", "impl"),
            ("convert_element_type", "bitcast_convert_type", "conv_general_dilated", "dot_general", "ragged_dot_general",
             "empty", "random_seed", "random_wrap")),
    Ignored("A weak type is one of tracing; the dtype of the result says what is computed.", ("weak_type",)),
    Ignored("The rule's own way is exact, and the type of the result says how many elements there are.",
            ("k", "recall_target", "aggregate_to_topk", "reduction_input_size_override"), ("approx_top_k",)),
    Ignored("It chooses among algorithms for the same factors, or allows derivatives of them.",
            ("algorithm", "implementation", "use_magma", "enable_eigvec_derivs"), ("eigh", "svd", "eig", "qr")),
    Ignored("TopK keeps equal elements in order, whether that is asked for or not.", ("is_stable",), ("sort", "top_k")),
    Ignored("It is a promise about the indices, which nothing relies on.", ("indices_are_sorted",), ("gather", "scatter")),
    Ignored("It is the Python function whose jaxpr the rule reads.", ("computation",), ("reduce",)),
    Ignored("The type of the operand says it.", ("input_dtype",), ("conj",)),
    Ignored("JAX refuses to multiply booleans.", ("out_dtype",), ("mul",)),
    Ignored("JAX itself refuses every value but None.", ("group_offset",), ("ragged_dot_general",)),
    Ignored("The index of the branch is an operand, which is made for the platform CPU.", ("branches_platforms",), ("cond",)),
)  # fmt: skip


def reason_for(primitive: str, parameter: str) -> str | None:
    """Why a parameter of a primitive may be ignored; None if it may not."""
    for entry in IGNORED:
        if parameter in entry.parameters and (not entry.primitives or primitive in entry.primitives):
            return entry.reason
    return None
