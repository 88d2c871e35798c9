"""Cards: the statements that read them, and their public representation."""

from __future__ import annotations

from typing import Any, Final, Literal

import asyncpg

from actors.vault import VaultError
from api.cards.controls import ControlView, stored_controls
from api.database.object_metadata import COLUMNS, about_of
from api.http.fields import Currency, Id, Instant, ShownAmount
from api.http.validation import View
from api.metadata.inputs import ShownMetadata
from api.people.personal_data import People, log_unreadable, selected
from engine.cards.card import Card, card_view
from engine.instant import to_ms

_NAMED: Final = ("given_name", "family_name", "email")
HOLDER_COLUMNS: Final = selected("h", _NAMED)
"""The columns of the cardholder's row ``h`` that ``holder`` decrypts."""
SELECT: Final = f"""
    SELECT r.id::text, r.tenant_id::text, r.live, r.programme_id::text, r.card_product_id::text,
           r.cardholder_id::text, r.account_id::text, r.network, r.currency, r.iin, r.last4, r.pan_ref,
           r.exp_month, r.exp_year, r.cvk_generation, r.state, r.state_reason, r.controls, r.created_at,
           old.card_id::text AS replaces, new.replacement_id::text AS replaced_by,
           {COLUMNS}, {HOLDER_COLUMNS}
    FROM cards r JOIN cardholders h ON h.id = r.cardholder_id
    LEFT JOIN card_replacements old ON old.replacement_id = r.id
    LEFT JOIN card_replacements new ON new.card_id = r.id
"""
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"

_CARD_FIELDS: Final = frozenset(Card.__struct_fields__)

State = Literal["unactivated", "active", "suspended", "terminated", "lost", "stolen"]


class CardView(View):
    """A card. Its number is never shown; `pan_ref` identifies it."""

    id: Id
    programme_id: Id
    card_product_id: Id
    cardholder_id: Id
    pan_ref: str
    last4: str
    iin: str
    exp_month: int
    exp_year: int
    state: State
    state_reason: str | None
    controls: list[ControlView]
    funding_account_id: Id | None
    cvk_generation: str
    network: Literal["visa", "mastercard"]
    currency: Currency
    replaces: Id | None
    """The card that this one replaces."""
    replaced_by: Id | None
    """The card that replaces this one."""
    created_at: Instant
    cardholder_name: str
    """Empty once the cardholder has been erased."""
    cardholder_email: str
    """Empty once the cardholder has been erased."""
    external_ref: str | None
    metadata: ShownMetadata


class BalanceView(View):
    """A card's balance: `available` = `posted` − `held`. A hold past its expiry is never counted."""

    card_id: Id
    account_id: Id | None
    currency: Currency
    posted: ShownAmount
    held: ShownAmount
    available: ShownAmount
    as_of: Instant
    version: int


def show(row: asyncpg.Record, people: People) -> dict[str, Any]:
    """The public representation: the view of ``event_view``, and the cardholder's name and email address."""
    return event_view(row) | holder(row, people)


def event_view(row: asyncpg.Record) -> dict[str, Any]:
    """The card with its reference and metadata, and without the cardholder's personal data."""
    fields = {name: value for name, value in row.items() if name in _CARD_FIELDS}
    fields["controls"] = stored_controls(fields["controls"])
    fields["created_ms"] = to_ms(row["created_at"])
    return card_view(Card(**fields)) | about_of(row).view()


def holder(row: asyncpg.Record, people: People, *, cardholder_id: str = "cardholder_id") -> dict[str, Any]:
    """The cardholder's name and email address, for answers only: owners and events never contain them.
    ``row`` has ``HOLDER_COLUMNS``, the tenant's id, and the cardholder's id as ``cardholder_id``.

    Values that cannot be decrypted are empty, so that the card can still be stopped."""
    try:
        person = people.of(row, _NAMED, cardholder_id=cardholder_id)
    except VaultError:
        log_unreadable(row[cardholder_id])
        person = dict.fromkeys(_NAMED)
    given_name, family_name, email = (person[name] or "" for name in _NAMED)
    return {"cardholder_name": f"{given_name} {family_name}".strip(), "cardholder_email": email}
