"""The facts about ONNX's operators that passes and targets reason with: one table, each operator once."""

from __future__ import annotations

__all__ = [
    "OPERATORS",
    "REDUCTIONS",
    "Change",
    "Elementwise",
    "IdentityIf",
    "Operands",
    "OperatorFacts",
    "ResultType",
    "ValueUse",
    "facts_of",
    "operators_where",
    "split_reduction",
    "value_use",
]

import dataclasses
import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType

from jax2onnx_graph._ir import ir


class ValueUse(enum.Enum):
    """The kind of computation that an operator does with the values of its main operands.

    * `MOVE`: results are some of the operands' values (Gather, Where, Pad).
    * `RING`: sums and products, which commute with reduction modulo 2ⁿ (Add, ReduceSum, CumSum, BitwiseAnd).
    * `ORDER`: comparisons, minima and maxima; only the order of the values counts.
    * `VALUE`: everything else on integers (Div, Mod, BitShift).
    * `FLOAT`: floating-point functions.
    * `TRUTH`: only whether a value is zero counts (NonZero).
    """

    MOVE = enum.auto()
    RING = enum.auto()
    ORDER = enum.auto()
    VALUE = enum.auto()
    FLOAT = enum.auto()
    TRUTH = enum.auto()


class Elementwise(enum.Enum):
    """The alignment of the operands of an elementwise operator.

    `UNARY`: the result has the shape of the first operand, any others are scalars (Clip) or types (CastLike).
    `BROADCAST`: all operands broadcast to the result. `BROADCAST_TO_FIRST`: to the shape of the first (PRelu).
    """

    UNARY = enum.auto()
    BROADCAST = enum.auto()
    BROADCAST_TO_FIRST = enum.auto()


class Operands(enum.Enum):
    """Some of an operator's operands."""

    NONE = enum.auto()
    FIRST = enum.auto()
    ALL = enum.auto()


class IdentityIf(enum.Enum):
    """The condition under which an operator returns its first operand as it is.

    `SAME_SHAPE`: the result has the shape of the operand. `ONE_OPERAND`: there is no other operand.
    `NOTHING_TO_DO`: the other operands and the attributes ask for no change: a Slice of everything, a Pad of nothing, a
    Transpose that leaves the axes in order.
    """

    SAME_SHAPE = enum.auto()
    ONE_OPERAND = enum.auto()
    NOTHING_TO_DO = enum.auto()


@dataclasses.dataclass(frozen=True)
class ResultType:
    """The source of a result's element type, if it is no type variable: the first of these that is given."""

    attribute: str = ""
    """The attribute that names the type, or is a tensor of it."""
    operand: int | None = None
    """The operand that has the type."""
    default: ir.DataType | None = None
    """The type otherwise."""


@dataclasses.dataclass(frozen=True)
class Change:
    """A version of an operator that changes the meaning of nodes, though its schema allows nodes of the version before.

    It gives them another meaning, or is the first to know a value of one of their attributes.
    """

    version: int
    concerns: Callable[[ir.Node], bool] = lambda _: True
    """Tells the nodes whose meaning changes; all of them by default."""


