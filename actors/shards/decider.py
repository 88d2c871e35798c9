"""The synchronous decision: a command changes the tentative state in memory and adds rows to the batch.

All state that the command needs is in memory, and nothing here awaits. Decisions on one card are therefore
serial without a lock.
"""

from __future__ import annotations

from actors.cards import rows as card_rows
from actors.cards.activation import Activation
from actors.cards.answers import RecentAnswers
from actors.cards.card_actor import CardActor
from actors.journal.contract import Rows
from actors.journal.rows import IdempotencyRow, TombstoneRow
from actors.programmes import rows as programme_rows
from actors.shards.acts import act_row, subject_of
from actors.shards.late_reversals import late_note, late_reversal_target, no_action, repeat_note
from actors.shards.pending import Pending
from actors.vault import Vault
from engine.acts import Act
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
    """Decides for one host. ``epochs`` is the host's current map of shard to epoch."""

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
        """Set the reply of ``pending``, and add the rows that must be durable before the reply leaves."""
        if pending.submission.act is None:
            self._decide(pending, rows, now_ms)
        else:
            self._decide_act(pending, pending.submission.act, rows, now_ms)
        self._add_idempotency_key(pending, rows, now_ms)
        self.decided += 1

    def _decide_act(self, pending: Pending, act: Act, rows: Rows, now_ms: int) -> None:
        """Decide an administrative command, and add the row of the audit log if it has an effect."""
        before, journaled = subject_of(pending.command, self._activation), len(rows.journal)
        self._decide(pending, rows, now_ms)
        if len(rows.journal) > journaled:
            after = subject_of(pending.command, self._activation)
            row = act_row(act, pending.command, before, after, pending.reply, now_ms)
            rows.acts += [] if row is None else [row]

    def _decide(self, pending: Pending, rows: Rows, now_ms: int) -> None:
        command = pending.command
        # The commit checks the epoch of the shard, also for reads and refusals: a former owner must not
        # answer from memory.
        rows.shards[pending.shard] = self._epochs[pending.shard]
        if isinstance(command, PROGRAMME_COMMANDS):
            self._change_programme(pending, command, rows, now_ms)
        elif isinstance(command, CreateCard):
            self._create_card(pending, command, rows, now_ms)
        else:
            actor = self._activation.card(command.card_id)
            assert actor is not None, "prefetch brings the card"
            if pending.stored_approval is not None:
                self._repeat(pending, pending.stored_approval, actor, rows, now_ms)
            elif not (
                isinstance(command, Reverse) and self._approval_stands(pending, command, actor, rows, now_ms)
            ):
                self._execute(pending, actor, command, rows, now_ms)

    def _execute(
        self, pending: Pending, actor: CardActor, command: CardCommand, rows: Rows, now_ms: int
    ) -> None:
        programme = self._activation.snapshots[actor.card.programme_id]
        rules = actor.rules_of(programme)
        original = actor.original(command, now_ms) if isinstance(command, AUTHORIZATION_COMMANDS) else None
        context = CommandContext(
            actor.card,
            actor.account,
            programme.config,
            original,
            pending.endpoint_result,
            rules,
            self._activation.pasts.past_of(actor, rules),
        )
        executed = execute(command, context, now_ms)
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                actor.learn(effect.authorization)
        if original is not None and executed.authorization_id == original.id:
            # A follow-up can refer to this message before the journal has it.
            actor.known.add_reference(reference_of_message(command.command_key), original)
        self._activation.pasts.follow(actor, command, executed, original, now_ms)
        self._write(pending, command, actor, executed, original, rows, now_ms)
        if executed.issues is not None:
            self._issue_beside(executed.issues, actor, rows, rows.shards[pending.shard], now_ms)

    def _issue_beside(
        self, command: CreateCard, beside: CardActor, rows: Rows, epoch: int, now_ms: int
    ) -> None:
        """Write the card that a command on ``beside`` issues, on the same account and shard. Its first
        command activates it, after the commit: until then its id is unknown outside this host."""
        actor = CardActor(issuing.card_of(command, now_ms), beside.account)
        executed = issuing.issue(command, actor.card, actor.account)
        assert executed.journaled, "the replaced card's account fits"
        card_rows.write_command(rows, command, actor, executed, None, epoch, now_ms)

    def _repeat(self, pending: Pending, stored: Reply, actor: CardActor, rows: Rows, now_ms: int) -> None:
        """Give a repeat the stored approval, and record that its exchange got it."""
        pending.reply = stored
        _add_note(pending, repeat_note(actor.card.tombstones, pending.command), actor, rows, now_ms)

    def _approval_stands(
        self, pending: Pending, reversal: Reverse, actor: CardActor, rows: Rows, now_ms: int
    ) -> bool:
        """Whether ``reversal`` is a late reversal of an approval that stands; sets its reply if so."""
        target = late_reversal_target(reversal)
        if target is None:
            return False
        note = late_note(actor.card.tombstones, reversal, target, self._answers.known(target))
        if note is None:
            return False
        pending.reply, pending.approval_stands = no_action(reversal), True
        _add_note(pending, note, actor, rows, now_ms)
        return True

    def _create_card(self, pending: Pending, command: CreateCard, rows: Rows, now_ms: int) -> None:
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
        """Set the reply, and add the rows of a journaled command. A refusal or a read has no rows; its reply
        waits for the commits that it depends on."""
        pending.reply = executed.reply
        pending.outcome = executed.outcome
        pending.actor = actor
        actor.undurable += 1
        if executed.journaled:
            epoch = rows.shards[pending.shard]
            card_rows.write_command(rows, command, actor, executed, original, epoch, now_ms)

    def _change_programme(self, pending: Pending, command: ProgrammeCommand, rows: Rows, now_ms: int) -> None:
        programmes = self._activation.programmes
        if isinstance(command, ProgrammeChange):
            before: Programme | None = programmes[command.programme_id]
            executed = execute_programme.execute_programme(command, programmes[command.programme_id], now_ms)
        else:
            before, executed = None, execute_programme.create(command, now_ms)
        pending.reply = executed.reply
        after = pending.programme = executed.after
        if after is not None:
            programmes[after.config.id] = after
            pending.broadcast = execute_programme.concerns_hosts(before, after)
            epoch = rows.shards[pending.shard]
            programme_rows.write_command(rows, command, before, executed, epoch, now_ms)

    def _add_idempotency_key(self, pending: Pending, rows: Rows, now_ms: int) -> None:
        """Commit the idempotency key with the effect. The API itself stores the replies of refusals."""
        claim, reply = pending.submission.claim, pending.reply
        if claim is not None and isinstance(reply, Done):
            body = body_bytes(reply.body | (pending.submission.presentation or {}))
            sealed = self._vault.seal("idempotency", body, claim.key_digest)
            row = IdempotencyRow(claim.key_digest, claim.fingerprint, reply.status, sealed, now_ms)
            rows.idempotency.append(row)


def _add_note(pending: Pending, note: str | None, actor: CardActor, rows: Rows, now_ms: int) -> None:
    """Add ``note``, if any, to the card's tombstones."""
    pending.actor = actor
    actor.undurable += 1
    if note:
        actor.card.tombstones.setdefault(note, now_ms)
        rows.tombstones.append(TombstoneRow(actor.card.id, note, now_ms))
