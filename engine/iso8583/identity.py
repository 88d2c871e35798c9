"""Identity of messages: command keys, fingerprints, and references to earlier messages.

A message is executed at most once under its command key, so the key is made of exactly the fields that a true
repeat repeats. Follow-ups name their original in DE90, which has no retrieval reference (DE37). The key needs
it, so it is derived from the DE37 of the follow-up and the time of the original."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

import msgspec

from engine.commands import WireIdentity, reference_of_message, reference_of_network
from engine.iso8583.elements import (
    ElementError,
    OriginalElements,
    PresentmentReference,
    read_original_elements,
)
from engine.iso8583.message import Message
from engine.iso8583.reading import Fields, digits, present

KEY_BYTES: Final = 16

AUTHORIZATION: Final = "authorization"
REVERSAL: Final = "reversal"
ADVICE: Final = "advice"
PRESENTMENT: Final = "presentment"
LATE: Final = "late"
"""Domain of late reversals: the edge reverses an approval that was too late for its answer."""

_TRANSMITTED = re.compile(
    r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])(?:[0-5]\d){2}", re.ASCII
)
_DAYS_BEFORE_MONTH: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_PRESENTMENT_VARIES: Final = frozenset({7, 11, 12, 13, 37})
"""Fields that change when a presentment is submitted again: trace number and time."""
_NAMES: Final = tuple(map(str, range(193)))


class IdentityRule(msgspec.Struct, frozen=True):
    """The fields that a true repeat repeats, as a profile names them: DE7, DE11 and DE32, usually DE37, and
    ``further`` ones, which follow-ups must repeat as well."""

    has_rrn: bool = True
    further: tuple[int, ...] = ()

    def wire_identity(self, message: Message, network_txn_id: str | None = None) -> WireIdentity:
        """The network's identity of ``message``. DE32, DE11, DE7 and the further fields are mandatory, and
        DE37 if it is part of the identity."""
        fields = message.fields
        transmitted_at = present(fields, 7)
        if _TRANSMITTED.fullmatch(transmitted_at) is None:
            raise ElementError(7, "is no month, day and time")
        acquirer_id, stan = digits(fields, 32), digits(fields, 11)
        rrn = present(fields, 37) if self.has_rrn else _rrn_or_stan(fields, stan)
        further = "|".join(present(fields, number) for number in self.further) if self.further else ""
        return WireIdentity(acquirer_id, stan, transmitted_at, rrn, network_txn_id, further)

    def command_key(self, wire: WireIdentity, domain: str) -> bytes:
        """Sixteen bytes that identify the execution of this message. ``domain``: the kind of message.

        The network's transaction id is not part of it: all messages of a transaction share it.
        """
        # All parts but the last have a fixed length, so the concatenation is unambiguous.
        rrn = wire.rrn if self.has_rrn else ""
        identity = f"{domain}|{wire.stan}{wire.transmitted_at}{rrn}{wire.acquirer_id}"
        return _digest(f"{identity}|{wire.further}" if wire.further else identity)


DEFAULT_IDENTITY: Final = IdentityRule()


def wire_identity(message: Message, network_txn_id: str | None = None) -> WireIdentity:
    """The network's identity of ``message`` by DE32, DE11, DE7 and DE37."""
    return DEFAULT_IDENTITY.wire_identity(message, network_txn_id)


def command_key(wire: WireIdentity, domain: str) -> bytes:
    """The command key by DE32, DE11, DE7 and DE37 (``IdentityRule.command_key``)."""
    return DEFAULT_IDENTITY.command_key(wire, domain)


def presentment_key(
    wire: WireIdentity, reference: PresentmentReference | None, rule: IdentityRule = DEFAULT_IDENTITY
) -> bytes:
    """The command key of a presentment: its ARN and sequence, so a repeated submission posts once. Without a
    ``reference``, its wire identity."""
    if reference is None:
        return rule.command_key(wire, PRESENTMENT)
    return _digest(f"{PRESENTMENT}-arn|{reference.arn}{reference.sequence}")


def late_reversal_key(command_key: bytes) -> bytes:
    """The command key of the late reversal of the authorization with ``command_key``."""
    return _digest(f"{LATE}|{command_key.hex()}")


