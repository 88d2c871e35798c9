"""Stopping, starting again, and ends that nobody wished for: the data stay, no process does."""

from __future__ import annotations

import os
import signal

from tests.api.driver import Caller
from tests.conformance.peer import decode
from tests.integration.acquirer import Acquirer, authorization_id, purchase
from tests.integration.load import assert_nothing_lost, load
from tests.integration.stack import Stack, until


async def test_stop_and_start_keep_everything(stack: Stack) -> None:
    async with stack.caller() as demo:
        card = await demo.funded_card("100.00")
        expired = await demo.funded_card("100.00")
        plastics = await stack.plastics(card, expired)
        request = purchase(plastics[card["id"]], "42.50")
        async with Acquirer(stack.record["iso8583"]) as acquirer:
            first = await acquirer.exchange(request)
        kept = [
            await demo.get(path)
            for path in (
                f"/v1/cards/{card['id']}",
                f"/v1/transactions/{authorization_id(decode(first))}",
                "/v1/events?limit=100",
            )
        ]
    before, processes = stack.record, stack.descendants()
    assert len(processes) > 10

    stack.installation.stop(ctrl_c=True)

    assert not stack.alive(processes)
    assert not (stack.installation.var_dir / "run.json").exists()
    await stack.assert_books()
    # Time does not pass for a test: the card is made older while nobody has it in memory.
    await stack.fetch("UPDATE cards SET exp_year = 2020 WHERE id = $1", expired["id"])
    # As if it had been issued so: the books are lived through again, from the issue on.
    await stack.fetch("ALTER TABLE journal DISABLE TRIGGER journal_append_only")
    await stack.fetch(
        """UPDATE journal SET command = regexp_replace(command, '"exp_year":[0-9]+', '"exp_year":2020'),
               reply = regexp_replace(reply, '"exp_year":[0-9]+', '"exp_year":2020')
           WHERE actor_id = $1 AND seq = 1""",
        expired["id"],
    )
    await stack.fetch("ALTER TABLE journal ENABLE TRIGGER journal_append_only")
    stack.start()

    assert stack.record["tenants"] == before["tenants"]
    async with stack.caller() as demo:
        assert [
            await demo.get(path)
            for path in (
                f"/v1/cards/{card['id']}",
                f"/v1/transactions/{authorization_id(decode(first))}",
                "/v1/events?limit=100",
            )
        ] == kept
        balance = await demo.get(f"/v1/cards/{card['id']}/balance")
        assert (balance["posted"], balance["held"], balance["available"]) == ("100.00", "42.50", "57.50")
        stack.tokens.clear()
        async with stack.caller() as fresh:  # the client's secret still gets a token
            assert (await fresh.spend(card, "7.50"))["decision"] == "approved"
    async with Acquirer(stack.record["iso8583"]) as acquirer:
        assert await acquirer.exchange(request | {"t": "0101"}) == first
        late = await acquirer.ask(purchase(plastics[expired["id"]]))
        assert late["39"] == "54"


async def test_a_supervisor_that_is_killed_leaves_no_process_and_no_loss(stack: Stack) -> None:
    async with stack.caller() as demo, Acquirer(stack.record["iso8583"]) as acquirer:
        async with load(stack, demo, acquirer) as running:
            await until(running.all_approved_again(), "every card is answered")
        # Ray's own two agents give up their cluster only after a minute, whatever they are told.
        processes = {
            pid: command for pid, command in stack.descendants().items() if "agent" not in command.lower()
        }
        stack.installation.kill()
        await until(lambda: not stack.alive(processes), "everything has ended")
    stack.start()
    async with Acquirer(stack.record["iso8583"]) as running.acquirer:
        await assert_nothing_lost(stack, running)


async def test_kill_9_of_postgresql_under_load(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    async with load(stack, demo, acquirer) as running:
        await until(running.all_approved_again(), "every card is answered")
        for pid, command in stack.descendants().items():
            if "/postgres " in command or command.startswith("postgres: "):
                os.kill(pid, signal.SIGKILL)
        await until(running.all_approved_again(), "every card is answered after PostgreSQL came back")
    await assert_nothing_lost(stack, running)
