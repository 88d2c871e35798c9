"""Exports and settlement reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

from stanchion import records
from stanchion.content import Content
from stanchion.errors import ContentError, NotDecidedError
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows, workflow
from stanchion.protocol import Actions, Pause

POLL_SECONDS: Final = 0.1
POLL_SECONDS_MAX: Final = 2.0


class Exports(Resource[AnyTransport]):
    """Files of transactions, ledger entries, decisions or stand-ins."""

    @operation("POST", "/v1/exports")
    def create(
        self,
        kind: records.ExportKind,
        from_: str,
        to: str,
        *,
        format_: records.ExportFormat = "csv",
        idempotency_key: str | None = None,
    ) -> Call[records.Export]:
        """Begin an export of the half-open window from ``from_`` to ``to``, at most 366 days."""
        body = {"kind": kind, "from": from_, "to": to, "format": format_}
        return Call(body=body, key=idempotency_key)

    @operation("GET", "/v1/exports/{id}")
    def get(self, id_: str) -> Call[records.Export]:
        """One export. If it is completed, ``download["url"]`` works for an hour, without a token; it is
        relative to the address of the API."""
        return Call(id_)

    @rows("/v1/exports")
    def list(self, *, page_size: int = PAGE_SIZE) -> Call[records.Export]:
        """The exports of the last 24 hours."""
        return Call(query={"limit": page_size})

    @workflow
    def wait(self, id_: str, *, seconds: float = 600.0) -> Actions[records.Export]:
        """Poll until the export is ``completed`` or ``failed``. Raises NotDecidedError after ``seconds``."""
        clock = self.transport.protocol.clock
        deadline = clock() + seconds
        pause = POLL_SECONDS
        while True:
            export = yield from Exports.get.actions(self, id_)
            if export["state"] in ("completed", "failed"):
                return export
            if clock() > deadline:
                raise NotDecidedError(f"export {id_} is {export['state']} after {seconds:g} s")
            yield Pause(pause)
            pause = min(POLL_SECONDS_MAX, pause * 1.5)

    @workflow
    def download(
        self,
        id_: str,
        file: BinaryIO,
        *,
        progress: Callable[[int, int], object] = lambda _written, _size: None,
    ) -> Actions[records.Export]:
        """Write the content of a completed export to ``file``, a seekable one for bytes, and compare its
        digest. A download that is cut goes on where it ended. ``progress`` is called with the bytes that are
        written and with those of the whole content. Raises ContentError."""
        export = yield from Exports.get.actions(self, id_)
        address = export["download"]
        if address is None:
            raise ContentError(f"export {id_} is {export['state']}")
        content = Content(file, export["bytes"], progress)
        yield from self.transport.protocol.receive(address["url"], content)
        if content.sha256 != export["sha256"]:
            raise ContentError("the content is not that of the export; repeat the download")
        return export


class SettlementReports(Resource[AnyTransport]):
    """Daily settlement reports."""

    @operation("GET", "/v1/settlement-reports")
    def get(self, programme_id: str, date: str) -> Call[records.SettlementReport]:
        """The report of one programme for the day ``YYYY-MM-DD`` in the programme's time zone."""
        return Call(query={"programme_id": programme_id, "date": date})
