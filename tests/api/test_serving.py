"""The start of an API server: a server that replaces a lost one must answer soon."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_IMPORTED = "import sys, api.serving; print(*sys.modules)"
_BUILT = """
from api.app import ROUTERS
from api.vision.routes import router
print(*(route.name for each in (*ROUTERS, router) for route in each.routes if "dependant" in vars(route)))
"""
LATE: Final = {
    "actors.backtests.work",
    "actors.network.roles",
    "aiohttp",
    "api.docs.reference",
    "engine.iso8583.message",
    "jinja2",
}
"""Modules that only some requests need."""


def output_of(script: str) -> set[str]:
    """The words that ``script`` prints in a new process."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_start_imports_no_module_that_only_some_requests_need() -> None:
    imported = output_of(_IMPORTED)
    assert not imported & LATE
    assert {name for name in imported if name.startswith("api.console.")} == {"api.console.late"}


def test_start_builds_no_route() -> None:
    assert output_of(_BUILT) == set()
