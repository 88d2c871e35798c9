"""Back-tests."""

from __future__ import annotations

from typing import Final

BACKTEST_WINDOW_DAYS_MAX: Final = 92
BACKTESTS_OPEN_MAX: Final = 4
"""Back-tests of one tenant, in both modes, that wait or run."""
BACKTEST_RANGE_CARDS: Final = 200
"""Cards in one range, the unit of work of a back-test."""
BACKTEST_ROWS_READ: Final = 2_048
"""Journal rows that a back-test reads at once, about 4 MB."""
BACKTEST_ROWS_MAX: Final = 500_000
"""Journal rows of cards that share an account; a longer history is left out. A back-test keeps all
authorizations of one account in memory, about 1 kB each."""
BACKTEST_FLIPS_STORED_MAX: Final = 100_000
"""Flips of one back-test that are stored one by one; all of them are counted."""
BACKTEST_EXAMPLES_MAX: Final = 3
"""Mismatches that a result names."""
BACKTEST_CONTROLS_MAX: Final = 20
"""Controls that a back-test adds."""
BACKTEST_RULES_MAX: Final = 50
"""Rules that a back-test adds, and rules that it removes."""
BACKTEST_GROUPS_SHOWN_MAX: Final = 200
"""Rows of each table of a result, the largest first."""
BACKTEST_KEEP_DAYS: Final = 30
"""Time after its creation at which a back-test is deleted."""
BACKTEST_LEASE_SECONDS: Final = 15
"""Time without progress after which another process continues a back-test or a range."""
BACKTEST_ATTEMPTS_MAX: Final = 3
"""Attempts at one range."""
BACKTEST_SECONDS_MAX: Final = 6 * 3_600
"""Longest time of one back-test."""
BACKTEST_POLL_SECONDS: Final = 1.0
"""Interval at which an API server looks for back-tests to lead."""
BACKTEST_TASK_SECONDS: Final = 30.0
"""Longest time of one task, which then ends so that those of other tenants get their turn."""
BACKTESTS_AT_ONCE: Final = 4
"""Back-tests that one API server leads."""
BACKTEST_NICENESS: Final = 19
"""Nice value of tasks: decisions come first."""
