"""An independent model of one card, written from ``ops/docs/WIRE.md`` alone. It uses no code of the platform.

``CardModel.apply`` takes messages in the order in which they took effect and returns the expected answer of
each. The state of the model is the expected balance, transactions and events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from tests.support.conformance.peer import Document

EURO = "978"
DAY_MS = 86_400_000
HOLD_DAYS = 7
TOMBSTONE_DAYS = 30

Reference = tuple[str, ...]


@dataclass
class Share:
    """A part of a sale that counts towards ``day``, added by ``message``."""

    day: str
    amount: int
    message: Reference


@dataclass
class Sale:
    """One transaction. ``open``: it has a hold. ``lapsed_amount``: the amount of its hold when that
    lapsed."""

    kind: Literal["purchase", "refund", "force_post", "verification"]
    day: str
    approved: int = 0
    declined: bool = False
    held: int = 0
    open: bool = False
    expires_ms: int = 0
    lapsed_amount: int = 0
    was_held: bool = False
    ended: Literal["captured", "released"] | None = None
    cleared: int = 0
    reversed: int = 0
    increments: dict[Reference, int] = field(default_factory=dict)
    """The amount of each increment that was not reversed, by message."""
    shares: list[Share] = field(default_factory=list)
    """The amounts added after the first approval, oldest first."""
    message: Reference = ()

    @property
    def lapsed(self) -> bool:
        return self.was_held and not self.open and self.ended is None

    @property
    def unpresented(self) -> int:
        """The amount of a refund that was credited and not presented."""
        return max(0, self.approved - self.reversed - self.cleared)


@dataclass
class ExpectedAnswer:
    """Response code and approved amount."""

    code: str
    amount: int | None = None


def tags_of(document: Document) -> dict[str, str]:
    """The tags of DE48."""
    found: dict[str, str] = {}
    rest = document.get("48", "")
    while rest:
        length = int(rest[2:5])
        found[rest[:2]] = rest[5 : 5 + length]
        rest = rest[5 + length :]
    return found


class CardModel:
    """A card with a balance of ``posted`` euro cents and no controls."""

    def __init__(self, posted: int) -> None:
        self.posted = posted
        self.sales: list[Sale] = []
        self.day = ""
        self.day_count = 0
        self.day_amount = 0
        self.events: Counter[str] = Counter()
        self._by_message: dict[Reference, Sale] = {}
        self._by_transaction: dict[Reference, list[Sale]] = {}
        self._tombstones: dict[Reference, int] = {}
        self._now_ms = 0

    @property
    def held(self) -> int:
        return sum(sale.held for sale in self.sales)

    def apply(self, document: Document, at_ms: int) -> ExpectedAnswer:
        """Apply one message. Returns its expected answer."""
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
                sale.lapsed_amount, sale.held, sale.open = sale.held, 0, False

    # --- references

    def _own_references(self, document: Document) -> list[Reference]:
        """The references by which later messages name this one."""
        transaction_id = tags_of(document).get("04")
        own: list[Reference] = [("message", document["11"], document["7"])]
        return [*own, ("transaction", transaction_id)] if transaction_id else own

    def _references(self, document: Document) -> tuple[Reference | None, Reference | None]:
        """The message in DE90 and the network's transaction id in tag 04."""
        de90, transaction_id = document.get("90"), tags_of(document).get("04")
        message = ("message", de90[4:10], de90[10:20]) if de90 else None
        return message, ("transaction", transaction_id) if transaction_id else None

    def _transaction_sales(self, transaction_id: Reference | None) -> list[Sale]:
        """All transactions with the network's id, newest first."""
        return list(reversed(self._by_transaction.get(transaction_id, []))) if transaction_id else []

    def _sale_of(self, transaction_id: Reference | None) -> Sale | None:
        """The sale that a message with this id refers to. Order: open, lapsed, other approved purchases,
        force posts, declined purchases; the newest of each kind first."""
        sales = self._transaction_sales(transaction_id)
        ranks: list[Callable[[Sale], bool]] = [
            lambda sale: sale.open,
            lambda sale: sale.lapsed,
            lambda sale: sale.kind == "purchase" and not sale.declined,
            lambda sale: sale.kind == "force_post",
            lambda sale: sale.kind == "purchase",
        ]
        return next((sale for rank in ranks for sale in sales if rank(sale)), None)

    def _refund_of(self, transaction_id: Reference | None, amount: int) -> Sale | None:
        """The authorized refund that a credit of ``amount`` presents: not presented in full, with the closest
        amount, the oldest first."""
        refunds = [
            sale for sale in reversed(self._transaction_sales(transaction_id)) if sale.kind == "refund"
        ]
        unpaid = [sale for sale in refunds if not sale.declined and sale.approved > sale.cleared]
        ranks: list[Callable[[Sale], bool]] = [
            lambda sale: sale.unpresented == amount,
            lambda sale: sale.unpresented > amount,
            lambda sale: sale.unpresented > 0,
            lambda sale: True,
        ]
        return next((sale for rank in ranks for sale in unpaid if rank(sale)), None)

    def _reversed_sale(self, message: Reference | None, transaction_id: Reference | None) -> Sale | None:
        """The transaction that a reversal refers to: that of the named message; otherwise the sale with the
        id; otherwise a refund with the id."""
        named = self._by_message.get(message) if message else None
        return (
            named
            or self._sale_of(transaction_id)
            or next(iter(self._transaction_sales(transaction_id)), None)
        )

    # --- reversals before their originals

    def _add_tombstones(self, *names: Reference | None) -> None:
        for name in names:
            if name and not self._has_tombstone(name):
                self._tombstones[name] = self._now_ms

    def _has_tombstone(self, *names: Reference | None) -> bool:
        since = self._now_ms - TOMBSTONE_DAYS * DAY_MS
        return any(self._tombstones.get(name or (), since) > since for name in names)

    # --- counters of the day

    def _count(self, day: str, amount: int, count: int) -> None:
        if day < self.day:
            return
        if day > self.day:
            self.day, self.day_count, self.day_amount = day, 0, 0
        self.day_count = max(0, self.day_count + count)
        self.day_amount = max(0, self.day_amount + amount)

    # --- 0100

    def _authorize(self, document: Document, day: str, at_ms: int) -> ExpectedAnswer:
        self.events["authorization.decided"] += 1
        tags, amount = tags_of(document), int(document["4"])
        if document["3"].startswith("20"):
            return self._refund(document, day, amount)
        message, transaction_id = self._references(document)
        sale = (
            self._sale_of(transaction_id) or self._by_message.get(message or ())
            if tags.get("06") == "INC"
            else None
        )
        if sale is not None and (sale.open or sale.lapsed):
            return self._increment(document, sale, day, at_ms, amount)
        expected = self._judge(document, amount, 0)
        approved = expected.amount or 0
        sale = Sale(
            "purchase" if amount else "verification", day, approved, expected.code not in ("00", "10", "85")
        )
        reversed_before = self._has_tombstone(*self._own_references(document))
        if reversed_before and not approved:
            # Declined and reversed: a later approval by the network itself is reversed, too.
            sale.ended = "released"
        elif reversed_before:
            sale.reversed, sale.ended = approved, "released"
            sale.was_held = True
            self.events["ledger.hold.released"] += 1
        elif approved:
            self._hold(sale, approved, at_ms)
            self._count(day, approved, 1)
        self.events["ledger.hold.created"] += bool(approved)
        self._open(document, sale)
        return expected

    def _judge(self, document: Document, amount: int, lapsed_amount: int) -> ExpectedAnswer:
        """``lapsed_amount``: must be covered in addition to ``amount``."""
        if document["49"] != EURO:
            return ExpectedAnswer("12")
        if not amount:
            return ExpectedAnswer("85", 0)
        available = self.posted - self.held - lapsed_amount
        partial = tags_of(document).get("07")
        if partial is None:
            return ExpectedAnswer("00", amount) if amount <= available else ExpectedAnswer("51")
        cap = int(partial[-12:]) if len(partial) >= 12 else amount
        granted = min(amount, cap, available)
        if granted <= 0:
            return ExpectedAnswer("51")
        return ExpectedAnswer("00" if granted == amount else "10", granted)

    def _increment(self, document: Document, sale: Sale, day: str, at_ms: int, delta: int) -> ExpectedAnswer:
        own = self._own_references(document)[0]
        self._by_message[own] = sale
        sale.increments[own] = 0
        expected = self._judge(document, delta, sale.lapsed_amount if sale.lapsed else 0)
        if not expected.amount:
            return expected
        if self._has_tombstone(own):
            sale.approved += delta
            sale.reversed += delta
            return expected
        if sale.lapsed:
            self._hold(sale, sale.lapsed_amount + delta, at_ms)
        else:
            sale.held += delta
            sale.expires_ms = max(sale.expires_ms, at_ms + HOLD_DAYS * DAY_MS)
        sale.approved += delta
        sale.increments[own] = delta
        sale.shares.append(Share(day, delta, own))
        self._count(day, delta, 0)
        return expected

    def _refund(self, document: Document, day: str, amount: int) -> ExpectedAnswer:
        expected = ExpectedAnswer("00", amount) if document["49"] == EURO else ExpectedAnswer("12")
        if not amount:
            expected = ExpectedAnswer("13")
        credited = expected.amount or 0
        sale = Sale("refund", day, credited, expected.code != "00")
        if credited and self._has_tombstone(*self._own_references(document)):
            sale.reversed = credited
        elif credited:
            self._post(credited)
        self._open(document, sale)
        return expected

    def _open(self, document: Document, sale: Sale) -> None:
        self.sales.append(sale)
        sale.message, *lives = self._own_references(document)
        self._by_message[sale.message] = sale
        for transaction_id in lives:
            self._by_transaction.setdefault(transaction_id, []).append(sale)

    def _hold(self, sale: Sale, amount: int, at_ms: int) -> None:
        sale.held, sale.open, sale.was_held, sale.ended = amount, True, True, None
        sale.expires_ms = at_ms + HOLD_DAYS * DAY_MS

    def _post(self, amount: int) -> None:
        self.posted += amount
        self.events["ledger.entry.posted"] += 1

    # --- 0400, 0420

    def _reverse(self, document: Document) -> ExpectedAnswer:
        message, transaction_id = self._references(document)
        sale = self._reversed_sale(message, transaction_id)
        if sale is None:
            self._add_tombstones(message, transaction_id)
            return ExpectedAnswer("00")
        if message is not None and message not in self._by_message:
            self._add_tombstones(message)
        remaining = int(document["95"][:12]) if "95" in document else 0
        if sale.kind == "refund" and not sale.declined:
            debited = sale.unpresented - min(remaining, sale.unpresented)
            if debited:
                self._post(-debited)
                sale.reversed += debited
            return ExpectedAnswer("00")
        if message in sale.increments:
            self._release_increment(sale, message, remaining)
        elif sale.open:
            self._release(sale, min(remaining, sale.held))
        elif sale.lapsed:
            sale.lapsed_amount = min(remaining, sale.lapsed_amount)
            sale.ended = None if sale.lapsed_amount else "released"
        elif sale.declined and sale.kind == "purchase" and not remaining:
            sale.ended = "released"
        return ExpectedAnswer("00")

    def _release_increment(self, sale: Sale, message: Reference, remaining: int) -> None:
        """Reverse one increment, up to the amount that was not reversed."""
        released = sale.increments[message] - min(remaining, sale.increments[message])
        sale.increments[message] -= released
        if sale.open:
            self._release(sale, max(0, sale.held - released), message)
        elif sale.lapsed and released:
            sale.lapsed_amount = max(0, sale.lapsed_amount - released)
            sale.ended = None if sale.lapsed_amount else "released"

    def _release(self, sale: Sale, left: int, message: Reference = ()) -> None:
        released = sale.held - left
        if not released:
            return
        whole = not left
        self._uncount(sale, released, -1 if whole and not sale.cleared else 0, message)
        sale.held, sale.reversed = left, sale.reversed + released
        if whole:
            sale.open, sale.ended = False, "released"
            self.events["ledger.hold.released"] += 1

    def _uncount(self, sale: Sale, released: int, count: int, message: Reference = ()) -> None:
        """Uncount an amount on the day on which it was counted: first the named increment, then the others
        from the newest, then the first approval."""
        newest_first = sale.shares[::-1]
        shares = sorted(newest_first, key=lambda share: share.message != message)
        for share in shares:
            part = min(released, share.amount)
            share.amount -= part
            released -= part
            self._count(share.day, -part, 0)
        self._count(sale.day, -released, count)

    # --- 0220

    def _present(self, document: Document, day: str) -> ExpectedAnswer:
        amount, final = int(document["4"]), tags_of(document).get("09", "1") == "1"
        if not amount:
            return ExpectedAnswer("13")
        if document["49"] != EURO:
            return ExpectedAnswer("12")
        message, transaction_id = self._references(document)
        named = self._by_message.get(message or ())
        if document["3"].startswith("20"):
            return self._present_refund(
                document, self._refund_of(transaction_id, amount) or named, day, amount
            )
        sale = self._sale_of(transaction_id)
        fits = named is not None and named.kind == "purchase" and not named.declined
        if (
            (fits and any(named is each for each in self._transaction_sales(transaction_id)))
            or sale is None
            or sale.kind != "purchase"
            or sale.declined
        ):
            sale = named or sale
        if sale is None or sale.kind != "purchase" or sale.declined:
            self._post(-amount)
            self._count(day, amount, 0)
            self._open(document, Sale("force_post", day, amount, cleared=amount))
            return ExpectedAnswer("00")
        sale.cleared += amount
        if sale.open:
            sale.held = max(0, sale.held - amount)
            self.posted -= amount
            self.events["ledger.hold.captured"] += 1
            if final or not sale.held:
                sale.held, sale.open, sale.ended = 0, False, "captured"
            return ExpectedAnswer("00")
        self._post(-amount)
        sale.lapsed_amount = max(0, sale.lapsed_amount - amount)
        if sale.ended is None and (final or not sale.lapsed_amount):
            sale.ended = "captured"
        return ExpectedAnswer("00")

    def _present_refund(self, document: Document, sale: Sale | None, day: str, amount: int) -> ExpectedAnswer:
        if sale is None or sale.kind != "refund" or sale.declined:
            self._post(amount)
            self._open(document, Sale("refund", day, amount, cleared=amount))
        else:
            # The cardholder has the sum of all presentments: credit the amount that was reversed before, or
            # that exceeds the authorization.
            sale.cleared += amount
            missing = max(0, sale.cleared - (sale.approved - sale.reversed))
            if missing:
                self._post(missing)
                again = min(missing, sale.reversed)
                sale.reversed -= again
                sale.approved += missing - again
        return ExpectedAnswer("00")

    # --- 0120

    def _advise(self, document: Document, day: str, at_ms: int) -> ExpectedAnswer:
        if document["49"] != EURO:
            return ExpectedAnswer("12")
        amount = int(document["4"])
        final_amount = amount if document.get("39", "00") in ("00", "10", "85") else 0
        message, transaction_id = self._references(document)
        sale = self._sale_of(transaction_id) or self._by_message.get(message or ())
        if sale is not None and sale.kind == "force_post":
            # Hold only the amount that was not posted.
            rest = max(0, final_amount - sale.cleared)
            if rest:
                self._advise_unknown(document, day, at_ms, amount, rest)
        elif sale is None or sale.kind != "purchase":
            self._advise_unknown(document, day, at_ms, amount, final_amount)
        elif sale.open:
            self._advise_held(sale, max(0, final_amount - sale.cleared))
        elif sale.ended is None and final_amount > sale.cleared:
            self._advise_unheld(document, sale, day, at_ms, final_amount - sale.cleared)
        return ExpectedAnswer("00")

    def _advise_unknown(
        self, document: Document, day: str, at_ms: int, amount: int, final_amount: int
    ) -> None:
        self.events["authorization.decided"] += 1
        declined = document.get("39", "00") not in ("00", "10", "85")
        sale = Sale("purchase" if amount else "verification", day, final_amount, declined)
        if self._has_tombstone(*self._references(document)):
            sale.reversed, sale.ended = final_amount, "released"
        elif final_amount:
            self._hold(sale, final_amount, at_ms)
            self._count(day, final_amount, 1)
            self.events["ledger.hold.created"] += 1
        self._open(document, sale)

    def _advise_held(self, sale: Sale, final_amount: int) -> None:
        delta = final_amount - sale.held
        if delta > 0:
            self._count(sale.day, delta, 0)
        else:
            self._uncount(sale, -delta, 0 if final_amount or sale.cleared else -1)
        sale.approved += max(0, delta)
        sale.reversed += max(0, -delta)
        sale.held = final_amount
        if not final_amount:
            sale.open, sale.ended = False, "released"
            self.events["ledger.hold.released"] += 1

    def _advise_unheld(self, document: Document, sale: Sale, day: str, at_ms: int, final_amount: int) -> None:
        """The platform declined or the hold lapsed, and the network approved. The advice replaces the
        decline."""
        self.events["authorization.decided"] += sale.declined
        delta = final_amount - (sale.lapsed_amount if sale.lapsed else 0)
        if not sale.lapsed:
            sale.day = day
            self._count(day, delta, 1)
        elif delta > 0:
            sale.shares.append(Share(day, delta, self._own_references(document)[0]))
            self._count(day, delta, 0)
        else:
            self._uncount(sale, -delta, 0)
        sale.approved += max(0, delta)
        sale.reversed += max(0, -delta)
        sale.declined = False
        self._hold(sale, final_amount, at_ms)
        self.events["ledger.hold.created"] += 1

    def figures(self) -> Iterator[tuple[int, int, int, int]]:
        """Approved, held, cleared and reversed amounts of each transaction, oldest first."""
        for sale in self.sales:
            yield sale.approved, sale.held, sale.cleared, sale.reversed
