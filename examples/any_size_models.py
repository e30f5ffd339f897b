"""Convolutional networks for images of any height and width, odd ones too."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from examples.models import Double

__all__ = ["AnySizeResNet", "AnySizeUNet"]


class Residual(nnx.Module):
    """Two convolutions beside the identity, or beside a strided convolution of window 1."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, rngs: nnx.Rngs) -> None:
        around = ((1, 1), (1, 1))
        self.first = nnx.Conv(inputs, outputs, (3, 3), strides=stride, padding=around, use_bias=False, rngs=rngs)
        self.norm1 = nnx.BatchNorm(outputs, rngs=rngs)
        self.second = nnx.Conv(outputs, outputs, (3, 3), padding=around, use_bias=False, rngs=rngs)
        self.norm2 = nnx.BatchNorm(outputs, rngs=rngs)
        self.skip = (
            nnx.Conv(inputs, outputs, (1, 1), strides=stride, padding="VALID", rngs=rngs) if stride > 1 else None
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.norm2(self.second(nnx.relu(self.norm1(self.first(x)))))
        return nnx.relu(y + (x if self.skip is None else self.skip(x)))


class AnySizeResNet(nnx.Module):
    """[B, H, W, 3] → [B, classes]."""

    def __init__(self, *, widths: tuple[int, ...] = (8, 16, 32), classes: int = 10, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(3, widths[0], (7, 7), strides=2, padding=((3, 3), (3, 3)), rngs=rngs)
        self.first = Residual(widths[0], widths[0], 1, rngs=rngs)
        pairs = itertools.pairwise(widths)
        self.stages = nnx.List([Residual(i, o, 2, rngs=rngs) for i, o in pairs])
        self.head = nnx.Linear(widths[-1], classes, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.stem(x)), (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        x = self.first(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean(axis=(1, 2)))


class AnySizeUNet(nnx.Module):
    """[B, H, W, 3] → [B, H, W, 2]: halves are rounded up, and what was doubled is cropped to the size of the skip."""

    def __init__(self, *, width: int = 8, rngs: nnx.Rngs) -> None:
        self.down = nnx.List([Double(3, width, rngs=rngs), Double(width, 2 * width, rngs=rngs)])
        self.middle = Double(2 * width, 4 * width, rngs=rngs)
        self.ups = nnx.List([self.doubling(4 * width, rngs), self.doubling(2 * width, rngs)])
        self.merge = nnx.List([Double(4 * width, 2 * width, rngs=rngs), Double(2 * width, width, rngs=rngs)])
        self.out = nnx.Conv(width, 2, (1, 1), rngs=rngs)

    @staticmethod
    def doubling(inputs: int, rngs: nnx.Rngs) -> nnx.ConvTranspose:
        return nnx.ConvTranspose(inputs, inputs // 2, (2, 2), strides=(2, 2), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        skips: list[Any] = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = nnx.avg_pool(x, (2, 2), (2, 2), padding="SAME")
        x = self.middle(x)
        for up, merge in zip(self.ups, self.merge, strict=True):
            skip = skips.pop()
            _, height, width, _ = skip.shape
            x = merge(jnp.concatenate([up(x)[:, :height, :width], skip], axis=-1))
        return self.out(x)
