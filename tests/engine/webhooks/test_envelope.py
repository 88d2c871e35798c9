"""The bytes of a delivery."""

from __future__ import annotations

import json

from engine.webhooks.envelope import envelope

EVENT_ID = "019a0000-0000-7000-8000-000000000001"


def test_envelope_keeps_the_bytes_of_the_data() -> None:
    data = '{"b":1,  "a":"caf\\u00e9 é", "n": 1.50}'
    body = envelope(EVENT_ID, "card.created", 1_700_000_000_123, data)
    assert body.endswith(b',"data":' + data.encode() + b"}")


def test_envelope_has_four_members() -> None:
    body = json.loads(envelope(EVENT_ID, "card.created", 1_700_000_000_123, "{}"))
    assert body == {
        "id": EVENT_ID,
        "type": "card.created",
        "created_at": "2023-11-14T22:13:20.123Z",
        "data": {},
    }
