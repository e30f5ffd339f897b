"""The options of all commands that export: the object, its inputs, the options of `to_onnx`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from jax2onnx_cli._inputs import Inputs, read_inputs, read_spec
from jax2onnx_cli._objects import Subject, load_object, load_subject
from jax2onnx_cli._terminal import BadInput, Result

if TYPE_CHECKING:
    from jax2onnx_core import OnnxProgram
    from jax2onnx_runtime.verification import Verification

__all__ = [
    "Comparison", "Request", "comparison_options", "default_output", "export", "export_options", "names_variables", "outcome_text", "read_numbers", "unique",
]  # fmt: skip

Key = TypeVar("Key")
Item = TypeVar("Item")

_Callback = Callable[..., Result]


@dataclasses.dataclass(frozen=True)
class Request:
    """The object and the options of a command line, as the user wrote them."""

    subject: str
    inputs: Sequence[str] = ()
    keywords: Sequence[str] = ()
    constraints: Sequence[str] = ()
    specialize: Sequence[str] = ()
    input_layouts: Sequence[str] = ()
    output_layouts: Sequence[str] = ()
    input_names: str | None = None
    output_names: str | None = None
    states: Sequence[str] = ()
    assume: Sequence[str] = ()
    opset: int | None = None
    target: str | None = None
    x64: bool = False

    def check_is_file(self, *, taken: Sequence[str] = ()) -> None:
        """Raise BadInput where the object is a model file, and there are options of an export besides those that are taken."""
        given = vars(self)
        others = [
            f.name
            for f in dataclasses.fields(self)
            if f.name not in ("subject", *taken) and given[f.name] not in (f.default, ())
        ]
        if others:
            raise BadInput(
                f"{self.subject} is a model, with inputs of its own; the options of an export are for an object, as {others[0]} is."
            )


_OPTIONS: Sequence[Callable[[_Callback], _Callback]] = (
    click.argument("subject", metavar="OBJECT"),
    click.option("-i", "--input", "inputs", multiple=True, metavar="SPEC", help="An argument: '[name:] type[dimensions]'. Repeat it for each."),
    click.option("--kwargs", "keywords", multiple=True, metavar="SPEC", help="A keyword argument that is an input: 'training: bool[]'."),
    click.option("--constraint", "constraints", multiple=True, metavar="TEXT", help="What is known of the symbols: 'T >= 2'."),
    click.option("--specialize", multiple=True, metavar="SYMBOL=N", help="Fix a symbol to a number."),
    click.option("--input-layout", "input_layouts", multiple=True, metavar="NAME=LAYOUT", help="The order of an input's axes in the model: x=NCHW, 'x=NHWC->NCHW'."),
    click.option("--output-layout", "output_layouts", multiple=True, metavar="NAME=LAYOUT", help="The order of an output's axes in the model."),
    click.option("--input-names", metavar="NAME,…", help="The names of the model's inputs, all of them, in order; or x=image for some."),
    click.option("--output-names", metavar="NAME,…", help="The names of the model's outputs, all of them, in order; or OWN=NEW for some."),
    click.option("--states", multiple=True, metavar="IN=OUT", help="An input that comes back as an output: 0=0, cache=new_cache; or which variables of a model are states: flax.nnx:Cache."),
    click.option("--opset", type=int, help="The version of the standard operators, 17 to 28."),
    click.option("--target", help="What the model is made for: onnxruntime, openvino, onnx, …"),
    click.option("--assume", multiple=True, metavar="PROMISE", help="What is promised about the numbers: finite, if none is NaN or infinite."),
    click.option("--x64", is_flag=True, help="Export with JAX's 64-bit types."),
)  # fmt: skip

_COMPARISON_OPTIONS: Sequence[Callable[[_Callback], _Callback]] = (
    click.option("--sizes", multiple=True, metavar="SYMBOL=N,…", help="The sizes of one run, T=5,B=2; of several runs with B=1,8,64, or when repeated."),
    click.option("--seed", type=click.IntRange(0), default=0, help="The seed of the random inputs."),
    click.option("--rtol", type=float, help="The relative tolerance; by default that of the type."),
    click.option("--atol", type=float, help="The absolute tolerance."),
)  # fmt: skip


def export_options(function: _Callback) -> _Callback:
    """Give a command the argument OBJECT and the options of an export, and hand them over as a `Request`."""
    names = [field.name for field in dataclasses.fields(Request)]

    def command(*args: object, **options: Any) -> Result:
        request = Request(**{name: options.pop(name) for name in names})
        return function(*args, request=request, **options)

    wrapped: _Callback = functools.update_wrapper(command, function)
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


class Comparison(TypedDict):
    """Options of `OnnxProgram.verify` and `OnnxProgram.bisect`, which compare a model with JAX."""

    sizes: list[Mapping[str, int]] | None
    seed: int
    rtol: float | None
    atol: float | None


def comparison_options(function: _Callback) -> _Callback:
    """Give a command the options of a comparison on random inputs, and hand them over as a `Comparison`."""

    def command(
        *args: object, sizes: Sequence[str], seed: int, rtol: float | None, atol: float | None, **options: Any
    ) -> Result:
        runs = [run for text in sizes for run in read_runs("--sizes", text)] or None
        return function(*args, comparison=Comparison(sizes=runs, seed=seed, rtol=rtol, atol=atol), **options)

    wrapped: _Callback = functools.update_wrapper(command, function)
    for option in reversed(_COMPARISON_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def export(
    request: Request, *, subject: Subject | None = None, likely: Callable[[Subject], Inputs] | None = None,
    provenance: bool = False,
) -> OnnxProgram:  # fmt: skip
    """Export the object that the command line names.

    Args:
      request: the object and the options.
      subject: the object, where it was loaded already.
      likely: the inputs where neither the command line nor the object says them.
      provenance: whether nodes know the lines that they come from.
    """
    subject = load_subject(request.subject) if subject is None else subject
    inputs = _inputs(request, subject, likely)

    from jax2onnx_core import to_onnx

    return to_onnx(
        subject.value, inputs.positional, kwargs=inputs.keywords, input_names=_names("--input-names", request.input_names) or _new_names(subject, inputs),
        output_names=_names("--output-names", request.output_names),
        constraints=request.constraints, specialize=read_numbers("--specialize", request.specialize) or None,
        input_layouts=_layouts("--input-layout", request.input_layouts),
        output_layouts=_layouts("--output-layout", request.output_layouts), states=_states(request.states), opset=request.opset, target=request.target, x64=request.x64 or None,
        assume=request.assume,
        provenance=provenance,
    )  # fmt: skip


def outcome_text(found: Verification | None, *, is_quantized: bool = False) -> str:
    """The result of a comparison with JAX as lines of text, none where there was none."""
    if found is None:
        return ""
    if is_quantized:
        return f"{found}\n"
    text = (
        f"equal to JAX; the largest difference is {found:.3g}"
        if found.is_known
        else "It is not known whether this is equal to JAX."
    )
    return "\n".join([text, *found.notes, ""])


def default_output(request: Request, output: Path | None, suffix: str) -> Path:
    """The file to write.

    Args:
      request: the command line.
      output: the file that the user gave, if any.
      suffix: the suffix of the default, a file here with the last part of the object's name.

    Raises:
      BadInput: it is a directory, or its directory does not exist.
    """
    path = Path(request.subject.rpartition(":")[2].rpartition(".")[2] + suffix) if output is None else output
    if path.is_dir():
        raise BadInput(f"{path} is a directory: give the name of the file, too.")
    if not path.parent.is_dir():
        raise BadInput(f"There is no directory {path.parent} for {path.name}: make it first.")
    return path


def _inputs(request: Request, subject: Subject, likely: Callable[[Subject], Inputs] | None) -> Inputs:
    given, keywords = [*map(read_spec, request.inputs)], [*map(read_spec, request.keywords)]
    if not given and subject.inputs is not None:
        return dataclasses.replace(read_inputs([], keywords), positional=subject.inputs, names=None)
    if not given and not keywords and likely is not None:
        return likely(subject)
    inputs = read_inputs(given, keywords)
    _check_given(subject, inputs)
    _check_places(subject, inputs)
    return inputs


def _check_given(subject: Subject, inputs: Inputs) -> None:
    """Raise BadInput with a proposal if the command line has no input, and the object needs some."""
    needed = [
        one.name for one in subject.parameters() if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    if needed and not inputs.positional and not inputs.keywords:
        proposed = " ".join(f"--input '{name}: f32[B, 3]'" for name in needed)
        raise BadInput(
            f"{subject.name} takes {', '.join(needed)}: say the type and the dimensions of each, in this order, with numbers for what "
            f"is fixed and names for what is not, as in {proposed}. Or let OBJECT be a function without parameters that returns the "
            "object and a list of its inputs."
        )


def _check_places(subject: Subject, inputs: Inputs) -> None:
    """Raise BadInput if an input has the name of a parameter at another position."""
    parameters = [parameter.name for parameter in subject.parameters()]
    for place, name in enumerate(inputs.heads):
        if name in parameters[:place] + parameters[place + 1 :]:
            raise BadInput(
                f"The input {name!r} is in place {place + 1}, but the parameter of {subject.name} in place {parameters.index(name) + 1}: "
                "inputs are given in the order of the parameters."
            )


def _new_names(subject: Subject, inputs: Inputs) -> Sequence[str] | None:
    """The names that the user gives to inputs, where they differ from the parameters' own."""
    parameters = [parameter.name for parameter in subject.parameters()]
    return None if [*inputs.heads] == parameters[: len(inputs.heads)] else inputs.names


