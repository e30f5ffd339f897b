"""Progress in a notebook: a bar in the output of the cell, only in a kernel, and only for long work."""

from __future__ import annotations

import sys
import threading
import types

import pytest
from jax2onnx_graph import progress
from jax2onnx_graph._notebook_bar import NotebookBar, notebook_display
from jax2onnx_graph.progress import progress_to, steps


class Cell:
    """The output of a cell: what was displayed, one list of texts for each display."""

    def __init__(self):
        self.shown: list[list[str]] = []
        self.html = ""

    def __call__(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append([])
        self.update(data, raw=raw)
        return self

    def update(self, data, *, raw):
        assert raw
        self.shown[-1].append(data["text/plain"])
        self.html = data["text/html"]


class Time:
    """A clock that moves on by itself at each look."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def cell(monkeypatch):
    """The output of a cell in a kernel."""
    found = Cell()
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    ipython = types.SimpleNamespace(get_ipython=lambda: shell, display=types.SimpleNamespace(display=found))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    token = progress._LISTENING.set(None)
    yield found
    progress._LISTENING.reset(token)


@pytest.fixture
def slow(monkeypatch):
    """Each step takes a second."""
    monkeypatch.setattr(NotebookBar.__init__, "__defaults__", (Time(1.0),))


@pytest.mark.usefixtures("slow")
def test_a_stage_shows_one_bar_which_is_updated_and_goes_away(cell):
    assert list(steps("lower", "abc")) == ["a", "b", "c"]
    assert cell.shown == [["lower: 1 of 3, 1 s", "lower: 2 of 3, 2 s", "lower: 3 of 3, 3 s", ""]]
    assert list(steps("<save>", "a")) == ["a"]
    assert [texts[0] for texts in cell.shown] == ["lower: 1 of 3, 1 s", "<save>: 1 of 1, 1 s"]


def test_the_bar_is_html_without_markup_of_the_text():
    cell = Cell()
    bar = NotebookBar(cell, Time(1.0))
    bar("<save>", 0, 4)
    bar("<save>", 1, 4)
    assert cell.html == '<progress value="1" max="4"></progress> &lt;save&gt;: 1 of 4, 1 s'


def test_short_work_shows_nothing_and_updates_are_rare(cell):
    assert list(steps("lower", range(1000))) == [*range(1000)]
    assert cell.shown == []
    bar = NotebookBar(cell, Time(0.01))
    for done in range(101):
        bar("lower", done, 100)
    assert len(cell.shown[0]) == 6  # between 0.5 and 1 second


@pytest.mark.usefixtures("slow")
def test_stages_inside_of_a_stage_are_not_shown(cell):
    for _ in steps("outer", "ab"):
        list(steps("inner", "cd"))
    assert all(text.startswith("outer") or not text for text in cell.shown[0])


@pytest.mark.usefixtures("slow")
def test_the_bar_goes_away_after_a_failure(cell):
    def fail():
        for number in steps("lower", [1, 2, 3]):
            if number == 3:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert cell.html == ""
    assert list(steps("next", "a")) == ["a"]
    assert len(cell.shown) == 2


@pytest.mark.usefixtures("slow")
def test_a_listener_stands_in_the_place_of_the_bar(cell):
    with progress_to(lambda *_: None):
        list(steps("lower", "abc"))
    assert cell.shown == []


def test_there_is_none_outside_of_a_kernel_and_in_other_threads(cell, monkeypatch):
    found = []
    assert notebook_display() is cell
    thread = threading.Thread(target=lambda: found.append(notebook_display()))
    thread.start()
    thread.join()
    assert found == [None]
    terminal = types.SimpleNamespace(config={"TerminalIPythonApp": {}})
    for shell in (None, terminal):
        monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda shell=shell: shell)
        assert notebook_display() is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert notebook_display() is None
    items = [1]
    assert steps("lower", items) is items
