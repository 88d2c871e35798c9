"""`stanchion links`: the table, and sign-offs that every edge has followed before the command ends."""

from __future__ import annotations

import pytest

from actors.network.database import NetworkDbConnection
from actors.network.links.entry import default_link
from actors.network.links.status import LinkStatus
from ops.commands import links as module
from ops.commands.links import LinksCommandError, check_name, record_sign_off, table, wait_for
from ops.expected_failures import EXPECTED_FAILURES
from tests.support.ops.links import status


def test_table_shows_each_link_with_its_details() -> None:
    lines = table(
        [
            status(),
            status(
                name="hub",
                edge="edge@3f2a91bc",
                direction="connect",
                mode="test",
                tls=False,
                state="down",
                connections=0,
                connections_wanted=4,
                signed_on=0,
                in_flight=0,
                per_minute={},
                refused={"iin": 2, "mac": 1},
                last_error="sign-on answered with 91",
                last_error_ms=1_795_253_400_000,
            ),
        ]
    )
    assert lines == [
        "LINK  EDGE           MODE  ADDRESS                  STATE  CONNECTIONS  SIGNED ON  IN FLIGHT  "
        "ANSWERS A MINUTE",
        "acme  edge           live  from 192.0.2.1:8600 TLS  up     2            2          1          60",
        "    answers a minute: 0110 00: 57, 0110 51: 3",
        "hub   edge@3f2a91bc  test  to 192.0.2.1:8600        down   0/4          0          0          0",
        "    refused: iin: 2, mac: 1",
        "    last error: sign-on answered with 91 (2026-11-21 09:30:00 UTC)",
    ]


def test_unknown_link_is_named_with_the_known_ones() -> None:
    check_name("default", [default_link("127.0.0.1", 8583)])
    with pytest.raises(LinksCommandError, match=r"^there is no link nowhere; the links are default$"):
        check_name("nowhere", [default_link("127.0.0.1", 8583)])
    assert LinksCommandError in EXPECTED_FAILURES


async def test_sign_off_is_a_row_that_edges_read(database_url: str) -> None:
    edge = NetworkDbConnection(database_url, "test-links")

    async def signed_off() -> list[str]:
        return [row["name"] for row in await edge.fetch("find_signed_off_links")]

    assert await signed_off() == []
    for _ in range(2):
        await record_sign_off(database_url, "acme", signed_off=True)
    assert await signed_off() == ["acme"]
    for _ in range(2):
        await record_sign_off(database_url, "acme", signed_off=False)
    assert await signed_off() == []
    edge.close()


@pytest.mark.parametrize(
    ("signed_off", "steps"),
    [
        (True, [("up", "up"), ("draining", "signed_off"), ("signed_off", "signed_off")]),
        (False, [("signed_off", "up"), ("up", "up")]),
        (False, [("signed_off", "signed_off"), ("down", "up")]),
    ],
)
async def test_command_waits_for_every_edge(
    monkeypatch: pytest.MonkeyPatch, signed_off: bool, steps: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    left = list(steps)

    async def read() -> list[LinkStatus]:
        one, other = left.pop(0)
        return [
            status(edge="one", state=one),
            status(edge="other", state=other),
            status(name="another", state="up"),
        ]

    await wait_for("acme", read, signed_off=signed_off)
    assert left == []


async def test_edge_that_does_not_follow_is_named() -> None:
    async def read() -> list[LinkStatus]:
        return [status(edge="one", state="draining")]

    with pytest.raises(LinksCommandError, match=r"not every edge has followed: one is draining$"):
        await wait_for("acme", read, signed_off=True, seconds=0.0)
