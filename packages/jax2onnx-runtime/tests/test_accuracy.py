from __future__ import annotations

import math

import numpy as np
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.accuracy import accuracy


def test_equal_results_have_no_noise():
    found = accuracy(["y"], [([np.ones(3)], [np.ones(3)])])
    assert (found.outputs[0].largest, found.outputs[0].mean, found.outputs[0].snr) == (0, 0, math.inf)


def test_all_runs_count():
    runs = [([np.array([3.0])], [np.array([3.3])]), ([np.array([4.0, 0.0])], [np.array([4.0, 0.0])])]
    found = accuracy(["y"], runs)
    assert found.runs == 2
    assert found.outputs[0].mean == pytest.approx(0.1)
    assert found.outputs[0].snr == pytest.approx(10 * math.log10(25 / 0.09))


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1.0, 1e200, 1e307])
def test_numbers_of_any_size_have_the_same_ratio(size):
    found = accuracy(["y"], [([np.array([3.0, 4.0]) * size], [np.array([3.0, 4.5]) * size])] * 2)
    assert found.outputs[0].snr == pytest.approx(20)


@pytest.mark.parametrize(
    ("want", "got", "largest"), [(np.inf, np.inf, 0), (np.nan, np.nan, 0), (np.inf, 1, np.inf), (1, np.nan, np.inf)]
)
def test_numbers_that_are_not_finite_are_equal_or_infinitely_far(want, got, largest):
    found = accuracy(["y"], [([np.array([want, 1.0])], [np.array([got, 1.0])])])
    assert found.outputs[0].largest == largest


def test_the_output_with_the_most_noise_is_the_worst():
    assert accuracy(["a", "b"], [([np.ones(1)] * 2, [np.ones(1), np.zeros(1)])]).worst.name == "b"


def test_losses_are_means_over_the_runs():
    found = accuracy(["y"], [([np.ones(1)], [np.ones(1)])], [(1.0, 2.0), (9.0, 12.0)])
    assert (found.original_loss, found.loss) == (5, 7)
    assert str(found).splitlines()[-1] == "loss 7, in full precision 5"


def test_no_runs_are_an_error():
    with pytest.raises(OptionError, match="nothing to compare"):
        accuracy(["y"], [])
