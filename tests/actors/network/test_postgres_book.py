"""The book of simulations: numbers are never taken twice, rows are durable before they are used, moves are
final when decided."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock

import asyncpg
import msgspec
import pytest

from actors.ids import new_id
from actors.network.database import Lane
from actors.network.postgres_book import PostgresBook, stored_request
from actors.network.simulations import Failure, Move, Opening
from engine.instant import to_ms
from engine.limits import STAN_BLOCK
from engine.simulation import SpendRequest
from tests.actors.network.simulations import NOW_MS, rows, spend


@pytest.fixture
async def book(database_url: str) -> AsyncIterator[PostgresBook]:
    lanes = [Lane(database_url, "test-opening"), Lane(database_url, "test-moving")]
    yield PostgresBook("424242", *lanes)
    for lane in lanes:
        lane.close()


async def test_numbers_are_never_taken_twice(book: PostgresBook, database_url: str) -> None:
    lanes = [Lane(database_url, "test-opening"), Lane(database_url, "test-moving")]
    other = PostgresBook("424242", *lanes)
    takes = [one.take_stans(count) for count in (1, 7, 300, 2 * STAN_BLOCK + 5, 50) for one in (book, other)]
    taken = [serial for numbers in await asyncio.gather(*takes) for serial in numbers]
    assert len(taken) == len(set(taken)) == 2 * (1 + 7 + 300 + 2 * STAN_BLOCK + 5 + 50)
    assert await book.take_stans(0) == []
    for lane in lanes:
        lane.close()


async def test_numbers_of_a_block_follow_each_other(book: PostgresBook) -> None:
    assert await book.take_stans(3) == [0, 1, 2]
    assert await book.take_stans(2) == [3, 4]
    rest = await book.take_stans(STAN_BLOCK)
    assert rest == list(range(5, STAN_BLOCK + 5))


async def test_rows_are_durable_when_open_returns(book: PostgresBook, database_url: str) -> None:
    accepted = Opening(request=spend(), stan="000001", rrn="632510000001", network_txn_id="SN1")
    refused = Opening(request=spend(), failed_ms=NOW_MS + 1, failure=Failure("pre_build", "code", "detail"))
    await book.open([accepted, refused])
    found = await rows(database_url)
    row = found[accepted.request.simulation_id]
    assert (row["state"], row["operation"], row["stan"], row["rrn"]) == (
        "accepted",
        "spend",
        "000001",
        "632510000001",
    )
    assert (row["network_txn_id"], row["failure"], to_ms(row["accepted_at"])) == ("SN1", None, NOW_MS)
    row = found[refused.request.simulation_id]
    assert (row["state"], row["stan"], row["rrn"], to_ms(row["failed_at"])) == (
        "failed",
        None,
        None,
        NOW_MS + 1,
    )
    assert msgspec.json.decode(row["failure"]) == {"stage": "pre_build", "code": "code", "detail": "detail"}


async def test_a_row_moves_to_decided_and_stays(book: PostgresBook, database_url: str) -> None:
    opening = Opening(request=spend(), stan="000001", rrn="632510000001", network_txn_id="SN1")
    key = opening.request.simulation_id
    authorization_id = new_id(0xA7)
    await book.open([opening])
    book.move(Move(simulation_id=key, state="sent", sent_ms=NOW_MS + 1))
    await book.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], to_ms(row["sent_at"])) == ("sent", NOW_MS + 1)
    no_answer = Failure("post_build", "no_answer", "late")
    book.move(Move(simulation_id=key, state="failed", failed_ms=NOW_MS + 2, failure=no_answer))
    await book.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], msgspec.json.decode(row["failure"])["stage"]) == ("failed", "post_build")
    book.move(
        Move(
            simulation_id=key,
            state="decided",
            decided_ms=NOW_MS + 3,
            response_code="00",
            approval_code="ABC123",
            approved_minor=12_34,
            authorization_id=authorization_id,
        )
    )
    book.move(Move(simulation_id=key, state="failed", failed_ms=NOW_MS + 4, failure=no_answer))
    await book.drain()
    book.move(Move(simulation_id=key, state="failed", failed_ms=NOW_MS + 5, failure=no_answer))
    await book.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], row["failure"], row["response_code"], row["auth"]) == (
        "decided",
        None,
        "00",
        authorization_id,
    )
    assert [to_ms(row[name]) for name in ("sent_at", "failed_at", "decided_at")] == [
        NOW_MS + 1,
        NOW_MS + 2,
        NOW_MS + 3,
    ]


async def test_an_answer_that_comes_at_once_takes_the_sending_along(
    book: PostgresBook, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "_record", AsyncMock(wraps=book._record))
    opening = Opening(request=spend(), stan="000001", rrn="632510000001")
    key = opening.request.simulation_id
    await book.open([opening])
    book.move(Move(simulation_id=key, state="sent", sent_ms=NOW_MS + 1))
    book.move(Move(simulation_id=key, state="decided", decided_ms=NOW_MS + 2, response_code="05"))
    await book.drain()
    row = (await rows(database_url))[key]
    assert (row["state"], to_ms(row["sent_at"]), to_ms(row["decided_at"])) == (
        "decided",
        NOW_MS + 1,
        NOW_MS + 2,
    )
    assert book._record.call_count == 1  # type: ignore[attr-defined]


async def test_an_answer_that_stays_away_holds_up_no_sending(
    book: PostgresBook, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = Opening(request=spend(), stan="000001", rrn="632510000001")
    key = opening.request.simulation_id
    await book.open([opening])
    recorded = asyncio.Event()
    record = book._record

    async def note(moves: list[Move]) -> None:
        await record(moves)
        recorded.set()

    monkeypatch.setattr(book, "_record", note)
    book.move(Move(simulation_id=key, state="sent", sent_ms=NOW_MS + 1))
    async with asyncio.timeout(30):
        await recorded.wait()
    assert (await rows(database_url))[key]["state"] == "sent"


async def test_moves_survive_a_cut_connection(book: PostgresBook, database_url: str) -> None:
    openings = [Opening(request=spend(), stan="000001", rrn="632510000001") for _ in range(20)]
    await book.open(openings)
    book.move(Move(simulation_id=openings[0].request.simulation_id, state="sent", sent_ms=NOW_MS))
    await book.drain()
    other = await asyncpg.connect(database_url)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test-moving'"
    )
    await other.close()
    for opening in openings:
        book.move(Move(simulation_id=opening.request.simulation_id, state="sent", sent_ms=NOW_MS))
    await book.drain()
    assert {row["state"] for row in (await rows(database_url)).values()} == {"sent"}
    assert book.lost_moves == 0


async def test_moves_are_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.network.postgres_book.RECORD_ATTEMPTS", 2)
    nowhere = Lane("postgresql://nobody@127.0.0.1:1/nothing", "test-lane", timeout_ms=200)
    book = PostgresBook("424242", nowhere, nowhere)
    book.move(Move(simulation_id=new_id(), state="sent", sent_ms=NOW_MS))
    await book.drain()
    assert book.lost_moves == 1


def test_a_stored_request_has_no_secrets_and_can_be_read_again() -> None:
    request = spend(
        cvv2="987", auth_value="AAABBB", threeds_ref="reference", scenario="cvv2_presented", mit=True
    )
    stored = stored_request(request)
    assert "987" not in f"{request} {request!r}"
    assert not any(secret in stored for secret in ("987", "AAABBB", "reference"))
    again = msgspec.json.decode(stored, type=SpendRequest)
    assert again == msgspec.structs.replace(request, cvv2=None, auth_value=None, threeds_ref=None)
