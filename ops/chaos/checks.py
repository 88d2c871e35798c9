"""Which promise each check over a whole run speaks of."""

from __future__ import annotations

from typing import Final

BOOKS: Final = "G3"
"""No hold and no money lost or doubled: every check of the audit that has no line of its own here."""

CHECKS: Final = {
    # histories
    "what a client heard is in the journal": "G1",
    "what was never sent has not happened": "G3",
    "no message is executed twice": "G10",
    "all answers to one message say the same": "G10",
    "no approval is told after its deadline": "G11",
    "what had ended before something began stands before it": "G4",
    "an authorization that was refused with 91 or 96 alone holds nothing": "G11",
    "an approval on the wire is not reversed as late": "G11",
    # the receiver of webhooks
    "each event reached its endpoint": "G7",
    "no delivery is left over": "G7",
    "every delivery of an event is the same bytes": "G9",
    "every delivery is signed": "G9",
    # the audit
    "what the simulated network was told has failed holds nothing": "G11",
    "seq is gap-free from 1": "G2",
    "cards and programmes stand at their last seq": "G2",
    "epochs never decrease along seq": "G2",
    "a card and its account have one owner": "G2",
    "the id space has 256 shards": "G2",
    "decisions made again from their stored inputs give the same bytes": "G4",
    "a card's journal lived through again gives the same answers": "G4",
    "and leaves its counters, balance and transactions as they stand": "G4",
    "what is used of an outage's budgets was granted": "G6",
    "at every grant of an outage the budget was kept": "G6",
    "no more was approved in an outage than was used of its budgets": "G6",
    "an approval in stand-in was inside the budget in force": "G6",
    "a programme knows its open outage, and has no other": "G6",
    "each outage that ended has one authorization.stip_outage.finished": "G6",
    "each decision in stand-in is in the report, which says the same": "G6",
    "what is consumed of a declared balance is the exposure since": "G6",
    "each decision has one authorization.decided, which says the same": "G7",
    "each event has a delivery for each endpoint that wants it": "G7",
    "a delivery is delivered where an attempt was answered so, and nowhere else": "G7",
    "the attempts of a delivery are numbered from 1, and no more than the schedule has": "G8",
    "no attempt came before its place in the schedule": "G8",
    "a case has custody of what its tokens name, and of nothing else": "G18",
    "a cardholder shows what their checks say": "G18",
    "a cardholder has a data key, or is erased with what their checks have in custody": "G18",
    # idempotency keys
    "a key has at most one effect, and one if anybody heard of it": "G5",
    "every answer to a key is the same bytes": "G5",
    "only one answer to a key is not marked as a replay": "G5",
    "another payload under a key is a conflict, and has no effect": "G5",
    "the same key of another client is its own": "G5",
}


def promise_of(check: str) -> str:
    """``G1`` to ``G20``."""
    if check.startswith("no canary in "):
        return "G18"
    return CHECKS.get(check, BOOKS)
