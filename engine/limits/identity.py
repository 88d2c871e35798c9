"""Identity verification."""

from __future__ import annotations

from typing import Final

KYC_PENDING_DAYS: Final = 30
"""Time that a check waits for its inputs."""
KYC_PASSED_DAYS: Final = 730
"""Validity of a passed check, unless its document expires earlier; supervisors require a renewal every one to
five years, by risk."""
KYC_AGE_YEARS_MIN: Final = 18
"""Minimum age of a cardholder."""
KYC_ATTEMPTS_MAX: Final = 3
"""Evaluations of one check; until then, a document that cannot be read is requested again."""
KYC_EVALUATION_SECONDS: Final = 2.0
"""Time that a submission waits for the identity provider; afterwards the check goes to review and is
evaluated again later."""
KYC_RETRY_SECONDS_MIN: Final = 5
KYC_RETRY_SECONDS_MAX: Final = 3_600
"""Pauses between such evaluations, doubling from the first to the second."""
KYC_TRIES_MAX: Final = 12
"""Consecutive evaluations without a result, over more than two hours; then the check waits for a person."""
KYC_LEASE_SECONDS: Final = 60
"""Lease of one server on a due evaluation."""
KYC_SWEEP_SECONDS: Final = 2.0
"""Interval at which each API server searches for due and expired checks. Expired ones have already stopped
counting."""
KYC_SWEEP_MAX: Final = 50
"""Checks of each kind in one sweep."""
