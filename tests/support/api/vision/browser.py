"""The system's Chromium, driven by Playwright: one for a session, with a context for each test."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    ViewportSize,
    async_playwright,
)

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
    # Pages of public origins, which tests make up, may frame pages of this machine.
    "--disable-features=LocalNetworkAccessChecks",
)
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}


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


class _SharedChromium:
    """The browser of a session, started on first use, and again after it has ended by itself."""

    def __init__(self) -> None:
        self._ending = AsyncExitStack()
        self._browser: Browser | None = None

    @asynccontextmanager
    async def context(self) -> AsyncIterator[BrowserContext]:
        """A context of its own: cookies, storage, caches and permissions of others do not reach it."""
        if self._browser is None or not self._browser.is_connected():
            playwright = await self._ending.enter_async_context(async_playwright())
            self._browser = await playwright.chromium.launch(
                executable_path=chromium(), args=list(FLAGS), timeout=MILLISECONDS_MAX
            )
            self._ending.push_async_callback(self._browser.close)
        context = await self._browser.new_context(viewport=PHONE)
        try:
            yield context
        finally:
            await context.close()

    async def end(self) -> None:
        """End the browser, if it runs."""
        self._browser = None
        await self._ending.aclose()


_shared = _SharedChromium()


@asynccontextmanager
async def shared_browser() -> AsyncIterator[None]:
    """Ends the shared browser after the block. All tests that use it run in the loop of the block."""
    try:
        yield
    finally:
        await _shared.end()


@asynccontextmanager
async def _browser_with(profile: Path) -> AsyncIterator[BrowserContext]:
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium(),
            args=list(FLAGS),
            timeout=MILLISECONDS_MAX,
            viewport=PHONE,
        )
        try:
            yield context
        finally:
            await context.close()


@asynccontextmanager
async def browser(profile: Path | None = None) -> AsyncIterator[Visit]:
    """An empty tab of a phone's size in the shared browser. With ``profile``, in a new browser that leaves
    its user data in that folder."""
    assert chromium() is not None, "Chromium is not installed"
    async with _browser_with(profile) if profile else _shared.context() as context:
        context.set_default_timeout(MILLISECONDS_MAX)
        yield Visit(context.pages[0] if context.pages else await context.new_page())
