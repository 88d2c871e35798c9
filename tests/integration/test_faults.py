"""Kill or freeze processes under load: no acknowledged decision is lost or doubled, and service returns."""

from __future__ import annotations

import asyncio
import os
import signal

import httpx2
import pytest

from ops.chaos.environment.processes import descendants_named, leading_coordinator
from tests.support.api.driver import Caller
from tests.support.integration.acquirer import Acquirer, purchase
from tests.support.integration.load import assert_no_loss, load
from tests.support.integration.stack import SECONDS_MAX, Stack, until
from tests.support.ops.waiting import gone

LASTING = ("postgres", "valkey", "stanchion: fork server")
"""Children of the supervisor that outlive a lost Ray."""


async def test_killed_shard_hosts_lose_no_decision(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    async with load(stack, demo, acquirer) as running:
        for _ in range(2):
            await until(running.new_approval_on_every_card(), "every card is answered")
            name, pid = await stack.any_host()
            os.kill(pid, signal.SIGKILL)
            await until(
                running.new_approval_on_every_card(), "every card is answered after the death of a host"
            )
            await until(stack.healthy, "a fresh host has taken its share")
            assert name not in stack.hosts()
    await assert_no_loss(stack, running)


async def test_woken_host_cannot_commit(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    async with load(stack, demo, acquirer) as running:
        await until(running.new_approval_on_every_card(), "every card is answered")
        _name, pid = await stack.any_host()
        os.kill(pid, signal.SIGSTOP)
        await until(running.new_approval_on_every_card(), "every card is answered while a host is frozen")
        if not gone(pid):
            os.kill(pid, signal.SIGCONT)
        await until(lambda: gone(pid), "the old owner has ended")
        await until(running.new_approval_on_every_card(), "every card is answered after it woke up")
        await until(stack.healthy, "a fresh host has taken its share")
    await assert_no_loss(stack, running)


async def test_coordinator_killed_with_a_host_interrupts_no_other_card(
    stack: Stack, demo: Caller, acquirer: Acquirer
) -> None:
    """One coordinator leads again, and gives the shards of the host to the other one. Whichever asks for the
    lock first leads: the other coordinator, or the new process of the killed one."""
    async with load(stack, demo, acquirer) as running:
        await until(running.new_approval_on_every_card(), "every card is answered")
        leader = await asyncio.to_thread(leading_coordinator, stack.record["metrics_url"])
        pid = await stack.pid(leader)
        _name, host = await stack.any_host()
        for each in (pid, host):
            os.kill(each, signal.SIGKILL)
        await until(running.new_approval_on_every_card(), "the cards of the dead host are answered")
        await until(lambda: stack.processes().get(leader, pid) != pid, "there is a new coordinator")
        await until(stack.healthy, "a fresh host has taken its share")
        leader = await asyncio.to_thread(leading_coordinator, stack.record["metrics_url"])
        assert await stack.pid(leader) != pid
    await assert_no_loss(stack, running)


async def test_killed_edge_is_replaced_and_answers_repeats(stack: Stack, demo: Caller) -> None:
    card = await demo.funded_card("100.00")
    request = purchase((await stack.card_data(card))[card["id"]], "10.00")
    async with Acquirer(stack.record["iso8583"]) as acquirer:
        first = await acquirer.exchange_bytes(request)
        pid = await stack.pid("edge")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: stack.processes().get("edge", pid) != pid, "there is a new edge")
        with pytest.raises(ConnectionError):
            await acquirer.exchange_bytes(request)
    async with Acquirer(stack.record["iso8583"]) as acquirer:
        assert await acquirer.exchange_bytes(request | {"t": "0101"}) == first
    assert (await demo.spend(card, "5.00"))["decision"] == "approved"
    assert (await demo.get(f"/v1/cards/{card['id']}/balance"))["held"] == "15.00"


async def test_killed_simulated_network_is_replaced(stack: Stack, demo: Caller) -> None:
    card = await demo.funded_card("100.00")
    pid = await stack.pid("network")
    os.kill(pid, signal.SIGKILL)
    await until(lambda: stack.processes().get("network", pid) != pid, "there is a new simulated network")
    spends = [await demo.spend(card, "1.00") for _ in range(3)]
    assert [spend["decision"] for spend in spends] == ["approved"] * 3
    traces = [row["stan"] for row in await stack.fetch("SELECT stan FROM simulations WHERE stan IS NOT NULL")]
    assert len(set(traces)) == len(traces)


async def test_killed_api_server_is_replaced(stack: Stack, demo: Caller) -> None:
    card = await demo.funded_card("100.00")
    pid = await stack.pid("api-0")
    os.kill(pid, signal.SIGKILL)
    await until(lambda: stack.processes().get("api-0", pid) != pid, "there is a new API server")
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            try:
                balance = await demo.get(f"/v1/cards/{card['id']}/balance")
                break
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
    assert balance["available"] == "100.00"
    assert (await demo.spend(card, "5.00"))["decision"] == "approved"


@pytest.mark.parametrize("role", ["edge", "network", "relay"])
async def test_frozen_process_is_replaced(stack: Stack, demo: Caller, role: str) -> None:
    card = await demo.funded_card("100.00")
    pid = await stack.pid(role)
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: gone(pid), f"the frozen {role} has ended")
    await until(lambda: stack.processes().get(role, pid) != pid, f"there is a new {role}")
    await until(stack.healthy, "every part is ready")
    assert (await demo.spend(card, "5.00"))["decision"] == "approved"


@pytest.mark.parametrize("server", ["raylet", "gcs_server"])
async def test_supervisor_restarts_all_processes_after_ray_dies(
    stack: Stack, demo: Caller, server: str
) -> None:
    supervisor, before = stack.installation.pid, stack.descendants()
    card = await demo.funded_card("100.00")
    first = await demo.spend(card, "5.00")
    (pid,) = descendants_named(server, supervisor or 0)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: stack.page("/readyz")[0] == 503, "/readyz reports the death")
    await until(stack.healthy, "every part is ready")
    assert stack.installation.pid == supervisor
    assert (await demo.spend(card, "5.00"))["decision"] == first["decision"] == "approved"
    assert (await demo.get(f"/v1/cards/{card['id']}/balance"))["held"] == "10.00"
    # The database, the stream and the fork server are not processes of Ray.
    lasting = {pid for pid, command in before.items() if any(name in command for name in LASTING)}
    old = before.keys() - lasting - {supervisor}
    await until(lambda: all(gone(pid) for pid in old), "all earlier processes have ended")
