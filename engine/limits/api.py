"""Requests, lists and metadata of the API, and its connections to PostgreSQL."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 64 * 1024
"""Size of a request's body."""
JSON_DEPTH_MAX: Final = 16
"""Nesting of a request's JSON."""
BODY_RECEIPT_SECONDS: Final = 10.0
"""From the end of a request's head to the end of its body."""
PAGE_LIMIT_DEFAULT: Final = 50
"""Default and largest number of items on a page of a list."""
PAGE_LIMIT_MAX: Final = 100
PAGE_SCAN_MAX: Final = 2_000
"""Rows read for one page of a filtered list: about 10 ms. A page can end before it is full."""
PAGE_CLOCK_SLACK_MS: Final = 24 * 3_600_000
"""Largest difference between the instant in an id and the row's ``created_at``: they come from the clocks of
different machines."""
PAGE_KEYS_MAX: Final = 1_000
"""Index ranges that one page merges: cards of a cardholder, programmes of a tenant, category codes of a
programme. A filter with more of them reads the tenant's rows instead, ``PAGE_SCAN_MAX`` for a page."""
PAGE_MERGE_MAX: Final = 200
"""Rows of merged index ranges that one page looks at when other filters apply as well."""
METADATA_KEYS_MAX: Final = 20
"""Keys in the metadata of one object."""
METADATA_KEY_CHARS_MAX: Final = 40
METADATA_VALUE_CHARS_MAX: Final = 500
METADATA_RESERVED_SECONDS: Final = 600
"""Age at which a sweeper deletes the metadata of an object that was not created: longer than any command
lives."""
METADATA_SWEEP_SECONDS: Final = 60.0
"""Interval between these sweeps."""
CARD_IDS_MAX: Final = 100
"""Cards in one request that lists their ids."""
API_CONNECTIONS: Final = 10
"""Connections of one API server to PostgreSQL, without those for card states."""
POOL_RESERVED: Final = 1
"""Connections that tenants cannot take: they are for token look-ups and sweepers."""
REQUESTS_OF_TENANT_MAX: Final = 64
"""Requests of one tenant that one API server handles at once."""
REQUESTS_OF_TENANT_FEW: Final = 8
"""A tenant with more open requests is slowed down while another tenant sends requests and the server is
slow."""
CAPACITY_OF_TENANT_MIN: Final = 0.1
"""The least capacity that is left to it: seconds for which its requests use the server in each second."""
CAPACITY_OF_TENANT_RISE: Final = 0.05
"""Rise of this capacity after each ``LOOP_TURNS_SECONDS`` in which the server was not slow."""
PLACES_OF_TENANT_MIN: Final = 4
"""Requests of a slowed tenant that are handled at once, so that those that only wait are not late."""
PLACE_REST_SECONDS_MAX: Final = 1.0
"""The longest rest of a place: other requests of the tenant wait for it, also when the server is not slow any
more."""
COMPANY_SECONDS: Final = 10.0
"""For so long after its last request a tenant counts as one that sends requests."""
LOOP_TURN_SECONDS_MAX: Final = 0.002
"""A server is slow if one turn of its event loop takes longer on average."""
LOOP_TURNS_SECONDS: Final = 0.2
"""The time over which turns are averaged."""
REQUESTS_AT_ONCE_MAX: Final = 256
"""Requests of all tenants that one API server handles at once."""
REQUESTS_WAITING_OF_TENANT_MAX: Final = 1_024
"""Requests of one tenant that wait for their turn; any further one is refused with 429."""
REQUEST_WAIT_SECONDS_MAX: Final = 10.0
"""The longest wait for a turn; then the request is refused with 429, before its client gives up."""
POOL_WAITING_OF_TENANT_MAX: Final = 1_024
"""Requests of one tenant that wait for a connection; any further one is refused with 429."""
STATEMENT_MS_MAX: Final = 4_000
"""Time limit of one statement of the API in PostgreSQL, and of all database work of one request."""
API_CLIENT_CHECK_MS: Final = 500
"""Interval at which PostgreSQL checks that the API still waits for a running statement."""
API_IDLE_IN_TRANSACTION_MS: Final = 2 * STATEMENT_MS_MAX
"""Time that a transaction may wait for the API before PostgreSQL ends the session: its process is frozen or
gone."""