def _names(option: str, text: str | None) -> list[str] | dict[str, str] | None:
    """The names in a list with commas: all of them, or pairs of an own name and a new one."""
    if text is None:
        return None
    pairs = [tuple(map(str.strip, part.partition("="))) for part in text.split(",")]
    signs = {sign for _, sign, _ in pairs}
    if len(signs) > 1:
        raise BadInput(
            f"{option} {text!r}: write names, a,b, or pairs of an own name and a new one, x=a,y=b; not both."
        )
    return [name for name, _, _ in pairs] if signs == {""} else unique(option, ((name, new) for name, _, new in pairs))


def names_variables(states: Sequence[str]) -> bool:
    """Whether `--states` says which variables of a model are states, not which inputs come back as outputs."""
    return any("=" not in text for text in states)


def _states(texts: Sequence[str]) -> object:
    """The option `states` of `to_onnx`."""
    if not texts:
        return None
    if not names_variables(texts):
        pairs = (text.partition("=") for text in texts)
        return unique("--states", ((_position(given), _position(returned)) for given, _, returned in pairs))
    if len(texts) > 1:
        raise BadInput(
            f"--states {texts[0]}: several states are pairs of an input and an output, such as cache=new_cache."
        )
    return load_object(texts[0]) if ":" in texts[0] else texts[0]


