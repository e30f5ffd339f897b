"""Folders for transformers.js and Optimum: text generation, image classification, feature extraction with models from JAX."""

from jax2onnx_transformersjs.image_classification import Images
from jax2onnx_transformersjs.writing import Task, write

__all__ = ["Images", "Task", "write"]
__version__ = "0.1.0"
