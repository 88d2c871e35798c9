"""Request bodies and filters of cards."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from api.cards.controls import ControlsInput
from api.cards.views import State
from api.database.object_metadata import MEMBERS
from api.http.fields import ID_EXAMPLE, UUID_PATTERN, Id, Text255, example, separated
from api.http.validation import Input, broken
from api.metadata.inputs import Metadata, MetadataChange
from api.operations.pagination import PageQuery
from engine.commands import Replacement
from engine.ids import is_id
from engine.limits import CARD_IDS_MAX

Last4 = Annotated[str, StringConstraints(pattern="^[0-9]{4}$"), example("4242")]


class CardInput(Input):
    """A card to be issued."""

    card_product_id: Id
    cardholder_id: Id
    controls: ControlsInput | None = None
    """If left out: a copy of the product's `control_defaults`."""
    funding_account_id: Id | None = None
    """If left out: a new account in the programme's currency. With an account's id, the card shares that
    account. `null`: no account. Cards of programmes in gateway mode have no account.
    """
    activate: bool | None = None
    """If left out: virtual cards start `active`, physical cards `unactivated`."""
    external_ref: Text255 | None = None
    """The caller's own reference for this card."""
    metadata: Metadata
    """The caller's own pairs; stored unencrypted and included in events."""


class ReplacementInput(Input):
    """The replacement of a card."""

    reason: Replacement
    """The old card ends as `lost`, `stolen`, or `terminated` (`damaged`, `expired`)."""
    activate: bool | None = None
    """If left out: virtual cards start `active`, physical cards `unactivated`."""


class CardChange(Input):
    """A new state, new controls, a new reference or changed metadata."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    state: State | None = None
    state_reason: Annotated[Text255, example("reported by the cardholder")] | None = None
    """Stored unencrypted and included in events; it must not contain personal data."""
    controls: ControlsInput | None = None
    """The new controls; they replace all controls of the card."""
    external_ref: Text255 | None = None
    metadata: MetadataChange | None = None
    """Merged with the stored pairs. A pair with `null` is removed; `null` without an object removes all."""

    @property
    def changes_card(self) -> bool:
        """Whether the card's owner has to change something."""
        return self.state is not None or self.controls is not None

    @property
    def about(self) -> dict[str, Any]:
        """The members that the API stores."""
        return self.model_dump(include=self.model_fields_set & {*MEMBERS})

    @model_validator(mode="after")
    def _require_member(self) -> CardChange:
        if not self.changes_card and not self.about:
            raise broken("missing", "Give a state, controls, a reference or metadata.")
        if self.state is None and self.state_reason is not None:
            raise broken("missing", "A state_reason comes with a state.", at="/state")
        return self


def _ids(value: object) -> tuple[str, ...]:
    ids = tuple(id_.lower() for id_ in separated(value))
    if len(ids) > CARD_IDS_MAX:
        raise broken("length", f"A request may name at most {CARD_IDS_MAX} ids.")
    if not all(is_id(id_) for id_ in ids):
        raise broken("format", "The value holds ids, separated by commas.")
    return ids


Ids = Annotated[
    tuple[str, ...],
    BeforeValidator(_ids),
    Field(
        json_schema_extra={
            "type": "string",
            "pattern": rf"{UUID_PATTERN[:-1]}(,{UUID_PATTERN[1:-1]}){{0,{CARD_IDS_MAX - 1}}}$",
            "items": None,
        }
    ),
    example(ID_EXAMPLE),
]


class CardsQuery(PageQuery):
    """Filters of the list."""

    cardholder_id: Id | None = None
    programme_id: Id | None = None
    external_ref: Text255 | None = None
    last4: Last4 | None = None
    """The last four digits of the card's number."""
    state: State | None = None
    ids: Ids | None = None
    """1 to 100 ids: returns exactly these cards. `limit` is ignored, unknown ids are left out."""

    @model_validator(mode="after")
    def _ids_or_cursor(self) -> CardsQuery:
        if self.ids is not None and self.starting_after is not None:
            raise broken("not_allowed", "ids and starting_after exclude each other.", at="/starting_after")
        return self
