"""Types of the API's answers. The client returns JSON bodies without conversion.

Amounts are decimal strings, instants ISO 8601 in UTC, ids UUIDs as text. New members may appear at any time.
"""

from __future__ import annotations

from typing import Any, Literal

from stanchion.compat import NotRequired, Required, TypedDict

Currency = Literal["EUR", "GBP", "USD"]
AccountKind = Literal["card", "funding_source", "settlement"]
Direction = Literal["credit", "debit"]
"""Seen from the account: a credit raises its balance."""
TransferKind = Literal["load", "unload", "adjustment", "fee"]
Decision = Literal["approved", "declined"]
KycFlow = Literal["basic", "document", "full"]
KycState = Literal["pending", "in_review", "passed", "failed", "expired"]
ExportKind = Literal["transactions", "ledger_entries", "decisions", "stand_ins"]
ExportFormat = Literal["csv", "jsonl"]
RuleAction = Literal["decline", "require_authentication"]
RuleState = Literal["draft", "shadow", "active", "retired"]
DocumentType = Literal["passport", "national_id", "residence_permit", "driving_licence"]


class Money(TypedDict):
    """A non-negative amount."""

    amount: str
    currency: str


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


class Control(TypedDict, total=False):
    """A limit on a card's purchases; ``kind`` decides whether it has ``values``, ``amount`` or ``count``."""

    kind: str
    values: list[str]
    amount: str
    count: int


class RuleScope(TypedDict):
    """The programme, card product or card whose purchases a rule decides on."""

    type: Literal["programme", "card_product", "card"]
    id: str


class RuleCondition(TypedDict, total=False):
    """``attribute op value``. ``measure``, ``window``, ``where`` and ``of`` belong to the attribute
    ``velocity``."""

    attribute: Required[str]
    measure: Literal["count", "amount", "declines", "distinct_merchants", "distinct_countries"]
    window: str
    where: list[RuleCondition]
    of: Literal["card", "account"]
    op: Required[str]
    value: Required[bool | int | str | list[int] | list[str]]


class RuleVersion(TypedDict):
    """One version of an authorization rule."""

    version: int
    name: str
    when: list[RuleCondition]
    action: RuleAction
    reason: str
    created_at: str


class AuthorizationRule(RuleVersion):
    """An authorization rule in its newest version."""

    id: str
    scope: RuleScope
    state: RuleState
    updated_at: str


class RuleFigures(TypedDict):
    """Numbers of authorizations that a rule matched."""

    matched: int
    in_shadow: int
    approved: int
    declined: int
    amount: str
    approved_amount: str


class RuleFiguresOfDay(RuleFigures):
    """The matches of one day."""

    day: str


class RuleFiguresOfMcc(RuleFigures):
    """The matches of one merchant category code."""

    mcc: str


class RuleFiguresOfCountry(RuleFigures):
    """The matches of one country of merchants."""

    country: str


class RuleFiguresOfVersion(RuleFigures):
    """The matches of one version of a rule."""

    version: int
    by_day: list[RuleFiguresOfDay]
    by_mcc: list[RuleFiguresOfMcc]
    by_country: list[RuleFiguresOfCountry]
    sample_transaction_ids: list[str]


# With the functional form, because ``from`` is a keyword.
RuleReport = TypedDict(
    "RuleReport",
    {
        "rule_id": str,
        "state": RuleState,
        "from": str,
        "to": str,
        "timezone": str,
        "currency": str,
        "as_of": str,
        "complete": bool,
        "versions": list[RuleFiguresOfVersion],
    },
)


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


class Account(TypedDict):
    """An account: ``available`` = ``posted`` - ``held``. ``posted`` and ``available`` may be negative."""

    id: str
    programme_id: str
    kind: AccountKind
    currency: str
    posted: str
    held: str
    available: str
    cards: int
    as_of: str
    version: int


class Transfer(TypedDict):
    """A transfer between an account and its programme's funding source."""

    id: str
    account_id: str
    programme_id: str
    direction: Direction
    kind: TransferKind
    amount: Money
    status: Literal["posted", "reversed"]
    external_ref: str | None
    description: str | None
    metadata: dict[str, str]
    created_at: str
    reversal_id: str | None
    reversed_at: str | None


class LedgerEntry(TypedDict):
    """One side of a transfer."""

    id: str
    transfer_id: str
    account_id: str
    direction: Direction
    amount: Money
    authorization_id: str | None
    created_at: str


