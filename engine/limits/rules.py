"""Authorization rules, velocities and reports."""

from __future__ import annotations

from typing import Final

# Authorization rules
RULES_ACTIVE_MAX: Final = 50
"""Active rules of one programme, card product or card: they are all evaluated in each of its decisions."""
RULES_SHADOW_MAX: Final = 10
"""Shadow rules of the same."""
RULES_DRAFT_MAX: Final = 100
"""Drafts of the same: the owner keeps them in memory."""
RULE_CONDITIONS_MAX: Final = 16
"""Conditions of one rule, and of the filter of one velocity."""
RULE_VALUES_MAX: Final = 500
"""Values in the list of one condition."""
RULE_WINDOW_SECONDS_MIN: Final = 10
RULE_WINDOW_SECONDS_MAX: Final = 90 * 86_400
"""Bounds of a trailing window of a velocity."""
VELOCITY_EXACT_MAX: Final = 1_024
"""Purchases that one window of a velocity keeps one by one; older ones are merged into buckets."""
VELOCITY_BUCKET_ENTRIES: Final = 64
"""Purchases merged into one bucket."""
VELOCITY_BUCKETS_MAX: Final = 64
"""Buckets of one window; beyond it the two oldest are merged."""
VELOCITY_KEYS_MAX: Final = 4_096
"""Merchants or countries that one bucket tells apart; beyond it each purchase counts as another one."""
RULE_SETS_MAX: Final = 4_096
"""Size of the caches of compiled rules."""

# Matches and reports
RULE_MATCH_DAYS: Final = 400
"""Age at which a match of an authorization rule is deleted: a year, so that reports can compare seasons."""
RULE_REPORT_DAYS_MAX: Final = 92
"""Days of the window of one report."""
RULE_REPORT_MATCHES_MAX: Final = 200_000
"""Matches that one report reads: half a second. A report of more matches says that it is not complete."""
RULE_REPORT_VERSIONS_MAX: Final = 20
"""Versions in one report, the newest."""
RULE_REPORT_CODES_MAX: Final = 100
"""Category codes and countries of one version in a report, those with the most matches."""
RULE_REPORT_SAMPLES_MAX: Final = 100
"""Transactions of one version that a report names."""
RULE_CARD_AGE_DAYS_MAX: Final = 36_500
"""Largest card age that a condition of a rule may name."""
