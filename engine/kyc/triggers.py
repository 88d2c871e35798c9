"""The provider of test mode: the family name alone decides (``ops/docs/KYC.md``)."""

from __future__ import annotations

from typing import Final

from engine.kyc.facts import CaseFacts, Verdict

VERDICTS: Final = {
    "FAIL": Verdict("failed", ("risk_threshold",)),
    "REVIEW": Verdict("review", ("risk_threshold",)),
}


def decide_by_name(facts: CaseFacts) -> Verdict:
    """``FAIL`` fails, ``REVIEW`` goes to review, every other family name passes."""
    return VERDICTS.get(facts.given["family_name"], Verdict("passed"))
