"""The interface of identity providers, and the built-in provider."""

from __future__ import annotations

from typing import Protocol

from engine.kyc.evaluation import evaluate
from engine.kyc.facts import CaseFacts, Verdict


class IdentityProvider(Protocol):
    """Evaluates complete cases in live mode. In test mode the family name decides, without a provider."""

    async def evaluate(self, facts: CaseFacts) -> Verdict:
        """The verdict. After an exception or a timeout the case is in review and is evaluated again."""
        ...


class BuiltInProvider:
    """Compares the submitted data with each other and with the cardholder. It calls no external service."""

    async def evaluate(self, facts: CaseFacts) -> Verdict:
        return evaluate(facts)
