"""Models that classify images, in a folder for transformers.js."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from folder_programs import CLASSES, classifier, classify, interface, run
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import OptionError
from jax2onnx_transformersjs import Images, write

LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def pixels(batch=2, height=16, width=12):
    return np.random.default_rng(5).standard_normal((batch, 3, height, width)).astype(np.float32)


def written(folder, program=None, **options):
    write(program or classifier(), folder, "image-classification", **options)
    return folder


def logits(folder, given):
    return run(folder / "onnx" / "model.onnx", pixel_values=given)["logits"]


def entries(folder, name):
    return json.loads((folder / name).read_text())


def operators(folder):
    return [node.op_type for node in onnx.load(folder / "onnx" / "model.onnx").graph.node]


def test_the_model_takes_pixel_values_and_gives_logits(tmp_path):
    found = interface(written(tmp_path / "f") / "onnx" / "model.onnx")
    assert found == {
        "pixel_values": ("tensor(float)", ["batch_size", 3, 16, 12]),
        "logits": ("tensor(float)", ["batch_size", CLASSES]),
    }


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_logits_equal_jax(tmp_path, batch):
    given = pixels(batch)
    want = classify(jnp.asarray(given.transpose(0, 2, 3, 1)))
    np.testing.assert_allclose(logits(written(tmp_path / "f"), given), want, rtol=1e-5, atol=1e-5)


def test_channels_first_cost_no_transpose(tmp_path):
    assert "Transpose" not in operators(written(tmp_path / "f"))


def test_a_model_with_channels_first_takes_pixels_as_they_are(tmp_path):
    program = to_onnx(lambda x: x.mean((2, 3)) @ jnp.ones((3, 4)), [("B", 3, 7, 9)])
    given = pixels(3, 7, 9)
    found = logits(written(tmp_path / "f", program), given)
    np.testing.assert_allclose(found, given.mean((2, 3)) @ np.ones((3, 4)), rtol=1e-5, atol=1e-6)


def test_a_model_of_one_channel_gets_the_luminance(tmp_path):
    given = pixels()
    gray = (given * LUMINANCE[:, None, None]).sum(1)[..., None]
    found = logits(written(tmp_path / "f", classifier(1)), given)
    np.testing.assert_allclose(found, classify(jnp.asarray(gray)), rtol=1e-5, atol=1e-5)


def test_a_model_in_double_precision_gets_pixels_of_float32(tmp_path):
    with jax.enable_x64(True):
        program = to_onnx(lambda x: x.mean((1, 2)) * 2.0, [(("B", 8, 8, 3), np.float64)], x64=True)
    given = pixels(2, 8, 8)
    found = logits(written(tmp_path / "f", program), given)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, given.mean((2, 3)) * 2, rtol=1e-5, atol=1e-6)


PROBABILITIES = {
    "softmax": jax.nn.softmax,
    "softmax in half precision": lambda x: jax.nn.softmax(x).astype(jnp.float16),
    "softmax of half precision": lambda x: jax.nn.softmax(x.astype(jnp.float16)).astype(jnp.float32),
    "softmax, written out": lambda x: jnp.exp(x - x.max(-1, keepdims=True)) / jnp.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBABILITIES)
def test_logits_are_what_a_softmax_at_the_end_is_computed_of(tmp_path, name):
    program = to_onnx(lambda x: PROBABILITIES[name](classify(x)), [("B", 16, 12, 3)])
    given = pixels()
    folder = written(tmp_path / "f", program)
    assert "Softmax" not in operators(folder)
    want = jax.nn.softmax(classify(jnp.asarray(given.transpose(0, 2, 3, 1))))
    tolerance = 1e-2 if "of half" in name else 1e-5
    np.testing.assert_allclose(jax.nn.softmax(logits(folder, given)), want, rtol=tolerance, atol=tolerance / 10)


def test_a_softmax_over_the_batch_stays(tmp_path):
    program = to_onnx(lambda x: jax.nn.softmax(classify(x), axis=0), [("B", 16, 12, 3)])
    given = pixels()
    want = jax.nn.softmax(classify(jnp.asarray(given.transpose(0, 2, 3, 1))), axis=0)
    np.testing.assert_allclose(logits(written(tmp_path / "f", program), given), want, rtol=1e-5, atol=1e-6)


def test_the_configuration_names_the_classes(tmp_path):
    config = entries(written(tmp_path / "f", labels=list("abcde")), "config.json")
    assert config["id2label"] == dict(zip("01234", "abcde", strict=True))
    assert config["label2id"] == {label: number for number, label in enumerate("abcde")}


def test_classes_without_names_are_numbered(tmp_path):
    assert entries(written(tmp_path / "f"), "config.json")["id2label"]["4"] == "LABEL_4"


def test_pixels_are_rescaled_and_nothing_else_by_default(tmp_path):
    found = entries(written(tmp_path / "f"), "preprocessor_config.json")
    assert found["size"] == {"height": 16, "width": 12}
    assert (found["do_rescale"], found["rescale_factor"], found["do_normalize"]) == (True, 1 / 255, False)


def test_one_mean_counts_for_all_channels(tmp_path):
    found = entries(written(tmp_path / "f", images=Images(mean=[0.5], std=[0.1, 0.2, 0.3])), "preprocessor_config.json")
    assert (found["do_normalize"], found["image_mean"], found["image_std"]) == (True, [0.5] * 3, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("edge", [16, 20])
def test_the_centre_is_cut_out_of_an_image_of_a_shorter_edge(tmp_path, edge):
    found = entries(written(tmp_path / "f", images=Images(shortest_edge=edge)), "preprocessor_config.json")
    assert found["size"] == {"shortest_edge": edge}
    assert (found["do_center_crop"], found["crop_size"]) == (True, {"height": 16, "width": 12})


def test_a_model_of_any_size_is_told_the_size(tmp_path):
    program = to_onnx(classify, [("B", "H", "W", 3)])
    folder = written(tmp_path / "f", program, images=Images(size=(20, 24)))
    assert interface(folder / "onnx" / "model.onnx")["pixel_values"][1] == ["batch_size", 3, 20, 24]
    given = pixels(2, 20, 24)
    want = classify(jnp.asarray(given.transpose(0, 2, 3, 1)))
    np.testing.assert_allclose(logits(folder, given), want, rtol=1e-5, atol=1e-5)


def test_one_of_two_outputs_is_chosen_by_its_role(tmp_path):
    program = to_onnx(lambda x: (x.mean((1, 2)), classify(x)), [("B", 16, 12, 3)], output_names=["features", "classes"])
    found = interface(written(tmp_path / "f", program, roles={"logits": "classes"}) / "onnx" / "model.onnx")
    assert found["logits"][1] == ["batch_size", CLASSES]
    assert "features" not in found


@pytest.mark.parametrize(
    ("function", "inputs", "options", "message"),
    [
        (lambda x: x.mean(), [("B", 8, 8, 3)], {}, "has no logits, floats \\[batch, classes\\]"),
        (lambda x: (x[:, 0, 0], x[:, 1, 1]), [("B", 8, 8, 3)], {}, "Several outputs could be the logits"),
        (lambda x: x * 2, [("B", 3)], {}, "has no images"),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 5)], {}, "neither 1 nor 3: say images=Images\\(layout="),
        (lambda x: x[:, 0, 0], [("B", 3, 8, 3)], {}, "are not known: say images=Images\\(layout="),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 3)], {"images": Images(layout="NCHW")}, "no 1 or 3 channels in NCHW"),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 3)], {"images": Images(size=(9, 9))}, "size is \\(9, 9\\), and the input"),
        (lambda x: x[:, 0, 0], [("B", 8, 9, 3)], {"images": Images(shortest_edge=8)}, "shorter edge 8, no centre of 8 x 9 pixels can be cut out"),
        (lambda x: x[:, 0, 0], [("B", "H", "W", 3)], {}, "size of the images is not known"),
        (lambda x, y: x[:, 0, 0] + y, [("B", 8, 8, 3), ()], {}, "gives a model images alone"),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 3)], {"labels": ["a", "b"]}, "2 names, and the model tells 3 classes apart"),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 3)], {"labels": ["a", "b", "a"]}, "has the name 'a' twice"),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 3)], {"labels": "abc"}, "labels is a list"),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 3)], {"roles": {"images": "z"}}, "the model has no input 'z'"),
        (lambda x: x[:, 0, 0], [("B", 8, 8, 3)], {"roles": {"tokens": "x"}}, "has no role 'tokens'"),
        (lambda x: x[:, 0, 0, 0], [("B", 8, 8, 3)], {"roles": {"logits": "output"}}, "cannot be 'logits'"),
        (lambda x: x[:, 0, 0], [(("B", 8, 8, 3), np.uint8)], {}, "has no images, floats"),
    ],
)  # fmt: skip
def test_a_model_that_classifies_no_images_is_refused_and_leaves_nothing(tmp_path, function, inputs, options, message):
    with pytest.raises(OptionError, match=message):
        written(tmp_path / "f", to_onnx(function, inputs), **options)
    assert [*tmp_path.iterdir()] == []


def test_a_model_with_states_is_refused(tmp_path):
    program = to_onnx(lambda x, s: (x[:, 0, 0] + s, s + 1), [("B", 8, 8, 3), ()], states={1: 1})
    with pytest.raises(OptionError, match="has a state, 's'"):
        written(tmp_path / "f", program)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (0, 3)}, "size is a height and a width"), ({"size": (3, 0)}, "size is a height"), ({"size": (3,)}, "size is a height"), ({"size": (3.0, 3)}, "size is a height"),
        ({"mean": 0.5}, "images: mean"), ({"std": "abc"}, "images: std"), ({"rescale": "1"}, "rescale is greater than 0"),
        ({"layout": "HWC"}, "layout is 'NHWC' or 'NCHW'"),
        ({"resample": "cubic"}, "resample is 'nearest'"), ({"mean": [1, 2]}, "mean has a number for each channel"),
        ({"std": [0.0]}, "greater than 0"), ({"rescale": 0.0}, "rescale is greater than 0"),
        ({"rescale": float("inf")}, "finite, not inf"), ({"rescale": float("nan")}, "finite, not nan"),
        ({"mean": [float("nan")]}, "mean has finite numbers"), ({"std": [1, 1, float("inf")]}, "std has finite numbers"), ({"mean": ["a"]}, "mean has finite"),
        ({"shortest_edge": 0}, "shortest_edge"), ({"shortest_edge": 20.5}, "shortest_edge"),
    ],
)  # fmt: skip
def test_impossible_preparations_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Images(**options)
