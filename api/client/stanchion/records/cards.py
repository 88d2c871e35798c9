"""Cardholders, cards and their balances."""

from __future__ import annotations

from stanchion.compat import TypedDict
from stanchion.records.common import Money


class Control(TypedDict, total=False):
    """A limit on a card's purchases; ``kind`` decides whether it has ``values``, ``amount`` or ``count``."""

    kind: str
    values: list[str]
    amount: str
    count: int


class Address(TypedDict):
    """A postal address."""

    line1: str
    line2: str | None
    city: str
    postcode: str
    country: str


class Cardholder(TypedDict):
    """A person with cards. After erasure, personal members and ``external_ref`` are ``None``."""

    id: str
    programme_id: str
    given_name: str | None
    family_name: str | None
    email: str | None
    phone: str | None
    date_of_birth: str | None
    address: Address | None
    external_ref: str | None
    status: str
    kyc_state: str | None
    created_at: str
    updated_at: str
    erased_at: str | None
    metadata: dict[str, str]


class Card(TypedDict):
    """A card; the API never returns its number."""

    id: str
    programme_id: str
    card_product_id: str
    cardholder_id: str
    pan_ref: str
    last4: str
    iin: str
    exp_month: int
    exp_year: int
    state: str
    state_reason: str | None
    controls: list[Control]
    funding_account_id: str | None
    cvk_generation: str
    network: str
    currency: str
    replaces: str | None
    replaced_by: str | None
    created_at: str
    cardholder_name: str
    cardholder_email: str
    external_ref: str | None
    metadata: dict[str, str]


class RevealSession(TypedDict):
    """The address of a page that shows a card to its holder, once."""

    url: str
    expires_at: str


class Balance(TypedDict):
    """A card's balance: ``available`` = ``posted`` - ``held``. ``posted`` and ``available`` may be
    negative."""

    card_id: str
    account_id: str | None
    currency: str
    posted: str
    held: str
    available: str
    as_of: str
    version: int


class Load(TypedDict):
    """Money that was loaded on a card."""

    entry_id: str
    account_id: str
    amount: Money
    available: str