@dataclasses.dataclass(frozen=True)
class OperatorFacts:
    """Properties of an operator of the standard domain that hold in any model; the defaults are those of most operators."""

    use: ValueUse = ValueUse.FLOAT
    """The kind of computation on the values of its main operands."""
    has_reduction: bool = False
    """Whether an attribute `reduction` may make it combine values that meet at one place (see `REDUCTIONS`)."""
    elementwise: Elementwise | None = None
    """The alignment of its operands if each element of the result depends on one element of each; None otherwise."""
    keeps_shape: bool = False
    """Whether its first result has the shape of its first operand; not set for elementwise operators."""
    permutable: Operands = Operands.NONE
    """The operands whose axes may be permuted if those of the results are, once the axes that it names are
    renamed; not set for elementwise operators."""
    is_commutative: bool = False
    """Whether its operands can be exchanged."""
    neutral: int | None = None
    """The second operand that makes the result the first operand, up to the sign of zero; for a commutative operator
    also the other way round."""
    axis: int | None = None
    """The default of its attribute `axis` (0 where it must be given)."""
    axes_input: int | None = None
    """The input that lists axes."""
    per_axis_inputs: tuple[int, ...] = ()
    """The inputs that hold one number per axis of the first operand, or several times that many."""
    indices_input: int | None = None
    """The input that holds indices: into axes of the first input, those of OneHot into the new axis."""
    reduces: bool = False
    """Whether it removes the axes that it names or, with `keepdims`, leaves them with size 1."""
    is_view: bool = False
    """Whether its result has the elements of its first operand in the same order, in another shape."""
    identity: IdentityIf | None = None
    """The condition under which it returns its first operand as it is; not set for views."""
    converts: bool = False
    """Whether its result is the same numbers in another element type, as far as that has them."""
    is_random: bool = False
    """Whether it may draw random numbers, which are others at each call."""
    is_matrix_product: bool = False
    """Whether it sums products of elements of its first two operands along axes that these share."""
    count_outputs: tuple[int, ...] = ()
    """The results that are sizes or positions in tensors."""
    keeps_float_type: bool = False
    """Whether its results on floats are values of the operands' type even when computed in a wider one."""
    type_bound: bool = False
    """Whether an element type is part of its meaning, or it takes values of several types at once."""
    element_type: str = ""
    """The type variable of its main operands, where that is not the one of the first input."""
    result_type: ResultType | None = None
    """The source of the element type of its results, if that is no type variable."""
    has_subgraphs: bool = False
    """Whether graphs are among its attributes."""
    changes: tuple[Change, ...] = ()
    """The versions from 18 on that change the meaning of nodes; all others only add types, attributes or operands."""

    @property
    def permutable_operands(self) -> Operands:
        """The operands whose axes may be permuted if those of the results are, once named axes are renamed."""
        if self.elementwise is None:
            return self.permutable
        return Operands.FIRST if self.elementwise is Elementwise.UNARY else Operands.ALL

    @property
    def has_shape_of_first(self) -> bool:
        """Whether its first result has the shape of its first operand, whatever other operands there are."""
        return self.keeps_shape or self.elementwise in (Elementwise.UNARY, Elementwise.BROADCAST_TO_FIRST)

    @property
    def identity_if(self) -> IdentityIf | None:
        """The condition under which it returns its first operand as it is."""
        return IdentityIf.SAME_SHAPE if self.is_view else self.identity


def facts_of(op_type: str) -> OperatorFacts:
    """The facts about a standard operator; the defaults for one that the table does not list."""
    return OPERATORS.get(op_type, _DEFAULT)


def operators_where(holds: Callable[[OperatorFacts], bool]) -> frozenset[str]:
    """The operators of the table for whose facts `holds` is true."""
    return frozenset(op_type for op_type, facts in OPERATORS.items() if holds(facts))


def split_reduction(key: str) -> tuple[str, str]:
    """The operator and the `reduction` that a name like "ScatterND_add" stands for.

    >>> split_reduction("ScatterND_add"), split_reduction("ScatterND")
    (('ScatterND', 'add'), ('ScatterND', ''))
    """
    op_type, _, reduction = key.rpartition("_")
    return (op_type, reduction) if reduction in REDUCTIONS and facts_of(op_type).has_reduction else (key, "")


def value_use(key: str) -> ValueUse:
    """The kind of computation of an operator, or of one with a reduction ("ScatterND_add"), on its main operands."""
    op_type, reduction = split_reduction(key)
    return REDUCTIONS[reduction] if reduction else facts_of(op_type).use


#: What an operator with an attribute `reduction` does with the values of its operands; without one it moves them.
REDUCTIONS: Mapping[str, ValueUse] = MappingProxyType({
    "add": ValueUse.RING, "mul": ValueUse.RING, "max": ValueUse.ORDER, "min": ValueUse.ORDER,
})  # fmt: skip

