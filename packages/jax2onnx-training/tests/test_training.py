"""Trainings against the same steps in JAX: losses, metrics, weights, and the way back."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_training import LossError, Training, TrainingSession, open_training, to_training, train

Batches = list[Any]


def batches(shape: tuple[int, ...], classes: int, count: int, size: int = 16) -> Batches:
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=(size, *shape)).astype(np.float32), rng.integers(0, classes, size).astype(np.int32))
        for _ in range(count)
    ]


def cross_entropy(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss, {"accuracy": (logits.argmax(-1) == labels).mean()}


# -- a perceptron as a plain pytree ------------------------------------------------------------


def perceptron() -> dict[str, Any]:
    keys = jax.random.split(jax.random.key(0), 2)
    return {
        "hidden": {"w": jax.random.normal(keys[0], (4, 32)) / 2, "b": jnp.zeros(32)},
        "out": {"w": jax.random.normal(keys[1], (32, 3)) / 6, "b": jnp.zeros(3)},
    }


def logits_of(params: Any, x: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(x @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["out"]["w"] + params["out"]["b"]


def perceptron_loss(params: Any, x: jax.Array, labels: jax.Array) -> Any:
    return cross_entropy(logits_of(params, x), labels)


BATCH = [("batch", 4), (("batch",), "int32")]


@pytest.fixture(scope="module")
def training() -> Training:
    return to_training(perceptron(), perceptron_loss, optax.adamw(1e-2), BATCH, infer=logits_of, loop=True)


def steps_in_jax(
    params: Any, loss: Callable[..., Any], optimizer: Any, given: Batches
) -> Iterator[tuple[Any, Any, Any]]:
    """The loss, the parameters and the state of the optimizer after each step."""
    state = optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any, *batch: jax.Array) -> Any:
        result, gradients = jax.value_and_grad(lambda *args: loss(*args)[0])(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return result, optax.apply_updates(params, updates), state

    for batch in given:
        result, params, state = step(params, state, *batch)
        yield result, params, state


def assert_trees_equal(one: Any, other: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def test_steps_equal_those_of_jax(training):
    session, given = training.session(), batches((4,), 3, 50)
    expected = list(steps_in_jax(perceptron(), perceptron_loss, optax.adamw(1e-2), given))
    losses = [session.step(*batch)["loss"] for batch in given]
    np.testing.assert_allclose(losses, [loss for loss, _, _ in expected], rtol=1e-5)
    _, params, state = expected[-1]
    assert_trees_equal(training.weights(session), params)
    assert_trees_equal(training.optimizer_state(session), state)
    assert session.steps == 50


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="nothing is done about denormal numbers here"
)
def test_moments_without_a_gradient_become_zeros_as_in_jax(training):
    session = training.session()
    bias, moment = (next(n for n in session.state if n.endswith(f"{part}hidden.b")) for part in ("parameters.", "mu."))
    session.state[bias] = np.full(32, -1e6, np.float32)
    session.state[moment] = np.full(32, 1e-39, np.float32)
    session.step(*batches((4,), 3, 1)[0])
    assert (session.state[moment] == 0).all()


ASKING = {
    "value in a chain": lambda: optax.chain(optax.adam(1e-2), optax.contrib.reduce_on_plateau(factor=0.5, patience=1)),
    "value in several steps": lambda: optax.MultiSteps(
        optax.chain(optax.adam(1e-2), optax.contrib.reduce_on_plateau(factor=0.5, patience=1)), 2
    ),
    "nothing, and lets none pass": lambda: optax.GradientTransformation(
        optax.sgd(1e-2).init, jax.jit(optax.sgd(1e-2).update)
    ),
    "value_fn": lambda: optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(5)),
    "obj_fn": lambda: optax.GradientTransformationExtraArgs(
        lambda _: optax.EmptyState(),
        lambda updates, state, params, obj_fn, **_: (jax.tree.map(lambda x: x * -obj_fn(params), updates), state),
    ),
    "grad_fn": lambda: optax.contrib.sam(
        optax.sgd(1e-2), optax.chain(optax.contrib.normalize(), optax.sgd(0.05)), opaque_mode=True
    ),
    "nothing": lambda: optax.contrib.sam(optax.sgd(1e-2), optax.chain(optax.contrib.normalize(), optax.sgd(0.05))),
}


@pytest.mark.parametrize("asked", ASKING)
def test_optimizers_get_what_they_ask_for(asked):
    optimizer, given = ASKING[asked](), batches((4,), 3, 5)
    session = to_training(perceptron(), perceptron_loss, optimizer, BATCH).session()
    params, state = perceptron(), optimizer.init(perceptron())
    for batch in given:

        def loss_of(params: Any, batch: Any = batch) -> Any:
            return perceptron_loss(params, *batch)[0]

        value, gradients = jax.value_and_grad(loss_of)(params)
        more = {"value": value, "grad": gradients, "value_fn": loss_of}
        one: dict[str, Any] = {
            "obj_fn": {"obj_fn": loss_of}, "grad_fn": {"grad_fn": lambda params, _: jax.grad(loss_of)(params)}, "nothing": {},
            "nothing, and lets none pass": {},
        }  # fmt: skip
        updates, state = optimizer.update(gradients, state, params, **one.get(asked, more))
        params = optax.apply_updates(params, updates)
        np.testing.assert_allclose(session.step(*batch)["loss"], value, rtol=1e-5)


def test_a_step_gives_the_loss_and_the_metrics(training):
    assert training.session().step(*batches((4,), 3, 1)[0]).keys() == {"loss", "accuracy"}


def test_a_step_of_one_example(training):
    session = training.session()
    (batch,) = batches((4,), 3, 1, 1)
    np.testing.assert_allclose(session.step(*batch)["loss"], perceptron_loss(perceptron(), *batch)[0], rtol=1e-5)


def test_evaluation_and_inference_read_the_weights_of_the_step(training):
    session, (batch, *_) = training.session(), batches((4,), 3, 1)
    session.step(*batch)
    weights, before = training.weights(session), dict(session.state)
    loss, metrics = perceptron_loss(weights, *batch)
    found = session.evaluate(*batch)
    np.testing.assert_allclose([found["loss"], found["accuracy"]], [loss, metrics["accuracy"]], rtol=1e-5)
    np.testing.assert_allclose(session.infer(batch[0]), logits_of(weights, batch[0]), rtol=1e-4, atol=1e-5)
    assert all(np.array_equal(before[name], session.state[name]) for name in before)


def test_the_inference_with_the_weights_in_it(training):
    session, (batch, *_) = training.session(), batches((4,), 3, 1)
    session.step(*batch)
    program = training.inference(session)
    assert program.input_names == ["x"]
    np.testing.assert_allclose(program(batch[0]), session.infer(batch[0]), rtol=1e-5, atol=1e-6)


def test_a_killed_training_goes_on_with_the_same_numbers(training, tmp_path):
    given = batches((4,), 3, 6)
    whole = training.session()
    expected = [whole.step(*batch)["loss"] for batch in given]
    first = training.session()
    for batch in given[:3]:
        first.step(*batch)
    first.save(tmp_path / "checkpoint.npz")
    training.save(tmp_path / "training")
    second = open_training(tmp_path / "training")
    second.load(tmp_path / "checkpoint.npz")
    assert second.steps == 3
    assert [second.step(*batch)["loss"] for batch in given[3:]] == expected[3:]
    assert_trees_equal(training.weights(tmp_path / "checkpoint.npz"), training.weights(first), 0, 0)


def test_a_training_in_a_folder_begins_with_the_weights_of_the_model(training, tmp_path):
    (batch,) = batches((4,), 3, 1)
    session = open_training(training.save(tmp_path / "training"))
    np.testing.assert_allclose(session.step(*batch)["loss"], perceptron_loss(perceptron(), *batch)[0], rtol=1e-5)


def test_a_loss_that_is_not_finite_leaves_the_states_as_they_were(training):
    session, (batch, *_) = training.session(), batches((4,), 3, 1)
    session.step(*batch)
    before = dict(session.state)
    with pytest.raises(LossError, match=r"The loss of step 2 is nan\. The states are those of before this step"):
        session.step(batch[0] * np.nan, batch[1])
    assert all(np.array_equal(before[name], session.state[name]) for name in before)
    assert np.isfinite(session.step(*batch)["loss"])


def test_weights_that_are_not_finite_already_are_named(training):
    session, (batch, *_) = training.session(), batches((4,), 3, 1)
    session.state["parameters.hidden.b"] = np.full(32, np.inf, np.float32)
    with pytest.raises(LossError, match=r"parameters\.hidden\.b is not finite since the step before"):
        session.step(*batch)


def test_only_infinite_weights_are_named_in_double_precision():
    with jax.enable_x64(True):
        wide = to_training(
            jnp.full((4, 3), 1e200), lambda params, x: (x @ params).mean(), optax.sgd(0.1), [(("batch", 4), "float64")]
        )
        with pytest.raises(LossError, match=r"The states are those of before this step"):
            wide.session().step(np.full((2, 4), np.inf))


def test_frozen_parts_stay(training):
    frozen = to_training(
        perceptron(), perceptron_loss, optax.sgd(0.1), BATCH, trained={"hidden": False, "out": True}, infer=logits_of
    )
    session = frozen.session()
    assert [name for name in session.state if name.startswith("parameters")] == ["parameters.out.b", "parameters.out.w"]
    session.step(*batches((4,), 3, 1)[0])
    weights, first = frozen.weights(session), perceptron()
    assert_trees_equal(weights["hidden"], first["hidden"], 0, 0)
    assert not np.allclose(weights["out"]["w"], first["out"]["w"])


# -- several steps in one call, and several sessions ----------------------------------------------


def test_a_loop_is_the_same_as_its_steps_one_by_one(training, tmp_path):
    given = batches((4,), 3, 8)
    one, whole = training.session(), open_training(training.save(tmp_path / "training"))
    expected = [one.step(*batch) for batch in given]
    for part in (given[:1], given[1:]):
        result = whole.loop(*map(np.stack, zip(*part, strict=True)))
        wanted, expected = expected[: len(part)], expected[len(part) :]
        for name, found in result.items():
            np.testing.assert_allclose(found, [step[name] for step in wanted], rtol=1e-5)
    assert whole.steps == 8
    assert_trees_equal(training.weights(whole.state), training.weights(one), 1e-5, 1e-6)


def test_a_loop_with_a_loss_that_is_not_finite_leaves_the_states_as_they_were(training):
    session, given = training.session(), batches((4,), 3, 4)
    session.step(*given[0])
    before, (x, labels) = dict(session.state), map(np.stack, zip(*given, strict=True))
    x[2] = np.inf
    with pytest.raises(LossError, match=r"The loss of step 4 is nan\. The states are those of before the loop"):
        session.loop(x, labels)
    assert all(np.array_equal(before[name], session.state[name]) for name in before)


def test_federated_averaging_of_two_sessions(training):
    given = batches((4,), 3, 4)
    sessions, weights = [training.session(), training.session()], [perceptron(), perceptron()]
    for session, own in zip(sessions, (given[:2], given[2:]), strict=True):
        for batch in own:
            session.step(*batch)
    for name in [name for name in sessions[0].state if name.startswith("parameters.")]:
        mean = np.mean([session.state[name] for session in sessions], axis=0)
        for session in sessions:
            session.state[name] = mean
    weights = [
        [*steps_in_jax(perceptron(), perceptron_loss, optax.adamw(1e-2), own)][-1][1] for own in (given[:2], given[2:])
    ]
    expected = jax.tree.map(lambda *xs: sum(xs) / 2, *weights)
    for session in sessions:
        assert_trees_equal(training.weights(session), expected)
    np.testing.assert_allclose(sessions[0].infer(given[0][0]), logits_of(expected, given[0][0]), rtol=1e-4, atol=1e-5)


def test_the_names_of_weights_and_of_steps_are_free_for_arguments_and_symbols():
    def loss(params: Any, x: jax.Array, weights: jax.Array) -> jax.Array:
        return (logits_of(params, x).mean(1) * weights).mean()

    weighted = to_training(
        perceptron(),
        loss,
        optax.sgd(0.1),
        [("steps", 4), ("steps",)],
        infer=logits_of,
        inputs=[("steps", 4)],
        loop=True,
    )
    session, x = weighted.session(), np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    weights = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(session.loop(x, weights)["loss"][0], loss(perceptron(), x[0], weights[0]), rtol=1e-5)
    np.testing.assert_allclose(weighted.inference(session)(x[0]), session.infer(x[0]), rtol=1e-5, atol=1e-6)


# -- precision -------------------------------------------------------------------------------------


def test_a_scaled_loss_in_half_precision_equals_that_of_jax():
    scale = 2.0**14

    def loss(params: Any, x: jax.Array, labels: jax.Array) -> Any:
        half = jax.tree.map(lambda array: array.astype(jnp.float16), params)
        value, _ = cross_entropy(logits_of(half, x.astype(jnp.float16)).astype(jnp.float32), labels)
        return value + (scale - 1) * (value - jax.lax.stop_gradient(value)), {}

    optimizer = optax.apply_if_finite(optax.chain(optax.scale(1 / scale), optax.adam(1e-2)), 3)
    half = to_training(perceptron(), loss, optimizer, BATCH)
    session, given = half.session(), batches((4,), 3, 10)
    expected = [*steps_in_jax(perceptron(), loss, optimizer, given)]
    found = [session.step(*batch)["loss"] for batch in given]
    np.testing.assert_allclose(found, [value for value, _, _ in expected], rtol=1e-3)
    assert_trees_equal(half.weights(session), expected[-1][1], 0.02, 2e-3)
    assert half.optimizer_state(session).total_notfinite == 0


class Adapted(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.LoRALinear(64, 96, lora_rank=4, rngs=rngs)
        self.down = nnx.LoRALinear(96, 3, lora_rank=4, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down(nnx.relu(self.up(x)))


@pytest.fixture(scope="module")
def adapted() -> Training:
    batch = [("batch", 64), (("batch",), "int32")]
    return to_training(Adapted(nnx.Rngs(0)), classifier_loss, optax.adam(1e-2), batch, trained=nnx.LoRAParam)


@pytest.mark.parametrize(("mode", "tolerance"), [("int8", 0.03), ("int4", 0.15)])
def test_an_adapter_is_trained_over_a_frozen_base_in_few_bits(adapted, mode, tolerance):
    bundle = adapted.bundle.quantize(mode)
    whole, small, given = adapted.session(), TrainingSession(bundle), batches((64,), 3, 1, 32) * 40
    expected, found = ([session.step(*batch)["loss"] for batch in given] for session in (whole, small))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    assert found[-1] < found[0] / 2
    assert "MatMulNBits" in [node.op_type for node in bundle["step"].model.graph]
    assert {"frozen.up.kernel", "frozen.down.kernel"} <= adapted.step.model.graph.initializers.keys()


# -- a convolutional network of NNX --------------------------------------------------------------


class Convolutional(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(1, 4, (3, 3), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.25, rngs=rngs)
        self.out = nnx.Linear(4 * 16, 5, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.norm(self.conv(images))), (2, 2), (2, 2))
        return self.out(self.dropout(x.reshape(x.shape[0], -1)))


def classifier_loss(model: Any, images: jax.Array, labels: jax.Array) -> Any:
    return cross_entropy(model(images), labels)


IMAGES = [("batch", 8, 8, 1), (("batch",), "int32")]


@pytest.fixture(scope="module")
def convolutional() -> tuple[Convolutional, Any, Training]:
    """A model, its state before the export of its training, and that."""
    model = Convolutional(nnx.Rngs(0))
    before = nnx.as_pure(nnx.state(model))
    return model, before, to_training(model, classifier_loss, optax.adam(1e-2), IMAGES)


@pytest.fixture(scope="module")
def of_images(convolutional: tuple[Convolutional, Any, Training]) -> Training:
    return convolutional[2]


def test_batch_norm_and_dropout_equal_those_of_nnx(of_images):
    session, given = of_images.session(), batches((8, 8, 1), 5, 50)
    model = Convolutional(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, *batch: jax.Array) -> Any:
        (loss, _), gradients = nnx.value_and_grad(classifier_loss, has_aux=True)(model, *batch)
        optimizer.update(model, gradients)
        return loss

    expected = [step(model, optimizer, *batch) for batch in given]
    np.testing.assert_allclose([session.step(*batch)["loss"] for batch in given], expected, rtol=1e-4)
    trained = nnx.clone(model)
    nnx.update(trained, of_images.weights(session))
    assert_trees_equal(nnx.as_pure(nnx.state(trained, nnx.BatchStat)), nnx.as_pure(nnx.state(model, nnx.BatchStat)))
    assert int(trained.dropout.rngs.count[...]) == int(model.dropout.rngs.count[...])
    trained.eval()
    np.testing.assert_allclose(session.infer(given[0][0]), trained(given[0][0]), rtol=1e-4, atol=1e-4)
    program = of_images.inference(session)
    np.testing.assert_allclose(program(given[0][0]), trained(given[0][0]), rtol=1e-4, atol=1e-4)


def test_a_model_is_not_changed_by_the_export_of_its_training(convolutional):
    model, before, _ = convolutional
    assert jax.tree.all(jax.tree.map(lambda a, b: a is b, before, nnx.as_pure(nnx.state(model))))


# -- what is wrong -------------------------------------------------------------------------------


def wrong(loss: Callable[..., Any], **options: Any) -> None:
    to_training(perceptron(), loss, options.pop("optimizer", optax.sgd(0.1)), BATCH, **options)


def test_a_loss_that_is_no_scalar():
    with pytest.raises(OptionError, match=r"The loss is float32\[.*\], but a gradient is that of one number"):
        wrong(lambda params, x, labels: logits_of(params, x))


def test_parameters_that_do_not_move():
    with pytest.raises(OptionError, match=r"The loss does not depend on out\.b, out\.w, which no step would move"):
        wrong(lambda params, x, labels: (x @ params["hidden"]["w"] + params["hidden"]["b"]).mean())


@pytest.mark.parametrize("rate", [0.25, np.float32(0.25), np.array(0.25, np.float32), jnp.float32(0.25)], ids=type)
def test_an_optimizer_begins_with_the_number_that_is_set_in_its_state(rate):
    optimizer = optax.inject_hyperparams(optax.sgd)(learning_rate=0.01)
    state = optimizer.init({"w": jnp.zeros(4)})
    state.hyperparams["learning_rate"] = rate
    training = to_training(
        {"w": jnp.ones(4)}, lambda p, x: (p["w"] * x).sum(), optimizer, [(4,)], optimizer_state=state
    )
    session = training.session()
    session.step(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(training.weights(session)["w"], [1, 0.75, 0.5, 0.25])


@pytest.mark.parametrize(
    ("scale", "is_trained"), [(np.float32(3), True), (jnp.float32(3), True), (3.0, False), (np.int32(3), False)]
)
def test_arrays_of_floating_point_are_trained_scalars_among_them(scale, is_trained):
    training = to_training(
        {"w": jnp.ones(2), "scale": scale}, lambda p, x: (p["w"] * x * p["scale"]).sum(), optax.sgd(0.5), [(2,)]
    )
    session = training.session()
    session.step(np.ones(2, np.float32))
    assert training.weights(session)["scale"] == (2 if is_trained else 3)


def test_an_optimizer_state_of_another_model():
    other = optax.adam(0.1).init({"w": jnp.zeros(3)})
    with pytest.raises(OptionError, match="optimizer_state is that of another optimizer, or of another model"):
        wrong(perceptron_loss, optimizer=optax.adam(0.1), optimizer_state=other)
    first = perceptron()
    first["out"]["b"] = jnp.zeros(4)
    with pytest.raises(OptionError, match=r"its 0\.mu\.out\.b is float32\[4\], but optimizer.init makes float32\[3\]"):
        wrong(perceptron_loss, optimizer=optax.adam(0.1), optimizer_state=optax.adam(0.1).init(first))


@pytest.mark.parametrize("metrics", [lambda x: x, lambda x: {"loss": x.sum()}, lambda x: {"new_parameters": x.sum()}])
def test_metrics_that_are_none(metrics):
    with pytest.raises(OptionError, match="for metrics; they are a dict of arrays, with other keys than 'loss' and"):
        wrong(lambda params, x, labels: (perceptron_loss(params, x, labels)[0], metrics(x)))


def test_an_argument_with_the_name_of_a_state():
    with pytest.raises(
        OptionError, match="An argument is called steps, as a state of the training is: give it another"
    ):
        wrong(lambda params, x, steps: perceptron_loss(params, x, steps))


def test_no_optimizer():
    with pytest.raises(OptionError, match=r"optimizer is a transformation of optax, such as optax\.adam"):
        wrong(perceptron_loss, optimizer=0.1)


def test_nothing_to_train():
    with pytest.raises(OptionError, match="There is nothing to train: dict has no parameters"):
        to_training({"n": jnp.zeros(3, int)}, perceptron_loss, optax.sgd(0.1), BATCH)


def test_a_program_that_the_training_does_not_have(tmp_path):
    training = to_training(perceptron(), perceptron_loss, optax.sgd(0.1), BATCH)
    with pytest.raises(OptionError, match=r"This training has no 'infer': export it with to_training\(…, infer=…\)"):
        training.session().infer(np.zeros((1, 4), np.float32))
    with pytest.raises(OptionError, match=r"no 'loop': export it with to_training\(…, loop=True\)"):
        training.session().loop(np.zeros((2, 1, 4), np.float32), np.zeros((2, 1), np.int32))
    with pytest.raises(OptionError, match="There is no program 'infer' that reads the weights"):
        training.inference(training.session())


def test_a_checkpoint_of_another_training(training, of_images, tmp_path):
    of_images.session().save(tmp_path / "checkpoint.npz")
    with pytest.raises(RuntimeInputError, match=r"checkpoint.npz holds the states"):
        training.session().load(tmp_path / "checkpoint.npz")
    with pytest.raises(OptionError, match=r"There is no state 'parameters\.hidden\.b'"):
        training.weights(Path(tmp_path / "checkpoint.npz"))


# -- epochs, and the report ----------------------------------------------------------------------


def test_the_report_says_what_is_trained_and_what_stays(training):
    text = training.report()
    assert "trained: 4 arrays of 259 numbers (parameters.hidden.b, parameters.hidden.w, parameters.out.b, …)" in text
    assert "state of the optimizer: 9 arrays" in text
    assert "other states: 1 arrays of 1 numbers (steps)" in text
    assert "frozen: nothing" in text
    frozen = to_training(perceptron(), perceptron_loss, optax.sgd(0.1), BATCH, trained={"hidden": False, "out": True})
    assert "frozen: 2 arrays of 160 numbers (frozen.hidden." in frozen.report()


@pytest.fixture(scope="module")
def examples() -> dict[str, np.ndarray]:
    x = np.random.default_rng(3).normal(size=(40, 4)).astype(np.float32)
    return {"x": x, "labels": x[:, :3].argmax(1).astype(np.int32)}


def test_epochs_go_on_from_a_checkpoint_with_the_same_numbers(training, examples, tmp_path):
    whole = [*train(training.session(), examples, batch_size=16, epochs=3)]
    assert [epoch.number for epoch in whole] == [1, 2, 3]
    assert whole[0].means.keys() == {"loss", "accuracy"}
    file = tmp_path / "states.npz"
    first = [*train(training.session(), examples, batch_size=16, epochs=1, checkpoint=file)]
    session = training.session()
    session.load(file)
    session.step_on({name: array[:16] for name, array in examples.items()})  # killed within an epoch
    rest = [*train(training.session(), examples, batch_size=16, epochs=3, checkpoint=file)]
    assert [*first, *rest] == whole


def test_an_epoch_that_was_begun_ends(training, examples):
    session = training.session()
    order = np.random.default_rng((0, 0)).permutation(40)[:16]
    first = session.step_on({name: array[order] for name, array in examples.items()})["loss"]
    (epoch,) = train(session, examples, batch_size=16, epochs=1)
    (whole,) = train(training.session(), examples, batch_size=16, epochs=1)
    assert [float(first), *epoch.losses] == whole.losses


def test_metrics_that_are_no_number_have_no_mean():
    def loss(params: Any, x: jax.Array) -> Any:
        y = x @ params
        return (y**2).mean(), {
            "rows": y.sum(1),
            "all": {"sum": y.sum()},
            "half": y.mean().astype(jnp.bfloat16),
            "is": y.sum() > 0,
        }

    several = to_training(jnp.ones((4, 3)), loss, optax.sgd(0.1), [(2, 4)])
    (epoch,) = train(several.session(), {"x": np.ones((4, 4), np.float32)}, batch_size=2, epochs=1)
    assert epoch.means.keys() == {"loss", "half", "is"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given: {"x": given["x"]}, "A step takes x, labels, but there are arrays for x"),
        (lambda given: {**given, "x": given["x"][:5]}, "different numbers of rows: x has 5, labels has 40"),
        (lambda given: {**given, "x": np.float32(1)}, "different numbers of rows: x has 0, labels has 40"),
        (lambda given: {name: array[:3] for name, array in given.items()}, "There are 3 examples, fewer than a batch of 16"),
    ],
)  # fmt: skip
def test_examples_that_are_no_batches(training, examples, change, message):
    with pytest.raises(OptionError, match=message):
        next(train(training.session(), change(examples), batch_size=16, epochs=1))


# -- 64 bits -----------------------------------------------------------------------------------


def test_weights_of_64_bits_stay_so_where_only_the_export_enables_them():
    first = np.array([1 + 1e-12, 2, 3])
    found = to_training(
        {"w": first}, lambda model, x: ((model["w"] * x) ** 2).sum(), optax.sgd(0.5), [((3,), "float64")],
        infer=lambda model, x: model["w"] * x, inputs=[((3,), "float64")], x64=True,
    )  # fmt: skip
    session = found.session()
    np.testing.assert_array_equal(session.state["parameters.w"], first)
    session.step(np.array([0.1, 0.2, 0.3]))
    wanted = first - 0.5 * 2 * first * np.array([0.1, 0.2, 0.3]) ** 2
    np.testing.assert_allclose(found.weights(session)["w"], wanted, rtol=1e-14)
    np.testing.assert_allclose(found.inference(session)(np.ones(3)), wanted, rtol=1e-14)
