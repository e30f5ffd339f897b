"""Progress is told to whoever listens, stage after stage."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
from jax2onnx_graph.passes import optimise
from jax2onnx_graph.progress import progress_to, steps
from jax2onnx_graph.saving.writing import save_model
from jax2onnx_graph.targets import standard_target

MODEL = """<ir_version: 10, opset_import: ["" : 21]> main (float[3] x) => (float[3] y)
<float[3] w = {1, 2, 3}> { y = Add(x, w) }"""


def test_without_a_listener_the_items_are_what_they_were():
    items = [1, 2]
    assert steps("work", items) is items


def test_each_step_is_told_when_it_is_done():
    heard: list[tuple[str, int, int]] = []
    with progress_to(lambda *stage: heard.append(stage)):
        assert list(steps("work", "ab")) == ["a", "b"]
        assert list(steps("rest", [])) == []
    assert heard == [("work", 0, 2), ("work", 1, 2), ("work", 2, 2), ("rest", 0, 0)]
    assert list(steps("work", "ab")) == ["a", "b"]
    assert len(heard) == 4


def test_stages_inside_of_a_stage_are_not_told():
    heard: list[str] = []
    with progress_to(lambda stage, done, total: heard.append(stage)):
        for _ in steps("outer", "ab"):
            assert list(steps("inner", "cd")) == ["c", "d"]
    assert set(heard) == {"outer"}


def test_after_a_failure_the_next_stage_is_told():
    heard: list[str] = []

    def fail() -> None:
        for _ in steps("first", "ab"):
            raise ZeroDivisionError

    with progress_to(lambda stage, done, total: heard.append(stage)):
        with pytest.raises(ZeroDivisionError):
            fail()
        list(steps("second", "a"))
    assert heard == ["first", "second", "second"]


@pytest.mark.parametrize("external", [False, True])
def test_passes_and_saving_tell_of_their_steps(tmp_path: Path, external: bool) -> None:
    last: dict[str, tuple[int, int]] = {}
    model = ir.from_onnx_text(MODEL)
    with progress_to(lambda stage, done, total: last.update({stage: (done, total)})):
        optimise(model, standard_target)
        save_model(model, tmp_path / "model.onnx", external_data=external, threshold=1)
    assert list(last) == ["optimise", "save"]
    assert all(done == total > 0 for done, total in last.values())
