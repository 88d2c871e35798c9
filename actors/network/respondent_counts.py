"""Counters of the financial requests of one link at one edge."""

from __future__ import annotations

import msgspec


class RespondentCounts(msgspec.Struct):
    """Outcomes of requests since the edge started."""

    answered: int = 0
    invalid: int = 0
    """Decodable messages with a missing or malformed field (30)."""
    shed: int = 0
    """Authorizations refused because their owner's queue was too long (91)."""
    expired: int = 0
    """Answered with 91 at the deadline."""
    failed: int = 0
    """The submission to the owner raised an exception (91 or 96), or its reply could not be encoded (96)."""
