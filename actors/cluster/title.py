"""The title of a process, as ps and top show it.

Ray's own facility sets it, and Ray would set another one at each call (``ray::Process``). So its function is
replaced after the title has been set.
"""

from __future__ import annotations

from typing import Final

import ray._raylet

PREFIX: Final = "stanchion: "
_HOST: Final = "host-"


def title_of(name: str) -> str:
    """``stanchion: edge``; of a host ``stanchion: host 4c1e23b3``, the end of its name."""
    if name.startswith(_HOST):
        return f"{PREFIX}host {name.rpartition('-')[2]}"
    return PREFIX + name


def entitle(title: str) -> None:
    """Give this process its title for good. Programs that show 15 characters of it show the first ones."""
    ray._raylet.setproctitle(title)  # type: ignore[attr-defined]
    ray._raylet.setproctitle = _keep  # type: ignore[attr-defined]


def _keep(_title: str) -> None:
    """The title stays."""
