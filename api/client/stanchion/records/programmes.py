"""Programmes and card products."""

from __future__ import annotations

from stanchion.compat import TypedDict
from stanchion.records.cards import Control


class Programme(TypedDict):
    """A programme."""

    id: str
    name: str
    currency: str
    version: int
    mode: str
    decisioning: str
    decision_url: str | None
    decision_timeout_ms: int
    timezone: str
    hold_expiry_days: int
    kyc_policy: str | None
    kyc_document_types: list[str]
    card_renewal: str
    status: str
    created_at: str
    updated_at: str
    external_ref: str | None
    metadata: dict[str, str]


class NewProgramme(Programme):
    """The answer to a programme's creation, with the secret that signs calls to its ``decision_url``."""

    decision_secret: str


class CardProduct(TypedDict):
    """The template for a card: network, IIN, form factor and default controls."""

    id: str
    programme_id: str
    name: str
    network: str
    currency: str
    form_factor: str
    iin: str
    control_defaults: list[Control]
    kyc_flow: str | None
    status: str
    created_at: str
    external_ref: str | None
    metadata: dict[str, str]
