"""Wall clocks that can be moved for each process separately.

The machine's clock stays untouched, because other programs use it. Instead, Python's ``time`` module is
patched in all processes of the installation (``moved_clock/sitecustomize.py``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "STANCHION_CHAOS_CLOCKS"
CODE: Final = Path(__file__).parent / "moved_clock"


class MovedClocks:
    """``folder`` has a file with the offset of each moved clock, and a ``.here`` file for each process that
    is patched."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def environment(self) -> dict[str, str]:
        """Environment variables for an installation whose clocks can be moved."""
        self._folder.mkdir(parents=True, exist_ok=True)
        paths = [str(CODE), os.environ.get("PYTHONPATH", "")]
        return {VARIABLE: str(self._folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def move(self, pid: int, seconds: int) -> bool:
        """Move a process's wall clock by ``seconds``; 0 restores it. Returns whether the process is
        patched."""
        written = self._folder / f"{pid}.new"
        written.write_text(str(seconds))
        # Replaced atomically: a concurrent reader sees the old or the new offset.
        written.replace(self._folder / str(pid))
        return (self._folder / f"{pid}.here").exists()
