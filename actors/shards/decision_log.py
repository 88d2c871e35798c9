"""One line of the log for each durable decision, where the setting ``log_decisions`` asks for it."""

from __future__ import annotations

import structlog

from actors.shards.pending import Pending
from engine.commands import Authorize
from engine.decision.decide import Decision

_log = structlog.get_logger(__name__)


def log_decision(pending: Pending) -> None:
    """Log the decision that ``pending`` has made durable, if it is one. The line has no card number and no
    name; amounts are integers of minor units."""
    command, decided = pending.command, pending.outcome
    if not isinstance(decided, Decision) or not isinstance(command, Authorize):
        return
    _log.info(
        "decision",
        every=True,
        trace=command.wire.rrn,
        authorization_id=command.id,
        card_id=command.card_id,
        operation="increment" if command.references else command.kind,
        amount_minor=command.amount_minor,
        currency=command.currency,
        mcc=command.mcc,
        country=command.merchant_country,
        channel=command.channel,
        decision=decided.decision,
        reason=decided.reason,
        response_code=decided.response_code,
        approved_minor=decided.approved_minor,
        decided_by=decided.decided_by,
    )