_MOVE, _RING, _ORDER, _VALUE = ValueUse.MOVE, ValueUse.RING, ValueUse.ORDER, ValueUse.VALUE
_UNARY, _BROADCAST = Elementwise.UNARY, Elementwise.BROADCAST
_FIRST = Operands.FIRST
_DTYPE, _DTYPE_OR_FIRST = ResultType("dtype", default=ir.DataType.FLOAT), ResultType("dtype", 0)


def _has_ceil_mode(node: ir.Node) -> bool:
    return node.attributes.get_int("ceil_mode", 0) == 1


def _saturates_to_float8(node: ir.Node) -> bool:
    dtype = node.outputs[0].dtype
    is_float8 = dtype is None or (dtype.is_floating_point() and dtype.bitwidth == 8)
    return is_float8 and node.attributes.get_int("saturate", 1) == 1


def _has_string(attribute: str, value: str) -> Callable[[ir.Node], bool]:
    return lambda node: node.attributes.get_string(attribute, "") == value


# Changes by newer versions.
_CASTS_OF_INFINITY = (Change(24, _saturates_to_float8),)  # the largest number in the types "fnuz" too
_DEFAULT_AXIS_OF_DFT = (Change(20),)
_NAMES_OF_MODES = (Change(20),)  # "linear" was "bilinear"
_SCALES_PER_CHANNEL = (Change(21),)  # they were one per group
_SHORT_MASKS = (Change(24),)  # shorter than the keys
_SYMMETRIC_PIXELS = (Change(19, _has_string("coordinate_transformation_mode", "half_pixel_symmetric")),)
_WINDOWS_IN_PADDING = (Change(22, _has_ceil_mode),)  # those that would start in it are left out
_REDUCTION_TO_EXTREMA = tuple(Change(18, _has_string("reduction", name)) for name in ("max", "min"))
_WRAPPING = (Change(19, _has_string("mode", "wrap")),)

# Facts that several operators share.
_DEFAULT = OperatorFacts()
_FUNCTION = OperatorFacts(elementwise=_UNARY)
_CONVERSION = OperatorFacts(elementwise=_UNARY, type_bound=True, converts=True)
_ROUNDING = OperatorFacts(elementwise=_UNARY, keeps_float_type=True)
_ARITHMETIC = OperatorFacts(_RING, elementwise=_BROADCAST, is_commutative=True)
_ZERO_IS_NEUTRAL = OperatorFacts(_RING, elementwise=_BROADCAST, is_commutative=True, neutral=0)
_LOGIC = OperatorFacts(elementwise=_BROADCAST, is_commutative=True, neutral=0)
_DIVISION = OperatorFacts(_VALUE, elementwise=_BROADCAST)
_COMPARISON = OperatorFacts(_ORDER, elementwise=_BROADCAST)
_EXTREMUM = OperatorFacts(_ORDER, elementwise=_BROADCAST, is_commutative=True, identity=IdentityIf.ONE_OPERAND)
_ALONG_AXIS = OperatorFacts(keeps_shape=True, axis=-1, permutable=_FIRST)
_CUMULATION = OperatorFacts(_RING, keeps_shape=True, axes_input=1, permutable=_FIRST)
_REDUCTION = OperatorFacts(reduces=True, axes_input=1, permutable=_FIRST)
_ARG_EXTREMUM = OperatorFacts(_ORDER, reduces=True, axis=0, permutable=_FIRST, count_outputs=(0,))
_MOVEMENT = OperatorFacts(_MOVE)
_SIZE = OperatorFacts(_MOVE, count_outputs=(0,))
_NORMALIZATION = OperatorFacts(keeps_shape=True)
_SCATTERING = OperatorFacts(_MOVE, has_reduction=True, keeps_shape=True, indices_input=1, changes=_REDUCTION_TO_EXTREMA)
_MATRIX_PRODUCT = OperatorFacts(_RING, is_matrix_product=True)
_DRAW = OperatorFacts(type_bound=True, is_random=True, result_type=_DTYPE)
_DRAW_LIKE = OperatorFacts(keeps_shape=True, type_bound=True, is_random=True, result_type=_DTYPE_OR_FIRST)
_WINDOW = OperatorFacts(type_bound=True, result_type=ResultType("output_datatype", default=ir.DataType.FLOAT))

