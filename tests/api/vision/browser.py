"""A headless Chromium for one test, spoken to over the Chrome DevTools protocol."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import aiohttp

SECONDS_MAX: Final = 30.0
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
    "--remote-debugging-port=0",
    "--window-size=390,844",
)


def chromium() -> str | None:
    """The machine's Chromium, if it has one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab. ``requests`` and ``messages`` collect what it sends and what it complains about."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self.messages: list[str] = []

    async def listen(self) -> None:
        """Sort what the browser says until it is gone."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif said["method"] == "Network.requestWillBeSent":
                self.requests.append(said["params"]["request"])
            elif said["method"] in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.messages.append(json.dumps(said["params"]))

    async def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol and its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        said = await asyncio.wait_for(answer, SECONDS_MAX)
        assert "error" not in said, said
        return said["result"]

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        async with asyncio.timeout(SECONDS_MAX):
            while not await self.value(expression):  # noqa: ASYNC110 -- the page is another process
                await asyncio.sleep(0.02)

    async def choose_file(self, selector: str, path: Path) -> None:
        """Give a file to a file input, as a person does."""
        root = (await self.call("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.call("DOM.querySelector", nodeId=root, selector=selector))["nodeId"]
        await self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Page]:
    """A fresh browser with one empty page of the size of a phone."""
    program = chromium()
    assert program is not None, "asked for only where there is one"
    process = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(profile)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(each for each in await answer.json() if each["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                listening = asyncio.create_task(page.listen())
                for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
                    await page.call(f"{domain}.enable")
                yield page
        await listening
    finally:
        process.kill()
        await process.wait()


async def _port(profile: Path) -> int:
    """The port that the browser has chosen; it writes it down."""
    file = profile / "DevToolsActivePort"
    async with asyncio.timeout(SECONDS_MAX):
        while not file.exists() or len(file.read_text().splitlines()) < 2:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.02)
    return int(file.read_text().splitlines()[0])
