"""A history for cards: sales that are approved and presented through the router."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, Final

from actors.ids import new_id_beside
from engine.commands import Authorize, Present, ReadBalance, reference_of_id
from engine.ids import key_of
from engine.replies import Done, WireAnswer
from ops.bench.load import APPROVED, Submit, spends

IN_FLIGHT: Final = 256


async def make_history(submit: Submit, cards: Sequence[str], sale: dict[str, Any], sales: int) -> int:
    """Make ``sales`` sales in turn over ``cards`` and clear each in full; returns the number approved."""
    commands = (next(spends([card_id], sale)) for card_id in itertools.islice(itertools.cycle(cards), sales))
    approved = 0

    async def work() -> None:
        nonlocal approved
        for command in commands:
            reply = await submit(command)
            if isinstance(reply, WireAnswer) and reply.response_code == APPROVED:
                approved += 1
                await submit(presentment(command))

    await asyncio.gather(*(work() for _ in range(min(IN_FLIGHT, sales))))
    return approved


async def read_balances(submit: Submit, cards: Sequence[str], tenant_id: str) -> int:
    """Read each card's balance from its owner, which activates the card; returns the number of cards read."""
    ids = iter(cards)
    found = 0

    async def work() -> None:
        nonlocal found
        for card_id in ids:
            id_ = new_id_beside(card_id)
            asked = ReadBalance(
                id=id_, command_key=key_of(id_), card_id=card_id, tenant_id=tenant_id, live=False
            )
            found += isinstance(await submit(asked), Done)

    await asyncio.gather(*(work() for _ in range(min(IN_FLIGHT, len(cards)))))
    return found


def presentment(sale: Authorize) -> Present:
    """The only, final presentment of ``sale``."""
    id_ = new_id_beside(sale.card_id)
    return Present(
        id=id_,
        command_key=key_of(id_),
        card_id=sale.card_id,
        fingerprint=key_of(id_),
        wire=sale.wire,
        references=(reference_of_id(sale.id),),
        kind="purchase",
        amount_minor=sale.amount_minor,
        currency=sale.currency,
        mcc=sale.mcc,
        merchant_name=sale.merchant_name,
        merchant_country=sale.merchant_country,
        arn=None,
        sequence=1,
    )
