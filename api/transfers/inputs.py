"""Request bodies and filters of transfers."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import model_validator

from api.http.fields import Id, MoneyInput, Text255, example
from api.http.validation import Input, broken
from api.metadata.inputs import Metadata
from api.operations.pagination import WindowQuery
from engine.transfer import DIRECTIONS, Direction, TransferKind


class TransferInput(Input):
    """A transfer to be posted. The amount is positive."""

    account_id: Id
    """A card account. The other side is its programme's funding source."""
    direction: Annotated[Direction, example("credit")]
    """Seen from the account: a credit raises its balance."""
    amount: MoneyInput
    kind: Annotated[TransferKind, example("load")]
    """A `load` is a credit; an `unload` and a `fee` are debits; an `adjustment` is either."""
    allow_negative: bool = False
    """Whether a debit may exceed the available balance."""
    external_ref: Text255 | None = None
    """The caller's own reference for this transfer."""
    description: Annotated[Text255, example("Salary for November")] | None = None
    metadata: Metadata
    """The caller's own pairs; stored unencrypted."""

    @model_validator(mode="after")
    def _require_sense(self) -> TransferInput:
        if self.amount.minor == 0:
            raise broken("range", "The amount must be more than zero.", at="/amount/amount")
        allowed = DIRECTIONS[self.kind]
        if self.direction not in allowed:
            raise broken("not_allowed", f"The direction of this kind is {allowed[0]}.", at="/direction")
        if self.allow_negative and self.direction == "credit":
            raise broken("not_allowed", "Only a debit can make a balance negative.", at="/allow_negative")
        return self


class ReversalInput(Input):
    """A reversal, always in full."""

    allow_negative: bool = False
    """Whether the reversal of a credit may exceed the available balance."""


IN_FULL: Final = ReversalInput()


class TransfersQuery(WindowQuery):
    """Filters of the list."""

    account_id: Id | None = None
    programme_id: Id | None = None
    external_ref: Text255 | None = None
    kind: TransferKind | None = None
