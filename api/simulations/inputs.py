"""Request bodies of simulated spends and their follow-ups."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, StringConstraints, model_validator

from api.http.fields import (
    Channel,
    Country,
    Id,
    Mcc,
    MerchantId,
    MerchantMoneyInput,
    MoneyInput,
    Text100,
    example,
)
from api.http.validation import Input, broken
from engine.currencies import MerchantAmount
from engine.simulation import Scenario

Cvv2 = Annotated[str, StringConstraints(pattern="^[0-9]{3}$"), example("123")]
AuthValue = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$"),
    example("AAABBEg0VhI0VniQEjRWAAAAAAA="),
]

_NEEDED_BY = {"cvv2_presented": ("cvv2",), "cavv_presented": ("auth_value", "threeds_ref")}
assert set(_NEEDED_BY) <= set(get_args(Scenario))


EntryMode = Literal["contactless", "chip", "magstripe", "manual"]


class PurchaseInput(Input):
    """One authorization: the members of simulated spends and of dry runs."""

    amount: MoneyInput
    """0 is an account verification. The decision declines a currency other than the card's."""
    merchant_amount: MerchantMoneyInput | None = None
    """The amount that the merchant charges in another currency, which the network converts to `amount`."""
    mcc: Mcc
    merchant_name: Annotated[Text100, example("Corner Shop")]
    channel: Channel
    entry_mode: EntryMode | None = None
    """How the terminal gets the card's data (`pos` and `atm`). `magstripe`: the message carries track 2 with
    its CVV1. `chip` and `contactless`: track 2 with the chip's own value, and EMV data. `manual` or left out:
    number and expiry only.
    """
    scenario: Scenario | None = None
    """`partial_approval`: the terminal accepts less than the amount. `force_stip_timeout`: the platform
    answers too late, so the network approves in its stead and sends an advice. `delegated_timeout`: the
    programme's endpoint counts as silent. `cvv2_presented` and `cavv_presented` demand their values.
    """
    approved_amount: MoneyInput | None = None
    """The terminal accepts a partial approval of at most this amount; with or without `partial_approval`."""
    cvv2: Cvv2 | None = None
    """The message carries this CVV2, with or without `cvv2_presented`; the decision verifies it."""
    auth_value: AuthValue | None = None
    """The message carries this 3-D Secure value, with or without `cavv_presented`. The decision verifies
    it if the programme has an authentication key; otherwise it checks the form only (20 bytes in base64,
    together with `threeds_ref`).
    """
    threeds_ref: Id | None = None
    """The 3-D Secure reference of `auth_value`."""
    mit: bool = False
    """Merchant-initiated."""
    kind: Literal["purchase", "refund"] = "purchase"
    merchant_country: Country | None = None
    """Left out: `IE` for EUR, `GB` for GBP, `US` for USD."""
    merchant_id: MerchantId | None = None
    """The acquirer's id of the merchant (ISO 8583 DE42)."""

    @model_validator(mode="after")
    def _scenario(self) -> Self:
        for name in _NEEDED_BY.get(self.scenario or "", ()):
            if getattr(self, name) is None:
                raise broken("missing", f"The scenario {self.scenario} needs this member.", at=f"/{name}")
        if self.scenario == "partial_approval" and self.kind == "refund":
            raise broken("not_allowed", "A refund is never approved in part.", at="/scenario")
        if self.approved_amount is not None and self.kind == "refund":
            raise broken("not_allowed", "A refund is never approved in part.", at="/approved_amount")
        if self.approved_amount is not None and self.approved_amount.currency != self.amount.currency:
            raise broken(
                "not_allowed", "The currency must be that of amount.", at="/approved_amount/currency"
            )
        require_conversion(self.amount, self.merchant_amount)
        return self


class SpendInput(PurchaseInput):
    """One authorization to be sent for a card."""

    card_id: Id
    """A card id, never a card number."""


def require_conversion(amount: MoneyInput, merchant_amount: MerchantMoneyInput | None) -> None:
    """Refuse a merchant amount that needs no conversion, or that is converted to nothing."""
    if merchant_amount is None:
        return
    if merchant_amount.currency == amount.currency:
        rule = "The currency must be another one than that of amount."
        raise broken("not_allowed", rule, at="/merchant_amount/currency")
    if not amount.minor:
        raise broken("not_allowed", "An account verification has no merchant amount.", at="/merchant_amount")


def merchant_amount_of(given: MerchantMoneyInput | None) -> MerchantAmount | None:
    """The merchant amount in minor units, if one is given."""
    return None if given is None else given.merchant_amount


def _positive(amount: MoneyInput) -> MoneyInput:
    if amount.minor == 0:
        raise broken("range", "The amount must be more than zero.", at="/amount")
    return amount


PositiveMoney = Annotated[MoneyInput, AfterValidator(_positive)]


class IncrementInput(Input):
    """The amount by which a hold is raised."""

    raise_by_amount: PositiveMoney
    """The added amount, in the currency of the spend; not the new total."""


class ReverseInput(Input):
    """The amount by which a hold is lowered."""

    lower_by_amount: PositiveMoney | None = None
    """Default: the whole remaining hold."""


class ClearInput(Input):
    """The amount of a spend to be cleared."""

    amount: PositiveMoney | None = None
    """Default: the whole amount not yet presented."""
    final: bool = True
    """Whether this is the last presentment; the rest of the hold is then released."""
