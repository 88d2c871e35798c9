"""The only import package of the server's wheel. Its folder holds the packages ``engine``, ``actors``,
``api`` and ``ops``, which no other program of the environment can import by accident.

``main`` puts the folder on the module path of this process, and of the processes that it starts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
VARIABLE = "PYTHONPATH"


def extend_path() -> None:
    """Put the server's packages first on the module path. A checkout has them on its path already."""
    if not (FOLDER / "engine").is_dir():
        return
    folder = str(FOLDER)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    inherited = [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]
    if folder not in inherited:
        os.environ[VARIABLE] = os.pathsep.join([folder, *inherited])
    # Otherwise `python -m` in a child would find packages of the current folder first.
    os.environ["PYTHONSAFEPATH"] = "1"


def main() -> None:
    """The ``stanchion`` command."""
    extend_path()
    from ops.__main__ import main as run

    run()
