"""The public surface of JAX: every function has a call, and a sample of the calls is exported; `nox -s sweep` exports all of them."""

from __future__ import annotations

import re

import pytest

from examples import surface

JOBS = surface.jobs()
# Whatever passes through control flow, keys are carried there most often.
DRAWS = [job for job in JOBS if job.partition(": ")[0] in surface.CONTROL_FLOW and "random." in job]
SAMPLE = [*JOBS[::157], *DRAWS[::40]]


def test_every_public_function_has_a_call_or_a_reason():
    assert not surface.missing()


def test_known_differences_are_about_calls():
    expressions = [call.expression for call in surface.calls()]
    for line in surface.known_differences():
        assert any(re.search(line.pattern, expression) for expression in expressions), line


@pytest.mark.sampled(30)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("job", SAMPLE)
def test_a_call_equals_jax(job):
    outcome = surface.run_job(job)
    if outcome["status"] == "no reference":
        pytest.skip("JAX itself does not compute it")
    assert outcome["status"] in ("pass", "explained"), outcome["detail"]
