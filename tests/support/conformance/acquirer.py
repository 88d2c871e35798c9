"""An acquirer that sends messages about one card, and reads its balance, transactions and events."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import asyncpg

from actors.network.card_secrets import CardSecrets
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.conformance.peer import Document, Network, identity

_serials = itertools.count(1)
_MERCHANT = "Corner shop".ljust(23) + "Dublin".ljust(15) + "IE"


def minor(amount: str) -> str:
    """DE4 of a decimal amount."""
    return f"{int(amount.replace('.', '')):012d}"


class Acquirer:
    """One card and one connection. ``message`` builds a message, ``exchange`` sends it and returns DE39."""

    def __init__(
        self, installation: Installation, caller: Caller, card: Any, pan: str, network: Network
    ) -> None:
        self.installation = installation
        self.caller = caller
        self.card = card
        self.network = network
        self._pan = pan
        self._arns: dict[str, str] = {}

    def message(self, mti: str, amount: str, sale: str | None = None, **fields: str | None) -> Document:
        """A message about ``sale`` (the network's transaction id); ``t08="…"`` sets a DE48 tag,
        ``de95="…"`` a field."""
        now, serial = datetime.now(UTC), next(_serials) % 1_000_000
        stan = f"{serial:06d}"
        tags = {"t04": sale} | {name: value for name, value in fields.items() if name.startswith("t")}
        document: dict[str, str | None] = {
            "t": mti,
            "2": self._pan,
            "3": "000000",
            "4": minor(amount),
            "7": now.strftime("%m%d%H%M%S"),
            "11": stan,
            "18": "5411",
            "22": "051",
            "32": "515151",
            "37": f"{now.year % 10}{now.timetuple().tm_yday:03d}{now.hour:02d}{stan}",
            "43": _MERCHANT,
            "48": "".join(f"{tag[1:]}{len(text):03d}{text}" for tag, text in tags.items() if text) or None,
            "49": "978",
        }
        document |= {name[2:]: value for name, value in fields.items() if name.startswith("de")}
        return {number: value for number, value in document.items() if value is not None}

    async def exchange(self, document: Document) -> str:
        """Send one message. Returns DE39 of the answer."""
        return (await self.network.ask(document))["39"]

    async def exchange_all(self, *documents: Document) -> list[str]:
        """Send all messages, then read the answers. Returns DE39 of each."""
        for document in documents:
            self.network.send(document)
        answers = [await self.network.receive() for _ in documents]
        by_identity = {identity(answer): answer["39"] for answer in answers}
        return [by_identity[identity(document)] for document in documents]

    async def authorize(self, amount: str, sale: str | None = None, **fields: str | None) -> str:
        """Send an 0100."""
        return await self.exchange(self.message("0100", amount, sale, **fields))

    async def increment(self, delta: str, sale: str) -> str:
        """Send an 0100 with operation INC."""
        return await self.exchange(self.message("0100", delta, sale, t06="INC"))

    async def reverse(self, sale: str, remaining: str | None = None, mti: str = "0400") -> str:
        """Send an 0400 or 0420 with the network's id; ``remaining`` makes it partial."""
        de95 = None if remaining is None else minor(remaining) + "0" * 30
        return await self.exchange(self.message(mti, "0.00", sale, de95=de95))

    def presentment(
        self,
        amount: str,
        sale: str,
        sequence: int = 1,
        *,
        final: bool = True,
        arn: str = "",
        refund: bool = False,
    ) -> Document:
        """An 0220."""
        reference = (arn or self._arn(sale)) + f"{sequence:02d}"
        return self.message(
            "0220",
            amount,
            sale,
            t08=reference,
            t09="1" if final else "0",
            de3="200000" if refund else "000000",
        )

    def _arn(self, sale: str) -> str:
        """The acquirer reference number of a sale."""
        return self._arns.setdefault(sale, f"{next(_serials):023d}")

    async def present(self, amount: str, sale: str, sequence: int = 1, **options: Any) -> str:
        """Send an 0220."""
        return await self.exchange(self.presentment(amount, sale, sequence, **options))

    async def advise(self, amount: str, sale: str) -> str:
        """Send an 0120 that reports an approval."""
        return await self.exchange(self.message("0120", amount, sale, de39="00"))

    async def balance(self) -> tuple[str, str, str]:
        """Posted, held and available, from the owner."""
        balance = await self.caller.get(f"/v1/cards/{self.card['id']}/balance")
        return balance["posted"], balance["held"], balance["available"]

    async def transactions(self) -> list[Any]:
        """All transactions of the card, oldest first."""
        page = await self.caller.get(f"/v1/transactions?card_id={self.card['id']}")
        return list(reversed(page["data"]))

    async def transaction(self, sale: str) -> Any:
        """The transaction with the network's id ``sale``, with its history."""
        (found,) = [each for each in await self.transactions() if each["network"]["network_txn_id"] == sale]
        return await self.caller.get(f"/v1/transactions/{found['id']}")

    async def events(self) -> Counter[str]:
        """The number of events of each type about authorizations and the ledger."""
        page = await self.caller.get("/v1/events?limit=100")
        money = ("authorization.", "ledger.")
        return Counter(each["type"] for each in page["data"] if each["type"].startswith(money))


async def plain_number(installation: Installation, card_id: str) -> str:
    """The decrypted card number."""
    connection = await asyncpg.connect(installation.services.settings.database_dsn)
    try:
        sealed = await connection.fetchval("SELECT sealed FROM pans WHERE card_id = $1", card_id)
    finally:
        await connection.close()
    return "".join(CardSecrets(installation.services.vault).open(card_id, sealed))
