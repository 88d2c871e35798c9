"""A greedy tenant in a process of its own (``loadtests.fairness``), which keeps many requests open.

Each worker sends one kind of request after the other: simulated spends, filtered lists, exports, changes of
many programmes, pictures of applicants. Beforehand the tenant has registered webhook endpoints and a decision
endpoint that accept connections and never answer, and endpoints with unknown names. Refused requests are
repeated after about a second.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from loadtests.generators.http import Api, Connection, HttpError
from loadtests.generators.rest import issue_cards
from loadtests.generators.workload import AMOUNT, SALE

CARDS: Final = 50
ENDPOINTS: Final = 10
"""Webhook endpoints, half with unknown names, half at the tarpit."""
SETUP_CONNECTIONS: Final = 16
REFUSED_PAUSE_SECONDS: Final = 1.0
"""Mean pause after a refusal, whatever its ``Retry-After`` demands."""
PICTURE_BYTES: Final = 2_000_000
PICTURES: Final = 8
"""Different pictures, made beforehand: making them must not take the servers' processor time."""
YEAR: Final = {"from": "2026-01-01T00:00:00Z", "to": "2026-12-31T00:00:00Z"}
LISTS: Final = (
    "/v1/transactions?kind=force_post",
    "/v1/transactions?status=reversed&limit=100",
    "/v1/events?limit=100",
    "/v1/cards?limit=100",
)
SHARES: Final = {"simulation": 40, "list": 30, "programme": 15, "picture": 10, "export": 5}
"""Percent of the workers that send each kind of request."""
OK: Final = range(200, 300)


