"""A process that loses its local Ray survives and joins a new one. A real Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 2
SECONDS_MAX = 240.0
PROGRAM = "tests.support.actors.cluster.lose_ray"


@pytest.mark.parametrize("server", ["raylet", "gcs_server"])
def test_process_survives_the_loss_of_ray(tmp_path: Path, server: str) -> None:
    """Its tasks continue to call, and its parent is init: Ray ends orphans whose raylet is dead."""
    command = [sys.executable, "-m", PROGRAM, str(tmp_path / "var"), server, str(ROUNDS)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["ended"], done.stdout
    assert done.stdout.splitlines().count("joined again") == ROUNDS
