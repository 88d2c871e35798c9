"""The purchases of the second run, for the velocities of authorization rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from engine.authorization.counting import changes_of
from engine.authorization.effects import Effect
from engine.cards.authorization import Authorization
from engine.commands import CardCommand, CreateCard
from engine.rules.model import Rule, Velocity
from engine.rules.observed import Observed
from engine.rules.velocity import Change, Counted, History


def use_velocities(rules: Iterable[Rule]) -> bool:
    """Whether one of ``rules`` reads the past."""
    return any(
        each.velocity is not None or each.attribute == "first_at_merchant"
        for rule in rules
        for each in rule.when
    )


class Purchases:
    """The purchases of one card or account, and the windows of the velocities that were asked for."""

    def __init__(self) -> None:
        self._counted: dict[str, Counted] = {}
        self._history = History()
        self._velocities: dict[Velocity, None] = {}

    def apply(self, changes: Collection[Change]) -> None:
        """Follow the changes of a command."""
        for change in changes:
            counted = self._counted.get(change.key)
            if counted is not None:
                counted.amount_minor, counted.count = change.amount_minor, change.count
                counted.declined = change.declined
            elif change.opened is not None:
                self._counted[change.key] = msgspec.structs.replace(change.opened, windows=0)
        self._history.apply(changes)

    def observe(self, velocity: Velocity, zone: str, now_ms: int, counted: Counted) -> Observed:
        """The value of ``velocity`` before ``counted``."""
        if self._history.lacks((velocity,), zone):
            self._velocities[velocity] = None
            self._history.load(tuple(self._velocities), zone, self._counted.values())
        return self._history.observe(velocity, zone, now_ms, counted)


class Pasts:
    """The purchases of the cards of one account. A replacement continues those of its predecessor."""

    def __init__(self) -> None:
        self._account = Purchases()
        self._cards: dict[str, Purchases] = {}

    def issue(self, command: CreateCard) -> None:
        """Add a card."""
        replaced = command.continues.card_id if command.continues is not None else ""
        self._cards[command.id] = self._cards.get(replaced) or Purchases()

    def follow(
        self,
        card_id: str,
        command: CardCommand,
        effects: tuple[Effect, ...],
        original: Authorization | None,
        at_ms: int,
    ) -> None:
        """Follow ``command``, whose ``effects`` have been applied."""
        changes = changes_of(command, effects, original, at_ms)
        if changes:
            self._account.apply(changes)
            self._cards[card_id].apply(changes)

    def of(self, card_id: str, funded: bool, known: Mapping[Velocity, Observed]) -> CardPast:
        """The past of a card; ``known`` are values that need not be counted."""
        card = self._cards[card_id]
        return CardPast(card, self._account if funded else card, known)


class CardPast:
    """See ``engine.rules.evaluate.Past``."""

    def __init__(self, card: Purchases, account: Purchases, known: Mapping[Velocity, Observed]) -> None:
        self._card = card
        self._account = account
        self._known = known

    def observe(
        self, velocities: tuple[Velocity, ...], zone: str, now_ms: int, counted: Counted
    ) -> tuple[Observed, ...]:
        """The values before ``counted``."""
        return tuple(
            self._known.get(velocity)
            or (self._card if velocity.of == "card" else self._account).observe(
                velocity, zone, now_ms, counted
            )
            for velocity in velocities
        )
