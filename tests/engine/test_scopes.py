"""Scopes: read and write of each resource."""

from __future__ import annotations

from engine.scopes import MODES, RESOURCES, ROLES, SCOPES


def test_each_resource_has_a_read_and_a_write_scope() -> None:
    assert len(SCOPES) == len(set(SCOPES)) == 2 * len(RESOURCES)
    assert {"cards:read", "cards:write", "stip:read"} <= set(SCOPES)
    assert (ROLES, MODES) == (("user", "admin"), ("test", "live"))
