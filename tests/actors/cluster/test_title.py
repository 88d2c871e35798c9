"""The process title that the kernel shows to ps and top."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actors.cluster.title import title_of

_SET_TITLE = """
import ray._raylet
titles = []
set_by_ray = ray._raylet.setproctitle
def record(title):
    titles.append(title)
    set_by_ray(title)
ray._raylet.setproctitle = record
from actors.cluster.title import set_title, title_of
from ray._private.worker import _changeproctitle
set_title(title_of("edge"))
with _changeproctitle("ray::Process.figures", "ray::Process"):
    pass
print(*titles, sep="\\n")
"""
_READ_TITLE = """
from pathlib import Path
for name in ("comm", "cmdline"):
    print(Path(f"/proc/self/{name}").read_text().strip("\\0\\n "))
"""
KERNEL_SHOWS_TITLES = sys.platform == "linux"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("edge", "stanchion: edge"),
        ("edge@bbbbbbbb", "stanchion: edge@bbbbbbbb"),
        ("host-75528ab8-4c1e23b3", "stanchion: host 4c1e23b3"),
    ],
)
def test_title_names_the_role(name: str, title: str) -> None:
    assert title_of(name) == title


def test_calls_of_ray_do_not_change_the_title() -> None:
    """Ray's title function is called once on every system; the kernel's view is checked where it has one."""
    script = _SET_TITLE + (_READ_TITLE if KERNEL_SHOWS_TITLES else "")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["stanchion: edge"] * (3 if KERNEL_SHOWS_TITLES else 1)