def fingerprint(message: Message, key: bytes, presents: bool | None = None) -> bytes:
    """Sixteen bytes that are equal for a message and its true repeats: a hash of all fields except the repeat
    digit of the MTI and the fields that change in repeats of the class.

    A reversal request (0400) without an answer is repeated as an advice (0420), a presentment under a new
    trace number. The hash is keyed (``key`` of 16 to 64 bytes), because card numbers and CVV2 values could be
    guessed from a plain hash. ``presents``: whether the message is a presentment; by default, by its class.
    """
    fields = message.fields
    class_ = message.mti[1]
    numbers = sorted(fields)
    if class_ == "2" if presents is None else presents:
        numbers = [number for number in numbers if number not in _PRESENTMENT_VARIES]
    # Values are printable, so they do not contain the separator. ``join`` uses the unmasked characters.
    parts = [message.mti[:2] if class_ == "4" else message.mti[:3]]
    for number in numbers:
        parts += (_NAMES[number], fields[number])
    return blake2b("\x1f".join(parts).encode("ascii"), digest_size=KEY_BYTES, key=key).digest()


def transaction_references(
    message: Message, wire: WireIdentity, rule: IdentityRule = DEFAULT_IDENTITY
) -> tuple[str, ...]:
    """References to the transaction that ``message`` continues: the network's id first, which all messages of
    the transaction share, then the message in DE90."""
    return (*_network_reference(wire), *_message_references(message, wire, rule))


def reversal_references(
    message: Message, wire: WireIdentity, rule: IdentityRule = DEFAULT_IDENTITY
) -> tuple[str, ...]:
    """References to the original of a reversal: the message in DE90 first. Raises ``ElementError`` if there
    is none."""
    references = (*_message_references(message, wire, rule), *_network_reference(wire))
    if not references:
        raise ElementError(90, "is missing")
    return references


def _network_reference(wire: WireIdentity) -> tuple[str, ...]:
    return () if wire.network_txn_id is None else (reference_of_network(wire.network_txn_id),)


def _message_references(message: Message, wire: WireIdentity, rule: IdentityRule) -> tuple[str, ...]:
    if 90 not in message.fields:
        return ()
    original = read_original_elements(message.fields[90])
    if _TRANSMITTED.fullmatch(original.transmitted_at) is None:
        raise ElementError(90, "holds no month, day and time")
    acquirer_id = original.acquirer_id
    if not acquirer_id or acquirer_id == wire.acquirer_id.lstrip("0"):
        acquirer_id = wire.acquirer_id
    rrns = _retrieval_references(original, wire) if rule.has_rrn else ("",)
    named = [
        WireIdentity(acquirer_id, original.stan, original.transmitted_at, rrn, None, wire.further)
        for rrn in rrns
    ]
    return tuple(reference_of_message(rule.command_key(each, AUTHORIZATION)) for each in named)


def _retrieval_references(original: OriginalElements, wire: WireIdentity) -> tuple[str, ...]:
    """The possible values of the original's DE37. Networks repeat it in follow-ups. If the follow-up has a
    DE37 of its own, the original's is derived as the profile prescribes (year, day of the year, hour,
    STAN)."""
    if wire.rrn.endswith(original.stan):
        return (wire.rrn,)
    return (*_prescribed(original, wire), wire.rrn)


def _prescribed(original: OriginalElements, wire: WireIdentity) -> tuple[str, ...]:
    """Two values if the day of the year depends on a leap year: DE37 has only the year's last digit."""
    if not wire.rrn[0].isdecimal():
        return ()
    year = (int(wire.rrn[0]) - (original.transmitted_at > wire.transmitted_at)) % 10
    month, day = int(original.transmitted_at[:2]), int(original.transmitted_at[2:4])
    day_of_year = _DAYS_BEFORE_MONTH[month - 1] + day
    likely_leap = year % 4 == 0
    days = [day_of_year]
    if month > 2 and year % 2 == 0:
        days = [day_of_year + likely_leap, day_of_year + (not likely_leap)]
    return tuple(f"{year}{each:03d}{original.transmitted_at[4:6]}{original.stan}" for each in days)


def _rrn_or_stan(fields: Fields, stan: str) -> str:
    """DE37, or the STAN where the profile does not need DE37: traces and lists show it."""
    return fields.get(37, "").strip() or stan.rjust(12, "0")


def _digest(text: str) -> bytes:
    return blake2b(text.encode("ascii"), digest_size=KEY_BYTES).digest()
