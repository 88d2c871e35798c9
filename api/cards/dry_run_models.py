"""Bodies, queries and answers of dry runs and of headroom."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints, model_validator

from api.http.fields import Channel, Country, Currency, Id, Instant, Mcc, MoneyInput, MoneyView, ShownAmount
from api.http.fields import example as shown
from api.http.validation import Input, View, broken
from api.simulations.inputs import EntryMode, PurchaseInput
from api.transactions.views import RiskView, StepView
from engine.limits import WIRE_AMOUNT_MINOR_MAX

MerchantId = Annotated[str, StringConstraints(pattern="^[!-~]([ -~]{0,13}[!-~])?$"), shown("MERCHANT0000001")]
"""DE42: 1 to 15 printable characters."""
Value = Annotated[str, shown("250.00")]
"""A decimal amount, a number or a text, as its rule needs."""


class DryRunInput(PurchaseInput):
    """An authorization to be evaluated: the body of a simulated spend, and what a message would prove."""

    card_id: Id | None = None
    """The card of the path, or left out: the body of a simulated spend may be sent as it is."""
    merchant_id: MerchantId | None = None
    """The acquirer's id of the merchant (DE42). Left out: that of simulated spends."""
    stand_in: bool = False
    """The endpoint of a delegated programme counts as silent, as with `delegated_timeout`: the answer shows
    what stand-in would decide now. Without effect on a programme that leaves its decisions to the platform.
    """
    cvv2_result: Literal["match", "mismatch"] | None = None
    """The result of the check of a CVV2, instead of `cvv2`, which live mode does not take."""
    authentication_result: Literal["present", "valid", "invalid"] | None = None
    """The result of the check of a 3-D Secure value, instead of `auth_value` and `threeds_ref`, which live
    mode does not take. `present`: well-formed, and the programme has no authentication key."""

    @model_validator(mode="after")
    def _check(self) -> DryRunInput:
        if self.cvv2 is not None and self.cvv2_result is not None:
            raise broken("not_allowed", "Give cvv2 or its result.", at="/cvv2_result")
        evidence = (self.auth_value, self.threeds_ref) != (None, None)
        if evidence and self.authentication_result is not None:
            raise broken("not_allowed", "Give auth_value or its result.", at="/authentication_result")
        for name in ("amount", "approved_amount"):
            money: MoneyInput | None = getattr(self, name)
            if money is not None and money.minor > WIRE_AMOUNT_MINOR_MAX:
                raise broken("range", "The amount has more than twelve digits.", at=f"/{name}/amount")
        merchant = self.merchant_amount
        if merchant is not None and merchant.merchant_amount.amount_minor > WIRE_AMOUNT_MINOR_MAX:
            raise broken("range", "The amount has more than twelve digits.", at="/merchant_amount/amount")
        return self


class AsOfView(View):
    """The state that was read: the last command on the card, the version of its programme, and the time."""

    card_seq: int
    programme_version: int
    at: Instant


class DryRunView(View):
    """The decision as it would be made."""

    card_id: Id
    decision: Literal["approved", "declined", "delegated"]
    """`delegated`: the platform's own rules pass, and the programme's endpoint, which a dry run does not
    call, would decide. `stand_in` shows the decision without its answer."""
    decided_by: Literal["platform", "programme", "stand_in"]
    decline_reason: str | None
    decline_detail: str | None
    """The `reason` of the authorization rule that declines."""
    approved_amount: MoneyView | None
    """Null for a decline. `delegated`: the largest amount that the programme can approve."""
    response_code: str | None
    """DE39; null for `delegated`."""
    risk: RiskView
    trace: list[StepView]
    as_of: AsOfView


class HeadroomQuery(Input):
    """The merchant. Rules about the merchant's name, a partial approval or card secrets see none."""

    mcc: Mcc
    channel: Channel
    merchant_country: Country | None = None
    """Left out: `IE` for EUR, `GB` for GBP, `US` for USD."""
    entry_mode: EntryMode | None = None
    """How the terminal gets the card's data (`pos` and `atm`)."""
    merchant_id: MerchantId | None = None
    """The acquirer's id of the merchant (DE42). Left out: that of simulated spends."""


class BindingView(View):
    """The rule that declines one minor unit more than `max_amount`."""

    rule: str
    decline_reason: str
    decline_detail: str | None
    """The `reason` of an authorization rule."""
    unit: Literal["amount", "count"] | None
    """Of `limit` and `used`; null for a rule that compares neither amounts nor numbers."""
    limit: Value | None
    used: Value | None
    """The part of the limit that is used already. For a rule without a limit on amounts, the value that it
    saw."""


class LimitView(View):
    """A limit on purchases, in the order of evaluation. `used` may be above `limit`."""

    rule: str
    unit: Literal["amount", "count"]
    """`count`: a number of purchases."""
    limit: Value
    used: Value
    remaining: Value
    resets_at: Instant | None
    """When `used` becomes zero again; null if no time does that."""


class HeadroomView(View):
    """The largest purchase that the platform approves now."""

    card_id: Id
    max_amount: ShownAmount
    """`0.00`: no amount is approved; `decline_reason` says why. `9999999999.99` without a `binding`: every
    amount that a message can carry."""
    currency: Currency
    decided_by: Literal["platform", "programme"]
    """`programme`: amounts up to `max_amount` are sent to the programme's endpoint, which decides."""
    decline_reason: str | None
    binding: BindingView | None
    limits: list[LimitView]
    as_of: AsOfView
