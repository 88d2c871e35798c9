"""The console."""

from __future__ import annotations

from typing import Final

CONSOLE_FORM_FIELDS_MAX: Final = 2_000
"""Fields of a form of the console; the longest is the editor of authorization rules."""
CONSOLE_SESSION_HOURS: Final = 12
"""Lifetime of a console session."""
CONSOLE_COUNTED_ROWS_MAX: Final = 50_000
"""Transactions that one request counts for a chart."""
CONSOLE_KEPT_SLOT_SECONDS: Final = 300
"""Slots of figures that are counted once and kept. Stored figures have this length: never change it."""
CONSOLE_SLOT_DELAY_SECONDS: Final = 120
"""Age of a slot before it is kept. A decision commits within seconds of its arrival, or not at all."""
CONSOLE_PROGRAMMES_MAX: Final = 50
"""Programmes on one panel."""
CONSOLE_DELIVERIES_MAX: Final = 1_000
"""Deliveries of each endpoint."""
CONSOLE_TRANSACTIONS_MAX: Final = 10
"""Transactions on one panel."""
CONSOLE_CSV_ROWS_MAX: Final = 2_000
"""Rows of the CSV file of a list: twenty requests of the API."""
CONSOLE_DELIVERY_ENDPOINTS_MAX: Final = 5
"""Webhook endpoints and events whose deliveries the page of a transaction shows: at most 60 requests of the
API."""
CONSOLE_DELIVERY_EVENTS_MAX: Final = 12
CONSOLE_CURSORS_MAX: Final = 40
"""Pages of a list that lead back one by one; further ones lead to the first page."""
CONSOLE_NOTICE_CHARS_MAX: Final = 300
"""Length of the notice that follows an action."""
CONSOLE_SEARCH_CHARS_MAX: Final = 100
"""Length of a text that is searched for."""
CONSOLE_SEARCH_PAGES_MAX: Final = 5
"""Pages of a list that a search reads."""
CONSOLE_ACTS_MAX: Final = 100
"""Entries on the page of the audit log."""
