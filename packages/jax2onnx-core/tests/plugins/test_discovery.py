"""Plugins are found through entry points; whatever is wrong with one is said by name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from typing import Any, cast

import pytest
from jax2onnx_core import Composites, Rules, errors, hookimpl, to_onnx
from jax2onnx_core.plugins import discovery
from jax2onnx_core.plugins.discovery import Hooks, load_plugins
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase


class EntryPoint:
    """As much of an entry point as discovery looks at."""

    def __init__(self, name, load, distribution):
        self.name, self.load, self.value = name, load, "module"
        self.dist = types.SimpleNamespace(name=distribution)


def plugin(*declared, api=1, **hooks):
    if declared or not hooks:
        hooks["jax2onnx_register"] = lambda registry: registry.add(*declared)
    module = types.ModuleType("plugin")
    vars(module).update({name: hookimpl(hook) for name, hook in hooks.items()}, JAX2ONNX_API=api)
    return module


def rules_for(name, **options):
    rules = Rules(**options)
    rules.lower(name)(lambda ctx, x: x)
    return rules


def entry(name, module, distribution):
    return cast("Any", EntryPoint(name, lambda: module, distribution))


def assert_left_out(found, message):
    """One plugin failed with this message; what the others contribute is there."""
    (error,) = found.failures.values()
    assert isinstance(error, errors.PluginError)
    assert re.search(message, str(error))
    assert found.failure_notes()


def test_a_plugin_contributes():
    found = load_plugins([entry("a", plugin(rules_for("p")), "dist-a")])
    assert "p" in found.registry.rules
    assert found.distributions == {"a": "dist-a"}


def about(library, *declared):
    module = plugin(*declared)
    module.JAX2ONNX_LIBRARY = library
    return module


def test_a_plugin_about_a_library_waits_until_it_is_imported():
    entries = [entry("a", about("quux", rules_for("p")), "dist-a"), entry("b", plugin(rules_for("q")), "dist-b")]
    found = load_plugins(entries, imported=[])
    assert found.registry.rules.keys() == {"q"}
    assert found.waiting == {"a": "quux"}


def test_a_plugin_about_an_imported_library_contributes():
    found = load_plugins([entry("a", about("quux", rules_for("p")), "dist-a")], imported=["quux"])
    assert "p" in found.registry.rules
    assert not found.waiting


def test_a_waiting_plugin_still_shows_its_cases():
    module = about("quux")
    module.jax2onnx_testcases = hookimpl(lambda: ["a case"])
    found = load_plugins([entry("a", module, "dist-a")], imported=[])
    assert found.manager.hook.jax2onnx_testcases() == [["a case"]]


def test_a_library_that_is_imported_later_brings_its_plugin(monkeypatch):
    entries = [entry("a", about("quux", rules_for("p")), "dist-a")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    discovery._needed.cache_clear()
    try:
        assert "p" not in discovery.needed_plugins().registry.rules
        monkeypatch.setitem(sys.modules, "quux", types.ModuleType("quux"))
        assert "p" in discovery.needed_plugins().registry.rules
    finally:
        discovery._needed.cache_clear()


def test_two_distributions_of_one_name():
    entries = [entry("a", plugin(), "dist-a"), entry("a", plugin(), "dist-b")]
    assert_left_out(load_plugins(entries), "'a': dist-a and dist-b")


def test_two_plugins_that_claim_one_primitive():
    entries = [entry("a", plugin(rules_for("p")), "dist-a"), entry("b", plugin(rules_for("p")), "dist-b")]
    assert_left_out(load_plugins(entries), "Both dist-a and dist-b claim the primitive p")


def test_a_declared_override():
    entries = [
        entry("a", plugin(rules_for("p")), "dist-a"),
        entry("b", plugin(rules_for("p", overrides=True)), "dist-b"),
    ]
    assert len(load_plugins(entries).registry.rules["p"]) == 2


def test_two_plugins_that_claim_one_composite():
    def composites():
        declared = Composites()
        declared.call("mylib:f", name="mylib.f")(lambda x: None)
        return declared

    entries = [entry("a", plugin(composites()), "dist-a"), entry("b", plugin(composites()), "dist-b")]
    assert_left_out(load_plugins(entries), "composite of mylib:f")


@pytest.mark.parametrize(
    ("api", "advice"),
    [
        (None, r"set JAX2ONNX_API = 1 in its plugin module"),
        (2, r"pip install -U jax2onnx-core"),
        (0, r"pip install -U dist-a"),
    ],
)
def test_another_api(api, advice):
    assert_left_out(
        load_plugins([entry("a", plugin(api=api), "dist-a")]), f"dist-a says JAX2ONNX_API = {api}, .*: {advice}\\."
    )


@pytest.mark.parametrize(
    ("api", "advice"), [(2, r"pip install -U jax2onnx-core"), (0, r"set JAX2ONNX_API = 1 in its plugin module")]
)
def test_another_api_of_an_inline_plugin(api, advice):
    with pytest.raises(errors.PluginError, match=f"JAX2ONNX_API = {api}, .*: {advice}"):
        to_onnx(lambda x: x, [(3,)], plugins=[plugin(api=api)])


@pytest.mark.parametrize("api", [2, 3, 4])
def test_a_range_of_apis(monkeypatch, api):
    monkeypatch.setattr(discovery, "API_VERSIONS", range(2, 5))
    assert not load_plugins([entry("a", plugin(api=api), "dist-a")]).failures
    assert_left_out(load_plugins([entry("a", plugin(api=1), "dist-a")]), "supports are 2, 3, 4: pip install -U dist-a")


@pytest.mark.parametrize(
    "wrong",
    [
        plugin(api=7),
        plugin(jax2onnx_registre=lambda registry: None),
        plugin({}),
        plugin(rules_for("p"), rules_for("p")),
    ],
    ids=["api", "hook", "rules", "twice"],
)
def test_a_wrong_plugin_stops_no_other(wrong):
    found = load_plugins([entry("a", wrong, "dist-a"), entry("b", plugin(rules_for("p")), "dist-b")])
    assert found.failures.keys() == {"dist-a"}
    assert len(found.registry.rules["p"]) == 1
    assert found.registry.owners["primitive p"] == "dist-b"


def test_a_misspelt_hook():
    assert_left_out(
        load_plugins([entry("a", plugin(jax2onnx_registre=lambda registry: None), "dist-a")]),
        r"dist-a implements a hook that does not exist.*jax2onnx_registre",
    )


def test_something_that_is_no_rules():
    assert_left_out(
        load_plugins([entry("a", plugin({}), "dist-a")]), r"dist-a: registry\.add takes Rules and Composites, not dict"
    )


def test_a_broken_plugin_does_not_stop_the_others_and_is_remembered():
    def broken():
        raise ImportError("no module named nonsense")

    found = load_plugins([cast("Any", EntryPoint("a", broken, "dist-a")), entry("b", plugin(rules_for("p")), "dist-b")])
    assert "p" in found.registry.rules
    (note,) = found.failure_notes()
    assert note.startswith("The plugin of dist-a could not be loaded (ImportError: no module named nonsense).")


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(3)])
def test_a_hook_that_fails_leaves_nothing_behind_and_is_remembered(error):
    def register(registry):
        registry.add(rules_for("half"))
        raise error

    found = load_plugins(
        [entry("a", plugin(jax2onnx_register=register), "dist-a"), entry("b", plugin(rules_for("p")), "dist-b")]
    )
    assert found.registry.rules.keys() == {"p"}
    assert found.failures == {"dist-a": error}


def test_a_misspelt_name_in_the_allow_list():
    with pytest.raises(errors.PluginError, match=r"JAX2ONNX_PLUGINS names lex, but the installed plugins are lax"):
        load_plugins([entry("lax", plugin(), "dist-a")], "lex")


def test_two_rules_objects_of_one_distribution_for_one_primitive():
    assert_left_out(
        load_plugins([entry("a", plugin(rules_for("p"), rules_for("p")), "dist-a")]),
        "dist-a declares rules for p in two of its Rules",
    )


def test_an_adapter_that_fails():
    class Model:
        def __call__(self, x):
            return x

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.adapter(f"{__name__}:Model", lambda model: model.nothing)

    vars(sys.modules[__name__])["Model"] = Model
    with pytest.raises(
        errors.PluginError,
        match=r"The adapter of the inline plugin Plugin for .*:Model failed on a Model \(AttributeError",
    ):
        to_onnx(Model(), [(3,)], plugins=[Plugin()])


def registering(register):
    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            register(registry)

    return Plugin()


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (
            lambda target: target.nothing,
            r"could not be made (AttributeError: 'OnnxRuntime' object has no attribute 'nothing').",
        ),
        (lambda target: sys.exit(3), "could not be made (SystemExit: 3)."),
        (lambda target: None, "could not be made: it is None, not a GraphPass."),
    ],
)
def test_a_pass_that_cannot_be_made_is_left_out_and_named(factory, reason):
    program = to_onnx(lambda x: x, [(3,)], plugins=[registering(lambda registry: registry.graph_pass(factory))])
    assert f"A graph pass of the inline plugin Plugin {reason} The model was made without it." in program.report()


class First(GraphPass):
    phase = Phase.FUSE

    def rewrite_graph(self, editor):
        for node in editor.nodes():
            if node.op_type == "Abs":
                editor.put(node, "Neg", node.inputs)


class Second(First):
    after = (First,)

    def rewrite_graph(self, editor):
        for node in editor.nodes():
            if node.op_type == "Neg":
                editor.put(node, "Exp", node.inputs)


def contributing(*passes):
    return [registering(lambda registry, one=one: registry.graph_pass(one)) for one in passes]


@pytest.mark.parametrize("order", [(First, Second), (Second, First)])
def test_a_pass_runs_after_one_of_another_plugin_whichever_registers_first(order):
    program = to_onnx(abs, [(3,)], plugins=contributing(*order))
    assert [node.op_type for node in program.model.graph] == ["Exp"]


def test_a_pass_after_one_that_no_plugin_contributes():
    with pytest.raises(
        errors.PassError,
        match=r"The graph pass Second of the inline plugin Plugin has to run after First of .*, which no installed plugin contributes\.",
    ):
        to_onnx(lambda x: x, [(3,)], plugins=contributing(Second))


class Unmarked:
    def jax2onnx_register(self, registry):
        pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Rules(), "plugins= takes a list of plugin objects, not <jax2onnx_core.plugins.rules.Rules object at "),
        ("lax", "plugins= takes a list of plugin objects, not 'lax'."),
        ([Rules()], ("Not a plugin: the inline plugin Rules has none of the functions jax2onnx_register, jax2onnx_testcases. "
         "Rules and composites are added by a plugin: an object or module with a function jax2onnx_register(registry), "
         "marked with @hookimpl, that calls registry.add(rules).")),
        (["lax"], "Not a plugin: the inline plugin str has none of the functions "),
        ([None], "Not a plugin: the inline plugin NoneType has none of the functions "),
        ([Unmarked], "Not a plugin: the inline plugin Unmarked is a class; give an object of it: Unmarked()."),
        ([Unmarked()], "Not a plugin: the jax2onnx_register of the inline plugin Unmarked is not marked with @hookimpl."),
        ([registering(lambda registry: 1 / 0)], "The hook of the inline plugin Plugin failed: ZeroDivisionError: division by zero"),
        ([registering(lambda registry: sys.exit(3))], "The hook of the inline plugin Plugin failed: SystemExit: 3"),
        ([registering(lambda registry: registry.adapter("Model", None))],
         "the inline plugin Plugin: the name 'Model' is not of the form 'module:qualified.name'."),
        ([registering(lambda registry: registry.target("fast"))], "the inline plugin Plugin: registry.target takes a Target, not str."),
    ],
)  # fmt: skip
def test_what_is_no_plugin(given, message):
    with pytest.raises(errors.PluginError) as error:
        to_onnx(lambda x: x, [(3,)], plugins=given)
    assert str(error.value).startswith(message)


def test_a_plugin_that_is_given_twice_counts_once():
    one = registering(lambda registry: registry.add(rules_for("p")))
    to_onnx(lambda x: x, [(3,)], plugins=[one, one])


def test_a_declared_override_by_a_decomposition():
    rules = Rules(overrides=True)
    rules.decompose("p", lambda x: x)
    registry = load_plugins(
        [entry("a", plugin(rules_for("p")), "dist-a"), entry("b", plugin(rules), "dist-b")]
    ).registry
    assert "p" not in registry.rules
    assert "p" in registry.decompositions


def test_a_rule_without_a_name():
    with pytest.raises(errors.PluginError, match=r"rules\.lower takes names of primitives"):
        Rules().lower(lambda ctx, x: x)  # type: ignore[arg-type]


def test_the_report_names_plugins_that_failed(monkeypatch):
    from jax2onnx_core.plugins.discovery import Plugins

    note = "The plugin of acme could not be loaded"
    monkeypatch.setattr(Plugins, "failure_notes", lambda self: [note])
    assert note in to_onnx(lambda x: x, [(3,)]).report()


@pytest.mark.parametrize(("allowed", "loaded"), [("a", {"a"}), ("a, b", {"a", "b"}), ("", set()), (None, {"a", "b"})])
def test_the_allow_list(allowed, loaded):
    entries = [entry("a", plugin(), "dist-a"), entry("b", plugin(), "dist-b")]
    assert set(load_plugins(entries, allowed).distributions) == loaded


def test_core_without_plugins_says_what_is_missing():
    code = (
        "import jax.numpy as jnp; from jax2onnx_core import to_onnx\n"
        "try: to_onnx(jnp.tanh, [(3,)])\n"
        "except NotImplementedError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAX2ONNX_PLUGINS": "", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tanh: once" in result.stdout


def test_every_hook_is_documented():
    hooks = [value for name, value in vars(Hooks).items() if name.startswith("jax2onnx_")]
    assert hooks
    assert all(hook.__doc__ for hook in hooks)


def test_importing_core_imports_no_framework():
    code = "import sys, jax2onnx_core; print([m for m in ('jax', 'onnx', 'onnx_ir', 'flax', 'onnxruntime') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
