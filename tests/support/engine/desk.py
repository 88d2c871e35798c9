"""A card in its owner's memory, for tests of follow-ups: a ``Desk`` sends it the messages of a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.authorization.effects import AuthorizationOpened, Effect, Transferred
from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization, status
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card
from engine.commands import (
    Advise,
    AuthorizationCommand,
    CardCommand,
    Expire,
    Present,
    Reverse,
    reference_of_message,
    reference_of_network,
)
from engine.execution.execute import execute
from engine.instant import DAY_MS
from engine.replies import WireAnswer
from tests.support.engine.build import (
    CARD,
    NOW_MS,
    TENANT,
    account,
    an_id,
    authorize,
    card,
    key,
    programme,
    wire,
)

SALE = "sale"
"""A network transaction id."""
SHOP = {"currency": "EUR", "mcc": "5411", "merchant_name": "Shop", "merchant_country": "IE"}


@dataclass
class Desk:
    """A funded card of a managed programme. ``now_ms`` is its time; each message has the next ``number``."""

    card: Card = field(default_factory=card)
    account: Account = field(default_factory=account)
    known: AuthorizationIndex = field(default_factory=AuthorizationIndex)
    now_ms: int = NOW_MS
    entries: list[Transferred] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    done: list[Executed] = field(default_factory=list)
    number: int = 0

    @property
    def funding(self) -> Account | None:
        """The funding account; ``None`` in gateway mode."""
        return self.account

    def context(self, original: Authorization | None) -> CommandContext:
        return CommandContext(self.card, self.funding, programme(), original)

    def original(self, command: CardCommand) -> Authorization | None:
        if not isinstance(command, AuthorizationCommand):
            return None
        return self.known.find_original(command, self.funding, self.now_ms)

    def do(self, command: CardCommand) -> Executed:
        """Execute ``command`` as the card's owner does, and keep its result."""
        original = self.original(command)
        executed = execute(command, self.context(original), self.now_ms)
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                self.known.add(effect.authorization)
            if isinstance(effect, Transferred):
                self.entries.append(effect)
        if original is not None and executed.authorization_id == original.id:
            self.known.add_reference(reference_of_message(command.command_key), original)
        self.effects += executed.effects
        self.done.append(executed)
        return executed

    def code(self, command: CardCommand) -> str:
        """Execute ``command``; returns DE39 of its answer."""
        reply = self.do(command).reply
        assert isinstance(reply, WireAnswer)
        return reply.response_code

    def _next(self) -> int:
        self.number += 1
        return self.number

    def authorize(self, amount_minor: int, sale: str = SALE, **parts: Any) -> str:
        number = self._next()
        identity = wire(number, network_txn_id=sale)
        return self.code(authorize(number, amount_minor=amount_minor, wire=identity, **parts))

    def increment(self, amount_minor: int, sale: str = SALE) -> str:
        return self.authorize(amount_minor, sale, references=(reference_of_network(sale),))

    def reverse(self, sale: str = SALE, **parts: Any) -> str:
        return self.code(self.follow_up(Reverse, sale, **parts))

    def present(self, amount_minor: int, sale: str = SALE, **parts: Any) -> str:
        members = {"kind": "purchase", "arn": None, "sequence": 1} | parts
        return self.code(self.follow_up(Present, sale, amount_minor=amount_minor, **SHOP, **members))

    def advise(self, amount_minor: int, sale: str = SALE, **parts: Any) -> str:
        return self.code(
            self.follow_up(Advise, sale, amount_minor=amount_minor, channel="pos", **SHOP, **parts)
        )

    def refund(self, amount_minor: int, sale: str = SALE) -> str:
        return self.authorize(amount_minor, sale, kind="refund")

    def part(self, amount_minor: int, sale: str = SALE) -> str:
        """A presentment that is not the final one."""
        return self.present(amount_minor, sale, final=False)

    def give(self, amount_minor: int, sale: str = SALE) -> str:
        """The presentment of a refund."""
        return self.present(amount_minor, sale, kind="refund")

    def give_part(self, amount_minor: int, sale: str = SALE) -> str:
        """A presentment of a refund that is not the final one."""
        return self.present(amount_minor, sale, kind="refund", final=False)

    def lower(self, left_minor: int, sale: str = SALE) -> str:
        """A partial reversal."""
        return self.reverse(sale, remaining_minor=left_minor)

    def undo(self, number: int, sale: str = SALE) -> str:
        """The reversal of the message with that number."""
        return self.reverse(sale, references=(reference_of_message(key(number)), reference_of_network(sale)))

    def undo_late(self, number: int, increment_minor: int | None = None) -> str:
        """An edge's own reversal of the message with that number; an increment has ``increment_minor``."""
        message = reference_of_message(key(number))
        return self.reverse(references=(message,), late=True, increment_minor=increment_minor)

    def wait(self, days: int) -> None:
        self.now_ms += days * DAY_MS

    def do_all(self, script: str) -> None:
        """Send the messages of ``script``, for example ``"authorize 1000, part 400, reverse"``."""
        for step in script.split(", "):
            verb, *amounts = step.split()
            getattr(self, verb)(*map(int, amounts))

    def advise_no(self, amount_minor: int, sale: str = SALE) -> str:
        """The advice of a decline."""
        return self.advise(amount_minor, sale, approved=False)

    def expire(self, sale: str = SALE) -> Executed:
        """Lapse the hold of ``sale`` before its expiry."""
        number = self._next()
        return self.do(
            Expire(
                id=an_id(0x40_0000 + number),
                command_key=key(0x40_0000 + number),
                card_id=CARD,
                tenant_id=TENANT,
                references=(reference_of_network(sale),),
            )
        )

    def follow_up(self, make: Any, sale: str, **parts: Any) -> Any:
        """A follow-up of type ``make`` with the next number; it names ``sale`` unless ``parts`` says other
        references."""
        number = self._next()
        members = {"references": (reference_of_network(sale),)} | parts
        return make(
            id=an_id(0x30_0000 + number),
            command_key=key(0x30_0000 + number),
            card_id=CARD,
            fingerprint=key(number),
            wire=wire(number, network_txn_id=sale),
            **members,
        )

    def sale(self, sale: str = SALE) -> Authorization:
        return self.known[reference_of_network(sale)]

    def status(self, sale: str = SALE) -> str:
        authorization = self.sale(sale)
        return status(authorization, held=authorization.hold_id in self.account.holds)

    @property
    def balance(self) -> tuple[int, int]:
        """Posted and held."""
        return self.account.posted_minor, self.account.held_minor
