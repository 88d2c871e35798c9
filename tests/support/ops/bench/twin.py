"""A card in a real database and its twin in memory, for comparing rivals with the engine."""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec

from actors.cards.card_actor import CardActor
from actors.cards.rows import write_command
from actors.ids import new_id, new_id_beside
from actors.journal.contract import Rows
from engine.authorization.authorizing import question
from engine.authorization.executed import CommandContext
from engine.cards.account import Account
from engine.cards.card import Card, DeclaredBalance, declared_remaining
from engine.commands import Authorize
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
from engine.decision.delegation import EndpointResult
from engine.execution.execute import execute
from engine.ids import Derived, derive
from engine.instant import to_ms
from engine.programmes.programme import ProgrammeConfig
from engine.programmes.stand_in import Outage, StandInPolicy, StandInRequest, Triggers, grant
from engine.replies import Reply

SALE: dict[str, Any] = {
    "amount_minor": 100,
    "currency": "EUR",
    "mcc": "5411",
    "merchant_name": "Corner Grocer",
    "merchant_country": "IE",
    "channel": "pos",
}


class Twin:
    """One card, its account and its programme in the engine's types."""

    def __init__(self, card: Card, account: Account, programme: ProgrammeConfig) -> None:
        self.card = card
        self.account = account
        self.programme = programme
        self.outage: Outage | None = None
        self.rows = Rows()

    def decide(self, command: Authorize, now_ms: int) -> Reply:
        """The engine's own reply to ``command`` at ``now_ms``; its rows are added to ``rows``."""
        met = CommandContext(self.card, self.account, self.programme)
        if question(command, met, now_ms) is not None:
            met = CommandContext(
                self.card, self.account, self.programme, None, self._stand_in(command, now_ms)
            )
        executed = execute(command, met, now_ms)
        write_command(
            self.rows, command, CardActor(self.card, self.account), executed, None, 0, now_ms, in_full=True
        )
        return executed.reply

    def _stand_in(self, command: Authorize, now_ms: int) -> EndpointResult:
        about = (command.id, self.card.id, command.amount_minor, command.currency, command.mcc)
        ask = StandInRequest(*about, "timeout", declared_remaining(self.card))
        new_outage_id = derive(command.id, Derived.OUTAGE)
        self.outage, (granted,) = grant(self.programme.stand_in, self.outage, (ask,), new_outage_id, now_ms)
        return EndpointResult(trigger="timeout", grant=granted)


async def insert_twin(
    database: asyncpg.Connection[Any],
    *,
    card: dict[str, Any] | None = None,
    posted_minor: int = 1_000,
    controls: tuple[Control, ...] = (),
    programme: dict[str, Any] | None = None,
    declared_minor: int | None = None,
) -> Twin:
    """A card in ``database`` and in memory."""
    tenant_id, programme_id, card_id = (new_id() for _ in range(3))
    plain_programme: dict[str, Any] = {
        "id": programme_id,
        "tenant_id": tenant_id,
        "live": False,
        "name": "x",
        "currency": "EUR",
    }
    config = ProgrammeConfig(**plain_programme | (programme or {}))
    plain: dict[str, Any] = {
        "id": card_id,
        "tenant_id": tenant_id,
        "live": False,
        "programme_id": programme_id,
        "card_product_id": new_id(),
        "cardholder_id": new_id(),
        "account_id": new_id_beside(card_id),
        "network": "visa",
        "currency": "EUR",
        "iin": "456000",
        "last4": "1234",
        "pan_ref": "ref",
        "exp_month": 12,
        "exp_year": 2099,
        "cvk_generation": "1",
        "state": "active",
        "controls": controls,
        "created_ms": 0,
    }
    made = Card(**plain | (card or {}))
    account = Account(
        id=plain["account_id"],
        tenant_id=tenant_id,
        live=False,
        programme_id=programme_id,
        currency=made.currency,
        posted_minor=posted_minor,
        version=1,
    )
    if declared_minor is not None:
        made.declared = DeclaredBalance(declared_minor, 0, 0)
    twin = Twin(made, account, config)
    await _insert(database, twin)
    return twin


