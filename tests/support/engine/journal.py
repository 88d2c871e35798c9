"""Records histories of cards as their owner journals them, for replays and back-tests."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.authorization.counting import changes_of
from engine.authorization.effects import AuthorizationOpened, CardIssued
from engine.authorization.executed import CommandContext, Executed
from engine.backtests.entry import CompactEntry, Entry, JournalEntry
from engine.cards.account import Account
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card
from engine.commands import (
    AuthorizationCommand,
    Authorize,
    CardCommand,
    ChangeProgrammeRule,
    CreateCard,
    CreateProgrammeRule,
    reference_of_id,
    reference_of_message,
)
from engine.decision.compact import compacted
from engine.decision.compact_layout import StoredRow
from engine.decision.compact_values import known_configuration
from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.execution.execute import execute
from engine.execution.issuing import card_of, issue
from engine.replay.programmes import ProgrammeVersions
from engine.replies import WireAnswer
from engine.rules.evaluate import LivePast, RuleSet, rules_for
from engine.rules.velocity import Change, History
from tests.support.engine import build

_encode = msgspec.json.encode


class Owner:
    """The owner of some cards of one account: executes commands, and keeps the rows of the journal."""

    def __init__(self, programme_id: str = build.PROGRAMME, **config: Any) -> None:
        self.now_ms = build.NOW_MS
        self.entries: list[Entry] = []
        self.cards: dict[str, Card] = {}
        self.account: Account | None = None
        self.programmes = ProgrammeVersions()
        self.programme_id = programme_id
        self.programmes.add(programme_id, build.create_programme(id=programme_id, **config), self.now_ms)
        self._compact: dict[tuple[str, int], tuple[Entry, CompactEntry]] = {}
        self._known: dict[str, AuthorizationIndex] = {}
        self._numbers = 0
        self._counted: dict[str, list[tuple[Change, ...]]] = {}
        self._of_account: list[tuple[Change, ...]] = []

    def number(self) -> int:
        """A new number for ids and keys."""
        self._numbers += 1
        return self._numbers

    def change_programme(self, **changes: Any) -> None:
        """The next version of the programme."""
        command = build.change_programme(self.number(), programme_id=self.programme_id, **changes)
        self.programmes.add(self.programme_id, command, self.now_ms)

    def change_rules(self, command: CreateProgrammeRule | ChangeProgrammeRule) -> None:
        """Create or change a rule of the programme."""
        self.programmes.add(self.programme_id, command, self.now_ms)

    def issue(self, command: CreateCard) -> Card:
        """Issue a card."""
        card = card_of(command, self.now_ms)
        if self.account is None and command.account_id is not None:
            self.account = build.account(id=command.account_id, posted_minor=0, version=0)
        executed = issue(command, card, self.account if command.account_id else None)
        assert any(isinstance(effect, CardIssued) for effect in executed.effects)
        self.cards[card.id], self._known[card.id] = card, AuthorizationIndex()
        self._counted[card.id] = self._counted.get(card.replaces or "") or []
        self._journal(card, command, executed)
        return card

    def do(self, command: CardCommand, endpoint_result: EndpointResult | None = None) -> Executed:
        """Execute a command at the present instant."""
        assert not isinstance(command, CreateCard)
        card, known = self.cards[command.card_id], self._known[command.card_id]
        account = self.account if card.account_id else None
        original = None
        if isinstance(command, AuthorizationCommand):
            original = known.find_original(command, account, self.now_ms)
        config = self.programmes.at(self.programme_id, self.now_ms)
        of_programme = self.programmes.rules_at(self.programme_id, self.now_ms)
        rules = rules_for(card.card_product_id, of_programme, card.rules)
        past = self._past_of(card, rules, config.timezone)
        context = CommandContext(card, account, config, original, endpoint_result, rules, past)
        executed = execute(command, context, self.now_ms)
        changes = changes_of(command, executed.effects, original, self.now_ms)
        self._counted[card.id].append(changes)
        self._of_account.append(changes)
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                known.add(effect.authorization)
        about = reference_of_id(executed.authorization_id or "")
        if about in known:
            known.add_reference(reference_of_message(command.command_key), known[about])
        if executed.journaled:
            self._journal(card, command, executed)
        if executed.issues is not None:
            self.issue(executed.issues)
        return executed

    def decide(self, command: Authorize, endpoint_result: EndpointResult | None = None) -> Decision:
        """Decide an authorization."""
        outcome = self.do(command, endpoint_result).outcome
        assert isinstance(outcome, Decision)
        return outcome

    def code(self, command: CardCommand) -> str:
        """The response code of a message."""
        reply = self.do(command).reply
        assert isinstance(reply, WireAnswer)
        return reply.response_code

    def _past_of(self, card: Card, rules: RuleSet, zone: str) -> LivePast:
        """The past, built from the changes of all earlier commands."""
        histories = History(), History()
        for history, earlier in zip(histories, (self._counted[card.id], self._of_account), strict=True):
            history.load(rules.velocities, zone, ())
            for changes in earlier:
                history.apply(changes)
        return LivePast(histories[0], histories[1] if card.account_id else histories[0])

    def _journal(self, card: Card, command: CardCommand, executed: Executed) -> None:
        """As ``actors.cards.rows.write_command``."""
        card.seq += 1
        kind = str(command.__struct_config__.tag)
        if isinstance(command, Authorize) and executed.authorization_id != command.id:
            kind = "increment"
        entry = Entry(
            card.id,
            card.seq,
            self.now_ms,
            kind,
            _encode(command).decode(),
            None if executed.inputs is None else _encode(executed.inputs).decode(),
            None if executed.outcome is None else _encode(executed.outcome).decode(),
        )
        self.entries.append(entry)
        if isinstance(command, Authorize):
            self._compact_entry(entry, command, executed)

    def _compact_entry(self, entry: Entry, command: Authorize, executed: Executed) -> None:
        assert executed.inputs is not None, "a decision"
        assert isinstance(executed.outcome, Decision), "a decision"
        texts = compacted(command, executed.inputs, executed.outcome, executed.reply, entry.seq, entry.at_ms)
        if texts is not None:
            keys = (command.command_key, command.fingerprint)
            row = StoredRow(entry.card_id, entry.seq, *keys, *texts[:4], entry.at_ms, command.id)
            known = known_configuration(texts.configuration)
            stored = CompactEntry(entry.card_id, entry.seq, entry.at_ms, entry.kind, row, known)
            self._compact[entry.card_id, entry.seq] = (entry, stored)

    def stored(self) -> list[JournalEntry]:
        """The entries as the journal stores them: plain authorizations that no test has changed are
        compact."""
        return [self._stored(entry) for entry in self.entries]

    def _stored(self, entry: Entry) -> JournalEntry:
        original, compact = self._compact.get((entry.card_id, entry.seq), (None, None))
        return compact if compact is not None and original == entry else entry
