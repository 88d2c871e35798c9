"""Commands that ran under earlier rules of the engine, under which they had other effects than today."""

from __future__ import annotations

from typing import Final

import msgspec

from engine.authorization.follow_up import RULES
from engine.commands import Advise, Authorize, CardCommand, Present, Reverse
from engine.decision import inputs as decision_inputs
from engine.decision.recorded import decode_inputs

_REVERSALS_UNCHANGED_SINCE: Final = 1
"""The first version of the rules in which reversals have their present effects, unless advices of earlier
rules preceded them."""


class _Rules(msgspec.Struct):
    """The rules' version in a follow-up's record."""

    rules: int = 0


_rules = msgspec.json.Decoder(_Rules).decode
_PRESENT_RECORD: Final = f'"rules":{RULES}}}'


def by_earlier_rules(command: CardCommand, inputs: str | None, decision: str | None) -> bool:
    """Whether ``command`` may have had other effects than the present rules give it. ``inputs`` and
    ``decision`` are those of its journal row."""
    if isinstance(command, (Reverse, Present, Advise)):
        if decision is None or decision.endswith(_PRESENT_RECORD):
            return False
        least = _REVERSALS_UNCHANGED_SINCE if isinstance(command, Reverse) else RULES
        return _rules(decision).rules < least
    if not isinstance(command, Authorize) or not inputs:
        return False
    stored = decode_inputs(inputs)
    return stored.rules < decision_inputs.RULES and bool(command.references or stored.endpoint_result)
