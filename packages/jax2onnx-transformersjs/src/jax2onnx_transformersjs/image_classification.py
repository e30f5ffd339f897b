"""Image classification: `pixel_values` [B, 3, H, W] → `logits` [B, classes], and how pixels become `pixel_values`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Literal

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim
from jax2onnx_graph.options import check_count
from jax2onnx_graph.rewrite.patterns import operation, source_of
from jax2onnx_runtime.boundary import Boundary
from jax2onnx_runtime.program import Program

from jax2onnx_transformersjs.task_model import (
    TaskModel,
    as_float32,
    check_roles,
    check_stateless,
    chosen,
    described,
    dims,
    is_of,
    rename_axes,
)

__all__ = ["Images", "image_classification"]

TASK = "image-classification"
PIXELS, LOGITS = "pixel_values", "logits"
_COLOURS = 3
# ITU-R BT.601: the luminance of red, green and blue.
_LUMINANCE = (0.299, 0.587, 0.114)
# The numbers by which preprocessor_config.json names the filters.
_FILTERS = {"nearest": 0, "bilinear": 2, "bicubic": 3}


@dataclasses.dataclass(frozen=True)
class Images:
    """Preprocessing of images by transformers.js, whose pixels are numbers from 0 to 255.

    A pixel becomes `(pixel * rescale - mean) / std`.

    Attributes:
      size: height and width of the model's images; by default those of its input.
      layout: the order of the axes of the model's input, by default the one of the two in which the channels are 1 or 3.
      rescale: the factor of each pixel; 1 for a model that takes numbers from 0 to 255.
      mean: what is subtracted after that, for each channel; None for nothing.
      std: what it is divided by, for each channel; None for nothing.
      shortest_edge: the shorter edge that an image gets before `size` is cut out of its centre; None to stretch images to `size`.
      resample: the filter by which images are resized.

    Raises:
      OptionError: a number is impossible, or there are not as many means as channels.
    """

    size: tuple[int, int] | None = None
    layout: Literal["NHWC", "NCHW"] | None = None
    rescale: float = 1 / 255
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    shortest_edge: int | None = None
    resample: Literal["nearest", "bilinear", "bicubic"] = "bilinear"

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or not all(isinstance(n, int) and n > 0 for n in self.size)):
            raise OptionError(f"images: size is a height and a width, (224, 224), not {self.size!r}.")
        if self.layout not in (None, "NHWC", "NCHW"):
            raise OptionError(f"images: layout is 'NHWC' or 'NCHW', not {self.layout!r}.")
        if self.resample not in _FILTERS:
            raise OptionError(f"images: resample is {', '.join(map(repr, _FILTERS))}, not {self.resample!r}.")
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if isinstance(numbers, (Real, str)):
                raise OptionError(
                    f"images: {name} is a list of numbers, one for each channel or one for all, not {numbers!r}."
                )
            if numbers is not None and len(numbers) not in (1, _COLOURS):
                raise OptionError(f"images: {name} has a number for each channel, 1 or 3 of them, not {len(numbers)}.")
            if numbers is not None and not all(isinstance(x, Real) and math.isfinite(x) for x in numbers):
                raise OptionError(f"images: {name} has finite numbers, not {[*numbers]}.")
        if self.std is not None and not all(number > 0 for number in self.std):
            raise OptionError(f"images: the numbers of std are greater than 0, not {[*self.std]}.")
        if not isinstance(self.rescale, Real) or not 0 < self.rescale < math.inf:
            raise OptionError(f"images: rescale is greater than 0, and finite, not {self.rescale!r}.")
        check_count("images: shortest_edge", self.shortest_edge, least=1)


@dataclasses.dataclass(frozen=True)
class _ImageInput:
    """The input of a model that takes images, with the dimensions by their meaning."""

    value: ir.Value
    layout: str
    batch: LabelledDim
    channels: int
    height: int
    width: int


def image_classification(
    program: Program, labels: Sequence[str] | None, images: Images, roles: Mapping[str, str]
) -> TaskModel:
    """The model with the input `pixel_values` and the output `logits`, and the files that say how to use it.

    Args:
      program: the program: images, with their channels first or last, → a number for each class. If the numbers are
        probabilities, results of a softmax, the logits are what this was computed of.
      labels: the names of the classes, in order; None for `LABEL_0` and so on.
      images: how the model takes images.
      roles: "images" or "logits" → the name of the input or output, where the types do not tell.

    Raises:
      OptionError: the model is none that classifies images, or labels are missing.
    """
    check_stateless(program.model, TASK)
    check_roles(roles, ("images", "logits"), TASK)
    boundary = Boundary(program.model, program.target)
    taken = _image_input(boundary, roles, images)
    outputs = boundary.old_outputs
    candidates = [value for value in outputs.values() if is_of(value, 2, floats=True)]
    result = chosen("output", "logits", roles, outputs, candidates, "floats [batch, classes]")
    if len(boundary.old_inputs) > 1:
        raise OptionError(
            f"{TASK} gives a model images alone, and this one has the inputs {described(boundary.old_inputs.values())}. Export a "
            "function of images, in which the others are fixed."
        )
    classes = dims(result)[1]
    if not isinstance(classes, int):
        raise OptionError(f"The number of classes is not known: the output {result.name!r} is {type_text(result)}.")
    names = _checked_labels(labels, classes)
    batch = rename_axes(boundary, {"batch_size": taken.batch})["batch_size"]
    pixels = boundary.new_input(PIXELS, np.dtype(np.float32), (batch, _COLOURS, taken.height, taken.width))
    boundary.replace_input(taken.value.name or "", _as_model_takes(boundary.front(), pixels, taken))
    boundary.new_output(LOGITS, _logits(boundary, result))
    config = {
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "num_channels": _COLOURS,
        "image_size": [taken.height, taken.width] if taken.height != taken.width else taken.height,
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }  # fmt: skip
    return TaskModel(boundary.finish(), config, {"preprocessor_config.json": _preparation(images, taken)})


# -- the input ----------------------------------------------------------------------------------


def _image_input(boundary: Boundary, roles: Mapping[str, str], images: Images) -> _ImageInput:
    inputs = boundary.old_inputs
    candidates = [value for value in inputs.values() if is_of(value, 4, floats=True)]
    value = chosen("input", "images", roles, inputs, candidates, "floats [batch, height, width, channels]")
    batch, *rest = dims(value)
    fitting = {"NHWC": rest[-1], "NCHW": rest[0]}
    layouts = [
        layout for layout, channels in fitting.items() if isinstance(channels, int) and channels in (1, _COLOURS)
    ]
    layout = images.layout or (layouts[0] if len(layouts) == 1 else None)
    if layout is None:
        raise OptionError(
            f"The channels of the input {value.name!r}, {type_text(value)}, are {'not known' if layouts else 'neither 1 nor 3'}: "
            "say images=Images(layout='NHWC') or 'NCHW' if they are last or first."
        )
    if layout not in layouts:
        raise OptionError(f"images: the input {value.name!r}, {type_text(value)}, has no 1 or 3 channels in {layout}.")
    height, width = _size(images, value, rest[:2] if layout == "NHWC" else rest[1:])
    return _ImageInput(value, layout, batch, int(fitting[layout]), height, width)  # type: ignore[arg-type]


def _size(images: Images, value: ir.Value, dims: Sequence[LabelledDim]) -> tuple[int, int]:
    """Height and width of the images."""
    known = [dim if isinstance(dim, int) else None for dim in dims]
    size = [number for number in images.size or known if number is not None]
    if len(size) < 2:
        raise OptionError(
            f"The size of the images is not known from {type_text(value)}: say images=Images(size=(H, W))."
        )
    if any(dim not in (None, number) for dim, number in zip(known, size, strict=True)):
        raise OptionError(f"images: size is {tuple(size)}, and the input {value.name!r} is {type_text(value)}.")
    height, width = size
    if images.shortest_edge is not None and images.shortest_edge < max(height, width):
        raise OptionError(
            f"images: of an image with the shorter edge {images.shortest_edge}, no centre of {height} x {width} pixels can be cut out."
        )
    return height, width


def _as_model_takes(builder: GraphBuilder, pixels: ir.Value, taken: _ImageInput) -> ir.Value:
    """The pixels [B, 3, H, W] in the layout, with the channels and of the type that the model takes."""
    if taken.channels == 1:
        weights = builder.constant(np.array(_LUMINANCE, np.float32).reshape(1, _COLOURS, 1, 1))
        pixels = builder.op.ReduceSum(builder.op.Mul(pixels, weights), builder.ints([1]), keepdims=1)
    if taken.layout == "NHWC":
        pixels = builder.transpose(pixels, (0, 2, 3, 1))
    return builder.cast(pixels, taken.value.dtype.numpy())  # type: ignore[union-attr]


# -- the output ---------------------------------------------------------------------------------


def _logits(boundary: Boundary, result: ir.Value) -> ir.Value:
    """The output as float32; what a softmax at its end was computed of, since transformers.js computes one itself."""
    node = operation(source_of(result, "Cast", "Identity"), "Softmax")
    if node is not None and node.inputs[0] is not None:
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
        result = node.inputs[0] if axis in (-1, 1) else result
    return as_float32(boundary, result)


# -- what the files say ---------------------------------------------------------------------------


def _checked_labels(labels: Sequence[str] | None, classes: int) -> Sequence[str]:
    if labels is None:
        return [f"LABEL_{number}" for number in range(classes)]
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise OptionError(f"labels is a list of the names of the classes, not {labels!r:.80}.")
    if len(labels) != classes:
        raise OptionError(f"labels has {len(labels)} names, and the model tells {classes} classes apart.")
    if twice := [label for label in labels if list(labels).count(label) > 1]:
        raise OptionError(f"labels has the name {twice[0]!r} twice.")
    return labels


def _preparation(images: Images, taken: _ImageInput) -> dict[str, object]:
    """The content of `preprocessor_config.json`."""
    size = {"height": taken.height, "width": taken.width}
    cropped = images.shortest_edge is not None
    found: dict[str, object] = {
        # transformers of Python cuts out the centre in the second of these alone.
        "image_processor_type": "CLIPImageProcessor" if cropped else "ViTImageProcessor",
        "do_resize": True, "size": {"shortest_edge": images.shortest_edge} if cropped else size,
        "resample": _FILTERS[images.resample], "do_convert_rgb": True, "do_rescale": images.rescale != 1,
        "rescale_factor": images.rescale, "do_normalize": images.mean is not None or images.std is not None,
        "image_mean": _for_colours(images.mean, 0.0), "image_std": _for_colours(images.std, 1.0),
    }  # fmt: skip
    return {**found, "do_center_crop": True, "crop_size": size} if cropped else found


def _for_colours(numbers: Sequence[float] | None, default: float) -> list[float]:
    """A number for each of the three channels."""
    given = [default] if numbers is None else [*map(float, numbers)]
    return given * _COLOURS if len(given) == 1 else given
