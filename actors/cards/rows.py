"""The rows that record a card command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args

import msgspec

from actors.cards.answers import fingerprint_of
from actors.cards.card_actor import CardActor
from actors.journal.contract import Rows
from actors.journal.rows import (
    AccountRow,
    CardRow,
    DeclaredRow,
    EntryRow,
    EventRow,
    HoldRow,
    JournalRow,
    ReplacementRow,
    RuleMatchRow,
    StandInRow,
    TombstoneRow,
    TransactionRow,
    UsageRow,
    new_row,
)
from actors.journal.rule_rows import rule_row
from engine.authorization.compact_events import DERIVED_EVENTS, PAIR
from engine.authorization.effects import (
    AuthorizationOpened,
    AuthorizationUpdated,
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    CardIssued,
    CardReplaced,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    HoldResized,
    RulesChanged,
    StandInRecorded,
    TombstoneSet,
    Transferred,
)
from engine.authorization.events import Event
from engine.authorization.evolve import ACCOUNT_CHANGES
from engine.authorization.executed import Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization, status
from engine.cards.card import Card
from engine.commands import Advise, Authorize, CardCommand, Present
from engine.decision.compact import CompactTexts, compacted
from engine.decision.decide import Decision
from engine.rules.observed import RuleName

_encode = msgspec.json.Encoder().encode
OPENERS: Final = (Authorize, Present, Advise)
"""Commands that can open a transaction."""
_OF_APPROVAL: Final = list(DERIVED_EVENTS)
_TAGS: Final = {kind: str(kind.__struct_config__.tag) for kind in get_args(CardCommand)}


def write_command(
    rows: Rows,
    command: CardCommand,
    actor: CardActor,
    executed: Executed,
    original: Authorization | None,
    epoch: int,
    now_ms: int,
    *,
    in_full: bool = False,
) -> None:
    """Add all rows of ``command``, which ``actor`` has executed, and assign the command's ``seq``.
    ``in_full``: without compact texts."""
    card = actor.card
    seq_before = card.seq
    card.seq = seq_before + 1
    compact = None if in_full else _compact_texts(command, executed, card.seq, now_ms)
    rows.journal.append(
        new_row(
            JournalRow,
            (
                card.id,
                card.seq,
                epoch,
                command.command_key,
                fingerprint_of(command),
                _kind(command, executed),
                *(_full_texts(command, executed) if compact is None else compact[:4]),
                now_ms,
                executed.authorization_id,
            ),
        )
    )
    if compact is not None:
        rows.configurations[compact.configuration.digest] = compact.configuration
    _write_effects(WriteContext(rows, command, card, actor.account, original, now_ms), executed.effects)
    derived = compact is not None and _has_derived_events(command)
    write_events(rows, card.tenant_id, card.live, executed.events, now_ms, derived=derived)
    if executed.inputs is not None and executed.inputs.rules_in_force is not None:
        _write_rule_matches(rows, command, card, executed, now_ms)
    usage = new_row(
        UsageRow, (card.id, card.seq, card.day, card.day_count, card.day_amount_minor, card.cvv2_failures)
    )
    rows.set_usage(usage, seq_before)


def _compact_texts(command: CardCommand, executed: Executed, seq: int, now_ms: int) -> CompactTexts | None:
    """The compact texts of a plain authorization; ``None`` for every other command."""
    if not isinstance(command, Authorize) or executed.inputs is None:
        return None
    decision = executed.outcome
    assert isinstance(decision, Decision), "only decisions have inputs"
    return compacted(command, executed.inputs, decision, executed.reply, seq, now_ms)


def _full_texts(command: CardCommand, executed: Executed) -> tuple[str, str | None, str | None, str]:
    """Command, inputs, outcome and reply as JSON."""
    return (
        _encode(command).decode(),
        None if executed.inputs is None else _encode(executed.inputs).decode(),
        None if executed.outcome is None else _encode(executed.outcome).decode(),
        _encode(executed.reply).decode(),
    )


def _write_rule_matches(
    rows: Rows, command: CardCommand, card: Card, executed: Executed, now_ms: int
) -> None:
    """Add a row for the rule that declined, and one for each shadow rule that matched."""
    decision = executed.outcome
    assert isinstance(decision, Decision), "only decisions have inputs"
    assert isinstance(command, Authorize), "only authorizations are decided"

    def row(name: RuleName, shadow: bool) -> RuleMatchRow:
        rule_id, version = name
        return RuleMatchRow(
            rule_id,
            command.id,
            version,
            shadow,
            executed.authorization_id or command.id,
            card.id,
            decision.day,
            decision.decision,
            command.amount_minor,
            command.currency,
            command.mcc,
            command.merchant_country,
            now_ms,
        )

    if decision.matched_rule is not None:
        rows.rule_matches.append(row(decision.matched_rule, shadow=False))
    rows.rule_matches += [row(name, shadow=True) for name in decision.shadow_matches]


def _write_effects(context: WriteContext, effects: tuple[Effect, ...]) -> None:
    """Add the rows of each effect, and the account's row if its balance changed."""
    balance_changed = False
    for effect in effects:
        writer = _WRITERS.get(type(effect))
        if writer is not None:
            writer(context, effect)
        balance_changed = balance_changed or type(effect) in ACCOUNT_CHANGES
    if balance_changed and context.account is not None:
        context.rows.set_balance(_account(context.account), context.account.version - 1)


