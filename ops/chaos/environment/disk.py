"""A file system of its own under the servers' folder, so that it can be full without anybody else's being so.

It is a file that is mounted, which takes root and a loop device; where that cannot be had, the servers write
where everything else is, and nothing is filled.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

GIGABYTES: Final = 8
"""Of the whole file system; the file is sparse and takes what is written."""
SMALLEST_BYTES: Final = 4_096


class DiskVolume:
    """``mount`` and ``unmount`` it once each; ``fill`` and ``free`` it as often as one likes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._image = folder.with_name(f"{folder.name}.img")
        self._filler = folder / "filler"
        self.mounted = False

    def mount(self) -> None:
        """Make and mount it, if this machine lets us."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(GIGABYTES << 30)
        # Nothing reserved for root: the servers may run as somebody else.
        self.mounted = _ran("mkfs.ext4", "-q", "-m", "0", str(self._image)) and _ran(
            "mount", "-o", "loop", str(self._image), str(self.folder)
        )
        if not self.mounted:
            self._image.unlink()

    def unmount(self) -> None:
        """What was written stays in the image."""
        if self.mounted:
            self.free()
            self.mounted = not _ran("umount", "--lazy", str(self.folder))

    def fill(self) -> None:
        """Leave not a block for anybody else; only ever on a file system of our own."""
        if not self.mounted:
            raise RuntimeError("this would fill the machine's own disk")
        with self._filler.open("ab") as file:
            free = os.statvfs(self.folder)
            size = max(free.f_bavail * free.f_frsize, SMALLEST_BYTES)
            while True:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
                except OSError:
                    if size == SMALLEST_BYTES:
                        return
                    size = max(size // 2, SMALLEST_BYTES)

    def free(self) -> None:
        """Give everything back."""
        self._filler.unlink(missing_ok=True)


def _ran(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
