"""The promise that each check of a whole run belongs to."""

from __future__ import annotations

from typing import Final

BOOKS: Final = "G3"
"""No hold and no money is lost or doubled: the promise of every audit check that is not listed below."""

CHECKS: Final = {
    # client histories
    "every answer to a client is in the journal": "G1",
    "unsent messages have no effect": "G3",
    "no message is executed twice": "G10",
    "all answers to one message agree": "G10",
    "no approval is answered after its deadline": "G11",
    "journal order respects real time": "G4",
    "an authorization answered only with 91 or 96 holds nothing": "G11",
    "an approval answered in time is not reversed as late": "G11",
    # webhook deliveries
    "each event reached its endpoint": "G7",
    "no delivery stays pending": "G7",
    "all deliveries of an event have the same bytes": "G9",
    "every delivery is signed": "G9",
    # audit of the books
    "simulations answered with 91 or 96 hold nothing": "G11",
    "seq is gap-free from 1": "G2",
    "cards and programmes are at their last seq": "G2",
    "epochs never decrease along seq": "G2",
    "a card and its account have one owner": "G2",
    "the id space has 256 shards": "G2",
    "decisions recomputed from stored inputs have the same bytes": "G4",
    "replaying a card's journal gives the same answers": "G4",
    "replaying a card's journal gives the same counters, balance and transactions": "G4",
    "the used budget of an outage is the sum of its grants": "G6",
    "no grant exceeds its outage's budget": "G6",
    "stand-in approvals of an outage do not exceed its used budget": "G6",
    "each stand-in approval was within the budget in force": "G6",
    "the open outage of a programme is the one that it references": "G6",
    "each ended outage has one authorization.stip_outage.finished": "G6",
    "each stand-in decision has an equal row in the report": "G6",
    "consumption of a declared balance equals the exposure since its declaration": "G6",
    "each decision has one authorization.decided with the same content": "G7",
    "each event has a delivery for each subscribed endpoint": "G7",
    "a delivery is delivered exactly if an attempt was answered with 2xx": "G7",
    "attempts of a delivery are numbered from 1, and at most as many as scheduled": "G8",
    "no attempt was earlier than scheduled": "G8",
    "a case's values in custody are those that its tokens name": "G18",
    "a cardholder's KYC state follows from their checks": "G18",
    "a cardholder has a data key, or is erased with the custody of their checks": "G18",
    "each executed replacement links its card with one replacement": "G4",
    "a replaced card has ended, and its replacement has its account": "G4",
    "a replacement continues the counters of its card": "G4",
    "a card number is shown once for each session, and each view is in the custody log": "G18",
    # idempotency keys
    "a key has at most one effect, and exactly one if a caller got its success": "G5",
    "all answers to a key have the same bytes": "G5",
    "at most one answer to a key is not marked as a replay": "G5",
    "another payload under a key gets a conflict and has no effect": "G5",
    "the same key of another client is independent": "G5",
}


def promise_of(check: str) -> str:
    """The promise (``G1`` to ``G20``) that ``check`` belongs to."""
    if check.startswith("no canary in "):
        return "G18"
    return CHECKS.get(check, BOOKS)