def _kind(command: CardCommand, executed: Executed) -> str:
    """The command's tag. An authorization that raises an earlier one is an increment."""
    if isinstance(command, Authorize) and executed.authorization_id != command.id:
        return "increment"
    return _TAGS[type(command)]


def _has_derived_events(command: CardCommand) -> bool:
    """Whether the journal row of a plain authorization has all values of its events."""
    return isinstance(command, Authorize) and command.merchant_amount is None


def write_events(
    rows: Rows,
    tenant_id: str,
    live: bool,
    events: tuple[Event, ...],
    now_ms: int,
    *,
    derived: bool = False,
) -> None:
    """Add the events of a command. ``derived``: those that its journal row implies have a code for their type
    and no data, and the two of an approval are one row."""
    if derived and [event.type for event in events] == _OF_APPROVAL:
        rows.events.append(new_row(EventRow, (events[0].id, tenant_id, live, PAIR, now_ms, None, None)))
        return
    for event in events:
        code = DERIVED_EVENTS.get(event.type) if derived else None
        stored = (event.type, now_ms, event.data, None) if code is None else (code, now_ms, None, None)
        rows.events.append(new_row(EventRow, (event.id, tenant_id, live, *stored)))


class WriteContext(msgspec.Struct, frozen=True, gc=False):
    """The command's subjects, for the writers of its effects."""

    rows: Rows
    command: CardCommand
    card: Card
    account: Account | None
    original: Authorization | None
    now_ms: int


def _opened(context: WriteContext, effect: AuthorizationOpened) -> None:
    command = context.command
    assert isinstance(command, OPENERS), "only these commands open a transaction"
    context.rows.transactions.append(_transaction(effect, command, context.card, context.now_ms))


def _updated(context: WriteContext, effect: AuthorizationUpdated) -> None:
    original = context.original
    assert original is not None, "only a follow-up changes an authorization"
    changed = _changed_transaction(effect, original, context.now_ms)
    context.rows.changed_transactions[original.id] = changed


def _issued(context: WriteContext, effect: CardIssued) -> None:
    context.rows.cards[context.card.id] = _card(context.card)
    if effect.opened_account_id and context.account is not None:
        context.rows.set_balance(_account(context.account), 0)


def _changed(context: WriteContext, _effect: CardChanged | CardholderSet) -> None:
    context.rows.cards[context.card.id] = _card(context.card)


def _rules_changed(context: WriteContext, effect: RulesChanged) -> None:
    card = context.card
    context.rows.rules += [
        rule_row(rule, card.tenant_id, card.live, card.programme_id) for rule in effect.written
    ]


def _replaced(context: WriteContext, effect: CardReplaced) -> None:
    row = ReplacementRow(context.card.id, effect.replacement_id, effect.reason, context.now_ms)
    context.rows.replacements.append(row)


def _declared(context: WriteContext, effect: BalanceDeclared) -> None:
    declared, card_id = effect.declared, context.card.id
    row = DeclaredRow(card_id, declared.balance_minor, declared.consumed_minor, declared.declared_ms)
    context.rows.declared[card_id] = row


def _stood_in(context: WriteContext, effect: StandInRecorded) -> None:
    context.rows.stand_ins.append(_stand_in(effect, context.card, context.now_ms))


def _tombstones_set(context: WriteContext, effect: TombstoneSet) -> None:
    context.rows.tombstones += [
        TombstoneRow(context.card.id, reference, effect.recorded_ms) for reference in effect.references
    ]


def _placed(context: WriteContext, effect: HoldPlaced) -> None:
    hold, account_id = effect.hold, _funding_account(context).id
    # The amount at its placement: a later effect of the same batch adds a row to ``changed_holds``.
    row = new_row(
        HoldRow,
        (
            hold.id,
            account_id,
            hold.card_id,
            hold.authorization_id,
            hold.amount_minor,
            "held",
            hold.expires_ms,
        ),
    )
    context.rows.holds.append(row)


def _resized(context: WriteContext, effect: HoldResized) -> None:
    context.rows.change_hold(effect.hold_id, effect.amount_minor, "held", effect.expires_ms)


