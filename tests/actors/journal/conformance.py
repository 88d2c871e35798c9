"""What every journal does: the suite that holds PostgreSQL and its twin in memory equal.

The batches are made by the owners' own code, so a round trip covers every column that is really written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from actors.clock import SystemClock
from actors.journal.contract import (
    BehindError,
    DuplicateError,
    Journal,
    RejectedError,
    Rows,
    StaleEpochError,
)
from engine.card import DeclaredBalance
from engine.commands import Present, Reverse, reference_of_id, reference_of_message
from engine.controls import (
    ChannelAllow,
    ChannelDeny,
    Control,
    CountryAllow,
    CountryDeny,
    MccAllow,
    MccDeny,
    PerDayAmountCap,
    PerDayCap,
    PerTxnCap,
)
from engine.ids import Derived, derive
from engine.instant import DAY_MS
from engine.limits import ACTIVATION_ANSWERS
from tests.actors.journal.backends import Backend
from tests.actors.journal.owner import Owner
from tests.engine.build import (
    NOW_MS,
    SHARD,
    an_id,
    authorize,
    change_card,
    change_programme,
    create_card,
    create_programme,
    declare_balance,
    key,
    load,
    read_balance,
    set_cardholder_status,
    wire,
)

EVERY_CONTROL: tuple[Control, ...] = (
    MccAllow(("5411", "5812")),
    MccDeny(("7995",)),
    CountryAllow(("IE", "DE")),
    CountryDeny(("US",)),
    ChannelAllow(("pos", "ecommerce")),
    ChannelDeny(("moto",)),
    PerTxnCap(50_000),
    PerDayCap(10),
    PerDayAmountCap(100_000),
)
FIRST = create_card()
OTHER_SHARD = 0x03
HOUR_MS = 3_600_000


async def with_card(journal: Journal) -> Owner:
    """The owner of all shards with one card, ``FIRST``, of 50.00, both durable."""
    owner = Owner(await journal.take(range(256)))
    await journal.commit(owner.decide(create_programme(), FIRST, load(1, card_id=FIRST.id)))
    return owner


def spend(number: int = 1, **parts: Any) -> Any:
    return authorize(number, card_id=FIRST.id, **parts)


def _reverse(number: int, *references: str, **parts: Any) -> Reverse:
    return Reverse(**_about(number), references=references, **parts)


def _present(number: int, *references: str, **parts: Any) -> Present:
    sale: dict[str, Any] = {
        "currency": "EUR",
        "mcc": "5411",
        "merchant_name": "Shop",
        "merchant_country": "IE",
    }
    paper: dict[str, Any] = {"kind": "purchase", "arn": "1", "sequence": 1}
    return Present(**_about(number), **sale, **paper, references=references, **parts)


def _about(number: int) -> dict[str, Any]:
    id_, command_key = an_id(0x80_0000 + number), key(0x80_0000 + number)
    return {
        "id": id_,
        "command_key": command_key,
        "card_id": FIRST.id,
        "fingerprint": key(number),
        "wire": wire(number),
    }


def claim_row(
    number: int, created_ms: int, fingerprint: bytes = b"same"
) -> tuple[bytes, bytes, int, bytes, int]:
    return (key(number) * 2, fingerprint, 201, b"sealed body", created_ms)


class Conformance:
    """Tests for a fixture ``backend``."""

    # --- what is written comes back ---

    async def test_a_new_card_comes_back_as_it_was(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take([SHARD]))
        command = create_card(controls=EVERY_CONTROL[::-1], network="mastercard", state="unactivated")
        await journal.commit(owner.decide(command))
        loaded = await journal.load_cards([command.id])
        assert loaded.cards == owner.cards
        assert loaded.cards[command.id].controls == EVERY_CONTROL
        assert loaded.accounts == owner.accounts

    async def test_an_unfunded_card_has_no_account(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take([SHARD]))
        await journal.commit(owner.decide(create_card(account_id=None, opens_account=False)))
        loaded = await journal.load_cards([FIRST.id])
        assert (loaded.cards, loaded.accounts) == (owner.cards, {})
        assert loaded.cards[FIRST.id].account_id is None

    async def test_everything_a_life_leaves_behind_comes_back(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        life = [
            spend(1),
            spend(2, amount_minor=99_999),
            spend(3, cvv2="mismatch"),
            spend(4, kind="refund", amount_minor=700),
            spend(5, amount_minor=0),
            change_card(1, card_id=FIRST.id, controls=EVERY_CONTROL),
            spend(6, amount_minor=9_000, partial_allowed=True),
            change_card(2, card_id=FIRST.id, state="suspended", state_reason="lost for a day"),
        ]
        for command in life:
            await journal.commit(owner.decide(command))
            loaded = await journal.load_cards([FIRST.id])
            assert loaded.cards == owner.cards
            assert loaded.accounts == owner.accounts
        card = owner.cards[FIRST.id]
        assert (card.seq, card.day_count, card.cvv2_failures, card.state_reason) == (
            10,
            2,
            1,
            "lost for a day",
        )
        assert len(owner.accounts[FIRST.account_id or ""].holds) == 2

    async def test_what_a_card_was_told_comes_back(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        batches: list[list[Any]] = [
            [set_cardholder_status(1, card_id=FIRST.id)],
            [declare_balance(1, card_id=FIRST.id)],
            [
                declare_balance(2, card_id=FIRST.id, amount_minor=99),
                set_cardholder_status(2, card_id=FIRST.id, active=True),
                declare_balance(3, card_id=FIRST.id, amount_minor=0),
            ],
        ]
        for number, batch in enumerate(batches):
            await journal.commit(owner.decide(*batch, now_ms=NOW_MS + number))
            loaded = await journal.load_cards([FIRST.id])
            assert loaded.cards == owner.cards
        assert loaded.cards[FIRST.id].declared == DeclaredBalance(0, 0, NOW_MS + 2)

    async def test_one_batch_leaves_what_many_leave(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        batch = [spend(number, amount_minor=100 * number) for number in range(1, 6)]
        await journal.commit(owner.decide(*batch, load(2, card_id=FIRST.id)))
        loaded = await journal.load_cards([FIRST.id])
        assert (loaded.cards, loaded.accounts) == (owner.cards, owner.accounts)
        assert loaded.cards[FIRST.id].seq == 8

    async def test_cards_share_an_account(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second = create_card(2, account_id=FIRST.account_id, opens_account=False)
        await journal.commit(owner.decide(second, spend(1), authorize(2, card_id=second.id)))
        loaded = await journal.load_cards([FIRST.id, second.id])
        assert (loaded.cards, loaded.accounts) == (owner.cards, owner.accounts)
        holds = loaded.accounts[FIRST.account_id or ""].holds.values()
        assert {hold.card_id for hold in holds} == {FIRST.id, second.id}

    async def test_a_hold_that_lapsed_does_not_come_back(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1), spend(2)))
        await journal.commit(owner.decide(spend(3), now_ms=NOW_MS + 7 * DAY_MS))
        loaded = await journal.load_cards([FIRST.id])
        assert loaded.accounts == owner.accounts
        assert list(loaded.accounts[FIRST.account_id or ""].holds) == [derive(spend(3).id, Derived.HOLD)]
        holds = await backend.table("holds")
        assert Counter(row["state"] for row in holds) == {"held": 1, "lapsed": 2}
        transactions = await backend.table("transactions")
        assert [(row["status"], row["held_minor"]) for row in transactions] == [
            ("lapsed", 0),
            ("lapsed", 0),
            ("pending", 1_000),
        ]
        assert {row["updated_at"] - row["created_at"] for row in transactions} == {0, 7 * DAY_MS}

    async def test_a_hold_can_be_placed_and_lapse_in_one_batch(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1))
        owner.add(rows, spend(2), NOW_MS + 8 * DAY_MS)
        await journal.commit(rows)
        assert (await journal.load_cards([FIRST.id])).accounts == owner.accounts
        assert {row["state"] for row in await backend.table("holds")} == {"held", "lapsed"}

    async def test_unknown_ids_are_absent(self, backend: Backend) -> None:
        journal = await backend.open("a")
        await with_card(journal)
        strangers = [an_id(1), "nonsense", FIRST.id.upper(), ""]
        assert await journal.load_cards(strangers) == await journal.load_cards([])
        assert set((await journal.load_cards([*strangers, FIRST.id])).cards) == {FIRST.id}
        assert await journal.load_accounts([*strangers, FIRST.id]) == {}
        assert await journal.load_programmes(strangers) == {}
        assert await journal.find([key(1)]) == {}
        assert await journal.find_responses([key(1) * 2]) == {}

    async def test_accounts_come_back_alone(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1)))
        assert await journal.load_accounts([FIRST.account_id or ""]) == owner.accounts

    async def test_programmes_come_back_in_their_newest_version(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take(range(256)))
        first = create_programme(1, timezone="Europe/Dublin", hold_expiry_days=3)
        change = change_programme(1, programme_id=first.id, name="Fuel", status="suspended")
        await journal.commit(owner.decide(first, create_programme(2)))
        await journal.commit(owner.decide(change, now_ms=NOW_MS + 1))
        loaded = await journal.load_programmes([first.id, create_programme(2).id])
        assert loaded == owner.programmes
        record = loaded[first.id]
        assert (record.seq, record.config.version, record.config.status) == (2, 2, "suspended")
        (row,) = [row for row in await backend.table("programmes") if row["id"] == first.id]
        assert (row["version"], row["seq"], row["decision_secret_sealed"]) == (2, 2, b"sealed")

    async def test_a_programmes_own_ledger_accounts_are_not_card_accounts(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take(range(256)))
        programme = create_programme()
        await journal.commit(owner.decide(programme))
        kinds = {row["id"]: row["kind"] for row in await backend.table("accounts")}
        assert kinds == {
            derive(programme.id, Derived.FUNDING_SOURCE): "funding_source",
            derive(programme.id, Derived.SETTLEMENT): "settlement",
        }
        assert await journal.load_accounts(kinds) == {}

    # --- authorizations by name ---

    async def test_authorizations_come_back_under_all_their_names(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        first = spend(1, wire=wire(1, network_txn_id="N1"))
        later = NOW_MS + 8 * DAY_MS
        lives: list[tuple[Any, int]] = [
            (first, NOW_MS),
            (spend(2, amount_minor=500, references=(reference_of_id(first.id),)), NOW_MS),
            (_reverse(3, "n:N1", remaining_minor=1_200), NOW_MS),
            (_present(4, reference_of_message(first.command_key), amount_minor=300, final=False), NOW_MS),
            (spend(5, amount_minor=99_999), NOW_MS),
            (spend(6, kind="refund", amount_minor=100), NOW_MS),
            (spend(7, amount_minor=0), NOW_MS),
            (spend(8, amount_minor=100), NOW_MS),
            (_reverse(9, reference_of_message(spend(8).command_key)), NOW_MS),
            (_present(10, "n:unheard", amount_minor=50), NOW_MS),
            (spend(11, amount_minor=1), later),
        ]
        for command, at_ms in lives:
            await journal.commit(owner.decide(command, now_ms=at_ms))
            wanted = [(FIRST.id, name) for name in owner.authorizations]
            loaded = await journal.load_authorizations(wanted)
            assert {name: found for (_, name), found in loaded.items()} == owner.authorizations
        raised = (FIRST.id, reference_of_message(spend(2).command_key))
        assert (await journal.load_authorizations([raised]))[raised].id == first.id

    async def test_names_of_nothing_are_absent(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second = create_card(2, OTHER_SHARD)
        await journal.commit(owner.decide(second, spend(1, wire=wire(1, network_txn_id="N1"))))
        mine = ("n:N1", reference_of_id(spend(1).id), reference_of_message(spend(1).command_key))
        strangers = [(second.id, name) for name in mine]
        strangers += [(FIRST.id, name) for name in ("n:N2", "a:" + an_id(1), "k:" + key(99).hex())]
        assert await journal.load_authorizations(strangers) == {}
        assert await journal.load_authorizations([]) == {}

    async def test_tombstones_come_back(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(_reverse(1, "n:N1", "k:00"), _reverse(2, "n:N1")))
        card = (await journal.load_cards([FIRST.id])).cards[FIRST.id]
        assert card == owner.cards[FIRST.id]
        assert card.tombstones == {"n:N1", "k:00"}

    async def test_cards_with_overdue_holds_are_found_the_longest_overdue_first(
        self, backend: Backend
    ) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second, third = create_card(2, OTHER_SHARD), create_card(3, 0x04)
        funded = [load(number, card_id=each.id) for number, each in ((2, second), (3, third))]
        await journal.commit(owner.decide(second, third, *funded))
        now_ms = SystemClock().now_ms()
        for number, (card_id, days) in enumerate(((FIRST.id, 8), (second.id, 9), (third.id, 1)), 1):
            command = authorize(number, card_id=card_id)
            await journal.commit(owner.decide(command, now_ms=now_ms - days * DAY_MS))
        assert sorted(await journal.find_due_cards(range(256), 10)) == sorted([FIRST.id, second.id])
        assert await journal.find_due_cards(range(256), 1) == [second.id]
        assert await journal.find_due_cards([SHARD], 10) == [FIRST.id]
        assert await journal.find_due_cards([], 10) == []

    # --- answers ---

    async def test_executed_commands_are_found_by_key(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1), spend(2, currency="USD")))
        found = await journal.find([spend(1).command_key, spend(2).command_key, key(99), FIRST.command_key])
        assert set(found) == {spend(1).command_key, spend(2).command_key, FIRST.command_key}
        for command_key, stored in found.items():
            assert stored.reply == msgspec.json.encode(owner.replies[command_key])
        assert found[spend(1).command_key].fingerprint == spend(1).fingerprint
        assert found[FIRST.command_key].fingerprint is None

    async def test_activation_brings_the_newest_answers(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        spends = [spend(number, amount_minor=100) for number in range(1, 12)]
        await journal.commit(owner.decide(*spends))
        answers = (await journal.load_cards([FIRST.id])).answers
        assert answers == await journal.find([each.command_key for each in spends[-ACTIVATION_ANSWERS:]])

    async def test_refusals_and_readings_leave_nothing(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        before = await backend.table("journal")
        refused = change_card(1, card_id=FIRST.id, state="unactivated")
        foreign = load(2, card_id=FIRST.id, tenant_id=an_id(9))
        await journal.commit(owner.decide(refused, foreign, read_balance(1, card_id=FIRST.id)))
        assert await backend.table("journal") == before

    # --- idempotency keys ---

    async def test_a_response_is_found_by_its_key(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1))
        rows.idempotency.append(claim_row(1, SystemClock().now_ms()))
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
        rows.idempotency.append(claim_row(1, now_ms - 24 * HOUR_MS + 60_000))
        await journal.commit(rows)
        before = await backend.table("journal")
        rows = owner.decide(spend(2))
        rows.idempotency.append(claim_row(1, now_ms, b"other"))
        with pytest.raises(DuplicateError, match="idempotency"):
            await journal.commit(rows)
        assert await backend.table("journal") == before
        assert (await journal.find_responses([key(1) * 2]))[key(1) * 2].fingerprint == b"same"

    async def test_a_key_is_free_again_after_a_day(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        now_ms = SystemClock().now_ms()
        rows = owner.decide(spend(1))
        rows.idempotency.append(claim_row(1, now_ms - 24 * HOUR_MS - 60_000))
        await journal.commit(rows)
        assert await journal.find_responses([key(1) * 2]) == {}
        rows = owner.decide(spend(2))
        rows.idempotency.append(claim_row(1, now_ms, b"other"))
        await journal.commit(rows)
        assert (await journal.find_responses([key(1) * 2]))[key(1) * 2].fingerprint == b"other"
        assert len(await backend.table("idempotency")) == 1

    async def test_a_host_with_a_slow_clock_frees_no_key_too_early(self, backend: Backend) -> None:
        """Whether a key is too old is the database's to say, for whoever claims and for whoever looks."""
        journal = await backend.open("a")
        owner = await with_card(journal)
        now_ms = SystemClock().now_ms()
        rows = owner.decide(spend(1))
        rows.idempotency.append(claim_row(1, now_ms - 24 * HOUR_MS - 60_000))
        await journal.commit(rows)
        rows = owner.decide(spend(2))
        rows.idempotency.append(claim_row(1, now_ms - 120_000, b"other"))
        await journal.commit(rows)
        assert (await journal.find_responses([key(1) * 2]))[key(1) * 2].fingerprint == b"other"

    # --- what is refused, and that nothing of it happened ---

    async def test_a_command_key_is_executed_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second = create_card(2, OTHER_SHARD)
        await journal.commit(owner.decide(second, load(2, card_id=second.id), spend(1)))
        again = authorize(2, card_id=second.id, command_key=spend(1).command_key)
        await self._refused(backend, journal, owner.decide(spend(3), again), DuplicateError)

    async def test_one_batch_cannot_execute_a_key_twice(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        rows = owner.decide(spend(1), spend(2, command_key=spend(1).command_key))
        await self._refused(backend, journal, rows, DuplicateError)

    async def test_a_sequence_number_is_given_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1)))
        owner.cards[FIRST.id].seq -= 1
        await self._refused(backend, journal, owner.decide(spend(2)), DuplicateError)

    async def test_no_sequence_number_is_left_out(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        owner.decide(spend(1))
        await self._refused(backend, journal, owner.decide(spend(2)), BehindError)

    async def test_a_card_that_is_not_there_cannot_be_changed(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take(range(256)))
        owner.decide(FIRST)
        await self._refused(backend, journal, owner.decide(spend(1)), BehindError)

    async def test_a_card_is_issued_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        again = create_card(command_key=key(7))
        await self._refused(backend, journal, owner.decide(again), DuplicateError)

    async def test_a_balance_moves_on_from_the_version_that_was_read(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        for version in (0, 1, 3):
            owner.accounts[FIRST.account_id or ""].version = version
            rows = owner.decide(spend(version + 1))
            owner.cards[FIRST.id].seq -= 1
            await self._refused(backend, journal, rows, BehindError)

    async def test_an_account_is_opened_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        thief = create_card(2, account_id=FIRST.account_id, opens_account=True)
        await self._refused(backend, journal, owner.decide(thief), BehindError)

    async def test_a_value_no_column_takes_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        before = owner.accounts[FIRST.account_id or ""]
        owner.accounts[FIRST.account_id or ""] = msgspec.structs.replace(before, posted_minor=2**63 - 1)
        rows = owner.decide(spend(1, kind="refund"))
        await self._refused(backend, journal, rows, RejectedError)

    async def test_less_than_nothing_cannot_be_held(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        owner.accounts[FIRST.account_id or ""].held_minor = -1_001
        await self._refused(backend, journal, owner.decide(spend(1)), RejectedError)

    async def _refused(self, backend: Backend, journal: Journal, rows: Rows, error: type[Exception]) -> None:
        tables = ("journal", "card_usage", "accounts", "holds", "transactions", "events", "cards")
        before = [await backend.table(name) for name in tables]
        with pytest.raises(error) as caught:
            await journal.commit(rows)
        assert type(caught.value) is error
        assert [await backend.table(name) for name in tables] == before

    # --- ownership ---

    async def test_every_take_raises_the_epoch(self, backend: Backend) -> None:
        journal = await backend.open("a")
        assert await journal.take([3, 1]) == {1: 1, 3: 1}
        assert await journal.take(range(256)) == {shard: 2 if shard in {1, 3} else 1 for shard in range(256)}
        assert await journal.take([]) == {}
        assert (await backend.owners())[3] == ("a", 2)

    async def test_registering_twice_is_harmless(self, backend: Backend) -> None:
        journal = await backend.open("a")
        await journal.take([1])
        await journal.register("a")
        assert (await backend.owners())[1] == ("a", 1)

    async def test_the_old_owner_cannot_commit(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        await new.take([SHARD])
        await self._refused(backend, old, owner.decide(spend(1)), StaleEpochError)

    async def test_an_epoch_of_ones_own_past_is_stale(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.take([SHARD])
        await self._refused(backend, journal, owner.decide(spend(1)), StaleEpochError)

    async def test_the_right_number_in_the_wrong_hands_is_stale(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        owner.epochs = await new.take([SHARD])
        await self._refused(backend, old, owner.decide(spend(1)), StaleEpochError)
        owner.activate(await new.load_cards([FIRST.id]))
        await new.commit(owner.decide(spend(2)))

    async def test_one_stale_shard_fails_the_batch(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        second = create_card(2, OTHER_SHARD)
        await old.commit(owner.decide(second))
        await new.take([OTHER_SHARD])
        rows = owner.decide(spend(1), load(2, card_id=second.id))
        await self._refused(backend, old, rows, StaleEpochError)

    async def test_other_shards_are_not_disturbed_by_a_take(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        await new.take([OTHER_SHARD])
        await old.commit(owner.decide(spend(1)))
        assert len(await backend.table("transactions")) == 1

    async def test_of_two_takers_the_last_owns(self, backend: Backend) -> None:
        journals = {name: await backend.open(name) for name in ("a", "b", "c")}
        await with_card(journals["c"])
        took = dict(
            zip(
                journals,
                await asyncio.gather(*(journal.take(range(256)) for journal in journals.values())),
                strict=True,
            )
        )
        assert sorted(epochs[SHARD] for epochs in took.values()) == [2, 3, 4]
        for name, journal in journals.items():
            owner = Owner(took[name])
            owner.activate(await journal.load_cards([FIRST.id]))
            if took[name][SHARD] == 4:
                await journal.commit(owner.decide(spend(1)))
            else:
                await self._refused(backend, journal, owner.decide(spend(2)), StaleEpochError)

    async def test_a_take_waits_for_a_commit_and_then_sees_it(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        async with backend.commits_held(FIRST.id):
            commit = asyncio.create_task(old.commit(owner.decide(spend(1))))
            await backend.waiting("commit", "old")
            take = asyncio.create_task(new.take([SHARD]))
            await backend.waiting("take", "new")
            assert not take.done()
        await commit
        assert await take == {SHARD: 2}
        loaded = await new.load_cards([FIRST.id])
        assert (loaded.cards, loaded.accounts) == (owner.cards, owner.accounts)

    async def test_a_take_elsewhere_does_not_wait_for_a_commit(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        await new.take([OTHER_SHARD])
        async with backend.commits_held(FIRST.id):
            commit = asyncio.create_task(old.commit(owner.decide(spend(1))))
            await backend.waiting("commit", "old")
            assert await new.take([OTHER_SHARD]) == {OTHER_SHARD: 3}
        await commit

    async def test_taking_does_not_disturb_a_commit_of_the_same_host(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(dict(await journal.take([SHARD])))
        await journal.commit(owner.decide(FIRST))
        async with backend.commits_held(FIRST.id):
            commit = asyncio.create_task(journal.commit(owner.decide(load(1, card_id=FIRST.id))))
            await backend.waiting("commit", "a")
            assert await journal.take([OTHER_SHARD]) == {OTHER_SHARD: 1}
            await journal.release([OTHER_SHARD])
        await commit
        assert (await journal.load_cards([FIRST.id])).accounts == owner.accounts

    async def test_renewal_ends_the_epochs_before_it(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        assert await journal.renew([SHARD, 1]) == {SHARD: 2, 1: 2}
        await self._refused(backend, journal, owner.decide(spend(1)), StaleEpochError)
        assert await journal.renew([]) == {}

    async def test_renewal_waits_for_a_commit_under_way(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        async with backend.commits_held(FIRST.id):
            commit = asyncio.create_task(journal.commit(owner.decide(spend(1))))
            await backend.waiting("commit", "a")
            renewal = asyncio.create_task(journal.renew([SHARD]))
            await backend.waiting("renew", "a")
            assert not renewal.done()
        await commit
        assert await renewal == {SHARD: 2}
        assert set(await journal.find([spend(1).command_key])) == {spend(1).command_key}

    async def test_only_an_owner_renews_and_only_all(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        await old.take([1, 2])
        await new.take([2])
        with pytest.raises(StaleEpochError):
            await old.renew([1, 2])
        owners = await backend.owners()
        assert (owners[1], owners[2]) == (("old", 1), ("new", 2))

    async def test_what_is_released_is_owned_by_nobody(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.release([SHARD])
        assert (await backend.owners())[SHARD] == (None, 2)
        await self._refused(backend, journal, owner.decide(spend(1)), StaleEpochError)
        with pytest.raises(StaleEpochError):
            await journal.renew([SHARD])
        assert await journal.take([SHARD]) == {SHARD: 3}

    async def test_nobody_releases_what_another_owns(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        await old.take([SHARD])
        await new.release([SHARD])
        assert (await backend.owners())[SHARD] == ("old", 1)

    async def test_the_journal_has_no_gaps_and_epochs_never_fall(self, backend: Backend) -> None:
        journals = [await backend.open(name) for name in ("a", "b")]
        owner = await with_card(journals[0])
        number = 1
        for turn in range(6):
            journal = journals[turn % 2]
            owner.epochs = await journal.take(range(256))
            await journal.commit(
                owner.decide(spend(number, amount_minor=1), spend(number + 1, amount_minor=1))
            )
            await journal.commit(owner.decide(spend(number + 2, amount_minor=1)))
            number += 3
        rows = [row for row in await backend.table("journal") if row["actor_id"] == FIRST.id]
        rows.sort(key=lambda row: int(row["seq"]))
        assert [row["seq"] for row in rows] == list(range(1, 21))
        epochs = [row["epoch"] for row in rows]
        assert epochs == sorted(epochs)
        assert len(set(epochs)) == 7

    # --- ends ---

    async def test_reset_and_close_leave_a_journal_that_connects_anew(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        for end in (journal.reset, journal.reset, journal.close, journal.close):
            await end()
        await journal.commit(owner.decide(spend(1)))
        assert (await journal.load_cards([FIRST.id])).cards == owner.cards
