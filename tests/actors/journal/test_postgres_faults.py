"""Faults of a real server and a real network: cut connections, frozen servers, lost answers."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, TypeVar

import asyncpg
import pytest

from actors.journal.contract import Journal, JournalError, RejectedError, Rows, UnknownOutcomeError
from actors.journal.postgres import POOLED, PostgresJournal
from engine.decision.compact_layout import Configuration
from engine.ids import shard_of
from tests.support.actors.journal.backends import HOST_SESSIONS, PostgresBackend, until
from tests.support.actors.journal.cases import FIRST, spend, with_card
from tests.support.actors.journal.owner import Owner
from tests.support.actors.journal.proxy import Proxy
from tests.support.engine.build import SHARD, change_card, key

T = TypeVar("T")

SOON = 0.1
"""Timeout in seconds of journals that call a frozen server only: a healthy server on a busy machine may need
longer."""
COMMITTER = f"{HOST_SESSIONS} AND query LIKE '%commit_batch%'"


async def retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat the call until the journal is reached, as a host does."""
    while True:
        try:
            return await attempt()
        except UnknownOutcomeError:
            await asyncio.sleep(0.01)


def with_a_configuration() -> Rows:
    """A commit of one configuration, which few commits have."""
    rows = Rows()
    rows.configurations["a"] = Configuration("a", "", "", "")
    return rows


async def opened_hastily(postgres: PostgresBackend, url: str | None = None) -> Journal:
    """A journal that waits for half a second; a healthy server on a busy machine may need longer."""
    return await retried(lambda: postgres.open("a", url=url, timeout_seconds=0.5))


async def test_cut_session_during_a_commit_is_an_unknown_outcome(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    async with postgres.commits_held(FIRST.id):
        commit = asyncio.create_task(journal.commit(owner.decide(spend(1))))
        await postgres.waiting("commit", "a")
        await postgres.session.execute(f"SELECT pg_terminate_backend(pid) FROM ({COMMITTER}) AS committer")
        with pytest.raises(UnknownOutcomeError):
            await commit
    owner.epochs = await journal.renew(range(256))
    assert await journal.find([spend(1).command_key]) == {}
    owner.activate(await journal.load_cards([FIRST.id]))
    await journal.commit(owner.decide(spend(1)))
    assert set(await journal.find([spend(1).command_key])) == {spend(1).command_key}


async def test_lost_answer_of_a_commit_is_an_unknown_outcome(postgres: PostgresBackend) -> None:
    async with Proxy(postgres.url) as network:
        journal = await postgres.open("a")
        hasty = await opened_hastily(postgres, network.address)
        owner = await with_card(journal)
        for rows in (Rows(), with_a_configuration()):
            # The connection prepares both statements.
            await retried(partial(hasty.commit, rows))
        network.drops_answers = True
        with pytest.raises(UnknownOutcomeError):
            await hasty.commit(owner.decide(spend(1), spend(2)))
        with pytest.raises(UnknownOutcomeError):
            await hasty.renew(range(256))
        network.drops_answers = False
        await retried(lambda: hasty.renew(range(256)))
        keys = {spend(1).command_key, spend(2).command_key}
        assert set(await journal.find(keys)) == keys
        assert (await journal.load_cards([FIRST.id])).cards == owner.cards


async def test_cut_connection_between_commits_is_made_anew(postgres: PostgresBackend) -> None:
    async with Proxy(postgres.url) as network:
        journal = await postgres.open("a", url=network.address)
        owner = await with_card(journal)
        await journal.load_cards([FIRST.id])
        network.cut()
        await retried(lambda: journal.renew(range(256)))
        assert set((await retried(lambda: journal.load_cards([FIRST.id]))).cards) == {FIRST.id}
        owner.epochs = await journal.renew(range(256))
        await retried(lambda: journal.commit(owner.decide()))


async def test_commit_that_runs_after_the_renewal_fails(postgres: PostgresBackend) -> None:
    """The server's process was frozen before it received the commit. New epochs fence it."""
    journal = await postgres.open("a")
    owner = await with_card(journal)
    hasty = await opened_hastily(postgres)
    await journal.close()
    await retried(lambda: hasty.commit(Rows()))
    pid = await postgres.session.fetchval(COMMITTER)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(UnknownOutcomeError):
            await hasty.commit(owner.decide(spend(1)))
        epochs = await journal.renew(range(256))
        assert await journal.find([spend(1).command_key]) == {}
    finally:
        os.kill(pid, signal.SIGCONT)
    await until(lambda: _gone(postgres, pid))
    assert await journal.find([spend(1).command_key]) == {}
    assert await postgres.table("transactions") == []
    owner.epochs = epochs
    owner.activate(await journal.load_cards([FIRST.id]))
    await journal.commit(owner.decide(spend(1)))


async def test_server_ends_a_blocked_commit_whose_caller_gave_up(postgres: PostgresBackend) -> None:
    """The renewal does not wait for the lock that blocked the commit."""
    journal = await postgres.open("a")
    owner = await with_card(journal)
    async with postgres.commits_held(FIRST.id):
        hasty = await opened_hastily(postgres)
        with pytest.raises(UnknownOutcomeError):
            await hasty.commit(owner.decide(spend(1)))
        owner.epochs = await retried(lambda: journal.renew(range(256)))
    assert await journal.find([spend(1).command_key]) == {}
    owner.activate(await journal.load_cards([FIRST.id]))
    await journal.commit(owner.decide(spend(1)))


async def test_service_resumes_when_a_read_only_server_accepts_writes(
    postgres: PostgresBackend,
) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    operator = await asyncpg.connect(postgres.url)
    await operator.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    try:
        await operator.execute("SELECT pg_reload_conf()")
        await until(lambda: _refuses_writes(postgres))
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: journal.commit(owner.decide(spend(1))),
            lambda: journal.renew(range(256)),
            lambda: journal.load_cards([FIRST.id]),
        )
        for call in calls:
            with pytest.raises(UnknownOutcomeError):
                await _until_raised(call)
    finally:
        await operator.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await operator.execute("SELECT pg_reload_conf()")
        await operator.close()
    owner.epochs = await retried(lambda: journal.renew(range(256)))
    assert await journal.find([spend(1).command_key]) == {}
    owner.activate(await journal.load_cards([FIRST.id]))
    await journal.commit(owner.decide(spend(1)))


