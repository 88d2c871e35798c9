"""Commands and states for measurements of the engine alone, without servers."""

from __future__ import annotations

import uuid
from typing import Final

from engine.cards.account import Account
from engine.cards.card import Card
from engine.commands import Authorize, WireIdentity
from engine.ids import Derived, derive, key_of
from engine.programmes.programme import ProgrammeConfig

NOW_MS: Final = 1_795_255_200_000
CURRENCY: Final = "EUR"
AMOUNT_MINOR: Final = 1_000
FUNDS_MINOR: Final = 10**12


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())


def new_programme() -> ProgrammeConfig:
    """A programme of a new tenant."""
    return ProgrammeConfig(id=new_id(), tenant_id=new_id(), live=False, name="Measured", currency=CURRENCY)


def funded_account(card_id: str, programme: ProgrammeConfig) -> Account:
    """The account of a card."""
    return Account(
        id=derive(card_id, Derived.ACCOUNT),
        tenant_id=programme.tenant_id,
        live=False,
        programme_id=programme.id,
        currency=CURRENCY,
        posted_minor=FUNDS_MINOR,
    )


def active_card(card_id: str, account: Account) -> Card:
    """A card without controls."""
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


def new_sale(card_id: str) -> Authorize:
    """An authorization of ``AMOUNT_MINOR``."""
    id_ = new_id()
    return Authorize(
        id=id_,
        command_key=key_of(id_),
        card_id=card_id,
        fingerprint=key_of(id_),
        wire=WireIdentity("00000000001", "000001", "1121100000", "632510000001"),
        amount_minor=AMOUNT_MINOR,
        currency=CURRENCY,
        mcc="5411",
        merchant_name="Shop",
        merchant_country="IE",
        channel="pos",
        entry_mode="chip",
    )
