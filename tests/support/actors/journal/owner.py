"""Decides commands as a host does: state in memory, and the rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping

from actors.cards import rows as card_rows
from actors.cards.card_actor import CardActor
from actors.journal.contract import LoadedCards, Rows
from actors.programmes import rows as programme_rows
from engine.authorization.effects import AuthorizationOpened
from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card
from engine.commands import (
    AuthorizationCommand,
    CardCommand,
    Command,
    CreateCard,
    CreateProgramme,
    ProgrammeCommand,
    reference_of_message,
    target_of,
)
from engine.decision.delegation import EndpointResult
from engine.execution import execute_programme
from engine.execution.execute import execute
from engine.execution.issuing import card_of, issue
from engine.ids import shard_of
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.replies import Reply
from engine.rules.evaluate import rules_for
from tests.support.engine.build import NOW_MS, programme


class Owner:
    """The memory of a host with all state loaded. ``epochs`` are the epochs of its commits."""

    def __init__(self, epochs: Mapping[int, int], config: ProgrammeConfig | None = None) -> None:
        self.epochs = epochs
        self.config = config or programme()
        self.cards: dict[str, Card] = {}
        self.accounts: dict[str, Account] = {}
        self.known = AuthorizationIndex()
        self.programmes: dict[str, Programme] = {}
        self.replies: dict[bytes, Reply] = {}
        self.endpoint_result: EndpointResult | None = None
        """The result of the call to the programme that precedes each decision."""

    def activate(self, loaded: LoadedCards) -> None:
        """Start from loaded state."""
        self.cards, self.accounts = loaded.cards, loaded.accounts

    def decide(self, *commands: Command, now_ms: int = NOW_MS) -> Rows:
        """Decide the commands of one batch, and return its rows."""
        rows = Rows()
        for command in commands:
            self.add(rows, command, now_ms)
        return rows

    def add(self, rows: Rows, command: Command, now_ms: int) -> None:
        """Decide one command and add its rows."""
        if isinstance(command, ProgrammeCommand):
            self._execute_programme(rows, command, now_ms)
            return
        original: Authorization | None = None
        if isinstance(command, CreateCard):
            card, executed = self._issue(command, now_ms)
        else:
            card = self.cards[command.card_id]
            original = self._original(command, now_ms)
            governing = self.programmes.get(card.programme_id)
            of_programme = governing.rules if governing is not None else ()
            rules = rules_for(card.card_product_id, of_programme, card.rules)
            called = self.endpoint_result
            context = CommandContext(card, self._account(card), self.config, original, called, rules)
            executed = execute(command, context, now_ms)
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                self.known.add(effect.authorization)
        if original is not None and executed.authorization_id == original.id:
            self.known.add_reference(reference_of_message(command.command_key), original)
        self.replies[command.command_key] = executed.reply
        if executed.journaled:
            epoch = self._fence(rows, card.id)
            actor = CardActor(card, self._account(card))
            card_rows.write_command(rows, command, actor, executed, original, epoch, now_ms)
        if executed.issues is not None:
            self.add(rows, executed.issues, now_ms)

    def _original(self, command: CardCommand, now_ms: int) -> Authorization | None:
        if not isinstance(command, AuthorizationCommand):
            return None
        return self.known.find_original(command, self._account(self.cards[command.card_id]), now_ms)

    def _issue(self, command: CreateCard, now_ms: int) -> tuple[Card, Executed]:
        card = card_of(command, now_ms)
        if command.opens_account and command.account_id:
            self.accounts[command.account_id] = Account(
                id=command.account_id,
                tenant_id=command.tenant_id,
                live=command.live,
                programme_id=command.programme_id,
                currency=command.currency,
            )
        self.cards[card.id] = card
        return card, issue(command, card, self._account(card))

    def _execute_programme(self, rows: Rows, command: ProgrammeCommand, now_ms: int) -> None:
        before = self.programmes.get(target_of(command))
        if isinstance(command, CreateProgramme):
            executed = execute_programme.create(command, now_ms)
        else:
            assert before is not None
            executed = execute_programme.execute_programme(command, before, now_ms)
        self.replies[command.command_key] = executed.reply
        if executed.after is not None:
            self.programmes[executed.after.config.id] = executed.after
            epoch = self._fence(rows, executed.after.config.id)
            programme_rows.write_command(rows, command, before, executed, epoch, now_ms)

    def _account(self, card: Card) -> Account | None:
        return self.accounts[card.account_id] if card.account_id else None

    def _fence(self, rows: Rows, id_: str) -> int:
        shard = shard_of(id_)
        epoch = rows.shards[shard] = self.epochs[shard]
        return epoch
