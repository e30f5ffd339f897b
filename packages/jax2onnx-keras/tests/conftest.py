"""Keras chooses its backend when it is imported, which the tests do."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")
