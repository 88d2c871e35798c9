"""Wall clocks that can be moved, each process's by itself.

Nobody may set the clock of a machine that others use. What is moved instead is what Python's ``time`` says in
the processes of the installation (``moved_clock/sitecustomize.py``), all of which are Python.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "STANCHION_CHAOS_CLOCKS"
CODE: Final = Path(__file__).parent / "moved_clock"


class MovedClocks:
    """``folder`` holds a file for each process whose clock is wrong, and a sign of each that has such a
    clock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def environment(self) -> dict[str, str]:
        """What an installation is started with, so that its clocks can be moved."""
        self._folder.mkdir(parents=True, exist_ok=True)
        paths = [str(CODE), os.environ.get("PYTHONPATH", "")]
        return {VARIABLE: str(self._folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def move(self, pid: int, seconds: int) -> bool:
        """Have a process's clock wrong by so much from now on; 0 puts it right. Whether it has such a
        clock."""
        written = self._folder / f"{pid}.new"
        written.write_text(str(seconds))
        # A process that looks meanwhile finds the one or the other.
        written.replace(self._folder / str(pid))
        return (self._folder / f"{pid}.here").exists()
