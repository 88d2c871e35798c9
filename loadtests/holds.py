"""The engine's CPU for decisions on an account with many open holds, such as one that many cards share.

Each step is an authorization and its reversal, so the number of open holds stays the same. The engine runs
alone, without servers: a scan over the holds of an account would be in its part.
"""

from __future__ import annotations

import random
import time
from typing import Final

from engine.authorization.effects import AuthorizationOpened
from engine.authorization.executed import CommandContext
from engine.cards.account import place_hold
from engine.cards.hold import Hold
from engine.commands import Authorize, Reverse, reference_of_id
from engine.execution.execute import execute
from engine.ids import Derived, derive, key_of
from engine.instant import DAY_MS
from loadtests.figures import percentile
from loadtests.generators.pure import (
    AMOUNT_MINOR,
    NOW_MS,
    active_card,
    funded_account,
    new_id,
    new_programme,
    new_sale,
)
from loadtests.reports.grown import Point, Series

SLICES: Final = 20
"""The slices of different sizes take turns, so that a change of the machine's speed affects all sizes."""


class PooledAccount:
    """An account with ``count`` open holds, and one card that uses it."""

    def __init__(self, count: int) -> None:
        card_id, config = new_id(), new_programme()
        account = funded_account(card_id, config)
        dice = random.Random(count)
        for _ in range(count):
            id_, expires_ms = new_id(), NOW_MS + dice.randint(DAY_MS, 30 * DAY_MS)
            place_hold(account, Hold(derive(id_, Derived.HOLD), card_id, id_, AMOUNT_MINOR, expires_ms))
        self.count = count
        self.account = account
        self._context = CommandContext(active_card(card_id, account), account, config)
        self.seconds: list[float] = []
        """CPU seconds of each step."""

    def run(self, seconds: float) -> None:
        """Decide for so many seconds of CPU."""
        end = time.process_time() + seconds
        began = 0.0
        while began < end:
            sale, message = new_sale(self._context.card.id), new_id()
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
