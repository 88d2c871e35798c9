"""A separate file system for the servers' data, which can be filled without affecting other programs.

It is an image file, mounted through a loop device, which needs root. Without that, the servers write to the
normal file system, and nothing can be filled.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

GIGABYTES: Final = 8
"""Size of the file system; the image file is sparse."""
SMALLEST_BYTES: Final = 4_096


class DiskVolume:
    """Call ``mount`` and ``unmount`` once each, ``fill`` and ``free`` any number of times."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._image = folder.with_name(f"{folder.name}.img")
        self._filler = folder / "filler"
        self.mounted = False

    def mount(self) -> None:
        """Create and mount the file system, if this machine permits it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(GIGABYTES << 30)
        # No blocks reserved for root: the servers may run as another user.
        self.mounted = _ran("mkfs.ext4", "-q", "-m", "0", str(self._image)) and _ran(
            "mount", "-o", "loop", str(self._image), str(self.folder)
        )
        if not self.mounted:
            self._image.unlink()

    def unmount(self) -> None:
        """Unmount; the image keeps the data."""
        if self.mounted:
            self.free()
            self.mounted = not _ran("umount", "--lazy", str(self.folder))

    def fill(self) -> None:
        """Allocate every free block. Raises RuntimeError unless the test file system is mounted."""
        if not self.mounted:
            raise RuntimeError("refusing to fill a disk of this machine")
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
        """Free these blocks again."""
        self._filler.unlink(missing_ok=True)


def _ran(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
