"""Cases of `activations`."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Case, bind_composite

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_X = [("B", 7)]


def _activation(function: str, graph: str) -> Case:
    """`jax.nn.<function>` on special values is the operator `graph`, in single precision."""
    return Case(
        function,
        vars(jax.nn)[function],
        _X,
        covers=(f"jax.nn.{function}",),
        expect=graph,
        values="special",
    )


def _prelu(x: jax.Array, slope: jax.Array) -> jax.Array:
    return bind_composite("nn.prelu", Call(x, slope), lambda: jnp.where(x >= 0, x, slope * x))


def _sum_of_slopes(x: jax.Array) -> jax.Array:
    return jnp.sum(jax.nn.leaky_relu(x) + jax.nn.leaky_relu(x, 0.3) + jax.nn.elu(x) + jax.nn.selu(x))


cases = [
    _activation("relu", "Relu"),
    _activation("relu6", "Clip"),
    _activation("hard_tanh", "Clip"),
    _activation("softplus", "Softplus"),
    _activation("soft_sign", "Softsign"),
    _activation("mish", "Mish"),
    _activation("hard_sigmoid", "HardSigmoid"),
    _activation("hard_silu", "HardSwish"),
    _activation("selu", "Selu"),
    _activation("elu", "Elu"),
    _activation("celu", "Celu"),
    _activation("leaky_relu", "LeakyRelu"),
    _activation("log_sigmoid", "Neg -> Softplus -> Neg"),
    Case("hard_silu_hessian", jax.hessian(lambda x: jax.nn.hard_silu(x).sum()), [(3,)], expect=at_most(20)),
    Case("elu_alpha", functools.partial(jax.nn.elu, alpha=0.3), _X, expect="Elu"),
    Case("celu_alpha", functools.partial(jax.nn.celu, alpha=0.3), _X, expect="Celu"),
    Case("leaky_relu_slope", functools.partial(jax.nn.leaky_relu, negative_slope=0.3), _X, expect="LeakyRelu"),
    Case("leaky_relu_traced_slope", jax.nn.leaky_relu, [("B", 7), ()],
         expect=["GreaterOrEqual -> Where", "Mul -> Where"], declines="the negative_slope is no constant"),
    Case("slopes_grad", jax.grad(_sum_of_slopes), [(7,)], expect=at_most(40)),
    Case("relu_of_integers", jax.nn.relu, [(("B", 7), np.int32)], expect="Max"),
    Case("relu6_of_integers", jax.nn.relu6, [(("B", 7), np.int32)], expect="Max -> Cast -> Min"),
    Case("silu", jax.nn.silu, _X, expect="Sigmoid -> Mul"),
    Case("sigmoid", jax.nn.sigmoid, _X, expect="Sigmoid"),
    Case("squareplus", jax.nn.squareplus, _X, expect="Mul -> Add -> Sqrt -> Add -> Div"),
    Case("sparse_plus", jax.nn.sparse_plus, _X,
         expect=["LessOrEqual -> Where", "GreaterOrEqual -> Where -> Where", "Add -> Mul -> Div -> Where"]),
    Case("sparse_sigmoid", jax.nn.sparse_sigmoid, _X, expect="Add -> Clip -> Mul"),
    Case("gelu", jax.nn.gelu, _X, covers=("jax.nn.gelu",), expect="Gelu"),
    Case(
        "gelu_exact",
        functools.partial(jax.nn.gelu, approximate=False),
        _X,
        covers=("jax.nn.gelu",),
        expect="Gelu",
        declines="the primitives are as good",
    ),
    Case(
        "gelu_exact_opset_18",
        functools.partial(jax.nn.gelu, approximate=False),
        _X,
        expect="Div -> Erf -> Add -> Mul -> Mul",
        options={"opset": 18},
    ),
    Case("gelu_exact_gradient", jax.value_and_grad(lambda x: jax.nn.gelu(x, approximate=False).sum()), [(7,)],
         expect=at_most(16, Gelu=1, Erf=1, Exp=1, Where=0), skip={"f64": "The operator is written by others."}),
    Case("gelu_exact_hessian", jax.hessian(lambda x: jax.nn.gelu(x, approximate=False).sum()), [(3,)], expect=at_most(100)),
    Case("gelu_opset_18", jax.nn.gelu, _X, options={"opset": 18},
         expect="Mul -> Mul -> Mul -> Add -> Mul -> Tanh -> Add -> Mul -> Mul", declines="Gelu exists from opset 20, this is 18"),
    Case("gelu_of_integers", jax.nn.gelu, [(("B", 7), np.int32)], expect="Cast -> Gelu"),
    Case(
        "glu",
        jax.nn.glu,
        [("B", 8)],
        covers=("jax.nn.glu",),
        expect="Split -> Sigmoid -> Mul",
    ),
    Case("glu_over_the_middle", functools.partial(jax.nn.glu, axis=1), [("B", 4, "T")], expect="Split -> Sigmoid -> Mul"),
    Case(
        "prelu",
        _prelu,
        [("B", 7), (7,)],
        covers=("nn.prelu",),
        expect="PRelu",
        values="special",
    ),
    Case("glu_of_nothing", jax.nn.glu, [("B", 0)], expect="Shape -> Concat -> Expand"),
    Case("one_hot", lambda i: jax.nn.one_hot(i, 5), [np.array([[0, 4, -1], [5, 2, 7]], np.int32)],
         expect="Unsqueeze -> Equal -> Cast"),
    Case("one_hot_first_axis", lambda i: jax.nn.one_hot(i, 5, axis=0, dtype=jnp.int32), [(("B", 3), np.int32)],
         expect="Equal -> Cast"),
]  # fmt: skip
