"""Write docs/reference/layer-operations.md: the operands and parameters of the layer operations of jax2onnx-lax, from the
docstrings of their rules.

mkdocs runs this as a hook before it builds the site (`nox -s docs`); `python tools/layer_operations.py` writes the page, too. It is not
committed.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "layer-operations.md"
RULES = ROOT / "packages" / "jax2onnx-lax" / "src" / "jax2onnx_lax" / "nn"
FRAMEWORKS = ("nnx", "linen", "equinox", "haiku", "keras")

INTRODUCTION = """# Layer operations

<!-- Written by tools/layer_operations.py from the docstrings of jax2onnx_lax.nn. -->

A layer operation is the computation of a layer that every framework has. The packages of frameworks bind their classes to it, and so
can a plugin for another library: a composite of the operation's name reads the weights and options of a layer, and the rule of
`jax2onnx-lax` lowers them. The plugin depends on `jax2onnx-lax`.

```python
import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import of_one_float_type

composites = Composites()


@composites.call("acme:Dense.__call__", name="nn.linear", keep_under_vmap=(0,))
def dense(self, x: jax.Array) -> Call | None:
    if not of_one_float_type(x, self.weight, self.bias):
        return None  # the layer converts its operands: its own computation is exported
    return Call(x, self.weight, self.bias, contracted=1)
```

True of all of them:

* Operands are given to `Call` by position, in the order of the tables, parameters by keyword. Where None is allowed, None is given.
* Operands are `jax.Array`s. Unless the table says otherwise, they are of one floating-point dtype, which the result has too; `of_one_float_type`
  checks that. A layer that converts its operands gives them after the conversion.
* Weights are the very arrays that the model holds: their names in the model, and the storage that several layers share, follow them.
* The operation must compute what the layer computes, with the same shape and dtype. Test cases of the plugin compare it with JAX.
* An operation that the target lacks, or whose operands it does not take (listed as *declined*), is no error: the layer's own
  computation is exported.
* *Under vmap* says which `keep_under_vmap` the composite may declare, so that the operation is kept where the user's program maps the layer.

In shapes, `*batch`, `*space` and `*window` stand for any number of axes, `...` too; `space'` is the size of the result.
"""

HELPERS = """
## Helpers

Functions that bring the arguments of layers into the form of these tables:

