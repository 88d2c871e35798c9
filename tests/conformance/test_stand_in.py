"""Delegated decisions and stand-in on the whole path: wire, decision requests over HTTPS, journal, balance,
activity report, events. Covers cases 34 to 38 of the table in ``ops/docs/WIRE.md``, and G6."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest
import pytest_asyncio
from stripe import WebhookSignature

from actors.settings import Settings
from actors.shards.endpoint import AnswerCounts
from engine.iso8583.profiles import SHIPPED
from ops.embedded.local_https import with_local_egress
from tests.conftest import PostgresServer
from tests.support.api.delegation import declare, money, policy, put_policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.conformance.audited import audited, own_settings
from tests.support.conformance.decision_endpoint import (
    Behaviour,
    DecisionEndpoint,
    answer,
    approve,
    approve_up_to,
    decision,
    decision_endpoint,
    decline,
    hang_up,
    late,
    other_status,
    oversize,
    refusing,
    silent,
    wrong_id,
)
from tests.support.conformance.dialects import DIALECTS
from tests.support.conformance.edges import edges_of
from tests.support.conformance.peer import Network
from tests.support.conformance.programme import AMPLE_MS, FUNDS, PATIENCE_SECONDS, Programme, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
_tenants = count(1)


@pytest.fixture(scope="module")
def module_settings(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with own_settings(postgres_server, tmp_path_factory, "stand_in") as settings:
        yield with_local_egress(settings)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(module_settings: Settings) -> AsyncIterator[Installation]:
    async with audited(module_settings) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def endpoint(module_settings: Settings) -> AsyncIterator[DecisionEndpoint]:
    async with decision_endpoint(module_settings.var_dir) as serving:
        yield serving


@pytest_asyncio.fixture(loop_scope="module")
async def acme(running: Installation) -> Caller:
    return await running.caller(f"tenant-{next(_tenants)}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def addresses(running: Installation) -> AsyncIterator[dict[str, tuple[str, int]]]:
    """The address of an edge for each shipped profile."""
    async with edges_of(running) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def network(
    addresses: dict[str, tuple[str, int]], request: pytest.FixtureRequest
) -> AsyncIterator[Network]:
    """A connection in the dialect of the default profile, or of the one that the test is run on."""
    name = getattr(request, "param", "iso87-ascii")
    async with await Network.connect(addresses[name], DIALECTS[name]) as platform:
        yield platform


@pytest.fixture
def programme(running: Installation, acme: Caller, network: Network) -> Programme:
    return Programme(running, acme, network)


def counts(installation: Installation) -> AnswerCounts:
    return installation.peers.host.endpoint.counts


# --- decision requests and their answers ------------------------------------------------------------------


async def test_decision_request_is_sent_once_and_signed(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy())
    assert await acquirer.authorize("12.50", "asked", t05="MIT", t07="1") == "00"
    transaction = await acquirer.transaction("asked")
    [request], [question] = endpoint.requests, endpoint.questions
    assert question == {
        "authorization_id": transaction["authorization_id"],
        "operation": "authorization",
        "card_id": acquirer.card["id"],
        "amount": "12.50",
        "currency": "EUR",
        "partial_allowed": True,
        "mcc": "5411",
        "merchant": {"name": "Corner shop", "country": "IE"},
        "channel": "pos",
        "entry_mode": "chip",
        "mit": True,
        "deadline_at": question["deadline_at"],
    }
    assert (request.method, request.path) == ("POST", "/decide")
    # Stripe's verifier accepts this header format.
    header, secret = request.headers["x-platform-signature"], programme.decision_secret
    assert WebhookSignature.verify_header(request.body.decode(), header, secret, tolerance=30)
    assert transaction["decided_by"] == "programme"
    assert transaction["trace"][-1] == {
        "rule": "programme_decision",
        "outcome": "pass",
        "observed": "approved",
        "limit": "approved",
    }
    assert await programme.report() == []


async def test_platform_decline_sends_no_decision_request(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy())
    controls = [{"kind": "mcc_deny", "values": ["7995"]}]
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"controls": controls})
    assert await acquirer.authorize("1.00", de18="7995") == "57"
    assert await acquirer.authorize("10000.01") == "51"
    assert await acquirer.authorize("0.00") == "85"
    assert endpoint.requests == []


@pytest.mark.parametrize(
    ("behave", "partial", "expected"),
    [
        (approve, None, ("00", "40.00", None)),
        (approve_up_to("40.00"), None, ("00", "40.00", None)),
        (approve_up_to(money("40.00")), None, ("00", "40.00", None)),
        (decline, None, ("05", "0.00", "programme_declined")),
        (approve_up_to("25.00"), "1", ("10", "25.00", None)),
        (approve_up_to("25.00"), None, ("05", "0.00", "programme_declined")),
    ],
)
async def test_usable_answer_decides(
    programme: Programme,
    endpoint: DecisionEndpoint,
    behave: Behaviour,
    partial: str | None,
    expected: tuple[str, str, str | None],
) -> None:
    acquirer = await programme.issue(endpoint.url, policy())
    endpoint.behave = behave
    code = await acquirer.authorize("40.00", "usable", t07=partial)
    transaction = await acquirer.transaction("usable")
    assert (code, transaction["held_amount"], transaction["decline_reason"]) == expected
    assert transaction["decided_by"] == "programme"
    assert await programme.report() == []
    assert await programme.outages() == []


@pytest.mark.parametrize(
    ("behave", "trigger"),
    [
        (silent, "timeout"),
        (late(0.8), "timeout"),
        (hang_up, "connection_error"),
        (answer(200, b"yes"), "invalid_response"),
        (answer(200, b'{"decision": "approved"}'), "invalid_response"),
        (answer(200, b"\xff"), "invalid_response"),
        (answer(200, b"[" * 50_000), "invalid_response"),
        (answer(204), "invalid_response"),
        (answer(500, b"{}"), "invalid_response"),
        (other_status, "invalid_response"),
        (wrong_id, "invalid_response"),
        (oversize, "invalid_response"),
        (approve_up_to("40.01"), "invalid_response"),
        (approve_up_to("0.00"), "invalid_response"),
        (approve_up_to("4e1"), "invalid_response"),
        (approve_up_to(40), "invalid_response"),
        (approve_up_to(money("40.00", "USD")), "invalid_response"),
    ],
)
async def test_unusable_answer_causes_stand_in(
    programme: Programme, endpoint: DecisionEndpoint, behave: Behaviour, trigger: str
) -> None:
    timeout_ms = 500 if trigger == "timeout" else AMPLE_MS
    acquirer = await programme.issue(endpoint.url, policy(), timeout_ms=timeout_ms)
    endpoint.behave = behave
    assert await acquirer.authorize("40.00", "unusable") == "00"
    [entry] = await programme.report()
    assert (entry["trigger"], entry["rule"], entry["exposure_minor"]) == (trigger, "within_ceilings", "4000")
    assert len(endpoint.requests) == 1
    assert (await acquirer.transaction("unusable"))["decided_by"] == "stand_in"
    assert await programme.finished() == 0


async def test_redirect_is_not_followed(
    programme: Programme, endpoint: DecisionEndpoint, module_settings: Settings
) -> None:
    acquirer = await programme.issue(endpoint.url, policy())
    async with decision_endpoint(module_settings.var_dir) as target:
        for status in (301, 302, 307, 308):
            endpoint.behave = answer(status, Location=target.url)
            assert await acquirer.authorize("1.00") == "00"
        assert target.requests == []
    assert [entry["trigger"] for entry in await programme.report()] == ["invalid_response"] * 4


async def test_missing_connection_causes_stand_in(programme: Programme, module_settings: Settings) -> None:
    var_dir = module_settings.var_dir
    async with refusing(var_dir) as unreachable, decision_endpoint(var_dir, "other.example") as misnamed:
        acquirer = await programme.issue(unreachable, policy())
        assert await acquirer.authorize("1.00") == "00"
        # A certificate for another name prevents the connection, so no request is sent.
        await acquirer.caller.patch(f"/v1/programs/{programme.id}", {"decision_url": misnamed.url})
        assert await acquirer.authorize("1.00") == "00"
        assert misnamed.requests == []
    assert [entry["trigger"] for entry in await programme.report()] == ["connection_error"] * 2


async def test_disabled_trigger_declines(programme: Programme, endpoint: DecisionEndpoint) -> None:
    acquirer = await programme.issue(endpoint.url, policy())
    for behave, trigger in (
        (hang_up, "connection_error"),
        (answer(500), "invalid_response"),
        (silent, "timeout"),
    ):
        endpoint.behave = behave
        await programme.set_timeout(200 if behave is silent else AMPLE_MS)
        await put_policy(acquirer.caller, programme.id, policy(triggers={trigger: False}))
        assert await acquirer.authorize("1.00", trigger) == "05"
        refused = await acquirer.transaction(trigger)
        assert (refused["decline_reason"], refused["decided_by"]) == ("programme_declined", "platform")
    assert await programme.report() == []


async def test_increment_is_decided_by_the_programme_or_stand_in(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy(max_amount="12.50"))
    assert await acquirer.authorize("10.00", "raised") == "00"
    assert await acquirer.increment("5.00", "raised") == "00"
    endpoint.behave = hang_up
    assert await acquirer.increment("12.50", "raised") == "00"
    assert await acquirer.increment("12.51", "raised") == "61"
    assert [question["operation"] for question in endpoint.questions] == ["authorization", *["increment"] * 3]
    sale = await acquirer.transaction("raised")
    assert {question["authorization_id"] for question in endpoint.questions} == {sale["authorization_id"]}
    entries = await programme.report()
    assert [entry["exposure_minor"] for entry in entries] == ["0", "1250"]
    assert {entry["authorization_id"] for entry in entries} == {sale["authorization_id"]}
    assert await acquirer.balance() == (FUNDS, "27.50", "9972.50")


async def test_stand_in_exposes_the_partial_cap(programme: Programme, endpoint: DecisionEndpoint) -> None:
    acquirer = await programme.issue(endpoint.url, policy())
    endpoint.behave = hang_up
    assert await acquirer.authorize("80.00", "partly", t07="1000000002500") == "10"
    [entry] = await programme.report()
    assert (entry["amount"], entry["exposure_minor"]) == ("80.00", "2500")
    assert (await acquirer.transaction("partly"))["held_amount"] == "25.00"


async def test_network_decision_is_not_in_the_report(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy())
    record = await acquirer.caller.spend(acquirer.card, "10.00", scenario="force_stip_timeout")
    assert record["decision"] == "approved"
    assert await programme.report() == []


# --- the cases of WIRE.md ---------------------------------------------------------------------------------


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_34_recovery_during_stand_ins_finishes_each_outage_once(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    await programme.issue(endpoint.url, policy(max_total_exposure=money("6.00")), cards=4)
    rounds = 5
    for number in range(1, rounds + 1):
        requests = count()

        async def failing_then_not(question: dict[str, Any], requests: Iterator[int] = requests) -> Any:
            # Some answers arrive while stand-ins of earlier requests reserve and commit.
            if next(requests) % 3:
                return None
            await asyncio.sleep(0.02)
            return decision(question)

        endpoint.behave = failing_then_not
        codes = Counter(await programme.burst(24))
        assert set(codes) <= {"00", "61"}
        endpoint.behave = approve
        if any(not ended for *_, ended in await programme.outages()):
            await programme.recover(len(await programme.outages()))
        outages = await programme.outages()
        assert len(outages) >= number
        assert await programme.finished() == len(outages)
    exposed = await programme.exposure_minor()
    for outage_id, _period, _currency, used_minor, ended in await programme.outages():
        # A reservation counts towards its outage, even if its decision is made after the end.
        assert ended
        assert exposed.get(outage_id, 0) == used_minor <= 600


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_35_parallel_stand_ins_never_exceed_the_budget(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    """G6, in five rounds: no approval above the budget, and one finished event for each outage. The chaos run
    does the same with more at once."""
    fits = 13
    budget = policy(max_total_exposure=money(f"{fits}.99"), max_amount="1.00")
    await programme.issue(endpoint.url, budget, cards=8)
    for number in range(1, 6):
        assert await programme.silent_burst(32) == {"00": fits, "61": 32 - fits}
        outages = await programme.outages()
        assert [used_minor for *_, used_minor, _ended in outages] == [fits * 100] * number
        await programme.recover(number)
    assert set((await programme.exposure_minor()).values()) == {fits * 100}


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_35_replaced_owners_never_exceed_the_budget(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    fits = 13
    budget = policy(max_total_exposure=money(f"{fits}.99"), max_amount="1.00")
    await programme.issue(endpoint.url, budget, cards=8)
    # During the decision requests, during the request to the programme's owner, and during the commits.
    for number, after_seconds in enumerate((0.05, 0.2, 0.22), start=1):
        burst = asyncio.create_task(programme.silent_burst(64))
        await asyncio.sleep(after_seconds)
        await programme.installation.replace_host()
        codes = await burst
        assert codes["00"] <= fits
        assert set(codes) <= {"00", "61", "91", "05"}
        exposed, [*_, (outage_id, _period, _currency, used_minor, _ended)] = (
            await programme.exposure_minor(),
            await programme.outages(),
        )
        assert codes["00"] * 100 <= exposed[outage_id] <= used_minor <= fits * 100
        await programme.recover(number)


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_35_parallel_stand_ins_never_exceed_the_declared_balance(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy(), declared="13.99")
    assert await programme.silent_burst(32) == {"00": 13, "51": 19}
    declared = await acquirer.caller.get(f"/v1/cards/{acquirer.card['id']}/declared-balance")
    assert (declared["consumed"], declared["remaining"]) == (money("13.00"), money("0.99"))
    await declare(acquirer.caller, acquirer.card, "2.00")
    assert await programme.silent_burst(8) == {"00": 2, "51": 6}


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_36_each_recovery_of_the_endpoint_renews_the_budget(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy(max_total_exposure=money("50.00")))
    before = stood_in_minor(programme.installation)
    for number in range(1, 6):
        endpoint.behave = hang_up
        assert await acquirer.authorize("50.00") == "00"
        assert await acquirer.authorize("0.01") == "61"
        endpoint.behave = approve
        await programme.recover(number)
    # Five budgets in one day; the metric has their sum.
    assert stood_in_minor(programme.installation) - before == 5 * 5_000


def stood_in_minor(installation: Installation) -> float:
    figure = installation.peers.host.figures()["stanchion_stand_in_exposure_minor"]
    assert isinstance(figure, dict)
    exposed = figure.get(("EUR",), 0.0)
    assert isinstance(exposed, int | float)
    return exposed


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_36_outage_with_declines_only_ends(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy(mode="decline_all"))
    endpoint.behave = hang_up
    assert await acquirer.authorize("1.00") == "05"
    assert [outage[3:] for outage in await programme.outages()] == [(0, False)]
    endpoint.behave = decline
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await programme.finished():
        assert await acquirer.authorize("1.00") == "05"
        assert time.monotonic() < deadline
    endpoint.behave = approve
    assert await programme.burst(16) == ["00"] * 16
    assert await programme.finished() == 1


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_37_currency_change_in_an_outage_resets_the_budget(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy(max_total_exposure=money("60.00")))
    endpoint.behave = hang_up
    assert [await acquirer.authorize("50.00"), await acquirer.authorize("50.00")] == ["00", "61"]
    dollars = policy(max_total_exposure=money("60.00", "USD"))
    await put_policy(acquirer.caller, programme.id, dollars)
    assert await acquirer.authorize("1.00") == "05"
    # Another limit in the same currency continues the same budget.
    await put_policy(acquirer.caller, programme.id, policy(max_total_exposure=money("30.00")))
    assert [await acquirer.authorize("20.00"), await acquirer.authorize("20.00")] == ["00", "61"]
    await put_policy(acquirer.caller, programme.id, policy(max_total_exposure=money("60.00")))
    assert await acquirer.authorize("40.00") == "00"
    rules = [entry["rule"] for entry in reversed(await programme.report())]
    assert rules == [
        "within_ceilings",
        "max_total_exposure_exceeded",
        "currency_mismatch",
        "within_ceilings",
        "max_total_exposure_exceeded",
        "within_ceilings",
    ]
    endpoint.behave = approve
    await programme.recover(1)
    outages = await programme.outages()
    assert len({outage[0] for outage in outages}) == 1
    assert [outage[1:] for outage in outages] == [
        (1, "EUR", 5_000, True),
        (2, "USD", 0, True),
        (3, "EUR", 6_000, True),
    ]


@pytest.mark.parametrize("network", SHIPPED, indirect=True)
async def test_case_38_late_approval_of_the_programme_is_ignored(
    programme: Programme, endpoint: DecisionEndpoint
) -> None:
    acquirer = await programme.issue(endpoint.url, policy(), timeout_ms=500)
    before = counts(programme.installation).late
    endpoint.behave = late(0.6)
    assert await acquirer.authorize("40.00", "late") == "00"
    await until(lambda: counts(programme.installation).late == before + 1)
    assert (await acquirer.transaction("late"))["decided_by"] == "stand_in"
    assert await acquirer.balance() == (FUNDS, "40.00", "9960.00")
    assert await acquirer.events() == Counter(
        ["ledger.entry.posted", "authorization.decided", "ledger.hold.created"]
    )
    assert [outage[3:] for outage in await programme.outages()] == [(4_000, False)]
    endpoint.behave = approve
    await programme.recover(1)
