"""The pages that are shown, by the name of their picture.

``{card}``, ``{transaction}`` and ``{programme}`` stand for the ids of the card and the newest declined
purchase of a delegated programme, and of that programme.
"""

from __future__ import annotations

from typing import Final

HOME: Final = "/console"
PAGES: Final = {
    "console": HOME,
    "transactions": "/console/transactions",
    "transaction": "/console/transactions/{transaction}",
    "card": "/console/cards/{card}",
    "stand-in": "/console/programmes/{programme}/stand-in",
    "rules": "/console/rules",
    "webhooks": "/console/webhooks",
}
