"""`jax2onnx generate`: a decoder in a file writes after prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jax2onnx_cli._exporting import read_numbers, unique
from jax2onnx_cli._installation import runtime_of
from jax2onnx_cli._terminal import BadInput, Command, Result, Terminal

if TYPE_CHECKING:
    from jax2onnx_generation.loop.requests import Prompt

__all__ = ["command"]

_EXAMPLES = (
    'jax2onnx generate decoder.onnx --tokenizer tokenizer.json --prompt "Once upon a time"',
    "jax2onnx generate decoder.onnx --ids 5,17,2 --count 20 --stop 1",
    "jax2onnx generate decoder.onnx --tokenizer tokenizer.json --prompt Hello --temperature 0.8 --top-p 0.9 --seed 0",
)


@click.command("generate", cls=Command, examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="A text to go on from; repeat it for more.")
@click.option(
    "--ids", multiple=True, metavar="N,…", help="The tokens to go on from, in place of a text; repeat it for more."
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The tokenizer.json of the model, or its folder.",
)
@click.option("--count", type=int, default=128, help="How many tokens are written at most; 128 by default.")
@click.option(
    "--stop", multiple=True, metavar="N|TEXT", help="A token, or a text, that ends the text; repeat it for more."
)
@click.option("--temperature", type=float, default=0.0, help="0, the default, takes the likeliest token.")
@click.option("--top-k", type=int, help="Only so many of the likeliest tokens.")
@click.option("--top-p", type=float, help="Only the likeliest tokens that reach this probability together.")
@click.option("--min-p", type=float, help="Only tokens with this part of the likeliest one's probability.")
@click.option("--repetition-penalty", type=float, default=1.0, help="Above 1: tokens that were there are less likely.")
@click.option("--seed", type=int, help="The seed of random numbers.")
@click.option("--beams", type=int, default=1, help="How many continuations are compared.")
@click.option("--sizes", multiple=True, metavar="SYMBOL=N,…", help="The sizes that states begin with.")
@click.option("--limits", multiple=True, metavar="SYMBOL=N,…", help="The most entries or places of caches.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE=NAME",
    help="What an input or output is: tokens=x, positions=p, mask=m, bias=m, logits=y.",
)
@click.option("--target", help="The target whose runtime runs the model; by default the installed one.")
@click.pass_obj
def command(
    terminal: Terminal, *, file: Path, prompts: Sequence[str], ids: Sequence[str], tokenizer: Path | None, count: int,
    stop: Sequence[str], temperature: float, top_k: int | None, top_p: float | None, min_p: float | None,
    repetition_penalty: float, seed: int | None, beams: int, sizes: Sequence[str], limits: Sequence[str], roles: Sequence[str],
    target: str | None,
) -> Result:  # fmt: skip
    """Let a decoder write after prompts.

    It is a model whose metadata names its caches.

    Caches of a symbolic capacity begin with 64 places and are doubled.
    """
    from jax2onnx_generation import open_decoder

    prompt = _prompt(prompts, ids)
    stops = [int(text) if text.isdecimal() else text for text in stop]
    known = _roles(roles)
    with terminal.working(f"writing with {file}"):
        generator = open_decoder(
            file,
            runtime_of(target)[1].installed(),
            sizes=read_numbers("--sizes", sizes),
            limits=read_numbers("--limits", limits),
            roles=known,
        )
        result = generator.generate(
            prompt, max_new_tokens=count, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            repetition_penalty=repetition_penalty, seed=seed, stop=stops, tokenizer=tokenizer, beams=beams,
        )  # fmt: skip
    shown = [
        text if tokenizer is not None else ", ".join(map(str, new))
        for text, new in zip(result.texts, result.ids, strict=True)
    ]
    ends = [stop.value for stop in result.stops]
    speed = f"({result.tokens_per_second:.0f} tokens a second, ended by {', '.join(dict.fromkeys(ends))})"
    sequences = [{"ids": w.ids, "text": w.text, "stop": w.stop.value} for w in result.sequences]
    data = {"file": str(file), "sequences": sequences, "tokens_per_second": result.tokens_per_second}
    return Result("\n".join([*shown, speed]), data)


def _prompt(prompts: Sequence[str], ids: Sequence[str]) -> Prompt:
    if bool(prompts) == bool(ids):
        raise BadInput("Give --prompt TEXT, or --ids N,… for the tokens themselves.")
    if prompts:
        return list(prompts)
    try:
        return [[int(part) for part in text.split(",")] for text in ids]
    except ValueError as error:
        raise BadInput(f"--ids {', '.join(ids)}: tokens are whole numbers with commas, such as 5,17,2.") from error


def _roles(texts: Sequence[str]) -> dict[str, str | None]:
    found: list[tuple[str, str | None]] = []
    for text in texts:
        role, equals, name = text.partition("=")
        if not equals:
            raise BadInput(
                f"--role {text!r}: write a role and a name, such as tokens=x; nothing after it for none, mask=."
            )
        found.append((role.strip(), name.strip() or None))
    return unique("--role", found)
