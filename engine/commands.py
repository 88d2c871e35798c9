"""What owners can be asked to do. Commands are imperative and immutable; their ids and keys are chosen by
the caller.

``id`` is the root id of everything the command may create (``engine.ids.derive``); ``command_key`` (16
bytes) is the identity under which the command is executed at most once; ``fingerprint`` (16 bytes) tells an
honest repeat from a different request under the same identity. Commands travel as msgpack between processes
and rest as JSON in the journal.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.controls import Control
from engine.programmes.programme import ProgrammeConfig
from engine.programmes.stand_in import StandInPolicy, StandInRequest

Channel = Literal["pos", "ecommerce", "atm", "moto"]
EntryMode = Literal["contactless", "chip", "magstripe", "manual", "ecommerce", "credential_on_file"]


class WireIdentity(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How a network names a message (ISO 8583 data elements in brackets)."""

    acquirer_id: str
    """Acquiring institution (DE32)."""
    stan: str
    """System trace audit number, six digits (DE11)."""
    transmitted_at: str
    """Transmission date and time UTC, MMDDhhmmss (DE7)."""
    rrn: str
    """Retrieval reference number, twelve characters (DE37)."""
    network_txn_id: str | None = None
    """The scheme's id for the whole life of the transaction (DE48 tag 04)."""


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
    """Alphabetic code, or the numeric one (DE49) when it is none that can be issued."""
    mcc: str
    merchant_name: str
    merchant_country: str
    """ISO 3166-1 alpha-2, from the last two characters of DE43."""
    channel: Channel
    kind: Literal["purchase", "refund"] = "purchase"
    entry_mode: EntryMode | None = None
    mit: bool = False
    partial_allowed: bool = False
    partial_cap_minor: int | None = None
    """The terminal's own cap on a partial approval (DE48 tag 07), if it named one."""
    expiry: Literal["absent", "match", "mismatch"] = "absent"
    """Outcome of the edge's comparison of DE14 and of the expiry in DE35 with the card's."""
    cvv2: Literal["absent", "missing", "match", "mismatch"] = "absent"
    """Outcome of the edge's check: the value itself never travels further. ``missing``: no CVV2 came, and
    the message does not say that the card itself was read."""
    pin: Literal["absent", "ignored", "refused"] = "absent"
    """Whether a PIN block (DE52) came, and how the profile treats one that it cannot verify."""
    chip: Literal["absent", "present"] = "absent"
    """Whether well-formed EMV data (DE55) came; nothing in it is verified."""
    authentication: Literal["absent", "present", "malformed", "valid", "invalid"] = "absent"
    """Outcome of the 3DS check of DE48 tags 02 and 03; ``present`` means well-formed and not verified.
    ``valid`` and ``invalid`` stand in older records, in place of ``present`` and ``malformed``."""
    references: tuple[str, ...] = ()
    """Set on an increment (DE48 tag 06 ``INC``): names of the original, the most exact first.
    ``amount_minor`` is then the additional amount."""
    endpoint_silent: bool = False
    """The programme's endpoint counts as silent until its deadline (DE48 tag 99 ``delegated_timeout``, test
    mode only)."""


class Reverse(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="reverse"):
    """Give back what an authorization still holds (0400, 0420). It can never be declined."""

    card_id: str
    fingerprint: bytes
    wire: WireIdentity
    references: tuple[str, ...]
    """Names of the original, the most exact first (``reference_of_*``)."""
    remaining_minor: int | None = None
    """What stays held, of a partial reversal (DE95); ``None`` gives everything back."""
    increment_minor: int | None = None
    """Set when the original is a single increment of a larger authorization: so much of it is given back and
    no more."""
    late: bool = False
    """Whether an edge reverses an approval that came too late to be told. The network has reversed nothing:
    its own approval, in an advice, still counts."""


class Present(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="present"):
    """Clear a sale or a refund (0220): money moves now. It is never declined for funds, controls or state.

    ``command_key`` is derived from the ARN and its sequence, so a presentment that comes twice posts once.
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
    arn: str | None
    """Acquirer reference number (DE48 tag 08)."""
    sequence: int
    """Of this presentment within its ARN, from 1."""
    final: bool = True
    """Whether no further presentment follows; what is still held is then released (DE48 tag 09)."""


class Advise(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="advise"):
    """Take note of what was decided elsewhere (0120): what the merchant saw counts."""

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
    entry_mode: EntryMode | None = None
    approved: bool = True
    """Whether the merchant saw an approval (DE39 of the advice)."""
    approval_code: str | None = None
    """DE38, as the merchant was given it."""
    stand_in: bool = False
    """Whether the network decided in the issuer's stead, because no answer came in time (DE48 tag 11)."""