class Acceptance(TypedDict):
    """An accepted simulation; ``stan`` is null if no message could be built."""

    simulation_id: str
    accepted_at: str
    stan: str | None
    rrn: str | None
    network_txn_id: str


class Failure(TypedDict):
    """The cause of a failed simulation."""

    stage: str
    code: str
    detail: str


class Simulation(TypedDict):
    """A simulated spend, increment, reversal or clearing."""

    simulation_id: str
    parent_simulation_id: str | None
    operation: str
    kind: str
    state: str
    card_id: str
    amount: Money
    merchant_amount: Money | None
    approved_amount: Money | None
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None
    channel: str
    entry_mode: str | None
    scenario: str | None
    mit: bool
    stan: str | None
    rrn: str | None
    network_txn_id: str | None
    accepted_at: str
    sent_at: str | None
    decided_at: str | None
    failed_at: str | None
    decision: Decision | None
    decline_reason: str | None
    decline_detail: str | None
    response_code: str | None
    approval_code: str | None
    authorization_id: str | None
    transaction_id: str | None
    hold_id: str | None
    failure: Failure | None


class FollowUp(TypedDict):
    """An accepted increment, reversal or clearing."""

    simulation_id: str
    parent_simulation_id: str
    accepted_at: str
    stan: str | None
    rrn: str | None
    network_txn_id: str | None


class ExpiredHold(TypedDict):
    """A hold that the client let lapse early."""

    simulation_id: str
    authorization_id: str
    status: str


class Merchant(TypedDict):
    """The merchant of a transaction; ``id`` is the acquirer's."""

    id: str | None
    name: str
    country: str


class Network(TypedDict):
    """The network's identifiers of a transaction."""

    name: str
    acquirer_id: str
    stan: str
    rrn: str
    network_txn_id: str | None
    approval_code: str | None
    response_code: str


class Risk(TypedDict):
    """The risk score (0-100) and the resulting action."""

    score: int
    action: str


class RuleResult(TypedDict):
    """One rule of a decision: its outcome, the observed value and the limit."""

    rule: str
    outcome: str
    observed: str | None
    limit: str | None


class AsOf(TypedDict):
    """The state that a dry run read: the last command on the card, the version of its programme, the time."""

    card_seq: int
    programme_version: int
    at: str


class DryRun(TypedDict):
    """A decision as it would be made. ``delegated``: the programme's endpoint, which was not called, would
    decide."""

    card_id: str
    decision: Literal["approved", "declined", "delegated"]
    decided_by: str
    decline_reason: str | None
    decline_detail: str | None
    approved_amount: Money | None
    response_code: str | None
    risk: Risk
    trace: list[RuleResult]
    as_of: AsOf


class Binding(TypedDict):
    """The rule that declines one minor unit more than the headroom."""

    rule: str
    decline_reason: str
    decline_detail: str | None
    unit: Literal["amount", "count"] | None
    limit: str | None
    used: str | None


class Limit(TypedDict):
    """A limit on purchases: an amount, or a number of purchases (``count``)."""

    rule: str
    unit: Literal["amount", "count"]
    limit: str
    used: str
    remaining: str
    resets_at: str | None


class Headroom(TypedDict):
    """The largest purchase that the platform approves now."""

    card_id: str
    max_amount: str
    currency: str
    decided_by: Literal["platform", "programme"]
    decline_reason: str | None
    binding: Binding | None
    limits: list[Limit]
    as_of: AsOf


class TransactionEvent(TypedDict):
    """One entry in the history of a transaction."""

    type: str
    amount: str
    occurred_at: str
    remark: str


class Transaction(TypedDict):
    """An authorization, refund or force post, with its history."""

    id: str
    kind: str
    status: str
    card_id: str
    cardholder_id: str
    programme_id: str
    authorization_id: str
    hold_id: str | None
    currency: str
    requested_amount: str
    merchant_amount: Money
    conversion_rate: str | None
    approved_amount: str
    held_amount: str
    cleared_amount: str
    reversed_amount: str
    mcc: str
    merchant: Merchant
    channel: str | None
    entry_mode: str | None
    network: Network
    decision: Decision | None
    decline_reason: str | None
    decline_detail: str | None
    decided_by: str | None
    risk: Risk | None
    trace: list[RuleResult]
    events: list[TransactionEvent]
    created_at: str
    updated_at: str
    metadata: dict[str, str]


