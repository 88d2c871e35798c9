"""The network edge."""

from __future__ import annotations

from typing import Final

PROFILE_FILE_BYTES_MAX: Final = 65_536
"""Size of a profile file: a table of all elements has less than a quarter of it."""
FRAME_BYTES_MAX: Final = 4_096
"""Size of one message without its length prefix."""
MALFORMED_FRAMES_MAX: Final = 3
"""Malformed frames on one connection after which it is closed."""
FRAME_RECEIPT_SECONDS: Final = 10
"""From the first byte of a frame to its last; slower peers are cut."""
EDGE_CONNECTIONS_MAX: Final = 1_024
"""Open connections of one edge."""
EDGE_CONNECTIONS_PER_ADDRESS_MAX: Final = 768
"""Connections of one address; the rest is reserved for other addresses."""
EDGE_IDLE_SECONDS: Final = 300
"""Time without a message after which a connection without open requests is closed; networks send echo tests
about once a minute."""
EDGE_SILENT_SECONDS: Final = 60
"""The same for a connection that has never sent a request."""
EDGE_SEND_BUFFER_BYTES: Final = 128 * 1024
"""Kernel buffer for answers of one connection, which bounds the data that a slow reader leaves there."""
EDGE_IN_FLIGHT_MAX: Final = 4_096
"""Requests of one connection being decided; above it, the edge stops reading."""
EDGE_OPEN_MAX: Final = 2_048
"""Requests of all connections being decided (without those that wait for a programme's own decision) above
which new authorizations are refused at once. To read and refuse costs little; a network whose messages are
not read waits for answers that come too late."""
EDGE_WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Answers waiting for a peer to read them; above it, the edge stops reading from that peer, and cuts it if it
still reads no answers."""
AUTHENTICATION_KEYS_SECONDS: Final = 5.0
"""Interval in which an edge reads changed authentication keys of programmes."""
PROBES_BURST: Final = 100
"""Unknown card numbers and wrong values of one acquirer at one source that are answered without delay. A
source is a link, or an address of the default link."""
PROBES_PER_SECOND: Final = 5.0
"""Rate at which that allowance is refilled. Messages above it are slowed and refused (card testing)."""
PROBES_OF_SOURCE_FACTOR: Final = 4
"""Multiple of that allowance for one source with several acquirer ids, which it chooses itself."""
PROBE_KEYS_MAX: Final = 4_096
"""Sources and acquirers that one edge distinguishes; the least recently seen are evicted."""
PROBE_DELAY_SECONDS: Final = 2.0
"""Delay of an answer above the limit: within the network's deadline."""
PROBES_DELAYED_MAX: Final = 1_024
"""Delayed answers of one edge. Each uses a slot of its connection, and good cards need slots too."""
PAN_CACHE_MAX: Final = 100_000
"""Card numbers cached in one edge, in about 40 MB; others cost a look-up, which is shared with their
neighbours."""
LOOKUP_BATCH_MAX: Final = 512
"""Keys in one look-up."""
LATE_REVERSAL_SECONDS_MIN: Final = 0.05
LATE_REVERSAL_SECONDS_MAX: Final = 2.0
"""Pauses between an edge's attempts to reverse a late approval, doubling from the first to the second."""
LATE_REVERSAL_STOP_SECONDS: Final = 5
"""Time that a stopping edge waits for late replies, and then again for open late reversals."""
LATE_REVERSAL_KEYS_MAX: Final = 100_000
"""Command keys of reversed authorizations cached in one edge, so that their repeats are not answered with an
approval."""
