"""Roles in their order, and the scopes of each role."""

from __future__ import annotations

import pytest

from engine.scopes import MODES, RESOURCES, ROLES, SCOPES, default_scopes, includes

OF_OWNERS = {"clients:read", "clients:write", "users:read", "users:write"}


def test_each_resource_has_a_read_and_a_write_scope() -> None:
    pairs = {f"{resource}:{verb}" for resource in RESOURCES for verb in ("read", "write")}
    assert len(SCOPES) == len(set(SCOPES))
    assert set(SCOPES) - pairs == {"audit:read", "links:read", "cards:reveal"}
    assert {"cards:read", "cards:write", "stip:write", "accounts:write", "rules:write"} <= pairs
    assert (ROLES, MODES) == (("user", "admin", "owner"), ("test", "live"))


@pytest.mark.parametrize(
    ("role", "included"),
    [
        ("user", ["user"]),
        ("admin", ["user", "admin"]),
        ("owner", ["user", "admin", "owner"]),
        ("root", []),
    ],
)
def test_a_role_includes_the_roles_below_it(role: str, included: list[str]) -> None:
    assert [least for least in ROLES if includes(role, least)] == included


@pytest.mark.parametrize(
    ("role", "missing"),
    [
        ("user", {"audit:read", "links:read", *OF_OWNERS, "cards:reveal"}),
        ("admin", {*OF_OWNERS, "cards:reveal"}),
        ("owner", {"cards:reveal"}),
    ],
)
def test_default_scopes_are_those_that_the_role_can_use(role: str, missing: set[str]) -> None:
    scopes = default_scopes(role)
    assert set(SCOPES) - set(scopes) == missing
    assert list(scopes) == [scope for scope in SCOPES if scope in scopes]
