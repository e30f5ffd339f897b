"""Programs for the devices of a mesh: `shard_map` and its collectives, on whole arrays."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = ("shard_maps",)
