"""Outgoing calls."""

from __future__ import annotations

from typing import Final

EGRESS_URL_CHARS_MAX: Final = 2_048
"""Length of a URL that customers give."""
EGRESS_CONNECTIONS_MAX: Final = 2_048
"""Open connections of one process to receivers."""
EGRESS_CONNECTIONS_PER_TARGET_MAX: Final = 64
"""Open connections of one process to one address and name: a receiver that hangs occupies no more."""
EGRESS_IDLE_SECONDS: Final = 4.0
"""Time that an idle connection is kept: shorter than common servers keep theirs, so that this side closes
first and no request is lost on a connection that the server closes."""
EGRESS_CONNECT_SECONDS: Final = 4.0
"""Time limit to connect to one address, TLS included, before the next one is tried."""
EGRESS_ADDRESSES_MAX: Final = 2
"""Addresses of one name that are tried in one attempt."""
EGRESS_CHECK_SECONDS: Final = 5.0
"""Time limit to resolve a name that is only checked."""
EGRESS_LOOKUP_CACHE_SECONDS: Final = 1.0
"""Lifetime of a cached answer of the resolver."""
EGRESS_LOOKUP_CACHE_MAX: Final = 10_000
"""Answers of the resolver cached in one process."""
EGRESS_LOOKUPS_MAX: Final = 64
"""Open look-ups of one process."""
EGRESS_LOOKUPS_OF_PARTY_MAX: Final = 8
"""Open look-ups for one tenant, or under one domain."""
EGRESS_LOOKUPS_WAITING_MAX: Final = 256
"""Open and waiting look-ups for one tenant, or under one domain; any further one fails at once."""
