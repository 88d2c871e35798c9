"""Addresses with one server and with several."""

from __future__ import annotations

import pytest

from actors.database_address import address_of, role_of, servers_of, writable

SEVERAL = "postgresql://u:p@one:1,[2001:DB8::1]:2,three/d?sslmode=require"
RESTRICTION = "target_session_attrs=read-write"


def test_one_server_is_left_to_the_driver() -> None:
    for dsn in ("postgresql://u:p@one/d", "postgresql:///d?host=/run/postgresql", "dbname=d"):
        assert servers_of(dsn) == [(None, None)]
        assert address_of(dsn, (None, None)) == dsn
        assert writable(dsn) == dsn


def test_servers_behind_commas_can_have_ipv6_addresses() -> None:
    assert servers_of(SEVERAL) == [("one", 1), ("2001:db8::1", 2), ("three", 5432)]


@pytest.mark.parametrize(
    ("number", "server"),
    [(0, "one:1"), (1, "[2001:db8::1]:2"), (2, "three:5432")],
    ids=["first", "ipv6", "last"],
)
def test_address_of_one_server_keeps_user_database_and_options(number: int, server: str) -> None:
    dsn = address_of(SEVERAL, servers_of(SEVERAL)[number])
    assert dsn == f"postgresql://u:p@{server}/d?sslmode=require"


def test_several_servers_are_restricted_to_one_that_accepts_writes() -> None:
    assert writable(SEVERAL) == f"{SEVERAL}&{RESTRICTION}"
    assert writable("postgresql://one,two/d") == f"postgresql://one,two/d?{RESTRICTION}"
    assert writable("postgresql://one,two/d?") == f"postgresql://one,two/d?{RESTRICTION}"


def test_own_restriction_stays() -> None:
    dsn = "postgresql://one,two/d?target_session_attrs=primary"
    assert writable(dsn) == dsn


@pytest.mark.parametrize(
    ("dsn", "role"),
    [
        ("postgresql://own%20er:p%40ss@one:1,[::1]:2/d", "own er"),
        ("postgresql://owner@one/d", "owner"),
        ("postgresql://one/d", ""),
        ("postgresql:///d?user=x", ""),
    ],
)
def test_role_of_an_address(dsn: str, role: str) -> None:
    assert role_of(dsn) == role
