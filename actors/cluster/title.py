"""The process title that ps and top show.

Ray's own facility sets it, and Ray would set another title at each call (``ray::Process``). After setting the
title, this module replaces Ray's function.
"""

from __future__ import annotations

from typing import Final

import ray._raylet

PREFIX: Final = "stanchion: "
_HOST: Final = "host-"


def title_of(name: str) -> str:
    """``stanchion: edge``; for a host ``stanchion: host 4c1e23b3``, the end of its name."""
    if name.startswith(_HOST):
        return f"{PREFIX}host {name.rpartition('-')[2]}"
    return PREFIX + name


def set_title(title: str) -> None:
    """Set the title of this process for good. Programs that show only 15 characters show the first ones."""
    ray._raylet.setproctitle(title)  # type: ignore[attr-defined]
    ray._raylet.setproctitle = _ignore  # type: ignore[attr-defined]


def _ignore(_title: str) -> None:
    """Ray calls this instead: the title stays."""
