"""Threads that use one session wait for each other."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from jax2onnx_core import to_onnx


@pytest.fixture
def session():
    return to_onnx(lambda n, x: (n + 1, x + n), [((), "int32"), (3,)], states={0: 0}).session()


def in_threads(count, call):
    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_no_step_is_lost(session):
    in_threads(4, lambda: [session.step(np.zeros(3, np.float32)) for _ in range(100)])
    assert session.state["n"] == 400


def test_a_step_holds_the_lock_while_the_model_runs(session, monkeypatch):
    run, started, go_on = session._loaded.run, threading.Event(), threading.Event()

    def waiting(inputs):
        started.set()
        assert go_on.wait(60)
        return run(inputs)

    monkeypatch.setattr(session._loaded, "run", waiting)
    thread = threading.Thread(target=session.step, args=(np.zeros(3, np.float32),))
    thread.start()
    assert started.wait(60)
    is_free = session._lock.acquire(blocking=False)
    go_on.set()
    thread.join()
    assert not is_free
    assert session.state["n"] == 1
