"""The rows that record a card command."""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from actors.cards.answers import fingerprint_of
from actors.cards.card_actor import CardActor
from actors.cards.effect_rows import WriteContext, write_effects
from actors.journal.contract import Rows
from actors.journal.rows import EventRow, JournalRow, RuleMatchRow, UsageRow, new_row
from engine.authorization.compact_events import DERIVED_EVENTS, PAIR
from engine.authorization.events import Event
from engine.authorization.executed import Executed
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.commands import Authorize, CardCommand
from engine.decision.compact import CompactTexts, compacted
from engine.decision.decide import Decision
from engine.rules.observed import RuleName

_encode = msgspec.json.Encoder().encode
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
    write_effects(WriteContext(rows, command, card, actor.account, original, now_ms), executed.effects)
    derived = compact is not None and _has_derived_events(command)
    _write_events(rows, card.tenant_id, card.live, executed.events, now_ms, derived=derived)
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


def _kind(command: CardCommand, executed: Executed) -> str:
    """The command's tag. An authorization that raises an earlier one is an increment."""
    if isinstance(command, Authorize) and executed.authorization_id != command.id:
        return "increment"
    return _TAGS[type(command)]


def _has_derived_events(command: CardCommand) -> bool:
    """Whether the journal row of a plain authorization has all values of its events."""
    return isinstance(command, Authorize) and command.merchant_amount is None


def _write_events(
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
