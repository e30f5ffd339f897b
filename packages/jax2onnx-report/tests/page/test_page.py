"""The report as a page: it needs no network, shows what is known, and nothing in a model becomes markup."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.resources
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.metadata import SymbolInfo, note_reason, write_symbols
from jax2onnx_graph.targets import standard_target
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_report.findings import Findings, VerifiedOutput
from jax2onnx_report.page import page
from jax2onnx_report.page._picture import Box, picture_of
from jax2onnx_report.page.page import report_page
from jax2onnx_report.summary import summarize

HEAD = '<ir_version: 10, opset_import: ["" : 21, "acme": 1], producer_name: "other">'
FUNCTION = '<domain: "acme", opset_import: ["" : 21]> twice (a) => (b) { b = Add(a, a) }'
MODEL = """
main (float[B, 3] x, bool on) => (float[B, 4] y)
<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {1, 2, 3, 4}>
{
    [blocks.0.up/MatMul] h = MatMul(x, w)
    [blocks.0.up/Add] i = Add(h, b)
    [blocks.0/Tanh] j = Tanh(i)
    [head/Cast] k = Cast<to = 1>(j)
    [cond.If] l = If(on) <
        then_branch = yes () => (float[B, 4] t) { [head/Neg] t = Neg(k) },
        else_branch = no () => (float[B, 4] e) { [head/Abs] e = Abs(k) }>
    [head/twice] y = acme.twice(l)
}
"""


def model_of(text: str = MODEL) -> ir.Model:
    """The model of ONNX text in which names of nodes stand in brackets, as that language does not allow dots and slashes."""
    names = {value: name for name, value in re.findall(r"\[(\S*[./]\S*)\] (\w+) =", text)}
    text = re.sub(r"\[\S*[./]\S*\] (?=\w+ =)", "", text)
    model = ir.from_onnx_text(f"{HEAD} {text} {FUNCTION}")
    for node in all_nodes(model):
        node.name = names.get(node.outputs[0].name or "")
    return model


class Page(HTMLParser):
    """A page taken apart.

    Attributes:
      text: what a reader sees.
      attributes: all attributes of all elements: (element, name, value).
      scripts: the contents of the elements that hold no text.
      data: what the scripts are given.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[tuple[str, str]] = []
        self.open: list[str] = []
        words: list[str] = []
        self._words = words
        self.feed(html)
        self.close()
        self.text = re.sub(r"\s+", " ", " ".join(words))
        (data,) = (json.loads(text) for kind, text in self.scripts if kind == "application/json")
        self.data: dict[str, Any] = data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in ("script", "style"):
            self.scripts.append((dict(attrs).get("type") or tag, ""))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.scripts[-1] = self.scripts[-1][0], self.scripts[-1][1] + data
        else:
            self._words.append(data)


def boxes_of(boxes: list[Box]) -> list[Any]:
    """The titles of boxes, those with boxes in them as pairs."""
    return [(box.title, boxes_of(box.boxes)) if box.boxes else box.title for box in boxes]


def test_the_page_asks_no_network_for_anything():
    found = Page(report_page(model_of(), Findings()))
    links = [
        value for _, name, value in found.attributes if name in ("src", "href", "action", "data", "poster", "srcset")
    ]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not any(tag in ("link", "iframe", "object", "embed", "base") for tag, _, _ in found.attributes)
    styles = " ".join(text for kind, text in found.scripts if kind == "style")
    assert not re.search(r"url\(|@import", styles)
    policy = [value for tag, name, value in found.attributes if tag == "meta" and "default-src" in value]
    assert policy == ["default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"]
    assert "sourceMappingURL" not in " ".join(text for _, text in found.scripts)


def test_the_page_shows_what_the_model_consists_of():
    model = model_of()
    write_symbols(model, {"B": SymbolInfo("B", 1, None, (("x", 0, "B"),))}, ["B <= 8"])
    found = Page(report_page(model, Findings())).text
    for fact in (
        "main", "opset 21", "written by other", "9 nodes", "64 B in 2 weights",
        "x float32[B, 3]", "y float32[B, 4]", "B at least 1, from x axis 0", "constraint B <= 8",
        "labelled 4 of 9 symbolic dimensions (44 %)",
        "blocks.0 3 MatMul, Add, Tanh 64 B", "up 2 MatMul, Add 64 B",
        "w float32[3, 4] 48 B", "b float32[4] 16 B",
    ):  # fmt: skip
        assert fact in found


