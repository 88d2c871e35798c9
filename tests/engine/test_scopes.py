"""Scopes: read and write of each resource."""

from __future__ import annotations

from engine.scopes import DEFAULT_SCOPES, MODES, RESOURCES, REVEAL, ROLES, SCOPES


def test_each_resource_has_a_read_and_a_write_scope() -> None:
    assert len(DEFAULT_SCOPES) == len(set(SCOPES)) - 1 == 2 * len(RESOURCES)
    assert {"cards:read", "cards:write", "stip:read"} <= set(SCOPES)
    assert (ROLES, MODES) == (("user", "admin"), ("test", "live"))


def test_showing_card_numbers_is_in_no_default_set() -> None:
    assert set(SCOPES) - set(DEFAULT_SCOPES) == {REVEAL}
