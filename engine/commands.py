"""Commands to the owners of cards and programmes; the caller chooses their ids and keys.

The ids of all rows that a command creates derive from its ``id`` (``engine.ids.derive``). A ``command_key``
(16 bytes) is executed at most once. The ``fingerprint`` (16 bytes) distinguishes a repeat from a different
request under the same key. Commands are msgpack between processes and JSON in the journal.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.controls import Control
from engine.currencies import MerchantAmount
from engine.programmes.programme import ProgrammeConfig
from engine.programmes.stand_in import StandInPolicy, StandInRequest
from engine.rules.model import Rule, RuleChange
from engine.transfer import Direction, PostedTransfer, TransferKind

Channel = Literal["pos", "ecommerce", "atm", "moto"]
EntryMode = Literal["contactless", "chip", "magstripe", "manual", "ecommerce", "credential_on_file"]


class WireIdentity(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The fields that identify a message of a network (ISO 8583 data elements in brackets)."""

    acquirer_id: str
    """Acquiring institution (DE32)."""
    stan: str
    """System trace audit number, six digits (DE11)."""
    transmitted_at: str
    """Transmission date and time UTC, MMDDhhmmss (DE7)."""
    rrn: str
    """Retrieval reference number, twelve characters (DE37)."""
    network_txn_id: str | None = None
    """The network transaction id, which all messages of a transaction share (DE48 tag 04)."""
    further: str = ""
    """Values of the further identity fields of the link's profile."""


class _Command(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="command", gc=False):
    id: str
    command_key: bytes


class Authorize(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="authorize"):
    """Decide one authorization, refund or account verification (0100). ``id`` is the authorization id."""

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    amount_minor: int
    currency: str
    """Alphabetic code; for a currency in which no card is issued, the numeric code (DE49)."""
    mcc: str
    merchant_name: str
    merchant_country: str
    """ISO 3166-1 alpha-2, from the last two characters of DE43."""
    channel: Channel
    merchant_id: str | None = None
    """The acquirer's id of the merchant without padding (DE42). Commands from before it was recorded have
    none."""
    kind: Literal["purchase", "refund"] = "purchase"
    entry_mode: EntryMode | None = None
    mit: bool = False
    partial_allowed: bool = False
    partial_cap_minor: int | None = None
    """The terminal's cap on a partial approval (DE48 tag 07), if it sent one."""
    expiry: Literal["absent", "match", "mismatch"] = "absent"
    """Outcome of the edge's comparison of DE14 and of the expiry in DE35 with the card's."""
    cvv2: Literal["absent", "missing", "match", "mismatch"] = "absent"
    """Outcome of the edge's check; the value itself stays at the edge. ``missing``: the message has no CVV2,
    and its entry mode does not say that a terminal read the card."""
    cvv1: Literal["absent", "match", "mismatch"] = "absent"
    """Outcome of the edge's check of service code and CVV1 (or the chip's iCVV) in track 2 (DE35)."""
    pin: Literal["absent", "ignored", "refused", "valid", "invalid"] = "absent"
    """Outcome for the PIN block (DE52); ``ignored`` and ``refused``: the edge could not verify it, and its
    policy says how to go on."""
    chip: Literal["absent", "present", "refused", "valid", "invalid"] = "absent"
    """Outcome for the EMV data (DE55), which are well-formed; ``present`` and ``refused``: the edge could not
    verify the cryptogram."""
    chip_tags: tuple[str, ...] = ()
    """The objects of DE55 as ``TAG=VALUE``, sensitive values masked (``engine.iso8583.emv_tlv.shown``)."""
    address: Literal["absent", "present"] = "absent"
    """Whether the message has a well-formed billing address (DE48 tags 12 and 13); it is not verified."""
    authentication: Literal["absent", "present", "malformed", "valid", "invalid"] = "absent"
    """Outcome of the 3DS check of DE48 tags 02 and 03; ``present`` means well-formed and not verified,
    ``valid`` verified with a key of the programme. Records from before ``present`` and ``malformed`` existed
    have ``valid`` and ``invalid`` for the form."""
    merchant_amount: MerchantAmount | None = None
    """The amount in the merchant's currency if the network converted it; ``amount_minor`` and ``currency``
    are then the billing amount (DE6, DE51)."""
    references: tuple[str, ...] = ()
    """Set on an increment (DE48 tag 06 ``INC``): references of the original, the most specific first.
    ``amount_minor`` is then the additional amount."""
    endpoint_silent: bool = False
    """The programme's endpoint is treated as if it timed out (DE48 tag 99 ``delegated_timeout``, test mode
    only)."""