def test_the_page_shows_what_became_of_the_function():
    lowered = {("tanh", "rule"): 1}, {("tanh", "the moon is full"): 1}, ["The plugin acme failed: no licence."]
    errors = [
        VerifiedOutput("y", "B = 1", 1e-7, 2.0, 2e-4, "", True),
        VerifiedOutput("y", "B = 7", 0.5, 2.0, 2e-4, "3 of 28 elements differ", True),
    ]
    model = model_of()
    for node in model.graph:
        node.metadata_props["source"] = "/home/me/lib/site-packages/net.py:7 (Net.__call__)"
    cast = next(node for node in model.graph if node.op_type == "Cast")
    note_reason(cast.outputs[0], "the runtime has no Neg for float16")
    found = Page(
        report_page(model, Findings(standard_target, *lowered, errors, "SNR 42 dB", {"blocks.0.up/MatMul": 2e-3}))
    )
    for fact in (
        "The plugin acme failed: no licence.", "tanh the moon is full 1", "tanh 1 by rule", "target onnx",
        "inserted : the runtime has no Neg for float16", "net.py:7 (Net.__call__)", "2 ms in its nodes", "differs in 2 runs",
        "B = 7 y 0.5 0.0002 2", "3 of 28 elements differ", "SNR 42 dB",
    ):  # fmt: skip
        assert fact in found.text
    assert found.data["errors"] == [dataclasses.asdict(error) for error in errors]


def _verified(output: str, where: str, *, detail: str = "", is_known: bool = True) -> VerifiedOutput:
    return VerifiedOutput(output, where, 0.0, 1.0, 1e-5, detail, is_known)


@pytest.mark.parametrize(
    ("findings", "facts"),
    [
        (Findings(), []),
        (Findings(verified=[_verified("y", "B = 1")]), [("verified", "equal in 1 run", False)]),
        (Findings(verified=[_verified("y", "B = 1"), _verified("z", "B = 1"), _verified("y", "B = 2")]), [("verified", "equal in 2 runs", False)]),
        (Findings(verified=[_verified("y", "B = 1", detail="2 differ"), _verified("z", "B = 1")]), [("differs", "in 1 run", True)]),
        (Findings(verified=[_verified("y", "B = 1", is_known=False), _verified("z", "B = 1")]), [("not verified", "no number of y is finite", True)]),
        (Findings(verified=[_verified("y", "B = 1", is_known=False), _verified("y", "B = 2")]), [("verified", "equal in 2 runs", False)]),
        (Findings(notes=["a"]), [("1", "note", True)]),
        (Findings(notes=["a", "b"]), [("2", "notes", True)]),
        (Findings(times={"a": 0.5, "b": 0.25}, timed_at="B = 3"), [("750 ms", "in its nodes, at B = 3", False)]),
        (Findings(times={"a": 0.5}), [("500 ms", "in its nodes", False)]),
    ],
)  # fmt: skip
def test_the_facts_at_the_top_say_what_is_bad_news(findings, facts):
    summary = summarize(model_of(MODEL))
    assert list(page.facts_of(summary, findings))[4:] == facts
    first = [
        ("16", "parameters", False),
        ("9", "nodes", False),
        ("64 B", "in 2 weights", False),
        ("8", "operators", False),
    ]
    assert list(page.facts_of(summary, Findings())) == first


