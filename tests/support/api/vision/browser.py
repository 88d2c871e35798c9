"""The system's Chromium for one test, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from playwright.async_api import ConsoleMessage, Error, Page, Request, async_playwright

MILLISECONDS_MAX: Final = 60_000.0
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


LOCAL_FRAMES: Final = "--disable-features=LocalNetworkAccessChecks"
"""Lets pages of public origins, which tests make up, frame pages of this machine."""


def chromium() -> str | None:
    """Path of the installed Chromium, or ``None``."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Visit:
    """One tab. Records the ``requests`` of the page, and its warnings, errors and exceptions as
    ``messages``."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[Request] = []
        self.messages: list[str] = []
        page.on("request", self._on_request)
        page.on("console", self._on_console)
        page.on("pageerror", self._on_error)

    @property
    def addresses(self) -> list[str]:
        """URLs of all requests, without ``data:`` URLs."""
        return [each.url for each in self.requests if not each.url.startswith("data:")]

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return await self.page.evaluate(expression)

    def _on_request(self, request: Request) -> None:
        self.requests.append(request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("warning", "error"):
            self.messages.append(message.text)

    def _on_error(self, error: Error) -> None:
        self.messages.append(error.message)


@asynccontextmanager
async def browser(profile: Path, *flags: str) -> AsyncIterator[Visit]:
    """Start a browser with an empty tab of a phone's size; ``profile`` is the folder of its user data, and
    ``flags`` are added to ``FLAGS``."""
    program = chromium()
    assert program is not None, "Chromium is not installed"
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile,
            executable_path=program,
            args=[*FLAGS, *flags],
            timeout=MILLISECONDS_MAX,
            viewport={"width": 390, "height": 844},
        )
        context.set_default_timeout(MILLISECONDS_MAX)
        try:
            yield Visit(context.pages[0])
        finally:
            await context.close()