class Replay(TypedDict):
    """A decision made again from its stored inputs."""

    identical: bool
    recorded: dict[str, Any]
    recomputed: dict[str, Any]


class Triggers(TypedDict, total=False):
    """The failures of a programme's endpoint that lead to stand-in."""

    connection_error: bool
    timeout: bool
    invalid_response: bool


class StandInPolicy(TypedDict):
    """The ceilings for approvals during an outage of a programme's endpoint."""

    programme_id: str
    mode: str
    triggers: Triggers
    max_amount: str | None
    max_total_exposure: Money | None
    max_count_per_day: int | None
    mcc_list: list[str]
    mcc_list_mode: str
    version: int
    updated_at: str


class StandIn(TypedDict):
    """One decision in stand-in; ``*_minor`` are whole minor units, as text."""

    id: str
    programme_id: str
    card_id: str
    authorization_id: str
    outage_id: str | None
    decided_at: str
    decision: Decision
    rule: str
    trigger: str
    amount: str
    currency: Currency
    mcc: str
    exposure_minor: str
    budget_used_minor: str
    budget_limit_minor: str | None
    response_code: str
    stan: str
    rrn: str


class Event(TypedDict):
    """The envelope of an event; deduplicate on ``id``."""

    id: str
    type: str
    created_at: str
    data: dict[str, Any]


class EventType(TypedDict):
    """A type of event; ``schema`` is the JSON Schema of its ``data``."""

    type: str
    status: Literal["live", "planned"]
    description: str
    schema: dict[str, Any]


class WebhookEndpoint(TypedDict):
    """An address that receives events."""

    id: str
    url: str
    event_types: list[str]
    description: str | None
    status: Literal["enabled", "disabled"]
    previous_secret_expires_at: str | None
    created_at: str
    updated_at: str


class WebhookEndpointSecret(WebhookEndpoint):
    """An endpoint with its new signing secret, which the API returns only once."""

    secret: str


class Attempt(TypedDict):
    """One attempt of a delivery."""

    number: int
    started_at: str
    latency_ms: int | None
    status_code: int | None
    error: str | None


class Delivery(TypedDict):
    """A delivery of an event to one endpoint."""

    id: str
    event_id: str
    event_type: str | None
    redelivery: bool
    state: Literal["pending", "delivered", "failed"]
    failure: str | None
    attempts: list[Attempt]
    next_attempt_at: str | None
    created_at: str


class Redelivery(TypedDict):
    """A requested delivery of a past event, or of a test event."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    status: str


class KycCheck(TypedDict):
    """A check of a cardholder's identity; the API never returns submitted data."""

    id: str
    cardholder_id: str
    flow_key: KycFlow
    state: KycState
    awaiting: list[str]
    reason_codes: list[str]
    document_type: NotRequired[DocumentType]
    created_at: str
    completed_at: str | None
    expires_at: str | None


class CaptureSession(TypedDict):
    """A session of one hour on the capture page. Give ``url``, which contains the token, only to the
    applicant."""

    id: str
    check_id: str
    kind: Literal["flow", "single"]
    capture_session_token: str
    url: str
    expires_at: str


class Download(TypedDict):
    """The address of an export's content, relative to that of the API. It needs no token: keep it secret."""

    url: str
    expires_at: str


# ``from`` is no name in Python, so this type has the functional form.
Export = TypedDict(
    "Export",
    {
        "id": str,
        "kind": ExportKind,
        "format": ExportFormat,
        "from": str,
        "to": str,
        "state": Literal["pending", "running", "completed", "failed"],
        "failure": str | None,
        "rows": int,
        "rows_estimated": int | None,
        "bytes": int,
        "sha256": str | None,
        "as_of": str | None,
        "created_at": str,
        "completed_at": str | None,
        "download": Download | None,
    },
)
"""An export; ``sha256`` and ``bytes`` are those of the content without compression."""


class SettlementPart(TypedDict):
    """A number of transactions or entries, and the sum of their amounts."""

    count: int
    amount: str


class SettlementLine(TypedDict):
    """The amounts of one network and currency; ``net`` is ``presented`` - ``refunded`` + ``fees``."""

    network: str | None
    currency: str
    authorized: SettlementPart
    presented: SettlementPart
    refunded: SettlementPart
    fees: SettlementPart
    net: str


SettlementReport = TypedDict(
    "SettlementReport",
    {
        "programme_id": str,
        "date": str,
        "timezone": str,
        "from": str,
        "to": str,
        "as_of": str,
        "final": bool,
        "lines": list[SettlementLine],
    },
)
"""The settlement report of one programme and day."""