def _layouts(option: str, texts: Sequence[str]) -> Mapping[int | str, str] | None:
    """The layouts of `to_onnx` by names or positions."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, _, layout) in zip(texts, pairs, strict=True):
        if not name or not layout:
            raise BadInput(f"{option} {text!r}: write a name and a layout, such as x=NCHW.")
    return unique(option, ((_position(name), layout) for name, _, layout in pairs)) or None


def _position(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def read_numbers(option: str, texts: Sequence[str]) -> Mapping[str, int]:
    """The numbers of symbols: `B=3`, several with commas or in several texts."""
    numbers = []
    for text in (part for given in texts for part in given.split(",")):
        symbol, _, number = map(str.strip, text.partition("="))
        if not symbol.isidentifier() or not number.isdecimal():
            raise BadInput(f"{option} {text!r}: write a symbol and its number, such as B=3.")
        numbers.append((symbol, int(number)))
    return unique(option, numbers)


def unique(option: str, pairs: Iterable[tuple[Key, Item]]) -> dict[Key, Item]:
    """The pairs of an option as a dict. Raises BadInput where two of them say something different of one thing."""
    found: dict[Key, Item] = {}
    for key, item in pairs:
        if found.setdefault(key, item) != item:
            raise BadInput(f"{option} says two things of {key}: {found[key]} and {item}; which of them is meant?")
    return found


def read_runs(option: str, text: str) -> list[Mapping[str, int]]:
    """The numbers of symbols in each run: `T=5,B=1,8` are two runs, with `T=5,B=1` and with `T=5,B=8`."""
    numbers: dict[str, list[int]] = {}
    symbol = ""
    for part in text.split(","):
        is_further = bool(symbol) and part.strip().isdecimal()
        symbol, number = (symbol, int(part)) if is_further else next(iter(read_numbers(option, [part]).items()))
        numbers.setdefault(symbol, []).append(number)
    return [dict(zip(numbers, chosen, strict=True)) for chosen in itertools.product(*numbers.values())]