class Reverse(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="reverse"):
    """Release the held amount of an authorization (0400, 0420). A reversal is never declined."""

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    references: tuple[str, ...]
    """References of the original, the most specific first (``reference_of_*``)."""
    remaining_minor: int | None = None
    """The amount that stays held after a partial reversal (DE95); ``None`` releases the whole amount."""
    remaining_currency: str | None = None
    """The currency of ``remaining_minor`` if the message says it (DE49): the card's, or the merchant's."""
    increment_minor: int | None = None
    """Set when the original is one increment of a larger authorization: the amount to release."""
    late: bool = False
    """Whether an edge reverses an approval that came too late for its network. It is not a reversal by the
    network, whose own approval, reported in an advice, still counts."""


class Present(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="present"):
    """Clear a sale or a refund (0220). A presentment is never declined for funds, controls or the card's
    state.

    ``command_key`` is derived from the ARN and its sequence, so a repeated presentment posts once.
    """

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    references: tuple[str, ...]
    kind: Literal["purchase", "refund"]
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None = None
    """As in ``Authorize``."""
    arn: str | None
    """Acquirer reference number (DE48 tag 08)."""
    sequence: int
    """The number of this presentment within its ARN, from 1."""
    final: bool = True
    """Whether this is the last presentment, which releases the rest of the hold (DE48 tag 09)."""
    matched_only: bool = False
    """Whether a sale without an approved authorization is refused: its link may not send force posts."""
    merchant_amount: MerchantAmount | None = None
    """As in ``Authorize``. Its rate may be another one than that of the authorization."""


class Advise(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="advise"):
    """Record a decision that was made elsewhere (0120); the outcome that the merchant saw counts."""

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    references: tuple[str, ...]
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel
    merchant_id: str | None = None
    """As in ``Authorize``."""
    entry_mode: EntryMode | None = None
    approved: bool = True
    """Whether the merchant saw an approval (DE39 of the advice)."""
    approval_code: str | None = None
    """DE38 as the merchant received it."""
    stand_in: bool = False
    """Whether the network decided instead of the issuer, because no answer came in time (DE48 tag 11)."""
    merchant_amount: MerchantAmount | None = None
    """As in ``Authorize``."""
    increment: bool = False
    """Whether the amount is added to that of the authorization, on links that advise increments."""


class Expire(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="expire"):
    """Lapse the hold of one authorization now (test mode), or all expired holds of the account."""

    card_id: str
    tenant_id: str | None = None
    live: bool = False
    references: tuple[str, ...] = ()
    """The authorization whose hold lapses before its expiry; empty lapses all expired holds."""


class Continuation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The state that a replacement card continues: the counters of ``day`` and the declared balance of the
    card that it replaces. Amounts in minor units."""

    card_id: str
    """The replaced card."""
    day: str = ""
    day_count: int = 0
    day_amount_minor: int = 0
    declared_minor: int | None = None
    consumed_minor: int = 0
    declared_ms: int = 0


class CreateCard(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="create_card"):
    """Issue a card. ``id`` is the card's id; the vault already has the card number under it."""

    tenant_id: str
    live: bool
    programme_id: str
    card_product_id: str
    cardholder_id: str
    account_id: str | None
    """The funding account; ``None`` leaves the card unfunded."""
    opens_account: bool
    """Whether ``account_id`` is a new account that this command opens."""
    network: Literal["visa", "mastercard"]
    currency: str
    iin: str
    last4: str
    pan_ref: str
    exp_month: int
    exp_year: int
    cvk_generation: str
    state: Literal["unactivated", "active"]
    controls: tuple[Control, ...] = ()
    rules: tuple[Rule, ...] = ()
    """The authorization rules of a replaced card, which now belong to its replacement."""
    cardholder_active: bool = True
    """``False``: the card declines until ``SetCardholderStatus`` activates its cardholder."""
    external_ref: str | None = None
    """The issuer's own reference, for the event only: the API stores it."""
    metadata: dict[str, str] = {}
    """The issuer's own pairs, for the event only."""
    continues: Continuation | None = None
    """Set on a replacement; its owner issues it together with ``ReplaceCard``."""