class ApiClient(TypedDict):
    """An API client; its secret is not readable."""

    id: str
    client_id: str
    name: str | None
    mode: str
    role: str
    scopes: list[str]
    status: str
    previous_secret_expires_at: str | None
    created_at: str
    revoked_at: str | None


class ClientSecret(ApiClient):
    """A client with its new secret, which is shown once."""

    client_secret: str


class User(TypedDict):
    """A person who signs in to the console."""

    id: str
    email: str
    name: str
    role: str
    modes: list[str]
    reveal: bool
    status: Literal["invited", "active", "disabled"]
    totp_enabled: bool
    created_at: str
    last_sign_in_at: str | None
    disabled_at: str | None


class UserInvitation(User):
    """A user with an invitation, which is shown once."""

    invitation_url: str
    invitation_expires_at: str


class Actor(TypedDict):
    """Who acted: a client or a user by its id, or an operator by name."""

    kind: str
    id: str
    name: str | None


class ActObject(TypedDict):
    """The object of an act."""

    kind: str
    id: str | None


class AuditEntry(TypedDict):
    """One administrative act, with the members that it changed."""

    id: str
    recorded_at: str
    actor: Actor
    act: str
    object: ActObject
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    request_id: str


BacktestState = Literal["queued", "running", "done", "failed", "cancelled"]
FlipDirection = Literal["approved_to_declined", "declined_to_approved"]


class BacktestScope(TypedDict):
    """The cards to which the change of a back-test applies."""

    type: Literal["programme", "card_product", "card"]
    id: str


class BacktestProgress(TypedDict):
    """Cards of the scope whose histories were lived, and all of them once they are counted."""

    cards_done: int
    cards: int | None


class BacktestBaseline(TypedDict):
    """The recorded decisions, made again with the unchanged controls and rules."""

    decisions: int
    mismatches: int
    examples: list[str]
    cards_left_out: int


class BacktestSide(TypedDict):
    """The decisions of one of the two runs."""

    decisions: int
    approved: int
    declined: int
    approved_amount: str
    not_sent: int


class FlipCount(TypedDict):
    """A number of decisions, and the amount that one of the runs approves."""

    count: int
    amount: str


class FlipCounts(TypedDict):
    """The decisions that a change turns."""

    approved_to_declined: FlipCount
    declined_to_approved: FlipCount


class RuleFlips(FlipCounts):
    """Those of one rule."""

    rule: str


class MccFlips(FlipCounts):
    """Those of one merchant category."""

    mcc: str


class DayFlips(FlipCounts):
    """Those of one day."""

    day: str


# ``from`` is no name in Python, so this type has the functional form.
Backtest = TypedDict(
    "Backtest",
    {
        "id": str,
        "scope": BacktestScope,
        "from": str,
        "to": str,
        "change": dict[str, Any],
        "assume_presented": bool,
        "state": BacktestState,
        "failure": str | None,
        "progress": BacktestProgress,
        "currency": str,
        "baseline": BacktestBaseline | None,
        "before": BacktestSide | None,
        "after": BacktestSide | None,
        "flips": FlipCounts | None,
        "by_rule": list[RuleFlips] | None,
        "by_mcc": list[MccFlips] | None,
        "by_day": list[DayFlips] | None,
        "as_of": str | None,
        "created_at": str,
        "started_at": str | None,
        "completed_at": str | None,
    },
)
"""A back-test; its figures are there once it is ``done``."""


class Flip(TypedDict):
    """A decision that a change turns; ``before`` and ``after`` have their traces."""

    id: str
    authorization_id: str
    card_id: str
    decided_at: str
    operation: Literal["authorization", "increment"]
    direction: FlipDirection
    rule: str
    amount: str
    currency: str
    mcc: str
    before: dict[str, Any]
    after: dict[str, Any]


class Link(TypedDict):
    """A link to a network or processor at one edge; its figures are those of all tenants."""

    name: str
    edge: str
    mode: Literal["test", "live"]
    direction: Literal["listen", "connect"]
    tls: bool
    state: Literal["up", "down", "draining", "signed_off"]
    connections: int
    connections_wanted: int | None
    signed_on: int
    sign_on: Literal["required", "optional", "none"]
    in_flight: int
    answers_per_minute: dict[str, int]
    refused: dict[str, int]
    last_error: str | None
    last_error_at: str | None
    reported_at: str
