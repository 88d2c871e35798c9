"""Input types of the client's methods. Optional members are marked; the API description explains each
member."""

# No postponed annotations here: TypedDict could not tell required members from optional ones.
from typing import Literal

from stanchion.compat import NotRequired, Required, TypedDict
from stanchion.records import (
    Address,
    BacktestScope,
    Control,
    Currency,
    Direction,
    DocumentType,
    Money,
    RuleAction,
    RuleCondition,
    RuleScope,
    RuleState,
    TransferKind,
    Triggers,
)

Channel = Literal["pos", "ecommerce", "atm", "moto"]
EntryMode = Literal["contactless", "chip", "magstripe", "manual"]


class ProgrammeFields(TypedDict, total=False):
    """A programme to create."""

    name: Required[str]
    currency: Required[Currency]
    mode: Literal["managed", "gateway"]
    decisioning: Literal["platform", "delegated"]
    decision_url: str | None
    decision_timeout_ms: int
    timezone: str
    hold_expiry_days: int
    kyc_policy: str | None
    kyc_document_types: list[str]
    card_renewal: Literal["off", "virtual", "all"]
    external_ref: str | None
    metadata: dict[str, str]


class ProgrammeChange(TypedDict, total=False):
    """Changed members of a programme."""

    name: str
    decisioning: Literal["platform", "delegated"]
    decision_url: str | None
    decision_timeout_ms: int
    timezone: str
    hold_expiry_days: int
    kyc_policy: str | None
    kyc_document_types: list[str]
    card_renewal: Literal["off", "virtual", "all"]
    status: Literal["active", "suspended", "closed"]
    external_ref: str | None
    metadata: dict[str, str | None] | None


class StandInPolicyFields(TypedDict, total=False):
    """A complete stand-in policy."""

    mode: Literal["disabled", "decline_all", "approve_within_limits"]
    triggers: Triggers
    max_amount: str | None
    max_total_exposure: Money | None
    max_count_per_day: int | None
    mcc_list: list[str]
    mcc_list_mode: Literal["allow", "deny"]


class CardProductFields(TypedDict):
    """A card product to create."""

    programme_id: str
    name: str
    network: Literal["visa", "mastercard"]
    currency: Currency
    form_factor: Literal["virtual", "physical"]
    iin: str
    control_defaults: NotRequired[list[Control]]
    kyc_flow: NotRequired[str | None]
    external_ref: NotRequired[str | None]
    metadata: NotRequired[dict[str, str]]


class CardProductChange(TypedDict, total=False):
    """Changed members of a card product; ``None`` as a value removes a pair."""

    external_ref: str | None
    metadata: dict[str, str | None] | None


class CardholderFields(TypedDict):
    """A cardholder to create."""

    programme_id: str
    given_name: str
    family_name: str
    email: str
    phone: NotRequired[str | None]
    date_of_birth: NotRequired[str | None]
    address: NotRequired[Address | None]
    external_ref: NotRequired[str | None]
    metadata: NotRequired[dict[str, str]]


class CardholderChange(TypedDict, total=False):
    """Changed members of a cardholder."""

    given_name: str
    family_name: str
    email: str
    phone: str | None
    date_of_birth: str | None
    address: Address | None
    external_ref: str | None
    status: Literal["active", "blocked", "closed"]
    metadata: dict[str, str | None] | None


class CardFields(TypedDict):
    """A card to issue."""

    card_product_id: str
    cardholder_id: str
    controls: NotRequired[list[Control]]
    funding_account_id: NotRequired[str | None]
    activate: NotRequired[bool]
    external_ref: NotRequired[str | None]
    metadata: NotRequired[dict[str, str]]


class CardChange(TypedDict, total=False):
    """Changed members of a card."""

    state: Literal["active", "suspended", "terminated", "lost", "stolen"]
    state_reason: str | None
    controls: list[Control]
    external_ref: str | None
    metadata: dict[str, str | None] | None


class RuleFields(TypedDict):
    """An authorization rule to create."""

    name: str
    scope: RuleScope
    when: list[RuleCondition]
    action: NotRequired[RuleAction]
    reason: str
    state: NotRequired[Literal["draft", "shadow", "active"]]


class RuleChange(TypedDict, total=False):
    """Changed members of an authorization rule."""

    name: str
    when: list[RuleCondition]
    action: RuleAction
    reason: str


class RuleFilter(TypedDict, total=False):
    """Filters for authorization rules."""

    scope_type: Literal["programme", "card_product", "card"]
    scope_id: str
    state: RuleState


class ReplacementFields(TypedDict):
    """The replacement of a card."""

    reason: Literal["lost", "stolen", "damaged", "expired"]
    activate: NotRequired[bool]


