"""`jax2onnx verify-signature`: whether a model file is the one that was signed."""

from __future__ import annotations

from pathlib import Path

import click

from jax2onnx_cli._terminal import Command, Result

__all__ = ["command"]

_EXAMPLES = ("jax2onnx verify-signature digits.onnx --public-key release.pub",)


@click.command("verify-signature", cls=Command, examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--public-key", required=True, metavar="FILE", type=click.Path(path_type=Path),
    help="The PEM file of the public key: `openssl ec -in key.pem -pubout -out release.pub` writes it.",
)  # fmt: skip
@click.option(
    "--signature", metavar="FILE", type=click.Path(path_type=Path), help="The signature; by default FILE.sig."
)
def command(*, file: Path, public_key: Path, signature: Path | None) -> Result:
    """Check that a model is the one that was signed.

    Its data files are checked, too. `jax2onnx export --sign` and `program.save(path, sign=…)` sign models. No network is needed.
    """
    from jax2onnx_graph.saving.signing import verify_signature

    files = [str(found) for found in verify_signature(file, public_key, signature=signature)]
    return Result(f"as signed: {', '.join(files)}", {"files": files})
