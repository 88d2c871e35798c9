"""``stanchion export``: the file has the whole content, or there is no file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from ops.commands import export as command
from ops.commands.export import ExportError, export
from stanchion import Client

CONTENT = b"id,amount\r\n" + b"1,2.00\r\n" * 1_000
EXPORT: dict[str, Any] = {
    "id": "x",
    "rows": 1_000,
    "rows_estimated": 900,
    "bytes": len(CONTENT),
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
    "failure": None,
    "download": {"url": "/content", "expires_at": ""},
}


class Exports:
    """The client's exports: running at first, then in ``last``'s state."""

    def __init__(self, last: dict[str, Any]) -> None:
        self._states: Iterator[dict[str, Any]] = iter([{"state": "running", "rows": 10}, last])

    def create(self, *given: str, **fields: str) -> dict[str, Any]:
        assert (given, fields) == (("transactions", "a", "b"), {"format_": "csv"})
        return EXPORT | {"state": "pending", "rows": 0}

    def get(self, _id: str) -> dict[str, Any]:
        return EXPORT | next(self._states)


class FakeClient:
    """A client with exports only."""

    def __init__(self, **last: Any) -> None:
        self.exports = Exports({"state": "completed"} | last)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_SECONDS", 0.0)


def run(path: Path, client: FakeClient, content: bytes = CONTENT, status: int = 200) -> list[Any]:
    """Export to ``path``; the progress."""
    seen: list[Any] = []
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, content=content))
    with httpx2.Client(base_url="http://api.test", transport=transport) as http:
        export(
            cast("Client", client),
            http,
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
    seen = run(path, FakeClient())
    assert path.read_bytes() == CONTENT
    assert seen[:3] == [("writing", 0, 900), ("writing", 10, 900), ("writing", 1_000, 1_000)]
    assert seen[-1] == ("downloading", len(CONTENT), len(CONTENT))
    assert [each.name for each in tmp_path.iterdir()] == ["out.csv"]


def test_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(ExportError, match="exists already"):
        run(path, FakeClient())
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("client", "content", "status", "message"),
    [
        (FakeClient(state="failed", failure="too_large"), CONTENT, 200, "has failed: too_large"),
        (FakeClient(), CONTENT[:-1], 200, "is not complete"),
        (FakeClient(), b"", 404, "interrupted: HTTPStatusError"),
    ],
    ids=["failed", "cut", "ended"],
)
def test_failure_leaves_no_file(
    tmp_path: Path, client: FakeClient, content: bytes, status: int, message: str
) -> None:
    with pytest.raises(ExportError, match=message):
        run(tmp_path / "out.csv", client, content, status)
    assert list(tmp_path.iterdir()) == []
