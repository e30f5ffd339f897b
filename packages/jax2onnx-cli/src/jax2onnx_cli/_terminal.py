"""The output of commands: `Terminal`, `Result`, and `Command`, which adds the standard options to each command."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["BadInput", "Command", "Result", "Terminal"]

# What is not a terminal has no width: long lines stay long lines there.
_WIDTH_OF_A_FILE = 1000


class BadInput(click.ClickException):
    """An error in what the user gave; the message is one sentence that says why it cannot be used and what would do."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of a command.

    Attributes:
      text: the outcome for people.
      data: the same in dicts, lists, strings and numbers, for `--json`.
      is_good: whether what was checked is as it should be.
    """

    text: RenderableType
    data: Mapping[str, object]
    is_good: bool = True


@dataclasses.dataclass
class Terminal:
    """The output of a command, as the standard options say.

    Attributes:
      as_json: whether the outcome is printed as JSON.
      quiet: whether nothing but errors is printed.
      debug: whether the traceback of an error is shown.
      params: the options and arguments of the command, once it is known.
    """

    as_json: bool = False
    quiet: bool = False
    debug: bool = False
    params: Sequence[click.Parameter] = ()

    def show(self, result: Result) -> None:
        """Write the outcome to standard output."""
        if self.as_json:
            click.echo(json.dumps(_plain(result.data), indent=2))
        elif not self.quiet:
            _console(sys.stdout).print(result.text)

    def error(self, message: str) -> None:
        """Write what went wrong to standard error."""
        click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)

    def warn(self, message: str) -> None:
        """Write what the user should know to standard error."""
        if not self.quiet:
            click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {message}", err=True)

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show what is being done and how far it is, on a terminal only; what the user's code prints goes to standard error."""
        with contextlib.redirect_stdout(sys.stderr), self._bar(what):
            yield

    @contextlib.contextmanager
    def _bar(self, what: str) -> Iterator[None]:
        if self.quiet or not sys.stderr.isatty():
            yield
            return

        from jax2onnx_graph.progress import progress_to
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
            task = bar.add_task(what, total=None)
            with progress_to(lambda _, done, total: bar.update(task, completed=done, total=total)):
                yield


class Command(click.Command):
    """A command with the standard options `--json`, `-q` and `--debug`, and with examples in its help."""

    def __init__(
        self, name: str | None, *, callback: Callable[..., Result], params: list[click.Parameter],
        help: str | None = None,  # noqa: A002 (click's name)
        examples: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(name, callback=callback, params=params, help=help)
        self.examples = examples
        self.params += [
            _standard_option("--json", "as_json", "Print the outcome as JSON."),
            _standard_option("-q", "quiet", "Print nothing but errors."),
            _standard_option("--debug", "debug", "Show the traceback of an error."),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; the terminal's messages speak of this command's options from here on."""
        if (terminal := ctx.find_object(Terminal)) is not None:
            terminal.params = self.get_params(ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those with a `heading` under it."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                sections.setdefault(vars(param).get("heading", "Options"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, a line each."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {example}\n" for example in self.examples))


def _plain(data: object) -> object:
    """Data with NaN and infinities as texts, for which JSON has no numbers."""
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [*map(_plain, data)]
    return str(float(data)) if isinstance(data, float) and not math.isfinite(data) else data


def _standard_option(name: str, field: str, text: str) -> click.Option:
    def store(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            setattr(context.find_object(Terminal), field, True)

    names = [name, "--quiet"] if field == "quiet" else [name]
    return click.Option(names, is_flag=True, expose_value=False, is_eager=True, callback=store, help=text)


def _console(stream: IO[str]) -> Console:
    """A console that prints text as it is, colours and lays out what has a style, and wraps lines on a terminal only."""
    from rich.console import Console

    width = None if stream.isatty() else _WIDTH_OF_A_FILE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=not stream.isatty())
