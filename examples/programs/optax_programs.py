"""Programs with optax: a step of each optimiser, its losses and schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from examples.programs import numbers, program

LABELS = (("B",), np.int32)


def step_of(optimizer: optax.GradientTransformationExtraArgs | optax.GradientTransformation) -> Callable[..., Any]:
    """Two training steps of a linear model, whose parameters and state are values of the program."""
    start = {"w": numbers(4, 3), "b": np.zeros(3, np.float32)}

    def loss(parameters: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((x @ parameters["w"] + parameters["b"] - y) ** 2)

    def train(x: jax.Array, y: jax.Array) -> Any:
        parameters = jax.tree.map(jnp.asarray, start)
        state = optimizer.init(parameters)
        for _ in range(2):
            value, gradients = jax.value_and_grad(loss)(parameters, x, y)
            updates, state = optimizer.update(gradients, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
        return value, parameters

    return train


_BATCH = (("B", 4), ("B", 3))
OPTIMISERS = {
    "sgd": lambda: optax.sgd(0.1),
    "momentum": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: optax.adam(0.01),
    "adamw": lambda: optax.adamw(0.01, weight_decay=0.1),
    "amsgrad": lambda: optax.amsgrad(0.01),
    "adamax": lambda: optax.adamax(0.01),
    "nadam": lambda: optax.nadam(0.01),
    "radam": lambda: optax.radam(0.01),
    "adabelief": lambda: optax.adabelief(0.01),
    "adagrad": lambda: optax.adagrad(0.1),
    "adadelta": lambda: optax.adadelta(0.1),
    "adafactor": lambda: optax.adafactor(0.01),
    "rmsprop": lambda: optax.rmsprop(0.01, centered=True),
    "lamb": lambda: optax.lamb(0.01),
    "lars": lambda: optax.lars(0.01),
    "lion": lambda: optax.lion(0.01),
    "yogi": lambda: optax.yogi(0.01),
    "sm3": lambda: optax.sm3(0.01),
    "novograd": lambda: optax.novograd(0.01),
    "fromage": lambda: optax.fromage(0.01),
    "rprop": lambda: optax.rprop(0.01),
    "sign_sgd": lambda: optax.sign_sgd(0.01),
    "noisy_sgd": lambda: optax.noisy_sgd(0.01, key=jax.random.key(0)),
    "clipped_and_scheduled": lambda: optax.chain(
        optax.clip_by_global_norm(0.5),
        optax.scale_by_adam(),
        optax.scale_by_schedule(optax.cosine_decay_schedule(-0.1, 10)),
    ),
    "centralised_and_masked": lambda: optax.chain(
        optax.centralize(), optax.masked(optax.add_decayed_weights(0.1), {"w": True, "b": False}), optax.scale(-0.1)
    ),
    "several_transforms": lambda: optax.multi_transform(
        {"one": optax.adam(0.1), "other": optax.set_to_zero()}, {"w": "one", "b": "other"}
    ),
    "accumulated": lambda: optax.MultiSteps(optax.adam(0.1), 2),
    "looking_ahead_average": lambda: optax.chain(optax.sgd(0.1), optax.ema(0.9)),
    "without_what_is_not_finite": lambda: optax.apply_if_finite(optax.sgd(0.1), 3),
}


def _add(name: str, optimizer: Callable[[], Any]) -> None:
    def make() -> Callable[..., Any]:
        return step_of(optimizer())

    make.__name__ = name
    program(*_BATCH, rtol=1e-3)(make)


for _name, _optimizer in OPTIMISERS.items():
    _add(_name, _optimizer)


@program(("B", 10), LABELS)
def cross_entropies():
    def losses(logits: jax.Array, labels: jax.Array) -> Any:
        one_hot = optax.smooth_labels(jax.nn.one_hot(labels, 10), 0.1)
        own = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return own, optax.softmax_cross_entropy(logits, one_hot), optax.sigmoid_binary_cross_entropy(logits, one_hot)

    return losses


@program(("B", 4), ("B", 4))
def regression_losses():
    functions = (optax.l2_loss, optax.huber_loss, optax.log_cosh, optax.cosine_similarity, optax.squared_error)
    return lambda x, y: [f(x, y) for f in functions]


@program(("B", 10), LABELS)
def focal_and_hinge_losses():
    def losses(logits: jax.Array, labels: jax.Array) -> Any:
        signs = 2.0 * jax.nn.one_hot(labels, 10) - 1
        return optax.sigmoid_focal_loss(logits, (signs + 1) / 2), optax.hinge_loss(logits, signs)

    return losses


@program(("B", 4), ("B", 4))
def divergence_of_distributions():
    return lambda x, y: optax.kl_divergence(jax.nn.log_softmax(x), jax.nn.softmax(y))


@program((2, "T", 6), ((2, 3), np.int32), rtol=1e-3)
def connectionist_temporal_classification():
    def loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
        pads = jnp.zeros(logits.shape[:2], logits.dtype)
        return optax.ctc_loss(logits, pads, 1 + labels % 5, jnp.zeros(labels.shape, logits.dtype))

    return loss


@program(((), np.int32))
def schedules():
    made = [
        optax.constant_schedule(0.1), optax.exponential_decay(0.1, 10, 0.5), optax.polynomial_schedule(0.1, 0.01, 2, 20),
        optax.cosine_decay_schedule(0.1, 20), optax.warmup_cosine_decay_schedule(0.0, 0.1, 4, 20),
        optax.piecewise_constant_schedule(0.1, {5: 0.5, 8: 0.1}), optax.linear_onecycle_schedule(20, 0.1),
        optax.join_schedules([optax.linear_schedule(0.0, 0.1, 5), optax.constant_schedule(0.1)], [5]),
    ]  # fmt: skip
    return lambda step: [jnp.float32(schedule(step)) for schedule in made]


@program(("B", 4), ("B", 3))
def training_loop_by_a_scan():
    optimizer = optax.adam(0.05)

    def train(x: jax.Array, y: jax.Array) -> Any:
        def step(state: Any, _: None) -> Any:
            parameters, moments = state
            value, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(parameters)
            updates, moments = optimizer.update(gradient, moments, parameters)
            return (optax.apply_updates(parameters, updates), moments), value

        start = jnp.asarray(numbers(4, 3))
        (last, _), values = jax.lax.scan(step, (start, optimizer.init(start)), None, length=4)
        return last, values

    return train


@program(("B", 4))
def norms_and_projections():
    return lambda x: (
        optax.global_norm(x),
        optax.projections.projection_simplex(x[0]),
        optax.projections.projection_non_negative(x),
    )