async def _refuses_writes(postgres: PostgresBackend) -> bool:
    session = await asyncpg.connect(postgres.url)
    try:
        return bool(await session.fetchval("SHOW default_transaction_read_only") == "on")
    finally:
        await session.close()


async def _until_raised(call: Callable[[], Awaitable[object]]) -> None:
    """The answer to the first statement after the change reports the old state."""
    for _ in range(POOLED + 1):
        await call()


async def _gone(postgres: PostgresBackend, pid: int) -> bool:
    found = await postgres.session.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)
    return not found


async def _ended_since(tasks: Collection[asyncio.Task[Any]]) -> bool:
    """Whether all tasks that are not among ``tasks`` have ended, those of the proxy aside."""
    return all(
        "Proxy" in repr(task) for task in asyncio.all_tasks().difference(tasks, [asyncio.current_task()])
    )


async def test_calls_to_a_frozen_server_end_at_the_timeout(postgres: PostgresBackend) -> None:
    async with Proxy(postgres.url) as network:
        journal = PostgresJournal(network.address, "a", SOON)
        tasks = asyncio.all_tasks()
        network.drops_answers = True
        for call in every_call(journal):
            with pytest.raises(UnknownOutcomeError):
                await asyncio.wait_for(call(), 20 * SOON)
        await journal.close()
        await until(lambda: _ended_since(tasks))
        await until(lambda: _drained(network))


async def _drained(network: Proxy) -> bool:
    return network.connections == 0


async def test_absent_server_is_an_unknown_outcome(postgres: PostgresBackend) -> None:
    async with Proxy(postgres.url) as network:
        address = network.address
    journal = PostgresJournal(address, "a")
    for call in every_call(journal):
        with pytest.raises(UnknownOutcomeError):
            await call()


def every_call(journal: Journal) -> list[Callable[[], Awaitable[Any]]]:
    """All methods of the contract that use the server."""
    return [
        lambda: journal.register("a"),
        lambda: journal.take([1]),
        lambda: journal.renew([1]),
        lambda: journal.release([1]),
        lambda: journal.commit(Rows()),
        lambda: journal.load_cards([FIRST.id]),
        lambda: journal.load_accounts([FIRST.account_id or ""]),
        lambda: journal.load_programmes([FIRST.programme_id]),
        lambda: journal.find([key(1)]),
        lambda: journal.find_responses([key(1)]),
    ]


