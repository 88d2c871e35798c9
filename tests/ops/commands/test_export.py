"""``stanchion export``: the file has the whole content, or there is no file."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ops.commands import export as command
from ops.commands.export import ExportError, export
from stanchion import Client, RetryPolicy, StanchionError
from stanchion.protocol import TOKEN_PATH

CONTENT = b"id,amount\r\n" + b"1,2.00\r\n" * 1_000
CUT = b"--cut--"
TAG = '"x-1"'
EXPORT: dict[str, Any] = {
    "id": "x",
    "rows": 1_000,
    "rows_estimated": 900,
    "bytes": len(CONTENT),
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
    "failure": None,
    "download": {"url": "/content", "expires_at": ""},
}


class Api:
    """The API with one export: pending, running, then with the members of ``last``. Each download gets the
    next of ``bodies``, as gzip or not; a body that ends with ``CUT`` breaks off."""

    def __init__(self, *bodies: bytes, status: int = 200, packed: bool = False, **last: Any) -> None:
        self.states: Iterator[dict[str, Any]] = iter([{"state": "running", "rows": 10}])
        self.last = {"state": "completed"} | last
        self.bodies = list(bodies)
        self.status = status
        self.packed = packed
        self.downloads: list[httpx2.Headers] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path == TOKEN_PATH:
            return httpx2.Response(200, json={"access_token": "t", "expires_in": 3600})
        if path == "/v1/exports":
            asked = {"kind": "transactions", "from": "a", "to": "b", "format": "csv"}
            assert json.loads(request.content) == asked
            return httpx2.Response(202, json=EXPORT | {"state": "pending", "rows": 0, "download": None})
        if path == "/v1/exports/x":
            return httpx2.Response(200, json=EXPORT | next(self.states, self.last))
        assert path == "/content"
        return self._download(request)

    def _download(self, request: httpx2.Request) -> httpx2.Response:
        self.downloads.append(request.headers)
        body = self.bodies.pop(0)
        first = int(request.headers.get("range", "bytes=0-")[len("bytes=") : -1])
        headers = {"ETag": TAG} | ({"Content-Encoding": "gzip"} if self.packed else {})
        if first and self.status == 200:
            return httpx2.Response(
                206, headers={**headers, "Content-Range": f"bytes {first}-9/10"}, content=pieces(body)
            )
        return httpx2.Response(self.status, headers=headers, content=pieces(body))


def pieces(body: bytes) -> Iterator[bytes]:
    """The body as it arrives."""
    yield body.removesuffix(CUT)
    if body.endswith(CUT):
        raise httpx2.RemoteProtocolError("cut")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_SECONDS", 0.0)


def run(path: Path, api: Api) -> list[Any]:
    """Export to ``path``; the progress."""
    seen: list[Any] = []
    http = httpx2.Client(base_url="http://api.test", transport=httpx2.MockTransport(api))
    retry = RetryPolicy(attempts=3, pause_seconds=0.0)
    with Client("http://api.test", "id", "secret", http=http, retry=retry) as client:
        export(
            client,
            "transactions",
            from_="a",
            to="b",
            format_="csv",
            path=path,
            progress=lambda *given: seen.append(given),
        )
    return seen


def test_file_has_the_content_and_progress_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    seen = run(path, Api(CONTENT))
    assert path.read_bytes() == CONTENT
    assert seen[:3] == [("writing", 0, 900), ("writing", 10, 900), ("writing", 1_000, 1_000)]
    assert seen[-1] == ("downloading", len(CONTENT), len(CONTENT))
    assert [each.name for each in tmp_path.iterdir()] == ["out.csv"]


def test_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(ExportError, match="exists already"):
        run(path, Api(CONTENT))
    assert path.read_text() == "mine"


@pytest.mark.parametrize("packed", [False, True])
def test_cut_download_goes_on_where_it_ended(tmp_path: Path, packed: bool) -> None:
    body = gzip.compress(CONTENT) if packed else CONTENT
    api = Api(body[:20] + CUT, CUT, body[20:31] + CUT, body[31:], packed=packed)
    run(tmp_path / "out.csv", api)
    assert (tmp_path / "out.csv").read_bytes() == CONTENT
    assert [(each.get("range"), each.get("if-range")) for each in api.downloads] == [
        (None, None),
        ("bytes=20-", TAG),
        ("bytes=20-", TAG),
        ("bytes=31-", TAG),
    ]


def test_download_begins_again_when_the_api_sends_all(tmp_path: Path) -> None:
    """A 200 to a request for a range: the content is another, or a proxy does not know ranges."""
    api = Api(CONTENT[:20] + CUT, CONTENT, packed=False)
    api._download = partial(whole, api)  # type: ignore[method-assign]
    run(tmp_path / "out.csv", api)
    assert (tmp_path / "out.csv").read_bytes() == CONTENT


def whole(api: Api, _request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, headers={"ETag": TAG}, content=pieces(api.bodies.pop(0)))


@pytest.mark.parametrize(
    ("api", "error", "message"),
    [
        (Api(state="failed", failure="too_large"), ExportError, "has failed: too_large"),
        (Api(CONTENT[:-1] + b"x"), StanchionError, "is not that of the export"),
        (Api(b"not gzip", packed=True), StanchionError, "is damaged"),
        (Api(CUT, CUT, CUT), StanchionError, "RemoteProtocolError"),
        (Api(b"", status=404), StanchionError, "404"),
    ],
    ids=["failed", "other", "damaged", "cut", "ended"],
)
def test_failure_leaves_no_file(tmp_path: Path, api: Api, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(tmp_path / "out.csv", api)
    assert list(tmp_path.iterdir()) == []
    assert api.bodies == []
