"""The original texts of compact rows, byte for byte.

The views ``journal`` and ``events`` do the same in SQL (``ops/migrations/0039_compact_journal.sql``,
``0043_compact_delegated.sql``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from engine.decision.compact_delegated import decided_by, full_result, full_stand_in
from engine.decision.compact_layout import (
    COMMAND_PARTS,
    DECIDER,
    DECISION_PARTS,
    DELEGATED_PARTS,
    FIGURES,
    OUTCOMES,
    RULE_NAMES,
    Configuration,
    FullTexts,
    StoredRow,
    base64_text,
)
from engine.decision.inputs import INPUTS_LAYOUT
from engine.instant import DAY_MS

_STEPS: Final = tuple(f'"{rule}","{outcome}"' for rule in RULE_NAMES for outcome in OUTCOMES)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def is_compact(command: str) -> bool:
    """Whether the stored ``command`` and the other texts of its row are compact."""
    return command.startswith("[")


def is_delegated(command: str, inputs: str | None) -> bool:
    """Whether these stored texts are compact and have values of ``compact_delegated``."""
    if inputs is None or not is_compact(command):
        return False
    return inputs.count(",") >= FIGURES or 'endpoint_silent":true' in command


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
    # None of the first values contains a comma.
    figures = row.inputs[1:-1].split(",", FIGURES)
    called: list[Any] = _decode(f"[{figures.pop()}]") if len(figures) > FIGURES else [None, None]
    answered = _decode(row.reply)
    return FullTexts(
        full_command(row),
        _full_inputs(row, figures, called, configuration(configuration_named(row.inputs))),
        _full_decision(row, row.decision, figures[1], called[0], answered),
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
        f'{{"command":"authorize","id":"{row.authorization_id}","command_key":"{base64_text(row.command_key)}"'
        f',"card_id":"{row.actor_id}","fingerprint":"{base64_text(row.fingerprint)}","wire":{{{wire}}}'
        f',"amount_minor":{amount_minor},"currency":{_json(currency)},"mcc":{_json(mcc)}'
        f',"merchant_name":{_json(name)},"merchant_country":{_json(country)},"channel":{_json(channel)}{optional}}}'
    )


def command_values(command: str) -> list[Any]:
    """The values of a compact command."""
    values: list[Any] = _decode(lengthened_command(command))
    return values


def lengthened_command(command: str) -> str:
    """The JSON of a compact command."""
    return _lengthened(command, COMMAND_PARTS)


def decision_values(decision: str) -> list[Any]:
    """The values of a compact decision."""
    values: list[Any] = _decode(lengthened_decision(decision))
    return values


def named_decider(values: list[Any]) -> str | None:
    """The decider that the ``values`` of a compact decision name; ``None`` if the platform decided. A step is
    never a string."""
    named = values[DECIDER] if len(values) > DECIDER else None
    return named if isinstance(named, str) else None


def lengthened_decision(decision: str) -> str:
    """The JSON of a compact decision."""
    return _lengthened(decision, DECISION_PARTS + DELEGATED_PARTS)


def _lengthened(text: str, parts: tuple[tuple[str, str], ...]) -> str:
    for character, part in reversed(parts):
        text = text.replace(character, part)
    return text


def _full_inputs(row: StoredRow, figures: list[str], called: list[Any], found: Configuration) -> str:
    result, remaining_minor = called
    return (
        f"[{INPUTS_LAYOUT},{row.recorded_at_ms},{row.seq - 1},{found.card},{','.join(figures[1:5])}"
        f',{found.programme},{",".join(figures[5:])},[],null,"{found.decisioning}"'
        f",{full_result(result)},{_json(remaining_minor)},1,false,null]"
    )


def _full_decision(
    row: StoredRow, stored: str, day_before: str, result: list[Any] | None, answered: list[Any]
) -> str:
    values = decision_values(stored)
    decider = named_decider(values)
    risk_score, risk_action, day, hold_days, *steps = values
    if decider is not None:
        del steps[0]
    response_code, approval_code, approved_minor, *reason = answered
    day_text = day_before if day is None else f'"{day}"'
    expires = "null" if hold_days is None else row.recorded_at_ms + hold_days * DAY_MS
    return (
        f'{{"decision":"{"declined" if reason else "approved"}","reason":{_json(*reason or (None,))}'
        f',"response_code":{_json(response_code)},"approval_code":{_json(approval_code)}'
        f',"approved_minor":{approved_minor},"decided_by":"{decided_by(decider)}","risk_score":{risk_score}'
        f',"risk_action":"{risk_action or "allow"}","day":{day_text},"hold_expires_ms":{expires}'
        f',"trace":[{",".join([_full_step(step, day_text) for step in steps])}]'
        f"{full_stand_in(decider, result, approved_minor)}}}"
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
