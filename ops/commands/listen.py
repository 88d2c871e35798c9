"""``stanchion listen``: a webhook receiver on this machine that registers an endpoint, verifies deliveries
and prints them.

It answers 200, fails on purpose (``--fail``), or forwards deliveries to a program under development
(``--forward-to``). It removes its endpoint when it ends, and at its start the endpoints of killed listeners.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
from rich.console import Console
from rich.text import Text

from ops.embedded.local_https import Answer, Request, local_receiver, require_trust
from ops.supervision.installation import RUN_FILE
from stanchion import SIGNATURE_HEADER, Client, SignatureError, verify_signature

BROKEN_STATUS: Final = 500
UNREACHABLE_STATUS: Final = 502
FORWARD_SECONDS: Final = 9.0
"""Shorter than a delivery's timeout, so that the sender gets the reason as a status."""

_DESCRIPTION: Final = "stanchion listen, process {pid}"
_OURS: Final = re.compile(_DESCRIPTION.format(pid=r"(\d+)"))


class Listener:
    """Answers deliveries and prints them on ``console``.

    ``secrets`` may grow while it serves: the first delivery can arrive before the endpoint's secret is known.
    ``fail``: the number of deliveries to answer with 500.
    """

    def __init__(
        self,
        console: Console,
        http: httpx2.AsyncClient,
        *,
        fail: int = 0,
        forward_to: str | None = None,
        raw: bool = False,
    ) -> None:
        self.secrets: list[str] = []
        self.ready = asyncio.Event()
        self._console = console
        self._failures_left = fail
        self._http = http
        self._forward_to = forward_to
        self._raw = raw
        self._times: Counter[str] = Counter()

    async def handle(self, request: Request) -> Answer:
        """The answer to one delivery."""
        await self.ready.wait()
        try:
            verify_signature(request.headers.get(SIGNATURE_HEADER.lower()), request.body, self.secrets)
        except SignatureError as refused:
            self._console.print(Text(f"refused: {refused}", style="red"))
            return Answer(400)
        event = json.loads(request.body)
        self._times[event["id"]] += 1
        # Another delivery of the same event may arrive during the forwarding.
        number = self._times[event["id"]]
        answer = await self._answer(request)
        self._print(event, request.body, answer, number)
        return answer

    async def _answer(self, request: Request) -> Answer:
        if self._failures_left > 0:
            self._failures_left -= 1
            return Answer(BROKEN_STATUS)
        if self._forward_to is None:
            return Answer(200)
        forwarded = {
            name: value
            for name, value in request.headers.items()
            if name in {"content-type", SIGNATURE_HEADER.lower()}
        }
        try:
            answered = await self._http.post(self._forward_to, content=request.body, headers=forwarded)
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return Answer(UNREACHABLE_STATUS)
        return Answer(answered.status_code)

    def _print(self, event: dict[str, Any], body: bytes, answer: Answer, number: int) -> None:
        if self._raw:
            self._console.out(body.decode(), highlight=False)
            return
        line = Text(f"{time.strftime('%H:%M:%S')}  ", style="dim")
        line.append(event["type"], style="bold")
        line.append(f"  signature verified, answered {answer.status}", style="none")
        if number > 1:
            line.append(f"  (delivery {number} of this event)", style="yellow")
        self._console.print(line)
        for name, value in event["data"].items():
            # JSON escapes control characters in merchants' texts.
            shown = json.dumps(value, ensure_ascii=False)
            shown = shown[1:-1] if isinstance(value, str) else shown
            self._console.print(Text(f"          {name}: {shown}", style="dim"))


def listen(
    var_dir: Path,
    *,
    types: Sequence[str],
    port: int = 0,
    fail: int = 0,
    forward_to: str | None = None,
    raw: bool = False,
) -> None:
    """Receive the events of the installation in ``var_dir`` until SIGINT or SIGTERM.

    Raises LocalHttpsError or StanchionError, each with one line.
    """
    run_file = var_dir / RUN_FILE
    with Client.of_installation(run_file) as client:
        require_trust(var_dir, json.loads(run_file.read_bytes())["egress_ca_file"])
        asyncio.run(_receive(client, var_dir, types, port, fail, forward_to, raw=raw))


async def _receive(
    client: Client,
    var_dir: Path,
    types: Sequence[str],
    port: int,
    fail: int,
    forward_to: str | None,
    *,
    raw: bool,
) -> None:
    console = Console(soft_wrap=True, highlight=False)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # The target is on this machine, so proxies are ignored.
    async with httpx2.AsyncClient(timeout=FORWARD_SECONDS, trust_env=False) as http:
        listener = Listener(console, http, fail=fail, forward_to=forward_to, raw=raw)
        async with local_receiver(var_dir, listener.handle, port) as url:
            await asyncio.to_thread(remove_orphaned_endpoints, client)
            endpoint = await asyncio.to_thread(register, client, url, types)
            listener.secrets.append(endpoint["secret"])
            listener.ready.set()
            try:
                if not raw:
                    _greet(console, url, types, endpoint)
                await stop.wait()
            finally:
                # Removing the endpoint also ends waiting deliveries: none is sent to the port once another
                # program can get it.
                await asyncio.to_thread(client.webhook_endpoints.delete, endpoint["id"])


def register(client: Client, url: str, types: Sequence[str]) -> Any:
    """Register the endpoint of this process."""
    return client.webhook_endpoints.create(
        url=url, event_types=list(types), description=_DESCRIPTION.format(pid=os.getpid())
    )


def remove_orphaned_endpoints(client: Client, alive: Callable[[int], bool] | None = None) -> int:
    """Remove the endpoints of listeners whose process has ended; returns their number."""
    removed = 0
    for endpoint in list(client.webhook_endpoints.list()):
        ours = _OURS.fullmatch(endpoint["description"] or "")
        if ours is not None and not (alive or _is_alive)(int(ours[1])):
            client.webhook_endpoints.delete(endpoint["id"])
            removed += 1
    return removed


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's process, so it exists
    return True


def _greet(console: Console, url: str, types: Sequence[str], endpoint: Any) -> None:
    wanted = "all events" if list(types) == ["*"] else ", ".join(types)
    console.print(f"Listening on {url} for {wanted}; endpoint {endpoint['id']}. Ctrl-C stops and removes it.")
