"""The router with hosts that answer, refuse, defer, die and freeze."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from actors.ids import new_id
from actors.log import TRACE
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from actors.router import SWEEP_SECONDS, Router
from actors.submission import Submission, decode_batch, encode_collected, encode_replies
from engine.commands import Authorize, ReadBalance
from engine.ids import shard_of
from engine.limits import (
    ROUTER_BACKLOG_MAX,
    ROUTER_BATCH_MAX,
    ROUTER_BATCHES_IN_FLIGHT,
    ROUTER_SHARE_MIN,
    SHARD_COUNT,
)
from engine.replies import Deferred, Done, IdempotencyClaim, NotExecuted, Reason, Reply
from tests.support.actors.shards.support import turns
from tests.support.engine.build import authorize

pytestmark = pytest.mark.virtual_time

Behaviour = Callable[[list[Submission]], Awaitable[list[Reply]]]


class FakePeers:
    """Hosts by incarnation, and a routing table that tests change."""

    def __init__(self) -> None:
        self.hosts: dict[str, Behaviour] = {}
        self.deferred: defaultdict[str, asyncio.Queue[tuple[int, Reply]]] = defaultdict(asyncio.Queue)
        """Deferred replies of each host: ticket and reply."""
        self.collect_calls = 0
        self.batches: list[tuple[str, int]] = []
        self.prepared: list[str] = []
        self._table = RoutingTable(1, ("a",) * SHARD_COUNT)
        self._changed = asyncio.Event()

    def own(self, *owners: str | None, reserves: tuple[str, ...] = ()) -> None:
        """Distribute the shards over ``owners`` in turn."""
        shared = tuple(owners[shard % len(owners)] for shard in range(SHARD_COUNT))
        self._table = RoutingTable(self._table.version + 1, shared, reserves)
        self._changed.set()
        self._changed = asyncio.Event()

    async def table(self, after: int) -> RoutingTable:
        while self._table.version <= after:
            await self._changed.wait()
        return self._table

    async def execute(self, incarnation: str, payload: bytes) -> bytes:
        batch = [each for each in decode_batch(payload)[1] if each is not None]
        self.batches.append((incarnation, len(batch)))
        if incarnation not in self.hosts:
            raise PeerGoneError(incarnation)
        return encode_replies(await self.hosts[incarnation](batch))

    async def prepare(self, incarnation: str) -> None:
        self.prepared.append(incarnation)

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        self.collect_calls += 1
        replies: list[tuple[int, Reply]] = [await self.deferred[incarnation].get()]
        return encode_collected(replies)

    async def publish_programme(self, programme: bytes) -> None:
        raise AssertionError("routers do not publish")

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        raise AssertionError("routers call hosts only")


def command(shard: int = 0) -> ReadBalance:
    card_id = new_id(shard)
    key = card_id.encode()[:16]
    return ReadBalance(id=new_id(shard), command_key=key, card_id=card_id, tenant_id=new_id(), live=False)


async def answering(batch: list[Submission]) -> list[Reply]:
    return [Done(200, {"card_id": each.command.card_id}) for each in batch]  # type: ignore[union-attr]


async def frozen(_batch: list[Submission]) -> list[Reply]:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.fixture
def peers() -> FakePeers:
    peers = FakePeers()
    peers.hosts["a"] = answering
    return peers


@pytest.fixture
async def router(peers: FakePeers) -> AsyncIterator[Router]:
    router = Router(peers)
    router.start()
    yield router
    await router.stop()
    await router.stop()


async def test_router_connects_to_reserves_once(peers: FakePeers, router: Router) -> None:
    for reserves in (("b",), ("b",), ("b", "c"), ()):
        peers.own("a", reserves=reserves)
        await router.submit(command())
    assert peers.prepared == ["b", "c"]


async def test_each_caller_gets_its_own_reply(router: Router) -> None:
    commands = [command(shard) for shard in range(100)]
    replies = await asyncio.gather(*(router.submit(each) for each in commands))
    assert [reply.body["card_id"] for reply in replies] == [each.card_id for each in commands]  # type: ignore[union-attr]
    assert router.open == 0


async def test_trace_is_the_callers_own_by_default(router: Router, peers: FakePeers) -> None:
    traces: list[str | None] = []

    async def recording(batch: list[Submission]) -> list[Reply]:
        traces.extend(each.trace for each in batch)
        return await answering(batch)

    peers.hosts["a"] = recording
    token = TRACE.set("request-1")
    await asyncio.gather(router.submit(command()), router.submit(command(), trace="rrn-1"))
    TRACE.reset(token)
    await router.submit(command())
    assert traces == ["request-1", "rrn-1", None]


async def test_commands_of_one_loop_turn_form_one_batch(router: Router, peers: FakePeers) -> None:
    await router.submit(command())
    await asyncio.gather(*(router.submit(command()) for _ in range(50)))
    assert peers.batches == [("a", 1), ("a", 50)]


async def test_next_batch_collects_while_calls_are_in_flight(router: Router, peers: FakePeers) -> None:
    gate = asyncio.Event()

    async def gated(batch: list[Submission]) -> list[Reply]:
        await gate.wait()
        return await answering(batch)

    await router.submit(command())
    peers.hosts["a"] = gated
    waiting = []
    for _ in range(5):
        waiting.append(router.submit(command()))
        for _ in range(5):
            await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*waiting)
    assert peers.batches == [("a", 1), ("a", 1), ("a", 1), ("a", 3)]


@pytest.mark.parametrize(
    ("waiting", "sizes"),
    [
        (2 * ROUTER_SHARE_MIN - 1, [2 * ROUTER_SHARE_MIN - 1]),
        (2 * ROUTER_SHARE_MIN, [ROUTER_SHARE_MIN, ROUTER_SHARE_MIN]),
        (101, [51, 50]),
        (3 * ROUTER_BATCH_MAX, [ROUTER_BATCH_MAX, ROUTER_BATCH_MAX]),
    ],
)
async def test_two_calls_divide_a_long_queue(
    router: Router, peers: FakePeers, waiting: int, sizes: list[int]
) -> None:
    """The callers of one batch come back together, and the host would be idle while it commits."""
    await router.submit(command())
    peers.hosts["a"] = frozen
    for _ in range(waiting):
        router.submit(command())
    await asyncio.sleep(0.01)
    assert peers.batches == [("a", 1), *(("a", size) for size in sizes)]


async def test_last_free_call_takes_the_whole_queue(router: Router, peers: FakePeers) -> None:
    await router.submit(command())
    peers.hosts["a"] = frozen
    router.submit(command())
    await asyncio.sleep(0.01)
    for _ in range(ROUTER_BATCH_MAX - 1):
        router.submit(command())
    await asyncio.sleep(0.01)
    assert peers.batches == [("a", 1), ("a", 1), ("a", ROUTER_BATCH_MAX - 1)]


async def test_burst_of_two_turns_is_one_batch(router: Router, peers: FakePeers) -> None:
    await router.submit(command())
    burst = [router.submit(command()) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.gather(*burst, router.submit(command()))
    assert peers.batches == [("a", 1), ("a", 3)]


async def test_calls_to_one_host_share_a_task(router: Router, peers: FakePeers) -> None:
    await router.submit(command())
    tasks = asyncio.all_tasks()
    await router.submit(command())
    assert (asyncio.all_tasks(), len(peers.batches)) == (tasks, 2)


async def test_tasks_of_a_host_end_when_it_owns_nothing(router: Router, peers: FakePeers) -> None:
    await router.submit(command())
    tasks = len(asyncio.all_tasks())
    peers.hosts["b"] = answering
    peers.own("b")
    await asyncio.sleep(0.01)
    await router.submit(command())
    assert (peers.batches, len(asyncio.all_tasks())) == ([("a", 1), ("b", 1)], tasks)


async def test_batch_size_is_limited(router: Router, peers: FakePeers) -> None:
    await asyncio.gather(*(router.submit(command()) for _ in range(3 * ROUTER_BATCH_MAX)))
    assert max(size for _, size in peers.batches) == ROUTER_BATCH_MAX


async def test_command_goes_to_the_owner_of_its_shard(router: Router, peers: FakePeers) -> None:
    seen: dict[str, set[int]] = {"a": set(), "b": set()}

    def of(name: str) -> Behaviour:
        async def execute(batch: list[Submission]) -> list[Reply]:
            seen[name] |= {shard_of(each.command.card_id) % 2 for each in batch}  # type: ignore[union-attr]
            return await answering(batch)

        return execute

    peers.hosts = {"a": of("a"), "b": of("b")}
    peers.own("a", "b")
    await asyncio.sleep(0.01)
    await asyncio.gather(*(router.submit(command(shard)) for shard in range(20)))
    assert seen == {"a": {0}, "b": {1}}


async def test_command_of_a_dead_host_is_sent_to_the_next_owner_under_the_same_key(
    router: Router, peers: FakePeers
) -> None:
    """With an idempotency key it is marked as a repeat: the dead host may have executed it."""
    keys: list[bytes] = []
    repeats: list[bool] = []

    async def dying(batch: list[Submission]) -> list[Reply]:
        keys.extend(each.command.command_key for each in batch)
        repeats.extend(each.repeat for each in batch)
        raise PeerGoneError("a")

    async def successor(batch: list[Submission]) -> list[Reply]:
        keys.extend(each.command.command_key for each in batch)
        repeats.extend(each.repeat for each in batch)
        return await answering(batch)

    peers.hosts = {"a": dying, "b": successor}
    sent = command()
    waiting = router.submit(sent, claim=IdempotencyClaim(b"k" * 32, b"f" * 32))
    await asyncio.sleep(0.01)
    peers.own("b")
    assert isinstance(await waiting, Done)
    assert keys[0] == keys[-1] == sent.command_key
    assert (repeats[0], repeats[-1]) == (False, True)


async def test_commands_of_a_frozen_host_are_sent_to_the_next_owner(router: Router, peers: FakePeers) -> None:
    peers.hosts = {"a": frozen, "b": answering}
    waiting = [router.submit(command()) for _ in range(3)]
    await asyncio.sleep(0.01)
    peers.own("b")
    assert all(isinstance(reply, Done) for reply in await asyncio.gather(*waiting))


async def test_late_reply_of_a_former_owner_is_ignored(router: Router, peers: FakePeers) -> None:
    thaw = asyncio.Event()

    async def refusing_late(batch: list[Submission]) -> list[Reply]:
        await thaw.wait()
        return [NotExecuted("deadline")] * len(batch)

    gate = asyncio.Event()

    async def slow_successor(batch: list[Submission]) -> list[Reply]:
        await gate.wait()
        return await answering(batch)

    peers.hosts = {"a": refusing_late, "b": slow_successor}
    waiting = router.submit(command())
    await asyncio.sleep(0.01)
    peers.own("b")
    await asyncio.sleep(0.01)
    thaw.set()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    gate.set()
    assert isinstance(await waiting, Done)


async def test_not_owner_waits_for_the_next_table(router: Router, peers: FakePeers) -> None:
    async def refusing(batch: list[Submission]) -> list[Reply]:
        return [NotExecuted("not_owner")] * len(batch)

    peers.hosts = {"a": refusing, "b": answering}
    waiting = router.submit(command())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    peers.own("b")
    assert isinstance(await waiting, Done)


@pytest.mark.parametrize(("owner", "reason"), [(None, "deadline"), ("a", "unavailable")])
async def test_command_gets_a_reply_at_its_deadline(
    router: Router, peers: FakePeers, owner: str | None, reason: str
) -> None:
    """A command that was never sent was not executed; the outcome of a sent one is unknown."""
    peers.hosts["a"] = frozen
    peers.own(owner)
    await asyncio.sleep(0.01)
    assert await router.submit(command(), timeout_ms=50) == NotExecuted(reason)  # type: ignore[arg-type]
    assert router.open == 0


async def test_patience_lets_the_caller_wait_beyond_the_timeout_of_the_host(
    router: Router, peers: FakePeers
) -> None:
    remaining: list[int] = []

    async def slow(batch: list[Submission]) -> list[Reply]:
        remaining.extend(each.remaining_ms for each in batch)
        await asyncio.sleep(0.15)
        return await answering(batch)

    peers.hosts["a"] = slow
    reply = await router.submit(command(), timeout_ms=50, reply_timeout_ms=5_000)
    assert isinstance(reply, Done)
    assert 0 < remaining[0] <= 50


async def test_failed_call_leaves_the_outcome_unknown(router: Router, peers: FakePeers) -> None:
    async def failing(_batch: list[Submission]) -> list[Reply]:
        raise PeerFailedError("a: KeyError")

    peers.hosts["a"] = failing
    assert await router.submit(command()) == NotExecuted("unavailable")


async def test_full_router_refuses_commands(router: Router, peers: FakePeers) -> None:
    peers.hosts["a"] = frozen
    sent = msgspec.structs.replace(command())
    for _ in range(ROUTER_BACKLOG_MAX):
        router.submit(sent)
    assert await router.submit(command()) == NotExecuted("overloaded")


def authorization(shard: int) -> Authorize:
    card_id = new_id(shard)
    return authorize(id=new_id(shard), card_id=card_id, command_key=card_id.encode()[:16])


async def test_only_authorizations_for_a_congested_host_are_refused(
    router: Router, peers: FakePeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.host_queue.ROUTER_WAIT_SECONDS_MAX", 0.05)
    gate = asyncio.Event()

    async def gated(batch: list[Submission]) -> list[Reply]:
        await gate.wait()
        return await answering(batch)

    peers.hosts["b"] = answering
    peers.own("a", "b")
    while ("b", 1) not in peers.batches:
        await router.submit(command(1))
    peers.hosts["a"] = gated
    waiting = [router.submit(authorization(0))]
    while not waiting[-1].done():
        # Two calls are in flight; later commands wait.
        await asyncio.sleep(0.01)
        waiting.append(router.submit(authorization(0)))
    assert waiting[-1].result() == NotExecuted("overloaded")
    assert len(waiting) > ROUTER_BATCHES_IN_FLIGHT + 1
    other = router.submit(command(0))
    assert isinstance(await router.submit(authorization(1)), Done)
    assert not router.congested()
    gate.set()
    assert isinstance(await other, Done)
    assert isinstance(await waiting[-2], Done)
    assert isinstance(await router.submit(authorization(0)), Done)


async def test_expected_wait_includes_the_duration_of_the_last_call(
    router: Router, peers: FakePeers, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def slow(batch: list[Submission]) -> list[Reply]:
        await asyncio.sleep(0.1)
        return await answering(batch)

    peers.hosts["a"] = slow
    assert isinstance(await router.submit(authorization(0)), Done)
    # The age of the oldest waiting command alone stays below this.
    monkeypatch.setattr("actors.host_queue.ROUTER_WAIT_SECONDS_MAX", 0.09)
    peers.hosts["a"] = frozen
    for _ in range(ROUTER_BATCHES_IN_FLIGHT):
        assert not router.congested()
        router.submit(authorization(0))
        await asyncio.sleep(0.01)
    router.submit(command(0))
    assert router.congested()
    assert await router.submit(authorization(0)) == NotExecuted("overloaded")


async def test_stop_answers_every_open_command(peers: FakePeers) -> None:
    router = Router(peers)
    router.start()
    peers.hosts["a"] = frozen
    waiting = [router.submit(command()) for _ in range(3)]
    await asyncio.sleep(0.01)
    await router.stop()
    assert await asyncio.gather(*waiting) == [NotExecuted("unavailable")] * 3


# --- deferred replies --------------------------------------------------------------------------------------


async def deferring(batch: list[Submission]) -> list[Reply]:
    return [Deferred() for _ in batch]


async def test_deferred_replies_are_matched_by_ticket(router: Router, peers: FakePeers) -> None:
    tickets: list[int] = []

    async def defer(batch: list[Submission]) -> list[Reply]:
        tickets.extend(each.ticket for each in batch)
        return [Deferred() for _ in batch]

    peers.hosts["a"] = defer
    first, second = router.submit(command()), router.submit(command())
    await turns(lambda: router.deferred == 2)
    for ticket, status in zip(reversed(tickets), (202, 201), strict=True):
        peers.deferred["a"].put_nowait((ticket, Done(status, {})))
    assert (await first, await second) == (Done(201, {}), Done(202, {}))
    assert (router.open, router.deferred) == (0, 0)


async def test_reply_that_is_collected_before_its_call_returns_is_kept(
    router: Router, peers: FakePeers
) -> None:
    """The host defers and answers the second command while the router collects for the first one."""
    gate, tickets = asyncio.Event(), []

    async def defer(batch: list[Submission]) -> list[Reply]:
        tickets.append(batch[0].ticket)
        if len(tickets) == 2:
            await gate.wait()
        return [Deferred()]

    peers.hosts["a"] = defer
    first = router.submit(command())
    await turns(lambda: peers.collect_calls)
    second = router.submit(command())
    await turns(lambda: len(tickets) == 2)
    peers.deferred["a"].put_nowait((tickets[1], Done(202, {})))
    for _ in range(10):
        await asyncio.sleep(0)
    gate.set()
    assert await second == Done(202, {})
    peers.deferred["a"].put_nowait((tickets[0], Done(201, {})))
    assert await first == Done(201, {})


async def test_deferred_command_of_a_former_owner_is_sent_to_the_next_owner(
    router: Router, peers: FakePeers
) -> None:
    peers.hosts["a"] = deferring
    peers.hosts["b"] = answering
    sent = command()
    waiting = router.submit(sent)
    await turns(lambda: peers.batches)
    await asyncio.sleep(0.01)
    peers.own("b")
    assert await waiting == Done(200, {"card_id": sent.card_id})


async def test_deferred_reply_not_owner_sends_the_command_again(router: Router, peers: FakePeers) -> None:
    tickets: list[int] = []

    async def once(batch: list[Submission]) -> list[Reply]:
        if tickets:
            return await answering(batch)
        tickets.append(batch[0].ticket)
        return [Deferred()]

    peers.hosts["a"] = once
    sent = command()
    waiting = router.submit(sent)
    await turns(lambda: tickets)
    peers.deferred["a"].put_nowait((tickets[0], NotExecuted("not_owner")))
    assert await waiting == Done(200, {"card_id": sent.card_id})


async def test_missing_deferred_reply_leaves_the_outcome_unknown_at_the_deadline(
    router: Router, peers: FakePeers
) -> None:
    peers.hosts["a"] = deferring
    assert await router.submit(command(), timeout_ms=50) == NotExecuted("unavailable")


async def test_command_of_a_cancelled_caller_does_not_stay_open(router: Router, peers: FakePeers) -> None:
    peers.hosts["a"] = frozen
    waiting = router.submit(command())
    await turns(lambda: peers.batches)
    waiting.cancel()
    await asyncio.sleep(2 * SWEEP_SECONDS)
    assert router.open == 0


# --- unknown outcomes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["deadline", "overloaded", "faulty", "key_reused"])
async def test_refusal_by_new_owner_leaves_outcome_of_lost_owner_unknown(
    router: Router, peers: FakePeers, reason: Reason
) -> None:
    """The lost owner may have committed before it died; its successor refuses without reading the journal."""

    async def refusing(batch: list[Submission]) -> list[Reply]:
        return [NotExecuted(reason)] * len(batch)

    peers.hosts = {"a": frozen, "b": refusing}
    waiting = router.submit(command())
    await turns(lambda: peers.batches)
    peers.own("b")
    assert await waiting == NotExecuted("unavailable")
    peers.own("b")
    assert await router.submit(command()) == NotExecuted(reason), "only the new owner was sent this command"


async def test_not_owner_after_a_lost_owner_leaves_the_outcome_unknown(
    router: Router, peers: FakePeers
) -> None:
    async def refusing(batch: list[Submission]) -> list[Reply]:
        return [NotExecuted("not_owner")] * len(batch)

    peers.hosts = {"a": frozen, "b": refusing}
    waiting = router.submit(command(), timeout_ms=300)
    await turns(lambda: peers.batches)
    peers.own("b")
    await turns(lambda: len(peers.batches) > 1)
    peers.own(None)
    assert await waiting == NotExecuted("unavailable")


async def test_deferred_command_of_a_lost_owner_has_an_unknown_outcome(
    router: Router, peers: FakePeers
) -> None:
    async def refusing(batch: list[Submission]) -> list[Reply]:
        return [NotExecuted("deadline")] * len(batch)

    peers.hosts = {"a": deferring, "b": refusing}
    waiting = router.submit(command())
    await turns(lambda: router.deferred)
    peers.own("b")
    assert await waiting == NotExecuted("unavailable")


async def test_refusal_of_a_command_that_was_never_sent_to_the_lost_owner_is_final(
    router: Router, peers: FakePeers
) -> None:
    """The command was still waiting in the router when its first owner was lost."""

    async def refusing(batch: list[Submission]) -> list[Reply]:
        return [NotExecuted("deadline")] * len(batch)

    peers.hosts = {"a": frozen, "b": refusing}
    in_flight = []
    for _ in range(ROUTER_BATCHES_IN_FLIGHT):
        in_flight.append(router.submit(command()))
        await turns(lambda: len(peers.batches) == len(in_flight))
    waiting = router.submit(command())
    peers.own("b")
    assert await waiting == NotExecuted("deadline")
    assert await asyncio.gather(*in_flight) == [NotExecuted("unavailable")] * len(in_flight)


async def test_undecodable_reply_leaves_its_outcome_unknown(router: Router, peers: FakePeers) -> None:
    execute = peers.execute

    async def newer_release(incarnation: str, payload: bytes) -> bytes:
        replies = msgspec.msgpack.decode(await execute(incarnation, payload))
        return msgspec.msgpack.encode([{"reply": "teleported"}, *replies[1:]])

    peers.execute = newer_release  # type: ignore[method-assign]
    first, second = await asyncio.gather(router.submit(command()), router.submit(command()))
    assert first == NotExecuted("unavailable")
    assert isinstance(second, Done)


class FirstRelease:
    """A host that decodes with the types of release 0.1.0: an unknown value makes its batch fail."""

    def __init__(self, peers: FakePeers) -> None:
        self._execute = peers.execute
        peers.execute = self.execute  # type: ignore[method-assign]
        self.unknown_mcc = ""
        """Plays a value that has no earlier form."""

    async def execute(self, incarnation: str, payload: bytes) -> bytes:
        for each in decode_batch(payload)[1]:
            assert each is not None
            if isinstance(each.command, Authorize) and (
                each.command.cvv2 == "missing" or each.command.mcc == self.unknown_mcc
            ):
                raise PeerFailedError(f"{incarnation}: ValidationError")
        return await self._execute(incarnation, payload)


async def test_host_of_the_first_release_gets_commands_in_its_form(router: Router, peers: FakePeers) -> None:
    FirstRelease(peers)
    many = [authorize(number, cvv2="missing") for number in range(1, 3 * ROUTER_BATCH_MAX)]
    replies = await asyncio.gather(*map(router.submit, many))
    assert all(isinstance(reply, Done) for reply in replies)
    later = len(peers.batches)
    assert isinstance(await router.submit(authorize(9_999, cvv2="missing")), Done)
    assert peers.batches[later:] == [("a", 1)], "the next command has that form at once"


async def test_only_the_command_that_an_earlier_release_does_not_know_has_no_outcome(
    router: Router, peers: FakePeers
) -> None:
    FirstRelease(peers).unknown_mcc = "9999"
    known = [authorize(number, cvv2="missing") for number in range(1, 10)]
    replies = await asyncio.gather(*map(router.submit, [*known, authorize(10, mcc="9999")]))
    assert all(isinstance(reply, Done) for reply in replies[:-1])
    assert replies[-1] == NotExecuted("unavailable")
