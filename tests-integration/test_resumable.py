"""Jobs of `tools/resumable.py`: those whose process ends, and those beside them."""

from __future__ import annotations

import json
import os
import signal

import pytest
import resumable
from resumable import DeadWorkersError, run

JOBS = [f"{i}" for i in range(7)]
_NO_FURTHER: list[str] = []


@pytest.fixture(autouse=True)
def few_jobs_at_once(monkeypatch):
    monkeypatch.setattr(resumable, "CHUNK", 5)


def entry(name, status="pass"):
    return {"name": name, "status": status}


def killed(names):
    if {"3", JOBS[-1]} & {*names}:
        os.kill(os.getpid(), signal.SIGKILL)
    return [entry(name) for name in names]


def killed_after(names):
    """Job 3 leaves something behind that ends the process in job 4."""
    if _NO_FURTHER or ("3" in names and len(names) > 1):
        os.kill(os.getpid(), signal.SIGKILL)
    _NO_FURTHER.extend({"3"} & {*names})
    return [entry(name) for name in names]


def raising(names):
    raise ValueError(f"no {names[0]}")


def test_a_job_that_ends_its_process_has_a_result_and_all_others_theirs(tmp_path):
    file = tmp_path / "results" / "jobs.jsonl"
    found = run(JOBS, killed, file, 2, dead=lambda name: entry(name, "dead"))
    dead = ("3", JOBS[-1])
    assert found == {name: entry(name, "dead" if name in dead else "pass") for name in JOBS}
    assert len(file.read_text().splitlines()) == len(JOBS)


def test_jobs_that_end_their_processes_are_named_and_run_again(tmp_path):
    file = tmp_path / "jobs.jsonl"
    with pytest.raises(DeadWorkersError, match=rf"^These jobs ended their processes: 3, {JOBS[-1]}\.$"):
        run(JOBS, killed, file, 1)
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["0", "1", "2", "4", "5"]
    assert [*run(["3", "5"], passing, file, 1)] == ["0", "1", "2", "4", "5", "3"]


def passing(names):
    return [entry(name) for name in names]


def test_a_job_is_not_blamed_for_what_another_left_behind(tmp_path):
    assert run(JOBS[:5], killed_after, tmp_path / "jobs.jsonl", 1) == {name: entry(name) for name in JOBS[:5]}


def test_an_error_of_a_job_is_raised(tmp_path):
    with pytest.raises(ValueError, match=r"^no 0$"):
        run(JOBS, raising, tmp_path / "jobs.jsonl", 1)


def test_what_did_not_pass_runs_again_where_that_is_wanted(tmp_path):
    file = tmp_path / "jobs.jsonl"
    file.write_text("".join(json.dumps(entry(name, status)) + "\n" for name, status in [("0", "pass"), ("1", "wrong")]))
    run(["0", "1", "2"], passing, file, 1)
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["0", "1", "2"]
    run(["0", "1", "2"], passing, file, 1, again=True)
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["0", "1", "2", "1"]
    run(["0", "1", "2"], passing, file, 1, fresh=True)
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["0", "1", "2"]
