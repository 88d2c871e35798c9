"""Refused batches and idempotency keys: part of the suite of both journals."""

from __future__ import annotations

import msgspec
import pytest

from actors.clock import SystemClock
from actors.journal.contract import (
    BehindError,
    DuplicateError,
    RejectedError,
)
from tests.support.actors.journal.backends import Backend
from tests.support.actors.journal.cases import (
    FIRST,
    HOUR_MS,
    OTHER_SHARD,
    act_row,
    assert_refused,
    idempotency_row,
    spend,
    with_card,
)
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import (
    authorize,
    create_card,
    key,
    load,
)


class Refusals:
    """Tests for a fixture ``backend``."""

    async def test_response_is_found_by_its_key(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1))
        rows.idempotency.append(idempotency_row(1, SystemClock().now_ms()))
        await journal.commit(rows)
        found = await journal.find_responses([key(1) * 2, key(2) * 2])
        assert set(found) == {key(1) * 2}
        response = found[key(1) * 2]
        assert (response.fingerprint, response.status, response.sealed) == (b"same", 201, b"sealed body")

    async def test_acts_are_stored_with_their_batch(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1))
        rows.acts += [act_row(1), act_row(2)]
        await journal.commit(rows)
        assert [tuple(row.values()) for row in await backend.table("audit_log")] == [
            tuple(act_row(1)),
            tuple(act_row(2)),
        ]
        refused = owner.decide(spend(2, command_key=spend(1).command_key))
        refused.acts.append(act_row(3))
        await assert_refused(backend, journal, refused, DuplicateError)
        assert len(await backend.table("audit_log")) == 2

    async def test_act_is_stored_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        for number in (1, 2):
            rows = owner.decide(spend(number))
            rows.acts.append(act_row(1))
            if number == 1:
                await journal.commit(rows)
        await assert_refused(backend, journal, rows, DuplicateError)

    async def test_idempotency_key_is_stored_once(self, backend: Backend) -> None:
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

    async def test_idempotency_key_expires_after_a_day(self, backend: Backend) -> None:
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

    async def test_one_wrong_clock_expires_no_idempotency_key(self, backend: Backend) -> None:
        """A key expires by both clocks: the database's and the host's."""
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

    async def test_repeated_command_key_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second = create_card(2, OTHER_SHARD)
        await journal.commit(owner.decide(second, load(2, card_id=second.id), spend(1)))
        again = authorize(2, card_id=second.id, command_key=spend(1).command_key)
        await assert_refused(backend, journal, owner.decide(spend(3), again), DuplicateError)

    async def test_command_key_twice_in_one_batch_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1), spend(2, command_key=spend(1).command_key))
        await assert_refused(backend, journal, rows, DuplicateError)

    async def test_repeated_sequence_number_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1)))
        owner.cards[FIRST.id].seq -= 1
        await assert_refused(backend, journal, owner.decide(spend(2)), DuplicateError)

    async def test_gap_in_the_sequence_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        owner.decide(spend(1))
        await assert_refused(backend, journal, owner.decide(spend(2)), BehindError)

    async def test_command_on_a_card_without_a_row_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take(range(256)))
        owner.decide(FIRST)
        await assert_refused(backend, journal, owner.decide(spend(1)), BehindError)

    async def test_second_creation_of_a_card_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        again = create_card(command_key=key(7))
        await assert_refused(backend, journal, owner.decide(again), DuplicateError)

    async def test_balance_based_on_another_version_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        for version in (0, 1, 3):
            owner.accounts[FIRST.account_id or ""].version = version
            rows = owner.decide(spend(version + 1))
            owner.cards[FIRST.id].seq -= 1
            await assert_refused(backend, journal, rows, BehindError)

    async def test_second_opening_of_an_account_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        thief = create_card(2, account_id=FIRST.account_id, opens_account=True)
        await assert_refused(backend, journal, owner.decide(thief), BehindError)

    async def test_balance_out_of_range_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        before = owner.accounts[FIRST.account_id or ""]
        owner.accounts[FIRST.account_id or ""] = msgspec.structs.replace(before, posted_minor=2**63 - 1)
        rows = owner.decide(spend(1, kind="refund"))
        await assert_refused(backend, journal, rows, RejectedError)

    async def test_negative_held_amount_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        owner.accounts[FIRST.account_id or ""].held_minor = -1_001
        await assert_refused(backend, journal, owner.decide(spend(1)), RejectedError)
