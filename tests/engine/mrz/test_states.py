"""Codes of states in zones."""

from __future__ import annotations

import pytest

from engine.mrz.states import alpha2_of, is_state


@pytest.mark.parametrize(
    ("code", "known", "alpha2"),
    [
        ("IRL", True, "IE"),
        ("D", True, "DE"),
        ("DEU", True, "DE"),
        ("GBD", True, "GB"),
        ("RKS", True, "XK"),
        ("UTO", True, None),
        ("XXA", True, None),
        ("UNO", True, None),
        ("ZZZ", False, None),
        ("IE", False, None),
        ("", False, None),
    ],
)
def test_known_codes_and_their_alpha_2_codes(code: str, known: bool, alpha2: str | None) -> None:
    assert (is_state(code), alpha2_of(code)) == (known, alpha2)