class Expire(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="expire"):
    """Let holds lapse: those of one authorization now (test mode), or all of the account that are due."""

    card_id: str
    tenant_id: str | None = None
    live: bool = False
    references: tuple[str, ...] = ()
    """The authorization whose hold lapses before its time; empty lapses what is due."""


class CreateCard(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="create_card"):
    """Issue a card; ``id`` is the card's id. Its number is already in custody under that id."""

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
    cardholder_active: bool = True
    """``False``: the card declines until ``SetCardholderStatus`` says that its cardholder is active."""


class ChangeCard(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="change_card"):
    """Change a card's state, controls or both; absent parts stay as they are."""

    card_id: str
    tenant_id: str
    live: bool
    state: str | None = None
    state_reason: str | None = None
    controls: tuple[Control, ...] | None = None


class SetCardholderStatus(
    _Command, frozen=True, omit_defaults=True, kw_only=True, tag="set_cardholder_status"
):
    """Tell a card whether its cardholder is active; only then it can be used."""

    card_id: str
    tenant_id: str
    live: bool
    active: bool


class DeclareBalance(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="declare_balance"):
    """Say what a card may spend in stand-in; replaces what was declared before, and what of it was used."""

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


class ReadBalance(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="read_balance"):
    """Ask the owner for a card's balance as of now; nothing is journaled unless holds have lapsed."""

    card_id: str
    tenant_id: str
    live: bool


class CreateProgramme(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="create_programme"):
    """Create a programme; ``id`` is its id, ``config.version`` is 1."""

    config: ProgrammeConfig
    decision_secret_sealed: bytes
    """Signs the calls to the programme's decision endpoint; sealed in custody, shown once by the API."""


class ChangeProgramme(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="change_programme"):
    """Replace parts of a programme's configuration; ``changes`` maps field names to new values."""

    programme_id: str
    tenant_id: str
    live: bool
    changes: dict[str, str | int | list[str] | None]


class SetStandInPolicy(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="set_stand_in_policy"):
    """Replace a programme's stand-in policy; its version and time are the owner's to give."""

    programme_id: str
    tenant_id: str
    live: bool
    policy: StandInPolicy


class GrantStandIns(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="grant_stand_ins"):
    """Reserve exposure for approvals in stand-in, many at once; ``id`` names the outage if this begins
    one."""

    programme_id: str
    asks: tuple[StandInRequest, ...]


class EndOutage(_Command, frozen=True, omit_defaults=True, kw_only=True, tag="end_outage"):
    """A usable answer has come: end this outage, unless it has ended."""

    programme_id: str
    outage_id: str


CardCommand = (
    Authorize
    | Reverse
    | Present
    | Advise
    | Expire
    | CreateCard
    | ChangeCard
    | SetCardholderStatus
    | DeclareBalance
    | Load
    | ReadBalance
)
ProgrammeChange = ChangeProgramme | SetStandInPolicy | GrantStandIns | EndOutage
"""What changes a programme that exists."""
ProgrammeCommand = CreateProgramme | ProgrammeChange
Command = CardCommand | ProgrammeCommand


AuthorizationCommand = Authorize | Reverse | Present | Advise | Expire
"""Commands that can name an earlier authorization."""

# The same as tuples, which are quicker to look at: on the way of every command.
AUTHORIZATION_COMMANDS: Final = (Authorize, Reverse, Present, Advise, Expire)
PROGRAMME_CHANGES: Final = (ChangeProgramme, SetStandInPolicy, GrantStandIns, EndOutage)
PROGRAMME_COMMANDS: Final = (CreateProgramme, *PROGRAMME_CHANGES)
_CREATIONS: Final = (CreateCard, CreateProgramme)


def reference_of_network(network_txn_id: str) -> str:
    """The name of an authorization by the scheme's transaction id."""
    return f"n:{network_txn_id}"


def reference_of_message(command_key: bytes) -> str:
    """The name of an authorization by the command key of the message that asked for it."""
    return f"k:{command_key.hex()}"


def key_of_message(reference: str) -> bytes:
    """The command key in ``reference``, which names a message."""
    return bytes.fromhex(reference.removeprefix("k:"))


def is_network(reference: str) -> bool:
    """Whether ``reference`` is a network id, which several authorizations can share."""
    return reference.startswith("n:")


def is_message(reference: str) -> bool:
    """Whether ``reference`` names a message, and not a life or an authorization."""
    return reference.startswith("k:")


def reference_of_id(authorization_id: str) -> str:
    """The name of an authorization by its own id."""
    return f"a:{authorization_id}"


def target_of(command: Command) -> str:
    """The id of the card or programme whose owner executes ``command``."""
    if isinstance(command, Authorize):
        # Nearly all are.
        return command.card_id
    if isinstance(command, _CREATIONS):
        return command.id
    return command.programme_id if isinstance(command, PROGRAMME_CHANGES) else command.card_id
