"""An acquirer built on pyiso8583, without the platform's code, with many open messages on one connection."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from datetime import UTC, datetime
from typing import Any, Self

from tests.support.conformance.peer import Document, Network, decode, encode, identity

SECONDS_MAX = 60.0
MERCHANT = "Corner shop".ljust(23) + "Dublin".ljust(15) + "IE"

_serials = itertools.count(1)


def purchase(plastic: dict[str, str], amount: str = "1.00", /, **changes: str | None) -> Document:
    """An 0100 in EUR for the card ``plastic`` with a new STAN; ``de18="7995"`` replaces a field, ``None``
    removes it."""
    now = datetime.now(UTC)
    stan = f"{next(_serials) % 1_000_000:06d}"
    document: dict[str, Any] = {
        "t": "0100",
        "2": plastic["pan"],
        "3": "000000",
        "4": f"{int(amount.replace('.', '')):012d}",
        "7": now.strftime("%m%d%H%M%S"),
        "11": stan,
        "14": plastic["expiry"],
        "18": "5411",
        "22": "051",
        "25": "00",
        "32": "515151",
        "37": f"{now.year % 10}{now.timetuple().tm_yday:03d}{now.hour:02d}{stan}",
        "41": "TERM0001",
        "42": "MERCHANT0000001",
        "43": MERCHANT,
        "49": "978",
    }
    document |= {name.removeprefix("de"): value for name, value in changes.items()}
    return {number: value for number, value in document.items() if value is not None}


def follow_up(mti: str, first: Document, amount: str | None = None, /, **changes: str | None) -> Document:
    """A follow-up message about ``first``, named in DE90, with a new STAN."""
    now = datetime.now(UTC)
    stan = f"{next(_serials) % 1_000_000:06d}"
    original = f"0100{first['11']}{first['7']}{first['32']:0>11}{0:011d}"
    document: dict[str, Any] = first | {"t": mti, "7": now.strftime("%m%d%H%M%S"), "11": stan, "90": original}
    # A reversal repeats the reference number of its original.
    if mti[:3] not in {"040", "042"}:
        document["37"] = first["37"][:-6] + stan
    if amount is not None:
        document["4"] = f"{int(amount.replace('.', '')):012d}"
    document |= {name.removeprefix("de"): value for name, value in changes.items()}
    return {number: value for number, value in document.items() if value is not None}


def private_tags(**tags: str) -> str:
    """The value of DE48; ``private_tags(t01="123")`` carries a CVV2."""
    return "".join(f"{name[1:]}{len(value):03d}{value}" for name, value in tags.items())


def authorization_id(answer: Document) -> str:
    """Tag 10 of an answer's DE48: the authorization's id."""
    text = answer["48"]
    assert text[:5] == "10036", text
    return text[5:41]


class Acquirer:
    """One connection. It matches answers by DE32, DE11, DE7 and DE37, as networks do."""

    def __init__(self, address: dict[str, Any]) -> None:
        self._address = (address["host"], address["port"])
        self._waiting: dict[tuple[str | None, ...], deque[asyncio.Future[bytes]]] = {}
        self._network: Network | None = None
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._network = await Network.connect(self._address)
        self._reader = asyncio.create_task(self._read(self._network))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._network is not None
        assert self._reader is not None
        self._reader.cancel()
        await self._network.__aexit__()

    async def exchange_bytes(self, document: Document) -> bytes:
        """Send a message and return the answer's bytes. Raises ConnectionError if the connection ends
        first."""
        assert self._network is not None
        assert self._reader is not None
        if self._reader.done():
            raise ConnectionResetError
        answer = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(identity(document), deque()).append(answer)
        self._network.send_bytes(encode(document))
        async with asyncio.timeout(SECONDS_MAX):
            payload: bytes = await answer
            return payload

    async def exchange(self, document: Document) -> Document:
        """Send a message and return the decoded answer."""
        return decode(await self.exchange_bytes(document))

    async def _read(self, network: Network) -> None:
        try:
            while True:
                length = int.from_bytes(await network.reader.readexactly(2), "big")
                payload = await network.reader.readexactly(length)
                answer = self._waiting[identity(decode(payload))].popleft()
                if not answer.done():  # the caller may have been cancelled
                    answer.set_result(payload)
        except (asyncio.IncompleteReadError, ConnectionError):
            for answer in itertools.chain.from_iterable(self._waiting.values()):
                if not answer.done():
                    answer.set_exception(ConnectionResetError())