async def _insert(database: asyncpg.Connection[Any], twin: Twin) -> None:
    card, account, config = twin.card, twin.account, twin.programme
    await database.execute("INSERT INTO tenants VALUES ($1, $2)", card.tenant_id, card.tenant_id)
    await database.execute(
        "INSERT INTO programmes VALUES ($1, $2, false, 1, 1, $3, NULL)",
        *(config.id, config.tenant_id, msgspec.json.encode(config).decode()),
    )
    await database.execute(
        "INSERT INTO accounts VALUES ($1, $2, false, $3, 'card', $4, $5, 0, 1)",
        *(account.id, account.tenant_id, account.programme_id, account.currency, account.posted_minor),
    )
    await database.execute(
        "INSERT INTO cards VALUES ($1, $2, false, $3, $4, $5, $6, $7, $8, '456000', '1234', 'ref', $9, $10,"
        " '1', $11, NULL, $12, $13, now())",
        *(
            card.id,
            card.tenant_id,
            card.programme_id,
            card.card_product_id,
            card.cardholder_id,
            card.account_id,
        ),
        *(card.network, card.currency, card.exp_month, card.exp_year, card.state),
        *(msgspec.json.encode(card.controls).decode(), card.cardholder_active),
    )
    usage = (card.id, card.seq, card.day, card.day_count, card.day_amount_minor, card.cvv2_failures)
    await database.execute("INSERT INTO card_usage VALUES ($1, $2, $3, $4, $5, $6)", *usage)
    if card.declared is not None:
        declared = (card.id, card.declared.balance_minor)
        await database.execute("INSERT INTO declared_balances VALUES ($1, $2, 0, now())", *declared)


_JOURNAL = """
    SELECT seq, command_key, kind, command, inputs, decision, reply, authorization_id::text, recorded_at
    FROM journal WHERE actor_id = $1 ORDER BY seq
"""
_TRANSACTIONS = """
    SELECT id::text, card_id::text, programme_id::text, cardholder_id::text, seq, kind, status, hold_id::text,
        currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason,
        day, remainder_minor
    FROM transactions WHERE card_id = $1 ORDER BY seq
"""
_TRANSACTION_COLUMNS = (0, 3, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21)
_STAND_INS = """
    SELECT s.id::text, outage_id::text, s.decision, rule, trigger, amount_minor, exposure_minor,
        budget_used_minor, budget_limit_minor, response_code, stan, rrn
    FROM stand_ins s JOIN journal j USING (authorization_id) WHERE card_id = $1 ORDER BY seq
"""
_STAND_IN_COLUMNS = (0, 6, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19)


async def _written(database: asyncpg.Connection[Any], query: str, card_id: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await database.fetch(query, card_id)]


async def compare(database: asyncpg.Connection[Any], twin: Twin) -> None:
    """Let the twin decide the same commands at the same instants, and compare every row."""
    card_id, account = twin.card.id, twin.account
    journal = await database.fetch(_JOURNAL, card_id)
    for row in journal:
        command = msgspec.json.decode(row["command"], type=Authorize)
        twin.decide(command, to_ms(row["recorded_at"]))
    for row, mine in zip(journal, twin.rows.journal, strict=True):
        for found, decided in zip(tuple(row)[:-1], (mine[1], mine[3], *mine[5:10], mine[11]), strict=True):
            assert found == decided
    transactions = [tuple(row[at] for at in _TRANSACTION_COLUMNS) for row in twin.rows.transactions]
    assert await _written(database, _TRANSACTIONS, card_id) == transactions
    holds = "SELECT id::text, account_id::text, amount_minor, state, expires_at FROM holds WHERE card_id = $1"
    found = [(*row[:4], to_ms(row[4])) for row in await _written(database, holds, card_id)]
    assert sorted(found) == sorted((row[0], row[1], *row[4:7]) for row in twin.rows.holds)
    events = "SELECT id::text, type, data FROM events WHERE tenant_id = $1"
    written = await _written(database, events, twin.card.tenant_id)
    assert sorted(written) == sorted((row[0], row[3], row[5]) for row in twin.rows.events)
    stood_in = [tuple(row[at] for at in _STAND_IN_COLUMNS) for row in twin.rows.stand_ins]
    assert await _written(database, _STAND_INS, card_id) == stood_in
    usage = "SELECT seq, day, day_count, day_amount_minor, cvv2_failures FROM card_usage WHERE card_id = $1"
    assert await _written(database, usage, card_id) == [twin.rows.usage[card_id][1:]]
    balance = "SELECT posted_minor, held_minor, version FROM accounts WHERE id = $1"
    expected = [(account.posted_minor, account.held_minor, account.version)]
    assert await _written(database, balance, account.id) == expected
    declared = "SELECT balance_minor, consumed_minor FROM declared_balances WHERE card_id = $1"
    mine_declared = [] if twin.card.declared is None else [
        (twin.card.declared.balance_minor, twin.card.declared.consumed_minor)
    ]  # fmt: skip
    assert await _written(database, declared, card_id) == mine_declared


Case = tuple[dict[str, Any], list[dict[str, Any]]]
"""The arguments of ``insert_twin``, and the differences of its spends from ``SALE``."""

