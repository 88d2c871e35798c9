"""What the modules of roles import: memory that each process of an installation pays."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_ROLES: Final = (
    "actors.shards.role",
    "actors.network.roles",
    "actors.outbox.role",
    "actors.webhooks.role",
    "actors.cluster.hosts",
    "api.serving",
    "actors.cluster.process",
)
_UNUSED: Final = ("rich", "pygments", "typer", "pydantic_settings")
_IMPORTED: Final = (
    f"import sys, {', '.join(_ROLES)}; print(*(name for name in {_UNUSED} if name in sys.modules))"
)


def test_roles_do_not_import_what_only_terminals_need() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
