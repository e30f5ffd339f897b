"""Cases of `shard_maps`: on abstract meshes, of more devices than there are."""

from __future__ import annotations

__all__ = ["cases"]

cases = []
