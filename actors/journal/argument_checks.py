"""Faster checks of the arguments of statements in the driver.

asyncpg asks abstract base classes whether an argument for an array is an array, and whether a row is a
mapping. Each answer is a call of a Python function, and each row of a commit needs four: a fifth of what a
large commit costs its host. ``use_plain_checks`` lets the driver ask ordinary classes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, Final

from asyncpg.protocol import protocol

_USUAL: Final = (list, tuple, str)
"""Classes of arrays, rows and texts: each is iterable and has a size."""
CHECKS: Final[dict[str, Any]] = {
    "IterableABC": (*_USUAL, Iterable),
    "SizedABC": (*_USUAL, Sized),
    "MappingABC": dict,
}
"""The classes that the driver uses, by the name under which it does."""


def use_plain_checks() -> None:
    """Change the checks of this process. The driver accepts the same arguments as before, except mappings of
    other classes than ``dict``. Without effect on a version of asyncpg that checks in another way."""
    for name, classes in CHECKS.items():
        if hasattr(protocol, name):
            setattr(protocol, name, classes)
