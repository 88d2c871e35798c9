"""The synchronous stretch: a command meets the state in memory, state moves on, rows are added to the
batch.

Everything the command needs is in memory, and nothing here awaits: that is what makes decisions on one card
serial without a lock.
"""

from __future__ import annotations

from actors.cards import rows as card_rows
from actors.cards.activation import Activation, CardActor
from actors.cards.answers import RecentAnswers
from actors.journal.contract import Rows
from actors.journal.rows import IdempotencyRow, TombstoneRow
from actors.programmes import rows as programme_rows
from actors.shards.late import judge, no_action, note_given, undone_by
from actors.shards.pending import Pending
from actors.vault import Vault
from engine.authorization.effects import AuthorizationOpened
from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.commands import (
    AUTHORIZATION_COMMANDS,
    PROGRAMME_COMMANDS,
    CardCommand,
    CreateCard,
    ProgrammeChange,
    ProgrammeCommand,
    Reverse,
    reference_of_message,
)
from engine.execution import execute_programme, issuing
from engine.execution.execute import execute
from engine.programmes.programme import Programme
from engine.replies import Done, Reply, body_bytes


class Decider:
    """Decides for one host; ``epochs`` is the host's own, always current, map of shard to epoch."""

    def __init__(
        self, activation: Activation, epochs: dict[int, int], vault: Vault, answers: RecentAnswers
    ) -> None:
        self._answers = answers
        self._activation = activation
        self._epochs = epochs
        self._vault = vault
        self.decided = 0
        """Commands decided since the start, for metrics."""

    def decide(self, pending: Pending, rows: Rows, now_ms: int) -> None:
        """Give ``pending`` its reply and ``rows`` what has to be durable before that reply may leave."""
        command = pending.command
        # The commit checks that the shard is still ours, for readings and refusals too: who is not the owner
        # any more may not answer from memory.
        rows.shards[pending.shard] = self._epochs[pending.shard]
        if isinstance(command, PROGRAMME_COMMANDS):
            self._govern(pending, command, rows, now_ms)
        elif isinstance(command, CreateCard):
            self._issue(pending, command, rows, now_ms)
        else:
            actor = self._activation.card(command.card_id)
            assert actor is not None, "prefetch brings the card"
            if pending.repeated is not None:
                self._repeat(pending, pending.repeated, actor, rows, now_ms)
            elif not (isinstance(command, Reverse) and self._stands(pending, command, actor, rows, now_ms)):
                self._execute(pending, actor, command, rows, now_ms)
        self._claim(pending, rows, now_ms)
        self.decided += 1

    def _execute(
        self, pending: Pending, actor: CardActor, command: CardCommand, rows: Rows, now_ms: int
    ) -> None:
        programme = self._activation.snapshots[actor.card.programme_id].config
        original = actor.original(command, now_ms) if isinstance(command, AUTHORIZATION_COMMANDS) else None
        met = CommandContext(actor.card, actor.account, programme, original, pending.consulted)
        executed = execute(command, met, now_ms)
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                actor.learn(effect.authorization)
        if original is not None and executed.authorization_id == original.id:
            # What follows may name this very message, before the journal has it.
            actor.known.add_reference(reference_of_message(command.command_key), original)
        self._write(pending, command, actor, executed, original, rows, now_ms)

    def _repeat(self, pending: Pending, stored: Reply, actor: CardActor, rows: Rows, now_ms: int) -> None:
        """A repeat gets the stored approval; that is noted first."""
        pending.reply = stored
        _note(pending, note_given(actor.card.tombstones, pending.command), actor, rows, now_ms)

    def _stands(self, pending: Pending, reversal: Reverse, actor: CardActor, rows: Rows, now_ms: int) -> bool:
        """Whether ``reversal`` is a late one of an approval that stands; it then has its reply."""
        undone = undone_by(reversal)
        if undone is None:
            return False
        note = judge(actor.card.tombstones, reversal, undone, self._answers.known(undone))
        if note is None:
            return False
        pending.reply, pending.stands = no_action(reversal), True
        _note(pending, note, actor, rows, now_ms)
        return True

    def _issue(self, pending: Pending, command: CreateCard, rows: Rows, now_ms: int) -> None:
        card = issuing.card_of(command, now_ms)
        account = self._funding_account(command)
        executed = issuing.issue(command, card, account)
        if executed.journaled:
            actor = self._activation.admit(card, account)
            self._write(pending, command, actor, executed, None, rows, now_ms)
        else:
            pending.reply = executed.reply

    def _funding_account(self, command: CreateCard) -> Account | None:
        if command.account_id is None:
            return None
        if not command.opens_account:
            return self._activation.accounts[command.account_id].account
        return Account(
            id=command.account_id,
            tenant_id=command.tenant_id,
            live=command.live,
            programme_id=command.programme_id,
            currency=command.currency,
        )

    def _write(
        self,
        pending: Pending,
        command: CardCommand,
        actor: CardActor,
        executed: Executed,
        original: Authorization | None,
        rows: Rows,
        now_ms: int,
    ) -> None:
        """Add the rows of a journaled command; a refusal or a reading only waits for the commits it was
        judged upon."""
        pending.reply = executed.reply
        pending.outcome = executed.outcome
        pending.actor = actor
        actor.undurable += 1
        if executed.journaled:
            epoch = rows.shards[pending.shard]
            card_rows.write_command(rows, command, actor, executed, original, epoch, now_ms)

    def _govern(self, pending: Pending, command: ProgrammeCommand, rows: Rows, now_ms: int) -> None:
        programmes = self._activation.programmes
        if isinstance(command, ProgrammeChange):
            before: Programme | None = programmes[command.programme_id]
            governed = execute_programme.execute_programme(command, programmes[command.programme_id], now_ms)
        else:
            before, governed = None, execute_programme.create(command, now_ms)
        pending.reply = governed.reply
        after = pending.programme = governed.after
        if after is not None:
            programmes[after.config.id] = after
            pending.told = execute_programme.concerns_hosts(before, after)
            epoch = rows.shards[pending.shard]
            programme_rows.write_command(rows, command, before, governed, epoch, now_ms)

    def _claim(self, pending: Pending, rows: Rows, now_ms: int) -> None:
        """Commit the idempotency key with the effect; refusals are the API's to remember."""
        claim, reply = pending.submission.claim, pending.reply
        if claim is not None and isinstance(reply, Done):
            body = body_bytes(reply.body | (pending.submission.presentation or {}))
            sealed = self._vault.seal("idempotency", body, claim.key_digest)
            row = IdempotencyRow(claim.key_digest, claim.fingerprint, reply.status, sealed, now_ms)
            rows.idempotency.append(row)


def _note(pending: Pending, note: str | None, actor: CardActor, rows: Rows, now_ms: int) -> None:
    """Add ``note``, if any, to the card's tombstones."""
    pending.actor = actor
    actor.undurable += 1
    if note:
        actor.card.tombstones.setdefault(note, now_ms)
        rows.tombstones.append(TombstoneRow(actor.card.id, note, now_ms))
