"""What a journal refuses, idempotency keys among it, leaves nothing: part of the suite of both journals."""

from __future__ import annotations

import msgspec
import pytest

from actors.clock import SystemClock
from actors.journal.contract import (
    BehindError,
    DuplicateError,
    RejectedError,
)
from tests.actors.journal.backends import Backend
from tests.actors.journal.cases import (
    FIRST,
    HOUR_MS,
    OTHER_SHARD,
    idempotency_row,
    is_refused,
    spend,
    with_card,
)
from tests.actors.journal.owner import Owner
from tests.engine.build import (
    authorize,
    create_card,
    key,
    load,
)


class Refused:
    """Tests for a fixture ``backend``."""

    async def test_a_response_is_found_by_its_key(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1))
        rows.idempotency.append(idempotency_row(1, SystemClock().now_ms()))
        await journal.commit(rows)
        found = await journal.find_responses([key(1) * 2, key(2) * 2])
        assert set(found) == {key(1) * 2}
        response = found[key(1) * 2]
        assert (response.fingerprint, response.status, response.sealed) == (b"same", 201, b"sealed body")

    async def test_a_key_is_claimed_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        now_ms = SystemClock().now_ms()
        rows = owner.decide(spend(1))
        rows.idempotency.append(idempotency_row(1, now_ms - 24 * HOUR_MS + 60_000))
        await journal.commit(rows)
        before = await backend.table("journal")
        rows = owner.decide(spend(2))
        rows.idempotency.append(idempotency_row(1, now_ms, b"other"))
        with pytest.raises(DuplicateError, match="idempotency"):
            await journal.commit(rows)
        assert await backend.table("journal") == before
        assert (await journal.find_responses([key(1) * 2]))[key(1) * 2].fingerprint == b"same"

    async def test_a_key_is_free_again_after_a_day(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        now_ms = SystemClock().now_ms()
        rows = owner.decide(spend(1))
        rows.idempotency.append(idempotency_row(1, now_ms - 24 * HOUR_MS - 60_000))
        await journal.commit(rows)
        assert await journal.find_responses([key(1) * 2]) == {}
        rows = owner.decide(spend(2))
        rows.idempotency.append(idempotency_row(1, now_ms, b"other"))
        await journal.commit(rows)
        assert (await journal.find_responses([key(1) * 2]))[key(1) * 2].fingerprint == b"other"
        assert len(await backend.table("idempotency")) == 1

    async def test_one_wrong_clock_frees_no_key(self, backend: Backend) -> None:
        """A key is too old only by both clocks, the database's and the claiming host's."""
        journal = await backend.open("a")
        owner = await with_card(journal)
        now_ms = SystemClock().now_ms()
        rows = owner.decide(spend(1))
        rows.idempotency.append(idempotency_row(1, now_ms - 24 * HOUR_MS - 60_000))
        await journal.commit(rows)
        rows = owner.decide(spend(2))
        rows.idempotency.append(idempotency_row(1, now_ms - 120_000, b"other"))
        with pytest.raises(DuplicateError, match="idempotency"):
            await journal.commit(rows)

    async def test_a_command_key_is_executed_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second = create_card(2, OTHER_SHARD)
        await journal.commit(owner.decide(second, load(2, card_id=second.id), spend(1)))
        again = authorize(2, card_id=second.id, command_key=spend(1).command_key)
        await is_refused(backend, journal, owner.decide(spend(3), again), DuplicateError)

    async def test_one_batch_cannot_execute_a_key_twice(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1), spend(2, command_key=spend(1).command_key))
        await is_refused(backend, journal, rows, DuplicateError)

    async def test_a_sequence_number_is_given_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1)))
        owner.cards[FIRST.id].seq -= 1
        await is_refused(backend, journal, owner.decide(spend(2)), DuplicateError)

    async def test_no_sequence_number_is_left_out(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        owner.decide(spend(1))
        await is_refused(backend, journal, owner.decide(spend(2)), BehindError)

    async def test_a_card_that_is_not_there_cannot_be_changed(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take(range(256)))
        owner.decide(FIRST)
        await is_refused(backend, journal, owner.decide(spend(1)), BehindError)

    async def test_a_card_is_issued_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        again = create_card(command_key=key(7))
        await is_refused(backend, journal, owner.decide(again), DuplicateError)

    async def test_a_balance_moves_on_from_the_version_that_was_read(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        for version in (0, 1, 3):
            owner.accounts[FIRST.account_id or ""].version = version
            rows = owner.decide(spend(version + 1))
            owner.cards[FIRST.id].seq -= 1
            await is_refused(backend, journal, rows, BehindError)

    async def test_an_account_is_opened_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        thief = create_card(2, account_id=FIRST.account_id, opens_account=True)
        await is_refused(backend, journal, owner.decide(thief), BehindError)

    async def test_a_value_no_column_takes_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        before = owner.accounts[FIRST.account_id or ""]
        owner.accounts[FIRST.account_id or ""] = msgspec.structs.replace(before, posted_minor=2**63 - 1)
        rows = owner.decide(spend(1, kind="refund"))
        await is_refused(backend, journal, rows, RejectedError)

    async def test_less_than_nothing_cannot_be_held(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        owner.accounts[FIRST.account_id or ""].held_minor = -1_001
        await is_refused(backend, journal, owner.decide(spend(1)), RejectedError)
