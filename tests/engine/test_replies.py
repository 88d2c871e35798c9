"""The bytes of response bodies."""

from __future__ import annotations

from engine.replies import body_bytes


def test_body_keeps_the_order_of_members() -> None:
    assert body_bytes({"b": 1, "a": None}) == b'{"b":1,"a":null}'
