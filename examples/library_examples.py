"""The models of `library_models.py` with variables and arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import examples.library_models as models
from examples.ten_models import Model

__all__ = ["MODELS", "bound", "normal", "tokens", "trained"]

_random = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return _random.standard_normal(shape).astype(np.float32)


def tokens(limit: int, *shape: int) -> np.ndarray:
    return _random.integers(0, limit, shape).astype(np.int32)


def trained(model: Any, *arguments: Any) -> Any:
    """Variables that are not those of initialisation: positive scales and variances, random kernels."""

    def value(like: Any) -> np.ndarray:
        return 0.3 * normal(*like.shape) if len(like.shape) > 1 else 0.5 + _random.random(like.shape, np.float32)

    return jax.tree.map(value, jax.eval_shape(model.init, jax.random.key(0), *arguments))


IMAGES, TOKENS = normal(2, 32, 32, 3), (("B", "T"), np.int32)
CACHE = ("B", 12, 2, 8)

MODELS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "resnet": (models.ResNet(), [("B", "8*H", "8*W", 3)], [IMAGES]),
    "vit": (models.ViT(), [("B", 32, 32, 3)], [IMAGES]),
    "unet": (models.UNet(), [("B", 16, 16, 3), ("B",)], [normal(2, 16, 16, 3), normal(2)]),
    "llama": (
        models.Llama(),
        [TOKENS, CACHE, CACHE, ((), np.int32)],
        [tokens(50, 2, 3), normal(2, 12, 2, 8), normal(2, 12, 2, 8), np.array(4, np.int32)],
    ),
    "state_space": (models.StateSpace(), [("B", 16, 8)], [normal(2, 16, 8)]),
    "mixture_of_experts": (models.MixtureOfExperts(), [("N", 8)], [normal(9, 8)]),
    "seq2seq": (models.Seq2Seq(), [(("B", "S"), np.int32), TOKENS], [tokens(20, 2, 7), tokens(20, 2, 5)]),
    "translator": (
        models.Translator(),
        [(("B", "S"), np.int32), TOKENS],
        [tokens(20, 2, 7), 1 + tokens(19, 2, 5)],
    ),
    "fourier_operator": (models.FourierOperator(), [("B", 32, 2)], [normal(2, 32, 2)]),
}


def bound(name: str) -> Model:
    """A model with its variables as weights."""
    model, specs, arguments = MODELS[name]
    fn: Callable[..., Any] = functools.partial(model.apply, trained(model, *arguments))
    return Model(fn, specs, arguments, ["T <= 12"] if name == "llama" else ())