class SpendFields(TypedDict):
    """A spend to simulate."""

    card_id: str
    amount: Money
    merchant_amount: NotRequired[Money]
    mcc: str
    merchant_name: str
    channel: Channel
    entry_mode: NotRequired[EntryMode]
    scenario: NotRequired[str]
    approved_amount: NotRequired[Money]
    cvv2: NotRequired[str]
    auth_value: NotRequired[str]
    threeds_ref: NotRequired[str]
    mit: NotRequired[bool]
    kind: NotRequired[Literal["purchase", "refund"]]
    merchant_country: NotRequired[str]
    merchant_id: NotRequired[str]


class DryRunFields(TypedDict):
    """An authorization to evaluate: the members of a spend, and stated results of checks."""

    card_id: NotRequired[str]
    amount: Money
    merchant_amount: NotRequired[Money]
    mcc: str
    merchant_name: str
    channel: Channel
    entry_mode: NotRequired[EntryMode]
    scenario: NotRequired[str]
    approved_amount: NotRequired[Money]
    cvv2: NotRequired[str]
    auth_value: NotRequired[str]
    threeds_ref: NotRequired[str]
    mit: NotRequired[bool]
    kind: NotRequired[Literal["purchase", "refund"]]
    merchant_country: NotRequired[str]
    merchant_id: NotRequired[str]
    stand_in: NotRequired[bool]
    cvv2_result: NotRequired[Literal["match", "mismatch"]]
    authentication_result: NotRequired[Literal["present", "valid", "invalid"]]


class HeadroomQuery(TypedDict):
    """The merchant for which headroom is read."""

    mcc: str
    channel: Channel
    merchant_country: NotRequired[str]
    entry_mode: NotRequired[EntryMode]
    merchant_id: NotRequired[str]


class ForcePostFields(TypedDict):
    """A force post to simulate: a presentment without prior authorization."""

    card_id: str
    amount: Money
    merchant_amount: NotRequired[Money]
    mcc: str
    merchant_name: str
    merchant_country: NotRequired[str]


class TransferFields(TypedDict):
    """A transfer to post."""

    account_id: str
    direction: Direction
    amount: Money
    kind: TransferKind
    allow_negative: NotRequired[bool]
    external_ref: NotRequired[str | None]
    description: NotRequired[str | None]
    metadata: NotRequired[dict[str, str]]


class TransferFilter(TypedDict, total=False):
    """Filters for transfers."""

    account_id: str
    programme_id: str
    external_ref: str
    kind: TransferKind


class EntryFilter(TypedDict, total=False):
    """Filters for ledger entries; at least one is needed."""

    account_id: str
    authorization_id: str
    transfer_id: str


class TransactionFilter(TypedDict, total=False):
    """Filters for transactions."""

    card_id: str
    cardholder_id: str
    programme_id: str
    status: str
    kind: str
    decision: Literal["approved", "declined"]
    decline_reason: str
    mcc: str
    rrn: str
    network_txn_id: str
    merchant: str
    amount: str


class UserChange(TypedDict, total=False):
    """Members of a user to replace."""

    name: str
    role: Literal["user", "admin", "owner"]
    modes: list[Literal["test", "live"]]
    reveal: bool


class WebhookEndpointFields(TypedDict, total=False):
    """A webhook endpoint to create; ``["*"]`` subscribes to all types."""

    url: Required[str]
    event_types: Required[list[str]]
    description: str | None


class WebhookEndpointChange(TypedDict, total=False):
    """Changed members of a webhook endpoint."""

    url: str
    event_types: list[str]
    description: str | None
    status: Literal["enabled", "disabled"]


class SubmissionFields(TypedDict, total=False):
    """Data of an applicant: at least one member; a later value replaces an earlier one."""

    given_name: str
    family_name: str
    date_of_birth: str
    nationality: str
    document_type: DocumentType
    document_number: str
    document_expiry: str
    document_issuing_state: str
    document_mrz: str
    address_line1: str
    address_postcode: str
    address_country: str


class ControlsChange(TypedDict, total=False):
    """A change of every card's own controls."""

    remove: list[str]
    add: list[Control]


class AddedRule(TypedDict):
    """An authorization rule to try in a back-test, without creating it. Its scope is the back-test's."""

    name: str
    scope: NotRequired[BacktestScope]
    when: list[RuleCondition]
    action: NotRequired[RuleAction]
    reason: str
    state: NotRequired[Literal["draft", "shadow", "active"]]


class BacktestChange(TypedDict, total=False):
    """The change that a back-test examines. ``add_rules`` are versions of rules, ``id@version``, or bodies of
    new ones."""

    controls: ControlsChange
    add_rules: list[str | AddedRule]
    remove_rules: list[str]


class BacktestFields(TypedDict, total=False):
    """A back-test to run, without its window."""

    scope: Required[BacktestScope]
    change: Required[BacktestChange]
    assume_presented: bool
