"""Compact texts of plain authorizations in the journal.

The journal keeps four texts of a command: command, inputs, decision and reply. Of a plain authorization it
stores only the values that no other column holds, by position. ``compacted`` makes these texts and
``expanded`` gives the exact original JSON back; the view ``journal`` does the same in SQL
(``ops/migrations/0039_compact_journal.sql``). Every other command is stored in full.

The state of card and programme that rarely changes is a *configuration*. It is stored once, under a digest of
its content, and the inputs name it.

Stored rows are read for ever, so nothing in this layout changes. Another layout gets functions of its own and
begins its texts with another character.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from engine.commands import Authorize
from engine.currencies import MerchantAmount
from engine.decision.decide import Decision
from engine.decision.inputs import INPUTS_LAYOUT, RULES, Inputs
from engine.instant import DAY_MS
from engine.limits import CONFIGURATIONS_CACHED_MAX
from engine.replies import Reply, WireAnswer
from engine.trace import TraceStep

RULE_NAMES: Final = (
    *("card_state", "card_expiry", "cardholder", "programme", "expiry", "cvv2", "cvv1", "authentication"),
    *("currency", "risk", "funds", "amount", "address", "chip_data", "pin", "per_txn_cap", "per_day_cap"),
    *("per_day_amount_cap", "mcc_allow", "mcc_deny", "channel_allow", "channel_deny", "country_allow"),
    *("country_deny", "programme_decision", "approved_amount"),
)
"""Rules by their number in a stored trace."""
OUTCOMES: Final = ("pass", "fail", "skip")
_CODES: Final = {
    outcome: {rule: len(OUTCOMES) * number + place for number, rule in enumerate(RULE_NAMES)}
    for place, outcome in enumerate(OUTCOMES)
}
"""The codes of steps, by outcome and rule."""
_STEPS: Final = tuple(f'"{rule}","{outcome}"' for rule in RULE_NAMES for outcome in OUTCOMES)
_DIGEST_BYTES: Final = 12
_COMMAND_PARTS: Final = (
    ("\x01", ',null,{"expiry":"match","cvv2":"missing"}]'),
    ("\x02", ',null,{"expiry":"match","cvv2":"match"}]'),
    ("\x03", ',{"expiry":"match"'),
    ("\x04", ',"cvv2":"match"'),
    ("\x05", ',"cvv1":"match"'),
    ("\x06", ',"pin":"valid"'),
    ("\x07", ',"chip":"valid","chip_tags":["'),
    ("\x0e", ',"authentication":"valid"'),
    ("\x0f", '","ecommerce","'),
    ("\x10", '","pos","'),
    ("\x11", ',"EUR","'),
    ("\x12", ',"GBP","'),
    ("\x13", ',"USD","'),
    ("\x14", ",null,"),
    ("\x15", '","'),
)
"""Frequent parts of compact commands, and the control character that stands for each. JSON text contains no
control characters. Replaced in this order, and put back in the opposite order."""
_DECISION_PARTS: Final = (
    ("\x01", '[0,null,null,7,-1,[3,true,"20'),
    ("\x02", '"],12,6,-10,17,23,'),
    ("\x03", '"],12,6,-10,'),
    ("\x04", ",17,23,"),
    ("\x05", '[24,"EUR","EUR"],'),
    ("\x06", '[24,"GBP","GBP"],'),
    ("\x07", '[24,"USD","USD"],'),
    ("\x0e", "[27,0,90],[30,"),
)
"""The same for compact decisions."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Configuration(NamedTuple):
    """The part of ``Inputs`` that rarely changes."""

    digest: str
    """Digest of the content: sixteen characters of base64."""
    card: str
    """JSON of the members from ``card_state`` to ``controls``, without brackets."""
    programme: str
    """JSON of the members from ``programme_version`` to ``hold_expiry_days``, without brackets."""
    decisioning: str


class CompactTexts(NamedTuple):
    """The texts of a journal row, and the configuration that its inputs name."""

    command: str
    inputs: str
    decision: str
    reply: str
    configuration: Configuration


class StoredRow(NamedTuple):
    """The columns of a journal row that its compact texts need."""

    actor_id: str
    seq: int
    command_key: bytes
    fingerprint: bytes | None
    command: str
    inputs: str | None
    decision: str | None
    reply: str
    recorded_at_ms: int
    authorization_id: str | None


