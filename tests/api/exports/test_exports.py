"""Exports: their content, one instant, download addresses, interruptions and limits."""

from __future__ import annotations

import asyncio
import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from api.exports import content, writing
from api.exports.columns import COLUMNS, ExportKind
from api.exports.writing import write_next
from engine.limits import EXPORT_ADDRESS_SECONDS, EXPORT_ATTEMPTS_MAX, EXPORT_KEEP_HOURS, EXPORTS_OPEN_MAX
from tests.support.actors.outbox.waiting import eventually
from tests.support.api.authorization_rules import RULES, rule_of
from tests.support.api.delegation import delegated_card, policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"}
KINDS: tuple[ExportKind, ...] = ("transactions", "ledger_entries", "decisions", "stand_ins")


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _no_open_exports(running: Installation) -> Any:
    """Exports of other tests do not wait in this test's queue."""
    await running.services.pool.execute("DELETE FROM exports")


async def written(running: Installation, caller: Caller, kind: str, **fields: Any) -> Any:
    """A completed export."""
    created = await caller.post("/v1/exports", {"kind": kind, **WINDOW, **fields}, 202)
    assert (created["state"], created["download"], created["rows"]) == ("pending", None, 0)
    assert await write_next(running.services)
    return await caller.get(f"/v1/exports/{created['id']}")


async def text_of(caller: Caller, export: Any) -> str:
    """The content, without a token."""
    answer = await caller.http.get(export["download"]["url"])
    assert answer.status_code == 200, answer.text
    assert hashlib.sha256(answer.content).hexdigest() == export["sha256"]
    assert len(answer.content) == export["bytes"]
    return answer.text


def lines_of(text: str, format_: str) -> Iterator[dict[str, Any]]:
    """The rows."""
    if format_ == "csv":
        yield from csv.DictReader(io.StringIO(text))
    else:
        yield from (json.loads(line) for line in text.splitlines())


async def history(acme: Caller) -> tuple[Any, list[Any]]:
    """A card with an approval, a decline, a presentment and a decision in stand-in."""
    card = await acme.funded_card("50.00")
    spends = [
        await acme.spend(card, "10.00", merchant_name="=HYPERLINK(evil)"),
        await acme.spend(
            card,
            "99.00",
            merchant_name='A "quote", a comma',
            merchant_amount={"amount": "16150", "currency": "JPY"},
        ),
    ]
    cleared = await acme.post(f"/v1/simulated-spends/{spends[0]['simulation_id']}/clear", {}, 202)
    await acme.simulation(cleared["simulation_id"])
    delegated = await delegated_card(acme, policy())
    spends.append(await acme.spend(delegated, "1.00", scenario="delegated_timeout"))
    return card, spends


@pytest.mark.parametrize("kind", KINDS)
async def test_both_formats_have_the_same_rows(running: Installation, acme: Caller, kind: ExportKind) -> None:
    await history(acme)
    in_csv, in_json = [
        list(lines_of(await text_of(acme, await written(running, acme, kind, format=format_)), format_))
        for format_ in ("csv", "jsonl")
    ]
    assert len(in_csv) == len(in_json) == {"stand_ins": 1, "ledger_entries": 6}.get(kind, 3)
    for row, same in zip(in_csv, in_json, strict=True):
        assert list(row) == list(same) == list(COLUMNS[kind])
        for name, value in same.items():
            if isinstance(value, dict | list):
                assert json.loads(row[name].removeprefix("'")) == value
            else:
                assert row[name].removeprefix("'") == ("" if value is None else str(value)), name


async def test_transactions_are_those_of_the_api(running: Installation, acme: Caller) -> None:
    card, spends = await history(acme)
    await acme.post(RULES, rule_of("card", card["id"], state="active"))
    await acme.spend(card, "1.00", mcc="7995", merchant_id="=SHOP")
    path = f"/v1/transactions/{spends[0]['transaction_id']}"
    await acme.patch(path, {"metadata": {"invoice": "7"}})
    export = await written(running, acme, "transactions", format="jsonl")
    rows = list(lines_of(await text_of(acme, export), "jsonl"))
    shown = list(reversed((await acme.get("/v1/transactions"))["data"]))
    assert export["rows"] == len(rows) == len(shown)
    for row, transaction in zip(rows, shown, strict=True):
        network, merchant = transaction["network"], transaction["merchant"]
        known = transaction | network | {"network": network["name"]}
        known |= {f"merchant_{name}": merchant[name] for name in ("id", "name", "country")}
        charged = transaction["merchant_amount"]
        known |= {"merchant_amount": charged["amount"], "merchant_currency": charged["currency"]}
        assert row == {name: known[name] for name in row}