async def test_reset_ends_a_running_read(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    await with_card(journal)
    async with postgres.session.transaction():
        await postgres.session.execute("LOCK TABLE cards IN ACCESS EXCLUSIVE MODE")
        read = asyncio.create_task(journal.load_cards([FIRST.id]))
        await until(lambda: postgres.blocked("card_usage"))
        await journal.reset()
        with pytest.raises(UnknownOutcomeError):
            await read
    assert set((await journal.load_cards([FIRST.id])).cards) == {FIRST.id}
    await until(lambda: _sessions(postgres, 1))


async def _sessions(postgres: PostgresBackend, most: int) -> bool:
    """Whether hosts have at most ``most`` sessions on this database."""
    return int(await postgres.session.fetchval(f"SELECT count(*) FROM ({HOST_SESSIONS}) AS hosts")) <= most


async def test_concurrent_reads_share_the_pool(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    loaded = await asyncio.gather(*(journal.load_cards([FIRST.id]) for _ in range(50)))
    assert all(each.cards == owner.cards for each in loaded)
    assert await _sessions(postgres, POOLED + 1)


async def test_read_on_a_broken_schema_is_an_unknown_outcome(postgres: PostgresBackend) -> None:
    """Activation repeats reads until they are answered; a refusal would end it."""
    journal = await postgres.open("a")
    await postgres.session.execute("ALTER TABLE cards RENAME TO cards_away")
    with pytest.raises(UnknownOutcomeError):
        await journal.load_cards([FIRST.id])
    await postgres.session.execute("ALTER TABLE cards_away RENAME TO cards")
    assert (await journal.load_cards([FIRST.id])).cards == {}


CANARY = "Canary Grocers"


async def test_errors_hold_no_values(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    faulty = [
        owner.decide(spend(1, merchant_name=CANARY), spend(1, merchant_name=CANARY)),
        _with(owner, posted_minor=2**63 - 77_777),
        _with(owner, held_minor=-77_777),
        owner.decide(change_card(1, card_id=FIRST.id, state="lost", state_reason=CANARY + "\x00")),
    ]
    for rows in faulty:
        assert_no_values(await failure_of(journal.commit(rows)))
    owner.activate(await journal.load_cards([FIRST.id]))
    async with postgres.commits_held(FIRST.id):
        hasty = await opened_hastily(postgres)
        unknown = await failure_of(hasty.commit(owner.decide(spend(3, merchant_name=CANARY))))
        assert isinstance(unknown, UnknownOutcomeError)
        assert_no_values(unknown)
    assert_no_values(await failure_of(journal.register(CANARY + "\x00")))


def _with(owner: Owner, **balance: int) -> Rows:
    account = owner.accounts[FIRST.account_id or ""]
    for name, value in balance.items():
        setattr(account, name, value)
    rows = owner.decide(spend(9, kind="refund", amount_minor=77_777))
    assert rows.shards.keys() == {shard_of(FIRST.id)} == {SHARD}
    return rows


async def failure_of(call: Awaitable[None]) -> JournalError:
    with pytest.raises((RejectedError, UnknownOutcomeError)) as caught:
        await call
    return caught.value


def assert_no_values(failure: BaseException) -> None:
    told = repr(failure) + "".join(traceback.format_exception_only(failure))
    for value in (CANARY, "77777", "77_777", FIRST.id, "Corner Shop", "9223372036854"):
        assert value not in told
    assert failure.__suppress_context__


class BrokenDriver:
    """A connection whose code raises."""

    def is_closed(self) -> bool:
        return False

    async def fetch(self, *_arguments: object) -> None:
        raise RuntimeError("4111111111111111")


async def test_exception_of_the_driver_during_a_commit_is_an_unknown_outcome(
    postgres: PostgresBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    """The committer continues and looks the outcome up."""
    journal = await postgres.open("a")
    owner = await with_card(journal)
    broken: Any = BrokenDriver()
    journal._writer = broken
    with pytest.raises(UnknownOutcomeError) as raised:
        await journal.commit(owner.decide(spend(1)))
    assert "4111" not in str(raised.value) + capsys.readouterr().out
    journal._writer = None
    owner.epochs = await journal.renew(range(256))
    owner.activate(await journal.load_cards([FIRST.id]))
    await journal.commit(owner.decide(spend(1)))
