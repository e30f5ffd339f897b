"""The user's line and the named scopes of an equation."""

from __future__ import annotations

import itertools
import os

from jax._src import source_info_util as _source_info
from jax2onnx_graph.build.names import user_line

__all__ = ["is_user_file", "name_stack", "user_frame"]

is_user_file = _source_info.is_user_filename
# Our own frames are not the user's, and frames around `to_onnx` are not those of the function.
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_EXPORT = os.path.join(_PACKAGE, "program", "export.py")
_source_info.register_exclusion(_PACKAGE)


def user_frame(source_info: _source_info.SourceInfo) -> str | None:
    """The user's line behind an equation, as "file:line (function)"; None where there is none."""
    raw = source_info.traceback.raw_frames() if source_info.traceback else ((), ())
    inside = itertools.takewhile(lambda frame: frame.file_name != _EXPORT, map(_source_info.raw_frame_to_frame, *raw))
    return user_line((f.file_name, f.start_line, f.function_name) for f in inside if is_user_file(f.file_name))


def name_stack(source_info: _source_info.SourceInfo) -> str:
    """The named scopes of an equation, without those that are JAX's own: transformations, and the text of an einsum."""
    scopes = [scope.name for scope in source_info.name_stack.stack if isinstance(scope, _source_info.Scope)]
    return ".".join(name for name in scopes if "->" not in name)