async def test_declines_by_rules_have_their_detail(running: Installation, acme: Caller) -> None:
    card, _ = await history(acme)
    await acme.post(RULES, rule_of("card", card["id"], state="active"))
    await acme.spend(card, "1.00", mcc="7995", merchant_id="=SHOP")
    kinds: tuple[ExportKind, ...] = ("transactions", "decisions")
    for kind in kinds:
        text = await text_of(acme, await written(running, acme, kind))
        *others, declined = lines_of(text, "csv")
        members = ("decline_reason", "decline_detail", "merchant_id")
        assert [declined[name] for name in members] == ["rule_declined", "no_gambling", "'=SHOP"]
        assert {row["decline_detail"] for row in others} == {""}


async def test_ledger_entries_balance(running: Installation, acme: Caller) -> None:
    card, _ = await history(acme)
    export = await written(running, acme, "ledger_entries", format="jsonl")
    rows = list(lines_of(await text_of(acme, export), "jsonl"))
    own = [row for row in rows if row["account_id"] == card["funding_account_id"]]
    assert [(row["direction"], row["amount"]) for row in own] == [("credit", "50.00"), ("debit", "10.00")]
    kinds = {row["account_kind"] for row in rows}
    assert kinds == {"card", "funding_source", "settlement"}


async def test_formula_in_a_text_is_made_harmless(running: Installation, acme: Caller) -> None:
    await history(acme)
    rows = list(lines_of(await text_of(acme, await written(running, acme, "transactions")), "csv"))
    names = [row["merchant_name"] for row in rows]
    assert names[:2] == ["'=HYPERLINK(evil)", 'A "quote", a comma']


