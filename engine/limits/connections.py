"""HTTP connections, for each port of each process."""

from __future__ import annotations

from typing import Final

HTTP_CONNECTIONS_MAX: Final = 4_096
"""Default of a setting. Bounds descriptors and memory of one API server; idle connections give way to new
ones."""
HTTP_CONNECTIONS_PER_ADDRESS_MAX: Final = 1_024
"""Default of a setting. Trusted proxies are exempt: they carry many clients."""
HTTP_HEAD_SECONDS: Final = 10.0
"""From the connection, or a request's first byte, to the end of the request's head."""
HTTP_HEAD_BYTES_MAX: Final = 32 * 1024
"""Request line and headers together."""
HTTP_FRAMING_BYTES_MAX: Final = 64 * 1024
"""Chunk sizes, chunk extensions and trailers of one body, in addition to eight bytes for each byte of
content."""
HTTP_PIPELINE_MAX: Final = 32
"""Requests on one connection that wait for earlier answers; each uses memory before it is admitted."""
HTTP_IDLE_SECONDS: Final = 75
"""Between two requests of a connection; longer than the 60 s of common load balancers."""
HTTP_DRAIN_SECONDS: Final = 15.0
"""From the first byte that the kernel did not accept to an empty write buffer; slower readers are cut."""
HTTP_LINGER_SECONDS: Final = 2.0
"""Time that the server reads on after an answer that came before the request's end, so that a reset of the
connection does not destroy the answer."""
HTTP_LINGER_BYTES_MAX: Final = 1024 * 1024
"""Bytes that are read and dropped in this time."""
HTTP_SWEEP_SECONDS: Final = 1.0
"""Interval between checks of all connections against these deadlines."""
TLS_HANDSHAKE_SECONDS: Final = 10.0
"""From the connection to the end of the handshake."""
TLS_SHUTDOWN_SECONDS: Final = 2.0
"""Time limit of the closing handshake."""
TLS_RELOAD_SECONDS: Final = 10.0
"""Interval between checks whether the certificate's files have changed."""
METRICS_CONNECTIONS_MAX: Final = 64
"""Open connections of the metrics port."""
METRICS_CONNECTION_SECONDS: Final = 15.0
"""Time limit of one scrape: a connection of the metrics port carries one request."""
HEALTH_CONNECTIONS_MAX: Final = 16
"""Open connections of an edge's health port; further ones are closed at once."""
HEALTH_SECONDS: Final = 1.5
"""Time limit of one request to it; half of it for the answer of the API. Probes wait for two seconds."""
