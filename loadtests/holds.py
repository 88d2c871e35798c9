"""The engine's CPU for decisions on an account with many open holds, such as one that many cards share.

Each step is an authorization and its reversal, so the number of open holds stays the same. The engine runs
alone, without servers: a scan over the holds of an account would be in its part.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Final

from engine.authorization.effects import AuthorizationOpened
from engine.authorization.executed import CommandContext
from engine.cards.account import Account, place_hold
from engine.cards.card import Card
from engine.cards.hold import Hold
from engine.commands import Authorize, Reverse, WireIdentity, reference_of_id
from engine.execution.execute import execute
from engine.ids import Derived, derive, key_of
from engine.instant import DAY_MS
from engine.programmes.programme import ProgrammeConfig
from loadtests.figures import percentile
from loadtests.reports.grown import Point, Series

NOW_MS: Final = 1_795_255_200_000
HOLD_MINOR: Final = 1_000
CURRENCY: Final = "EUR"
SLICES: Final = 20
"""The slices of different sizes take turns, so that a change of the machine's speed affects all sizes."""


class PooledAccount:
    """An account with ``count`` open holds, and one card that uses it."""

    def __init__(self, count: int) -> None:
        tenant, programme, card_id = new_id(), new_id(), new_id()
        config = ProgrammeConfig(id=programme, tenant_id=tenant, live=False, name="Pool", currency=CURRENCY)
        account = Account(
            id=derive(card_id, Derived.ACCOUNT),
            tenant_id=tenant,
            live=False,
            programme_id=programme,
            currency=CURRENCY,
            posted_minor=10**12,
        )
        dice = random.Random(count)
        for _ in range(count):
            id_, expires_ms = new_id(), NOW_MS + dice.randint(DAY_MS, 30 * DAY_MS)
            place_hold(account, Hold(derive(id_, Derived.HOLD), card_id, id_, HOLD_MINOR, expires_ms))
        self.count = count
        self.account = account
        self._context = CommandContext(_card(card_id, account), account, config)
        self.seconds: list[float] = []
        """CPU seconds of each step."""

    def run(self, seconds: float) -> None:
        """Decide for so many seconds of CPU."""
        end = time.process_time() + seconds
        began = 0.0
        while began < end:
            sale, message = _sale(self._context.card.id), new_id()
            began = time.process_time()
            self._step(sale, message)
            self.seconds.append(time.process_time() - began)
            began = time.process_time()

    def _step(self, sale: Authorize, message: str) -> None:
        decided = execute(sale, self._context, NOW_MS)
        opened = next(each for each in decided.effects if isinstance(each, AuthorizationOpened))
        context = CommandContext(
            self._context.card, self.account, self._context.programme, opened.authorization
        )
        reversal = Reverse(
            id=message,
            command_key=key_of(message),
            card_id=sale.card_id,
            fingerprint=sale.fingerprint,
            wire=sale.wire,
            references=(reference_of_id(sale.id),),
        )
        execute(reversal, context, NOW_MS)

    def point(self) -> Point:
        """The figures of all steps."""
        cost = sum(self.seconds) / len(self.seconds)
        p50, p99 = (1000 * percentile(self.seconds, share) for share in (0.5, 0.99))
        return Point(self.count, 1e6 * cost, 1 / cost, p50, p99)


def holds_series(counts: tuple[int, ...], seconds: float) -> Series:
    """A point for each number of open holds."""
    accounts = [PooledAccount(count) for count in counts]
    for _ in range(SLICES):
        for each in accounts:
            each.run(seconds / SLICES)
    what_grows = "open holds on one account; an authorization and its reversal, engine alone"
    return Series("holds", what_grows, [each.point() for each in accounts])


def _card(card_id: str, account: Account) -> Card:
    return Card(
        id=card_id,
        tenant_id=account.tenant_id,
        live=False,
        programme_id=account.programme_id,
        card_product_id=new_id(),
        cardholder_id=new_id(),
        account_id=account.id,
        network="visa",
        currency=CURRENCY,
        iin="456000",
        last4="0000",
        pan_ref="pan",
        exp_month=12,
        exp_year=2099,
        cvk_generation="1",
        state="active",
        controls=(),
        created_ms=NOW_MS,
    )


def _sale(card_id: str) -> Authorize:
    id_ = new_id()
    return Authorize(
        id=id_,
        command_key=key_of(id_),
        card_id=card_id,
        fingerprint=key_of(id_),
        wire=WireIdentity("00000000001", "000001", "1121100000", "632510000001"),
        amount_minor=HOLD_MINOR,
        currency=CURRENCY,
        mcc="5411",
        merchant_name="Shop",
        merchant_country="IE",
        channel="pos",
        entry_mode="chip",
    )


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())
