"""Stop, start, and kill the whole installation: the data stay, and no process remains."""

from __future__ import annotations

import os
import signal

from tests.support.api.driver import Caller
from tests.support.conformance.peer import decode
from tests.support.integration.acquirer import Acquirer, authorization_id, purchase
from tests.support.integration.load import assert_no_loss, load
from tests.support.integration.stack import Stack, until


async def test_restart_keeps_data_tokens_and_answers(stack: Stack) -> None:
    async with stack.caller() as demo:
        card = await demo.funded_card("100.00")
        expired = await demo.funded_card("100.00")
        plastics = await stack.card_data(card, expired)
        request = purchase(plastics[card["id"]], "42.50")
        async with Acquirer(stack.record["iso8583"]) as acquirer:
            first = await acquirer.exchange_bytes(request)
        shown_before = [
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
    # Change the card's expiry date while no owner has it in memory. Change the issue in the journal too,
    # because the audit replays the card's life from its issue.
    await stack.execute(
        ("UPDATE cards SET exp_year = 2020 WHERE id = $1", expired["id"]),
        ("ALTER TABLE journal_rows DISABLE TRIGGER journal_append_only",),
        (
            """UPDATE journal_rows SET
                   command = regexp_replace(command, '"exp_year":[0-9]+', '"exp_year":2020'),
                   reply = regexp_replace(reply, '"exp_year":[0-9]+', '"exp_year":2020')
               WHERE actor_id = $1 AND seq = 1""",
            expired["id"],
        ),
        ("ALTER TABLE journal_rows ENABLE TRIGGER journal_append_only",),
    )
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
        ] == shown_before
        balance = await demo.get(f"/v1/cards/{card['id']}/balance")
        assert (balance["posted"], balance["held"], balance["available"]) == ("100.00", "42.50", "57.50")
        stack.tokens.clear()
        async with stack.caller() as fresh:  # the client's secret still gets a token
            assert (await fresh.spend(card, "7.50"))["decision"] == "approved"
    async with Acquirer(stack.record["iso8583"]) as acquirer:
        assert await acquirer.exchange_bytes(request | {"t": "0101"}) == first
        late = await acquirer.exchange(purchase(plastics[expired["id"]]))
        assert late["39"] == "54"


async def test_killed_supervisor_leaves_no_process_and_loses_no_decision(stack: Stack) -> None:
    async with stack.caller() as demo, Acquirer(stack.record["iso8583"]) as acquirer:
        async with load(stack, demo, acquirer) as running:
            await until(running.new_approval_on_every_card(), "every card is answered")
        # Ray's two agents end only a minute after their cluster.
        processes = {
            pid: command for pid, command in stack.descendants().items() if "agent" not in command.lower()
        }
        stack.installation.kill()
        await until(lambda: not stack.alive(processes), "all processes have ended")
    stack.start()
    async with Acquirer(stack.record["iso8583"]) as running.acquirer:
        await assert_no_loss(stack, running)


async def test_killed_postgresql_loses_no_decision(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    async with load(stack, demo, acquirer) as running:
        await until(running.new_approval_on_every_card(), "every card is answered")
        for pid, command in stack.descendants().items():
            if "/postgres " in command or command.startswith("postgres: "):
                os.kill(pid, signal.SIGKILL)
        await until(running.new_approval_on_every_card(), "every card is answered after PostgreSQL came back")
    await assert_no_loss(stack, running)
