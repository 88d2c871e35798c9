"""What a network may expect of one card, written from ``ops/docs/WIRE.md`` alone: no code of the platform is
used, and none of it knows this.

``Book.hear`` takes messages in the order in which they took effect and says what each must be answered with;
what it then holds is what balance, transactions and events have to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from tests.conformance.peer import Document

EURO = "978"
DAY_MS = 86_400_000
HOLD_DAYS = 7
TOMBSTONE_DAYS = 30

Name = tuple[str, ...]


@dataclass
class Share:
    """``amount`` still counts toward ``day``; ``message`` asked for it."""

    day: str
    amount: int
    message: Name


@dataclass
class Sale:
    """One transaction. ``open`` while something of it is held; ``kept`` is what was held when that lapsed."""

    kind: Literal["purchase", "refund", "force_post", "verification"]
    day: str
    approved: int = 0
    declined: bool = False
    held: int = 0
    open: bool = False
    expires_ms: int = 0
    kept: int = 0
    was_held: bool = False
    ended: Literal["captured", "released"] | None = None
    cleared: int = 0
    reversed: int = 0
    raised: dict[Name, int] = field(default_factory=dict)
    """What is left of each of its increments."""
    shares: list[Share] = field(default_factory=list)
    """What was added after the first approval, oldest first."""
    message: Name = ()

    @property
    def lapsed(self) -> bool:
        return self.was_held and not self.open and self.ended is None

    @property
    def promised(self) -> int:
        """Of a refund: credited and not presented yet."""
        return max(0, self.approved - self.reversed - self.cleared)


@dataclass
class Said:
    """What a message is answered with."""

    code: str
    amount: int | None = None


def tags_of(document: Document) -> dict[str, str]:
    """DE48 as tags."""
    found: dict[str, str] = {}
    rest = document.get("48", "")
    while rest:
        length = int(rest[2:5])
        found[rest[:2]] = rest[5 : 5 + length]
        rest = rest[5 + length :]
    return found


class Book:
    """A card with ``posted`` cents of euro and no controls."""

    def __init__(self, posted: int) -> None:
        self.posted = posted
        self.sales: list[Sale] = []
        self.day = ""
        self.day_count = 0
        self.day_amount = 0
        self.events: Counter[str] = Counter()
        self._named: dict[Name, Sale] = {}
        self._lives: dict[Name, list[Sale]] = {}
        self._buried: dict[Name, int] = {}
        self._now_ms = 0

    @property
    def held(self) -> int:
        return sum(sale.held for sale in self.sales)

    def hear(self, document: Document, at_ms: int) -> Said:
        """One message takes effect."""
        self._now_ms = at_ms
        self._lapse(at_ms)
        today = datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
        day = max(self.day, today)
        function = document["t"][1:3]
        if function in ("40", "42"):
            return self._reverse(document)
        if function == "22":
            return self._present(document, day)
        if function == "12":
            return self._advise(document, day, at_ms)
        return self._authorize(document, day, at_ms)

    def _lapse(self, at_ms: int) -> None:
        for sale in self.sales:
            if sale.open and sale.expires_ms <= at_ms:
                sale.kept, sale.held, sale.open = sale.held, 0, False

    # --- names

    def _names(self, document: Document) -> list[Name]:
        """Its own names."""
        life = tags_of(document).get("04")
        own: list[Name] = [("message", document["11"], document["7"])]
        return [*own, ("life", life)] if life else own

    def _said(self, document: Document) -> tuple[Name | None, Name | None]:
        """The message in DE90 and the life in tag 04."""
        de90, life = document.get("90"), tags_of(document).get("04")
        message = ("message", de90[4:10], de90[10:20]) if de90 else None
        return message, ("life", life) if life else None

    def _life(self, life: Name | None) -> list[Sale]:
        """All transactions under the network's id, newest first."""
        return list(reversed(self._lives.get(life, []))) if life else []

    def _sale_of(self, life: Name | None) -> Sale | None:
        """The sale that a message about ``life`` means: what is open before what is over, what was posted
        without a request before what was declined; the newest of its kind."""
        sales = self._life(life)
        ranks: list[Callable[[Sale], bool]] = [
            lambda sale: sale.open,
            lambda sale: sale.lapsed,
            lambda sale: sale.kind == "purchase" and not sale.declined,
            lambda sale: sale.kind == "force_post",
            lambda sale: sale.kind == "purchase",
        ]
        return next((sale for rank in ranks for sale in sales if rank(sale)), None)

    def _refund_of(self, life: Name | None, amount: int) -> Sale | None:
        """The authorized refund that a credit of ``amount`` pays: not presented in full yet, and the nearest
        to it; the oldest first."""
        refunds = [sale for sale in reversed(self._life(life)) if sale.kind == "refund"]
        unpaid = [sale for sale in refunds if not sale.declined and sale.approved > sale.cleared]
        ranks: list[Callable[[Sale], bool]] = [
            lambda sale: sale.promised == amount,
            lambda sale: sale.promised > amount,
            lambda sale: sale.promised > 0,
            lambda sale: True,
        ]
        return next((sale for rank in ranks for sale in unpaid if rank(sale)), None)

    def _undone(self, message: Name | None, life: Name | None) -> Sale | None:
        """What a reversal is about: the message that it names; else the sale, and a refund only where no
        sale has the id."""
        named = self._named.get(message) if message else None
        return named or self._sale_of(life) or next(iter(self._life(life)), None)

    # --- reversals that came first

    def _bury(self, *names: Name | None) -> None:
        for name in names:
            if name and not self._is_buried(name):
                self._buried[name] = self._now_ms

    def _is_buried(self, *names: Name | None) -> bool:
        since = self._now_ms - TOMBSTONE_DAYS * DAY_MS
        return any(self._buried.get(name or (), since) > since for name in names)

    # --- the day

    def _count(self, day: str, amount: int, count: int) -> None:
        if day < self.day:
            return
        if day > self.day:
            self.day, self.day_count, self.day_amount = day, 0, 0
        self.day_count = max(0, self.day_count + count)
        self.day_amount = max(0, self.day_amount + amount)

    # --- 0100

    def _authorize(self, document: Document, day: str, at_ms: int) -> Said:
        self.events["authorization.decided"] += 1
        tags, amount = tags_of(document), int(document["4"])
        if document["3"].startswith("20"):
            return self._refund(document, day, amount)
        message, life = self._said(document)
        sale = self._sale_of(life) or self._named.get(message or ()) if tags.get("06") == "INC" else None
        if sale is not None and (sale.open or sale.lapsed):
            return self._increment(document, sale, day, at_ms, amount)
        said = self._judge(document, amount, 0)
        approved = said.amount or 0
        sale = Sale(
            "purchase" if amount else "verification", day, approved, said.code not in ("00", "10", "85")
        )
        buried = self._is_buried(*self._names(document))
        if buried and not approved:
            # Declined and reversed: the network's own approval of it, if one comes, is over too.
            sale.ended = "released"
        elif buried:
            sale.reversed, sale.ended = approved, "released"
            sale.was_held = True
            self.events["ledger.hold.released"] += 1
        elif approved:
            self._hold(sale, approved, at_ms)
            self._count(day, approved, 1)
        self.events["ledger.hold.created"] += bool(approved)
        self._open(document, sale)
        return said

    def _judge(self, document: Document, amount: int, promised: int) -> Said:
        """``promised`` has to be covered beside the amount."""
        if document["49"] != EURO:
            return Said("12")
        if not amount:
            return Said("85", 0)
        available = self.posted - self.held - promised
        partial = tags_of(document).get("07")
        if partial is None:
            return Said("00", amount) if amount <= available else Said("51")
        cap = int(partial[-12:]) if len(partial) >= 12 else amount
        granted = min(amount, cap, available)
        if granted <= 0:
            return Said("51")
        return Said("00" if granted == amount else "10", granted)

    def _increment(self, document: Document, sale: Sale, day: str, at_ms: int, delta: int) -> Said:
        own = self._names(document)[0]
        self._named[own] = sale
        sale.raised[own] = 0
        said = self._judge(document, delta, sale.kept if sale.lapsed else 0)
        if not said.amount:
            return said
        if self._is_buried(own):
            sale.approved += delta
            sale.reversed += delta
            return said
        if sale.lapsed:
            self._hold(sale, sale.kept + delta, at_ms)
        else:
            sale.held += delta
            sale.expires_ms = max(sale.expires_ms, at_ms + HOLD_DAYS * DAY_MS)
        sale.approved += delta
        sale.raised[own] = delta
        sale.shares.append(Share(day, delta, own))
        self._count(day, delta, 0)
        return said

    def _refund(self, document: Document, day: str, amount: int) -> Said:
        said = Said("00", amount) if document["49"] == EURO else Said("12")
        if not amount:
            said = Said("13")
        credited = said.amount or 0
        sale = Sale("refund", day, credited, said.code != "00")
        if credited and self._is_buried(*self._names(document)):
            sale.reversed = credited
        elif credited:
            self._post(credited)
        self._open(document, sale)
        return said

    def _open(self, document: Document, sale: Sale) -> None:
        self.sales.append(sale)
        sale.message, *lives = self._names(document)
        self._named[sale.message] = sale
        for life in lives:
            self._lives.setdefault(life, []).append(sale)

    def _hold(self, sale: Sale, amount: int, at_ms: int) -> None:
        sale.held, sale.open, sale.was_held, sale.ended = amount, True, True, None
        sale.expires_ms = at_ms + HOLD_DAYS * DAY_MS

    def _post(self, amount: int) -> None:
        self.posted += amount
        self.events["ledger.entry.posted"] += 1

    # --- 0400, 0420

    def _reverse(self, document: Document) -> Said:
        message, life = self._said(document)
        sale = self._undone(message, life)
        if sale is None:
            self._bury(message, life)
            return Said("00")
        if message is not None and message not in self._named:
            self._bury(message)
        remaining = int(document["95"][:12]) if "95" in document else 0
        if sale.kind == "refund" and not sale.declined:
            taken = sale.promised - min(remaining, sale.promised)
            if taken:
                self._post(-taken)
                sale.reversed += taken
            return Said("00")
        if message in sale.raised:
            self._give_back_increment(sale, message, remaining)
        elif sale.open:
            self._give_back(sale, min(remaining, sale.held))
        elif sale.lapsed:
            sale.kept = min(remaining, sale.kept)
            sale.ended = None if sale.kept else "released"
        elif sale.declined and sale.kind == "purchase" and not remaining:
            sale.ended = "released"
        return Said("00")

    def _give_back_increment(self, sale: Sale, message: Name, remaining: int) -> None:
        """That increment only, and no more of it than is left."""
        given = sale.raised[message] - min(remaining, sale.raised[message])
        sale.raised[message] -= given
        if sale.open:
            self._give_back(sale, max(0, sale.held - given), message)
        elif sale.lapsed and given:
            sale.kept = max(0, sale.kept - given)
            sale.ended = None if sale.kept else "released"

    def _give_back(self, sale: Sale, left: int, message: Name = ()) -> None:
        given = sale.held - left
        if not given:
            return
        whole = not left
        self._count_back(sale, given, -1 if whole and not sale.cleared else 0, message)
        sale.held, sale.reversed = left, sale.reversed + given
        if whole:
            sale.open, sale.ended = False, "released"
            self.events["ledger.hold.released"] += 1

    def _count_back(self, sale: Sale, given: int, count: int, message: Name = ()) -> None:
        """On the day on which it was counted: of the increment that is named, of the others from the newest,
        and the rest of the first approval."""
        newest_first = sale.shares[::-1]
        shares = sorted(newest_first, key=lambda share: share.message != message)
        for share in shares:
            part = min(given, share.amount)
            share.amount -= part
            given -= part
            self._count(share.day, -part, 0)
        self._count(sale.day, -given, count)

    # --- 0220

    def _present(self, document: Document, day: str) -> Said:
        amount, final = int(document["4"]), tags_of(document).get("09", "1") == "1"
        if not amount:
            return Said("13")
        if document["49"] != EURO:
            return Said("12")
        message, life = self._said(document)
        named = self._named.get(message or ())
        if document["3"].startswith("20"):
            return self._present_refund(document, self._refund_of(life, amount) or named, day, amount)
        sale = self._sale_of(life)
        fits = named is not None and named.kind == "purchase" and not named.declined
        if (
            (fits and any(named is each for each in self._life(life)))
            or sale is None
            or sale.kind != "purchase"
            or sale.declined
        ):
            sale = named or sale
        if sale is None or sale.kind != "purchase" or sale.declined:
            self._post(-amount)
            self._count(day, amount, 0)
            self._open(document, Sale("force_post", day, amount, cleared=amount))
            return Said("00")
        sale.cleared += amount
        if sale.open:
            sale.held = max(0, sale.held - amount)
            self.posted -= amount
            self.events["ledger.hold.captured"] += 1
            if final or not sale.held:
                sale.held, sale.open, sale.ended = 0, False, "captured"
            return Said("00")
        self._post(-amount)
        sale.kept = max(0, sale.kept - amount)
        if sale.ended is None and (final or not sale.kept):
            sale.ended = "captured"
        return Said("00")

    def _present_refund(self, document: Document, sale: Sale | None, day: str, amount: int) -> Said:
        if sale is None or sale.kind != "refund" or sale.declined:
            self._post(amount)
            self._open(document, Sale("refund", day, amount, cleared=amount))
        else:
            # What was presented in all is with the cardholder: what was taken back, or is more than was
            # asked for, comes now.
            sale.cleared += amount
            missing = max(0, sale.cleared - (sale.approved - sale.reversed))
            if missing:
                self._post(missing)
                again = min(missing, sale.reversed)
                sale.reversed -= again
                sale.approved += missing - again
        return Said("00")

    # --- 0120

    def _advise(self, document: Document, day: str, at_ms: int) -> Said:
        if document["49"] != EURO:
            return Said("12")
        amount = int(document["4"])
        true = amount if document.get("39", "00") in ("00", "10", "85") else 0
        message, life = self._said(document)
        sale = self._sale_of(life) or self._named.get(message or ())
        if sale is not None and sale.kind == "force_post":
            # Posted already: no more is held than was not.
            rest = max(0, true - sale.cleared)
            if rest:
                self._advise_unknown(document, day, at_ms, amount, rest)
        elif sale is None or sale.kind != "purchase":
            self._advise_unknown(document, day, at_ms, amount, true)
        elif sale.open:
            self._advise_held(sale, max(0, true - sale.cleared))
        elif sale.ended is None and true > sale.cleared:
            self._advise_unheld(document, sale, day, at_ms, true - sale.cleared)
        return Said("00")

    def _advise_unknown(self, document: Document, day: str, at_ms: int, amount: int, true: int) -> None:
        self.events["authorization.decided"] += 1
        declined = document.get("39", "00") not in ("00", "10", "85")
        sale = Sale("purchase" if amount else "verification", day, true, declined)
        if self._is_buried(*self._said(document)):
            sale.reversed, sale.ended = true, "released"
        elif true:
            self._hold(sale, true, at_ms)
            self._count(day, true, 1)
            self.events["ledger.hold.created"] += 1
        self._open(document, sale)

    def _advise_held(self, sale: Sale, true: int) -> None:
        delta = true - sale.held
        if delta > 0:
            self._count(sale.day, delta, 0)
        else:
            self._count_back(sale, -delta, 0 if true or sale.cleared else -1)
        sale.approved += max(0, delta)
        sale.reversed += max(0, -delta)
        sale.held = true
        if not true:
            sale.open, sale.ended = False, "released"
            self.events["ledger.hold.released"] += 1

    def _advise_unheld(self, document: Document, sale: Sale, day: str, at_ms: int, true: int) -> None:
        """Declined here, or lapsed, and the merchant was told yes. An advice replaces our decline."""
        self.events["authorization.decided"] += sale.declined
        delta = true - (sale.kept if sale.lapsed else 0)
        if not sale.lapsed:
            sale.day = day
            self._count(day, delta, 1)
        elif delta > 0:
            sale.shares.append(Share(day, delta, self._names(document)[0]))
            self._count(day, delta, 0)
        else:
            self._count_back(sale, -delta, 0)
        sale.approved += max(0, delta)
        sale.reversed += max(0, -delta)
        sale.declined = False
        self._hold(sale, true, at_ms)
        self.events["ledger.hold.created"] += 1

    def figures(self) -> Iterator[tuple[int, int, int, int]]:
        """Approved, held, cleared and reversed of each transaction, in the order of their beginning."""
        for sale in self.sales:
            yield sale.approved, sale.held, sale.cleared, sale.reversed
