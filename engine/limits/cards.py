"""Amounts, cardholders, cards, holds and tombstones."""

from __future__ import annotations

from typing import Final

# Money
AMOUNT_MINOR_MAX: Final = 10**18 - 1
"""16 integer digits and 2 minor digits; fits a signed 64-bit integer."""
WIRE_AMOUNT_MINOR_MAX: Final = 10**12 - 1
"""ISO 8583 DE4 is n12."""

# Cards and controls
CONTROLS_MAX: Final = 32
"""Controls of one card."""
CONTROL_VALUES_MAX: Final = 500
"""Values in the list of one control."""
CVV2_FAILURES_PER_DAY: Final = 5
"""Wrong CVV2 values in a day after which authorizations with a CVV2 are declined without a check."""
CARD_VALID_MONTHS: Final = 36
"""Time from a card's creation to its expiry."""

# Cardholders
CARDHOLDER_CARDS_AT_ONCE: Final = 256
"""Cards of one cardholder that are changed concurrently: one batch of the router."""
CARDHOLDER_CHANGES_IN_ROW_MAX: Final = 4
"""Open changes of one cardholder that a request finishes before it gives up on its own change."""
CARDHOLDER_RESUME_SECONDS: Final = 20
"""Time that a request has to finish its change of a cardholder, or its issue of a card, before a sweeper
takes it over: longer than any command lives."""
CARDHOLDER_SWEEP_SECONDS: Final = 1.0
"""Interval between sweeps for interrupted changes."""
CARDHOLDER_SWEEP_MAX: Final = 20
"""Interrupted changes in one sweep."""

# Holds
HOLD_EXPIRY_DAYS_DEFAULT: Final = 7
"""Lifetime of a hold, unless its programme sets another one."""
HOLD_EXPIRY_DAYS_TRAVEL: Final = 30
"""Minimum lifetime of a hold at a travel merchant."""
HOLD_EXPIRY_DAYS_MAX: Final = 31
"""Longest lifetime of a hold that a programme can set."""

# Tombstones
TOMBSTONE_DAYS: Final = 30
"""Lifetime of a reversal that came before its original: longer than networks store and forward a message."""
TOMBSTONES_DELETED_MAX: Final = 16
"""Expired tombstones that one command deletes; more than one command leaves, so their number is bounded."""

# Renewal of cards
RENEWAL_DAYS: Final = 45
"""Days before the end of its last month at which a card is renewed."""
RENEWAL_SWEEP_SECONDS: Final = 60.0
"""Interval at which each API server searches for cards to renew."""
RENEWAL_SWEEP_MAX: Final = 500
"""Renewals in one sweep: cards are issued in large numbers, and thus expire in large numbers."""
RENEWALS_AT_ONCE: Final = 8
"""Renewals of one server at the same time, which leaves connections and owners to requests."""
RENEWAL_LEASE_SECONDS: Final = 3_600
"""Lease of one server on a renewal; a renewal that failed is tried again afterwards."""
RENEWAL_LEASES_KEPT_DAYS: Final = 90
"""Age at which the lease of a renewal that never succeeded is deleted; the card has expired by then."""
