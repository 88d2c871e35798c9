"""Decision endpoints of programmes, and stand-in."""

from __future__ import annotations

from typing import Final

DECISION_TIMEOUT_MS_MIN: Final = 200
DECISION_TIMEOUT_MS_MAX: Final = 3_000
DECISION_TIMEOUT_MS_DEFAULT: Final = 2_000
"""Bounds and default of the time that a programme's decision endpoint has to answer."""
DECISION_BODY_BYTES_MAX: Final = 64 * 1024
"""Size of a decision endpoint's answer; a longer one is unusable."""
LATE_ANSWER_SECONDS: Final = 3.0
"""Time that a call to a decision endpoint stays open after its deadline, to count late answers."""
DECISION_CALLS_PER_TARGET_MAX: Final = 1_024
"""Connections of one host to one decision endpoint: calls that hang must not delay later ones."""
STAND_IN_MARGIN_MS: Final = 800
"""Part of an authorization's time: reserved for stand-in and commit after the call to its programme."""
STAND_IN_TIMEOUT_MS: Final = 600
"""Time that a card's owner waits for the programme's owner before it declines."""
STAND_IN_REQUESTS_MAX: Final = 256
"""Stand-in requests in one command."""
MCC_LIST_MAX: Final = 500
"""Merchant categories in one list of a stand-in policy."""
STAND_IN_COUNT_MAX: Final = 1_000_000_000
"""Largest ``max_count_per_day`` of a policy, which affects no decision."""
STIP_WINDOW_DAYS_MAX: Final = 90
"""Longest window of a stand-in activity report."""
