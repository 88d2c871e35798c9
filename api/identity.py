"""Who verifies identities: one small interface, and the provider that comes with Stanchion."""

from __future__ import annotations

from typing import Protocol

from engine.kyc.evaluation import evaluate
from engine.kyc.facts import CaseFacts, Verdict


class IdentityProvider(Protocol):
    """Judges complete cases of the live mode; those of the test mode are decided by name alone."""

    async def evaluate(self, facts: CaseFacts) -> Verdict:
        """The verdict. Whatever it raises, and any slowness, leaves the case in review to be judged again."""
        ...


class BuiltInProvider:
    """Compares what was given, and asks nobody."""

    async def evaluate(self, facts: CaseFacts) -> Verdict:
        return evaluate(facts)
