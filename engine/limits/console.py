"""The console."""

from __future__ import annotations

from typing import Final

CONSOLE_FORM_FIELDS_MAX: Final = 2_000
"""Fields of a form of the console; the longest is the editor of authorization rules."""
CONSOLE_SESSION_HOURS: Final = 12
"""Lifetime of a console session."""
CONSOLE_WINDOW_SECONDS: Final = 300
"""Period that the panels show."""
CONSOLE_SLOT_SECONDS: Final = 5
"""Period of one point of the chart."""
CONSOLE_DECISIONS_MAX: Final = 10_000
"""Decisions of the window; with more than 33 a second, only the newest."""
CONSOLE_SIMULATIONS_MAX: Final = 1_000
"""Newest simulations whose latency is shown."""
CONSOLE_PROGRAMMES_MAX: Final = 50
"""Programmes on one panel."""
CONSOLE_DELIVERIES_MAX: Final = 1_000
"""Deliveries of each endpoint."""
CONSOLE_TRANSACTIONS_MAX: Final = 20
"""Transactions on one panel."""
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
