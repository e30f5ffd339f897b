"""The table of operators agrees with ONNX's schemas, and what is derived from it is what it should be."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import onnx
import pytest
from jax2onnx_graph.facts.operators import (
    OPERATORS,
    REDUCTIONS,
    Elementwise,
    IdentityIf,
    Operands,
    ValueUse,
    facts_of,
    operators_where,
    split_reduction,
    value_use,
)
from jax2onnx_graph.facts.schemas import value_inputs
from jax2onnx_graph.traversal import HAS_SUBGRAPHS
from onnx.reference import ReferenceEvaluator

SCHEMAS = {schema.name: schema for schema in onnx.defs.get_all_schemas() if schema.domain == ""}


def test_every_operator_exists_in_onnx():
    assert set(OPERATORS) <= set(SCHEMAS)


def test_an_operator_without_an_entry_has_the_default_facts():
    assert facts_of("NoSuchOperator") == facts_of("Conv")
    assert facts_of("Conv").use is ValueUse.FLOAT
    assert facts_of("Conv").permutable_operands is Operands.NONE


def test_facts_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        facts_of("Add").keeps_shape = True  # type: ignore[misc]  # that is what is tested


@pytest.mark.parametrize("op_type", OPERATORS)
def test_the_default_axis_is_that_of_the_schema(op_type):
    attribute = SCHEMAS[op_type].attributes.get("axis")
    is_open = attribute is None or not (attribute.required or attribute.default_value.type)
    assert facts_of(op_type).axis == (None if is_open else attribute.default_value.i)


def test_operators_that_reduce_are_those_with_keepdims():
    keepdims = {name for name, schema in SCHEMAS.items() if "keepdims" in schema.attributes}
    assert operators_where(lambda facts: facts.reduces) == keepdims - {"SplitToSequence"}  # which keeps them in parts


def test_operators_with_subgraphs_are_those_with_attributes_that_are_graphs():
    graph = onnx.defs.OpSchema.AttrType.GRAPH
    with_graphs = {n for n, s in SCHEMAS.items() if any(a.type == graph for a in s.attributes.values())}
    assert with_graphs == HAS_SUBGRAPHS


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: facts.axes_input is not None)))
def test_the_input_that_lists_axes_has_that_name(op_type):
    place = facts_of(op_type).axes_input
    assert place is not None
    assert SCHEMAS[op_type].inputs[place].name in ("axes", "axis")


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: bool(facts.element_type))))
def test_the_element_type_is_a_type_variable(op_type):
    constraints = {constraint.type_param_str for constraint in SCHEMAS[op_type].type_constraints}
    assert facts_of(op_type).element_type in constraints


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: facts.result_type is not None)))
def test_what_the_result_type_comes_from_exists(op_type):
    rule, schema = facts_of(op_type).result_type, SCHEMAS[op_type]
    assert rule.attribute == "" or rule.attribute in schema.attributes
    assert rule.operand is None or rule.operand < len(schema.inputs)
    assert rule.attribute or rule.operand is not None


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: facts.use is ValueUse.MOVE)))
def test_an_operator_that_moves_values_takes_them_from_operands_of_the_type_of_its_result(op_type):
    makes_new_numbers = op_type in ("Shape", "Size", "ConstantOfShape")
    assert bool(value_inputs(op_type, 3)) != makes_new_numbers


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: facts.has_reduction)))
def test_a_reduction_changes_what_an_operator_does_with_values(op_type):
    assert "reduction" in SCHEMAS[op_type].attributes
    assert value_use(op_type) is ValueUse.MOVE
    assert {name: value_use(f"{op_type}_{name}") for name in REDUCTIONS} == dict(REDUCTIONS)
    assert split_reduction(f"{op_type}_mul") == (op_type, "mul")


def test_only_operators_with_a_reduction_have_one_in_their_names():
    assert split_reduction("Custom_add") == ("Custom_add", "")


def test_views_are_the_identity_where_they_keep_the_shape():
    views = operators_where(lambda facts: facts.is_view)
    assert views == {"Flatten", "Reshape", "Squeeze", "Unsqueeze"}
    same_shape = operators_where(lambda facts: facts.identity_if is IdentityIf.SAME_SHAPE)
    assert same_shape == views | {"Expand", "Tile"}


def test_operators_of_one_operand_that_are_the_identity_are_variadic():
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    found = operators_where(lambda facts: facts.identity_if is IdentityIf.ONE_OPERAND)
    assert all(SCHEMAS[name].inputs[-1].option == variadic for name in found - {"Identity"})
    assert found == {"Concat", "Identity", "Max", "Mean", "Min", "Sum"}


def test_the_axes_of_elementwise_operators_can_be_permuted():
    unary = operators_where(lambda facts: facts.elementwise is Elementwise.UNARY)
    broadcast = operators_where(lambda facts: facts.elementwise is Elementwise.BROADCAST)
    assert all(facts_of(op_type).permutable_operands is Operands.FIRST for op_type in unary)
    assert all(facts_of(op_type).permutable_operands is Operands.ALL for op_type in broadcast)
    assert {"Cast", "Clip", "Exp"} <= unary
    assert {"Add", "Where", "BitwiseXor"} <= broadcast


def test_a_fact_that_elementwise_operators_imply_is_not_noted_twice():
    twice = operators_where(
        lambda f: f.elementwise is not None and (f.keeps_shape or f.permutable is not Operands.NONE)
    )
    assert twice == frozenset()
    assert operators_where(lambda facts: facts.is_view and facts.identity is not None) == frozenset()


def _example(op_type):
    """Operands of a binary operator, and its attributes."""
    types = SCHEMAS[op_type].inputs[0].types
    dtype = next(t for name, t in (("int32", np.int32), ("uint32", np.uint32), ("float", np.float32), ("bool", np.bool_))
                 if f"tensor({name})" in types)  # fmt: skip
    low, high = (0, 2) if dtype == np.bool_ else (1, 9)
    x, y = (np.random.default_rng(seed).integers(low, high, 20).astype(dtype) for seed in (0, 1))
    return x, y, {"direction": "LEFT"} if op_type == "BitShift" else {}


def _computed(op_type, x, y, attributes):
    schema, dtype = SCHEMAS[op_type], onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    given = [onnx.helper.make_tensor_value_info(name, dtype, None) for name in "xy"]
    result = onnx.helper.make_tensor_value_info("z", onnx.TensorProto.UNDEFINED, None)
    node = onnx.helper.make_node(op_type, ["x", "y"], ["z"], **attributes)
    graph = onnx.helper.make_graph([node], "g", given, [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", schema.since_version)])
    (computed,) = ReferenceEvaluator(model).run(None, {"x": x, "y": y})
    return computed


BINARY = sorted(operators_where(lambda facts: facts.elementwise is Elementwise.BROADCAST) - {"Where"})


@pytest.mark.parametrize("op_type", BINARY)
def test_the_operands_of_just_the_commutative_operators_can_be_exchanged(op_type):
    x, y, attributes = _example(op_type)
    is_same = np.array_equal(_computed(op_type, x, y, attributes), _computed(op_type, y, x, attributes))
    assert is_same == facts_of(op_type).is_commutative


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: facts.neutral is not None)))
def test_a_neutral_operand_leaves_the_other_as_it_is(op_type):
    x, _, attributes = _example(op_type)
    neutral = np.full_like(x, facts_of(op_type).neutral)
    np.testing.assert_array_equal(_computed(op_type, x, neutral, attributes), x)
    if facts_of(op_type).is_commutative:
        np.testing.assert_array_equal(_computed(op_type, neutral, x, attributes), x)


def test_operators_that_draw_random_numbers_are_those_with_a_seed():
    assert operators_where(lambda facts: facts.is_random) == {n for n, s in SCHEMAS.items() if "seed" in s.attributes}


def test_operators_with_indices_are_those_with_an_operand_of_that_name():
    found = {
        n: [i.name for i in s.inputs].index("indices")
        for n, s in SCHEMAS.items()
        if "indices" in [i.name for i in s.inputs]
    }
    found.pop("Scatter")  # deprecated
    assert {name: facts_of(name).indices_input for name in found} == found
    assert operators_where(lambda facts: facts.indices_input is not None) == found.keys()


def test_operators_that_convert_are_elementwise_and_take_their_type_from_elsewhere():
    converting = operators_where(lambda facts: facts.converts)
    assert converting == {"Cast", "CastLike"}
    assert all(facts_of(op_type).elementwise is Elementwise.UNARY for op_type in converting)
    assert all(facts_of(op_type).result_type is not None for op_type in converting)


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: facts.is_matrix_product)))
def test_the_documentation_of_a_matrix_product_says_so(op_type):
    assert re.search(
        r"matrix product|matrix multiplication|Einstein summation", SCHEMAS[op_type].doc or "", re.IGNORECASE
    )


def test_operators_that_ask_for_no_change_can_also_change():
    found = operators_where(lambda facts: facts.identity_if is IdentityIf.NOTHING_TO_DO)
    assert found == {"Pad", "Slice", "Transpose"}
    assert all(facts_of(op_type).use is ValueUse.MOVE for op_type in found)