Replacement = Literal["lost", "stolen", "damaged", "expired"]
"""Why a card is replaced."""


class ReplaceCard(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="replace_card"):
    """End a card, and issue its replacement on the same account and shard. ``id`` is the replacement's id;
    the vault already has its card number under it. The replacement declines until
    ``SetCardholderStatus``."""

    card_id: str
    """The card to be replaced."""
    tenant_id: str
    live: bool
    reason: Replacement
    last4: str
    pan_ref: str
    exp_month: int
    exp_year: int
    cvk_generation: str
    state: Literal["unactivated", "active"]
    external_ref: str | None = None
    """The reference of both cards, for the events only: the API stores it."""
    metadata: dict[str, str] = {}
    """The pairs of both cards, for the events only."""


class ChangeCard(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="change_card"):
    """Change a card's state, controls or both; ``None`` leaves a part unchanged."""

    card_id: str
    tenant_id: str
    live: bool
    state: str | None = None
    state_reason: str | None = None
    controls: tuple[Control, ...] | None = None
    external_ref: str | None = None
    """As in ``CreateCard``."""
    metadata: dict[str, str] = {}


class SetCardholderStatus(
    _Command, frozen=True, omit_defaults=True, kw_only=True, tag="set_cardholder_status"
):
    """Set whether a card's cardholder is active; otherwise the card declines."""

    card_id: str
    tenant_id: str
    live: bool
    active: bool


class CreateCardRule(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="create_card_rule"):
    """Create a rule of a card. ``id`` is the rule's id, on the shard of the card; ``rule`` has version 1 and
    any state but ``retired``. The owner sets its times. The reply is ``rule_view``."""

    card_id: str
    tenant_id: str
    live: bool
    rule: Rule


class ChangeCardRule(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="change_card_rule"):
    """Change a rule of a card, or its state. A rule that is retired, or unknown, is refused (409)."""

    card_id: str
    tenant_id: str
    live: bool
    change: RuleChange


class DeclareBalance(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="declare_balance"):
    """Declare the amount that a card may spend in stand-in; replaces the earlier declaration and its use."""

    card_id: str
    tenant_id: str
    live: bool
    amount_minor: int
    currency: str


class Load(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="load"):
    """Credit a card's funding account from the programme's funding source."""

    card_id: str
    tenant_id: str
    live: bool
    amount_minor: int
    currency: str


class Transfer(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="transfer"):
    """Move money between an account and its programme's funding source. ``card_id`` is the card with which
    the account was opened: the owner of both decides. The transfer's id derives from ``id``
    (``Derived.TRANSFER``)."""

    card_id: str
    tenant_id: str
    live: bool
    account_id: str
    direction: Direction
    kind: TransferKind
    amount_minor: int
    currency: str
    allow_negative: bool = False
    """Whether a debit may exceed the available balance."""
    external_ref: str | None = None
    """The issuer's own reference."""
    description: str | None = None
    metadata: dict[str, str] = {}
    """The issuer's own pairs."""


class ReverseTransfer(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="reverse_transfer"):
    """Post the opposite of a transfer, in full. ``command_key`` derives from the transfer's id
    (``Derived.TRANSFER_REVERSAL``), so a transfer is reversed at most once."""

    card_id: str
    tenant_id: str
    live: bool
    transfer: PostedTransfer
    """The transfer as it was posted."""
    allow_negative: bool = False
    """As in ``Transfer``."""


class ReadBalance(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="read_balance"):
    """Read a card's present balance from its owner. It is not journaled."""

    card_id: str
    tenant_id: str
    live: bool


class CreateProgramme(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="create_programme"):
    """Create a programme; ``id`` is its id, ``config.version`` is 1."""

    config: ProgrammeConfig
    decision_secret_sealed: bytes
    """The secret that signs calls to the programme's decision endpoint, sealed by the vault. The API shows it
    once."""


