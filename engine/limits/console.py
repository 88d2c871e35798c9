"""The console, whose panels are read every two seconds."""

from __future__ import annotations

from typing import Final

CONSOLE_FORM_FIELDS_MAX: Final = 5
"""Fields of the console's sign-in form."""
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
CONSOLE_ACTS_MAX: Final = 100
"""Entries on the page of the audit log."""
