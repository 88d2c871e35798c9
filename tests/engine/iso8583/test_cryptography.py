"""What a policy makes of the verdicts of card cryptography."""

from __future__ import annotations

from typing import Any

import pytest

from engine.iso8583.cryptography import treated


@pytest.mark.parametrize(
    ("treatment", "verdict", "outcome"),
    [
        ("verify", "valid", "valid"),
        ("verify", "invalid", "invalid"),
        ("verify", "unavailable", "refused"),
        ("refuse", "valid", "refused"),
        ("refuse", "unavailable", "refused"),
        ("ignore", "invalid", "ignored"),
        ("ignore", "unavailable", "ignored"),
    ],
)
def test_policy_decides_about_values_that_are_not_verified(
    treatment: Any, verdict: Any, outcome: str
) -> None:
    asked: list[str] = []

    def verify() -> Any:
        asked.append(verdict)
        return verdict

    assert treated(treatment, verify) == outcome
    assert bool(asked) == (treatment == "verify")