class ChangeProgramme(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="change_programme"):
    """Replace parts of a programme's configuration; ``changes`` maps field names to new values."""

    programme_id: str
    tenant_id: str
    live: bool
    changes: dict[str, str | int | list[str] | None]


class SetStandInPolicy(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="set_stand_in_policy"):
    """Replace a programme's stand-in policy; the owner sets its version and time."""

    programme_id: str
    tenant_id: str
    live: bool
    policy: StandInPolicy


class CreateProgrammeRule(
    _Command, frozen=True, omit_defaults=True, kw_only=True, tag="create_programme_rule"
):
    """Create a rule of a programme or of a card product: as ``CreateCardRule``, on the programme's shard."""

    programme_id: str
    tenant_id: str
    live: bool
    rule: Rule


class ChangeProgrammeRule(
    _Command, frozen=True, omit_defaults=True, kw_only=True, tag="change_programme_rule"
):
    """Change a rule of a programme or of a card product, or its state: as ``ChangeCardRule``."""

    programme_id: str
    tenant_id: str
    live: bool
    change: RuleChange


class GrantStandIns(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="grant_stand_ins"):
    """Reserve exposure for several approvals in stand-in. If they start an outage, its id derives from
    ``id``."""

    programme_id: str
    asks: tuple[StandInRequest, ...]


class EndOutage(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="end_outage"):
    """End this outage after a usable answer of the programme's endpoint."""

    programme_id: str
    outage_id: str


CardCommand = (
    Authorize
    | Reverse
    | Present
    | Advise
    | Expire
    | CreateCard
    | ReplaceCard
    | ChangeCard
    | SetCardholderStatus
    | CreateCardRule
    | ChangeCardRule
    | DeclareBalance
    | Load
    | Transfer
    | ReverseTransfer
    | ReadBalance
)
ProgrammeChange = (
    ChangeProgramme | SetStandInPolicy | CreateProgrammeRule | ChangeProgrammeRule | GrantStandIns | EndOutage
)
"""Changes of an existing programme."""
ProgrammeCommand = CreateProgramme | ProgrammeChange
Command = CardCommand | ProgrammeCommand


AuthorizationCommand = Authorize | Reverse | Present | Advise | Expire
"""Commands that can name an earlier authorization."""

# The same as tuples: ``isinstance`` is faster with them, and runs for every command.
AUTHORIZATION_COMMANDS: Final = (Authorize, Reverse, Present, Advise, Expire)
PROGRAMME_CHANGES: Final = (
    ChangeProgramme,
    SetStandInPolicy,
    CreateProgrammeRule,
    ChangeProgrammeRule,
    GrantStandIns,
    EndOutage,
)
PROGRAMME_COMMANDS: Final = (CreateProgramme, *PROGRAMME_CHANGES)
_CREATIONS: Final = (CreateCard, CreateProgramme)


def reference_of_network(network_txn_id: str) -> str:
    """The reference of a network transaction id."""
    return f"n:{network_txn_id}"


def reference_of_message(command_key: bytes) -> str:
    """The reference of the message with ``command_key``."""
    return f"k:{command_key.hex()}"


def key_of_message(reference: str) -> bytes:
    """The command key in the reference of a message."""
    return bytes.fromhex(reference.removeprefix("k:"))


def is_network(reference: str) -> bool:
    """Whether ``reference`` is a network transaction id, which several authorizations can share."""
    return reference.startswith("n:")


def is_message(reference: str) -> bool:
    """Whether ``reference`` names a message, not a network transaction id or an authorization."""
    return reference.startswith("k:")


def reference_of_id(authorization_id: str) -> str:
    """The reference of an authorization's own id."""
    return f"a:{authorization_id}"


def target_of(command: Command) -> str:
    """The id of the card or programme whose owner executes ``command``."""
    if isinstance(command, Authorize):
        # The most frequent command first.
        return command.card_id
    if isinstance(command, _CREATIONS):
        return command.id
    return command.programme_id if isinstance(command, PROGRAMME_CHANGES) else command.card_id