def test_names_are_text_wherever_they_stand():
    evil = "</script><script>alert(1)</script><!--"
    model = model_of()
    model.graph.name = model.producer_name = model.graph.inputs[0].name = evil
    for node in model.graph:
        node.name = node.metadata_props["source"] = f"{evil}/{node.op_type}"
    model.graph.initializers["w"].name = evil
    html = report_page(
        model,
        Findings(
            standard_target, {}, {(evil, evil): 1}, [evil], [VerifiedOutput(evil, evil, 1, 1, 1, evil, True)], evil, {}
        ),
    )
    assert "<script>alert" not in html
    found = Page(html)
    assert [kind for kind, _ in found.scripts] == ["style", "application/json", "script", "script", "script"]
    assert evil in found.text
    assert evil in json.dumps(found.data)


def test_the_libraries_are_those_that_were_published():
    assets = importlib.resources.files(page.__package__) / "assets"
    licences = (assets / "LICENSES.txt").read_text(encoding="utf-8")
    libraries = json.loads((assets / "libraries.json").read_text(encoding="utf-8"))
    assert [library["file"] for library in libraries] == ["d3.min.js", "dagre.min.js"]
    for library in libraries:
        assert hashlib.sha256((assets / library["file"]).read_bytes()).hexdigest() == library["sha256"]
        assert f"{library['name']} {library['version']}, {library['licence']}" in licences


# -- the picture ----------------------------------------------------------------------------------


def test_modules_bodies_and_functions_are_boxes_with_boxes():
    picture = picture_of(model_of())
    assert boxes_of(picture.boxes) == [
        "x", "on",
        ("blocks.0", [("up", ["MatMul", "Add"]), "Tanh"]),
        "Cast",
        ("If", [("yes", ["Neg", "t"]), ("no", ["Abs", "e"])]),
        ("twice", ["a", "Add", "b"]),
        "y",
    ]  # fmt: skip
    arrows = [(tail.title, head.title) for tail, head, _ in picture.arrows]
    assert arrows == [
        ("x", "MatMul"), ("MatMul", "Add"), ("Add", "Tanh"), ("Tanh", "Cast"),
        ("on", "If"), ("Cast", "Neg"), ("Neg", "t"), ("Cast", "Abs"), ("Abs", "e"),
        ("If", "twice"), ("a", "Add"), ("a", "Add"), ("Add", "b"), ("twice", "y"),
    ]  # fmt: skip


def test_a_module_that_runs_before_and_after_another_is_two_boxes():
    text = """main (float[3] x) => (float[3] z) {
        [embed/Neg] a = Neg(x) [embed/Abs] b = Abs(a)
        [block/Neg] c = Neg(b) [block/Abs] d = Abs(c)
        [embed/Neg_1] e = Neg(d) [embed/Abs_1] z = Abs(e)
    }"""
    titles = [("embed", ["Neg", "Abs"]), ("block", ["Neg", "Abs"]), ("embed", ["Neg", "Abs"])]
    assert boxes_of(picture_of(model_of(text)).boxes) == ["x", *titles, "z"]


def test_modules_that_take_turns_without_need_are_one_box_each():
    text = """main (float[3] x) => (float[3] c, float[3] d) {
        [left/Neg] a = Neg(x) [right/Neg] b = Neg(x)
        [left/Abs] c = Abs(a) [right/Abs] d = Abs(b)
    }"""
    titles = [("left", ["Neg", "Abs"]), ("right", ["Neg", "Abs"])]
    assert boxes_of(picture_of(model_of(text)).boxes) == ["x", *titles, "c", "d"]


def test_names_of_other_exporters_are_modules_too():
    text = """main (float[3] x) => (float[3] b) {
        [/layers.0/attn/Neg] a = Neg(x) [/layers.0/attn/Abs] b = Abs(a)
    }"""
    assert boxes_of(picture_of(model_of(text)).boxes) == ["x", ("layers.0.attn", ["Neg", "Abs"]), "b"]


@pytest.mark.parametrize("count", [60, 61, 2000, 5000])
def test_a_level_of_the_picture_has_few_boxes(count: int) -> None:
    body = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(count))
    picture = picture_of(model_of(f"main (float[3] v0) => (float[3] v{count}) {{ {body} }}"))
    levels = [picture.boxes, *(box.boxes for top in picture.boxes for box in top.all_boxes() if box.boxes)]
    assert max(map(len, levels)) <= 62
    assert sum(box.count() for box in picture.boxes) == count + 2
