"""The command `jax2onnx`: its commands, exit codes and errors."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click
from jax2onnx_core.plugins.errors import ExportWarning
from jax2onnx_graph.errors import Jax2OnnxError, VerificationError

from jax2onnx_cli import __version__
from jax2onnx_cli._commands import (
    benchmark,
    bisect,
    diff,
    doctor,
    export,
    generate,
    inspection,
    new_plugin,
    plugins,
    report,
    run,
    train,
    verify,
)
from jax2onnx_cli._terminal import Result, Terminal
from jax2onnx_cli._wording import in_options

__all__ = ["main"]

COMMANDS = (
    export.command, verify.command, bisect.command, benchmark.command, report.command, run.command, generate.command, train.command,
    inspection.command, diff.command, plugins.command, doctor.command, new_plugin.command,
)  # fmt: skip

_GOOD, _FAILED, _BAD_INPUT, _INTERRUPTED = 0, 1, 2, 130


class _Commands(click.Group):
    """A group that lists its commands in the order in which they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_Commands, invoke_without_command=True, epilog="Exit codes: 0 all is well, 1 a check failed, 2 bad input."
)
@click.version_option(__version__, package_name="jax2onnx-cli")
@click.pass_context
def jax2onnx(context: click.Context) -> None:
    """JAX functions and models as ONNX models.

    `jax2onnx COMMAND --help` explains a command.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in COMMANDS:
    jax2onnx.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process; returns the exit code."""
    terminal = Terminal()
    try:
        with warnings.catch_warnings():
            _show_warnings(terminal)
            outcome = jax2onnx.main(arguments, "jax2onnx", standalone_mode=False, obj=terminal)
            if not isinstance(outcome, Result):
                return _GOOD  # --help and --version
            terminal.show(outcome)
            return _GOOD if outcome.is_good else _FAILED
    except BrokenPipeError:
        # Who reads the output has seen enough; nothing may be written when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _GOOD
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    # Whatever fails in the user's files or in a plugin, the user sees what and where.
    except Exception as error:  # noqa: BLE001
        if terminal.debug:
            traceback.print_exception(error)
        terminal.error(in_options(_explained(error), terminal.params))
        return _FAILED if isinstance(error, VerificationError) else _BAD_INPUT


def _show_warnings(terminal: Terminal) -> None:
    """Show warnings about the export as a line each, all of them; others as Python does."""
    warnings.simplefilter("always", ExportWarning)
    others = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
    ) -> None:  # fmt: skip
        if issubclass(category, ExportWarning):
            terminal.warn(in_options(str(message), terminal.params))
        else:
            others(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def _explained(error: Exception) -> str:
    """The message of an error for the user."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message()} ({error.ctx.command_path} --help)"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, Jax2OnnxError):
        return "\n".join([str(error), *_notes(error)])
    first = next(iter(str(error).splitlines()), "")
    return "\n".join([f"{type(error).__name__}: {first}{_place(error)}. --debug shows the traceback.", *_notes(error)])


def _notes(error: Exception) -> list[str]:
    """The notes of an error, without those of JAX on tracebacks, which are not shown here."""
    return [note for note in vars(error).get("__notes__", ()) if not note.startswith("---")]


def _place(error: Exception) -> str:
    """The last line outside of libraries in the traceback of an error, as " (file:line)"."""
    places = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    others = ("site-packages", "/jax2onnx_", "<")
    own = [f"{file}:{line}" for file, line in places if not any(other in file.as_posix() for other in others)]
    return f" ({own[-1]})" if own else ""
