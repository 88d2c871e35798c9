"""What a command changes, as facts in the past tense. ``execute`` returns them, only ``evolve`` applies
them, ``actors`` write them."""

from __future__ import annotations

import msgspec

from engine.card import Card
from engine.controls import Control
from engine.hold import Hold
from engine.programme import ProgrammeConfig


class CardIssued(msgspec.Struct, frozen=True):
    """A card came to be; ``opened_account_id`` names the account opened with it, if any."""

    card: Card
    opened_account_id: str | None


class CardChanged(msgspec.Struct, frozen=True):
    """The card's own state or controls are now these."""

    state: str
    state_reason: str | None
    controls: tuple[Control, ...]


class PurchaseCounted(msgspec.Struct, frozen=True, gc=False):
    """An approved purchase counts toward ``day``; amount in minor units."""

    day: str
    amount_minor: int


class Cvv2Failed(msgspec.Struct, frozen=True, gc=False):
    """A wrong CVV2 was presented on ``day``."""

    day: str


class HoldPlaced(msgspec.Struct, frozen=True):
    """Money was reserved."""

    hold: Hold


class HoldLapsed(msgspec.Struct, frozen=True, gc=False):
    """A hold was found past its expiry and stopped counting."""

    hold: Hold
    authorization_id: str


class Credited(msgspec.Struct, frozen=True, gc=False):
    """A transfer was posted to the card's account. All three ids are of the command's shard."""

    transfer_id: str
    debit_entry_id: str
    credit_entry_id: str
    from_account_id: str
    amount_minor: int
    authorization_id: str | None


class ProgrammeSet(msgspec.Struct, frozen=True):
    """The programme's configuration is now this version."""

    config: ProgrammeConfig


CardEffect = CardIssued | CardChanged | PurchaseCounted | Cvv2Failed
AccountEffect = HoldPlaced | HoldLapsed | Credited
Effect = CardEffect | AccountEffect | ProgrammeSet
