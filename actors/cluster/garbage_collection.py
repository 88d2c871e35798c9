"""Garbage collection of a process that has loaded all its code: rare, and without the loaded objects."""

from __future__ import annotations

import gc
from typing import Final

COLLECT_AFTER_OBJECTS: Final = 20_000
"""Surplus of container allocations over deallocations that starts a garbage collection (Python's default:
700)."""


def spare_loaded_objects() -> None:
    """Objects loaded so far stay for good, so the garbage collector need not scan them again. Reference
    counting frees nearly all later ones."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    gc.enable()
