"""State is loaded as it was committed: part of the suite of both journals.

Production code makes the batches: a round trip covers every column that owners write.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from actors.clock import SystemClock
from actors.journal.contract import Unreadable
from engine.cards.authorization import references_of
from engine.cards.card import DeclaredBalance
from engine.commands import reference_of_id, reference_of_message
from engine.ids import Derived, derive
from engine.instant import DAY_MS
from engine.limits import ACTIVATION_ANSWERS
from tests.support.actors.journal.backends import Backend
from tests.support.actors.journal.cases import (
    EVERY_CONTROL,
    FIRST,
    OTHER_SHARD,
    advise_sale,
    present_sale,
    reverse_sale,
    spend,
    with_card,
)
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import (
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
    replace_card,
    set_cardholder_status,
    wire,
)


class StoredState:
    """Tests for a fixture ``backend``."""

    async def test_new_card_is_loaded_unchanged(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take([SHARD]))
        command = create_card(controls=EVERY_CONTROL[::-1], network="mastercard", state="unactivated")
        await journal.commit(owner.decide(command))
        loaded = await journal.load_cards([command.id])
        assert loaded.cards == owner.cards
        assert loaded.cards[command.id].controls == EVERY_CONTROL
        assert loaded.accounts == owner.accounts

    async def test_known_account_is_not_loaded_with_its_cards(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        loaded = await journal.load_cards([FIRST.id], {FIRST.account_id or ""})
        assert (loaded.cards, loaded.accounts) == (owner.cards, {})

    async def test_unfunded_card_is_loaded_without_account(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take([SHARD]))
        await journal.commit(owner.decide(create_card(account_id=None, opens_account=False)))
        loaded = await journal.load_cards([FIRST.id])
        assert (loaded.cards, loaded.accounts) == (owner.cards, {})
        assert loaded.cards[FIRST.id].account_id is None

    async def test_card_and_account_are_loaded_as_in_memory_after_each_command(
        self, backend: Backend
    ) -> None:
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

    async def test_declared_balance_and_cardholder_status_are_loaded(self, backend: Backend) -> None:
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

    @pytest.mark.parametrize("funded", [True, False])
    async def test_replaced_card_and_its_replacement_are_loaded(self, backend: Backend, funded: bool) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        old = FIRST if funded else create_card(2, account_id=None, opens_account=False)
        new = replace_card(1, card_id=old.id, reason="damaged")
        made = [] if funded else [old]
        declared = declare_balance(1, card_id=old.id)
        spent = authorize(1, card_id=old.id)
        await journal.commit(owner.decide(*made, declared, spent))
        await journal.commit(owner.decide(new, reverse_sale(7, "n:unheard")))
        loaded = await journal.load_cards([old.id, new.id])
        assert loaded.cards == {id_: owner.cards[id_] for id_ in (old.id, new.id)}
        assert (loaded.cards[old.id].replaced_by, loaded.cards[old.id].state) == (new.id, "terminated")
        assert (loaded.cards[new.id].replaces, loaded.cards[new.id].seq) == (old.id, 1)
        assert loaded.cards[new.id].declared == DeclaredBalance(2_500, 0, NOW_MS)
        assert loaded.cards[new.id].day_count == (1 if funded else 0)
        (link,) = await backend.table("card_replacements")
        assert link == {
            "card_id": old.id,
            "replacement_id": new.id,
            "reason": "damaged",
            "replaced_at": NOW_MS,
        }

    async def test_commands_of_one_batch_leave_the_newest_state(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        batch = [spend(number, amount_minor=100 * number) for number in range(1, 6)]
        await journal.commit(owner.decide(*batch, load(2, card_id=FIRST.id)))
        loaded = await journal.load_cards([FIRST.id])
        assert (loaded.cards, loaded.accounts) == (owner.cards, owner.accounts)
        assert loaded.cards[FIRST.id].seq == 8

    async def test_cards_of_one_account_are_loaded_with_their_holds(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second = create_card(2, account_id=FIRST.account_id, opens_account=False)
        await journal.commit(owner.decide(second, spend(1), authorize(2, card_id=second.id)))
        loaded = await journal.load_cards([FIRST.id, second.id])
        assert (loaded.cards, loaded.accounts) == (owner.cards, owner.accounts)
        holds = loaded.accounts[FIRST.account_id or ""].holds.values()
        assert {hold.card_id for hold in holds} == {FIRST.id, second.id}

    async def test_lapsed_hold_is_not_loaded(self, backend: Backend) -> None:
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

    async def test_hold_placed_and_lapsed_in_one_batch_is_not_loaded(self, backend: Backend) -> None:
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
        unknown = [an_id(1), "nonsense", FIRST.id.upper(), ""]
        assert await journal.load_cards(unknown) == await journal.load_cards([])
        assert set((await journal.load_cards([*unknown, FIRST.id])).cards) == {FIRST.id}
        assert await journal.load_accounts([*unknown, FIRST.id]) == {}
        assert await journal.load_programmes(unknown) == {}
        assert await journal.find([key(1)]) == {}
        assert await journal.find_responses([key(1) * 2]) == {}

    async def test_accounts_are_loaded_without_cards(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.commit(owner.decide(spend(1)))
        assert await journal.load_accounts([FIRST.account_id or ""]) == owner.accounts

    async def test_programmes_are_loaded_in_their_newest_version(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take(range(256)))
        first = create_programme(1, timezone="Europe/Dublin", hold_expiry_days=3)
        change = change_programme(1, programme_id=first.id, name="Fuel", status="suspended")
        await journal.commit(owner.decide(first, create_programme(2)))
        await journal.commit(owner.decide(change, now_ms=NOW_MS + 1))
        loaded = await journal.load_programmes([first.id, create_programme(2).id])
        assert loaded == owner.programmes
        record = loaded[first.id]
        assert not isinstance(record, Unreadable)
        assert (record.seq, record.config.version, record.config.status) == (2, 2, "suspended")
        (row,) = [row for row in await backend.table("programmes") if row["id"] == first.id]
        assert (row["version"], row["seq"], row["decision_secret_sealed"]) == (2, 2, b"sealed")

    async def test_ledger_accounts_of_a_programme_are_not_loaded_as_card_accounts(
        self, backend: Backend
    ) -> None:
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

    async def test_authorizations_are_loaded_by_all_their_references(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        first = spend(1, wire=wire(1, network_txn_id="N1"))
        later = NOW_MS + 8 * DAY_MS
        steps: list[tuple[Any, int]] = [
            (first, NOW_MS),
            (spend(2, amount_minor=500, references=(reference_of_id(first.id),)), NOW_MS),
            (reverse_sale(3, "n:N1", remaining_minor=1_200), NOW_MS),
            (present_sale(4, reference_of_message(first.command_key), amount_minor=300, final=False), NOW_MS),
            (spend(5, amount_minor=99_999), NOW_MS),
            (spend(6, kind="refund", amount_minor=100), NOW_MS),
            (spend(7, amount_minor=0), NOW_MS),
            (spend(8, amount_minor=100), NOW_MS),
            (reverse_sale(9, reference_of_message(spend(8).command_key)), NOW_MS),
            (present_sale(10, "n:unheard", amount_minor=50), NOW_MS),
            (spend(11, amount_minor=1), later),
        ]
        for command, at_ms in steps:
            await journal.commit(owner.decide(command, now_ms=at_ms))
            expected = {(FIRST.id, name): [each] for each in owner.known for name in references_of(each)}
            assert await journal.load_authorizations(expected) == expected
        raised = (FIRST.id, reference_of_message(spend(2).command_key))
        read = (await journal.load_authorizations([raised]))[raised]
        assert not isinstance(read, Unreadable)
        (found,) = read
        assert found.id == first.id

    async def test_authorizations_of_one_network_id_are_loaded_oldest_first(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        life = wire(1, network_txn_id="N1")
        commands = [spend(1, wire=life), spend(2, wire=life, kind="refund"), spend(3, wire=life)]
        await journal.commit(owner.decide(*commands))
        loaded = await journal.load_authorizations([(FIRST.id, "n:N1")])
        read = loaded[FIRST.id, "n:N1"]
        assert not isinstance(read, Unreadable)
        assert [each.id for each in read] == [each.id for each in commands]

    async def test_increments_are_loaded_with_day_and_counted_amount(self, backend: Backend) -> None:
        """Including increments that reversals and advices lower or raise on another day."""
        journal = await backend.open("a")
        owner = await with_card(journal)
        sale, declined = wire(1, network_txn_id="N1"), wire(2, network_txn_id="N2")
        again = ("n:N1",)
        undone = reference_of_message(spend(3).command_key)
        unheard = reference_of_message(spend(8).command_key)
        steps: list[tuple[Any, int]] = [
            (spend(1, wire=sale), NOW_MS),
            (spend(20, wire=declined, amount_minor=99_999), NOW_MS),
            (spend(2, wire=wire(3), amount_minor=500, references=again), NOW_MS),
            (spend(3, wire=wire(4), amount_minor=400, references=again), NOW_MS + DAY_MS),
            (spend(4, wire=wire(5), amount_minor=300, references=again), NOW_MS + 2 * DAY_MS),
            (advise_sale(21, "n:N2", amount_minor=700), NOW_MS + 2 * DAY_MS),
            (reverse_sale(5, undone, "n:N1", remaining_minor=350), NOW_MS + 2 * DAY_MS),
            (reverse_sale(6, "n:N1", remaining_minor=1_600), NOW_MS + 2 * DAY_MS),
            (advise_sale(7, "n:N1", amount_minor=1_580), NOW_MS + 3 * DAY_MS),
            (reverse_sale(9, unheard), NOW_MS + 3 * DAY_MS),
            (spend(8, wire=wire(8), amount_minor=5, references=again), NOW_MS + 3 * DAY_MS),
            (advise_sale(10, "n:N1", amount_minor=1_600), NOW_MS + 40 * DAY_MS),
            (reverse_sale(11, "n:N1", remaining_minor=1_550), NOW_MS + 41 * DAY_MS),
            (spend(99, amount_minor=1), NOW_MS + 41 * DAY_MS),
        ]
        for command, at_ms in steps:
            await journal.commit(owner.decide(command, now_ms=at_ms))
            expected = {(FIRST.id, name): [each] for each in owner.known for name in references_of(each)}
            assert await journal.load_authorizations(expected) == expected
        assert [each.counted_minor for each in owner.known["n:N1"].increments.values()] == [500, 50, 0, 0, 0]
        assert owner.known["n:N2"].day == "2026-11-23"

    async def test_advice_that_replaces_a_message_is_loaded(self, backend: Backend) -> None:
        """Including an advice that restores, on the next day, an approval that the edge had reversed."""
        journal = await backend.open("a")
        owner = await with_card(journal)
        later = NOW_MS + DAY_MS
        late = reference_of_message(spend(2).command_key)
        undone = reference_of_message(spend(1).command_key)
        steps: list[tuple[Any, int]] = [
            (spend(1, wire=wire(1, network_txn_id="N1")), NOW_MS),
            (reverse_sale(10, undone, late=True), NOW_MS),
            (advise_sale(11, "n:N1", undone, amount_minor=700), later),
            (advise_sale(12, "n:N2", late, amount_minor=800, wire=wire(12, network_txn_id="N2")), later),
            (spend(2, wire=wire(2, network_txn_id="N2")), later),
            (reverse_sale(13, late, "n:N2"), later),
            (spend(99, amount_minor=1), later),
        ]
        for command, at_ms in steps:
            await journal.commit(owner.decide(command, now_ms=at_ms))
            expected = {(FIRST.id, name): [each] for each in owner.known for name in references_of(each)[:2]}
            assert await journal.load_authorizations(expected) == expected
        assert [each.stands_for for each in owner.known] == [(), (late,), (), ()]

    async def test_unknown_references_are_absent(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        second = create_card(2, OTHER_SHARD)
        await journal.commit(owner.decide(second, spend(1, wire=wire(1, network_txn_id="N1"))))
        mine = ("n:N1", reference_of_id(spend(1).id), reference_of_message(spend(1).command_key))
        unknown = [(second.id, name) for name in mine]
        unknown += [(FIRST.id, name) for name in ("n:N2", "a:" + an_id(1), "k:" + key(99).hex())]
        assert await journal.load_authorizations(unknown) == {}
        assert await journal.load_authorizations([]) == {}

    async def test_changed_programmes_are_read_once(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = Owner(await journal.take(range(256)))
        first, other = create_programme(1), create_programme(2)
        await journal.commit(owner.decide(first, other))
        position, changed = await journal.load_changed_programmes(None, lambda id_, seq: True)
        assert changed == {}
        await journal.commit(owner.decide(change_programme(1, programme_id=first.id, name="New")))
        asked: list[tuple[str, int]] = []

        def newer(id_: str, seq: int) -> bool:
            asked.append((id_, seq))
            return id_ == first.id and seq > 1

        after, changed = await journal.load_changed_programmes(position, newer)
        assert changed == await journal.load_programmes([first.id])
        assert (first.id, 2) in asked
        asked.clear()
        assert (await journal.load_changed_programmes(after, newer))[1] == {}
        assert asked == []

    async def test_tombstones_are_loaded(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        now_ms = SystemClock().now_ms()
        await journal.commit(
            owner.decide(reverse_sale(1, "n:N1", "k:00"), reverse_sale(2, "n:N1"), now_ms=now_ms)
        )
        card = (await journal.load_cards([FIRST.id])).cards[FIRST.id]
        assert card == owner.cards[FIRST.id]
        assert card.tombstones == {"n:N1": now_ms, "k:00": now_ms}

    async def test_expired_tombstones_are_not_read(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        now_ms = SystemClock().now_ms()
        for number, days in enumerate((31, 30, 29, 0)):
            command = reverse_sale(number + 1, f"n:{days}")
            await journal.commit(owner.decide(command, now_ms=now_ms - days * DAY_MS))
        card = (await journal.load_cards([FIRST.id])).cards[FIRST.id]
        assert list(card.tombstones) == ["n:29", "n:0"]

    async def test_cards_with_overdue_holds_are_found_longest_overdue_first(self, backend: Backend) -> None:
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

    async def test_cards_are_loaded_with_their_newest_replies(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        spends = [spend(number, amount_minor=100) for number in range(1, 12)]
        await journal.commit(owner.decide(*spends))
        answers = (await journal.load_cards([FIRST.id])).answers
        assert answers == await journal.find([each.command_key for each in spends[-ACTIVATION_ANSWERS:]])

    async def test_refused_commands_and_reads_write_no_journal_row(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        before = await backend.table("journal")
        refused = change_card(1, card_id=FIRST.id, state="unactivated")
        foreign = load(2, card_id=FIRST.id, tenant_id=an_id(9))
        await journal.commit(owner.decide(refused, foreign, read_balance(1, card_id=FIRST.id)))
        assert await backend.table("journal") == before
