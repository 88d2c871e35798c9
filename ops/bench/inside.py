"""The process of the benchmark's client in the Ray session.

    python -m ops.bench.inside VAR RAY_ADDRESS

``RAY_ADDRESS`` is the address of the local Ray that the installation in ``VAR`` has started.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from actors.cluster.environment import prepare
from ops.bench.installation import settings_of


def main(var_dir: Path, ray_address: str) -> None:
    """Run until the pipe closes."""
    settings = settings_of(var_dir)
    prepare(settings)
    # Ray reads the variables of its session while it is imported.
    from ops.bench.client import run

    uvloop.run(run(settings.replace(ray_address=ray_address)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