OPERATORS: Mapping[str, OperatorFacts] = MappingProxyType({
    # Elementwise, of one tensor.
    "Abs": OperatorFacts(_VALUE, elementwise=_UNARY, keeps_float_type=True),
    "Acos": _FUNCTION,
    "Acosh": _FUNCTION,
    "Asin": _FUNCTION,
    "Asinh": _FUNCTION,
    "Atan": _FUNCTION,
    "Atanh": _FUNCTION,
    "BitCast": OperatorFacts(elementwise=_UNARY, type_bound=True, result_type=ResultType("to")),
    "BitwiseNot": OperatorFacts(_RING, elementwise=_UNARY),
    "Cast": dataclasses.replace(_CONVERSION, result_type=ResultType("to"), changes=_CASTS_OF_INFINITY),
    "CastLike": dataclasses.replace(_CONVERSION, result_type=ResultType(operand=1), changes=_CASTS_OF_INFINITY),
    "Ceil": _ROUNDING,
    "Celu": _FUNCTION,
    "Clip": OperatorFacts(_ORDER, elementwise=_UNARY),
    "Cos": _FUNCTION,
    "Cosh": _FUNCTION,
    "Dropout": OperatorFacts(elementwise=_UNARY, is_random=True),
    "Elu": _FUNCTION,
    "Erf": _FUNCTION,
    "Exp": _FUNCTION,
    "Floor": _ROUNDING,
    "Gelu": _FUNCTION,
    "HardSigmoid": _FUNCTION,
    "HardSwish": _FUNCTION,
    "Identity": OperatorFacts(_MOVE, elementwise=_UNARY, identity=IdentityIf.ONE_OPERAND),
    "IsInf": _FUNCTION,
    "IsNaN": _FUNCTION,
    "LeakyRelu": _FUNCTION,
    "Log": _FUNCTION,
    "Mish": _FUNCTION,
    "Neg": OperatorFacts(_RING, elementwise=_UNARY, keeps_float_type=True),
    "Not": _FUNCTION,
    "Reciprocal": _FUNCTION,
    "Relu": OperatorFacts(_VALUE, elementwise=_UNARY, keeps_float_type=True),
    "Round": _ROUNDING,
    "Selu": _FUNCTION,
    "Shrink": _FUNCTION,
    "Sigmoid": _FUNCTION,
    "Sign": OperatorFacts(_VALUE, elementwise=_UNARY, keeps_float_type=True),
    "Sin": _FUNCTION,
    "Sinh": _FUNCTION,
    "Softplus": _FUNCTION,
    "Softsign": _FUNCTION,
    "Sqrt": _FUNCTION,
    "Swish": _FUNCTION,
    "Tan": _FUNCTION,
    "Tanh": _FUNCTION,
    "ThresholdedRelu": _FUNCTION,
    # Elementwise, of several tensors.
    "Add": _ZERO_IS_NEUTRAL,
    "And": dataclasses.replace(_LOGIC, neutral=1),
    "BitShift": dataclasses.replace(_DIVISION, neutral=0),
    "BitwiseAnd": _ARITHMETIC,
    "BitwiseOr": _ZERO_IS_NEUTRAL,
    "BitwiseXor": _ZERO_IS_NEUTRAL,
    "Div": dataclasses.replace(_DIVISION, neutral=1),
    "Equal": dataclasses.replace(_COMPARISON, is_commutative=True),
    "Greater": _COMPARISON,
    "GreaterOrEqual": _COMPARISON,
    "Less": _COMPARISON,
    "LessOrEqual": _COMPARISON,
    "Max": _EXTREMUM,
    "Mean": OperatorFacts(elementwise=_BROADCAST, is_commutative=True, identity=IdentityIf.ONE_OPERAND),
    "Min": _EXTREMUM,
    "Mod": _DIVISION,
    "Mul": dataclasses.replace(_ARITHMETIC, neutral=1),
    "Or": _LOGIC,
    "Pow": OperatorFacts(elementwise=_BROADCAST, neutral=1),
    "PRelu": OperatorFacts(elementwise=Elementwise.BROADCAST_TO_FIRST),
    "Sub": OperatorFacts(_RING, elementwise=_BROADCAST, neutral=0),
    "Sum": dataclasses.replace(_ZERO_IS_NEUTRAL, identity=IdentityIf.ONE_OPERAND),
    "Where": OperatorFacts(_MOVE, elementwise=_BROADCAST, element_type="T"),
    "Xor": _LOGIC,
    # Along axes.
    "ArgMax": _ARG_EXTREMUM,
    "ArgMin": _ARG_EXTREMUM,
    "CumProd": _CUMULATION,
    "CumSum": _CUMULATION,
    "Hardmax": _ALONG_AXIS,
    "LogSoftmax": _ALONG_AXIS,
    "ReduceL1": _REDUCTION,
    "ReduceL2": _REDUCTION,
    "ReduceLogSum": _REDUCTION,
    "ReduceLogSumExp": _REDUCTION,
    "ReduceMax": dataclasses.replace(_REDUCTION, use=_ORDER),
    "ReduceMean": _REDUCTION,
    "ReduceMin": dataclasses.replace(_REDUCTION, use=_ORDER),
    "ReduceProd": dataclasses.replace(_REDUCTION, use=_RING),
    "ReduceSum": dataclasses.replace(_REDUCTION, use=_RING),
    "ReduceSumSquare": dataclasses.replace(_REDUCTION, use=_RING),
    "Softmax": _ALONG_AXIS,
    "TopK": OperatorFacts(_ORDER, axis=-1, permutable=_FIRST, count_outputs=(1,)),
    # Normalization and pooling.
    "AveragePool": OperatorFacts(changes=_WINDOWS_IN_PADDING),
    "BatchNormalization": _NORMALIZATION,
    "GlobalMaxPool": OperatorFacts(_ORDER),
    "GroupNormalization": dataclasses.replace(_NORMALIZATION, changes=_SCALES_PER_CHANNEL),
    "InstanceNormalization": _NORMALIZATION,
    "LRN": _NORMALIZATION,
    "LayerNormalization": OperatorFacts(keeps_shape=True, axis=-1),
    "LpNormalization": OperatorFacts(keeps_shape=True, axis=-1),
    "MaxPool": OperatorFacts(_ORDER, count_outputs=(1,), changes=_WINDOWS_IN_PADDING),
    "MeanVarianceNormalization": _NORMALIZATION,
    "RMSNormalization": OperatorFacts(keeps_shape=True, axis=-1),
    # Products.
    "Attention": OperatorFacts(changes=_SHORT_MASKS),
    "ConvInteger": OperatorFacts(type_bound=True),
    "DFT": OperatorFacts(changes=_DEFAULT_AXIS_OF_DFT),
    "Einsum": _MATRIX_PRODUCT,
    "Gemm": OperatorFacts(is_matrix_product=True),
    "MatMul": _MATRIX_PRODUCT,
    "MatMulInteger": OperatorFacts(type_bound=True, is_matrix_product=True),
    # Movement of elements.
    "CenterCropPad": _MOVEMENT,
    "Compress": _MOVEMENT,
    "Concat": OperatorFacts(_MOVE, axis=0, permutable=Operands.ALL, identity=IdentityIf.ONE_OPERAND),
    "DepthToSpace": _MOVEMENT,
    "Expand": OperatorFacts(_MOVE, per_axis_inputs=(1,), permutable=_FIRST, identity=IdentityIf.SAME_SHAPE),
    "Flatten": OperatorFacts(_MOVE, is_view=True, axis=1),
    "Gather": OperatorFacts(_MOVE, axis=0, indices_input=1),
    "GatherElements": OperatorFacts(_MOVE, axis=0, permutable=Operands.ALL, indices_input=1),
    "GatherND": OperatorFacts(_MOVE, indices_input=1),
    "GridSample": OperatorFacts(changes=_NAMES_OF_MODES),
    "Pad": OperatorFacts(
        _MOVE, axes_input=3, per_axis_inputs=(1,), permutable=_FIRST, identity=IdentityIf.NOTHING_TO_DO, changes=_WRAPPING
    ),
    "Reshape": OperatorFacts(_MOVE, is_view=True),
    "Resize": OperatorFacts(per_axis_inputs=(1, 2, 3), permutable=_FIRST, changes=_SYMMETRIC_PIXELS),
    "ReverseSequence": OperatorFacts(_MOVE, keeps_shape=True),
    "ScatterElements": dataclasses.replace(_SCATTERING, axis=0, permutable=Operands.ALL),
    "ScatterND": _SCATTERING,
    "Slice": OperatorFacts(_MOVE, axes_input=3, permutable=_FIRST, identity=IdentityIf.NOTHING_TO_DO),
    "SpaceToDepth": _MOVEMENT,
    "Split": OperatorFacts(_MOVE, axis=0, permutable=_FIRST),
    "Squeeze": OperatorFacts(_MOVE, is_view=True, axes_input=1, permutable=_FIRST),
    "TensorScatter": OperatorFacts(_MOVE, keeps_shape=True, axis=-2),
    "Tile": OperatorFacts(_MOVE, per_axis_inputs=(1,), permutable=_FIRST, identity=IdentityIf.SAME_SHAPE),
    "Transpose": OperatorFacts(_MOVE, identity=IdentityIf.NOTHING_TO_DO),
    "Trilu": OperatorFacts(_MOVE, keeps_shape=True),
    "Unique": OperatorFacts(_ORDER, count_outputs=(1, 2, 3)),
    "Unsqueeze": OperatorFacts(_MOVE, is_view=True, axes_input=1),
    # Sizes, positions, and tensors made from them.
    "ConstantOfShape": OperatorFacts(
        _MOVE, element_type="T2", result_type=ResultType("value", default=ir.DataType.FLOAT)
    ),
    "EyeLike": OperatorFacts(keeps_shape=True, type_bound=True, element_type="T2", result_type=_DTYPE_OR_FIRST),
    "NonZero": OperatorFacts(ValueUse.TRUTH, count_outputs=(0,)),
    "OneHot": OperatorFacts(_MOVE, axis=-1, indices_input=0, element_type="T3"),
    "Range": OperatorFacts(_VALUE),
    "Shape": _SIZE,
    "Size": _SIZE,
    # Random numbers and windows.
    "Bernoulli": _DRAW_LIKE,
    "BlackmanWindow": _WINDOW,
    "HammingWindow": _WINDOW,
    "HannWindow": _WINDOW,
    "Multinomial": dataclasses.replace(_DRAW, result_type=ResultType("dtype", default=ir.DataType.INT32)),
    "RandomNormal": _DRAW,
    "RandomNormalLike": _DRAW_LIKE,
    "RandomUniform": _DRAW,
    "RandomUniformLike": _DRAW_LIKE,
    # Quantisation.
    "DequantizeLinear": OperatorFacts(
        keeps_shape=True, axis=1, type_bound=True, result_type=ResultType("output_dtype", 1)
    ),
    "DynamicQuantizeLinear": OperatorFacts(keeps_shape=True, type_bound=True),
    "QuantizeLinear": OperatorFacts(
        keeps_shape=True, axis=1, type_bound=True, result_type=ResultType("output_dtype", 2, ir.DataType.UINT8)
    ),
    # Control flow.
    "If": OperatorFacts(has_subgraphs=True, type_bound=True, element_type="V"),
    "Loop": OperatorFacts(has_subgraphs=True, type_bound=True, element_type="V"),
    "Scan": OperatorFacts(has_subgraphs=True, type_bound=True),
    "SequenceMap": OperatorFacts(has_subgraphs=True, type_bound=True),
})  # fmt: skip