class FullTexts(NamedTuple):
    """The original JSON texts of a journal row."""

    command: str
    inputs: str | None
    decision: str | None
    reply: str


class Further(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The last optional members of ``Authorize``, in its order."""

    mit: bool = False
    partial_allowed: bool = False
    partial_cap_minor: int | None = None
    expiry: str = "absent"
    cvv2: str = "absent"
    cvv1: str = "absent"
    pin: str = "absent"
    chip: str = "absent"
    chip_tags: tuple[str, ...] = ()
    address: str = "absent"
    authentication: str = "absent"
    merchant_amount: MerchantAmount | None = None


# --- writing ------------------------------------------------------------------------------------------------


def compacted(
    command: Authorize, inputs: Inputs, decision: Decision, reply: Reply, seq: int, now_ms: int
) -> CompactTexts | None:
    """The compact texts of an authorization that is the command number ``seq`` of its card and was recorded
    at ``now_ms``; ``None`` if it must be stored in full."""
    if not (_is_plain(command) and has_plain_inputs(inputs, seq, now_ms)):
        return None
    outcome = outcome_texts(decision, inputs.day, now_ms)
    answer = WireAnswer(
        decision.response_code,
        command.id,
        decision.approval_code,
        decision.approved_minor,
        reason=decision.reason,
    )
    if outcome is None or reply != answer:
        return None
    configuration = _configuration_of(inputs)
    inputs_text = compact_inputs(inputs, configuration.digest)
    decision_text = _shortened(outcome[0], _DECISION_PARTS)
    return CompactTexts(_compact_command(command), inputs_text, decision_text, outcome[1], configuration)


def compact_inputs(inputs: Inputs, digest: str) -> str:
    """The compact text of plain ``inputs`` whose configuration has the ``digest``."""
    figures = (
        digest,
        inputs.day,
        inputs.day_count,
        inputs.day_amount_minor,
        inputs.cvv2_failures,
        inputs.account_version,
        inputs.posted_minor,
        inputs.held_minor,
    )
    return _encode(figures).decode()


def outcome_texts(decision: Decision, day_before: str, now_ms: int) -> tuple[str, str] | None:
    """The compact texts of a decision at ``now_ms``, in which no part is shortened yet, and of its reply;
    ``None`` if it has none. ``day_before`` is the day of its inputs."""
    trace = _compact_trace(decision.trace, decision.day) if _is_plain_decision(decision) else None
    hold_ms = None if decision.hold_expires_ms is None else decision.hold_expires_ms - now_ms
    if trace is None or (hold_ms is not None and hold_ms % DAY_MS):
        return None
    outcome = (
        decision.risk_score,
        None if decision.risk_action == "allow" else decision.risk_action,
        None if decision.day == day_before else decision.day,
        None if hold_ms is None else hold_ms // DAY_MS,
        *trace,
    )
    answered: tuple[str | int | None, ...] = (
        decision.response_code,
        decision.approval_code,
        decision.approved_minor,
    )
    if decision.reason is not None:
        answered += (decision.reason,)
    return _encode(outcome).decode(), _encode(answered).decode()


def _is_plain(command: Authorize) -> bool:
    return (
        command.kind == "purchase"
        and not command.references
        and not command.endpoint_silent
        and not command.wire.further
    )


def has_plain_inputs(inputs: Inputs, seq: int, now_ms: int) -> bool:
    """Whether ``inputs`` have a compact text in the row number ``seq`` that was recorded at ``now_ms``."""
    return (
        inputs.now_ms == now_ms
        and inputs.card_seq == seq - 1
        and inputs.rules == RULES
        and inputs.rules_in_force is None
        and inputs.original is None
        and inputs.endpoint_result is None
        and inputs.declared_remaining_minor is None
        and not inputs.lapsed_holds
        and not inputs.reversed_early
    )


def _is_plain_decision(decision: Decision) -> bool:
    return (
        decision.decided_by == "platform"
        and decision.stand_in is None
        and decision.decline_detail is None
        and decision.matched_rule is None
        and not decision.shadow_matches
    )


def _compact_command(command: Authorize) -> str:
    wire = command.wire
    further = Further(
        command.mit,
        command.partial_allowed,
        command.partial_cap_minor,
        command.expiry,
        command.cvv2,
        command.cvv1,
        command.pin,
        command.chip,
        command.chip_tags,
        command.address,
        command.authentication,
        command.merchant_amount,
    )
    values = (
        wire.acquirer_id,
        wire.stan,
        wire.transmitted_at,
        wire.rrn,
        wire.network_txn_id,
        command.amount_minor,
        command.currency,
        command.mcc,
        command.merchant_name,
        command.merchant_country,
        command.channel,
        command.merchant_id,
        command.entry_mode,
        further,
    )
    return _shortened(_encode(values).decode(), _COMMAND_PARTS)


def _compact_trace(trace: tuple[TraceStep, ...], day: str) -> list[Any] | None:
    """A step is its code; an array of its code, the observed value and the limit; or, if both are ``active``,
    a negative number. ``true`` stands for the day of the decision. ``None`` if a step has no code."""
    steps: list[Any] = []
    for step in trace:
        code = _CODES[step.outcome].get(step.rule)
        if code is None:
            return None
        observed, limit = step.observed, step.limit
        if limit is None:
            steps.append(code if observed is None else (code, observed))
        elif observed == limit == "active":
            steps.append(-1 - code)
        else:
            steps.append((code, True if observed == day else observed, limit))
    return steps


def _shortened(text: str, parts: tuple[tuple[str, str], ...]) -> str:
    for character, part in parts:
        text = text.replace(part, character)
    return text


def _configuration_of(inputs: Inputs) -> Configuration:
    card = _encode(
        (
            inputs.card_state,
            inputs.cardholder_active,
            inputs.network,
            inputs.card_currency,
            inputs.exp_year,
            inputs.exp_month,
            inputs.controls,
        )
    )
    return _configuration(
        card,
        inputs.programme_version,
        inputs.programme_status,
        inputs.programme_mode,
        inputs.timezone,
        inputs.hold_expiry_days,
        inputs.decisioning,
    )


@lru_cache(maxsize=CONFIGURATIONS_CACHED_MAX)
def _configuration(card: bytes, *programme: Any) -> Configuration:
    """``programme``: the members from ``programme_version`` to ``hold_expiry_days``, and ``decisioning``."""
    texts = card[1:-1].decode(), _encode(programme[:-1])[1:-1].decode(), programme[-1]
    return Configuration(digest_of(*texts), *texts)


def digest_of(card: str, programme: str, decisioning: str) -> str:
    """The digest that names a configuration."""
    content = _encode((card, programme, decisioning))
    return _base64(blake2b(content, digest_size=_DIGEST_BYTES).digest())


# --- reading ------------------------------------------------------------------------------------------------


def is_compact(command: str) -> bool:
    """Whether the stored ``command`` and the other texts of its row are compact."""
    return command.startswith("[")


def configuration_named(inputs: str) -> str:
    """The digest that compact ``inputs`` name."""
    return inputs[2 : inputs.index('"', 2)]


def expanded(row: StoredRow, configuration: Callable[[str], Configuration]) -> FullTexts:
    """The original texts of ``row``, byte for byte. ``configuration`` finds a configuration by its digest,
    and raises KeyError if it is missing."""
    if not is_compact(row.command):
        return FullTexts(row.command, row.inputs, row.decision, row.reply)
    assert row.inputs is not None, "compact rows are decisions"
    assert row.decision is not None, "compact rows are decisions"
    # None of the values contains a comma.
    figures = row.inputs[1:-1].split(",")
    answered = _decode(row.reply)
    return FullTexts(
        full_command(row),
        _full_inputs(row, figures, configuration(configuration_named(row.inputs))),
        _full_decision(row, row.decision, figures[1], answered),
        _full_reply(row, answered),
    )


def full_command(row: StoredRow) -> str:
    """The original command of ``row``."""
    if not is_compact(row.command):
        return row.command
    acquirer_id, stan, transmitted_at, rrn, network_txn_id, *asked = command_values(row.command)
    amount_minor, currency, mcc, name, country, channel, merchant_id, entry_mode, further = asked
    assert row.fingerprint is not None, "messages of networks have fingerprints"
    wire = (
        f'"acquirer_id":{_json(acquirer_id)},"stan":{_json(stan)},"transmitted_at":{_json(transmitted_at)}'
        f',"rrn":{_json(rrn)}{_member("network_txn_id", network_txn_id)}'
    )
    optional = _member("merchant_id", merchant_id) + _member("entry_mode", entry_mode)
    if further:
        optional += "," + _encode(further)[1:-1].decode()
    return (
        f'{{"command":"authorize","id":"{row.authorization_id}","command_key":"{_base64(row.command_key)}"'
        f',"card_id":"{row.actor_id}","fingerprint":"{_base64(row.fingerprint)}","wire":{{{wire}}}'
        f',"amount_minor":{amount_minor},"currency":{_json(currency)},"mcc":{_json(mcc)}'
        f',"merchant_name":{_json(name)},"merchant_country":{_json(country)},"channel":{_json(channel)}{optional}}}'
    )


def command_values(command: str) -> list[Any]:
    """The values of a compact command."""
    values: list[Any] = _decode(lengthened_command(command))
    return values


def lengthened_command(command: str) -> str:
    """The JSON of a compact command."""
    return _lengthened(command, _COMMAND_PARTS)


def decision_values(decision: str) -> list[Any]:
    """The values of a compact decision."""
    values: list[Any] = _decode(lengthened_decision(decision))
    return values


def lengthened_decision(decision: str) -> str:
    """The JSON of a compact decision."""
    return _lengthened(decision, _DECISION_PARTS)


def _lengthened(text: str, parts: tuple[tuple[str, str], ...]) -> str:
    for character, part in reversed(parts):
        text = text.replace(character, part)
    return text


def _full_inputs(row: StoredRow, figures: list[str], found: Configuration) -> str:
    return (
        f"[{INPUTS_LAYOUT},{row.recorded_at_ms},{row.seq - 1},{found.card},{','.join(figures[1:5])}"
        f',{found.programme},{",".join(figures[5:8])},[],null,"{found.decisioning}",null,null,1,false,null]'
    )


def _full_decision(row: StoredRow, stored: str, day_before: str, answered: list[Any]) -> str:
    risk_score, risk_action, day, hold_days, *steps = decision_values(stored)
    response_code, approval_code, approved_minor, *reason = answered
    day_text = day_before if day is None else f'"{day}"'
    expires = "null" if hold_days is None else row.recorded_at_ms + hold_days * DAY_MS
    return (
        f'{{"decision":"{"declined" if reason else "approved"}","reason":{_json(*reason or (None,))}'
        f',"response_code":{_json(response_code)},"approval_code":{_json(approval_code)}'
        f',"approved_minor":{approved_minor},"decided_by":"platform","risk_score":{risk_score}'
        f',"risk_action":"{risk_action or "allow"}","day":{day_text},"hold_expires_ms":{expires}'
        f',"trace":[{",".join([_full_step(step, day_text) for step in steps])}]}}'
    )


def _full_step(step: Any, day: str) -> str:
    if isinstance(step, int):
        if step < 0:
            return f'[{_STEPS[-1 - step]},"active","active"]'
        return f"[{_STEPS[step]},null,null]"
    code, observed, *limit = step
    seen = day if observed is True else _json(observed)
    return f"[{_STEPS[code]},{seen},{_json(limit[0]) if limit else 'null'}]"


def _full_reply(row: StoredRow, answered: list[Any]) -> str:
    response_code, approval_code, approved_minor, *reason = answered
    return (
        f'{{"reply":"answer","response_code":{_json(response_code)}'
        f',"authorization_id":"{row.authorization_id}"{_member("approval_code", approval_code)}'
        f"{_member('approved_minor', approved_minor or None)}{_member('reason', *reason or (None,))}}}"
    )


def _member(name: str, value: str | int | None) -> str:
    """A member of a JSON object after a comma, if it has a value."""
    return "" if value is None else f',"{name}":{_json(value)}'


def _json(value: str | int | None) -> str:
    if type(value) is str:
        # The frequent case: nothing to escape.
        return f'"{value}"' if value.isalnum() and value.isascii() else _encode(value).decode()
    return "null" if value is None else str(value)


def _base64(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode()
