"""Many single look-ups in few statements."""

from __future__ import annotations

from actors.batcher import KEYS_MAX as BATCH_MAX
from actors.batcher import Coalescer

__all__ = ["BATCH_MAX", "Coalescer"]