async def test_window_is_half_open_and_other_tenants_are_left_out(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card("50.00")
    first, second = [await acme.spend(card, "1.00") for _ in range(2)]
    other = await running.caller(f"{tenant}-other")
    await other.spend(await other.funded_card("5.00"), "1.00")
    at = (await acme.get(f"/v1/transactions/{second['transaction_id']}"))["created_at"]
    for window, expected in (({"from": at}, second), ({"to": at}, first)):
        export = await written(running, acme, "transactions", format="jsonl", **window)
        [row] = lines_of(await text_of(acme, export), "jsonl")
        assert row["id"] == expected["transaction_id"]


async def test_export_shows_one_instant(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spend between the beginning of the export and its rows is not in it."""
    card = await acme.funded_card("50.00")
    await acme.spend(card, "1.00")
    estimate = writing._estimate

    async def spending(*given: Any) -> int:
        estimated = await estimate(*given)
        await acme.spend(card, "2.00")
        return estimated

    monkeypatch.setattr(writing, "_estimate", spending)
    export = await written(running, acme, "transactions", format="jsonl")
    [row] = lines_of(await text_of(acme, export), "jsonl")
    assert row["requested_amount"] == "1.00"
    assert export["as_of"] >= row["created_at"]
    assert len((await acme.get("/v1/transactions"))["data"]) == 2


async def test_large_content_is_stored_in_parts_and_sent_compressed_or_not(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "EXPORT_PIECE_BYTES", 64)
    monkeypatch.setattr(writing, "EXPORT_CHUNK_BYTES", 16)
    monkeypatch.setattr(content, "EXPORT_PIECE_BYTES", 100)
    card = await acme.funded_card("50.00")
    for _ in range(5):
        await acme.spend(card, "1.00")
    export = await written(running, acme, "transactions")
    parts = "SELECT count(*) FROM export_chunks WHERE export_id = $1::uuid"
    assert await running.services.pool.fetchval(parts, export["id"]) > 1
    url = export["download"]["url"]
    plain = await acme.http.get(url, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    async with acme.http.stream("GET", url, headers={"Accept-Encoding": "gzip"}) as packed:
        assert packed.headers["Content-Encoding"] == "gzip"
        raw = b"".join([piece async for piece in packed.aiter_raw()])
    assert gzip.decompress(raw) == plain.content
    assert hashlib.sha256(plain.content).hexdigest() == export["sha256"]
    assert plain.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert plain.headers["Content-Disposition"] == f'attachment; filename="transactions-{export["id"]}.csv"'


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_cut_download_goes_on_from_any_byte(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(writing, "EXPORT_PIECE_BYTES", 64)
    monkeypatch.setattr(writing, "EXPORT_CHUNK_BYTES", 16)
    monkeypatch.setattr(content, "EXPORT_PIECE_BYTES", 100)
    await history(acme)
    export = await written(running, acme, "transactions")

    async def fetched(**headers: str) -> tuple[httpx2.Response, bytes]:
        asked = {
            "Accept-Encoding": encoding,
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        async with acme.http.stream("GET", export["download"]["url"], headers=asked) as answer:
            return answer, b"".join([piece async for piece in answer.aiter_raw()])

    first, whole = await fetched()
    tag, size = first.headers["ETag"], len(whole)
    assert (first.status_code, first.headers["Accept-Ranges"]) == (200, "bytes")
    for begin in (0, 1, 15, 16, 17, size // 2, size - 1):
        rest, data = await fetched(Range=f"bytes={begin}-", If_Range=tag)
        assert (rest.status_code, data) == (206, whole[begin:]), begin
        assert rest.headers["Content-Range"] == f"bytes {begin}-{size - 1}/{size}"
    for ignored in (
        {"Range": f"bytes={size}-"},
        {"Range": "bytes=-5"},
        {"Range": "bytes=1-", "If_Range": '"x"'},
    ):
        answer, data = await fetched(**ignored)
        assert (answer.status_code, data) == (200, whole), ignored


async def test_address_ends_and_cannot_be_changed(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, other = [await written(running, acme, "transactions") for _ in range(2)]
    url = export["download"]["url"]
    path, _, query = url.partition("?")
    expires = query.split("&")[0]
    for wrong in (
        path,
        f"{path}?{expires}",
        f"{path}?{expires}&signature=",
        f"{path}?{expires}&signature={'é' * 64}",
        url.replace("expires=", "expires=9"),
        url.replace(export["id"], other["id"]),
        url.replace(export["id"], "x"),
    ):
        answer = await acme.http.get(wrong)
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found"), wrong
    now_ms = running.services.clock.now_ms()
    later = now_ms + EXPORT_ADDRESS_SECONDS * 1000 + 1
    with monkeypatch.context() as moved:
        moved.setattr(type(running.services.clock), "now_ms", lambda _: later)
        assert (await acme.http.get(url)).status_code == 404
    fresh = (await acme.get(f"/v1/exports/{export['id']}"))["download"]["url"]
    assert (await acme.http.get(fresh)).status_code == 200


@pytest.mark.parametrize("server", ["same", "ended"])
async def test_interrupted_export_is_started_over(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """The server of the first attempt ends, or has lost its lease and goes on."""
    monkeypatch.setattr(writing, "EXPORT_PIECE_BYTES", 64)
    monkeypatch.setattr(writing, "EXPORT_CHUNK_BYTES", 16)
    card = await acme.funded_card("50.00")
    for _ in range(3):
        await acme.spend(card, "1.00")
    created = await acme.post("/v1/exports", {"kind": "transactions", **WINDOW, "format": "jsonl"}, 202)
    reached, go_on = asyncio.Event(), asyncio.Event()
    finish = writing.Content.finish

    async def held(self: Any, rows: int) -> None:
        reached.set()
        await go_on.wait()
        await finish(self, rows)

    with monkeypatch.context() as slow:
        slow.setattr(writing.Content, "finish", held)
        first = asyncio.create_task(write_next(running.services))
        await reached.wait()
    running_now = await acme.get(f"/v1/exports/{created['id']}")
    assert (running_now["state"], running_now["rows"] > 0) == ("running", True)
    assert not await write_next(running.services), "its lease has not ended"
    if server == "ended":
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    await running.services.pool.execute("UPDATE exports SET lease_until = now()")
    assert await write_next(running.services)
    go_on.set()
    await asyncio.gather(first, return_exceptions=True)
    export = await acme.get(f"/v1/exports/{created['id']}")
    assert (export["state"], export["rows"]) == ("completed", 3)
    assert len((await text_of(acme, export)).splitlines()) == 3
    attempts = "SELECT array_agg(DISTINCT attempt) FROM export_chunks WHERE export_id = $1::uuid"
    assert await running.services.pool.fetchval(attempts, created["id"]) == [2]


async def test_lease_is_kept_before_the_first_row(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL can need longer than the lease to sort ledger entries."""
    estimate, pool = writing._estimate, running.services.pool
    extended = "SELECT lease_until > now() FROM exports"

    async def slow(*given: Any) -> int:
        await pool.execute("UPDATE exports SET lease_until = now()")
        await eventually(lambda: pool.fetchval(extended))
        return await estimate(*given)

    monkeypatch.setattr(writing, "KEEP_SECONDS", 0.01)
    monkeypatch.setattr(writing, "_estimate", slow)
    export = await written(running, acme, "ledger_entries")
    assert (export["state"], export["failure"]) == ("completed", None)


async def test_lost_connection_starts_the_export_over(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate, pool = writing._estimate, running.services.pool
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stanchion-export'"
    )

    async def cut(*given: Any) -> int:
        await pool.execute(ended)
        return await estimate(*given)

    with monkeypatch.context() as broken:
        broken.setattr(writing, "_estimate", cut)
        export = await written(running, acme, "transactions")
    assert (export["state"], export["failure"]) == ("running", None)
    await pool.execute("UPDATE exports SET lease_until = now()")
    assert await write_next(running.services)
    assert (await acme.get(f"/v1/exports/{export['id']}"))["state"] == "completed"


async def test_export_that_takes_too_long_fails(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> int:
        return await asyncio.Future()

    monkeypatch.setattr(writing, "EXPORT_SECONDS_MAX", 1)
    monkeypatch.setattr(writing, "_estimate", never)
    export = await written(running, acme, "transactions")
    assert (export["state"], export["failure"]) == ("failed", "too_slow")


async def test_export_fails_after_too_many_interruptions(running: Installation, acme: Caller) -> None:
    created = await acme.post("/v1/exports", {"kind": "transactions", **WINDOW}, 202)
    await running.services.pool.execute(
        "UPDATE exports SET state = 'running', lease_until = now() - interval '1 second', attempt = $1",
        EXPORT_ATTEMPTS_MAX,
    )
    assert await write_next(running.services)
    export = await acme.get(f"/v1/exports/{created['id']}")
    assert (export["state"], export["failure"], export["download"]) == ("failed", "interrupted", None)


async def test_too_large_export_fails_and_leaves_no_content(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "EXPORT_BYTES_MAX", 10)
    export = await written(running, acme, "transactions")
    assert (export["state"], export["failure"]) == ("failed", "too_large")
    count = "SELECT count(*) FROM export_chunks WHERE export_id = $1::uuid"
    assert await running.services.pool.fetchval(count, export["id"]) == 0


async def test_expired_export_is_deleted_with_its_content(running: Installation, acme: Caller) -> None:
    export = await written(running, acme, "transactions")
    pool = running.services.pool
    age = f"interval '{EXPORT_KEEP_HOURS} hours 1 second'"
    await pool.execute(f"UPDATE exports SET created_at = created_at - {age}")
    assert not await write_next(running.services)
    await acme.get(f"/v1/exports/{export['id']}", 404)
    assert await pool.fetchval("SELECT count(*) FROM export_chunks") == 0
    assert (await acme.http.get(export["download"]["url"])).status_code == 404


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"kind": "cards"}, "/kind"),
        ({"format": "xml"}, "/format"),
        ({"from": "2026-01-01"}, "/from"),
        ({"to": "2026-01-01T00:00:00Z"}, "/to"),
        ({"to": "2027-01-02T00:00:01Z"}, "/to"),
        ({"programme_id": "x"}, "/programme_id"),
    ],
)
async def test_invalid_export_is_refused(acme: Caller, change: dict[str, Any], pointer: str) -> None:
    problem = await acme.post("/v1/exports", {"kind": "transactions", **WINDOW, **change}, 400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_open_exports_of_a_tenant_are_limited(running: Installation, acme: Caller, tenant: str) -> None:
    body = {"kind": "transactions", **WINDOW}
    for _ in range(EXPORTS_OPEN_MAX):
        await acme.post("/v1/exports", body, 202)
    assert (await acme.post("/v1/exports", body, 409))["type"] == "/problems/too-many-exports"
    other = await running.caller(f"{tenant}-other")
    await other.post("/v1/exports", body, 202)
    await write_next(running.services)
    await acme.post("/v1/exports", body, 202)
    assert len((await acme.get("/v1/exports"))["data"]) == EXPORTS_OPEN_MAX + 1


async def test_tenant_does_not_wait_behind_all_exports_of_another(
    running: Installation, acme: Caller, tenant: str
) -> None:
    other = await running.caller(f"{tenant}-other")
    body = {"kind": "transactions", **WINDOW}
    busy = [await acme.post("/v1/exports", body, 202) for _ in range(3)]
    waiting = await other.post("/v1/exports", body, 202)
    for _ in range(2):
        await write_next(running.services)
    states = [(await acme.get(f"/v1/exports/{export['id']}"))["state"] for export in busy]
    assert states == ["completed", "pending", "pending"]
    assert (await other.get(f"/v1/exports/{waiting['id']}"))["state"] == "completed"


async def test_exports_of_other_tenants_are_unknown(running: Installation, acme: Caller, tenant: str) -> None:
    export = await written(running, acme, "transactions")
    other = await running.caller(f"{tenant}-other")
    await other.get(f"/v1/exports/{export['id']}", 404)
    assert (await other.get("/v1/exports"))["data"] == []
