"""Local receivers that may be called in test mode, although egress refuses loopback addresses.

Developer tools that receive on this machine (``stanchion listen``, ``stanchion decide``, the demo) permit
exactly their own address and port while they run: each locks a file in the ``receivers`` folder of the
installation's state. The kernel releases the lock when the program ends, even by a crash, so a port that
another program gets later is refused again. Only calls in test mode use these exceptions. Only local users
with write access to the state folder can create one; no API does.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from actors.egress.addresses import Address

FOLDER: Final = "receivers"


class LocalReceivers:
    """The exceptions of one installation, read again for each call to a loopback address."""

    def __init__(self, var_dir: Path) -> None:
        self._folder = var_dir / FOLDER

    def permits(self, address: Address, port: int) -> bool:
        """Whether a running program on this machine permits calls to ``address`` and ``port``."""
        if not address.is_loopback:
            return False
        try:
            descriptor = os.open(self._folder / _name(str(address), port), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        else:
            return False
        finally:
            os.close(descriptor)


@contextmanager
def permitted(var_dir: Path, address: str, port: int) -> Iterator[None]:
    """Permit test-mode calls to a receiver of this process, until the context ends. Raises ``OSError``."""
    folder = var_dir / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / _name(address, port)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _name(address: str, port: int) -> str:
    return f"{address}-{port}"
