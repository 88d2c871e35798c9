"""The tests of this folder share one installation: one for each test would take most of their time."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.api.stack import Installation

SEEN: Final[list[Installation]] = []


@pytest.mark.parametrize("turn", [1, 2])
async def test_installation_stays_between_tests(running: Installation, turn: int) -> None:
    SEEN.append(running)
    assert all(each is SEEN[0] for each in SEEN)
