"""The versions that a model declares: as low as its nodes allow."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, TargetError
from jax2onnx_graph.facts.operators import OPERATORS
from jax2onnx_graph.opsets import check_opset, declare_versions, opset_lines, raise_opset
from jax2onnx_graph.targets import Target, standard_target

#: Every change of an operator up to this version has been read; a newer one has to be before a target may have it.
LAST_READ = 28


def declared(body: str, *, opset: int = 23, target: Target = standard_target, keep_opset: bool = False) -> ir.Model:
    """A model of x [2, 4, 4, 4], floats, and y, after it has been declared as low as possible."""
    text = f'<ir_version: 11, opset_import: ["" : {opset}]> g (float[2, 4, 4, 4] x) => (y) {{ {body} }}'
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text), check_type=True)
    model = ir.from_proto(proto)
    declare_versions(model, target, keep_opset=keep_opset)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("y = Relu(x)", 18),
        ("z = Cast <to = 10> (x) y = Neg(z)", 18),
        ("y = Shape(x)", 18),
        ("y = Gelu(x)", 20),
        ("z = Cast <to = 17> (x) y = Cast <to = 1> (z)", 19),
        ("z = Cast <to = 22> (x) y = Cast <to = 1> (z)", 21),
        ("z = Cast <to = 16> (x) w = Cos(z) y = Cast <to = 1> (w)", 22),
        ("z = Cast <to = 9> (x) axes = Constant <value_ints = [1]> () y = ReduceMax(z, axes)", 20),
        ("axes = Constant <value_ints = [1]> () y = ReduceMax(x, axes)", 18),
        ("axis = Constant <value_int = 1> () y = DFT(x, , axis)", 20),
        (
            "c = Constant <value_floats = [1.0, 1.0, 1.0, 1.0]> () z = GroupNormalization <num_groups = 2> (x, c, c) y = Shape(z)",
            21,
        ),
        ("y = RMSNormalization(x, x)", 23),
    ],
)
def test_the_opset_is_the_lowest_that_has_the_operators_with_these_types(body, opset):
    assert declared(body).opset_imports[""] == opset


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("y = MaxPool <kernel_shape = [2, 2]> (x)", 18),
        ("y = MaxPool <kernel_shape = [2, 2], ceil_mode = 1> (x)", 22),
        ('p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () y = Pad <mode = "edge"> (x, p)', 18),
        ('p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () y = Pad <mode = "wrap"> (x, p)', 19),
    ],
)
def test_a_version_that_changes_a_meaning_is_needed_by_the_nodes_that_it_concerns(body, opset):
    assert declared(body).opset_imports[""] == opset


def test_casts_to_small_floats_need_the_version_that_says_where_infinities_go():
    assert declared("z = Cast <to = 18> (x) y = Cast <to = 1> (z)", opset=25).opset_imports[""] == 24
    assert declared("z = Cast <to = 18, saturate = 0> (x) y = Cast <to = 1> (z)", opset=25).opset_imports[""] == 19


def test_subgraphs_and_functions_count_and_are_declared_alike():
    text = """
        <ir_version: 11, opset_import: ["" : 23, "my" : 3]>
        g (float[2] x, bool c) => (float[2] y) {
            z = my.f(x)
            y = If (c) <then_branch = t () => (float[2] a) { a = Gelu(z) }, else_branch = e () => (float[2] b) { b = Neg(z) }>
        }
        <domain: "my", opset_import: ["" : 23, "my" : 3]> f (v) => (w) { w = Cos(v) }
    """
    model = ir.from_onnx_text(text)
    declare_versions(model, standard_target, keep_opset=False)
    assert model.opset_imports == {"": 20, "my": 3}
    (function,) = model.functions.values()
    assert function.opset_imports == {"": 20, "my": 3}


def test_an_element_type_counts_where_no_node_has_it():
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT8E5M2), shape=ir.Shape([2]))
    model = ir.Model(ir.Graph([value], [value], nodes=[], opset_imports={"": 23}), ir_version=11)
    declare_versions(model, standard_target, keep_opset=False)
    assert (model.opset_imports[""], model.ir_version) == (19, 9)


def test_the_opset_stays_where_it_is_to_be_kept():
    model = declared("y = Relu(x)", keep_opset=True)
    assert (model.opset_imports[""], model.ir_version) == (23, 11)


@pytest.mark.parametrize(
    ("body", "version"), [("y = Relu(x)", 8), ("y = Gelu(x)", 9), ("y = RMSNormalization(x, x)", 11)]
)
def test_the_file_format_is_the_one_of_the_opset(body, version):
    assert declared(body).ir_version == version


def test_metadata_needs_the_file_format_that_has_a_place_for_it():
    model = declared("y = Relu(x)")
    model.graph[0].metadata_props["source"] = "mine.py:3"
    declare_versions(model, standard_target, keep_opset=False)
    assert (model.opset_imports[""], model.ir_version) == (18, 10)


def test_a_node_stays_at_the_opset_below_which_the_target_has_no_kernel_for_it():
    class Mine(Target):
        def runs_as_well(self, node: ir.Node, opset: int, lower: int) -> bool:
            return node.op_type != "Relu" or lower >= 21

    assert declared("y = Relu(x)", target=Mine()).opset_imports[""] == 21


def test_no_opset_is_declared_that_the_target_does_not_run():
    class Mine(Target):
        opsets = range(20, 23)

    assert Mine().best_opset == 22
    assert declared("y = Relu(x)", opset=22, target=Mine()).opset_imports[""] == 20


def test_the_report_names_the_operators_that_hold_the_opset_up():
    model = declared("z = Relu(x) w = Gelu(z) v = Gelu(w) y = RMSNormalization(v, v)")
    gelu, norm = model.graph[1], model.graph[3]
    gelu.name, norm.metadata_props["source"] = "block/Gelu", "mine.py:3"
    assert list(opset_lines(model, standard_target)) == [
        "below opset 23 without: RMSNormalization 1 (mine.py:3)",
        "below opset 20 without: Gelu 2 (block/Gelu)",
    ]


def test_the_changes_of_every_version_that_a_target_may_have_were_read():
    assert standard_target.opsets[-1] <= LAST_READ


@pytest.mark.parametrize("op_type", sorted(op_type for op_type, facts in OPERATORS.items() if facts.changes))
def test_a_change_is_one_of_an_existing_version(op_type):
    versions = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op_type and not s.domain}
    assert {change.version for change in OPERATORS[op_type].changes} <= versions


def test_attributes_with_another_default_are_changes():
    opsets = range(standard_target.opsets[0], standard_target.opsets[-1])
    for op_type in sorted({s.name for s in onnx.defs.get_all_schemas() if not s.domain}):
        for lower in opsets:
            try:
                before, after = (onnx.defs.get_schema(op_type, version, "") for version in (lower, lower + 1))
            except onnx.defs.SchemaError:
                continue
            shared = before.attributes.keys() & after.attributes.keys()
            same = all(before.attributes[n].default_value == after.attributes[n].default_value for n in shared)
            changed = {change.version for change in OPERATORS[op_type].changes} if op_type in OPERATORS else set()
            assert same or after.since_version in changed, (op_type, lower + 1)


class _OfSomeOpsets(Target):
    opsets = range(18, 24)


@pytest.mark.parametrize("opset", [None, 17, 18, 23])
def test_an_opset_that_a_model_can_have(opset):
    check_opset(opset, _OfSomeOpsets())


@pytest.mark.parametrize(
    ("opset", "message"),
    [
        (16, r"opset=16 is not supported; choose one from 17 to 23\."),
        (24, r"opset=24 is not supported; choose one from 17 to 23\."),
        (18.0, r"opset=18\.0 is not supported; it is a whole number; choose one"),
        (True, r"opset=True is not supported"),
        ("18", r"opset='18' is not supported; it is a whole number; choose one"),
    ],
)
def test_an_opset_that_no_model_can_have(opset, message):
    with pytest.raises(OptionError, match=message):
        check_opset(opset, _OfSomeOpsets())


def test_an_opset_is_raised_with_the_file_format_that_has_it():
    model = declared("y = Relu(x)")
    raise_opset(model, 23)
    assert (model.opset_imports[""], model.ir_version) == (23, 11)
    raise_opset(model, 20)
    assert (model.opset_imports[""], model.ir_version) == (23, 11)


def test_an_opset_is_not_raised_over_a_change_of_meaning():
    model = declared("y = MaxPool <kernel_shape = [2, 2], ceil_mode = 1> (x)", opset=21, keep_opset=True)
    model.graph[0].name = "block/MaxPool"
    raise_opset(model, 21)
    with pytest.raises(
        TargetError,
        match=r"MaxPool \(block/MaxPool\) means something else at opset 22 than at 21\. Export with to_onnx",
    ):
        raise_opset(model, 23)
