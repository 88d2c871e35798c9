"""The title of a process, as the kernel gives it to ps and top."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actors.cluster.title import title_of

_ENTITLED = """
from pathlib import Path
from actors.cluster.title import entitle, title_of
from ray._private.worker import _changeproctitle
entitle(title_of("edge"))
with _changeproctitle("ray::Process.figures", "ray::Process"):
    pass
for name in ("comm", "cmdline"):
    print(Path(f"/proc/self/{name}").read_text().strip("\\0\\n "))
"""


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("edge", "stanchion: edge"),
        ("edge@bbbbbbbb", "stanchion: edge@bbbbbbbb"),
        ("host-75528ab8-4c1e23b3", "stanchion: host 4c1e23b3"),
    ],
)
def test_title_says_the_role(name: str, title: str) -> None:
    assert title_of(name) == title


@pytest.mark.skipif(sys.platform != "linux", reason="titles are read from /proc")
def test_title_outlives_the_calls_of_ray() -> None:
    done = subprocess.run([sys.executable, "-c", _ENTITLED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["stanchion: edge", "stanchion: edge"]
