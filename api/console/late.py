"""The console's routes, loaded at the first request for one of them: loading takes a tenth of an API server's
start, and a server that replaces a lost one must answer soon.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Final

from fastapi import FastAPI
from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from api.access.rate_limits import RateLimits
from api.services import Services

CONSOLE_PATH: Final = "/console"


class LateConsole(BaseRoute):
    """Every path of the console, as one route of ``app``."""

    def __init__(self, app: FastAPI, services: Services, limits: RateLimits) -> None:
        self._app = app
        self._services = services
        self._limits = limits
        self._loading = asyncio.Lock()
        self._console: Router | None = None

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of the console; none before it is loaded."""
        return [] if self._console is None else self._console.routes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope.get("path", "")
        if scope["type"] == "http" and (path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")):
            return Match.FULL, {}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        console = self._console or await self._load()
        await console(scope, receive, send)

    async def _load(self) -> Router:
        async with self._loading:
            if self._console is None:
                # In a thread: other requests are answered meanwhile.
                module = await asyncio.to_thread(import_module, "api.console.routes")
                console: Router = module.Console(self._services, self._limits).routes(self._app)
                self._console = console
            return self._console
