"""What `to_training` takes: models, losses, masks, optimizers and batches, next to what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.bundles.bundle import Bundle
from jax2onnx_training import open_training, to_training

PARAMETERS = {"w": jnp.arange(1.0, 5.0), "b": jnp.ones(())}
BATCH = [("batch", 4), ("batch",)]
X: Any = np.arange(8, dtype=np.float32).reshape(2, 4) / 4
Y: Any = np.asarray([1.0, -1.0], np.float32)
COUNT = {"count": jnp.zeros(2)}


def squared(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return ((x @ params["w"] + params["b"] - y) ** 2).mean()


def counted(params: Any, variables: Any, x: jax.Array, y: jax.Array) -> Any:
    return squared(params, x, y), {"count": variables["count"] + 1}


def returning(result: Callable[[jax.Array], Any]) -> Callable[..., Any]:
    return lambda params, x, y: result(squared(params, x, y))


@pytest.mark.parametrize(
    ("loss", "options", "keys"),
    [
        (squared, {}, {"loss"}),
        (returning(lambda loss: (loss,)), {}, {"loss"}),
        (returning(lambda loss: (loss, {"double": 2 * loss})), {}, {"loss", "double"}),
        (counted, {"variables": COUNT}, {"loss"}),
        (lambda *args: (*counted(*args), {"more": 1.0}), {"variables": COUNT}, {"loss", "more"}),
    ],
    ids=["a number", "a tuple of one", "with metrics", "with variables", "with both"],
)
def test_what_a_loss_returns(loss, options, keys):
    session = to_training(PARAMETERS, loss, optax.sgd(0.1), BATCH, **options).session()
    result = session.step(X, Y)
    assert result.keys() == keys
    np.testing.assert_allclose(result["loss"], squared(PARAMETERS, X, Y), rtol=1e-5)
    assert all(np.array_equal(session.state[name], [1, 1]) for name in session.state if name.startswith("variables"))


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        (returning(lambda loss: (loss, {}, 0)), {}, r"returns 3 values; it returns a scalar, or a pair of it and a dict"),
        (returning(lambda loss: ()), {}, "returns 0 values; it returns a scalar"),
        (
            lambda params, variables, x, y: squared(params, x, y),
            {"variables": COUNT},
            "returns 1 values; it returns a pair of the loss and the variables",
        ),
        (lambda *args: (*counted(*args), {}, 0), {"variables": COUNT}, "returns 4 values; it returns a pair"),
        (
            lambda params, variables, x, y: (squared(params, x, y), {"other": 1.0}),
            {"variables": COUNT},
            "variables of another structure than it takes",
        ),
        (returning(lambda loss: loss.astype(int)), {}, r"The loss is int32\[\], but a gradient"),
        (squared, {"trained": {"w": True}}, "trained is no pytree of booleans like that of the parameters"),
        (squared, {"trained": lambda _: False}, r"dict has no parameters that trained=<function .* means\. Give"),
        (squared, {"trained": False}, r"dict has no parameters that trained=False means\. Give"),
        (squared, {"optimizer": optax.GradientTransformation}, "optimizer is a transformation of optax"),
        (squared, {"optimizer": optax.sgd}, "optimizer is a transformation of optax"),
        (squared, {"batch": "batch"}, "batch is a list with one entry per argument of the loss, not 'batch'"),
        (squared, {"batch": 4}, "batch is a list with one entry per argument of the loss, not 4"),
        (
            lambda params, x, y: (x @ params["w"]).mean(),
            {"model": {**PARAMETERS, **{name: jnp.ones(()) for name in "cde"}}},
            "does not depend on b, c, d and 1 more, which no step",
        ),
        (
            lambda params, x, y: (x @ params["w"]).mean(),
            {"model": {**PARAMETERS, **{name: jnp.ones(()) for name in "cd"}}},
            "does not depend on b, c, d, which no step",
        ),
        (
            lambda model, x, y: model(x).mean(),
            {"model": nnx.Linear(4, 1, rngs=nnx.Rngs(0)), "variables": COUNT},
            "Linear holds its variables itself; leave variables out",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(loss: Callable[..., Any], options: Mapping[str, Any], message: str) -> None:
    given = {"model": PARAMETERS, "optimizer": optax.sgd(0.1), "batch": BATCH, **options}
    with pytest.raises(OptionError, match=message):
        to_training(loss=loss, **given)


@pytest.mark.parametrize(
    ("trained", "names"),
    [
        (None, ["b", "w"]),
        (True, ["b", "w"]),
        ({"w": True, "b": False}, ["w"]),
        (lambda params: jax.tree.map(lambda x: x.ndim == 0, params), ["b"]),
    ],
)
def test_what_is_trained(trained, names):
    training = to_training(PARAMETERS, squared, optax.sgd(0.1), BATCH, trained=trained)
    session = training.session()
    expected = {"w": PARAMETERS["w"], "b": PARAMETERS["b"]}
    slopes = jax.grad(squared)(PARAMETERS, X, Y)
    session.step(X, Y)
    assert sorted(name for name in session.state if name.startswith("parameters")) == [f"parameters.{n}" for n in names]
    for name, found in training.weights(session).items():
        np.testing.assert_allclose(found, expected[name] - 0.1 * slopes[name] * (name in names), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "inputs"),
    [
        ({}, [X]),
        ({"inputs": [(3, 4)]}, [np.ones((3, 4), np.float32)]),
        ({"batch": [("batch", 4)], "loss": lambda params, x: squared(params, x, jnp.ones(()))}, [X]),
    ],
    ids=["a batch without labels", "its own", "a batch of one entry"],
)
def test_what_an_inference_takes(options, inputs):
    given = {"loss": squared, "batch": BATCH, "infer": lambda params, x: x @ params["w"], **options}
    training = to_training(PARAMETERS, optimizer=optax.sgd(0.1), **given)
    np.testing.assert_allclose(training.session().infer(*inputs), inputs[0] @ PARAMETERS["w"], rtol=1e-5)


def test_a_session_begins_anew():
    session = to_training(PARAMETERS, squared, optax.sgd(0.1), BATCH).session()
    first = [session.step(X, Y)["loss"], session.step_on({"x": X, "y": Y})["loss"]]
    assert (session.inputs, session.steps) == (["x", "y"], 2)
    session.reset()
    assert session.steps == 0
    assert [session.step(X, Y)["loss"], session.step(x=X, y=Y)["loss"]] == first


def test_a_bundle_without_a_step_is_no_training(tmp_path):
    training = to_training(PARAMETERS, squared, optax.sgd(0.1), BATCH)
    folder = Bundle({"evaluate": training.programs["evaluate"]}).save(tmp_path / "bundle")
    with pytest.raises(OptionError, match="is no training: it has evaluate, but no program 'step'"):
        open_training(folder)


def test_the_steps_of_a_loop_have_an_axis_of_their_own():
    def loss(params: Any, x: jax.Array) -> jax.Array:
        return (x @ params["w"] + params["b"]).mean()

    training = to_training(PARAMETERS, loss, optax.sgd(0.1), [("2*steps", 4)], loop=True)
    shape = training.programs["loop"].model.graph.inputs[-1].shape
    assert [str(dim) for dim in shape or ()] == ["steps_1", "2*steps", "4"]
    assert training.session().loop(np.stack([X, X, X]))["loss"].shape == (3,)
