"""The layout of compact texts (``engine.decision.compact``): what they leave out, and what stands for it.

Stored rows are read for ever, so nothing in this layout changes. Values were added to it for decisions by a
programme and in stand-in (``compact_delegated``); rows without them are as before. Another layout gets
functions of its own and begins its texts with another character.
"""

from __future__ import annotations

from binascii import b2a_base64
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from engine.currencies import MerchantAmount

RULE_NAMES: Final = (
    *("card_state", "card_expiry", "cardholder", "programme", "expiry", "cvv2", "cvv1", "authentication"),
    *("currency", "risk", "funds", "amount", "address", "chip_data", "pin", "per_txn_cap", "per_day_cap"),
    *("per_day_amount_cap", "mcc_allow", "mcc_deny", "channel_allow", "channel_deny", "country_allow"),
    *("country_deny", "programme_decision", "approved_amount", "stand_in", "stand_in_budget"),
)
"""Rules by their number in a stored trace."""
OUTCOMES: Final = ("pass", "fail", "skip")
_DIGEST_BYTES: Final = 12
DECIDER: Final = 4
"""Index of the decider in a compact decision, if it names one."""
FIGURES: Final = 8
"""Values of compact inputs before the result of a call."""
COMMAND_PARTS: Final = (
    ("\x01", ',null,{"expiry":"match","cvv2":"missing"}]'),
    ("\x02", ',null,{"expiry":"match","cvv2":"match"}]'),
    ("\x03", ',{"expiry":"match"'),
    ("\x04", ',"cvv2":"match"'),
    ("\x05", ',"cvv1":"match"'),
    ("\x06", ',"pin":"valid"'),
    ("\x07", ',"chip":"valid","chip_tags":["'),
    ("\x0e", ',"authentication":"valid"'),
    ("\x0f", '","ecommerce","'),
    ("\x10", '","pos","'),
    ("\x11", ',"EUR","'),
    ("\x12", ',"GBP","'),
    ("\x13", ',"USD","'),
    ("\x14", ",null,"),
    ("\x15", '","'),
)
"""Frequent parts of compact commands, and the control character that stands for each. JSON text contains no
control characters. Replaced in this order, and put back in the opposite order."""
DECISION_PARTS: Final = (
    ("\x01", '[0,null,null,7,-1,[3,true,"20'),
    ("\x02", '"],12,6,-10,17,23,'),
    ("\x03", '"],12,6,-10,'),
    ("\x04", ",17,23,"),
    ("\x05", '[24,"EUR","EUR"],'),
    ("\x06", '[24,"GBP","GBP"],'),
    ("\x07", '[24,"USD","USD"],'),
    ("\x0e", "[27,0,90],[30,"),
)
"""The same for compact decisions."""
DELEGATED_PARTS: Final = (
    ("\x0f", '[0,null,null,7,"within_ceilings",-1,[3,true,"20'),
    ("\x10", '[0,null,null,7,"programme",-1,[3,true,"20'),
    ("\x11", '[27,0,90],32,[74,"timeout","approved"],[78,"within_ceilings","within_ceilings"],[81,'),
    ("\x12", '],[72,"approved","approved"]]'),
)
"""The same for those that name a decider, replaced after the others."""

_encode = msgspec.json.Encoder().encode


class Configuration(NamedTuple):
    """The part of ``Inputs`` that rarely changes."""

    digest: str
    """Digest of the content: sixteen characters of base64."""
    card: str
    """JSON of the members from ``card_state`` to ``controls``, without brackets."""
    programme: str
    """JSON of the members from ``programme_version`` to ``hold_expiry_days``, without brackets."""
    decisioning: str


class StoredRow(NamedTuple):
    """The columns of a journal row that its compact texts need."""

    actor_id: str
    seq: int
    command_key: bytes
    fingerprint: bytes | None
    command: str
    inputs: str | None
    decision: str | None
    reply: str
    recorded_at_ms: int
    authorization_id: str | None


class FullTexts(NamedTuple):
    """The original JSON texts of a journal row."""

    command: str
    inputs: str | None
    decision: str | None
    reply: str


class Further(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The last optional members of ``Authorize``, in its order."""

    mit: bool = False
    partial_allowed: bool = False
    partial_cap_minor: int | None = None
    expiry: str = "absent"
    cvv2: str = "absent"
    cvv1: str = "absent"
    pin: str = "absent"
    chip: str = "absent"
    chip_tags: tuple[str, ...] = ()
    address: str = "absent"
    authentication: str = "absent"
    merchant_amount: MerchantAmount | None = None
    endpoint_silent: bool = False


def digest_of(card: str, programme: str, decisioning: str) -> str:
    """The digest that names a configuration."""
    content = _encode((card, programme, decisioning))
    return base64_text(blake2b(content, digest_size=_DIGEST_BYTES).digest())


def base64_text(value: bytes) -> str:
    """``value`` in base64."""
    return b2a_base64(value, newline=False).decode()