def _closed(context: WriteContext, effect: HoldClosed) -> None:
    context.rows.change_hold(effect.hold_id, None, effect.state, None)


def _lapsed(context: WriteContext, effect: HoldLapsed) -> None:
    context.rows.lapse(effect.hold_id, effect.authorization_id, context.now_ms)


def _transferred(context: WriteContext, effect: Transferred) -> None:
    _write_transfer(context.rows, effect, _funding_account(context), context.now_ms)


def _funding_account(context: WriteContext) -> Account:
    assert context.account is not None, "only funded cards have balance effects"
    return context.account


def _write_transfer(rows: Rows, transfer: Transferred, account: Account, now_ms: int) -> None:
    accounts = (account.id, transfer.other_account_id)
    debited, credited = accounts if transfer.direction == "debit" else reversed(accounts)
    for entry_id, account_id, direction in (
        (transfer.debit_entry_id, debited, "debit"),
        (transfer.credit_entry_id, credited, "credit"),
    ):
        row = EntryRow(
            entry_id,
            transfer.transfer_id,
            account_id,
            direction,
            transfer.amount_minor,
            account.currency,
            transfer.authorization_id,
            now_ms,
        )
        rows.entries.append(row)


def _transaction(
    effect: AuthorizationOpened, command: Authorize | Present | Advise, card: Card, now_ms: int
) -> TransactionRow:
    authorization = effect.authorization
    return new_row(
        TransactionRow,
        (
            authorization.id,
            card.tenant_id,
            card.live,
            card.id,
            card.cardholder_id,
            card.programme_id,
            card.seq,
            authorization.kind,
            status(authorization, held=effect.held_minor > 0),
            authorization.hold_id,
            authorization.currency,
            authorization.requested_minor,
            authorization.approved_minor,
            effect.held_minor,
            authorization.cleared_minor,
            authorization.reversed_minor,
            authorization.decline_reason,
            now_ms,
            now_ms,
            authorization.network_txn_id,
            authorization.day,
            authorization.remainder_minor,
            authorization.closed,
            command.mcc,
            command.wire.rrn,
        ),
    )


def _changed_transaction(
    effect: AuthorizationUpdated, original: Authorization, now_ms: int
) -> TransactionRow:
    """The update reads ``id`` and the columns that can change; the others are ``None``."""
    return TransactionRow(
        original.id,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        status(original, held=effect.held_minor > 0),
        effect.hold_id,
        None,
        None,
        effect.approved_minor,
        effect.held_minor,
        effect.cleared_minor,
        effect.reversed_minor,
        effect.decline_reason,
        None,
        now_ms,
        None,
        None,
        effect.remainder_minor,
        effect.closed,
        None,
        None,
    )


def _stand_in(effect: StandInRecorded, card: Card, now_ms: int) -> StandInRow:
    stand_in = effect.stand_in
    return StandInRow(
        effect.id,
        card.tenant_id,
        card.live,
        card.programme_id,
        card.id,
        effect.authorization_id,
        stand_in.outage_id,
        now_ms,
        effect.decision,
        stand_in.rule,
        stand_in.trigger,
        effect.amount_minor,
        effect.currency,
        effect.mcc,
        stand_in.exposure_minor,
        stand_in.used_minor,
        stand_in.limit_minor,
        effect.response_code,
        effect.stan,
        effect.rrn,
    )


def _card(card: Card) -> CardRow:
    return CardRow(
        card.id,
        card.tenant_id,
        card.live,
        card.programme_id,
        card.card_product_id,
        card.cardholder_id,
        card.account_id,
        card.network,
        card.currency,
        card.iin,
        card.last4,
        card.pan_ref,
        card.exp_month,
        card.exp_year,
        card.cvk_generation,
        card.state,
        card.state_reason,
        _encode(card.controls).decode(),
        card.cardholder_active,
        card.created_ms,
    )


def _account(account: Account) -> AccountRow:
    return new_row(
        AccountRow,
        (
            account.id,
            account.tenant_id,
            account.live,
            account.programme_id,
            "card",
            account.currency,
            account.posted_minor,
            account.held_minor,
            account.version,
        ),
    )


_WRITERS: Final[dict[type, Callable[[WriteContext, Any], None]]] = {
    AuthorizationOpened: _opened,
    AuthorizationUpdated: _updated,
    CardIssued: _issued,
    CardChanged: _changed,
    RulesChanged: _rules_changed,
    CardReplaced: _replaced,
    CardholderSet: _changed,
    BalanceDeclared: _declared,
    StandInRecorded: _stood_in,
    TombstoneSet: _tombstones_set,
    HoldPlaced: _placed,
    HoldResized: _resized,
    HoldClosed: _closed,
    HoldLapsed: _lapsed,
    Transferred: _transferred,
}
"""Writers by effect. An effect without a writer changes counters, which are written for every command."""
