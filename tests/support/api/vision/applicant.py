"""Requests of an applicant to the vision host."""

from __future__ import annotations

import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from api.vision.app import create_app
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import applicant, begin
from tests.support.api.stack import Installation

BIND = "/v1/vision/set-document-type"
SESSION = "/v1/vision/capture-session"
EVIDENCE = "/v1/vision/evidence/"


def png(width: int = 8, height: int = 8) -> bytes:
    """A valid picture in one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x20\x60\xa0" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


PICTURE = png()


@asynccontextmanager
async def vision_host(running: Installation, peer: str = "203.0.113.9") -> AsyncIterator[httpx2.AsyncClient]:
    """A client, with the address ``peer``, of a new vision host. Rate limits of other tests do not affect
    it."""
    transport = httpx2.ASGITransport(app=create_app(running.services), client=(peer, 1234))
    async with httpx2.AsyncClient(transport=transport, base_url="http://vision.test") as http:
        yield http


async def open_session(caller: Caller, check: Any = None, status: int = 201, **fields: Any) -> Any:
    """Create a capture session of ``check``, or of a new check with the full flow."""
    check = check or await begin(caller, "full", await applicant(caller))
    path = f"/v1/kyc/checks/{check['id']}/capture-sessions"
    return await caller.post(path, {"kind": "flow"} | fields, status)


async def bind(http: httpx2.AsyncClient, session: Any, document_type: Any = "passport") -> httpx2.Response:
    """Bind a document type to the session."""
    token = session["capture_session_token"]
    return await http.post(BIND, json={"capture_session_token": token, "document_type": document_type})


async def send_picture(
    http: httpx2.AsyncClient, session: Any, name: str, picture: bytes = PICTURE, said: str = "image/png"
) -> httpx2.Response:
    """Send one picture; ``said`` is its media type."""
    headers = {"Capture-Session-Token": session["capture_session_token"], "Content-Type": said}
    return await http.post(EVIDENCE + name, content=picture, headers=headers)
