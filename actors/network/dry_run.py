"""The command of an authorization that no network has sent, for dry runs.

It is built from the message that the simulated network would send and that an edge would read, so a dry run
and a simulated spend with the same members are decided on the same command. The message never leaves this
module and has a number that is not the card's. The caller states the results of the checks of secrets.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from actors.network.cards import CardCredentials
from actors.network.messages import message_of, rrn
from actors.network.simulation_store import Simulation
from engine.commands import Authorize
from engine.iso8583.card_data import check_expiry
from engine.iso8583.content import AuthorizationRequest
from engine.iso8583.content_reader import read
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.track2 import write_track_2
from engine.iso8583.translate import Routed, to_command
from engine.pan import Masked, Pan
from engine.simulation import SpendRequest
from engine.threeds import Authentication

NO_STAN: Final = "000000"
"""DE11, which the simulated network never uses."""

_NUMBERS: Final = {"visa": Pan("4000000000000002"), "mastercard": Pan("5200000000000007")}
"""DE2 by network: valid numbers, so that the message reads like any other."""
_TRACK_VALUE: Final = "111"
_MERCHANT_ID: Final = 42
_MERCHANT_ID_CHARS: Final = 15
_PRESENT: Final = ("present",)
"""The EMV data in the trace: a dry run has no chip."""


class DryRunCard(msgspec.Struct, frozen=True):
    """The card of a dry run, with the stated results of the checks of secrets."""

    network: Literal["visa", "mastercard"]
    exp_year: int
    exp_month: int
    cvv2: Literal["absent", "match", "mismatch"] = "absent"
    authentication: Authentication = "absent"


def dry_run_command(spend: SpendRequest, card: DryRunCard, merchant_id: str | None = None) -> Authorize:
    """The command for ``spend``, which has neither a CVV2 nor authentication values. Expiry and track data
    are the card's. ``merchant_id`` replaces DE42. Raises ``ElementError`` or ``EncodeError`` for a value that
    does not fit its element."""
    message = _as_received(_message(spend, card), merchant_id)
    content = read(message, ISO87_ASCII.verification, ISO87_ASCII)
    assert isinstance(content, AuthorizationRequest), "a spend is an authorization request"
    routed = Routed(
        id=spend.simulation_id,
        card_id=spend.card_id,
        fingerprint=b"",
        expiry=check_expiry(content.expiries, card.exp_year, card.exp_month),
        cvv2=card.cvv2,
        cvv1="absent" if content.track is None else "match",
        chip="ignored" if content.chip else "absent",
        authentication=card.authentication,
    )
    command = to_command(content, routed)
    assert isinstance(command, Authorize), "an authorization request becomes this command"
    return msgspec.structs.replace(command, chip_tags=_PRESENT) if content.chip else command


def _message(spend: SpendRequest, card: DryRunCard) -> Message:
    pan, expiry = _NUMBERS[card.network], f"{card.exp_year % 100:02d}{card.exp_month:02d}"
    track = write_track_2(pan, expiry, _TRACK_VALUE)
    simulation = Simulation(request=spend, stan=NO_STAN, rrn=rrn(NO_STAN, spend.accepted_ms))
    return message_of(simulation, CardCredentials(pan, Masked(expiry), track, track))


def _as_received(message: Message, merchant_id: str | None) -> Message:
    if merchant_id is not None:
        message = Message(
            message.mti, {**message.fields, _MERCHANT_ID: merchant_id.ljust(_MERCHANT_ID_CHARS)}
        )
    return ISO87_ASCII.decode(ISO87_ASCII.encode(message))
