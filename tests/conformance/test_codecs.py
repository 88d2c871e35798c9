"""The codec of each shipped profile equals two other implementations, over random messages.

pyiso8583 runs beside it, with specifications of the tests. jspos, from npm, was run over ``COUNT`` messages
of each profile by ``make codecs``, which recorded digests of its encodings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import iso8583
import pytest

from engine.iso8583.message import Message
from engine.iso8583.profiles import SHIPPED
from tests.support.conformance.dialects import DIALECTS, Document
from tests.support.conformance.random_messages import messages
from tests.support.conformance.recorded import BLOCK, COUNT, SEED, digests, recorded

EVERY = "STANCHION_CHAOS" in os.environ
PYISO_COUNT = COUNT if EVERY else 1_000
"""Messages of each profile that pyiso8583, which is slower, encodes and decodes."""
JSPOS_COUNT = COUNT if EVERY else 2_500
"""Messages of each profile that are compared with the recorded encodings of jspos."""


def message_of(mti: str, fields: Document) -> Message:
    return Message(mti, {int(key): value for key, value in fields.items()})


@pytest.mark.parametrize("name", SHIPPED)
def test_codec_equals_pyiso8583(name: str) -> None:
    profile, dialect = SHIPPED[name], DIALECTS[name]
    for mti, fields in messages(dialect, PYISO_COUNT, SEED + 1):
        message = message_of(mti, fields)
        payload = bytes(iso8583.encode({"t": mti, **fields}, dialect.spec)[0])
        assert profile.encode(message) == payload
        document = iso8583.decode(payload, dialect.spec)[0]
        assert {key: value for key, value in document.items() if key not in "htp1"} == fields
        assert profile.decode(payload) == message


@pytest.mark.parametrize("name", SHIPPED)
def test_codec_equals_jspos(name: str) -> None:
    profile, dialect = SHIPPED[name], DIALECTS[name]

    def encodings() -> Iterator[bytes]:
        for mti, fields in messages(dialect, JSPOS_COUNT, SEED, separators=False):
            message = message_of(mti, fields)
            payload = profile.encode(message)
            assert profile.decode(payload) == message
            yield payload

    wanted = recorded()[name]
    assert len(wanted) == COUNT // BLOCK
    assert digests(encodings()) == wanted[: JSPOS_COUNT // BLOCK]


def test_random_messages_reach_every_field() -> None:
    for dialect in DIALECTS.values():
        known = {key for key in dialect.spec if key.isdecimal() and key not in ("1", "65")}
        assert {key for _, fields in islice(messages(dialect, 1_000, SEED), 1_000) for key in fields} == known
