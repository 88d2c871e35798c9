"""Ownership of shards: part of the suite of both journals."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from actors.journal.contract import (
    BehindError,
    Journal,
    StaleEpochError,
)
from tests.support.actors.journal.backends import Backend
from tests.support.actors.journal.cases import (
    FIRST,
    OTHER_SHARD,
    assert_refused,
    spend,
    with_card,
)
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import (
    SHARD,
    create_card,
    load,
)


async def take_all(journal: Journal) -> dict[int, int]:
    """Take all shards with their present epochs, and repeat it if an epoch has risen meanwhile."""
    while True:
        with suppress(BehindError):
            return await journal.take(range(256), await journal.load_epochs(range(256)))


class Ownership:
    """Tests for a fixture ``backend``."""

    async def test_take_raises_the_epoch(self, backend: Backend) -> None:
        journal = await backend.open("a")
        assert await journal.take([3, 1]) == {1: 1, 3: 1}
        assert await journal.take(range(256)) == {shard: 2 if shard in {1, 3} else 1 for shard in range(256)}
        assert await journal.take([]) == {}
        assert (await backend.owners())[3] == ("a", 2)

    async def test_take_with_an_outdated_epoch_changes_nothing(self, backend: Backend) -> None:
        healthy, late = await backend.open("healthy"), await backend.open("late")
        known = await late.load_epochs([1, 2])
        await healthy.take([2], known)
        with pytest.raises(BehindError):
            await late.take([1, 2], known)
        owners = await backend.owners()
        assert (owners[1], owners[2]) == ((None, 0), ("healthy", 1))

    async def test_late_renewal_of_the_same_host_changes_nothing(self, backend: Backend) -> None:
        """A host repeats a renewal until it is answered. An abandoned attempt may run last."""
        journal = await backend.open("a")
        owner = await with_card(journal)
        known = await journal.load_epochs([SHARD])
        owner.epochs = await journal.renew([SHARD], known)
        assert await backend.late_renewal("a", known) == dict(owner.epochs)
        await journal.commit(owner.decide(spend(1)))

    async def test_renewal_succeeds_after_one_whose_answer_was_lost(self, backend: Backend) -> None:
        journal = await backend.open("a")
        known = await journal.take([1, 2])
        await journal.renew([1], known)
        assert await journal.renew([1, 2], known) == {1: 3, 2: 2}

    async def test_late_release_leaves_a_newer_ownership(self, backend: Backend) -> None:
        first, second = await backend.open("first"), await backend.open("second")
        known = await first.take([1])
        await second.take([1])
        await first.take([1])
        await first.release([1], known)
        assert (await backend.owners())[1] == ("first", 3)

    async def test_repeated_registration_has_no_effect(self, backend: Backend) -> None:
        journal = await backend.open("a")
        await journal.take([1])
        await journal.register("a")
        assert (await backend.owners())[1] == ("a", 1)

    async def test_commit_of_the_previous_owner_is_refused(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        await new.take([SHARD])
        await assert_refused(backend, old, owner.decide(spend(1)), StaleEpochError)

    async def test_commit_with_an_older_epoch_of_the_same_host_is_refused(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.take([SHARD])
        await assert_refused(backend, journal, owner.decide(spend(1)), StaleEpochError)

    async def test_commit_with_the_epoch_of_another_host_is_refused(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        owner.epochs = await new.take([SHARD])
        await assert_refused(backend, old, owner.decide(spend(1)), StaleEpochError)
        owner.activate(await new.load_cards([FIRST.id]))
        await new.commit(owner.decide(spend(2)))

    async def test_one_stale_shard_refuses_the_batch(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        second = create_card(2, OTHER_SHARD)
        await old.commit(owner.decide(second))
        await new.take([OTHER_SHARD])
        rows = owner.decide(spend(1), load(2, card_id=second.id))
        await assert_refused(backend, old, rows, StaleEpochError)

    async def test_take_leaves_commits_of_other_shards_alone(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        await new.take([OTHER_SHARD])
        await old.commit(owner.decide(spend(1)))
        assert len(await backend.table("transactions")) == 1

    async def test_last_of_concurrent_takers_owns_the_shards(self, backend: Backend) -> None:
        journals = {name: await backend.open(name) for name in ("a", "b", "c")}
        await with_card(journals["c"])
        took = dict(
            zip(
                journals,
                await asyncio.gather(*(take_all(journal) for journal in journals.values())),
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
                await assert_refused(backend, journal, owner.decide(spend(2)), StaleEpochError)

    async def test_take_waits_for_a_running_commit_and_sees_its_rows(self, backend: Backend) -> None:
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

    async def test_take_of_other_shards_does_not_wait_for_a_commit(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        owner = await with_card(old)
        await new.take([OTHER_SHARD])
        async with backend.commits_held(FIRST.id):
            commit = asyncio.create_task(old.commit(owner.decide(spend(1))))
            await backend.waiting("commit", "old")
            assert await new.take([OTHER_SHARD]) == {OTHER_SHARD: 3}
        await commit

    async def test_take_does_not_wait_for_a_commit_of_the_same_host(self, backend: Backend) -> None:
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

    async def test_renewal_makes_earlier_epochs_stale(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        assert await journal.renew([SHARD, 1]) == {SHARD: 2, 1: 2}
        await assert_refused(backend, journal, owner.decide(spend(1)), StaleEpochError)
        assert await journal.renew([]) == {}

    async def test_renewal_waits_for_a_running_commit(self, backend: Backend) -> None:
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

    async def test_renewal_with_one_foreign_shard_changes_nothing(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        await old.take([1, 2])
        await new.take([2])
        with pytest.raises(StaleEpochError):
            await old.renew([1, 2])
        owners = await backend.owners()
        assert (owners[1], owners[2]) == (("old", 1), ("new", 2))

    async def test_released_shard_has_no_owner(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        await journal.release([SHARD])
        assert (await backend.owners())[SHARD] == (None, 2)
        await assert_refused(backend, journal, owner.decide(spend(1)), StaleEpochError)
        with pytest.raises(StaleEpochError):
            await journal.renew([SHARD])
        assert await journal.take([SHARD]) == {SHARD: 3}

    async def test_release_leaves_shards_of_other_hosts(self, backend: Backend) -> None:
        old, new = await backend.open("old"), await backend.open("new")
        await old.take([SHARD])
        await new.release([SHARD])
        assert (await backend.owners())[SHARD] == ("old", 1)

    async def test_sequence_has_no_gaps_and_epochs_never_fall(self, backend: Backend) -> None:
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

    async def test_journal_connects_anew_after_reset_and_close(self, backend: Backend) -> None:
        journal = await backend.open("a")
        owner = await with_card(journal)
        for end in (journal.reset, journal.reset, journal.close, journal.close):
            await end()
        await journal.commit(owner.decide(spend(1)))
        assert (await journal.load_cards([FIRST.id])).cards == owner.cards