class Greed:
    """The tenant. ``open``, then ``begin``, then ``end``."""

    def __init__(self) -> None:
        self._api: Api
        self._vision = ("", 0)
        self._programmes: list[str] = []
        self._cards: list[str] = []
        self._capture = ""
        self._pictures = [_picture() for _ in range(PICTURES)]
        self._workers: list[asyncio.Task[None]] = []
        self._tarpit: asyncio.Server | None = None
        self._held: list[asyncio.StreamWriter] = []
        self._answers = Counter[str]()
        self._tarpit_port = 0

    async def open(self, run: dict[str, str], client: dict[str, str]) -> int:
        """Create everything that the tenant uses except programmes; returns their number. ``run`` has the
        members of ``run.json`` with the addresses."""
        self._api = Api(run["base_url"], SETUP_CONNECTIONS)
        await self._api.open(client)
        vision = urlsplit(run["vision_url"])
        self._vision = (vision.hostname or "", vision.port or 80)
        self._tarpit = await asyncio.start_server(self._hold, "127.0.0.1", 0)
        self._tarpit_port = self._tarpit.sockets[0].getsockname()[1]
        self._cards = await issue_cards(self._api, CARDS)
        await self._register_endpoints(self._tarpit_port)
        await self._begin_capture()
        return 0

    async def create(self, programmes: int) -> int:
        """Create programmes until the tenant has ``programmes``; returns its number."""
        missing = itertools.count(len(self._programmes) + 1)
        await asyncio.gather(*(self._create(missing, programmes) for _ in range(SETUP_CONNECTIONS)))
        return len(self._programmes)

    async def begin(self, workers: int) -> None:
        """Keep ``workers`` requests open until ``end``."""
        kinds: dict[str, Callable[[], bytes]] = {
            "simulation": self._simulation,
            "list": self._list,
            "programme": self._programme,
            "picture": self._picture,
            "export": self._export,
        }
        for kind, count in shared_out(workers).items():
            for _ in range(count):
                self._workers.append(asyncio.create_task(self._work(kind, kinds[kind])))

    async def end(self) -> dict[str, int]:
        """Stop; returns the number of answers by kind and status."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        answers, self._answers = dict(self._answers), Counter()
        return answers

    # --- set-up ---------------------------------------------------------------------------------------------

    async def _hold(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept a connection and never answer."""
        self._held.append(writer)
        await asyncio.Event().wait()

    async def _register_endpoints(self, port: int) -> None:
        for number in range(ENDPOINTS):
            host = f"host-{number}.tarpit.invalid" if number % 2 else f"127.0.0.1:{port}"
            body = {"url": f"https://{host}/{number}", "event_types": ["*"]}
            # An installation may refuse unknown names at once.
            await self._attempt("POST", "/v1/webhook-endpoints", body)

    async def _create(self, numbers: Iterator[int], last: int) -> None:
        """Create the programmes with the next numbers; every tenth has a decision endpoint at the tarpit."""
        while (number := next(numbers)) <= last:
            body: dict[str, Any] = {"name": f"Programme {number}", "currency": "EUR"}
            if number % 10 == 0:
                body |= {
                    "decisioning": "delegated",
                    "decision_url": f"https://127.0.0.1:{self._tarpit_port}/{number}",
                }
            made = await self._attempt("POST", "/v1/programs", body)
            if made is not None:
                self._programmes.append(made["id"])

    async def _begin_capture(self) -> None:
        programme = (await self._api.call("GET", f"/v1/cards/{self._cards[0]}"))["programme_id"]
        person = {"given_name": "Ada", "family_name": "Byron", "email": "ada@example.com"}
        holder = await self._attempt("POST", "/v1/cardholders", {"programme_id": programme, **person})
        check = await self._attempt(
            "POST", "/v1/kyc/checks", {"cardholder_id": holder["id"], "flow_key": "full"}
        )
        session = await self._attempt(
            "POST",
            f"/v1/kyc/checks/{check['id']}/capture-sessions",
            {"kind": "flow", "document_type": "passport"},
        )
        self._capture = session["capture_session_token"]

    async def _attempt(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """The created object; ``None`` if the request stays refused."""
        for _ in range(50):
            try:
                return await self._api.call(method, path, body, status=201)
            except HttpError as refusal:
                if ": 429" not in str(refusal):
                    return None
                await asyncio.sleep(1.0)
        return None

    # --- requests -------------------------------------------------------------------------------------------

    async def _work(self, kind: str, message: Callable[[], bytes]) -> None:
        connect: Callable[[], Awaitable[Connection]] = (
            self._connect_vision if kind == "picture" else self._api.connect
        )
        connection = await connect()
        try:
            while True:
                try:
                    status = (await connection.request(message())).status
                except HttpError:
                    self._answers[f"{kind} cut"] += 1
                    connection = await connect()
                    continue
                self._answers[f"{kind} {status}"] += 1
                if status not in OK:
                    await asyncio.sleep(REFUSED_PAUSE_SECONDS * random.uniform(0.5, 1.5))
        finally:
            connection.close()

    async def _connect_vision(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, *self._vision)
        return connection

    def _simulation(self) -> bytes:
        names = ("mcc", "merchant_name", "merchant_country", "channel")
        amount = {"amount": AMOUNT, "currency": SALE["currency"]}
        body = {"card_id": random.choice(self._cards), "amount": amount} | {
            name: SALE[name] for name in names
        }
        return self._api.message("POST", "/v1/simulated-spends", msgspec.json.encode(body))

    def _list(self) -> bytes:
        return self._api.message("GET", random.choice(LISTS), b"")

    def _programme(self) -> bytes:
        path = f"/v1/programs/{random.choice(self._programmes)}"
        return self._api.message("PATCH", path, msgspec.json.encode({"name": f"Name {random.random()}"}))

    def _export(self) -> bytes:
        body = {"kind": random.choice(("transactions", "decisions")), "format": "csv", **YEAR}
        return self._api.message("POST", "/v1/exports", msgspec.json.encode(body))

    def _picture(self) -> bytes:
        content = random.choice(self._pictures)
        lines = (
            "POST /v1/vision/evidence/document_evidence HTTP/1.1",
            f"Host: {self._vision[0]}:{self._vision[1]}",
            f"Content-Length: {len(content)}",
            "Content-Type: image/jpeg",
            f"Capture-Session-Token: {self._capture}",
        )
        return "\r\n".join((*lines, "", "")).encode() + content


def _picture() -> bytes:
    """The frame of a JPEG file with random content."""
    return b"\xff\xd8\xff\xe0" + random.randbytes(PICTURE_BYTES) + b"\xff\xd9"


def shared_out(workers: int) -> dict[str, int]:
    """The number of workers of each kind, at least one each."""
    return {kind: max(1, workers * percent // 100) for kind, percent in SHARES.items()}


def summary(answers: dict[str, int], kinds: Sequence[str] = tuple(SHARES)) -> str:
    """One line: accepted and other answers of each kind."""
    parts = []
    for kind in kinds:
        found = {status: count for status, count in answers.items() if status.startswith(f"{kind} ")}
        accepted = sum(count for status, count in found.items() if status.partition(" ")[2].startswith("2"))
        parts.append(f"{kind} {accepted:,} accepted, {sum(found.values()) - accepted:,} not")
    return "; ".join(parts)


async def main() -> None:
    """Serve the requests of ``loadtests.harness.children.Helper``: one JSON object a line, until the pipe
    closes."""
    greed = Greed()
    handlers: dict[str, Callable[..., Awaitable[Any]]] = {
        "open": greed.open,
        "create": greed.create,
        "begin": greed.begin,
        "end": greed.end,
    }
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    while line := await reader.readline():
        request = msgspec.json.decode(line)
        try:
            answer = {"answer": await handlers[request["do"]](**request["with"])}
        except HttpError as failure:
            answer = {"error": str(failure)}
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())
