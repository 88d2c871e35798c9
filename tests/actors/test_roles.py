"""What the modules of roles import: memory that each process of an installation pays."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_API: Final = "api.serving"
_ROLES: Final = (
    "actors.shards.role",
    "actors.network.roles",
    "actors.outbox.role",
    "actors.webhooks.role",
    "actors.cluster.hosts",
    "actors.cluster.process",
)
_FIRST_MESSAGE: Final = "import ray._private.serialization as s; s.SerializationContext(None)"
"""Ray's preparation for the first message, which imports libraries, too."""
_ONLY_TERMINALS: Final = ("rich", "pygments", "typer", "pydantic_settings")
_ONLY_SUPERVISOR: Final = ("prometheus_client",)
_ONLY_API: Final = ("pydantic", "pydantic_core", "fastapi", "starlette")


def imported(modules: tuple[str, ...], looked_for: tuple[str, ...]) -> list[str]:
    """Those of the modules ``looked_for`` that a new process has after it has imported ``modules``
    and received a message."""
    script = f"import sys, {', '.join(modules)}; {_FIRST_MESSAGE}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return sorted(set(done.stdout.split()) & set(looked_for))


def test_roles_do_not_import_what_only_terminals_and_the_supervisor_need() -> None:
    assert imported((*_ROLES, _API), (*_ONLY_TERMINALS, *_ONLY_SUPERVISOR)) == []


def test_only_api_servers_import_the_framework_of_the_api() -> None:
    assert imported(_ROLES, _ONLY_API) == []
    assert imported((_API, "actors.cluster.process"), _ONLY_API) == sorted(_ONLY_API)
