"""The active cards of a host: needs of commands, activation and passivation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.cards.activation import Activation
from actors.cards.reading import Need, Wanted
from actors.journal.contract import Rows, StoredReply, UnknownOutcomeError
from actors.journal.memory import MemoryJournal
from actors.journal.memory_store import MemoryStore
from actors.journal.rows import ProgrammeRow
from engine.ids import Derived, derive
from tests.support.engine.build import (
    ACCOUNT,
    CARD,
    PROGRAMME,
    account,
    an_id,
    authorize,
    card,
    change_programme,
    create_card,
    create_programme,
    governed,
    load,
)

encode = msgspec.json.encode


def activation(active_max: int = 100) -> Activation:
    journal = MemoryJournal(MemoryStore(), "a")
    return Activation(journal, lambda wanted, unreadable: None, lambda answers: None, active_max)


def filled(count: int, active_max: int = 100) -> Activation:
    """Cards, each with its own account, in the order of their numbers."""
    made = activation(active_max)
    for number in range(count):
        id_ = an_id(number)
        own = derive(id_, Derived.ACCOUNT)
        made.admit(card(id=id_, account_id=own), account(id=own))
    return made


@pytest.mark.parametrize(
    ("command", "need"),
    [
        (authorize(1), Need("card", CARD)),
        (load(1), Need("card", CARD)),
        (create_programme(1), None),
        (change_programme(1), Need("programme", PROGRAMME)),
        (create_card(1), Need("programme", PROGRAMME)),
    ],
)
def test_first_need_of_a_command_in_an_empty_host(command: Any, need: Need | None) -> None:
    assert activation().need(command) == need


def test_first_need_of_a_command_with_loaded_state() -> None:
    active = activation()
    active.learn(governed())
    assert active.need(create_card(1)) is None
    assert active.need(create_card(1, account_id=None, opens_account=False)) is None
    joining = create_card(1, account_id=ACCOUNT, opens_account=False)
    assert active.need(joining) == Need("account", ACCOUNT)
    active.admit(card(), account())
    assert active.need(joining) is None
    assert active.need(authorize(1)) is None
    assert active.need(change_programme(1)) == Need("programme", PROGRAMME)
    active.programmes[PROGRAMME] = governed()
    assert active.need(change_programme(1)) is None


def test_newest_snapshot_is_kept() -> None:
    active = activation()
    for seq in (2, 1, 3, 2):
        active.learn(governed(seq))
    assert active.snapshots[PROGRAMME].seq == 3


def test_cards_that_share_an_account_share_the_object() -> None:
    active = activation()
    first = active.admit(card(), account())
    second = active.admit(card(id=an_id(2)), account(posted_minor=-1))
    assert first.account is second.account
    assert active.accounts[ACCOUNT].users == 2


def test_least_recently_used_cards_are_passivated() -> None:
    active = filled(5, active_max=3)
    assert active.card(an_id(0)) is not None
    active.passivate_surplus()
    assert list(active.cards) == [an_id(3), an_id(4), an_id(0)]
    assert len(active.accounts) == 3


def test_undurable_cards_are_not_passivated() -> None:
    active = filled(5, active_max=2)
    for number in (0, 1, 2):
        active.cards[an_id(number)].undurable = 1
    active.passivate_surplus()
    assert list(active.cards) == [an_id(0), an_id(1), an_id(2)]
    for number in (0, 1, 2):
        active.cards[an_id(number)].undurable = 0
    active.passivate_surplus()
    assert list(active.cards) == [an_id(1), an_id(2)]


def test_account_is_dropped_with_its_last_card() -> None:
    active = activation(active_max=1)
    active.admit(card(), account())
    active.admit(card(id=an_id(2)), account())
    active.passivate_surplus()
    assert active.accounts[ACCOUNT].users == 1
    active.admit(card(id=an_id(3), account_id=None), None)
    active.passivate_surplus()
    assert active.accounts == {}


def test_dropping_a_card_drops_all_cards_of_its_account() -> None:
    active = filled(3)
    active.admit(card(), account())
    active.admit(card(id=an_id(50)), account())
    active.drop_cards([CARD, an_id(99)])
    assert set(active.cards) == {an_id(0), an_id(1), an_id(2)}
    assert ACCOUNT not in active.accounts


def test_dropping_an_unfunded_card_leaves_other_cards() -> None:
    active = filled(2)
    for number in (50, 51):
        active.admit(card(id=an_id(number), account_id=None), None)
    active.drop_cards([an_id(50)])
    assert set(active.cards) == {an_id(0), an_id(1), an_id(51)}


def test_dropping_shards_drops_their_cards_accounts_and_programmes() -> None:
    active = filled(2)
    other = an_id(7, 0x03)
    active.admit(
        card(id=other, account_id=derive(other, Derived.ACCOUNT)), account(id=derive(other, Derived.ACCOUNT))
    )
    active.programmes[PROGRAMME] = governed()
    active.learn(governed())
    active.drop_shards([0xA7])
    assert set(active.cards) == {other}
    assert set(active.accounts) == {derive(other, Derived.ACCOUNT)}
    assert active.programmes == {}
    assert set(active.snapshots) == {PROGRAMME}, "snapshots need no ownership"


async def test_failed_read_is_repeated() -> None:
    attempts = 0

    class Flaky(MemoryJournal):
        async def load_programmes(self, programme_ids: Any) -> Any:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise UnknownOutcomeError
            return await super().load_programmes(programme_ids)

    loaded: list[list[str]] = []
    remembered: list[dict[bytes, StoredReply]] = []
    active = Activation(
        Flaky(MemoryStore(), "a"),
        lambda wanted, unreadable: loaded.append(wanted.ids()),
        remembered.append,
    )
    active.want(Need("programme", PROGRAMME))
    active.want(Need("programme", PROGRAMME))
    assert active._task is not None
    await active._task
    assert loaded == [[PROGRAMME]]
    assert attempts == 2
    assert msgspec.structs.asdict(active._reading) == msgspec.structs.asdict(Wanted())
    await active.stop()


async def test_refresh_reads_only_programmes_that_have_changed() -> None:
    """Programmes that did not change, or have no active card, are not decoded."""
    store = MemoryStore()
    active = Activation(MemoryJournal(store, "a"), lambda wanted, unreadable: None, lambda answers: None)
    decoded: list[str] = []
    read = store.programme

    def counting(programme_id: str) -> Any:
        decoded.append(programme_id)
        return read(programme_id)

    store.programme = counting  # type: ignore[method-assign]
    ids = [an_id(number) for number in range(200)]

    def write(id_: str, seq: int) -> None:
        rows = Rows()
        made = governed(seq, id=id_)
        rows.programmes[id_] = ProgrammeRow(
            id_, "t", False, seq, seq, encode(made.config).decode(), None, None
        )
        store.programmes.put(rows.programmes.values(), ("version", "seq", "config"))
        store.programme_changes.append(id_)

    for id_ in ids:
        write(id_, 1)
    for id_ in ids[:100]:
        active.learn(governed(1, id=id_))
    await active.refresh_programmes()
    assert len(decoded) == 100
    decoded.clear()
    await active.refresh_programmes()
    assert decoded == []
    write(ids[3], 2)
    write(ids[150], 2)
    await active.refresh_programmes()
    assert decoded == [ids[3]]
    assert active.snapshots[ids[3]].seq == 2