| helper | for |
|---|---|
| [`attention_call`](lax.md#jax2onnx_lax.nn.attention.attention_call) | the arguments of an attention function |
| [`contracted_axes`](lax.md#jax2onnx_lax.nn.linear.contracted_axes) | layers that are written as an einsum |
| [`axis_from_end`, `axes_from_end`, `per_axis`](lax.md#jax2onnx_laxnnbindings) | axes, strides and dilations |
| [`canonical_padding`](lax.md#jax2onnx_lax.padding.canonical_padding) | paddings |
| [`of_one_float_type`](lax.md#jax2onnx_lax.dtypes.of_one_float_type) | the dtypes of operands |
"""

#: Aliases in annotations → the types that they stand for.
ALIASES = {
    "Padding": "str | tuple[tuple[int, int], ...]",
    "Operator": 'Literal["LSTM", "GRU", "RNN"]',
    "Activation": 'Literal["Tanh", "Relu"]',
    "Value": "array",
    "Sequence[Value]": "sequence of arrays",
}


class Operation(NamedTuple):
    """A layer operation and the rule whose docstring describes it."""

    name: str
    rule: ast.FunctionDef


def operations() -> list[Operation]:
    """The layer operations, sorted by name.

    Raises:
      ValueError: an operation has no rule, or several rules, with an `Args:` section.
    """
    found: dict[str, list[ast.FunctionDef]] = {}
    for file in sorted(RULES.glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                for name in filter(None, map(_lowered, node.decorator_list)):
                    found.setdefault(name, []).append(node)
    described = {name: [rule for rule in rules if "Args:" in _docstring(rule)] for name, rules in found.items()}
    if wrong := [name for name, rules in described.items() if len(rules) != 1]:
        raise ValueError(f"One rule of {', '.join(wrong)} has to have a docstring with an Args section.")
    return [Operation(name, rules[0]) for name, rules in sorted(described.items())]


def _lowered(decorator: ast.expr) -> str | None:
    """The name in `@rules.lower("nn.linear")`; None for another decorator, or for a primitive that is no layer operation."""
    if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) != "rules.lower":
        return None
    name = decorator.args[0]
    is_layer = isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.startswith("nn.")
    return str(ast.literal_eval(name)) if is_layer else None


def _docstring(rule: ast.FunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(rule) or "")


def section(operation: Operation) -> Iterator[str]:
    """The lines of the page about one operation.

    Raises:
      ValueError: the docstring describes other arguments than the rule has.
    """
    text, _, rest = _docstring(operation.rule).partition("Args:\n")
    arguments, _, returns = rest.partition("Returns:\n")
    meanings = _meanings(arguments)
    names = operation.rule.args
    if list(meanings) != [a.arg for a in (*names.args, *names.kwonlyargs)]:
        raise ValueError(f"The docstring of {operation.name} describes {', '.join(meanings)}.")
    yield from (f"## `{operation.name}`", "", _with_code(text.strip()), "")
    yield from ("| operand | | |", "|---|---|---|")
    for operand in names.args[1:]:
        yield f"| `{operand.arg}` | {_type(operand)} | {meanings[operand.arg]} |"
    yield ""
    if names.kwonlyargs:
        yield from ("| parameter | type | default | |", "|---|---|---|---|")
        for parameter, default in zip(names.kwonlyargs, names.kw_defaults, strict=True):
            shown = "" if default is None else f"`{ast.unparse(default)}`"
            yield f"| `{parameter.arg}` | {_type(parameter)} | {shown} | {meanings[parameter.arg]} |"
        yield ""
    yield from (f"Result: {_with_code(' '.join(returns.split()))}", "", f"Bound in {_bindings(operation.name)}.", "")


def _meanings(arguments: str) -> Mapping[str, str]:
    """Argument → its description in an `Args:` section, in a cell of a table."""
    entries = re.findall(r"^  (\w+): (.+(?:\n {4,}.+)*)", arguments, re.MULTILINE)
    return {name: _with_code(" ".join(text.split())) for name, text in entries}


def _with_code(text: str) -> str:
    """The text with its shapes as code, whose asterisks are no emphasis then."""
    return re.sub(r"\[[^\[\]]+\]", r"`\g<0>`", text)


def _type(argument: ast.arg) -> str:
    assert argument.annotation is not None
    annotation = ast.unparse(argument.annotation).replace("'", '"')
    text = ALIASES.get(annotation, annotation)
    if text.startswith(("array", "sequence", "Value |")):
        return text.replace("Value | None", "array or None")
    return " or ".join(f"`{part}`" for part in text.split(" | "))


def _bindings(name: str) -> str:
    """The modules of framework packages that use the operation."""
    sources = [ROOT / "packages" / f"jax2onnx-{f}" / "src" / f"jax2onnx_{f}" for f in FRAMEWORKS]
    files = [file for source in sources for file in sorted(source.glob("*.py")) if not file.stem.endswith("_cases")]
    using = [file for file in files if _uses(ast.parse(file.read_text()), name)]
    # The poolings of Flax are bound by a function of jax2onnx-lax.
    flax = "`jax2onnx_lax.nn.pooling` (Flax)"
    own = [flax] if _uses(ast.parse((RULES / "pooling.py").read_text()), name, calls="composites.call") else []
    return ", ".join([*own, *(f"`{file.parent.name}.{file.stem}`" for file in using)])


def _uses(module: ast.Module, name: str, calls: str = "") -> bool:
    """Whether a call in the module, of this function if one is given, has the name as an argument."""
    return any(
        isinstance(argument, ast.Constant) and argument.value == name
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and calls in ast.unparse(node.func)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
    )


def page() -> str:
    """The page of the docstrings."""
    lines = [line for operation in operations() for line in section(operation)]
    return "\n".join([INTRODUCTION, *lines]).rstrip() + "\n" + HELPERS


def write() -> None:
    """Write the page, if it has changed."""
    if not PAGE.exists() or PAGE.read_text() != page():
        PAGE.write_text(page())


def on_pre_build(config: object) -> None:
    """The hook of mkdocs."""
    write()


if __name__ == "__main__":
    write()