_ONE: list[dict[str, Any]] = [{}]
_EVERY_CONTROL = (
    MccAllow(("5411", "7995")),
    MccDeny(("6051",)),
    CountryAllow(("IE", "FR")),
    CountryDeny(("US",)),
    ChannelAllow(("pos", "ecommerce")),
    ChannelDeny(("atm",)),
    PerTxnCap(300),
    PerDayCap(4),
    PerDayAmountCap(650),
)
_MET_IN_TURN: list[dict[str, Any]] = [
    {"mcc": "5812"},
    {"merchant_country": "DE"},
    {"channel": "moto"},
    {"amount_minor": 301},
    {"amount_minor": 300},
    {"amount_minor": 300},
    {"amount_minor": 51},
    *[{"amount_minor": 1}] * 3,
]
_RISKY = {"mcc": "7995", "channel": "moto", "merchant_country": "US", "amount_minor": 600_000}
_YESTERDAY = {"day": "2020-01-01", "day_count": 9, "day_amount_minor": 900, "cvv2_failures": 1}
_DENIALS = (MccDeny(("6051",)), CountryDeny(("US",)), ChannelDeny(("atm",)))

CASES: dict[str, Case] = {
    "approved": ({}, [{}, {"amount_minor": 200}, {"amount_minor": 5}]),
    "the last cent": ({}, [{"amount_minor": 999}, {"amount_minor": 1}, {"amount_minor": 1}]),
    "unactivated": ({"card": {"state": "unactivated"}}, _ONE),
    "suspended": ({"card": {"state": "suspended"}}, _ONE),
    "terminated": ({"card": {"state": "terminated"}}, _ONE),
    "lost": ({"card": {"state": "lost"}}, _ONE),
    "stolen": ({"card": {"state": "stolen"}}, _ONE),
    "expired": ({"card": {"exp_year": 2020, "exp_month": 1}}, _ONE),
    "cardholder blocked": ({"card": {"cardholder_active": False}}, _ONE),
    "programme suspended": ({"programme": {"status": "suspended"}}, _ONE),
    "another currency": ({}, [{"currency": "USD", "merchant_country": "US"}]),
    "another network": ({"card": {"network": "mastercard"}}, _ONE),
    "travel": ({}, [{"mcc": "7011"}]),
    "far away": ({"programme": {"timezone": "Pacific/Kiritimati", "hold_expiry_days": 10}}, _ONE),
    "risk": ({"posted_minor": 10**9}, [_RISKY]),
    "review": ({}, [{"mcc": "7995", "channel": "moto"}]),
    "yesterday's counters": ({"controls": (PerDayCap(1),), "card": _YESTERDAY}, [{}, {}]),
    "every control": ({"controls": _EVERY_CONTROL}, _MET_IN_TURN),
    "denied": (
        {"controls": _DENIALS},
        [{"mcc": "6051"}, {"merchant_country": "US"}, {"channel": "atm"}, {}],
    ),
}
"""By name."""


def _delegated(**policy: Any) -> dict[str, Any]:
    limits = {"max_amount_minor": 300, "max_total_exposure_minor": 500, "budget_currency": "EUR"}
    wanted: dict[str, Any] = {"mode": "approve_within_limits"} | limits | policy
    return {"decisioning": "delegated", "stand_in": StandInPolicy(**wanted)}


_BUDGET = [{"amount_minor": 200}] * 3 + [{"amount_minor": 100}, {"amount_minor": 1}]
_REFUSING: dict[str, dict[str, Any]] = {
    "disabled": {"mode": "disabled"},
    "declines all": {"mode": "decline_all"},
    "no ceiling": {"max_amount_minor": None},
    "no budget": {"max_total_exposure_minor": None, "budget_currency": None},
    "budget in another currency": {"budget_currency": "USD"},
    "category denied": {"mcc_list": ("5411",)},
    "category not allowed": {"mcc_list": ("5812",), "mcc_list_mode": "allow"},
    "not triggered": {"triggers": Triggers(timeout=False)},
}
_ACCEPTING: dict[str, Case] = {
    "budget": ({"programme": _delegated(), "declared_minor": 10_000}, _BUDGET),
    "no funds": ({"programme": _delegated(), "declared_minor": 10_000, "posted_minor": 0}, _ONE),
    "declared": ({"programme": _delegated(), "declared_minor": 250}, _BUDGET),
    "nothing declared": ({"programme": _delegated()}, _ONE),
    "too much at once": ({"programme": _delegated(), "declared_minor": 999}, [{"amount_minor": 301}]),
    "refused before": (
        {"programme": _delegated(), "declared_minor": 999, "card": {"state": "suspended"}},
        _ONE,
    ),
}
STAND_IN_CASES = _ACCEPTING | {
    name: ({"programme": _delegated(**policy), "declared_minor": 999}, [{}, {}])
    for name, policy in _REFUSING.items()
}
"""The same for delegated programmes whose endpoint does not answer."""
