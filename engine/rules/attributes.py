"""The attributes of conditions: type, operators, and how each is read from a purchase.

``ops/docs/RULES.md`` has the table for issuers. A value that the message does not have is ``None``: then only
``ne`` and ``not_in`` hold.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from engine.instant import DAY_MS, to_datetime, zone
from engine.rules.model import Op

if TYPE_CHECKING:
    from engine.commands import Authorize
    from engine.decision.inputs import Inputs

Type = Literal["amount", "string", "name", "boolean", "integer", "time", "weekday", "velocity"]
Read: TypeAlias = "Callable[[Authorize, Inputs, int], Any]"
"""Reads an attribute from a command, the inputs of its decision and its risk score."""

COMPARISONS: Final[tuple[Op, ...]] = ("eq", "lt", "lte", "gt", "gte", "between")
_MEMBERSHIP: Final[tuple[Op, ...]] = ("eq", "ne", "in", "not_in")
OPS: Final[Mapping[Type, tuple[Op, ...]]] = {
    "amount": COMPARISONS,
    "string": _MEMBERSHIP,
    "name": ("eq", "contains", "starts_with", "in"),
    "boolean": ("eq",),
    "integer": COMPARISONS,
    "time": ("between",),
    "weekday": ("in", "between"),
    "velocity": COMPARISONS,
}
"""Operators by the type of the attribute."""

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CARD_ABSENT: Final = frozenset({"ecommerce", "credential_on_file", "manual"})


class Attribute(msgspec.Struct, frozen=True):
    """An attribute of a purchase; ``read`` is ``None`` for ``velocity``, which is measured."""

    type: Type
    read: Callable[[Any, Any, int], Any] | None = None

    @property
    def ops(self) -> tuple[Op, ...]:
        """Its operators."""
        return OPS[self.type]


def is_authenticated(command: Authorize) -> bool:
    """Whether the message has a 3-D Secure result that the decision accepts."""
    return command.authentication in ("present", "valid")


def needs_authentication(command: Authorize, inputs: Inputs) -> bool:
    """Whether the cardholder can be authenticated and was not: an e-commerce purchase by the cardholder. An
    increment continues an approved purchase."""
    return (
        command.channel == "ecommerce"
        and not command.mit
        and inputs.original is None
        and not is_authenticated(command)
    )


@lru_cache(maxsize=4096)
def normalized_name(name: str) -> str:
    """``name`` without case, accents and punctuation, words separated by one space.

    >>> normalized_name("  Café-Müller GmbH.")
    'cafe muller gmbh'
    """
    letters = unicodedata.normalize("NFKD", name.casefold())
    kept = (each if each.isalnum() else " " for each in letters if not unicodedata.combining(each))
    return " ".join("".join(kept).split())


def merchant_key(merchant_id: str | None, merchant_name: str) -> str:
    """What tells merchants apart: the acquirer's id (DE42), or the name of a message without one."""
    return merchant_id or f"name:{normalized_name(merchant_name)}"


@lru_cache(maxsize=4096)
def _local_time(minute: int, zone_name: str) -> tuple[int, str]:
    local = to_datetime(minute * 60_000).astimezone(zone(zone_name))
    return local.hour * 60 + local.minute, WEEKDAYS[local.weekday()]


def _card_present(command: Authorize, _inputs: Inputs, _points: int) -> bool:
    return command.channel in ("pos", "atm") and command.entry_mode not in _CARD_ABSENT


def _amount(command: Authorize, inputs: Inputs, _points: int) -> int:
    """Of an increment the total, as for ``per_txn_cap``."""
    authorized_minor = 0 if inputs.original is None else inputs.original.authorized_minor
    return authorized_minor + command.amount_minor


def _merchant_currency(command: Authorize, _inputs: Inputs, _points: int) -> str:
    return command.currency if command.merchant_amount is None else command.merchant_amount.currency


def _card_age_days(_command: Authorize, inputs: Inputs, _points: int) -> int:
    in_force = inputs.rules_in_force
    return 0 if in_force is None else max(0, inputs.now_ms - in_force.card_created_ms) // DAY_MS


ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "amount": Attribute("amount", _amount),
    "merchant_currency": Attribute("string", _merchant_currency),
    "merchant_country": Attribute("string", lambda c, _i, _p: c.merchant_country),
    "mcc": Attribute("string", lambda c, _i, _p: c.mcc),
    "channel": Attribute("string", lambda c, _i, _p: c.channel),
    "entry_mode": Attribute("string", lambda c, _i, _p: c.entry_mode),
    "acquirer_id": Attribute("string", lambda c, _i, _p: c.wire.acquirer_id),
    "merchant_id": Attribute("string", lambda c, _i, _p: c.merchant_id),
    "network": Attribute("string", lambda _c, i, _p: i.network),
    "merchant_name": Attribute("name", lambda c, _i, _p: normalized_name(c.merchant_name)),
    "partial_allowed": Attribute("boolean", lambda c, _i, _p: c.partial_allowed),
    "mit": Attribute("boolean", lambda c, _i, _p: c.mit),
    "authenticated": Attribute("boolean", lambda c, _i, _p: is_authenticated(c)),
    "card_present": Attribute("boolean", _card_present),
    "cvv2_matched": Attribute("boolean", lambda c, _i, _p: c.cvv2 == "match"),
    "first_at_merchant": Attribute("boolean"),
    "risk_score": Attribute("integer", lambda _c, _i, points: points),
    "card_age_days": Attribute("integer", _card_age_days),
    "local_time": Attribute("time", lambda _c, i, _p: _local_time(i.now_ms // 60_000, i.timezone)[0]),
    "weekday": Attribute("weekday", lambda _c, i, _p: _local_time(i.now_ms // 60_000, i.timezone)[1]),
    "velocity": Attribute("velocity"),
}
"""All attributes by name. ``first_at_merchant`` and ``velocity`` are read from the card's past
(``engine.rules.velocity``)."""

UNAUTHENTICATED: Final = "unauthenticated_ecommerce"
"""The condition that ``require_authentication`` adds to a rule; issuers cannot name it."""

COUNTED: Final = ("mcc", "merchant_id", "merchant_country", "channel", "entry_mode", "amount")
"""The attributes of the filter of a velocity."""
