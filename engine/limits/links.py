"""Links to networks and processors."""

from __future__ import annotations

from typing import Final

LINKS_MAX: Final = 32
"""Links of one installation; each has counters and, if it listens, a port."""
LINK_CONNECTIONS_DEFAULT: Final = 64
"""Default for the open connections of a link that listens, at each edge. Each link has places of its own."""
LINK_CONNECTIONS_OUT_DEFAULT: Final = 1
"""Default for the connections that each edge keeps open on a link that connects."""
LINK_CONNECTIONS_OUT_MAX: Final = 32
"""The most such connections; processors allow a few."""
LINK_RECONNECT_SECONDS_MIN: Final = 0.1
LINK_RECONNECT_SECONDS_MAX: Final = 15.0
"""Pauses between attempts of a link to connect, doubling from the first to the second, each with jitter."""
LINK_STABLE_SECONDS: Final = 10.0
"""Lifetime of a connection after which the pause before the next attempt is the shortest one again."""
LINK_REPLY_SECONDS: Final = 5.0
"""Time that a peer has to answer an 0800; then its connection is closed."""
LINK_DRAIN_SECONDS: Final = 10.0
"""Time that connections of a link that is signed off have to finish; the deadline of messages is shorter."""
LINK_HANDSHAKES_MAX: Final = 64
"""Open TLS handshakes of one link."""
LINK_HANDSHAKES_PER_ADDRESS_MAX: Final = 16
"""Of these, handshakes with one address."""
LINK_MAC_KEYS_MAX: Final = 2
"""Keys in the file of a link's MAC: the current one and the one before it."""
LINK_RATE_SECONDS: Final = 60
"""Period of the rates in the state of a link."""
LINK_SIGN_OFF_POLL_SECONDS: Final = 1.0
"""Interval at which an edge reads which links operators have signed off."""
LINK_REPORT_SECONDS: Final = 5.0
"""Interval between an edge's reports of its links."""
LINK_REPORT_FRESH_SECONDS: Final = 30.0
"""Older reports are not shown: their edge has ended, or is cut off from the database."""
