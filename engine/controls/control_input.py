"""The input of controls: one authorization request and the card's usage of the day before it."""

from __future__ import annotations

import msgspec


class ControlInput(msgspec.Struct, frozen=True, gc=False):
    """Amounts in minor units of the card's currency. ``day_*`` are today's earlier approvals;
    ``authorized_minor`` is the total of the authorization that an increment raises."""

    amount_minor: int
    mcc: str
    country: str
    channel: str
    day_count: int
    day_amount_minor: int
    authorized_minor: int = 0
