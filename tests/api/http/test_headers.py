"""Reading a request header by name."""

from __future__ import annotations

from starlette.requests import Request

from api.http.headers import header


def test_first_header_of_a_name_is_returned() -> None:
    headers = [(b"x-one", b"1"), (b"x-two", b"\xe9"), (b"x-two", b"2"), (b"x-none", b"")]
    request = Request({"type": "http", "headers": headers})
    assert [header(request, name) for name in (b"x-one", b"x-two", b"x-none", b"x")] == ["1", "é", "", None]
