"""Writes of the HTTP server: the head of an answer and its body leave together."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from api.http.closing_transport import HELD_BYTES_MAX, ClosingTransport
from api.http.protocol import ProblemProtocol


class Wire:
    """A transport below a ``ClosingTransport``, and its writes."""

    def __init__(self, *, finished: bool = True) -> None:
        self.below = Mock(spec=asyncio.Transport)
        self.below.get_extra_info.return_value = None
        self.below.is_closing.return_value = False
        protocol = Mock(spec=ProblemProtocol)
        protocol.request_unfinished.return_value = not finished
        self.transport = ClosingTransport(self.below, protocol)

    @property
    def written(self) -> list[bytes]:
        return [call.args[0] for call in self.below.write.call_args_list]


async def test_head_and_body_are_one_write() -> None:
    wire = Wire()
    wire.transport.write(b"head")
    assert wire.written == []
    wire.transport.write(b"body")
    assert wire.written == [b"headbody"]
    await asyncio.sleep(0)
    assert wire.written == [b"headbody"]


async def test_single_write_leaves_at_the_end_of_the_iteration() -> None:
    wire = Wire()
    wire.transport.write(b"alone")
    await asyncio.sleep(0)
    assert wire.written == [b"alone"]


async def test_large_write_is_not_held() -> None:
    wire = Wire()
    large = b"x" * (HELD_BYTES_MAX + 1)
    wire.transport.write(large)
    assert wire.written == [large]


@pytest.mark.parametrize("finished", [True, False], ids=["closed", "lingering"])
async def test_held_write_leaves_before_the_connection_closes(finished: bool) -> None:
    wire = Wire(finished=finished)
    wire.transport.write(b"last")
    wire.transport.close()
    wire.transport.write(b"dropped")
    await asyncio.sleep(0)
    assert wire.written == [b"last"]
    names = [name for name, *_ in wire.below.method_calls]
    assert names.index("write") < names.index("close" if finished else "write_eof")
