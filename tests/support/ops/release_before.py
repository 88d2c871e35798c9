"""The SQL of the release before this one, as its processes send it: functions, and statements by file.

``release_before.json`` is made from the repository's history, for a commit whose processes may run during an
upgrade to this code:

    python -m tests.support.ops.release_before COMMIT
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).with_suffix(".json")


class ReleaseBefore(msgspec.Struct):
    """``migrations``: how many it knows. ``functions`` and ``statements``: SQL by path in the repository."""

    commit: str
    migrations: int
    functions: dict[str, str]
    statements: dict[str, str]


def release_before() -> ReleaseBefore:
    return msgspec.json.decode(FILE.read_bytes(), type=ReleaseBefore)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def write(commit: str) -> None:
    """Replace the file."""
    paths = _git("ls-tree", "-r", "--name-only", commit).splitlines()
    sql = {
        path: _git("show", f"{commit}:{path}")
        for path in paths
        if path.startswith("actors/") and path.endswith(".sql")
    }
    found = {
        "commit": commit,
        "migrations": sum(path.startswith("ops/migrations/") and path.endswith(".sql") for path in paths),
        "functions": {path: text for path, text in sql.items() if "/functions/" in path},
        "statements": {path: text for path, text in sql.items() if "/functions/" not in path},
    }
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    write(sys.argv[1])
