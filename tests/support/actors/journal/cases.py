"""Shared by the suites of both journals: a card, commands on it, and the check of a refused batch."""

from __future__ import annotations

from typing import Any

import pytest

from actors.journal.contract import Journal, Rows
from actors.journal.rows import ActRow, IdempotencyRow
from engine.commands import Advise, Present, Reverse
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
from tests.support.actors.journal.backends import Backend
from tests.support.actors.journal.owner import Owner
from tests.support.engine.build import (
    NOW_MS,
    an_id,
    authorize,
    create_card,
    create_programme,
    key,
    load,
    wire,
)

EVERY_CONTROL: tuple[Control, ...] = (
    MccAllow(("5411", "5812")),
    MccDeny(("7995",)),
    CountryAllow(("IE", "DE")),
    CountryDeny(("US",)),
    ChannelAllow(("pos", "ecommerce")),
    ChannelDeny(("moto",)),
    PerTxnCap(50_000),
    PerDayCap(10),
    PerDayAmountCap(100_000),
)
FIRST = create_card()
OTHER_SHARD = 0x03
HOUR_MS = 3_600_000


async def with_card(journal: Journal) -> Owner:
    """The owner of all shards, with one durable card, ``FIRST``, and a balance of 50.00."""
    owner = Owner(await journal.take(range(256)))
    await journal.commit(owner.decide(create_programme(), FIRST, load(1, card_id=FIRST.id)))
    return owner


def spend(number: int = 1, **parts: Any) -> Any:
    return authorize(number, card_id=FIRST.id, **parts)


def reverse_sale(number: int, *references: str, **parts: Any) -> Reverse:
    return Reverse(**_about(number), references=references, **parts)


def present_sale(number: int, *references: str, **parts: Any) -> Present:
    sale: dict[str, Any] = {
        "currency": "EUR",
        "mcc": "5411",
        "merchant_name": "Shop",
        "merchant_country": "IE",
    }
    paper: dict[str, Any] = {"kind": "purchase", "arn": "1", "sequence": 1}
    return Present(**_about(number), **sale, **paper, references=references, **parts)


def advise_sale(number: int, *references: str, **parts: Any) -> Advise:
    shop: dict[str, Any] = {"mcc": "5411", "merchant_name": "Shop", "merchant_country": "IE"}
    facts = _about(number) | shop | parts
    return Advise(**facts, currency="EUR", channel="pos", references=references)


def _about(number: int) -> dict[str, Any]:
    id_, command_key = an_id(0x80_0000 + number), key(0x80_0000 + number)
    return {
        "id": id_,
        "command_key": command_key,
        "card_id": FIRST.id,
        "fingerprint": key(number),
        "wire": wire(number),
    }


def act_row(number: int) -> ActRow:
    """A row of the audit log."""
    texts = ("client", "ann", "update_card", "card", FIRST.id, '{"state":"active"}', '{"state":"lost"}', "r")
    return ActRow(an_id(0xA0_0000 + number), FIRST.tenant_id, False, NOW_MS, *texts)


def idempotency_row(number: int, created_ms: int, fingerprint: bytes = b"same") -> IdempotencyRow:
    return IdempotencyRow(key(number) * 2, fingerprint, 201, b"sealed body", created_ms)


async def assert_refused(backend: Backend, journal: Journal, rows: Rows, error: type[Exception]) -> None:
    """The commit of ``rows`` raises ``error`` and changes no row."""
    tables = ("journal", "card_usage", "accounts", "holds", "transactions", "events", "cards")
    before = [await backend.table(name) for name in tables]
    with pytest.raises(error) as caught:
        await journal.commit(rows)
    assert type(caught.value) is error
    assert [await backend.table(name) for name in tables] == before
